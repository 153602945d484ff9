#include <fmt/core.h>

#include <cmath>

#include "autograd/ops.hpp"
#include "layers/mlp.hpp"
#include "optim/adam.hpp"
#include "train/distributed/gradient_sum.hpp"

using namespace tapestry;

// mpirun -n 4 example_ranks: prints the same losses on 1 to 8 processes.
int main() {
  Random random(1, Stream::init);
  Array x({256, 1}), y({256, 1});
  random.fill_uniform(x, -3, 3);
  for (int i = 0; i < 256; ++i) y.mutable_values<float>()[i] = std::sin(x.values<float>()[i]);

  Mlp model({1, 32, 32, 1}, random);
  AdamW optimizer(model.parameters(), {.weight_decay = 0.01});
  Ranks ranks = Ranks::launched();
  constexpr int micro_batches = 8, size = 256 / micro_batches;
  GradientSum sum(ranks, model.parameters(), {.micro_batches = micro_batches});
  for (int step = 0; step <= 1000; ++step) {
    double loss = 0;
    for (std::int64_t part = sum.first(); part < sum.last(); ++part) {
      const auto rows = [&](const Array& array) {
        return array.part(part * size, (part + 1) * size).reshaped({size, 1});
      };
      Tape tape;
      const Tensor errors = tapestry::sum(squared_error(model.forward(rows(x)), rows(y)));
      sum.add(tape, errors, 1.0 / 256);
      loss += errors.item() / 256;
    }
    optimizer.step(sum.finish(), 3e-3);
    if (step % 100 != 0) continue;
    double total = 0;
    for (const double one : ranks.gather(loss, "the losses")) total += one;
    if (ranks.rank() == 0) fmt::print("step {:4}  loss {:.6f}\n", step, total);
  }
}
