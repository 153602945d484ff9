#include "optim/sgd.hpp"

#include "autograd/kernels/simd.hpp"

namespace tapestry {
namespace {

const RegisterOptimizer<Sgd> sgd{
    "sgd", with_weight_decay<SgdOptions>(
               {{"momentum", &SgdOptions::momentum, "momentum of SGD", {.low = 0, .high = 1}}})};

}  // namespace

Sgd::Sgd(std::vector<Parameter*> parameters, const Options& options)
    : Optimizer(std::move(parameters), {options.weight_decay, options.decay_all}),
      options_(options) {}

void Sgd::update(const Update& update) const {
  dispatch(update.parameter.dtype(), [&]<class T>() {
    const T momentum = options_.momentum, clip = update.scale, rate = update.learning_rate;
    const T keep = 1 - update.learning_rate * update.weight_decay;
    T *thetas = update.of<T>(update.parameter).data(), *vs = update.of_slot<T>(0).data();
    const T* gs = update.of<T>(update.gradient).data();
    const std::int64_t n = update.end - update.begin;
    if (momentum == 0) {  // one pass over memory, and v stays 0
      map_span(n, {thetas, gs}, thetas,
               [=](auto theta, auto g) { return theta * keep - rate * (g * clip); });
      return;
    }
    map_span(n, {vs, gs}, vs, [=](auto v, auto g) { return v * momentum + g * clip; });
    map_span(n, {thetas, vs}, thetas, [=](auto theta, auto v) { return theta * keep - rate * v; });
  });
}

}  // namespace tapestry
