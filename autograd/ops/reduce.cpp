#include "autograd/ops/reduce.hpp"

#include <numeric>

#include "autograd/branches.hpp"
#include "autograd/kernels/broadcast.hpp"
#include "autograd/ops/elementwise.hpp"

namespace tapestry {
namespace {

struct Reduced {
  Array kept;     // the result with reduced axes of extent 1
  Shape dropped;  // the shape without reduced axes
  double count;   // number of elements that each result combines
};

Reduced reduce(const char* op, const Tensor& x, std::vector<int> axes, Reduction reduction) {
  check_floating(op, x);
  if (axes.empty()) {
    axes.resize(x.rank());
    std::iota(axes.begin(), axes.end(), 0);
  }
  std::vector<bool> reduced(x.rank());
  for (int axis : axes) {
    const auto position = normalize_axis(op, axis, x.shape());
    require(!reduced[position], "{}: axis {} of shape {} is given twice; give each axis once", op,
            axis, x.shape());
    reduced[position] = true;
  }
  Reduced result{.kept = reduce_axes(x.value(), reduced, reduction), .dropped = {}, .count = 1};
  for (int axis = 0; axis < x.rank(); ++axis) {
    if (reduced[axis])
      result.count *= x.dim(axis);
    else
      result.dropped.push_back(x.dim(axis));
  }
  return result;
}

Array shaped(const Reduced& reduced, Keep keep) {
  return keep == Keep::yes ? reduced.kept : reduced.kept.reshaped(reduced.dropped);
}

Tensor scaled_sum(const char* op, const Tensor& x, const std::vector<int>& axes, Keep keep,
                  bool average) {
  Reduced reduced = reduce(op, x, axes, Reduction::sum);
  const auto divide = [average, count = reduced.count](const Array& sums) {
    const auto by_count = [count](auto v) { return v / Scalar<decltype(v)>(count); };
    return average ? map_arrays(by_count, sums) : sums;
  };
  reduced.kept = divide(reduced.kept);
  return record(op, shaped(reduced, keep), {x},
                [kept = reduced.kept.shape(), shape = x.shape(), divide](const Array& gradient,
                                                                         InputGradients& into) {
                  into.add(0, broadcast_to(divide(gradient.reshaped(kept)), shape));
                });
}

// Returns 1 for each element of x that equals its maximum, else 0; `best` has reduced axes of
// extent 1.
Array winners_of(const Array& x, const Array& best) {
  const auto is_best = [](auto v, auto b) {
    return select(v == b, decltype(v)(1), decltype(v)(0));
  };
  return map_arrays(is_best, x, broadcast_to(best, x.shape()));
}

// Returns the mean of the maxima, among which the pullback divides the gradient.
Array mean_of_winners(const Array& x, const Array& winners, const Shape& kept) {
  const auto chosen = [](auto v, auto w) { return select(w == decltype(w)(0), w, v); };
  return map_arrays([](auto total, auto n) { return total / n; },
                    sum_to(map_arrays(chosen, x, winners), kept), sum_to(winners, kept));
}

}  // namespace

Tensor sum(const Tensor& x, const std::vector<int>& axes, Keep keep) {
  return scaled_sum("sum", x, axes, keep, false);
}

Tensor mean(const Tensor& x, const std::vector<int>& axes, Keep keep) {
  return scaled_sum("mean", x, axes, keep, true);
}

Tensor max(const Tensor& x, const std::vector<int>& axes, Keep keep) {
  const Reduced reduced = reduce("max", x, axes, Reduction::max);
  const Tensor y =
      record("max", shaped(reduced, keep), {x},
             [x = x.value(), best = reduced.kept](const Array& gradient, InputGradients& into) {
               const Array winners = winners_of(x, best), ties = sum_to(winners, best.shape());
               const Array share = map_arrays([](auto g, auto n) { return g / n; },
                                              gradient.reshaped(best.shape()), ties);
               into.add(0, map_arrays([](auto w, auto s) { return w * s; }, winners,
                                      broadcast_to(share, x.shape())));
             });
  return in_held_branches(
      y, [&] { return winners_of(x.value(), reduced.kept); },
      [&](const Array& winners) {
        return mean_of_winners(x.value(), winners, reduced.kept.shape()).reshaped(y.shape());
      });
}

}  // namespace tapestry
