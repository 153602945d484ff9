#pragma once

#include "layers/module.hpp"
#include "train/config/config.hpp"

namespace tapestry {

// Gives a model the adapters that model.lora.* ask for, and fixes the parameters that are not to be
// trained: with adapters all others, but for those that train.trainable names.
// InputError where a target or a pattern is of nothing that the model has.
void prepare_fine_tuning(Module& model, const Config& config);

}  // namespace tapestry
