#include "train/config/keys.hpp"

// Initializes a key before the constants of other sources, which may use it.
#define EARLY [[gnu::init_priority(200)]]

namespace tapestry::key {

EARLY const Key<std::string> task{"task", "", "task, which determines the other keys"};
EARLY const Key<std::string> plugin{
    "plugin",
    "",
    "plug-in that must be loaded (--plugin), by its name, or by name and checksum",
    {.may_change_on_resume = true}};
EARLY const Key<std::string> name{"name",
                                  "",
                                  "name of the run folder; empty: the name of the config",
                                  {.does_not_affect_result = true}};
EARLY const Key<std::int64_t> seed{"seed", 1, "seed of all random numbers", {.low = 0}};
EARLY const Key<std::string> data_path{
    "data.path", "", "file or folder with the data", {.may_change_on_resume = true}};
EARLY const Key<std::int64_t> data_rules{
    "data.rules",
    2,
    "rules by which data are read and split: 1, those of November 2026; 2, today's",
    {.low = 1, .high = 2}};
EARLY const Key<std::string> data_source{
    "data.source",
    "",
    "where to get the data; shown in the message for missing data",
    {.does_not_affect_result = true}};
EARLY const Key<std::string> optimizer{"optim.name", "adamw", "optimizer"};
EARLY const Key<double> learning_rate{"optim.learning_rate",
                                      1e-3,
                                      "peak learning rate, reached after the warm-up",
                                      {.low = 0, .high = 1e3, .also_called = {"lr"}}};
EARLY const Choice<Decay> schedule{"optim.schedule",
                                   Decay::constant,
                                   "schedule of the learning rate",
                                   {{"constant", Decay::constant},
                                    {"linear", Decay::linear},
                                    {"cosine", Decay::cosine},
                                    {"exponential", Decay::exponential},
                                    {"wsd", Decay::stable_linear},
                                    {"inverse_sqrt", Decay::inverse_sqrt}}};
EARLY const Key<double> final_learning_rate{
    "optim.final_learning_rate",
    0,
    "learning rate at the last step of a linear, cosine, exponential or wsd schedule",
    {.low = 0,
     .high = 1e3,
     .used_if = {
         schedule.is(Decay::linear, Decay::cosine, Decay::exponential, Decay::stable_linear)}}};
EARLY const Key<std::int64_t> warmup_steps{
    "optim.warmup_steps",
    0,
    "steps in which the learning rate rises linearly to its peak",
    {.low = 0}};
EARLY const Key<std::vector<std::string>> groups{
    "optim.groups",
    {},
    "learning rate, weight decay and L2 term of parameters by name, such as \"blocks.*.bias lr=2 "
    "decay=0 l2=1e-3\": a pattern, the factor of the learning rate, the decay, and λ of ½ λ ‖θ‖², "
    "added to the training loss; the last match counts"};
EARLY const Key<double> clip_norm{"optim.clip_norm",
                                  0,
                                  "largest global norm of the gradient; 0: no clipping",
                                  {.low = 0, .also_called = {"max_grad_norm", "grad_clip"}}};
EARLY const Key<std::int64_t> decay_steps{
    "optim.decay_steps",
    0,
    "step at which a linear, cosine or exponential schedule ends; 0: train.steps",
    {.low = 0,
     .high = 1e12,
     .may_change_on_resume = true,
     .used_if = {schedule.is(Decay::linear, Decay::cosine, Decay::exponential)}}};
EARLY const Key<std::int64_t> cooldown_steps{
    "optim.cooldown_steps",
    0,
    "steps of the decay at the end of a wsd schedule; 0: a tenth of train.steps, at least 1",
    {.low = 0,
     .high = 1e12,
     .may_change_on_resume = true,
     .used_if = {schedule.is(Decay::stable_linear)}}};
EARLY const Key<std::int64_t> adapter_rank{
    "model.lora.rank",
    0,
    "rank of low-rank adapters (LoRA), which are trained in place of the weights; 0: none",
    {.low = 0, .high = 4096}};
EARLY static const Condition adapted = adapter_rank.is_not(0);
EARLY const Key<double> adapter_alpha{"model.lora.alpha",
                                      16,
                                      "scale of the adapters: they are multiplied by alpha / rank",
                                      {.low = 1e-6, .high = 1e6, .used_if = {adapted}}};
EARLY const Key<double> adapter_dropout{"model.lora.dropout",
                                        0,
                                        "dropout of the adapters' inputs",
                                        {.low = 0, .high = 0.99, .used_if = {adapted}}};
EARLY const Key<std::vector<std::string>> adapter_targets{
    "model.lora.targets",
    {"query", "value"},
    "projections of each block that have adapters",
    {.choices = {"query", "key", "value", "query_key_value", "output", "gate", "up", "expand",
                 "contract"},
     .used_if = {adapted}}};
EARLY const Key<std::string> from{
    "train.from",
    "",
    "run or checkpoint whose weights the training begins with; empty: random weights",
    {.may_change_on_resume = true}};
EARLY const Key<std::vector<std::string>> trainable{
    "train.trainable",
    {},
    "parameters or modules to train, such as \"blocks.5.*\"; empty: all, or with model.lora.rank "
    "only the adapters; the new head of a language model that classifies is always trained"};
EARLY const Key<std::int64_t> steps{
    "train.steps",
    1000,
    "number of optimizer steps; there are no epochs",
    {.low = 1,
     .high = 1e12,
     .may_change_on_resume = true,
     .also_called = {"epochs", "num_train_epochs", "max_steps", "max_iters"}}};
EARLY const Key<std::int64_t> batch_size{
    "train.batch_size", 32, "examples per step", {.low = 1, .high = 1e6}};
EARLY const Key<std::int64_t> micro_batches{
    "train.micro_batches",
    1,
    "micro-batches into which a batch is divided to save memory",
    {.low = 1, .high = 1e6, .also_called = {"gradient_accumulation_steps"}}};
EARLY const Key<bool> shard_optimizer{
    "train.shard_optimizer",
    false,
    "divide the optimizer state among the ranks; the result is the same",
    {.does_not_affect_result = true}};
EARLY const Key<std::int64_t> eval_every{"train.eval_every",
                                         250,
                                         "steps between evaluations; 0: only at the end",
                                         {.low = 0, .may_change_on_resume = true}};
EARLY const Key<std::int64_t> eval_batch_size{
    "train.eval_batch_size", 64, "examples per batch of an evaluation", {.low = 1, .high = 1e6}};
EARLY const Key<std::int64_t> checkpoint_every{"train.checkpoint_every",
                                               250,
                                               "steps between checkpoints; 0: only at the end",
                                               {.low = 0, .does_not_affect_result = true}};
EARLY const Key<std::int64_t> log_every{"train.log_every",
                                        10,
                                        "steps between lines of metrics",
                                        {.low = 1, .does_not_affect_result = true}};
EARLY const Key<bool> tensorboard{"train.tensorboard",
                                  false,
                                  "write events for TensorBoard to the run folder",
                                  {.does_not_affect_result = true}};
EARLY const Key<bool> samples{"train.samples",
                              false,
                              "record generated texts at evaluations, for the report",
                              {.does_not_affect_result = true}};
EARLY const Key<std::int64_t> threads{
    "train.threads",
    0,
    "number of threads; 0: OMP_NUM_THREADS, or else one per physical core",
    {.low = 0, .high = 1024, .does_not_affect_result = true}};
EARLY const Choice<MatmulPrecision> precision{
    "train.precision",
    MatmulPrecision::float32,
    "precision of the operands of matrix products",
    {{"f32", MatmulPrecision::float32}, {"bf16", MatmulPrecision::bfloat16}}};
EARLY const Key<double> average_decay{"train.average_decay",
                                      0,
                                      "decay of the exponential moving average (EMA) of the "
                                      "weights, which is evaluated and saved; 0: none",
                                      {.low = 0, .high = 1}};
EARLY const Key<std::int64_t> early_stopping{
    "train.early_stopping",
    0,
    "evaluations without improvement after which the training stops; 0: never",
    {.low = 0, .may_change_on_resume = true, .also_called = {"patience"}}};
EARLY const Key<double> min_delta{
    "train.min_delta",
    0,
    "smallest decrease of the validation loss that counts as an improvement",
    {.low = 0,
     .may_change_on_resume = true,
     .used_if = {early_stopping.is_not(0)},
     .old_names = {"train.least_gain"}}};
EARLY const Key<double> time_limit{
    "train.time_limit",
    0,
    "minutes after which a training stops with a checkpoint for --resume; 0: no limit",
    {.low = 0, .high = 1e6, .does_not_affect_result = true}};
EARLY const Key<bool> check_finite{
    "train.check_finite",
    false,
    "stop at the first op whose output is NaN or infinite, and name it",
    {.does_not_affect_result = true}};
EARLY const Key<std::int64_t> max_bad_steps{
    "train.max_bad_steps",
    0,
    "number of steps with a NaN or infinite loss or gradient to skip before the run fails; 0: none",
    {.low = 0, .high = 1e12, .may_change_on_resume = true}};
EARLY const Key<double> bad_step_factor{
    "train.bad_step_factor",
    0,
    "also skip a step whose gradient norm is more than this factor times the median of recent "
    "norms; 0: never",
    {.low = 0, .high = 1e12, .used_if = {max_bad_steps.is_not(0)}}};
EARLY const Key<std::string> expected_metric{
    "expected.metric",
    "",
    "metric of the last evaluation, or test_ metric, that is compared with expected.value",
    {.does_not_affect_result = true}};
EARLY const Key<double> expected_value{
    "expected.value", 0, "expected value of the metric", {.does_not_affect_result = true}};
EARLY const Key<std::string> expected_data{"expected.data",
                                           "",
                                           "last component of the data.path that the value "
                                           "belongs to; built-in: synthetic data; empty: any",
                                           {.does_not_affect_result = true}};
EARLY const Key<std::string> expected_source{
    "expected.source",
    "",
    "where the expected value comes from: a publication, or a reason",
    {.does_not_affect_result = true}};

}  // namespace tapestry::key
