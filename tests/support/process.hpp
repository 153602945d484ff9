#pragma once

#include <doctest/doctest.h>
#include <fcntl.h>
#include <fmt/ranges.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cctype>
#include <chrono>
#include <csignal>
#include <cstdlib>
#include <fstream>
#include <functional>
#include <initializer_list>
#include <sstream>
#include <string>
#include <string_view>
#include <thread>
#include <type_traits>
#include <vector>

#include "autograd/check.hpp"
#include "autograd/sanitizer.hpp"
#include "tests/support/folder.hpp"
#include "tests/support/paths.hpp"

// Folders, files and processes for tests of the command line.
namespace tapestry {

// Returns a number from an environment variable.
inline std::int64_t from_environment(const char* name, std::int64_t otherwise) {
  const char* text = std::getenv(name);
  return text ? std::atoll(text) : otherwise;
}

struct Finished {
  int status = 0;  // of exit, or 128 + the signal that killed it
  std::string out, err;
  std::string command = {};
};

struct RunOptions {
  std::string folder = ".";         // to run in
  std::string input = "/dev/null";  // a file, for its standard input
  std::function<bool()> when = {};  // sends the signal as soon as this returns true
  int signal = SIGKILL;
};

// Runs a program to its end without a terminal, and returns its output.
inline Finished run_program(const Strings& command, const RunOptions& options = {}) {
  // Its tracer sometimes fails on threads of a program that ends; this process is still checked for
  // leaks.
  if (TAPESTRY_ADDRESS_SANITIZER) setenv("ASAN_OPTIONS", "detect_leaks=0", 1);
  const TemporaryFolder captured;
  const std::string out = captured.path("out"), err = captured.path("err");
  posix_spawnattr_t attributes;  // tests run by nohup ignore SIGHUP, which is tested
  posix_spawnattr_init(&attributes);
  sigset_t hang_up;
  sigemptyset(&hang_up);
  sigaddset(&hang_up, SIGHUP);
  posix_spawnattr_setsigdefault(&attributes, &hang_up);
  posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETSIGDEF);
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  constexpr int flags = O_WRONLY | O_CREAT | O_TRUNC;
  posix_spawn_file_actions_addopen(&actions, STDIN_FILENO, options.input.c_str(), O_RDONLY, 0);
  posix_spawn_file_actions_addopen(&actions, STDOUT_FILENO, out.c_str(), flags, 0600);
  posix_spawn_file_actions_addopen(&actions, STDERR_FILENO, err.c_str(), flags, 0600);
  posix_spawn_file_actions_addchdir_np(&actions, options.folder.c_str());
  std::vector<char*> arguments;
  for (const std::string& word : command) arguments.push_back(const_cast<char*>(word.c_str()));
  arguments.push_back(nullptr);
  pid_t child = 0;
  const int failure =
      posix_spawnp(&child, arguments[0], &actions, &attributes, arguments.data(), environ);
  posix_spawn_file_actions_destroy(&actions);
  posix_spawnattr_destroy(&attributes);
  require(failure == 0, "test: cannot run {}", command.front());

  int status = 0;
  bool waiting = static_cast<bool>(options.when);
  while (waitpid(child, &status, waiting ? WNOHANG : 0) == 0) {
    if (options.when()) {
      kill(child, options.signal);
      waiting = false;
    } else {
      std::this_thread::sleep_for(std::chrono::microseconds(200));
    }
  }
  const int code = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
  return {code, read_bytes(out), read_bytes(err), fmt::format("{}", fmt::join(command, " "))};
}

// The words of a command line: a list, or a text that is split at spaces before its {} are
// replaced. Lists are joined by +.
class Words : public Strings {
 public:
  Words() = default;
  Words(const std::string& text) {
    std::istringstream stream(text);
    for (std::string word; stream >> word;) push_back(word);
  }
  Words(const char* text) : Words(std::string(text)) {}
  template <class First, class... More>
  Words(const char* text, const First& first, const More&... more) : Words(text) {
    Strings values = {fmt::format("{}", first), fmt::format("{}", more)...};
    auto value = values.begin();
    for (std::string& word : *this)
      for (std::size_t at = 0; (at = word.find("{}", at)) != std::string::npos; ++value) {
        require(value != values.end(), "test: too few values of {}", text);
        word.replace(at, 2, *value);
        at += value->size();
      }
    require(value == values.end(), "test: too many values of {}", text);
  }
  Words(std::initializer_list<std::string> words) : vector(words) {}
  Words(const Strings& words) : vector(words) {}
  friend Words operator+(Words words, const Words& more) {
    words.insert(words.end(), more.begin(), more.end());
    return words;
  }
};

// {"train.steps=3", "--resume"} -> {"--set", "train.steps=3", "--resume"}
inline Words with_sets(const Words& words) {
  Words arguments;
  for (const std::string& word : words) {
    const std::size_t name = word.find_first_not_of("abcdefghijklmnopqrstuvwxyz0123456789_.");
    const bool set = name != 0 && name != std::string::npos && word[name] == '=' &&
                     std::islower(static_cast<unsigned char>(word[0]));
    if (set && (arguments.empty() || arguments.back() != "--set")) arguments.push_back("--set");
    arguments.push_back(word);
  }
  return arguments;
}

// Runs tapestry WORDS, with "key=value" for --set key=value. TAPESTRY_SEED sets the seed of
// trainings, to see their distance from a test's bound.
inline Finished tapestry_run(const Words& words, const RunOptions& options = {}) {
  const Words emulator = paths::emulator;
  Words all = emulator + Words{paths::program} + with_sets(words);
  const char* seed = std::getenv("TAPESTRY_SEED");
  if (seed && words.front() == "train") all = all + Words("--set seed={}", seed);
  return run_program(all, options);
}

