#include <fmt/core.h>

#include <algorithm>
#include <cmath>

#include "autograd/ops.hpp"
#include "layers/mlp.hpp"
#include "optim/adam.hpp"

using namespace tapestry;

int main() {
  Random random(1, Stream::init);
  Array x({256, 1}), y({256, 1});
  random.fill_uniform(x, -3, 3);
  std::ranges::transform(x.values<float>(), y.mutable_values<float>().begin(),
                         [](float t) { return std::sin(t); });

  Mlp model({1, 32, 32, 1}, random);
  AdamW optimizer(model.parameters(), {.weight_decay = 0.01});
  for (int step = 0; step <= 1000; ++step) {
    Tape tape;
    Tensor loss = mean(squared_error(model.forward(x), y));
    if (step % 100 == 0) fmt::print("step {:4}  loss {:.6f}\n", step, loss.item());
    optimizer.step(tape.backward(loss), 3e-3);
  }
}
