#include <algorithm>
#include <cmath>
#include <functional>
#include <map>
#include <numeric>

#include "autograd/counted.hpp"
#include "autograd/random.hpp"
#include "data/table/times.hpp"
#include "data/text/printable.hpp"
#include "train/inspect/report_panels.hpp"
#include "train/inspect/values.hpp"
#include "train/measure/statistics.hpp"
#include "train/tasks/tables/table_task.hpp"

// What a report shows of a table's model: its errors, and on which columns its predictions rest.
namespace tapestry {
namespace {

constexpr std::int64_t most_rows = 10'000, at_once = 1024, permutations = 10;
constexpr std::size_t most_bins = 8, most_shown_columns = 30;

// Predictions of the rows of a split.
struct PredictedRows {
  std::vector<double> losses{};              // the terms of the loss
  std::vector<double> right{};               // of classes: 1 or 0
  std::vector<double> numbers{}, targets{};  // of numbers, in units of the target
  std::vector<double> highest{};             // of classes: the highest probability
};

PredictedRows predict(const TableTask& task, const Array& inputs, const Array& targets) {
  PredictedRows rows;
  const TargetColumn& target = task.data().target();
  const std::int64_t N = inputs.dim(0), F = inputs.dim(1);
  for (std::int64_t first = 0; first < N; first += at_once) {
    const std::int64_t count = std::min(at_once, N - first);
    const Array some = inputs.part(first * F, (first + count) * F).reshaped({count, F});
    const Array y = task.predicted(some).to(DType::float32);
    expect_finite(y);
    const std::int64_t V = y.dim(1);
    for (std::int64_t i = 0; i < count; ++i) {
      const auto scores = y.values<float>().subspan(i * V, V);
      if (!task.data().has_classes()) {
        const double wanted = targets.values<float>()[first + i];
        rows.losses.push_back(std::pow(scores[0] - wanted, 2));
        rows.numbers.push_back(target.mean + target.deviation * scores[0]);
        rows.targets.push_back(target.mean + target.deviation * wanted);
        continue;
      }
      const std::int32_t wanted = targets.values<std::int32_t>()[first + i];
      const auto predicted = std::ranges::max_element(scores) - scores.begin();
      rows.losses.push_back(-scores[wanted]);
      rows.right.push_back(predicted == wanted);
      rows.highest.push_back(std::exp(scores[predicted]));
    }
  }
  return rows;
}

double mean_of(const std::vector<double>& values) {
  return std::accumulate(values.begin(), values.end(), 0.0) / static_cast<double>(values.size());
}

// Returns the accuracy, or the root mean squared error in units of the target.
double quality(const TableTask& task, const PredictedRows& rows) {
  return task.data().has_classes()
             ? mean_of(rows.right)
             : std::sqrt(mean_of(rows.losses)) * task.data().target().deviation;
}
std::string quality_name(const TableTask& task) {
  return task.data().has_classes() ? "Accuracy" : "RMSE";
}

// Returns which inputs each column is encoded as: a number with its mask, or a category.
std::vector<std::vector<std::int64_t>> input_places(const TableColumns& columns) {
  std::vector<std::vector<std::int64_t>> places;
  std::int64_t number = 0, category = columns.numbers();
  for (const InputColumn& column : columns.inputs) {
    places.push_back({column.categories ? category++ : number++});
    if (column.has_mask) places.back().push_back(number++);
  }
  return places;
}

// --- permutation importance (Breiman 2001, "Random forests", section 10) ---

struct Importance {
  std::size_t column = 0;
  Confidence increase{};  // of the loss, over the rows, each with the mean of its permutations
  double quality = 0;     // after a permutation
};

class ImportanceMeter {
 public:
  ImportanceMeter(const TableTask& task, Array inputs, Array targets)
      : task_(task),
        inputs_(std::move(inputs)),
        targets_(std::move(targets)),
        places_(input_places(task.data().columns())),
        base_(predict(task, inputs_, targets_)) {}

  const PredictedRows& base() const { return base_; }

