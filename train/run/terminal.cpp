#include "train/run/terminal.hpp"

#include <poll.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <span>

#include "data/json.hpp"
#include "data/text/printable.hpp"

namespace tapestry {
namespace {
bool silent = false, json_only = false;
std::string own_words = "tapestry";

std::string_view variable(const char* name) {
  const char* value = std::getenv(name);
  return value ? value : "";
}

}  // namespace

void keep_silent() { silent = true; }

void print_lines(std::string_view text) {
  if (silent) return;
  const std::string shown = printable_lines(text);
  std::fwrite(shown.data(), 1, shown.size(), json_only ? stderr : stdout);
}

bool print_bytes(std::string_view bytes) {
  static const bool is_terminal = isatty(STDOUT_FILENO) != 0;
  if (is_terminal)
    print_lines(bytes);
  else if (!silent)
    std::fwrite(bytes.data(), 1, bytes.size(), stdout);
  return std::ferror(stdout) == 0;
}

void leave_output_to_json() { json_only = true; }

void print_json(const JsonValue& object) {
  if (silent) return;
  const std::string line =
      printable_lines(object.dump(-1, ' ', false, JsonValue::error_handler_t::replace)) + "\n";
  std::fwrite(line.data(), 1, line.size(), stdout);
}

void complain(std::string_view message) {
  const std::string line = fmt::format("tapestry: {}\n", printable(message));
  std::fputs(line.c_str(), stderr);  // standard error may be closed; the exit status remains
}

bool is_reader_gone() {
  pollfd output{.fd = STDOUT_FILENO, .events = POLLOUT, .revents = 0};
  return poll(&output, 1, 0) > 0 && (output.revents & (POLLERR | POLLHUP)) != 0;
}

std::int64_t live_columns() {
  const std::string_view kind = variable("TERM");
  if (json_only || isatty(STDOUT_FILENO) == 0 || kind.empty() || kind == "dumb") return 0;
  winsize size{};
  return ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col > 0 ? size.ws_col : 80;
}

bool shows_blocks() {
  for (const char* name : {"LC_ALL", "LC_CTYPE", "LANG"})
    if (const std::string_view value = variable(name); !value.empty())
      return value.find("UTF-8") != value.npos || value.find("utf8") != value.npos;
  return false;
}

void set_own_program(const std::vector<std::string>& words) {
  const std::string name = std::filesystem::path(words.front()).filename().string();
  own_words = name == "tapestry" ? name : shell_word(words.front());
  for (const std::string& word : std::span(words).subspan(1))
    own_words += " " + (word.starts_with("--") ? word : shell_word(word));
}

const std::string& own_program() { return own_words; }

void erase_line() { std::fputs("\r\033[K", stdout); }

}  // namespace tapestry
