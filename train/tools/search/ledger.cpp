#include "train/tools/search/ledger.hpp"

#include "autograd/check.hpp"
#include "data/text/printable.hpp"

namespace tapestry {

JsonValue to_json(const SearchRun& run) {
  JsonValue line{{"steps", run.steps}, {"ended", run.failure.empty() ? "done" : run.failure}};
  if (run.failure.empty()) line["loss"] = run.loss;
  if (run.test_loss) line["test_loss"] = *run.test_loss;
  line["evaluations"] = run.evaluations;
  line["validation_examples"] = run.validation_examples;
  if (!run.effective.empty()) line["effective_xxh3"] = run.effective;
  if (!run.tried_before.empty()) line["tried_before"] = run.tried_before;
  line["parameters_xxh3"] = run.parameters;
  line["elapsed_s"] = run.elapsed_s;
  return line;
}

Ledger::Ledger(const Run& experiment, RunLock* lock) : path_(experiment.ledger()) {
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

SearchRun Ledger::recorded_run() const try {
  const JsonValue& line = lines_.at(next_ - 1);
  SearchRun run{.budget = line.at("budget").integer(),
                .steps = line.at("steps").integer(),
                .parameters = line.at("parameters_xxh3").get<std::string>(),
                .elapsed_s = line.at("elapsed_s").get<double>()};
  expect_input(0 <= run.steps && run.steps <= run.budget && run.elapsed_s >= 0,
               "{}:{}: steps is {}, elapsed_s {}; expected 0 to {}, and at least 0; restore the "
               "file, or start a new search",
               printable(path_), next_, run.steps, run.elapsed_s, run.budget);
  const std::string ended = line.at("ended").get<std::string>();
  if (ended == "done")
    run.loss = line.at("loss").get<double>();
  else
    run.failure = ended;
  if (line.contains("test_loss")) run.test_loss = line.at("test_loss").get<double>();
  run.evaluations = line.value("evaluations", std::int64_t{0});
  run.validation_examples = line.value("validation_examples", std::int64_t{0});
  run.effective = line.value("effective_xxh3", "");
  run.tried_before = line.value("tried_before", "");
  expect_input(
      0 <= run.evaluations && run.evaluations <= run.budget + 1,
      "{}:{}: evaluations is {}; expected 0 to {}; restore the file, or start a new search",
      printable(path_), next_, run.evaluations, run.budget + 1);
  return run;
} catch (const JsonValue::exception& error) {
  throw InputError(fmt::format("{}:{}: {}; restore the file, or start a new search",
                               printable(path_), next_, error.what()));
}

std::int64_t Ledger::interim_tests(std::int64_t planned) const {
  if (is_empty()) return planned;
  const JsonValue recorded = lines_.front().value("interim_tests", JsonValue(1));
  expect_input(recorded == JsonValue(1) || recorded == JsonValue(planned),
               "{}:1: interim_tests is {}, but this search has {}; restore its ledger, or start a "
               "new one with another --out",
               printable(path_), brief(recorded), planned);
  return recorded.integer();
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
