#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "data/table/scanner.hpp"

namespace tapestry {

// A record of a stream.
struct StreamedRecord {
  std::int64_t line = 1;             // the number of its first line
  std::string raw{};                 // its bytes, without the line end
  std::vector<std::string> cells{};  // trimmed, without quotes
};

// The records of a file, plain or gzip, or of the standard input, one after the other in constant
// memory: those of delimited text, as in Records, or lines. Empty lines of a table are left out.
class RecordStream final {
 public:
  // `path`: "-" is the standard input. `delimiter`: no_delimiter for lines, whose only cell is
  // trimmed. Throws InputError as InputFile does.
  RecordStream(std::string path, char delimiter);
  ~RecordStream();

  // Returns whether there is a record more, which it stores. Throws InputError with the line for
  // text that is not UTF-8, quotes as Scanner does, and a record of more than 16 MiB.
  bool next(StreamedRecord& record);

  // Returns the name of the input for messages.
  const std::string& name() const { return name_; }

 private:
  bool read_more();
  bool next_line_of_text(StreamedRecord& record);

  struct Source;
  std::string name_;
  char delimiter_;
  std::unique_ptr<Source> source_;
  std::string buffer_{};
  std::size_t begin_ = 0, checked_ = 0;  // where the rest begins; so many bytes are UTF-8
  std::int64_t line_ = 1;                // number of the line at begin_
  bool has_ended_ = false;
};

}  // namespace tapestry
