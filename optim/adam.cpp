#include "optim/adam.hpp"

#include <cmath>

#include "autograd/kernels/simd.hpp"

namespace tapestry {
namespace {

const RegisterOptimizer<Adam> adam("adam");
const RegisterOptimizer<AdamW> adamw("adamw");

}  // namespace

void AdamW::update(const Update& update) const {
  const auto t = static_cast<double>(update.step);
  const double correction1 = 1 - std::pow(options_.beta1, t);
  const double correction2 = 1 - std::pow(options_.beta2, t);
  dispatch(update.parameter.dtype(), [&]<class T>() {
    const T beta1 = static_cast<T>(options_.beta1), beta2 = static_cast<T>(options_.beta2);
    const T rest1 = static_cast<T>(1 - options_.beta1), rest2 = static_cast<T>(1 - options_.beta2);
    const T scale = static_cast<T>(update.scale), epsilon = static_cast<T>(options_.epsilon);
    const T rate = static_cast<T>(update.learning_rate / correction1);
    const T root = static_cast<T>(1 / std::sqrt(correction2));
    const T keep = static_cast<T>(1 - update.learning_rate * update.weight_decay);
    Array parameter = update.parameter;
    T* theta = parameter.mutable_values<T>().data();
    T* m = update.slots[0].mutable_values<T>().data();
    T* v = update.slots[1].mutable_values<T>().data();
    const T* gradient = update.gradient.values<T>().data();
    parallel_for(parameter.size(), 16384, [=](std::int64_t begin, std::int64_t end) {
      const std::int64_t n = end - begin;
      map_span<T>(
          n, [=](auto x, auto g) { return fma(x, Simd<T>(beta1), g * (scale * rest1)); }, m + begin,
          m + begin, gradient + begin);
      map_span<T>(
          n,
          [=](auto x, auto g) {
            const auto scaled = g * scale;
            return fma(x, Simd<T>(beta2), scaled * scaled * rest2);
          },
          v + begin, v + begin, gradient + begin);
      map_span<T>(
          n,
          [=](auto x, auto first, auto second) {
            return x * keep - rate * first / (sqrt(second) * root + epsilon);
          },
          theta + begin, theta + begin, m + begin, v + begin);
    });
  });
}

void Adam::update(const Update& update) const {
  Update undecayed = update;
  undecayed.weight_decay = 0;
  AdamW::update(undecayed);
}

}  // namespace tapestry