  // Exchanges a column's values among the rows `count` times, by streams from `first` on.
  Importance measure(std::size_t column, std::int64_t first, std::int64_t count) const {
    const std::int64_t N = inputs_.dim(0), F = inputs_.dim(1);
    std::vector<double> increases(N), qualities;
    for (std::int64_t n = first; n < first + count; ++n) {
      Random random(column, Stream::sample, static_cast<std::uint64_t>(n));
      std::vector<std::int64_t> order(N);
      std::iota(order.begin(), order.end(), 0);
      random.shuffle(order);
      Array changed = inputs_.clone();
      for (const std::int64_t place : places_[column])
        for (std::int64_t i = 0; i < N; ++i)
          changed.mutable_values<float>()[i * F + place] =
              inputs_.values<float>()[order[i] * F + place];
      const PredictedRows rows = predict(task_, changed, targets_);
      qualities.push_back(quality(task_, rows));
      for (std::int64_t i = 0; i < N; ++i)
        increases[i] += (rows.losses[i] - base_.losses[i]) / static_cast<double>(count);
    }
    return {column, confidence_of(estimate_of(increases)), mean_of(qualities)};
  }

  // Returns the columns, the most important first, of many those that one permutation chose.
  std::vector<Importance> all() const {
    std::vector<std::size_t> columns(places_.size());
    std::iota(columns.begin(), columns.end(), 0);
    if (columns.size() > most_shown_columns) {
      std::vector<double> increases;
      for (const std::size_t column : columns)
        increases.push_back(measure(column, permutations, 1).increase.value);
      std::ranges::stable_sort(columns, std::greater(), [&](auto j) { return increases[j]; });
      columns.resize(most_shown_columns);
    }
    std::vector<Importance> found;
    for (const std::size_t column : columns) found.push_back(measure(column, 0, permutations));
    std::ranges::stable_sort(found, std::greater(),
                             [](const Importance& one) { return one.increase.value; });
    return found;
  }

