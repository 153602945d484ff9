#include "train/trainer/begin_task.hpp"

#include <algorithm>
#include <optional>

#include "autograd/counted.hpp"
#include "layers/module.hpp"
#include "train/config/keys.hpp"
#include "train/run/checkpoint.hpp"
#include "train/run/run.hpp"
#include "train/task_spec.hpp"

namespace tapestry {
namespace {

// Throws InputError if the adapters were trained with another scale, which changes their effect.
void expect_same_scale(const Config& before, const Config& config) {
  const bool continues = before[key::adapter_rank] > 0 && config[key::adapter_rank] > 0;
  config.expect(!continues || before[key::adapter_alpha] == config[key::adapter_alpha],
                key::adapter_alpha, "expected {}, with which the adapters of {} were trained",
                before[key::adapter_alpha], config[key::from]);
}

// Throws InputError if a key differs that determines what a model computes, or the shapes of most
// weights.
void expect_same_function(const Config& before, const Config& config) {
  for (const std::string name : {"model.activation", "model.heads", "model.layers", "model.norm",
                                 "model.positions", "model.rotary_pairs", "model.width"})
    if (config.has(name) && before.has(name))
      config.expect(config.value(name) == before.value(name), KeyInfo{name, {}, {}, {}},
                    "expected {}, with which the weights of {} were trained",
                    to_toml(before.value(name)), config[key::from]);
}

// Throws InputError if the model has learned positions, and config another number of them.
// Records the context of the model that the training begins with, if that is longer, for exports.
void check_context(const Config& before, const Config& config, Checkpoint& start) {
  const std::string name = "model.context";
  if (!config.has(name) || !before.has(name)) return;
  const bool is_learned =
      std::ranges::any_of(start.reader->entries(), [](const SafetensorsEntry& entry) {
        return entry.name.ends_with("position_embedding.weight");
      });
  const auto context = std::get<std::int64_t>(config.value(name)),
             theirs = std::get<std::int64_t>(before.value(name));
  config.expect(!is_learned || context == theirs, KeyInfo{name, {}, {}, {}},
                "expected {}, with which the learned positions of {} were trained", theirs,
                config[key::from]);
  if (context < theirs)
    start.metadata.try_emplace(key::from.name + "." + name, std::to_string(theirs));
}

// Returns how the model of the config may differ from the one that it begins with. Throws
// InputError for a model of another task than those that the config's task can begin with.
Differences allowed_differences(const Config& before, const Config& config) {
  Differences allowed{.new_adapters = true};
  const std::string &theirs = before[key::task], &own = config[key::task];
  if (theirs == own) return allowed;
  const Pretraining& pretraining = spec_of(config).pretraining();
  config.expect(pretraining.task == theirs, key::from, "is a run of the task {}; expected {}",
                theirs, own);
  config.expect(config.value(pretraining.kind.name) == Value(pretraining.own_kind),
                pretraining.kind, "expected \"{}\" with the weights of a {}; set it",
                pretraining.own_kind, theirs);
  allowed.file_has = pretraining.old_head;
  allowed.model_has = pretraining.new_head;
  return allowed;
}

}  // namespace

std::unique_ptr<Task> begin_task(const Config& config, Weights weights) {
  std::optional<InitialDryRun> dry_run;
  if (weights == Weights::dry_run) dry_run.emplace();
  if (config[key::from].empty())
    return make_task({.config = config, .assumes_text = weights == Weights::dry_run});
  Checkpoint start = load_trained_metadata(config[key::from]);
  const Config before = config_of(start);
  expect_same_scale(before, config);
  expect_same_function(before, config);
  check_context(before, config, start);
  const Differences allowed = allowed_differences(before, config);
  std::unique_ptr<Task> task = make_task(start, config);
  if (weights == Weights::there)
    restore_parameters(start, task->model(), allowed);
  else
    expect_parameters(start, task->model(), allowed);
  return task;
}

void check_training_keys(const Config& config, int ranks) {
  const std::int64_t batch = config[key::batch_size], micro_batches = config[key::micro_batches];
  expect_divides(config.origin(key::micro_batches.name), config.origin(key::batch_size.name));
  config.expect(config[key::adapter_rank] == 0 || !config[key::from].empty(), key::adapter_rank,
                "adapters need pretrained weights; add --from RUN");
  config.expect(config[key::early_stopping] == 0 || config[key::eval_every] > 0,
                key::early_stopping, "needs evaluations; set train.eval_every");
  const double factor = config[key::bad_step_factor];
  config.expect(factor == 0 || factor > 1, key::bad_step_factor,
                "skips normal steps; expected more than 1, or 0 to disable the check");
  if (micro_batches >= ranks) return;
  config.expect(batch >= ranks, key::batch_size,
                "a step of {} cannot be divided among {} ranks; start fewer processes",
                counted(batch, "example"), ranks);
  std::int64_t least = ranks;
  while (batch % least != 0) ++least;
  config.fail(key::micro_batches,
              fmt::format("{} for {} ranks; expected at least {}, which divides {} = {}",
                          counted(micro_batches, "micro-batch", "micro-batches"), ranks, least,
                          key::batch_size.name, batch));
}

}  // namespace tapestry
