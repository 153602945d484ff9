#include <map>

#include "tests/support/process.hpp"
#include "train/commands/command_line.hpp"

namespace tapestry {

Finished run_here(const Words& given, const RunOptions& options) {
  Words words = "tapestry" + with_sets(given);
  std::vector<char*> arguments;
  for (std::string& word : words) arguments.push_back(word.data());
  const TemporaryFolder captured;
  const std::string out = captured.path("out"), err = captured.path("err");
  const fs::path before = fs::current_path();
  fs::current_path(options.folder);
  int status = 0;
  std::map<int, sighandler_t> handlers;  // which a training sets
  for (const int signal : {SIGHUP, SIGINT, SIGPIPE, SIGTERM, SIGUSR1, SIGXCPU, SIGXFSZ})
    handlers[signal] = std::signal(signal, SIG_DFL);
  for (const auto& [signal, handler] : handlers) std::signal(signal, handler);
  {
    const StreamToFile to_out(stdout, out), to_err(stderr, err);
    status = run_command_line(static_cast<int>(arguments.size()), arguments.data());
  }
  for (const auto& [signal, handler] : handlers) std::signal(signal, handler);
  fs::current_path(before);
  return {status, read_bytes(out), read_bytes(err), fmt::format("{}", fmt::join(words, " "))};
}

}  // namespace tapestry
