#include "optim/schedule_free.hpp"

#include <algorithm>
#include <cmath>

#include "autograd/dry_run.hpp"
#include "autograd/kernels/simd.hpp"

namespace tapestry {
namespace {

const RegisterOptimizer<ScheduleFreeAdamW> schedule_free{
    "schedule_free_adamw", with_weight_decay(adam_settings<AdamOptions>())};

}  // namespace

ScheduleFreeAdamW::ScheduleFreeAdamW(std::vector<Parameter*> parameters, const Options& options)
    : Optimizer(std::move(parameters), {options.weight_decay, options.decay_all}),
      options_(options) {}

void ScheduleFreeAdamW::begin_step(double learning_rate) {
  if (is_dry_run()) return;
  const std::span<double> rates = rates_.mutable_values<double>();
  rates[0] = std::max(rates[0], learning_rate);
  rates[1] += rates[0] * rates[0];
}

double ScheduleFreeAdamW::newest() const {
  if (is_dry_run()) return 1;
  const std::span<const double> rates = rates_.values<double>();
  return rates[1] > 0 ? rates[0] * rates[0] / rates[1] : 0;
}

double ScheduleFreeAdamW::average_share() const {
  const double c = newest();
  return c > 0 ? c / (1 - options_.beta1 * (1 - c)) : 0;
}

void ScheduleFreeAdamW::update(const Update& update) const {
  const double c = newest(), eta = update.learning_rate;
  dispatch(update.parameter.dtype(), [&]<class T>() {
    const T beta2 = options_.beta2, rest2 = 1 - options_.beta2, epsilon = options_.epsilon;
    const T root = 1 / std::sqrt(1 - std::pow(options_.beta2, update.step));
    const T clip = update.scale, decay = update.weight_decay;
    const T share = c, keep = 1 - c, rate = eta * (1 - options_.beta1 * (1 - c));
    const T offset_rate = eta * options_.beta1;

    T *es = update.of_slot<T>(0).data(), *vs = update.of_slot<T>(1).data();
    T* ys = update.of<T>(update.parameter).data();
    const T* gs = update.of<T>(update.gradient).data();
    const std::int64_t n = update.end - update.begin;
    map_span(n, {vs, gs}, vs, [=](auto v, auto g) {
      return fma(v, Simd<T>(beta2), (g * clip) * (g * clip) * rest2);
    });
    std::vector<T> directions(n);  // d
    T* ds = directions.data();
    map_span(n, {vs, gs, ys}, ds, [=](auto v, auto g, auto y) {
      return g * clip / (sqrt(v) * root + epsilon) + y * decay;
    });
    map_span(n, {ys, es, ds}, ys, [=](auto y, auto e, auto d) { return y + e * share - d * rate; });
    map_span(n, {es, ds}, es, [=](auto e, auto d) { return (e - d * offset_rate) * keep; });
  });
}

}  // namespace tapestry
