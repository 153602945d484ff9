#pragma once

#include <memory>

#include "autograd/kernels/matmul.hpp"
#include "data/option_error.hpp"
#include "optim/schedule.hpp"
#include "train/config/config.hpp"

// The config keys that every task shares.
namespace tapestry::key {

inline const Key<std::string> task{"task", "", "what to train; the other keys depend on it"};
inline const Key<std::string> name{
    "name", "", "of the run folder; by default the config's", {.does_not_affect_result = true}};
inline const Key<std::int64_t> seed{"seed", 1, "of every random number", {.low = 0}};

inline const Key<std::string> data_path{
    "data.path", "", "the file or folder to learn from", {.may_change_on_resume = true}};

// For tasks that cannot do without a file.
inline const Key<std::string> data_source{
    "data.source",
    "",
    "where the data can be had, for the message when it is missing",
    {.does_not_affect_result = true}};

// One of those that are registered.
inline const Key<std::string> optimizer{"optim.name", "adamw", "the optimiser"};
inline const Key<double> learning_rate{
    "optim.learning_rate", 1e-3, "after warm-up", {.low = 0, .high = 1e3}};
inline const Choice<Decay> schedule{
    "optim.schedule",
    Decay::constant,
    "of the learning rate",
    {{"constant", Decay::constant}, {"linear", Decay::linear}, {"cosine", Decay::cosine}}};
inline const Key<double> final_learning_rate{
    "optim.final_learning_rate",
    0,
    "at the last step, for linear and cosine",
    {.low = 0, .high = 1e3, .used_if = {schedule.is(Decay::linear, Decay::cosine)}}};
inline const Key<std::int64_t> warmup_steps{
    "optim.warmup_steps", 0, "of a linear rise of the learning rate", {.low = 0}};
inline const Key<double> clip_norm{
    "optim.clip_norm", 0, "limit of the gradient's global norm; 0: none", {.low = 0}};

inline const Key<std::int64_t> decay_steps{
    "optim.decay_steps",
    0,
    "after which linear and cosine have ended; 0: train.steps",
    {.low = 0,
     .high = 1e12,
     .may_change_on_resume = true,
     .used_if = {schedule.is(Decay::linear, Decay::cosine)}}};

inline const Key<std::int64_t> adapter_rank{
    "model.lora.rank",
    0,
    "of the changes that are learnt of weights which stay as they are (LoRA); 0: none",
    {.low = 0, .high = 4096}};
inline const Condition adapted = adapter_rank.is_not(0);
inline const Key<double> adapter_alpha{"model.lora.alpha",
                                       16,
                                       "the changes are multiplied by it and divided by the rank",
                                       {.low = 1e-6, .high = 1e6, .used_if = {adapted}}};
inline const Key<double> adapter_dropout{"model.lora.dropout",
                                         0,
                                         "of what the changes read",
                                         {.low = 0, .high = 0.99, .used_if = {adapted}}};
inline const Key<std::vector<std::string>> adapter_targets{
    "model.lora.targets",
    {"query", "value"},
    "the maps of each block that are changed",
    {.choices = {"query", "key", "value", "query_key_value", "output", "gate", "up", "expand",
                 "contract"},
     .used_if = {adapted}}};

inline const Key<std::string> from{
    "train.from",
    "",
    "a run or checkpoint whose weights the training begins with; empty: drawn by the seed",
    {.may_change_on_resume = true}};
inline const Key<std::vector<std::string>> trainable{
    "train.trainable",
    {},
    "parameters or modules to train, such as \"blocks.5.*\", the others being kept as they are; "
    "empty: all, or with model.lora.rank none but its changes"};
inline const Key<std::int64_t> steps{"train.steps",
                                     1000,
                                     "of the optimiser",
                                     {.low = 1, .high = 1e12, .may_change_on_resume = true}};
inline const Key<std::int64_t> batch_size{
    "train.batch_size", 32, "examples a step", {.low = 1, .high = 1e6}};
inline const Key<std::int64_t> micro_batches{"train.micro_batches",
                                             1,
                                             "parts a step's batch is computed in, to save memory",
                                             {.low = 1, .high = 1e6}};
inline const Key<bool> shard_optimizer{
    "train.shard_optimizer",
    false,
    "of several ranks each keeps the optimiser's state of its share alone: the same bits",
    {.does_not_affect_result = true}};
inline const Key<std::int64_t> eval_every{"train.eval_every",
                                          250,
                                          "steps between evaluations; 0: only at the end",
                                          {.low = 0, .may_change_on_resume = true}};
inline const Key<std::int64_t> eval_batch_size{
    "train.eval_batch_size", 64, "examples at a time when evaluating", {.low = 1, .high = 1e6}};
inline const Key<std::int64_t> checkpoint_every{"train.checkpoint_every",
                                                250,
                                                "steps between checkpoints; 0: only at the end",
                                                {.low = 0, .does_not_affect_result = true}};
inline const Key<std::int64_t> log_every{"train.log_every",
                                         10,
                                         "steps between lines of metrics",
                                         {.low = 1, .does_not_affect_result = true}};
inline const Key<bool> tensorboard{"train.tensorboard",
                                   false,
                                   "write events for TensorBoard into the run's folder",
                                   {.does_not_affect_result = true}};
inline const Key<bool> samples{"train.samples",
                               false,
                               "keep texts that the model makes at evaluations, for its report",
                               {.does_not_affect_result = true}};
inline const Key<std::int64_t> threads{"train.threads",
                                       0,
                                       "0: one a physical core",
                                       {.low = 0, .high = 1024, .does_not_affect_result = true}};
inline const Choice<MatmulPrecision> precision{
    "train.precision",
    MatmulPrecision::float32,
    "of matrix products' operands",
    {{"f32", MatmulPrecision::float32}, {"bf16", MatmulPrecision::bfloat16}}};
inline const Key<double> average_decay{
    "train.average_decay",
    0,
    "of a moving average of the weights, which is evaluated and kept as the model; 0: none",
    {.low = 0, .high = 1}};
inline const Key<std::int64_t> early_stopping{
    "train.early_stopping",
    0,
    "evaluations without a gain after which the training ends; 0: never",
    {.low = 0, .may_change_on_resume = true}};
inline const Key<double> min_delta{
    "train.least_gain",
    0,
    "by which the validation loss has to fall to be one",
    {.low = 0, .may_change_on_resume = true, .used_if = {early_stopping.is_not(0)}}};
inline const Key<double> time_limit{
    "train.time_limit",
    0,
    "minutes of the process after which it stops with a checkpoint, for --resume; 0: none",
    {.low = 0, .high = 1e6, .does_not_affect_result = true}};
inline const Key<bool> check_finite{
    "train.check_finite",
    false,
    "stop at the first op whose output is NaN or infinite, and name it",
    {.does_not_affect_result = true}};

inline const Key<std::int64_t> max_bad_steps{
    "train.max_bad_steps",
    0,
    "so many steps whose loss or gradient is not finite are left out; one more ends the run",
    {.low = 0, .high = 1e12, .may_change_on_resume = true}};
inline const Key<double> bad_step_factor{
    "train.bad_step_factor",
    0,
    "a step is left out as well whose gradient's norm is above this, more than 1, times the "
    "median of the latest; 0: none",
    {.low = 0, .high = 1e12, .used_if = {max_bad_steps.is_not(0)}}};

inline const Key<std::string> expected_metric{
    "expected.metric",
    "",
    "of the final evaluation, to compare with a published result",
    {.does_not_affect_result = true}};
inline const Key<double> expected_value{
    "expected.value", 0, "the published value", {.does_not_affect_result = true}};
inline const Key<std::string> expected_data{
    "expected.data",
    "",
    "the last part of the data.path it holds for, or built-in for none; empty: any",
    {.does_not_affect_result = true}};
inline const Key<std::string> expected_source{
    "expected.source", "", "where it was published", {.does_not_affect_result = true}};

// All of the above, with the settings of every optimiser and the task's own keys in their sections.
std::vector<KeyInfo> with_common_keys(const std::vector<KeyInfo>& task_keys);

// data.path, for data that is read: it must name a file or folder that is there. `missing` and
// `wanted` complete "there is …; name …".
const std::string& required_path(const Config& config, const std::string& missing,
                                 const std::string& wanted);
// For data that is built in: no data.path may be given.
void expect_no_path(const Config& config);

// optim.<name>, as a setting of an optimiser is called in a config.
std::string of_optimizer(const std::string& setting);

}  // namespace tapestry::key

namespace tapestry {

struct Parameter;
class Optimizer;

std::uint64_t seed_of(const Config& config);  // key::seed

// Return the optimizer with its settings, and the schedule of its learning rate.
std::unique_ptr<Optimizer> make_optimizer(const Config& config, std::vector<Parameter*> parameters);
Schedule make_schedule(const Config& config);

// The key that holds an option of data/, and the advice for a value that does not suit the data.
struct OptionKey {
  std::string option;  // the field's name: "gaps"
  const KeyInfo& key;
  std::string advice{};
};

// Throws the error that is being handled again, with the key, its value and origin before the fact,
// and the advice after it.
[[noreturn]] void rethrow_with_key(const Config& config, const std::vector<OptionKey>& keys,
                                   const OptionError& error);

// Returns what `read` returns. An error of data/ names one of its options; it is thrown again with
// the option's key.
template <class Read>
auto with_keys(const Config& config, const std::vector<OptionKey>& keys, Read read) {
  try {
    return read();
  } catch (const OptionError& error) {
    rethrow_with_key(config, keys, error);
  }
}

}  // namespace tapestry
