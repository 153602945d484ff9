#pragma once

#include <optional>
#include <string>

#include "train/run/lines.hpp"

namespace tapestry {

// Returns the path of ledger.jsonl in the folder of an experiment.
std::string ledger_path(const Run& experiment);

// ledger.jsonl of an experiment: one JSON object per trained run and per decision, in order. A
// resumed search asks for the recorded lines first, in the same order, and then appends new ones.
class Ledger {
 public:
  // Reads the ledger of the locked folder. Throws InputError for a line that is not a JSON object.
  explicit Ledger(RunLock& lock);

  // Returns the next recorded line, or nothing after the last one. Throws InputError unless the
  // line has the members of `expected`: another search or version then recorded it.
  std::optional<JsonValue> recorded(const JsonValue& expected);

  bool is_empty() const { return lines_.empty(); }
  // Throws InputError if recorded() did not return all lines: they are those of another search.
  void expect_end() const;

  // Appends a line and syncs it. Throws FileError, and FolderLost as RunLock does.
  void append(const JsonValue& line);

 private:
  std::string path_;
  LinesFile file_;
  std::vector<JsonValue> lines_;
  std::size_t next_ = 0;
};

}  // namespace tapestry
