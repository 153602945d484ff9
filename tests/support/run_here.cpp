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
  {
    const StreamToFile to_out(stdout, out), to_err(stderr, err);
    status = run_command_line(static_cast<int>(arguments.size()), arguments.data());
  }
  fs::current_path(before);
  return {status, read_bytes(out), read_bytes(err), fmt::format("{}", fmt::join(words, " "))};
}

}  // namespace tapestry
