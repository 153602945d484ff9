#include <fmt/format.h>

#include <algorithm>

#include "data/text/pairs.hpp"
#include "train/doctor/comparison.hpp"
#include "train/doctor/dependence.hpp"
#include "train/doctor/gate.hpp"
#include "train/doctor/graph_reading.hpp"
#include "train/doctor/next_tokens.hpp"
#include "train/settings/keys.hpp"

// Whether targets belong to the inputs that they stand beside.
namespace tapestry {
namespace {

constexpr std::int64_t first_look = 256, last_look = 2048, fewest = 32;
constexpr double all_but_rounding = 0.999;
constexpr double least_dependence = 5;  // deviations

// Of token by token: each target is the token that comes next, or none is by rule.
std::optional<Fault> misplaced(const NextTokens& found) {
  const std::string all = fmt::format(
      "{:.1f} % of the targets are the token that comes next in the inputs, {:.1f} % the one in "
      "their own place, {:.1f} % the next but one",
      100 * found.next, 100 * found.same, 100 * found.second_next);
  const char* advice = "give as target t of a row what its input t + 1 is";
  if (found.next >= all_but_rounding) return std::nullopt;
  if (found.next > 0.5) return Fault{all, "some targets are of another row or place", advice};
  if (std::max(found.same, found.second_next) > 0.9)
    return Fault{all, "the targets are off by one", advice};
  if (found.own_row > 0.8 && found.other_row < found.own_row / 2)
    return Fault{all, "the targets are the tokens of their row in another order", advice};
  return std::nullopt;
}

// What of one example the model reads, apart from what it has to say.
Array read_of(const Batch& batch) {
  if (const auto* graph = std::any_cast<GraphPart>(&batch.besides))
    return graph_reading(batch, *graph);
  const auto* source = std::any_cast<SourceTokens>(&batch.besides);
  return source ? source->tokens : batch.inputs;
}

bool says_what_it_reads(const Comparison& seen, const Examples& examples) {
  return seen.kind != Comparison::Kind::cross_entropy && seen.kind != Comparison::Kind::unknown &&
         seen.targets.size() == examples.batch.inputs.size() &&
         std::ranges::equal(seen.targets.values<float>(), examples.batch.inputs.values<float>());
}

// So many at most, evenly among all.
std::vector<std::int64_t> spread(std::int64_t size, std::int64_t most) {
  const std::int64_t count = std::min(size, most);
  std::vector<std::int64_t> numbers;
  for (std::int64_t i = 0; i < count; ++i) numbers.push_back(i * size / count);
  return numbers;
}

// Of so many examples' inputs with their targets, in deviations.
double dependence_of(const Dataset& data, const std::vector<std::int64_t>& numbers,
                     std::uint64_t seed) {
  std::vector<Array> reads, says;
  for (const std::int64_t number : numbers) {
    const Batch one = data.batch(std::vector{number});
    reads.push_back(read_of(one));
    says.push_back(one.targets);
  }
  return dependence(likeness(reads), likeness(says), seed);
}

}  // namespace

// What a few examples do not tell, more may.
GateVerdict check_targets(Patient& patient) {
  const Dataset& data = patient.task().training_data();
  const Examples two = patient.training_examples(2);
  if (says_what_it_reads(compare_outputs(patient.task(), patient.config(), two), two))
    return {.said = "the targets are the inputs"};
  GateVerdict verdict;
  if (const Examples all = examples_of(data, spread(data.size(), first_look));
      has_token_targets(all.batch)) {
    const NextTokens found = next_tokens(all.batch);
    verdict.fault = misplaced(found);
    if (verdict.fault) return verdict;
    verdict.said = found.next > 0.5 ? "each target is the next token; " : "";
  }
  if (data.size() < fewest) {
    verdict.said += fmt::format("too few examples ({}) to compare them", data.size());
    verdict.skipped = verdict.said.starts_with("too");
    return verdict;
  }
  double known = 0;
  std::int64_t look = first_look;
  for (; look <= last_look; look *= 2) {
    known = dependence_of(data, spread(data.size(), look), seed_of(patient.config()));
    if (known >= least_dependence || look >= data.size()) break;
  }
  const std::int64_t count = std::min({look, last_look, data.size()});
  verdict.said += fmt::format(
      "inputs and targets of {} examples belong together, by {:.0f} "
      "deviations",
      count, known);
  if (known < least_dependence)
    verdict.fault = Fault{
        fmt::format(
            "the inputs of {} examples tell nothing of their targets: pairs taken at random "
            "belong together as well ({:.1f} deviations; {:.0f} are wanted)",
            count, known, least_dependence),
        "the targets were shuffled, or stand beside the wrong inputs",
        "look at some examples; where only a finer look can tell, pass this by: --skip targets"};
  return verdict;
}

}  // namespace tapestry
