#include "autograd/ops/indexing.hpp"

#include <algorithm>
#include <vector>

#include "autograd/dry_run.hpp"
#include "autograd/kernels/scatter.hpp"
#include "autograd/kernels/strided.hpp"
#include "autograd/ops/elementwise.hpp"

namespace tapestry {
namespace {

// The elements of an array that an index names along an axis, as rows of `width` contiguous
// elements: the array is a table of such rows, of which each picked row is one.
class Picked final {
 public:
  Picked(const char* op, const Tensor& x, int axis, const Array& given) : index_(given) {
    check_floating(op, x);
    const int at = normalize_axis(op, axis, x.shape());
    require(given.dtype() == DType::int32 && (given.rank() == x.rank() || given.rank() == 1),
            "{}: index {} with x {}; expected int32 of rank {} or 1", op, given, x.shape(),
            x.rank());
    const Strides strides = strides_of(x.shape());
    if (given.rank() == x.rank()) {
      shape_ = given.shape();
      step_ = strides[at];
      walk_ = {given.shape(), {strides, strides_of(given.shape())}};
      walk_.strides[0][at] = 0;
      for (int other = 0; other < x.rank(); ++other)
        require(other == at || given.dim(other) <= x.dim(other),
                "{}: index {} with x {} along axis {}; expected no other axis to be longer than "
                "that of x",
                op, given.shape(), x.shape(), axis);
    } else {
      shape_ = x.shape();
      shape_[at] = given.size();
      width_ = strides[at];
      std::int64_t before = 1;
      for (int other = 0; other < at; ++other) before *= x.dim(other);
      walk_ = {{before, given.size()}, {Strides{x.dim(at), 0}, Strides{0, 1}}};
    }
    check_range(op, x.shape(), at);
  }

  const Shape& shape() const { return shape_; }  // of the picked elements

  // Returns the picked elements of x.
  Array of(const Array& x) const {
    Array y(shape_, x.dtype());
    if (is_dry_run()) return y;
    dispatch(x.dtype(), [&, rows = this->rows()]<class T>() {
      const T* in = x.values<T>().data();
      T* out = y.mutable_values<T>().data();
      for_each_row(std::ssize(rows), width_, [&, width = width_](std::int64_t i) {
        std::copy_n(in + rows[i] * width, width, out + i * width);
      });
    });
    return y;
  }

  // Adds `source` to the picked elements of x.
  void add(const Array& source, Array& x) const {
    if (is_dry_run() || source.size() == 0) return;
    const std::vector<std::int64_t> list = rows();
    const RowPlaces places(std::span(list.data(), list.size()), x.size() / width_);
    dispatch(x.dtype(), [&]<class T>() {
      scatter_rows(places, width_, source.values<T>().data(), x.mutable_values<T>().data());
    });
  }

 private:
  void check_range(const char* op, const Shape& shape, int axis) const {
    if (is_dry_run()) return;
    for (const std::int32_t number : index_.values<std::int32_t>())
      require(number >= 0 && number < shape[axis],
              "{}: index {} along axis {} of x {}; expected 0 to {}", op, number, axis, shape,
              shape[axis] - 1);
  }

  // Returns the row of the table that each picked row is.
  std::vector<std::int64_t> rows() const {
    std::vector<std::int64_t> rows(walk_.shape.elements());
    const std::int32_t* index = index_.values<std::int32_t>().data();
    for_each_run(
        walk_, [&, step = step_](std::int64_t place, auto from, auto steps, std::int64_t count) {
          for (std::int64_t i = 0; i < count; ++i)
            rows[place + i] = from[0] + i * steps[0] + step * index[from[1] + i * steps[1]];
        });
    return rows;
  }

  Array index_;
  Shape shape_;
  std::int64_t width_ = 1;
  std::int64_t step_ = 1;  // rows of the table from one element of the axis to the next
  Walk<2>
      walk_;  // over the picked rows: the row of the table for index 0, and the place of the index
};

// Returns a where the condition is not 0, else b; all are broadcast to `shape`.
Array select_by(const Array& condition, const Array& a, const Array& b, const Shape& shape) {
  Array y(shape, a.dtype());
  const Walk<3> walk{shape,
                     {broadcast_strides(condition.shape(), shape),
                      broadcast_strides(a.shape(), shape), broadcast_strides(b.shape(), shape)}};
  dispatch(a.dtype(), [&]<class T>() {
    const std::int32_t* chooses = condition.values<std::int32_t>().data();
    const T *at_a = a.values<T>().data(), *at_b = b.values<T>().data();
    T* out = y.mutable_values<T>().data();
    for_each_run(walk, [=](std::int64_t place, auto from, auto steps, std::int64_t count) {
      for (std::int64_t i = 0; i < count; ++i)
        out[place + i] = chooses[from[0] + i * steps[0]] != 0 ? at_a[from[1] + i * steps[1]]
                                                              : at_b[from[2] + i * steps[2]];
    });
  });
  return y;
}

}  // namespace

Tensor gather(const Tensor& x, int axis, const Array& index) {
  const Picked picked("gather", x, axis, index);
  return record("gather", picked.of(x.value()), {x},
                [picked, shape = x.shape()](const Array& gradient, InputGradients& into) {
                  Array dx = Array::zeros(shape, gradient.dtype());
                  picked.add(gradient, dx);
                  into.add(0, dx);
                });
}

Tensor scatter_add(const Tensor& x, int axis, const Array& index, const Tensor& source) {
  check_same_dtype("scatter_add", x, source);
  const Picked picked("scatter_add", x, axis, index);
  require(source.shape() == picked.shape(),
          "scatter_add: source {} with x {} and index {} along axis {}; expected source {}",
          source.shape(), x.shape(), index.shape(), axis, picked.shape());
  Array y = x.value().clone();
  picked.add(source.value(), y);
  return record("scatter_add", y, {x, source},
                [picked](const Array& gradient, InputGradients& into) {
                  if (into.wanted(1)) into.add(1, picked.of(gradient));
                  into.add(0, gradient);
                });
}

Tensor where(const Array& condition, const Tensor& a, const Tensor& b) {
  check_same_dtype("where", a, b);
  require(condition.dtype() == DType::int32, "where: condition {}; expected int32", condition);
  const Shape shape =
      broadcast("where", condition.shape(), broadcast("where", a.shape(), b.shape()));
  return record("where", select_by(condition, a.value(), b.value(), shape), {a, b},
                [condition, shape](const Array& gradient, InputGradients& into) {
                  const Array zero = Array::zeros({}, gradient.dtype());
                  if (into.wanted(0)) into.add(0, select_by(condition, gradient, zero, shape));
                  if (into.wanted(1)) into.add(1, select_by(condition, zero, gradient, shape));
                });
}

}  // namespace tapestry
