#include "autograd/ops/reduce.hpp"

#include <numeric>

#include "autograd/kernels/broadcast.hpp"
#include "autograd/ops/elementwise.hpp"

namespace tapestry {
namespace {

struct Reduced {
  Array kept;     // the reduced axes have extent 1
  Shape dropped;  // the shape without them
  double count;   // how many elements each result stands for
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
    require(!reduced[position], "{}: axis {} of shape {} twice", op, axis, to_string(x.shape()));
    reduced[position] = true;
  }
  Reduced result{.kept = x.value(), .dropped = {}, .count = 1};
  for (int axis = 0; axis < x.rank(); ++axis) {
    if (reduced[axis]) {
      result.kept = reduce_axis(result.kept, axis, reduction);
      result.count *= x.dim(axis);
    } else {
      result.dropped.push_back(x.dim(axis));
    }
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

}  // namespace

Tensor sum(const Tensor& x, const std::vector<int>& axes, Keep keep) {
  return scaled_sum("sum", x, axes, keep, false);
}

Tensor mean(const Tensor& x, const std::vector<int>& axes, Keep keep) {
  return scaled_sum("mean", x, axes, keep, true);
}

Tensor max(const Tensor& x, const std::vector<int>& axes, Keep keep) {
  const Reduced reduced = reduce("max", x, axes, Reduction::max);
  return record("max", shaped(reduced, keep), {x},
                [x = x.value(), best = reduced.kept](const Array& gradient, InputGradients& into) {
                  const auto is_best = [](auto v, auto b) {
                    return select(v == b, decltype(v)(1), decltype(v)(0));
                  };
                  const Array winners = map_arrays(is_best, x, broadcast_to(best, x.shape()));
                  const Array ties = sum_to(winners, best.shape());
                  const Array share = map_arrays([](auto g, auto n) { return g / n; },
                                                 gradient.reshaped(best.shape()), ties);
                  into.add(0, map_arrays([](auto w, auto s) { return w * s; }, winners,
                                         broadcast_to(share, x.shape())));
                });
}

}  // namespace tapestry
