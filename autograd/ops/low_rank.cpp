#include "autograd/ops/low_rank.hpp"

#include <algorithm>

#include "autograd/check.hpp"
#include "autograd/kernels/matmul.hpp"
#include "autograd/ops/elementwise.hpp"
#include "autograd/tape.hpp"

namespace tapestry {
namespace {

void check_change(const Tensor& y, const Tensor& x, const LowRankChange& change) {
  check_same_dtype("add_low_rank", y, change.a);
  check_same_dtype("add_low_rank", y, change.b);
  const bool fits = change.a.rank() == 2 && change.b.rank() == 2 && change.a.dim(1) == x.dim(-1) &&
                    change.a.dim(0) == change.b.dim(1) && change.first_row >= 0 &&
                    change.first_row + change.b.dim(0) <= y.dim(-1);
  require(fits, "add_low_rank: y {} and x {} with a {} and b {} of rows from {}",
          to_string(y.shape()), to_string(x.shape()), to_string(change.a.shape()),
          to_string(change.b.shape()), change.first_row);
}

// Where a change stands among all: its ranks among their ranks, its rows among the weight's.
struct ChangePosition {
  std::int64_t first_rank, ranks, first_row, rows;
};

std::vector<ChangePosition> places_of(const std::vector<LowRankChange>& changes) {
  std::vector<ChangePosition> places;
  std::int64_t first_rank = 0;
  for (const LowRankChange& change : changes) {
    places.push_back({first_rank, change.a.dim(0), change.first_row, change.b.dim(0)});
    first_rank += change.a.dim(0);
  }
  return places;
}

// Every a below one another: (ranks of all, I).
Array stacked(const std::vector<LowRankChange>& changes, std::int64_t ranks) {
  Array all({ranks, changes.front().a.dim(1)}, changes.front().a.dtype());
  std::byte* to = all.mutable_raw();
  for (const LowRankChange& change : changes)
    to = std::copy_n(change.a.value().raw(), change.a.value().bytes(), to);
  return all;
}

// Every b at its rows and ranks, times the scale, in zeros: (O, ranks of all).
Array spread(const std::vector<LowRankChange>& changes, const std::vector<ChangePosition>& places,
             const Shape& shape, double scale) {
  Array all = Array::zeros(shape, changes.front().b.dtype());
  dispatch(all.dtype(), [&]<class T>() {
    for (std::size_t i = 0; i < changes.size(); ++i) {
      const auto [first_rank, ranks, first_row, rows] = places[i];
      const T* from = changes[i].b.value().values<T>().data();
      T* to = all.mutable_values<T>().data() + first_row * shape[1] + first_rank;
      for (std::int64_t row = 0; row < rows; ++row, from += ranks, to += shape[1])
        std::transform(from, from + ranks, to, [s = T(scale)](T value) { return s * value; });
    }
  });
  return all;
}

// Of the gradient (O, ranks of all) of what spread() made, the part of one b.
Array gathered(const Array& all, const ChangePosition& place, double scale) {
  Array own({place.rows, place.ranks}, all.dtype());
  dispatch(all.dtype(), [&]<class T>() {
    const T* from = all.values<T>().data() + place.first_row * all.dim(1) + place.first_rank;
    T* to = own.mutable_values<T>().data();
    for (std::int64_t row = 0; row < place.rows; ++row, from += all.dim(1), to += place.ranks)
      std::transform(from, from + place.ranks, to, [s = T(scale)](T value) { return s * value; });
  });
  return own;
}

}  // namespace

Tensor add_low_rank(Tensor y, const Tensor& x, const std::vector<LowRankChange>& changes,
                    double scale) {
  check_same_dtype("add_low_rank", y, x);
  require(!changes.empty() && y.rank() >= 1 && x.rank() == y.rank(),
          "add_low_rank: {} changes of y {} with x {}", changes.size(), to_string(y.shape()),
          to_string(x.shape()));
  for (const LowRankChange& change : changes) check_change(y, x, change);
  const std::vector<ChangePosition> places = places_of(changes);
  const std::int64_t in = x.dim(-1), out = y.dim(-1);
  const std::int64_t ranks = places.back().first_rank + places.back().ranks;
  std::int64_t n = 1;  // rows of x and y
  for (int axis = 0; axis + 1 < y.rank(); ++axis) {
    require(x.dim(axis) == y.dim(axis), "add_low_rank: y {} with x {}", to_string(y.shape()),
            to_string(x.shape()));
    n *= y.dim(axis);
  }

  const DType dtype = y.dtype();
  const Array a = stacked(changes, ranks), b = spread(changes, places, {out, ranks}, scale);
  Array u({n, ranks}, dtype);
  multiply_matrices({.dtype = dtype, .m = n, .n = ranks, .k = in, .transpose_b = true},
                    {{x.value().raw(), a.raw(), u.mutable_raw()}});
  const Array sum = y.value().unique() ? y.value() : y.value().clone();
  multiply_matrices(
      {.dtype = dtype, .m = n, .n = out, .k = ranks, .transpose_b = true, .accumulate = true},
      {{u.raw(), b.raw(), Array(sum).mutable_raw()}});

  std::vector<Tensor> inputs{y, x};
  for (const LowRankChange& change : changes) inputs.insert(inputs.end(), {change.a, change.b});
  return record(
      "add_low_rank", sum, inputs,
      [x = x.value(), a, b, u, places, scale, dtype, n, in, out, ranks](const Array& gradient,
                                                                        InputGradients& into) {
        into.add(0, gradient);
        Array du({n, ranks}, dtype), da({ranks, in}, dtype), db({out, ranks}, dtype);
        multiply_matrices({.dtype = dtype, .m = n, .n = ranks, .k = out},
                          {{gradient.raw(), b.raw(), du.mutable_raw()}});
        into.accumulate(1, [&](Array& dx, bool accumulate) {
          multiply_matrices({.dtype = dtype, .m = n, .n = in, .k = ranks, .accumulate = accumulate},
                            {{du.raw(), a.raw(), dx.mutable_raw()}});
        });
        multiply_matrices({.dtype = dtype, .m = ranks, .n = in, .k = n, .transpose_a = true},
                          {{du.raw(), x.raw(), da.mutable_raw()}});
        multiply_matrices({.dtype = dtype, .m = out, .n = ranks, .k = n, .transpose_a = true},
                          {{gradient.raw(), u.raw(), db.mutable_raw()}});
        for (std::size_t i = 0; i < places.size(); ++i) {
          const auto [first_rank, own, first_row, rows] = places[i];
          into.add(2 + 2 * i,
                   da.part(first_rank * in, (first_rank + own) * in).reshaped({own, in}));
          into.add(3 + 2 * i, gathered(db, places[i], scale));
        }
      });
}

}  // namespace tapestry
