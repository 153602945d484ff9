#include "train/tools/doctor/steps.hpp"

#include <cmath>

#include "optim/clip.hpp"
#include "train/config/keys.hpp"
#include "train/trainer/trainer.hpp"

namespace tapestry {

Steps::Steps(TrainingUnderTest& under_test)
    : under_test_(under_test),
      parameters_(under_test.parameters()),
      optimizer_(make_optimizer(under_test.config(), parameters_)) {}

double Steps::with_dropout(const Examples& examples, double learning_rate) {
  Random noise(seed_of(under_test_.config()), Stream::dropout, static_cast<std::uint64_t>(done_));
  const Pass pass{.training = true, .step = under_test_.config()[key::steps], .noise = &noise};
  return step([&] { return under_test_.task().loss(examples.batch, pass); }, examples.batch.count,
              learning_rate);
}

double Steps::without_dropout(const Examples& examples, double learning_rate) {
  return step([&] { return quiet_loss(under_test_.task(), under_test_.config(), examples); },
              examples.batch.count, learning_rate);
}

// No step follows from a gradient that is not finite.
double Steps::step(const std::function<Loss()>& loss, double count, double learning_rate) {
  Tape tape;
  const Loss found = loss();
  const Gradients gradients = tape.backward(found.objective, 1 / count);
  const Clip clipped = clip(gradients, parameters_, under_test_.config()[key::clip_norm]);
  if (std::isfinite(clipped.norm)) optimizer_->step(gradients, learning_rate, clipped.scale);
  ++done_;
  return found.averages.at("loss").value();
}

}  // namespace tapestry
