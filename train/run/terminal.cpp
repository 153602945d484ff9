#include "train/run/terminal.hpp"

#include <cstdio>

#include "data/text/text.hpp"

namespace tapestry {
namespace {
bool silent = false;
}  // namespace

void keep_silent() { silent = true; }

void print_lines(std::string_view text) {
  if (silent) return;
  const std::string shown = printable_lines(text);
  std::fwrite(shown.data(), 1, shown.size(), stdout);
}

void complain(std::string_view message) {
  const std::string line = fmt::format("tapestry: {}\n", printable(message));
  std::fputs(line.c_str(), stderr);  // which may be closed: the exit status says it still
}

void erase_line() { std::fputs("\r\033[K", stdout); }

}  // namespace tapestry
