#pragma once

#include "layers/module.hpp"
#include "train/config/config.hpp"

namespace tapestry {

// Adds the adapters of model.lora.* to a model, and fixes the parameters that are not trained: with
// adapters all others, except those that train.trainable names. The module `head` is always
// trained, if the model has one of this name. Throws InputError for a target or a pattern that
// matches nothing in the model, for targets that contain each other, and for a rank that is too
// high for a target or for the memory.
void prepare_fine_tuning(Module& model, const Config& config, const std::string& head = "");

}  // namespace tapestry
