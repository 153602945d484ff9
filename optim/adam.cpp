#include "optim/adam.hpp"

#include <cmath>

#include "autograd/kernels/simd.hpp"

namespace tapestry {
namespace {

const RegisterOptimizer<Adam> adam{"adam", adam_settings<AdamOptions>()};
const RegisterOptimizer<AdamW> adamw{"adamw", with_weight_decay(adam_settings<AdamOptions>())};

AdamOptions without_decay(AdamOptions options) {
  options.weight_decay = 0;
  return options;
}

}  // namespace

AdamW::AdamW(std::vector<Parameter*> parameters, const Options& options)
    : Optimizer(std::move(parameters), {options.weight_decay, options.decay_all}),
      options_(options) {}

Adam::Adam(std::vector<Parameter*> parameters, const Options& options)
    : AdamW(std::move(parameters), without_decay(options)) {}

void AdamW::update(const Update& update) const {
  const double bias1 = 1 - std::pow(options_.beta1, update.step);
  const double bias2 = 1 - std::pow(options_.beta2, update.step);
  dispatch(update.parameter.dtype(), [&]<class T>() {
    // Each factor is rounded to the parameter's type once. `clip` scales the gradient.
    const T beta1 = options_.beta1, beta2 = options_.beta2, epsilon = options_.epsilon;
    const T rest1 = 1 - options_.beta1, rest2 = 1 - options_.beta2, clip = update.scale;
    const T rate = update.learning_rate / bias1, root = 1 / std::sqrt(bias2);
    const T keep = 1 - update.learning_rate * update.weight_decay;

    T *ms = update.of_slot<T>(0).data(), *vs = update.of_slot<T>(1).data();
    T* thetas = update.of<T>(update.parameter).data();
    const T* gs = update.of<T>(update.gradient).data();
    const std::int64_t n = update.end - update.begin;
    map_span(n, {ms, gs}, ms,
             [=](auto m, auto g) { return fma(m, Simd<T>(beta1), g * (clip * rest1)); });
    map_span(n, {vs, gs}, vs, [=](auto v, auto g) {
      return fma(v, Simd<T>(beta2), (g * clip) * (g * clip) * rest2);
    });
    map_span(n, {thetas, ms, vs}, thetas, [=](auto theta, auto m, auto v) {
      return theta * keep - rate * m / (sqrt(v) * root + epsilon);
    });
  });
}

}  // namespace tapestry
