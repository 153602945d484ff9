#pragma once

#include <cstdint>
#include <functional>
#include <limits>
#include <map>
#include <memory>
#include <string>
#include <vector>

namespace CLI {
class App;
}

namespace tapestry {

// Binds what may stand behind a command to variables; text that is not of a variable's type, or out
// of its range, is refused before the command runs.
class Arguments {
 public:
  struct AllowedRange {
    std::int64_t low = 0, high = std::numeric_limits<std::int64_t>::max();
  };

  explicit Arguments(CLI::App& app) : app_(app) {}

  // Named by their place: one that is required, or a list of them.
  void place(const std::string& name, std::string& value, const std::string& help);
  void places(const std::string& name, std::vector<std::string>& values, const std::string& help,
              bool required = true);
  // Named by "--name"; their values are the defaults.
  void option(const std::string& name, std::string& value, const std::string& help);
  void option(const std::string& name, std::int64_t& value, const std::string& help,
              AllowedRange range);
  void option(const std::string& name, std::vector<std::string>& values, const std::string& type,
              const std::string& help);  // may be repeated
  void flag(const std::string& name, bool& value, const std::string& help);
  // What is given by "--name" goes to `set` as it is written, once or, if repeated, each time.
  // `type` is shown in the help: "INT".
  void option(const std::string& name, const std::string& type,
              std::function<void(const std::string&)> set, const std::string& help,
              bool repeated = false);

  // CONFIG and RUN, which most commands begin with, and --set, which changes a config's keys.
  void config(std::string& value);
  void run(std::string& value);
  void adapter(std::string& value);  // --adapter, what load_trained_with() adds to a run
  void overrides(std::vector<std::string>& values);
  void threads(std::int64_t& value);

 private:
  CLI::App& app_;
};

// What a command ends with.
inline constexpr int failed_status = 1, wrong_input_status = 2;
inline constexpr int interrupted_status = 130;  // by a signal, with a checkpoint written

// What the program can be told to do. Each one's source file declares and registers it.
class Command {
 public:
  virtual ~Command() = default;
  virtual void declare(Arguments& arguments) = 0;
  virtual int run() = 0;  // the exit status; wrong input is InputError
};

struct CommandType {
  std::string help;
  std::function<std::unique_ptr<Command>()> make;
};

// By what is typed; two words, as in "tokenizer train", are a command of a group.
std::map<std::string, CommandType>& command_registry();

template <class C>
struct RegisterCommand {
  RegisterCommand(const std::string& name, const std::string& help) {
    command_registry()[name] = {help, [] { return std::make_unique<C>(); }};
  }
};

}  // namespace tapestry
