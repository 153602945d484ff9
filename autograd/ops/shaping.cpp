#include "autograd/ops/shaping.hpp"

#include <cstring>
#include <numeric>

#include "autograd/ops/elementwise.hpp"

namespace tapestry {
namespace {

Shape resolve(const Tensor& x, const std::vector<std::int64_t>& wanted) {
  Shape shape;
  int inferred = -1;
  std::int64_t known = 1;
  for (std::int64_t extent : wanted) {
    if (extent == -1) {
      require(inferred < 0, "reshape: more than one -1 for {}", to_string(x.shape()));
      inferred = shape.rank();
    } else {
      known *= extent;
    }
    shape.push_back(extent == -1 ? 0 : extent);
  }
  if (inferred >= 0 && known > 0) shape[inferred] = x.size() / known;
  require(shape.elements() == x.size(), "reshape: {} to {}", to_string(x.shape()),
          to_string(shape));
  return shape;
}

// Writes `to` in order while walking `from` by the permuted strides.
template <class T>
void copy_permuted(const Shape& shape, const std::vector<std::int64_t>& strides, const T* from,
                   T* to) {
  const int last = shape.rank() - 1;
  const std::int64_t row = shape[last], stride = strides[last];
  const std::int64_t rows = shape.elements() / std::max<std::int64_t>(1, row);
  parallel_for(rows, std::max<std::int64_t>(1, 16384 / std::max<std::int64_t>(1, row)),
               [&](std::int64_t begin, std::int64_t end) {
                 for (std::int64_t i = begin; i < end; ++i) {
                   std::int64_t rest = i, offset = 0;
                   for (int axis = last - 1; axis >= 0; --axis) {
                     offset += rest % shape[axis] * strides[axis];
                     rest /= shape[axis];
                   }
                   for (std::int64_t j = 0; j < row; ++j)
                     to[i * row + j] = from[offset + j * stride];
                 }
               });
}

Array permuted(const Array& x, const std::vector<int>& axes) {
  if (x.rank() == 0) return x;
  std::vector<std::int64_t> own(axes.size(), 1);
  for (int axis = x.rank() - 2; axis >= 0; --axis) own[axis] = own[axis + 1] * x.dim(axis + 1);
  Shape shape;
  std::vector<std::int64_t> strides;
  for (int axis : axes) {
    shape.push_back(x.dim(axis));
    strides.push_back(own[axis]);
  }
  Array y(shape, x.dtype());
  dispatch(x.dtype(), [&]<class T>() {
    copy_permuted(shape, strides, x.values<T>().data(), y.mutable_values<T>().data());
  });
  return y;
}

// An array as `outer` blocks, in which each index of `axis` has `inner` bytes.
struct Rows {
  std::size_t outer = 1, inner;
  Rows(const Array& array, int axis) : inner(size_of(array.dtype())) {
    for (int i = 0; i < axis; ++i) outer *= array.dim(i);
    for (int i = axis + 1; i < array.rank(); ++i) inner *= array.dim(i);
  }
};

// Copies `count` indices of `axis` from one array, starting at from_begin, into another.
void copy_along(int axis, const Array& from, std::int64_t from_begin, Array& to,
                std::int64_t to_begin, std::int64_t count) {
  const Rows rows(from, axis);
  const auto at = [&](const Array& array, std::size_t i, std::int64_t begin) {
    return (i * array.dim(axis) + begin) * rows.inner;
  };
  const std::size_t bytes = count * rows.inner;
  if (bytes == 0) return;
  for (std::size_t i = 0; i < rows.outer; ++i)
    std::memcpy(to.mutable_raw() + at(to, i, to_begin), from.raw() + at(from, i, from_begin),
                bytes);
}

Array sliced(const Array& x, int axis, std::int64_t begin, std::int64_t end) {
  Shape shape = x.shape();
  shape[axis] = end - begin;
  Array y(shape, x.dtype());
  copy_along(axis, x, begin, y, 0, end - begin);
  return y;
}

}  // namespace

Tensor reshape(const Tensor& x, const std::vector<std::int64_t>& shape) {
  check_floating("reshape", x);
  return record("reshape", x.value().reshaped(resolve(x, shape)), {x},
                [from = x.shape()](const Array& gradient, InputGradients& into) {
                  into.add(0, gradient.reshaped(from));
                });
}

Tensor permute(const Tensor& x, const std::vector<int>& axes) {
  check_floating("permute", x);
  std::vector<int> order, inverse(axes.size(), -1);
  require(std::ssize(axes) == x.rank(), "permute: {} axes for {}", axes.size(),
          to_string(x.shape()));
  for (int axis : axes) {
    order.push_back(normalize_axis("permute", axis, x.shape()));
    int& back = inverse[order.back()];
    require(back < 0, "permute: axis {} of {} twice", axis, to_string(x.shape()));
    back = std::ssize(order) - 1;
  }
  return record("permute", permuted(x.value(), order), {x},
                [inverse](const Array& gradient, InputGradients& into) {
                  into.add(0, permuted(gradient, inverse));
                });
}

Tensor slice(const Tensor& x, int axis, std::int64_t begin, std::int64_t end) {
  check_floating("slice", x);
  const int at = normalize_axis("slice", axis, x.shape());
  require(0 <= begin && begin <= end && end <= x.dim(at), "slice: [{}, {}) of axis {} of {}", begin,
          end, axis, to_string(x.shape()));
  return record("slice", sliced(x.value(), at, begin, end), {x},
                [shape = x.shape(), at, begin](const Array& gradient, InputGradients& into) {
                  Array dx = Array::zeros(shape, gradient.dtype());
                  copy_along(at, gradient, 0, dx, begin, gradient.dim(at));
                  into.add(0, dx);
                });
}

Tensor concat(const std::vector<Tensor>& parts, int axis) {
  require(!parts.empty(), "concat: nothing to join");
  const int at = normalize_axis("concat", axis, parts[0].shape());
  Shape shape = parts[0].shape();
  shape[at] = 0;
  for (const Tensor& part : parts) {
    check_same_dtype("concat", parts[0], part);
    Shape others = part.shape();
    if (others.rank() == shape.rank()) others[at] = shape[at];
    require(others == shape, "concat: {} with {} along axis {}", to_string(parts[0].shape()),
            to_string(part.shape()), axis);
    shape[at] += part.dim(at);
  }
  Array y(shape, parts[0].dtype());
  std::vector<std::int64_t> begins{0};
  for (const Tensor& part : parts) {
    copy_along(at, part.value(), 0, y, begins.back(), part.dim(at));
    begins.push_back(begins.back() + part.dim(at));
  }
  return record("concat", y, parts, [begins, at](const Array& gradient, InputGradients& into) {
    for (std::size_t i = 0; i + 1 < begins.size(); ++i)
      if (into.wanted(i)) into.add(i, sliced(gradient, at, begins[i], begins[i + 1]));
  });
}

}  // namespace tapestry
