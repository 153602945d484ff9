#pragma once

#include "autograd/buffer_pool.hpp"
#include "autograd/random.hpp"
#include "layers/module.hpp"
#include "train/config/keys.hpp"
#include "train/task.hpp"

namespace tapestry {

// Returns the model that `make(init)` constructs with initial values from the config's seed. A dry
// run without values comes first, so that a model that does not fit the memory throws
// ModelTooLarge at once, and not after minutes of random number generation.
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
    throw ModelTooLarge(
        fmt::format("the configured model is too large: {}; lower model.width, "
                    "model.layers or another size",
                    error.what()));
  }
}

}  // namespace tapestry
