#include "train/trainer/announcement.hpp"

#include "autograd/kernels/matmul.hpp"
#include "data/text/text.hpp"
#include "train/config/keys.hpp"
#include "train/run/terminal.hpp"
#include "train/run/version.hpp"

namespace tapestry {
namespace {

// Of a model that is not trained whole, how many parameters are.
std::string trained_share(Module& model) {
  std::int64_t fixed = 0;
  for (const Parameter* parameter : model.parameters())
    if (parameter->role == Role::fixed) fixed += parameter->tensor.size();
  return fixed == 0 ? "" : fmt::format(" ({} of them trained)", count_parameters(model) - fixed);
}

}  // namespace

void announce(const Config& config, const Run& run, Task& task, const TrainingState& state,
              const std::optional<std::string>& backends_before, const TrainingOptions& options) {
  if (options.resume && !backends_before)
    say("{}: no checkpoint and no best model yet: starts over from step 0\n", run.folder());
  if (config[key::precision] == MatmulPrecision::bfloat16 && !has_bfloat16_products())
    say("{} = \"bf16\": this processor has no bfloat16 products: operands are rounded to it "
        "and multiplied in float32, at no gain in speed\n",
        key::precision.name);
  if (!options.quiet)
    say("{}: {} parameters{}, {} training examples, {}, into {}{}\n", config[key::name],
        count_parameters(task.model()), trained_share(task.model()), task.training_data().size(),
        machine(), printable(run.folder()),
        backends_before             ? fmt::format(", from step {}", state.step)
        : config[key::from].empty() ? ""
                                    : ", from the weights of " + config[key::from]);
  if (const std::string remark = task.remark(); !remark.empty()) say("{}\n", remark);
  if (backends_before && !backends_before->empty() && *backends_before != backends())
    say("so far it was trained by {:?}: it goes on by \"{}\", whose last digits differ\n",
        *backends_before, backends());
}

}  // namespace tapestry
