#include "train/tools/doctor/exchanged_labels.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>

#include "train/tools/doctor/graph_reading.hpp"

namespace tapestry {
namespace {

constexpr std::int64_t most_rows_read = 5000, most_row_numbers = 4'000'000;  // of a split
constexpr std::int64_t most_places = 1 << 16;                                // of an example
constexpr std::int32_t most_classes = 200;
constexpr double least_share = 0.4;      // of a class that looks like another one
constexpr double least_evidence = 12;    // nats by which that is likelier than none, of two classes
constexpr double least_of_one = 2;       // and of each
constexpr double least_distance = 0.25;  // of two classes' predictions, in total variation

struct Row {
  std::vector<float> numbers{};  // or how often it has each token
  std::int32_t label = 0;
};
using Rows = std::vector<Row>;

std::int64_t width_of(const Array& read) {
  if (read.dtype() != DType::int32) return read.size();
  const auto tokens = read.values<std::int32_t>();
  return tokens.empty() ? 1 : 1 + *std::ranges::max_element(tokens);
}

std::vector<float> numbers_of(const Array& read, std::int64_t places) {
  std::vector<float> numbers(places);
  if (read.dtype() == DType::int32) {
    for (const std::int32_t token : read.values<std::int32_t>())
      if (token >= 0 && token < places) ++numbers[token];
  } else {
    const auto values = read.values<float>();
    std::copy_n(values.begin(), std::min(places, read.size()), numbers.begin());
  }
  return numbers;
}

std::int32_t label_of(const Batch& one) {
  const auto targets = one.targets.values<std::int32_t>();
  const auto given =
      std::ranges::find_if(targets, [](std::int32_t label) { return label != ignored_target; });
  return given == targets.end() ? ignored_target : *given;
}

// `places`: 0 where the examples themselves say how many.
Rows rows_of(const Dataset& data, std::int64_t places) {
  std::vector<Array> reads;
  Rows rows;
  const std::int64_t numbers =
      std::max<std::int64_t>(1, reading_of(data.batch(std::vector<std::int64_t>{0})).size());
  for (const std::int64_t example : evenly(
           data.size(), std::clamp<std::int64_t>(most_row_numbers / numbers, 1, most_rows_read))) {
    const Batch one = data.batch(std::vector{example});
    const std::int32_t label = label_of(one);
    if (label < 0 || label >= most_classes) continue;
    rows.push_back({.label = label});
    reads.push_back(reading_of(one));
  }
  if (places == 0)
    for (const Array& read : reads) places = std::max(places, width_of(read));
  if (places > most_places) return {};
  for (std::size_t i = 0; i < rows.size(); ++i) rows[i].numbers = numbers_of(reads[i], places);
  return rows;
}

// Predicts the class whose mean is the nearest, in deviations of each place.
class NearestMean {
 public:
  explicit NearestMean(Rows& training)
      : means_(training.front().numbers.size()), scales_(means_.size()) {
    for (const Row& row : training)
      for (std::size_t p = 0; p < means_.size(); ++p)
        means_[p] += row.numbers[p] / static_cast<float>(training.size());
    for (const Row& row : training)
      for (std::size_t p = 0; p < means_.size(); ++p)
        scales_[p] += std::pow(row.numbers[p] - means_[p], 2.0F);
    for (float& scale : scales_)
      scale = scale > 0 ? std::sqrt(static_cast<float>(training.size()) / scale) : 0;
    for (Row& row : training) {
      standardize(row);
      Class& own = classes_[row.label];
      own.sum.resize(means_.size());
      for (std::size_t p = 0; p < means_.size(); ++p) own.sum[p] += row.numbers[p];
      ++own.count;
    }
    for (auto& [label, one] : classes_) one.squares = product(one.sum, one.sum);
  }

  void standardize(Row& row) const {
    constexpr float most = 5;  // so that no rare place decides
    for (std::size_t p = 0; p < means_.size(); ++p)
      row.numbers[p] = std::clamp((row.numbers[p] - means_[p]) * scales_[p], -most, most);
  }

  // `left_out`: the row is one of training, whose class's mean is taken without it.
  std::int32_t predict(const Row& row, bool left_out) const {
    const double length = product(row.numbers, row.numbers);
    double least = std::numeric_limits<double>::infinity();
    std::int32_t nearest = row.label;
    for (const auto& [label, one] : classes_) {
      double count = one.count, with = product(row.numbers, one.sum), squares = one.squares;
      if (left_out && label == row.label) squares += length - 2 * with, with -= length, --count;
      if (count < 1) continue;
      const double distance = squares / (count * count) - 2 * with / count;
      if (distance < least) least = distance, nearest = label;
    }
    return nearest;
  }

 private:
  struct Class {
    std::vector<float> sum{};
    double count = 0, squares = 0;  // of the sum
  };

