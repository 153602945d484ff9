#pragma once

#include "autograd/buffer_pool.hpp"
#include "autograd/random.hpp"
#include "layers/module.hpp"
#include "train/config/keys.hpp"
#include "train/task.hpp"

namespace tapestry {

// Returns the model that `make(init)` constructs with initial values from the config's seed. Throws
// ModelTooLarge if the model does not fit into memory. A dry run without values comes first, so
// that this error does not follow minutes of random number generation.
template <class Make>
auto initialized(const Config& config, Make make) {
  try {
    {
      const InitialValuesLimit trial(
          InitialValuesLimit::left());  // frees the memory of the dry run
      Random blank = Random::blank();
      make(blank);
    }
    Random init(seed_of(config), Stream::init);
    return make(init);
  } catch (const OutOfMemory& error) {
    const char* size = config.has("model.width")      ? "model.width"
                       : config.has("model.channels") ? "model.channels"
                                                      : "model.context";
    throw ModelTooLarge(
        fmt::format("the configured model is too large: {}; lower {} or another size of the model",
                    error.what(), size));
  }
}

}  // namespace tapestry
