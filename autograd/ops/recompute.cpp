#include "autograd/ops/recompute.hpp"

#include <optional>

#include "autograd/tape.hpp"

namespace tapestry {

Tensor recompute(const Tensor& x, Random* noise,
                 const std::function<Tensor(const Tensor& x, Random* noise)>& f) {
  if (x.id() == 0) return f(x, noise);
  const std::optional<Random> before = noise ? std::optional(*noise) : std::nullopt;
  const auto run_unrecorded = [&] {
    const NoTape no_tape;
    return f(x, noise).value();
  };
  return record(
      "recompute", run_unrecorded(), {x},
      [x = x.value(), before, f](const Array& gradient, InputGradients& into) {
        std::optional<Random> again = before;
        Tape tape(into);
        const Tensor input = Tensor::variable(x);
        const Tensor y = f(input, again ? &*again : nullptr);
        Gradients gradients = tape.backward(y, gradient);
        if (const Array dx = gradients.take(input); !dx.empty()) into.add(0, dx);
        into.add_leaves(gradients);
      },
      true);
}

}  // namespace tapestry
