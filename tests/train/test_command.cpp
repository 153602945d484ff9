#include <doctest/doctest.h>

#include "tests/support/process.hpp"
#include "train/commands/command.hpp"
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

int run_here(std::vector<std::string> words) {
  words.insert(words.begin(), "tapestry");
  std::vector<char*> arguments;
  for (std::string& word : words) arguments.push_back(word.data());
  return run_command_line(static_cast<int>(arguments.size()), arguments.data());
}

TEST_SUITE_BEGIN("command");

TEST_CASE("command: one that a source file registers is parsed, run and refused like the others") {
  CHECK(run_here({"greet", "Ada", "--times", "2", "--loudly"}) == 7);
  CHECK(greeted == "Ada!Ada!");
  CHECK(run_here({"greet", "Ada"}) == 7);  // nothing is left of the time before
  CHECK(greeted == "Ada");
  CHECK(run_here({"greet"}) == 2);
  CHECK(run_here({"greet", "Ada", "--times", "4"}) == 2);
  CHECK(run_here({"greet", "Ada", "--time", "2"}) == 2);
  CHECK(run_here({"greet", "Ada", "Bob"}) == 2);
  CHECK(run_here({"gret"}) == 2);
  CHECK(greeted == "Ada");
}

TEST_SUITE_END();

}  // namespace
}  // namespace tapestry
