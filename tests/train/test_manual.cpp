#include <doctest/doctest.h>

#include <algorithm>

#include "tests/support/process.hpp"

// The manual page and the completion by bash against what the program says of itself.
namespace tapestry {
namespace {

TEST_SUITE_BEGIN("command line");

// Of `tapestry [COMMAND] --help`: the words that start its lines after `heading`.
Strings listed(const Words& command, const std::string& heading) {
  Strings names;
  bool on = false;
  for (const std::string& line : lines_of(tapestry_run(command + "--help").out)) {
    if (on && line.starts_with("  ") && line[2] != ' ')
      names.push_back(line.substr(2, line.find(' ', 2) - 2));
    if (!line.starts_with(" ")) on = line == heading;
  }
  return names;
}

Strings options_of(const Words& command) {
  Strings options = listed(command, "Options:");
  for (std::string& option : options) option = option.substr(option.find("--"));
  return options;
}

TEST_CASE("manual: the page names every command, argument and option, and roff takes it") {
  const std::string source = tapestry_run("manual").out;
  std::string page = source;
  std::erase(page, '\\');
  const Strings commands = listed({}, "Subcommands:");
  REQUIRE(commands.size() > 10);
  for (const std::string& command : commands) {
    const std::size_t entry = page.find("\n.TP\nfB" + command);
    CHECK_MESSAGE(entry != std::string::npos, command);
    const std::string text = page.substr(entry + 4, page.find("\n.TP", entry + 4) - entry - 4);
    for (const std::string& option : options_of({command}))
      if (option != "--help") CHECK_MESSAGE(contains(text, option), command, " ", option);
  }
  CHECK(contains(page, "fBtrainfR fICONFIGfR\n"));
  CHECK(contains(page, "fBcomparefR fIRUN...fR\n"));
  for (const char* section : {".TH TAPESTRY 1", ".SH NAME", ".SH EXIT STATUS", ".SH ENVIRONMENT"})
    CHECK(contains(source, section));
}

TEST_CASE("manual: bash completes commands, options, shipped configs") {
  const std::string script =
      "PATH=\"${1%/*}:$PATH\"; . \"" TAPESTRY_SOURCE_DIR
      "/train/commands/completion.bash\"; COMP_WORDS=(tapestry \"${@:2}\"); "
      "COMP_CWORD=$(($# - 1)); _tapestry; printf '%s\\n' \"${COMPREPLY[@]}\"";
  const auto completed = [&](const Words& words) {
    return lines_of(run_program(Words("bash -c {} bash {}", script, TAPESTRY_BINARY) + words).out);
  };
  CHECK(completed({"gra"}) == Strings{"gradcheck"});
  CHECK(completed({"train", "clothes-v"}) == Strings{"clothes-vae", "clothes-vit"});
  CHECK(completed({"sample", "--top"}) == Strings{"--top-k", "--top-p"});
  CHECK(completed({"", ""}).front().empty());
  Strings options = completed({"train", "x", "--"}), known = options_of({"train"});
  std::ranges::sort(options);
  std::ranges::sort(known);
  CHECK(options == known);
}

TEST_SUITE_END();

}  // namespace
}  // namespace tapestry
