#pragma once

#include "autograd/buffer_pool.hpp"
#include "autograd/random.hpp"
#include "layers/initial.hpp"
#include "train/config/keys.hpp"

namespace tapestry {

// The model that `make(init)` returns, with the initial values of the config's seed. It is made
// twice, first without values: one that the machine has no room for is refused at once, as
// InputError, and not after minutes of drawing the numbers that do fit.
template <class Make>
auto initialised(const Config& config, Make make) {
  try {
    {
      const InitialValuesLimit trial(InitialValuesLimit::left());  // what it takes is given back
      Random blank = Random::blank();
      make(blank);
    }
    Random init(seed_of(config), Stream::init);
    return make(init);
  } catch (const OutOfMemory& error) {
    throw InputError(
        fmt::format("the configured model is too large: {}; lower model.width, "
                    "model.layers or what else it is sized by",
                    error.what()));
  }
}

}  // namespace tapestry