template <class Value>
concept Argument = !std::is_convertible_v<Value, RunOptions>;

template <Argument... Values>
Finished tapestry_run(const char* text, const Values&... values) {
  return tapestry_run(Words(text, values...));
}

// Redirects a standard stream to a file during its lifetime.
class StreamToFile {
 public:
  StreamToFile(FILE* stream, const std::string& path) : stream_(stream) {
    std::fflush(stream_);
    before_ = dup(fileno(stream_));
    const int file = open(path.c_str(), O_WRONLY | O_CREAT | O_TRUNC, 0600);
    dup2(file, fileno(stream_));
    close(file);
  }
  ~StreamToFile() {
    std::fflush(stream_);
    dup2(before_, fileno(stream_));
    close(before_);
  }
  StreamToFile(const StreamToFile&) = delete;
  StreamToFile& operator=(const StreamToFile&) = delete;

 private:
  FILE* stream_;
  int before_ = -1;
};

// Does the same in this process, which has the commands and tasks of tests, and is faster for short
// commands. It obeys only the folder of the options.
Finished run_here(const Words& words, const RunOptions& options = {});
template <Argument... Values>
Finished run_here(const char* text, const Values&... values) {
  return run_here(Words(text, values...));
}

// A folder in which commands are run.
class CommandFolder : public TemporaryFolder {
 public:
  using TemporaryFolder::TemporaryFolder;
  Finished run(const Words& words, RunOptions options = {}) const {
    options.folder = path();
    return tapestry_run(words, options);
  }
  template <Argument... Values>
  Finished run(const char* text, const Values&... values) const {
    return run(Words(text, values...));
  }
  Finished here(const Words& words) const { return run_here(words, {.folder = path()}); }
  template <Argument... Values>
  Finished here(const char* text, const Values&... values) const {
    return here(Words(text, values...));
  }
};

// Returns the beginning of a command that runs tapestry in several processes.
inline Strings several_tapestries(int processes,
                                  Strings launcher = {"mpirun.openmpi", "--oversubscribe"}) {
  for (const char* allowed : {"OMPI_ALLOW_RUN_AS_ROOT", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM"})
    setenv(allowed, "1", 1);
  launcher.insert(launcher.end(), {"-n", std::to_string(processes), paths::program});
  return launcher;
}

inline Strings lines_of(const std::string& text) {
  Strings lines;
  std::istringstream stream(text);
  for (std::string line; std::getline(stream, line);) lines.push_back(line);
  return lines;
}

// Returns the message of the InputError that `call` throws, which must be one line; "" if it
// returns.
template <class Call>
std::string message_of(Call call) {
  try {
    call();
  } catch (const InputError& error) {
    const std::string message = error.what();
    CHECK_MESSAGE(message.find('\n') == std::string::npos, "more than one line: ", message);
    return message;
  }
  return "";
}

inline bool contains(std::string_view text, std::string_view part) {
  return text.find(part) != std::string_view::npos;
}

inline void check_says(const std::string& message, const Strings& parts) {
  for (const std::string& part : parts)
    CHECK_MESSAGE(message.find(part) != std::string::npos, "\"", message, "\" lacks \"", part,
                  "\"");
}

// Checks that `call` throws an InputError whose message is one line with all the parts that follow.
#define CHECK_ERROR(call, ...) check_says(message_of([&] { (void)(call); }), {__VA_ARGS__})

// Checks that a program ended with status 0, and returns it.
inline Finished must(Finished finished) {
  INFO(finished.command, "\n", finished.out, finished.err);
  REQUIRE(finished.status == 0);
  return finished;
}

// Runs tapestry, checks that it ends with status 0, and returns its output.
inline std::string must_run(const Words& words, const RunOptions& options = {}) {
  return must(tapestry_run(words, options)).out;
}
template <Argument... Values>
std::string must_run(const char* text, const Values&... values) {
  return must_run(Words(text, values...));
}

// Checks that a program ended with status 0 and printed all `parts`.
inline void check_prints(const Finished& finished, const Strings& parts) {
  INFO(finished.command, "\n", finished.out, finished.err);
  CHECK(finished.status == 0);
  check_says(finished.out, parts);
}

// Checks that a program failed, with one line on stderr that has all `parts`.
inline void check_fails(const Finished& finished, const Strings& parts, int status = 2) {
  INFO(finished.command, "\n", finished.out, finished.err);
  CHECK(finished.status == status);
  CHECK(lines_of(finished.err).size() == 1);
  check_says(finished.err, parts);
}

// Checks that a program was refused, and returns its line.
inline std::string refused(const Finished& finished) {
  check_fails(finished, {});
  return finished.err;
}

// Checks also that it is a message of tapestry, and that nothing was printed.
inline void check_refused(const Finished& finished, const Strings& parts) {
  check_fails(finished, parts);
  INFO(finished.command, "\n", finished.err);
  CHECK(finished.out.empty());
  CHECK(finished.err.starts_with("tapestry: "));
}

// A wrong command and the parts of its message.
struct Refusal {
  Words words = {};
  Strings parts = {};
};

// Returns `text` with the first `from` replaced; requires that there is one.
inline std::string replaced(std::string text, const std::string& from, const std::string& to) {
  const std::size_t at = text.find(from);
  require(at != std::string::npos, "test: no {}", from);
  return text.replace(at, from.size(), to);
}
inline void replace_in(const std::string& path, const std::string& from, const std::string& to) {
  const std::string bytes = replaced(read_bytes(path), from, to);
  std::ofstream(path, std::ios::binary) << bytes;
}

}  // namespace tapestry
