#include <algorithm>
#include <cmath>
#include <filesystem>
#include <set>

#include "data/text/text.hpp"
#include "train/commands/command.hpp"
#include "train/run/line_reader.hpp"
#include "train/run/metrics_line.hpp"
#include "train/run/run.hpp"
#include "train/run/terminal.hpp"

namespace tapestry {
namespace {
namespace fs = std::filesystem;

using Json = nlohmann::ordered_json;

// What one line of the table says of a run.
struct Summary {
  std::string name;
  std::int64_t parameters;
  Json evaluation;  // the last: step, loss, elapsed_s and the task's own figures, tests as test_…
};

// Adds what a test measured as "test_loss" and so on.
void add_test(const Json& test, Json& evaluation) {
  for (const auto& [name, value] : test.items())
    if (name != "step" && name != "split" && name != "elapsed_s")
      evaluation["test_" + name] = value;
}

// The last evaluation of a run, and the test after it. InputError where there is none, or where a
// line is damaged; a last line without its end is one that is being written.
Json last_evaluation(const Run& run) {
  std::error_code unseen;
  expect_input(fs::exists(run.folder(), unseen), "{}: no such run", run.folder());
  expect_input(fs::is_regular_file(run.metrics(), unseen),
               "{}: not a run: it holds no metrics.jsonl", run.folder());
  Json last;
  for (LineReader line(run.metrics()); line.next();) {
    const auto entry = parse_metrics_line(line.text());
    expect_input(
        entry.has_value(),
        "{}: line {}: not a line of metrics: an object with step, split and elapsed_s, of at "
        "most {} bytes",
        run.metrics(), line.number(), LineReader::max_bytes);
    if ((*entry)["split"] == "val") last = *entry;
    if ((*entry)["split"] == "test" && !last.is_null()) add_test(*entry, last);
  }
  expect_input(!last.is_null(), "{}: has not been evaluated yet", run.folder());
  return last;
}

Summary summarize(std::string name) {
  while (name.size() > 1 && name.ends_with('/')) name.pop_back();
  Json evaluation = last_evaluation(Run(name));
  return {name, count_parameters(load_checkpoint_head(trained_checkpoint(name))), evaluation};
}

// A number, or how one was computed; no checksum.
bool is_figure(const std::string& name, const Json& value) {
  return value.is_number() || (value.is_string() && name.ends_with("_signature"));
}

// The figures of any of the runs, the loss first, then in the order of the alphabet.
std::vector<std::string> figures_of(const std::vector<Summary>& runs) {
  std::set<std::string> names;
  for (const Summary& run : runs)
    for (const auto& [name, value] : run.evaluation.items())
      if (is_figure(name, value) && name != "step" && name != "split" && name != "elapsed_s" &&
          name != "loss")
        names.insert(name);
  std::vector<std::string> all = {"loss"};
  all.insert(all.end(), names.begin(), names.end());
  return all;
}

using Row = std::vector<std::string>;

Row row_of(const Summary& run, const std::vector<std::string>& figures) {
  Row row = {printable(run.name), fmt::format("{}", run.parameters),
             fmt::format("{}", run.evaluation["step"].get<std::int64_t>()),
             fmt::format("{:.0f}", run.evaluation["elapsed_s"].get<double>())};
  for (const std::string& figure : figures) {
    const Json value = run.evaluation.value(figure, Json());
    row.push_back(value.is_number()   ? fmt::format("{:.4f}", value.get<double>())
                  : value.is_string() ? value.get<std::string>()
                                      : "-");
  }
  return row;
}

// Columns as wide as their widest cell: names to the left, numbers to the right.
void print_table(const std::vector<Row>& rows) {
  std::vector<std::size_t> widths(rows.front().size());
  for (const Row& row : rows)
    for (std::size_t i = 0; i < row.size(); ++i) widths[i] = std::max(widths[i], row[i].size());
  for (const Row& row : rows) {
    say("{:<{}}", row.front(), widths.front());
    for (std::size_t i = 1; i < row.size(); ++i) say("  {:>{}}", row[i], widths[i]);
    say("\n");
  }
}

class Compare final : public Command {
 public:
  void declare(Arguments& arguments) override {
    arguments.places("RUN", runs_, "folders of runs");
    arguments.flag("--json", json_, "print one JSON object a run");
  }

  int run() override {
    std::vector<Summary> runs;
    for (const std::string& run : runs_) runs.push_back(summarize(run));
    if (json_) {
      for (const Summary& run : runs) {
        Json object{{"run", run.name}, {"parameters", run.parameters}};
        object.update(run.evaluation);
        say("{}\n", object.dump(-1, ' ', false, Json::error_handler_t::replace));
      }
      return 0;
    }
    const std::vector<std::string> figures = figures_of(runs);
    std::vector<Row> rows = {{"run", "parameters", "steps", "seconds"}};
    rows.front().insert(rows.front().end(), figures.begin(), figures.end());
    for (const Summary& run : runs) rows.push_back(row_of(run, figures));
    print_table(rows);
    return 0;
  }

 private:
  std::vector<std::string> runs_;
  bool json_ = false;
};

const RegisterCommand<Compare> compare_command("compare",
                                               "show the last evaluations of runs side by side");

}  // namespace
}  // namespace tapestry
