#pragma once

#include <memory>

#include "autograd/kernels/matmul.hpp"
#include "optim/schedule.hpp"
#include "train/config/config.hpp"
#include "train/config/parameter_names.hpp"

// The config keys that every task shares.
namespace tapestry::key {

// Their defaults and help stand in common_keys.cpp: in a header, every source that includes it
// compiles them.
extern const Key<std::string> task, name, data_path;
// What a config requires; of a training, the loaded plug-ins that it uses (task_spec.cpp).
extern const Key<std::string> plugin;
extern const Key<std::int64_t> seed;
// The rules by which data are read and split. Stored configs that lack the key have the rules of 1
// (resolved_config()), and a resumed run keeps its own.
extern const Key<std::int64_t> data_rules;
extern const Key<std::string> data_source;  // for tasks that need a file

extern const Key<std::string> optimizer;  // a registered one
extern const Key<double> learning_rate, final_learning_rate, clip_norm;
extern const Choice<Decay> schedule;
extern const Key<std::int64_t> warmup_steps, decay_steps, cooldown_steps;
extern const Key<std::vector<std::string>> groups;

extern const Key<std::int64_t> adapter_rank;
extern const Key<double> adapter_alpha, adapter_dropout;
extern const Key<std::vector<std::string>> adapter_targets;

extern const Key<std::string> from;
extern const Key<std::vector<std::string>> trainable;
extern const Key<std::int64_t> steps, batch_size, micro_batches, eval_every, eval_batch_size,
    checkpoint_every, log_every, threads, early_stopping, max_bad_steps;
extern const Key<bool> shard_optimizer, tensorboard, samples, check_finite;
extern const Choice<MatmulPrecision> precision;
extern const Key<double> average_decay, min_delta, time_limit, bad_step_factor;

extern const Key<std::string> expected_metric, expected_data, expected_source;
extern const Key<double> expected_value;

// Returns the keys above, with the settings of every optimizer, and the task's own keys in their
// sections.
std::vector<KeyInfo> with_common_keys(const std::vector<KeyInfo>& task_keys);

// Returns the key of an optimizer's setting: optim.<name>.
std::string of_optimizer(const std::string& setting);

}  // namespace tapestry::key

namespace tapestry {

struct Parameter;
class Optimizer;

std::uint64_t seed_of(const Config& config);  // returns the value of key::seed

// Returns whether averages of the weights are evaluated: by train.average_decay or the optimizer.
bool averages_weights(const Config& config);
// Return the config's optimizer with its settings, and the schedule of its learning rate. Throws
// InputError for an invalid group of optim.groups, and one that matches none of the parameters.
std::unique_ptr<Optimizer> make_optimizer(const Config& config, std::vector<Parameter*> parameters);
Schedule make_schedule(const Config& config);

// A term ½ λ ‖θ‖² of the training loss.
struct L2Term {
  const Parameter* parameter;  // θ
  double factor;               // λ
};
// Returns those of a task's groups and, after them, of optim.groups that have an L2 term. Throws
// InputError as make_optimizer() does.
std::vector<ParameterGroup> l2_groups(const Config& config, std::vector<std::string> groups);
// Returns the terms of such groups, of which the last that matches counts, without those of factor
// 0 and fixed parameters.
std::vector<L2Term> l2_terms(const std::vector<ParameterGroup>& groups,
                             std::vector<Parameter*> parameters);

}  // namespace tapestry
