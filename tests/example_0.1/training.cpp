#include <fmt/core.h>

#include <xtensor/xmath.hpp>

#include "autograd/ops.hpp"
#include "autograd/xtensor.hpp"
#include "layers/mlp.hpp"
#include "optim/adam.hpp"

using namespace tapestry;

int main() {
  Random random(1, Stream::init);
  Array x({256, 1});
  random.fill_uniform(x, -3, 3);
  auto inputs = xtensor_view<float>(x);       // x's memory, for xtensor
  const Array y = array_of(xt::sin(inputs));  // an expression of xtensor, as an array
  inputs /= xt::stddev(inputs)();

  Mlp model({1, 32, 32, 1}, random);
  AdamW optimizer(model.parameters(), {.weight_decay = 0.01});
  for (int step = 0; step <= 1000; ++step) {
    Tape tape;
    Tensor loss = mean(squared_error(model.forward(x), y));
    if (step % 100 == 0) fmt::print("step {:4}  loss {:.6f}\n", step, loss.item());
    optimizer.step(tape.backward(loss), 3e-3);
  }
}
