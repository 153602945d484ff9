#pragma once

#include <doctest/doctest.h>
#include <fcntl.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <csignal>
#include <cstdlib>
#include <fstream>
#include <functional>
#include <sstream>
#include <string>
#include <thread>
#include <vector>

#include "autograd/check.hpp"
#include "autograd/sanitizer.hpp"
#include "tests/support/folder.hpp"

// What the tests of files and of the command line need: folders, files and processes.
namespace tapestry {

inline std::string read_bytes(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  require(file.good(), "test: cannot read {}", path);
  std::stringstream bytes;
  bytes << file.rdbuf();
  return bytes.str();
}

// A number that a campaign takes from an environment variable.
inline std::int64_t from_environment(const char* name, std::int64_t otherwise) {
  const char* text = std::getenv(name);
  return text ? std::atoll(text) : otherwise;
}

struct Finished {
  int status = 0;  // of exit, or 128 + the signal that killed it
  std::string out, err;
};

struct RunOptions {
  std::string folder = ".";         // to run in
  std::string input = "/dev/null";  // a file, for its standard input
  std::function<bool()> when = {};  // sends the signal as soon as this holds
  int signal = SIGKILL;
};

// Runs a program to its end, without a terminal, and returns what it wrote.
inline Finished run_program(const std::vector<std::string>& command,
                            const RunOptions& options = {}) {
  // Its tracer now and then falls over the threads of a program that ends; this process's own leaks
  // are looked for all the same.
  if (TAPESTRY_ADDRESS_SANITIZER) setenv("ASAN_OPTIONS", "detect_leaks=0", 1);
  const TemporaryFolder captured;
  const std::string out = captured.path("out"), err = captured.path("err");
  posix_spawnattr_t attributes;  // tests that nohup runs ignore SIGHUP, which is tested
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
  return {code, read_bytes(out), read_bytes(err)};
}

// tapestry ARGUMENTS.
inline Finished tapestry_run(const std::vector<std::string>& arguments,
                             const RunOptions& options = {}) {
  std::vector<std::string> command = {TAPESTRY_BINARY};
  if (*TAPESTRY_EMULATOR) command.insert(command.begin(), TAPESTRY_EMULATOR);
  command.insert(command.end(), arguments.begin(), arguments.end());
  return run_program(command, options);
}

// Returns the beginning of a command that runs tapestry in several processes.
inline std::vector<std::string> several_tapestries(int processes,
                                                   std::vector<std::string> launcher = {
                                                       "mpirun.openmpi", "--oversubscribe"}) {
  for (const char* allowed : {"OMPI_ALLOW_RUN_AS_ROOT", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM"})
    setenv(allowed, "1", 1);
  launcher.insert(launcher.end(), {"-n", std::to_string(processes), TAPESTRY_BINARY});
  return launcher;
}

// {"train.steps=3", "--resume"} -> {"--set", "train.steps=3", "--resume"}
inline std::vector<std::string> with_sets(const std::vector<std::string>& words) {
  std::vector<std::string> arguments;
  for (const std::string& word : words) {
    if (!word.starts_with('-') && word.find('=') != std::string::npos) arguments.push_back("--set");
    arguments.push_back(word);
  }
  return arguments;
}

inline std::vector<std::string> lines_of(const std::string& text) {
  std::vector<std::string> lines;
  std::istringstream stream(text);
  for (std::string line; std::getline(stream, line);) lines.push_back(line);
  return lines;
}

// The message of the InputError that `call` throws, checked to be one line; "" if it returns.
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

inline void check_says(const std::string& message, const std::vector<std::string>& parts) {
  for (const std::string& part : parts)
    CHECK_MESSAGE(message.find(part) != std::string::npos, "\"", message, "\" lacks \"", part,
                  "\"");
}

}  // namespace tapestry