 private:
  const TableTask& task_;
  Array inputs_, targets_;
  std::vector<std::vector<std::int64_t>> places_;
  PredictedRows base_;
};

TablePanel importance_panel(const TableTask& task, const ImportanceMeter& meter,
                            const std::vector<Importance>& all, const std::string& split) {
  const TableColumns& columns = task.data().columns();
  const PredictedRows& base = meter.base();
  const std::string shown =
      all.size() < columns.inputs.size()
          ? fmt::format(" The {} most important of {} columns, by one more permutation.",
                        all.size(), columns.inputs.size())
          : "";
  TablePanel panel{
      .title = "Permutation importance",
      .caption = fmt::format(
          "How much the loss rises if the values of a column are exchanged among {}{}: the mean "
          "of {} permutations, with the 95 % interval of the mean over the rows. Of columns that "
          "say the same, each may seem unimportant.{}",
          counted(std::ssize(base.losses), "row"), split, permutations, shown),
      .rows = {
          {"Exchanged column", "Increase of the loss", "95 % interval", "Loss", quality_name(task)},
          {"(none)", "", "", fmt::format("{:.4g}", mean_of(base.losses)),
           fmt::format("{:.4g}", quality(task, base))}}};
  for (const auto& [column, increase, after] : all)
    panel.rows.push_back({printable_beginning(columns.inputs[column].name),
                          fmt::format("{:.3g}", increase.value),
                          fmt::format("{:.3g} to {:.3g}", increase.value - increase.margin,
                                      increase.value + increase.margin),
                          fmt::format("{:.4g}", mean_of(base.losses) + increase.value),
                          fmt::format("{:.4g}", after)});
  return panel;
}

// --- errors by the values of a column ---

struct Group {
  std::string name{};
  std::vector<std::int64_t> rows{};
  double low = 0;
};

// Divides rows by their numbers, ascending, into up to eight groups of about equal size; equal
// numbers are in one group.
std::vector<Group> groups_of(const std::vector<double>& numbers, std::vector<std::int64_t> rows,
                             const std::function<std::string(double)>& text) {
  std::ranges::stable_sort(rows, {}, [&](std::int64_t i) { return numbers[i]; });
  std::vector<std::size_t> first{0};  // of each run of equal numbers
  for (std::size_t i = 1; i < rows.size(); ++i)
    if (numbers[rows[i]] != numbers[rows[i - 1]]) first.push_back(i);
  std::vector<std::size_t> starts;
  const std::size_t bins = first.size() <= most_bins ? rows.size() : most_bins;
  for (const std::size_t i : first)
    if (starts.empty() || i * bins / rows.size() > starts.back() * bins / rows.size())
      starts.push_back(i);
  std::vector<Group> groups;
  for (std::size_t g = 0; g < starts.size() && !rows.empty(); ++g) {
    const std::size_t last = g + 1 < starts.size() ? starts[g + 1] : rows.size();
    const double low = numbers[rows[starts[g]]], high = numbers[rows[last - 1]];
    groups.push_back({low == high ? text(low) : fmt::format("{} to {}", text(low), text(high)),
                      {rows.begin() + starts[g], rows.begin() + last},
                      low});
  }
  return groups;
}

std::vector<Group> groups_of_numbers(const InputColumn& column, const Array& inputs,
                                     const std::vector<std::int64_t>& places) {
  const std::int64_t F = inputs.dim(1);
  std::vector<double> numbers;
  std::vector<std::int64_t> rows, missing;
  for (std::int64_t i = 0; i < inputs.dim(0); ++i) {
    const auto row = inputs.values<float>().subspan(i * F, F);
    numbers.push_back(row[places[0]]);
    (places.size() > 1 && row[places[1]] == 1 ? missing : rows).push_back(i);
  }
  std::vector<Group> groups = groups_of(numbers, rows, [&](double score) {
    const double number = unscaled(column.knots, score);
    if (!column.is_time()) return fmt::format("{:.4g}", number);
    constexpr double day_s = 86'400;
    return time_text({std::llround(number * day_s) * second_us});
  });
  if (!missing.empty()) groups.push_back({"missing", missing});
  return groups;
}

std::vector<Group> groups_of_categories(const InputColumn& column, const Array& inputs,
                                        std::int64_t place) {
  std::map<std::int64_t, Group> by_category;
  for (std::int64_t i = 0; i < inputs.dim(0); ++i) {
    const auto index = static_cast<std::int64_t>(inputs.values<float>()[i * inputs.dim(1) + place]);
    by_category[index].rows.push_back(i);
  }
  std::vector<Group> groups;
  for (auto& [index, group] : by_category) {
    group.name =
        index == 0 ? "missing or another" : printable_beginning((*column.categories)[index - 1]);
    groups.push_back(group);
  }
  std::ranges::stable_sort(groups, std::greater(),
                           [](const Group& group) { return group.rows.size(); });
  if (groups.size() <= most_bins) return groups;
  Group others{fmt::format("{} others", groups.size() - most_bins + 1)};
  for (std::size_t g = most_bins - 1; g < groups.size(); ++g)
    others.rows.insert(others.rows.end(), groups[g].rows.begin(), groups[g].rows.end());
  groups.resize(most_bins - 1);
  groups.push_back(others);
  return groups;
}

// Returns the losses of rows by the values of these columns.
TablePanel errors_panel(const TableTask& task, const ImportanceMeter& meter, const Array& inputs,
                        const std::vector<std::size_t>& chosen, const std::string& split) {
  TablePanel panel{
      .title = "Errors by column",
      .caption = fmt::format("The mean loss, with its 95 % interval, of {}{}, by the values of the "
                             "most important columns.",
                             counted(inputs.dim(0), "row"), split),
      .rows = {{"Column", "Values", "Rows", "Loss", quality_name(task)}}};
  const PredictedRows& all = meter.base();
  const auto places = input_places(task.data().columns());
  for (const std::size_t j : chosen) {
    const InputColumn& column = task.data().columns().inputs[j];
    const std::vector<Group> groups = column.categories
                                          ? groups_of_categories(column, inputs, places[j][0])
                                          : groups_of_numbers(column, inputs, places[j]);
    for (const Group& group : groups) {
      PredictedRows some;
      for (const std::int64_t i : group.rows) {
        some.losses.push_back(all.losses[i]);
        if (!all.right.empty()) some.right.push_back(all.right[i]);
      }
      const bool has_margin = some.losses.size() > 1;
      panel.rows.push_back({printable_beginning(column.name), group.name,
                            fmt::format("{}", some.losses.size()),
                            has_margin ? fmt::format("{:.3g} ± {:.2g}", mean_of(some.losses),
                                                     confidence_of(estimate_of(some.losses)).margin)
                                       : fmt::format("{:.3g}", mean_of(some.losses)),
                            fmt::format("{:.4g}", quality(task, some))});
    }
  }
  return panel;
}

// --- predictions and targets ---

// Returns a table with a row for each of up to eight ranges of targets and a column for each such
// range of predictions.
TablePanel predicted_and_true(const PredictedRows& rows, const TargetColumn& target,
                              const std::string& split) {
  std::vector<std::int64_t> all(rows.targets.size());
  std::iota(all.begin(), all.end(), 0);
  const auto text = [](double number) { return fmt::format("{:.4g}", number); };
  const std::vector<Group> groups = groups_of(rows.targets, all, text);
  TablePanel panel{.title = "Predicted and true values",
                   .caption = fmt::format(
                       "Numbers of rows by the true and the predicted {}, of {}{}. The color "
                       "shows the share of a row of this table.",
                       printable_beginning(target.name), counted(std::ssize(all), "row"), split),
                   .rows = {{"True ↓ Predicted →"}},
                   .shares = {{}}};
  for (std::size_t g = 0; g < groups.size(); ++g)
    panel.rows[0].push_back(g == 0 && groups.size() > 1 ? "below " + text(groups[1].low)
                                                        : "from " + text(groups[g].low));
  panel.rows[0].insert(panel.rows[0].end(), {"Rows", "Mean prediction", "RMSE"});
  for (const Group& group : groups) {
    std::vector<double> counts(groups.size());
    double sum = 0, squares = 0;
    for (const std::int64_t i : group.rows) {
      std::size_t g = groups.size() - 1;
      while (g > 0 && rows.numbers[i] < groups[g].low) --g;
      ++counts[g];
      sum += rows.numbers[i];
      squares += std::pow(rows.numbers[i] - rows.targets[i], 2);
    }
    const auto count = static_cast<double>(group.rows.size());
    std::vector<std::string> cells{group.name};
    std::vector<double> shares{0};
    for (const double one : counts) {
      cells.push_back(fmt::format("{}", one));
      shares.push_back(one / count);
    }
    cells.insert(cells.end(),
                 {fmt::format("{}", count), text(sum / count), text(std::sqrt(squares / count))});
    panel.rows.push_back(std::move(cells));
    panel.shares.push_back(std::move(shares));
  }
  return panel;
}

// Returns the accuracy by ranges of the highest probability.
TablePanel calibration_panel(const PredictedRows& rows, const std::string& split) {
  constexpr std::int64_t bins = 10;
  TablePanel panel{
      .title = "Calibration",
      .caption = fmt::format(
          "Of {}{}, by the probability of the predicted class: a calibrated model is right as "
          "often as this probability says.",
          counted(std::ssize(rows.right), "row"), split),
      .rows = {{"Probability", "Rows", "Mean probability", "Accuracy"}}};
  for (std::int64_t bin = 0; bin < bins; ++bin) {
    std::vector<double> probability, right;
    for (std::size_t i = 0; i < rows.right.size(); ++i) {
      if (std::clamp<std::int64_t>(std::ceil(rows.highest[i] * bins) - 1, 0, bins - 1) != bin)
        continue;
      probability.push_back(rows.highest[i]);
      right.push_back(rows.right[i]);
    }
    if (right.empty()) continue;
    panel.rows.push_back({fmt::format("{:.1f} to {:.1f}", 0.1 * bin, 0.1 * (bin + 1)),
                          fmt::format("{}", right.size()),
                          fmt::format("{:.3f}", mean_of(probability)),
                          fmt::format("{:.3f}", mean_of(right))});
  }
  return panel;
}

}  // namespace

// Returns panels of the test split, or of the validation split if there is none: errors of the
// first 10,000 rows, and of fewer rows, so that a report takes seconds, the importance of columns.
ReportPanels table_panels(TableTask& task) {
  const bool is_test = task.test_data() != nullptr;
  const auto& data =
      dynamic_cast<const TableDataset&>(is_test ? *task.test_data() : task.validation_data());
  const std::string split = is_test ? " of the test split" : " of the validation split";
  const auto first_rows = [&](std::int64_t count) {
    return batch_from(data, 0, std::min(count, data.size()));
  };
  const Batch rows = first_rows(most_rows);
  const PredictedRows predicted = predict(task, rows.inputs, rows.targets);
  ReportPanels panels;
  if (task.data().has_classes()) {
    panels = {confusion_matrix(class_predictions(data, at_once,
                                                 [&](const Batch& batch) {
                                                   return task.predicted(batch.inputs);
                                                 }),
                               task.data().target().classes),
              calibration_panel(predicted, split)};
  } else {
    panels = {predicted_and_true(predicted, task.data().target(), split)};
  }
  if (data.size() < 2) return panels;
  constexpr std::int64_t most_predictions = 200'000, fewest = 100, most = 2'000;
  const auto columns = std::ssize(task.data().columns().inputs);
  const std::int64_t passes =
      columns + permutations * std::min<std::int64_t>(columns, most_shown_columns);
  const Batch some = first_rows(std::clamp(most_predictions / passes, fewest, most));
  const ImportanceMeter meter(task, some.inputs, some.targets);
  const std::vector<Importance> all = meter.all();
  std::vector<std::size_t> chosen;
  for (std::size_t i = 0; i < std::min<std::size_t>(3, all.size()); ++i)
    chosen.push_back(all[i].column);
  panels.push_back(importance_panel(task, meter, all, split));
  panels.push_back(errors_panel(task, meter, some.inputs, chosen, split));
  return panels;
}

}  // namespace tapestry
