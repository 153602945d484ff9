#include "autograd/ops/matmul.hpp"

#include "autograd/dry_run.hpp"
#include "autograd/kernels/broadcast.hpp"
#include "autograd/kernels/matmul.hpp"
#include "autograd/ops/elementwise.hpp"

namespace tapestry {
namespace {

// The axes before the matrix.
Shape batch_of(const Shape& shape) { return Shape(shape.begin(), shape.end() - 2); }

Shape with_matrix(Shape batch, std::int64_t rows, std::int64_t columns) {
  batch.push_back(rows);
  batch.push_back(columns);
  return batch;
}

// For each matrix of `batch`, the index of the matrix of `own` that broadcasts to it.
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

// (batch, M, N) = a · b, with the axes before the matrix broadcast to `batch`.
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
  const bool fits = a.rank() >= 2 && b.rank() >= 2 && a.dim(ta ? -2 : -1) == b.dim(tb ? -1 : -2) &&
                    broadcasts(batch_of(a.shape()), batch_of(b.shape()));
  require(fits, "matmul: {}{} with {}{}", to_string(a.shape()), ta ? " transposed" : "",
          to_string(b.shape()), tb ? " transposed" : "");
  const Shape batch = broadcast("matmul", batch_of(a.shape()), batch_of(b.shape()));
  return record(
      "matmul", product(a.value(), ta, b.value(), tb, batch), {a, b},
      [a = a.value(), b = b.value(), ta, tb, batch](const Array& gradient, InputGradients& into) {
        // dA = dC Bᵀ and dB = Aᵀ dC, each transposed as its operand was stored.
        if (into.wanted(0))
          into.add(0, ta ? product(b, tb, gradient, true, batch)
                         : product(gradient, false, b, !tb, batch));
        if (into.wanted(1))
          into.add(1, tb ? product(gradient, true, a, ta, batch)
                         : product(a, !ta, gradient, false, batch));
      });
}

Tensor linear(const Tensor& x, const Tensor& weight, const Tensor& bias) {
  check_same_dtype("linear", x, weight);
  require(x.rank() >= 1 && weight.rank() == 2 && x.dim(-1) == weight.dim(1),
          "linear: x {} with weight {}", to_string(x.shape()), to_string(weight.shape()));
  const bool has_bias = !bias.value().empty();
  if (has_bias) check_same_dtype("linear", weight, bias);
  require(!has_bias || bias.shape() == Shape{weight.dim(0)}, "linear: bias {} with weight {}",
          to_string(bias.shape()), to_string(weight.shape()));
  const std::int64_t in = weight.dim(1), out = weight.dim(0);
  std::int64_t rows = 1;
  for (int axis = 0; axis + 1 < x.rank(); ++axis) rows *= x.dim(axis);
  Shape shape = x.shape();
  shape[-1] = out;

  const DType dtype = x.dtype();
  Array y(shape, dtype);
  multiply_matrices({.dtype = dtype, .m = rows, .n = out, .k = in, .transpose_b = true},
                    {{x.value().raw(), weight.value().raw(), y.mutable_raw(),
                      has_bias ? bias.value().raw() : nullptr}});

  std::vector<Tensor> inputs{x, weight};
  if (has_bias) inputs.push_back(bias);
  const Array kept = weight.id() != 0 ? x.value() : Array();  // for a constant weight, nothing
  return record("linear", y, inputs,
                [x = kept, weight = weight.value(), has_bias, dtype, rows, in, out](
                    const Array& gradient, InputGradients& into) {
                  into.accumulate(0, [&](Array& dx, bool accumulate) {
                    multiply_matrices(
                        {.dtype = dtype, .m = rows, .n = in, .k = out, .accumulate = accumulate},
                        {{gradient.raw(), weight.raw(), dx.mutable_raw()}});
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

}  // namespace tapestry
