#pragma once

#include "tests/support/process.hpp"
#include "train/commands/command_line.hpp"

namespace tapestry {

// While it lives, what is written to a standard stream goes to a file.
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

// Runs `tapestry WORDS` in this process, which knows the commands and tasks that tests register.
inline Finished run_here(const Words& given) {
  Words words = "tapestry" + with_sets(given);
  std::vector<char*> arguments;
  for (std::string& word : words) arguments.push_back(word.data());
  const TemporaryFolder folder;
  const std::string out = folder.path("out"), err = folder.path("err");
  int status = 0;
  {
    const StreamToFile to_out(stdout, out), to_err(stderr, err);
    status = run_command_line(static_cast<int>(arguments.size()), arguments.data());
  }
  return {status, read_bytes(out), read_bytes(err)};
}

}  // namespace tapestry
