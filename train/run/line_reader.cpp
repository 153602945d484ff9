#include "train/run/line_reader.hpp"

#include "data/input_file.hpp"

namespace tapestry {

LineReader::LineReader(const std::string& path) {
  if (!has_file(path)) return;
  file_.open(path, std::ios::binary);
  record_read(path);
}

bool LineReader::next() {
  text_.clear();
  if (!file_.good()) {  // it was read to its end, and may have grown
    file_.clear();
    file_.seekg(end_);
  }
  std::int64_t bytes = 0;
  for (int byte = file_.get(); file_.good(); byte = file_.get()) {
    ++bytes;
    if (byte == '\n') {
      ++number_;
      end_ += bytes;
      if (bytes > max_bytes + 1) text_.clear();
      return true;
    }
    if (bytes <= max_bytes) text_ += static_cast<char>(byte);
  }
  return false;
}

}  // namespace tapestry
