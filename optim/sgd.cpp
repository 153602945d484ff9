#include "optim/sgd.hpp"

#include "autograd/kernels/simd.hpp"

namespace tapestry {
namespace {

const RegisterOptimizer<Sgd> sgd("sgd");

}  // namespace

void Sgd::update(const Update& update) const {
  dispatch(update.parameter.dtype(), [&]<class T>() {
    const T momentum = static_cast<T>(options_.momentum), scale = static_cast<T>(update.scale);
    const T rate = static_cast<T>(update.learning_rate);
    const T keep = static_cast<T>(1 - update.learning_rate * update.weight_decay);
    Array parameter = update.parameter;
    T* theta = parameter.mutable_values<T>().data();
    T* velocity = update.slots[0].mutable_values<T>().data();
    map<T>(
        parameter.size(), [=](auto v, auto g) { return v * momentum + g * scale; }, velocity,
        velocity, update.gradient.values<T>().data());
    map<T>(
        parameter.size(), [=](auto x, auto v) { return x * keep - rate * v; }, theta, theta,
        velocity);
  });
}

}  // namespace tapestry
