#include <new>
#include <stdexcept>

#include "train/doctor/gate.hpp"

namespace tapestry {

const std::vector<Gate>& gates() {
  static const std::vector<Gate> all = {
      {"shared examples", check_shared_examples},
      {"values", check_values},
      {"labels", check_labels},
      {"targets", check_targets},
      {"first loss", check_first_loss},
      {"gradient", check_gradient},
      {"neighbours", check_neighbours},
      {"future", check_future},
      {"layers", check_layers},
      {"one batch", check_one_batch},
      {"learning rate", check_learning_rate},
      {"plan", check_plan},
      {"threads", check_threads},
      {"resume", check_resume},
  };
  return all;
}

GateVerdict examine(const Gate& gate, Patient& patient) try {
  return gate.examine(patient);
} catch (const InputError&) {
  throw;
} catch (const std::bad_alloc& error) {
  return {.fault = Fault{error.what(), "the model or its batch is too large for this machine",
                         "lower train.batch_size, or raise train.micro_batches"}};
} catch (const std::exception& error) {
  return {.fault = Fault{error.what(), "the model and its data do not fit together",
                         "look at the op that is named, and at what it was given"}};
}

}  // namespace tapestry
