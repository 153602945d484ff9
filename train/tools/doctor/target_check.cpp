#include <fmt/format.h>

#include <algorithm>
#include <set>
#include <unordered_map>

#include "autograd/checksum.hpp"
#include "train/tools/doctor/check.hpp"

// A check that targets that are tokens of a row are the next tokens of its inputs.
namespace tapestry {
namespace {

struct TokenPlaces {
  double same = 0, second_next = 0, own_row = 0, other_row = 0;
};
// Returns the fractions of targets that equal the input at the same place, the input two
// places later, any input of the row, and any input of the next row of the batch.
TokenPlaces places_of_targets(const Batch& batch) {
  const std::int64_t T = batch.inputs.dim(1);
  const auto inputs = batch.inputs.values<std::int32_t>();
  const auto targets = batch.targets.values<std::int32_t>();
  TokenPlaces found;
  double count = 0;
  for (std::int64_t row = 0; row < std::ssize(inputs); row += T) {
    const std::int64_t next = (row + T) % std::ssize(inputs);
    const std::set own(inputs.begin() + row + 1, inputs.begin() + row + T);
    const std::set other(inputs.begin() + next + 1, inputs.begin() + next + T);
    for (std::int64_t t = 0; t + 2 < T; ++t) {
      const std::int32_t target = targets[row + t];
      if (target == ignored_target || targets[row + t + 1] == ignored_target) continue;
      ++count;
      found.same += target == inputs[row + t];
      found.second_next += target == inputs[row + t + 2];
      found.own_row += own.contains(target);
      found.other_row += other.contains(target);
    }
  }
  for (double* share : {&found.same, &found.second_next, &found.own_row, &found.other_row})
    *share /= std::max(1.0, count);
  return found;
}

// Returns the fault if some targets are not the next tokens, or if most are other tokens of their
// row. Other targets are assumed to be no next tokens by design.
std::optional<Fault> misplaced(const Batch& batch, double next) {
  constexpr double all_but_rounding = 0.999;
  if (next >= all_but_rounding) return std::nullopt;
  const TokenPlaces found = places_of_targets(batch);
  const std::string shares = fmt::format(
      "{:.1f} % of the targets are the next token of the inputs, {:.1f} % the token at their own "
      "position, {:.1f} % the next but one",
      100 * next, 100 * found.same, 100 * found.second_next);
  const char* advice = "target t of a row must be its input t + 1";
  if (next > 0.5) return Fault{shares, "some targets are of another row or position", advice};
  if (std::max(found.same, found.second_next) > 0.9)
    return Fault{shares, "the targets are off by one", advice};
  if (found.own_row > 0.8 && found.other_row < found.own_row / 2)
    return Fault{shares, "the targets are the tokens of their row in another order", advice};
  return std::nullopt;
}

std::uint64_t hash_of(std::span<const std::int32_t> tokens) {
  Checksum sum;
  sum.add(std::as_bytes(tokens));
  return sum.value();
}

// Returns the fault of rows whose targets are the next tokens of other rows; none if more than a
// tenth of the rows are repeated.
std::optional<Fault> of_other_rows(const Dataset& data) {
  constexpr std::int64_t most_rows = 20'000, most_compared = 100;
  std::unordered_map<std::uint64_t, std::int64_t> row_of_inputs;
  const std::vector<std::int64_t> rows = evenly(data.size(), most_rows);
  for (const std::int64_t row : rows) {
    const Batch one = data.batch(std::vector{row});
    row_of_inputs.emplace(hash_of(one.inputs.values<std::int32_t>().subspan(1)), row);
  }
  if (10 * row_of_inputs.size() < 9 * rows.size()) return std::nullopt;
  const std::vector<std::int64_t> compared = evenly(data.size(), most_compared);
  std::vector<std::pair<std::int64_t, std::int64_t>> others;
  for (const std::int64_t row : compared) {
    const Batch one = data.batch(std::vector{row});
    const auto found = row_of_inputs.find(
        hash_of(one.targets.values<std::int32_t>().first(one.targets.size() - 1)));
    if (found != row_of_inputs.end() && found->second != row)
      others.emplace_back(row, found->second);
  }
  if (2 * others.size() < compared.size()) return std::nullopt;
  return Fault{
      fmt::format("the targets of {} of {} examples are the next tokens of another "
                  "example: those of example {} belong to example {}",
                  others.size(), compared.size(), others.front().first, others.front().second),
      "the targets were shuffled, or are paired with the wrong inputs",
      "take inputs and targets of an example from one row"};
}

}  // namespace

CheckResult check_targets(TrainingUnderTest& under_test) {
  constexpr std::int64_t most_rows = 256;
  const Dataset& data = under_test.task().training_data();
  if (!has_token_targets(data.batch(std::vector<std::int64_t>{0})))
    return {.said = "the targets are not tokens of a row", .skipped = true};
  const Batch some = examples_of(data, evenly(data.size(), most_rows)).batch;
  const double next = share_of_next_tokens(some);
  if (const auto fault = misplaced(some, next)) return {.fault = fault};
  if (next > 0.5) return {.said = "each target is the next token"};
  return {.said = "the targets are not the next tokens", .fault = of_other_rows(data)};
}

}  // namespace tapestry
