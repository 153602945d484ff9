#include "train/run/terminal.hpp"

#include <cstdio>

#include "data/text/text.hpp"

namespace tapestry {

void print_lines(std::string_view text) {
  const std::string shown = printable_lines(text);
  std::fwrite(shown.data(), 1, shown.size(), stdout);
}

void complain(std::string_view message) {
  fmt::print(stderr, "tapestry: {}\n", printable(message));
}

void erase_line() { std::fputs("\r\033[K", stdout); }

}  // namespace tapestry
