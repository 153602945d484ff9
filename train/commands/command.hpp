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

struct KeyInfo;

// The arguments of a command, each bound to a variable. Text that is not of the variable's type, or
// is out of range, is an error before the command runs.
class Arguments {
 public:
  struct AllowedRange {
    std::int64_t low = 0, high = std::numeric_limits<std::int64_t>::max();
  };

  explicit Arguments(CLI::App& app) : app_(app) {}

  // Declare positional arguments: a required one, or a list.
  void place(const std::string& name, std::string& value, const std::string& help);
  void places(const std::string& name, std::vector<std::string>& values, const std::string& help,
              bool required = true);
  // Declare an option "--name"; the value of the variable is the default.
  void option(const std::string& name, std::string& value, const std::string& help);
  void option(const std::string& name, std::int64_t& value, const std::string& help,
              AllowedRange range);
  // Declares an option that may be repeated.
  void option(const std::string& name, std::vector<std::string>& values, const std::string& type,
              const std::string& help);
  void flag(const std::string& name, bool& value, const std::string& help);
  // Declares an option whose text is passed to `set`, once or, if `repeated`, each time. The help
  // shows `type`: "N"; if it is empty, a type that is chosen by the name.
  void option(const std::string& name, const std::string& type,
              std::function<void(const std::string&)> set, const std::string& help,
              bool repeated = false);
  // Declares an option that sets a key: "--total-steps" appends search.total_steps=TEXT to the
  // overrides. If the key holds a list, the option may be repeated.
  void setting(const KeyInfo& key, std::vector<std::string>& overrides);
  // Declares an option of earlier versions, which fails with the message "NAME: WHAT". The help
  // does not list it.
  void moved(const std::string& name, const std::string& what);

  // Declare arguments that several commands have: CONFIG or RUN, --set and so on.
  void config(std::string& value);
  void run(std::string& value);
  void adapter(std::string& value);  // RUN's additional --adapter, see load_trained_with()
  void overrides(std::vector<std::string>& values);
  void threads(std::int64_t& value);

 private:
  CLI::App& app_;
};

// Exit statuses; 0 means success.
inline constexpr int failed_status = 1, wrong_input_status = 2;
inline constexpr int interrupted_status = 130;  // stopped by a signal, with a checkpoint written

// A command of the program. Its source file registers it.
class Command {
 public:
  virtual ~Command() = default;
  virtual void declare(Arguments& arguments) = 0;
  virtual int run() = 0;  // returns the exit status; throws InputError for wrong input
};

struct CommandType {
  std::string help;
  std::function<std::unique_ptr<Command>()> make;
};

// Returns the commands by name. A name of two words, such as "tokenizer train", is that of a
// command in a group.
std::map<std::string, CommandType>& command_registry();

template <class C>
struct RegisterCommand {
  RegisterCommand(const std::string& name, const std::string& help) {
    command_registry()[name] = {help, [] { return std::make_unique<C>(); }};
  }
};

}  // namespace tapestry
