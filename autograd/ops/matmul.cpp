#include "autograd/ops/matmul.hpp"

#include <algorithm>

#include "autograd/check.hpp"
#include "autograd/dry_run.hpp"
#include "autograd/kernels/broadcast.hpp"
#include "autograd/kernels/matmul.hpp"
#include "autograd/ops/elementwise.hpp"
#include "autograd/tape.hpp"

namespace tapestry {
namespace {

// Returns the axes before those of the matrix.
Shape batch_of(const Shape& shape) { return Shape(shape.begin(), shape.end() - 2); }

Shape with_matrix(Shape batch, std::int64_t rows, std::int64_t columns) {
  batch.push_back(rows);
  batch.push_back(columns);
  return batch;
}

// Returns "(2, 3)" or "(2, 3) transposed".
std::string operand_text(const Shape& shape, bool transposed) {
  return to_string(shape) + (transposed ? " transposed" : "");
}

void check_matmul(const Shape& a, const Shape& b, const MatmulOptions& options) {
  const auto [ta, tb] = options;
  const bool are_matrices = a.rank() >= 2 && b.rank() >= 2;
  const std::int64_t inner_a = are_matrices ? a[ta ? -2 : -1] : 0;
  const std::int64_t inner_b = are_matrices ? b[tb ? -1 : -2] : 0;
  if (are_matrices && inner_a == inner_b && broadcasts(batch_of(a), batch_of(b))) return;
  const std::string operands =
      fmt::format("matmul: {} x {}", operand_text(a, ta), operand_text(b, tb));
  require(are_matrices, "{}: expected at least two axes each", operands);
  require(inner_a == inner_b, "{}: the inner dimensions {} and {} differ; expected equal ones",
          operands, inner_a, inner_b);
  require(false, "{}: the leading axes do not broadcast; expected equal extents or 1", operands);
}

// Returns, for each matrix of `batch`, the index of the matrix of `own` that is broadcast to it.
std::vector<std::int64_t> matrix_indices(const Shape& own, const Shape& batch) {
  std::vector<std::int64_t> indices(batch.elements(), 0);
  for (std::int64_t i = 0; i < std::ssize(indices); ++i) {
    std::int64_t rest = i, stride = 1;
    for (int axis = -1; axis >= -own.rank(); --axis) {
      if (own[axis] != 1) indices[i] += rest % batch[axis] * stride;
      stride *= own[axis];
      rest /= batch[axis];
    }
  }
  return indices;
}

// Returns a · b (batch, M, N), with the leading axes broadcast to `batch`.
Array product(const Array& a, bool transpose_a, const Array& b, bool transpose_b,
              const Shape& batch) {
  Matmul matmul{.dtype = a.dtype(), .transpose_a = transpose_a, .transpose_b = transpose_b};
  matmul.m = a.dim(transpose_a ? -1 : -2);
  matmul.k = a.dim(transpose_a ? -2 : -1);
  matmul.n = b.dim(transpose_b ? -2 : -1);
  Array c(with_matrix(batch, matmul.m, matmul.n), a.dtype());
  if (is_dry_run()) return c;
  const std::int64_t bytes = size_of(a.dtype());
  const auto a_index = matrix_indices(batch_of(a.shape()), batch);
  const auto b_index = matrix_indices(batch_of(b.shape()), batch);
  std::vector<MatmulOperands> operands(a_index.size());
  for (std::size_t i = 0; i < operands.size(); ++i)
    operands[i] = {a.raw() + a_index[i] * matmul.m * matmul.k * bytes,
                   b.raw() + b_index[i] * matmul.k * matmul.n * bytes,
                   c.mutable_raw() + i * matmul.m * matmul.n * bytes};
  multiply_matrices(matmul, operands);
  return c;
}

}  // namespace

Tensor matmul(const Tensor& a, const Tensor& b, MatmulOptions options) {
  const auto [ta, tb] = options;
  check_same_dtype("matmul", a, b);
  check_matmul(a.shape(), b.shape(), options);
  const Shape batch = broadcast("matmul", batch_of(a.shape()), batch_of(b.shape()));
  return record(
      "matmul", product(a.value(), ta, b.value(), tb, batch), {a, b},
      [a = a.value(), b = b.value(), ta, tb, batch](const Array& gradient, InputGradients& into) {
        // dA = dC Bᵀ and dB = Aᵀ dC, each transposed if its operand is.
        if (into.wanted(0))
          into.add(0, ta ? product(b, tb, gradient, true, batch)
                         : product(gradient, false, b, !tb, batch));
        if (into.wanted(1))
          into.add(1, tb ? product(gradient, true, a, ta, batch)
                         : product(a, !ta, gradient, false, batch));
      });
}

Tensor linear(const Tensor& x, const Tensor& weight, const Tensor& bias) {
  const bool is_quantized = weight.dtype() == DType::q8_0;
  if (is_quantized)
    require(x.dtype() == DType::float32, "linear: x {} with weight {}; expected x in float32",
            x.value(), weight.value());
  else
    check_same_dtype("linear", x, weight);
  require(x.rank() >= 1 && weight.rank() == 2 && x.dim(-1) == weight.dim(1),
          "linear: x {} with weight {}; expected x (..., I) and weight (O, I)", x.shape(),
          weight.shape());
  const bool has_bias = !bias.value().empty();
  if (has_bias) require_array("linear", "bias", bias.value(), x.dtype(), {weight.dim(0)});
  const std::int64_t in = weight.dim(1), out = weight.dim(0);
  std::int64_t rows = 1;
  for (int axis = 0; axis + 1 < x.rank(); ++axis) rows *= x.dim(axis);
  Shape shape = x.shape();
  shape[-1] = out;

  const DType dtype = x.dtype();
  Array y(shape, dtype);
  const Matmul product{.dtype = dtype, .m = rows, .n = out, .k = in, .transpose_b = true};
  const bool reads_blocks = is_quantized && rows <= few_rows;
  const Array read = reads_blocks ? weight.value() : weight.value().to(dtype);
  const MatmulOperands operands{x.value().raw(), read.raw(), y.mutable_raw(),
                                has_bias ? bias.value().raw() : nullptr};
  reads_blocks ? multiply_q8_0(product, operands) : multiply_matrices(product, {operands});

  std::vector<Tensor> inputs{x, is_quantized ? weight.value() : weight};
  if (has_bias) inputs.push_back(bias);
  const Array kept = inputs[1].id() != 0 ? x.value() : Array();  // empty for a constant weight
  return record("linear", y, inputs,
                [x = kept, weight = weight.value(), has_bias, dtype, rows, in, out](
                    const Array& gradient, InputGradients& into) {
                  into.accumulate(0, [&](Array& dx, bool accumulate) {
                    multiply_matrices(
                        {.dtype = dtype, .m = rows, .n = in, .k = out, .accumulate = accumulate},
                        {{gradient.raw(), weight.to(dtype).raw(), dx.mutable_raw()}});
                  });
                  into.accumulate(1, [&](Array& dweight, bool accumulate) {
                    multiply_matrices({.dtype = dtype,
                                       .m = out,
                                       .n = in,
                                       .k = rows,
                                       .transpose_a = true,
                                       .accumulate = accumulate},
                                      {{gradient.raw(), x.raw(), dweight.mutable_raw()}});
                  });
                  if (has_bias) into.add(2, sum_to(gradient.reshaped({rows, out}), {out}));
                });
}

namespace {

void check_change(const Tensor& y, const Tensor& x, const LowRankChange& change) {
  check_same_dtype("add_low_rank", y, change.a);
  check_same_dtype("add_low_rank", y, change.b);
  const bool fits = change.a.rank() == 2 && change.b.rank() == 2 && change.a.dim(1) == x.dim(-1) &&
                    change.a.dim(0) == change.b.dim(1) && change.first_row >= 0 &&
                    change.first_row + change.b.dim(0) <= y.dim(-1);
  require(fits,
          "add_low_rank: y {} and x {} with a {} and b {} at row {}; expected a (r, I) and b "
          "(R, r), and row + R at most the columns of y",
          y.shape(), x.shape(), change.a.shape(), change.b.shape(), change.first_row);
}

// The position of a change: its ranks among those of all changes, and its rows of the weight.
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

// Returns all a below each other: (sum of ranks, I).
Array stacked(const std::vector<LowRankChange>& changes, std::int64_t ranks) {
  Array all({ranks, changes.front().a.dim(1)}, changes.front().a.dtype());
  std::byte* to = all.mutable_raw();
  for (const LowRankChange& change : changes)
    to = std::copy_n(change.a.value().raw(), change.a.value().bytes(), to);
  return all;
}

// Returns all b, times the scale, at their rows and ranks, else 0: (O, sum of ranks).
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

// Returns the part of one b of `all`, the gradient of the result of spread().
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
          "add_low_rank: {} changes of y {} with x {}; expected at least one, and equal ranks of y "
          "and x",
          changes.size(), y.shape(), x.shape());
  for (const LowRankChange& change : changes) check_change(y, x, change);
  const std::vector<ChangePosition> places = places_of(changes);
  const std::int64_t in = x.dim(-1), out = y.dim(-1);
  const std::int64_t ranks = places.back().first_rank + places.back().ranks;
  std::int64_t n = 1;  // number of rows of x and y
  for (int axis = 0; axis + 1 < y.rank(); ++axis) {
    require(x.dim(axis) == y.dim(axis),
            "add_low_rank: y {} with x {}: the leading axes differ; expected equal ones", y.shape(),
            x.shape());
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
