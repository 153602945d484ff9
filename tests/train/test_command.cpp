#include <doctest/doctest.h>

#include <algorithm>

#include "data/text/printable.hpp"
#include "tests/support/process.hpp"
#include "train/commands/command_line.hpp"
#include "train/commands/guide_pages.hpp"

// A command is added by this class and the line that registers it.
namespace tapestry {
namespace {

std::string greeted;

class Greet final : public Command {
 public:
  void declare(Arguments& arguments) override {
    arguments.place("NAME", name_, "whom");
    arguments.option("--times", times_, "how often", {.low = 1, .high = 3});
    arguments.flag("--loudly", loudly_, "or not");
  }

  int run() override {
    greeted.clear();
    for (std::int64_t i = 0; i < times_; ++i) greeted += name_ + (loudly_ ? "!" : "");
    return 7;
  }

 private:
  std::string name_;
  std::int64_t times_ = 1;
  bool loudly_ = false;
};

const RegisterCommand<Greet> registered("greet", "say a name");

TEST_SUITE_BEGIN("command");

TEST_CASE("command: a command is registered by one source") {
  CHECK(run_here("greet Ada --times 2 --loudly").status == 7);
  CHECK(greeted == "Ada!Ada!");
  CHECK(run_here("greet Ada").status == 7);  // nothing is left of the earlier line
  CHECK(greeted == "Ada");
  CHECK(run_here("greet").status == 2);
  CHECK(run_here("greet Ada --times 4").status == 2);
  CHECK(run_here("greet Ada --time 2").status == 2);
  CHECK(run_here("greet Ada Bob").status == 2);
  CHECK(run_here("gret").status == 2);
  CHECK(greeted == "Ada");
}

TEST_CASE("command: in the process of a test it has the status and output of the program") {
  for (const char* words : {"list", "--version", "train srot", "train sort --set train.steps=0",
                            "eval none", "export --help"}) {
    CAPTURE(words);
    const Finished here = run_here(words), program = tapestry_run(words);
    CHECK(here.status == program.status);
    CHECK(here.out == program.out);
    CHECK(here.err == program.err);
  }
}

TEST_CASE("command: the help of every option with a value has its default") {
  for (const auto& [name, type] : command_registry()) {
    if (name == "greet") continue;
    for (const OptionDescription& option : describe_command(name).options) {
      if (option.positional || option.flag || option.name == "--set") continue;
      CAPTURE(name);
      CAPTURE(option.name);
      CHECK((contains(option.help, "default") || contains(option.help, "required")));
    }
  }
}

TEST_CASE("bug: the guide printed links as Markdown if they wrap over two lines") {
  check_says(must(run_here("guide install")).out,
             {"instruction\nlevel [builds-and-packages#instruction-levels]"});
  for (const auto& [path, text] : guide_pages())
    for (const std::string& line : lines_of(must(run_here("guide {}", path)).out))
      if (!line.starts_with("    ")) CHECK_MESSAGE(line.find("](") == line.npos, path, ": ", line);
}

TEST_CASE("command: the guide finds a section by its name alone") {
  const std::string section = must(run_here("guide models-in-and-out#onnx")).out;
  CHECK(must(run_here("guide onnx")).out == section);
  CHECK(must(run_here("guide ONNX")).out == section);
  CHECK(must(run_here("guide attention")).out == must(run_here("guide learn/attention")).out);
  check_refused(run_here("guide conversations"), {"own-data-names#conversations"});
  check_refused(run_here("guide memory"), {"cpp-programs#size-start-and-memory"});
  check_refused(run_here("guide own"), {"own-data-tables", "own-models"});
  check_refused(run_here("guide reslts"), {"did you mean results?"});
}

TEST_CASE("bug: advised commands had paths that a shell splits") {
  for (const std::string path : {"runs/sort", "my run", "y$(touch pwned)", "it's", "a\nb\x1b[1m",
                                 "`id`", "l\xc3\xa4ufe", "b\\c\n", "'\n'", "*", ""}) {
    CAPTURE(path);
    const std::string word = shell_word(path);
    CHECK(word.find('\n') == std::string::npos);
    CHECK(run_program({"bash", "-c", "printf %s " + word}).out == path);
  }
  CHECK(shell_word("runs/sort-2") == "runs/sort-2");
  CHECK(shell_word("-x") == "./-x");
}

TEST_SUITE_END();

// Compares the manual page and the completion by bash with --help.

TEST_SUITE_BEGIN("command line");

// Returns the first words of the lines after `heading` in `tapestry [COMMAND] --help`.
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

TEST_CASE("manual: the page has every command, argument and option, and is valid roff") {
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

TEST_CASE("manual: bash completes commands, options and shipped configs") {
  const std::string script =
      "PATH=\"${1%/*}:$PATH\"; . \"" + source_path("train/commands/completion.bash") +
      "\"; COMP_WORDS=(tapestry \"${@:2}\"); "
      "COMP_CWORD=$(($# - 1)); _tapestry; printf '%s\\n' \"${COMPREPLY[@]}\"";
  const auto completed = [&](const Words& words) {
    return lines_of(run_program(Words("bash -c {} bash {}", script, paths::program) + words).out);
  };
  CHECK(completed({"gra"}) == Strings{"gradcheck"});
  CHECK(completed({"train", "clothes-v"}) == Strings{"clothes-vae", "clothes-vit"});
  CHECK(completed({"sample", "--top"}) == Strings{"--top-k", "--top-p"});
  CHECK(completed({"--plugin", "libmine.so", "gra"}) == Strings{"gradcheck"});
  CHECK(completed({"", ""}).front().empty());
  Strings options = completed({"train", "x", "--"}), known = options_of({"train"});
  std::ranges::sort(options);
  std::ranges::sort(known);
  CHECK(options == known);
}

TEST_SUITE_END();

}  // namespace
}  // namespace tapestry
