#include "train/tools/search/ledger.hpp"

#include "autograd/check.hpp"
#include "data/text/printable.hpp"

namespace tapestry {

std::string ledger_path(const Run& experiment) { return experiment.folder() + "/ledger.jsonl"; }

Ledger::Ledger(const Run& experiment, RunLock* lock) : path_(ledger_path(experiment)) {
  for (LineReader line(path_); line.next();) {
    const auto read = parse_line(line.text(), [](const JsonValue& value) { return value; });
    line.expect(read && read->is_object(), "not a JSON object");
    lines_.push_back(*read);
  }
  if (lock == nullptr) return;
  // Removes a line that was not written completely; 1 means that the file is not emptied.
  file_.emplace(*lock, path_);
  file_->open(1, [](const std::string&) { return true; });
}

std::optional<JsonValue> Ledger::recorded(const JsonValue& expected) {
  if (next_ == lines_.size()) return std::nullopt;
  const JsonValue& line = lines_[next_++];
  for (const auto& [name, value] : expected.items())
    expect_input(line.value(name, JsonValue()) == value,
                 "{}:{}: {} is {}, but this search records {}; restore its ledger, resume with the "
                 "version that began the search, or start a new one with another --out",
                 printable(path_), next_, name, brief(line.value(name, JsonValue())), brief(value));
  return line;
}

void Ledger::expect_end() const {
  expect_input(next_ == lines_.size(),
               "{}:{}: the ledger is of another search, because this one has ended before this "
               "line; restore its ledger, or start a new search with another --out",
               printable(path_), next_ + 1);
}

void Ledger::append(const JsonValue& line) {
  file_->write(line.dump(-1, ' ', false, JsonValue::error_handler_t::replace) + "\n");
  file_->sync();
  lines_.push_back(line);
  next_ = lines_.size();
}

}  // namespace tapestry