  static double product(const std::vector<float>& a, const std::vector<float>& b) {
    float sum = 0;
    for (std::size_t p = 0; p < a.size(); ++p) sum += a[p] * b[p];
    return sum;
  }

  std::vector<float> means_, scales_;
  std::map<std::int32_t, Class> classes_{};
};

// By label, how often each class is predicted.
using Predictions = std::map<std::int32_t, std::map<std::int32_t, double>>;

// What is predicted for training examples of a class.
struct Expected {
  double examples = 0;
  std::map<std::int32_t, double> shares{};  // by class, none of which is 0
};
using Expectations = std::map<std::int32_t, Expected>;

Expectations expectations_of(const Predictions& counts) {
  Expectations all;
  for (const auto& [label, predicted] : counts) {
    Expected& own = all[label];
    for (const auto& [other, count] : predicted) own.examples += count;
    const double sum = own.examples + 0.5 * static_cast<double>(counts.size());
    for (const auto& [other, unused] : counts) {
      const auto found = predicted.find(other);
      own.shares[other] = (0.5 + (found == predicted.end() ? 0 : found->second)) / sum;
    }
  }
  return all;
}

double distance(const std::map<std::int32_t, double>& a, const std::map<std::int32_t, double>& b) {
  double sum = 0;
  for (const auto& [label, share] : a) sum += std::abs(share - b.at(label)) / 2;
  return sum;
}

// A class whose examples look like those of another one in training.
struct Moved {
  std::int32_t like = 0;
  double share = 0, evidence = 0;  // of its examples; in nats
  double examples = 0;
};

// Of the counts of one label, the class that it looks like, if it is another one. Where training
// has fewer examples, what is expected is known no better than by these.
std::optional<Moved> moved(const std::map<std::int32_t, double>& counts, std::int32_t label,
                           const Expectations& expected) {
  double examples = 0;
  for (const auto& [predicted, count] : counts) examples += count;
  std::optional<Moved> best;
  const Expected& own = expected.at(label);
  for (const auto& [other, looks] : expected) {
    if (other == label || distance(own.shares, looks.shares) < least_distance) continue;
    const double weight = std::min(1.0, std::min(own.examples, looks.examples) / examples);
    for (int twentieths = 1; twentieths <= 20; ++twentieths) {
      const double share = twentieths / 20.0;
      Moved one{.like = other, .share = share, .examples = examples};
      for (const auto& [predicted, count] : counts) {
        const double before = own.shares.at(predicted),
                     now = share * looks.shares.at(predicted) + (1 - share) * before;
        one.evidence += weight * count * std::log(now / before);
      }
      if (!best || one.evidence > best->evidence) best = one;
    }
  }
  const bool is_moved = best && best->share >= least_share && best->evidence >= least_of_one;
  return is_moved ? best : std::nullopt;
}

std::optional<Fault> exchanged_in(const std::string& split, const Predictions& counts,
                                  const Expectations& expected) {
  std::map<std::int32_t, Moved> all;
  for (const auto& [label, predicted] : counts)
    if (expected.contains(label))
      if (const std::optional<Moved> one = moved(predicted, label, expected)) all[label] = *one;
  for (const auto& [label, one] : all) {
    const auto other = all.find(one.like);
    if (other == all.end() || one.evidence + other->second.evidence < least_evidence) continue;
    return Fault{
        fmt::format(
            "of the {} examples of the {} split with label {}, about {:.0f} % look like "
            "label {} in training, and of the {} with label {} about {:.0f} % like label {}",
            one.examples, split, label, 100 * one.share, one.like, other->second.examples, one.like,
            100 * other->second.share, other->second.like),
        "labels were exchanged, or those of the two splits were numbered by different lists",
        "compare some examples of both splits; where the classes are so by nature: --skip targets"};
  }
  return std::nullopt;
}

}  // namespace

std::optional<Fault> exchanged_labels(TrainingUnderTest& under_test) {
  if (!under_test.training_statistics().labels) return std::nullopt;
  Rows training = rows_of(under_test.task().training_data(), 0);
  if (training.empty()) return std::nullopt;
  const NearestMean classifier(training);
  Predictions known;
  for (const Row& row : training) ++known[row.label][classifier.predict(row, true)];
  const Expectations expected = expectations_of(known);
  for (const TrainingUnderTest::EvaluationSplit& split : under_test.evaluation_splits()) {
    Predictions counts;
    for (Row& row : rows_of(*split.data, std::ssize(training.front().numbers))) {
      classifier.standardize(row);
      ++counts[row.label][classifier.predict(row, false)];
    }
    if (auto fault = exchanged_in(split.name, counts, expected)) return fault;
  }
  return std::nullopt;
}

}  // namespace tapestry
