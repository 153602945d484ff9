#include "train/run/line_reader.hpp"

namespace tapestry {

LineReader::LineReader(const std::string& path) : file_(path, std::ios::binary) {}

bool LineReader::next() {
  text_.clear();
  too_long_ = false;
  std::int64_t bytes = 0;
  for (int byte = file_.get(); file_.good(); byte = file_.get()) {
    ++bytes;
    if (byte == '\n') {
      ++number_;
      end_ += bytes;
      return true;
    }
    too_long_ = bytes > max_bytes;
    if (!too_long_) text_ += static_cast<char>(byte);
  }
  return false;
}

}  // namespace tapestry
