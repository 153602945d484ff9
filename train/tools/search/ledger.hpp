#pragma once

#include <optional>
#include <string>

#include "train/run/lines.hpp"
#include "train/tools/search/search.hpp"

namespace tapestry {

// Returns the members of a run's line that hold its result.
JsonValue to_json(const SearchRun& run);

// ledger.jsonl of an experiment: one JSON object per trained run and per decision, in order. A
// resumed search asks for the recorded lines first, in the same order, and then appends new ones.
class Ledger {
 public:
  // Reads the ledger of an experiment, to append to it if `lock`, its lock, is given. Throws
  // InputError for a line that is not a JSON object.
  Ledger(const Run& experiment, RunLock* lock);

  // Returns the next recorded line, or nothing after the last one. Throws InputError unless the
  // line has the members of `expected`: another search or version then recorded it.
  std::optional<JsonValue> recorded(const JsonValue& expected);

  // Returns the result in the last line of recorded(), which must be one of a run. Throws
  // InputError if a member is missing or wrong.
  SearchRun recorded_run() const;

  bool is_empty() const { return lines_.empty(); }
  // Returns the number of interim tests for which the search corrects: `planned` for a new search,
  // 1 for one that an earlier version began, which did not correct. Throws InputError for others.
  std::int64_t interim_tests(std::int64_t planned) const;
  // Throws InputError if recorded() did not return all lines: they are those of another search.
  void expect_end() const;

  // Appends a line and syncs it; needs the lock. Throws FileError, and FolderLost as RunLock does.
  void append(const JsonValue& line);

 private:
  std::string path_;
  std::optional<LinesFile> file_{};
  std::vector<JsonValue> lines_;
  std::size_t next_ = 0;
};

}  // namespace tapestry
