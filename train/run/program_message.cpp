#include "train/run/program_message.hpp"

#include <array>
#include <string_view>
#include <utility>

namespace tapestry {
namespace {

void replace_all(std::string& text, std::string_view before, std::string_view after) {
  for (auto at = text.find(before); at != text.npos; at = text.find(before, at + after.size()))
    text.replace(at, before.size(), after);
}

// Names data in memory, which a program has given without a path: 'data.path = "/memory/x": …'.
void name_memory(std::string& message) {
  constexpr std::string_view key = "data.path = \"", folder = "/memory", name = "data in memory";
  for (auto at = message.find(folder); at != message.npos; at = message.find(folder, at + 1)) {
    const auto end = at + folder.size();
    const bool begins = at == 0 || std::string_view(" \"(").find(message[at - 1]) != key.npos,
               has_name = end < message.size() && message[end] == '/';
    if (!begins || (end < message.size() && !has_name && message[end] != ':')) continue;  // a path
    message.replace(at, folder.size() + has_name, has_name ? "data in memory, " : name);
    const auto quote = message.find("\": ", at);
    if (quote == message.npos || at < key.size() || !message.substr(0, at).ends_with(key)) continue;
    message.erase(quote, 1).erase(at - key.size(), key.size());
    replace_all(message, "leave out this key", "leave out these data");
  }
}

}  // namespace

std::string message_for_program(std::string message) {
  // What messages say to a user of the command line, and to a program; the longest texts come
  // first.
  using Pair = std::pair<std::string_view, std::string_view>;
  constexpr std::array replaced{
      Pair{"--set: ", ""},
      Pair{"--set ", ""},
      Pair{"resume N of them with --seeds N --resume", "resume one of them"},
      Pair{"add --resume to `tapestry train`", "resume its training"},
      Pair{"leave out --resume", "do not resume it"},
      Pair{"another --out", "another folder"},
      Pair{" with --out", ""},
      Pair{"add --from RUN", "begin with those of a run"},
      Pair{" (init: --label COLUMN)", ""},
  };
  name_memory(message);
  for (const auto& [before, after] : replaced) replace_all(message, before, after);
  if (message.ends_with('\n')) message.pop_back();
  return message;
}

}  // namespace tapestry
