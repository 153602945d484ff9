#include "train/tasks/language/toy_sequence.hpp"

#include <algorithm>

#include "autograd/argmax.hpp"
#include "autograd/dry_run.hpp"
#include "autograd/ops/losses.hpp"
#include "train/config/keys.hpp"
#include "train/config/option_keys.hpp"
#include "train/tasks/initialized.hpp"
#include "train/tasks/transformer_keys.hpp"

namespace tapestry {
namespace {

const Choice<ToyTask> kind{"data.kind",
                           ToyTask::sort,
                           "what to do with a sequence",
                           {{"sort", ToyTask::sort},
                            {"reverse", ToyTask::reverse},
                            {"copy", ToyTask::copy},
                            {"addition", ToyTask::addition}}};
const Key<std::int64_t> length{
    "data.length", 8, "symbols of a sequence, or digits of each number", {.low = 1, .high = 512}};
const Key<std::int64_t> alphabet{
    "data.alphabet",
    10,
    "different symbols: 0-9, then a-z",
    {.low = 2, .high = 36, .used_if = {kind.is(ToyTask::sort, ToyTask::reverse, ToyTask::copy)}}};
const Key<std::int64_t> examples{
    "data.examples", 100'000, "training sequences", {.low = 1, .high = 1e9}};
const Key<std::int64_t> held_back{
    "data.held_back", 1000, "sequences to validate on, never trained on", {.low = 1, .high = 1e6}};

std::vector<KeyInfo> keys() {
  std::vector<KeyInfo> all = decoder_only_keys();
  all.insert(all.end(), {kind, length, alphabet, examples, held_back});
  return all;
}

ToySequences sequences(const Config& config, Split split) {
  const ToyOptions options{.task = config[kind],
                           .length = config[length],
                           .alphabet = config[alphabet],
                           .examples = config[split == Split::train ? examples : held_back],
                           .seed = seed_of(config),
                           .split = split};
  return with_keys(config, {{"length", length, "raise it"}}, [&] { return ToySequences(options); });
}

// How many rows of targets are the argmax of their logits throughout. Greedy decoding from the
// prompt gives the right answer exactly when every such step is right.
double exact_matches(const Array& logits, const Array& targets) {
  const std::int64_t B = targets.dim(0), T = targets.dim(1), V = logits.dim(2);
  const Array scores = logits.to(DType::float32);
  if (is_dry_run()) return 0;
  const auto target = targets.values<std::int32_t>();
  double matches = 0;
  for (std::int64_t b = 0; b < B; ++b) {
    bool right = true;
    for (std::int64_t i = b * T; i < (b + 1) * T; ++i) {
      const std::int32_t wanted = target[i];
      right &=
          wanted == ignored_target || argmax(scores.values<float>().subspan(i * V, V)) == wanted;
    }
    matches += right;
  }
  return matches;
}

Transformer make_model(const Config& config, const ToySequences& data) {
  const TransformerOptions options =
      transformer_options(config, data.vocabulary().size(), data.context());
  return initialised(config, [&](Random& init) { return Transformer(options, init); });
}

const RegisterTask<ToySequence> registered{
    "toy-sequence", "a decoder-only transformer on built-in sequences", keys};

}  // namespace

ToySequence::ToySequence(const TaskSetup& setup)
    : training_(sequences(setup.config, Split::train)),
      validation_(sequences(setup.config, Split::validation)),
      model_(make_model(setup.config, training_)) {
  key::expect_no_path(setup.config);
}

Loss ToySequence::loss(const Batch& batch, const Pass& pass) {
  const Tensor logits = model_.forward(batch.inputs, pass.training ? pass.noise : nullptr);
  const Tensor total = cross_entropy(logits, batch.targets, {.mean = false});
  MetricSums averages{{"loss", {total.item(), batch.count}}};
  if (!pass.training)
    averages["exact_match"] = {exact_matches(logits.value(), batch.targets),
                               static_cast<double>(batch.targets.dim(0))};
  return {total, averages};
}

}  // namespace tapestry
