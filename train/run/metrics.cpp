#include "train/run/metrics.hpp"

#include <fcntl.h>

#include "train/run/line_reader.hpp"

namespace tapestry {

std::string MetricsLine::json() const {
  JsonValue object{{"step", step}, {"split", split}};
  if (const auto loss = values.find("loss"); loss != values.end()) object["loss"] = loss->second;
  object["elapsed_s"] = elapsed_s;
  for (const auto& [name, value] : values) object[name] = value;
  for (const auto& [name, signature] : signatures) object[name + "_signature"] = signature;
  for (const auto& [name, tensors] : checksums) object[name + "_xxh3"] = combined(tensors);
  return object.dump();
}

void LinesFile::open(std::int64_t step, const IsKept& is_kept) {
  std::int64_t kept = 0;
  if (step > 0)
    for (LineReader line(path_); line.next();)
      if (is_kept(line.text())) kept = line.end();
  lock_.expect_in_place();
  const FilePlace place = lock_.place(path_);
  file_.emplace(place, O_WRONLY | O_CREAT | O_APPEND);
  file_->truncate(kept);
  sync_folder_of(place);
}

void LinesFile::sync() {
  lock_.expect_in_place();
  file_->sync();
}

}  // namespace tapestry
