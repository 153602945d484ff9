#include <doctest/doctest.h>

#include "data/text/printable.hpp"
#include "tests/support/run_here.hpp"
#include "train/commands/command_line.hpp"

// What it takes to add a command: this class, and the line that registers it.
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

TEST_CASE("command: one that a source file registers is parsed, run and refused like the others") {
  CHECK(run_here("greet Ada --times 2 --loudly").status == 7);
  CHECK(greeted == "Ada!Ada!");
  CHECK(run_here("greet Ada").status == 7);  // nothing is left of the time before
  CHECK(greeted == "Ada");
  CHECK(run_here("greet").status == 2);
  CHECK(run_here("greet Ada --times 4").status == 2);
  CHECK(run_here("greet Ada --time 2").status == 2);
  CHECK(run_here("greet Ada Bob").status == 2);
  CHECK(run_here("gret").status == 2);
  CHECK(greeted == "Ada");
}

TEST_CASE("command: the help of every option with a value says what its default is") {
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

TEST_CASE("bug: commands that were shown to be typed had paths that a shell takes apart") {
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

}  // namespace
}  // namespace tapestry
