#include <doctest/doctest.h>

#include <algorithm>

#include "tests/support/process.hpp"

// The manual page and the completion by bash against what the program says of itself.
namespace tapestry {
namespace {

TEST_SUITE_BEGIN("command line");

// Of `tapestry [COMMAND] --help`: the words that start its lines after `heading`.
std::vector<std::string> listed(const std::vector<std::string>& command,
                                const std::string& heading) {
  std::vector<std::string> arguments = command, names;
  arguments.push_back("--help");
  bool on = false;
  for (const std::string& line : lines_of(tapestry_run(arguments).out)) {
    if (on && line.starts_with("  ") && line[2] != ' ')
      names.push_back(line.substr(2, line.find(' ', 2) - 2));
    if (!line.starts_with(" ")) on = line == heading;
  }
  return names;
}

std::vector<std::string> options_of(const std::vector<std::string>& command) {
  std::vector<std::string> options = listed(command, "Options:");
  for (std::string& option : options) option = option.substr(option.find("--"));
  return options;
}

TEST_CASE("manual: the page names every command and option") {
  std::string page = read_bytes(TAPESTRY_SOURCE_DIR "/train/manual/tapestry.1");
  std::erase(page, '\\');
  const std::vector<std::string> commands = listed({}, "Subcommands:");
  REQUIRE(commands.size() > 10);
  for (const std::string& command : commands) {
    const std::size_t begin =
        std::min(page.find(" " + command + " "), page.find("\"" + command + " "));
    const std::size_t entry = std::min(begin, page.find(" " + command + "\n"));
    CHECK_MESSAGE(entry != std::string::npos, command);
    const std::string text = page.substr(entry, page.find(".TP", entry) - entry);
    for (const std::string& option : options_of({command}))
      if (option != "--help")
        CHECK_MESSAGE(text.find(option) != std::string::npos, command, " ", option);
  }
}

TEST_CASE("manual: bash completes commands, options, shipped configs") {
  const std::string script =
      "PATH=\"${1%/*}:$PATH\"; . \"" TAPESTRY_SOURCE_DIR
      "/train/manual/completion.bash\"; COMP_WORDS=(tapestry \"${@:2}\"); "
      "COMP_CWORD=$(($# - 1)); _tapestry; printf '%s\\n' \"${COMPREPLY[@]}\"";
  const auto completed = [&](const std::vector<std::string>& words) {
    std::vector<std::string> command = {"bash", "-c", script, "bash", TAPESTRY_BINARY};
    command.insert(command.end(), words.begin(), words.end());
    return lines_of(run_program(command).out);
  };
  CHECK(completed({"gra"}) == std::vector<std::string>{"gradcheck"});
  CHECK(completed({"train", "clothes-v"}) ==
        std::vector<std::string>{"clothes-vae", "clothes-vit"});
  CHECK(completed({"sample", "--top"}) == std::vector<std::string>{"--top-k", "--top-p"});
  CHECK(completed({"", ""}).front().empty());
  std::vector<std::string> options = completed({"train", "x", "--"}), known = options_of({"train"});
  std::ranges::sort(options);
  std::ranges::sort(known);
  CHECK(options == known);
}

TEST_SUITE_END();

}  // namespace
}  // namespace tapestry
