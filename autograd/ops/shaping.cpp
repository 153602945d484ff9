#include "autograd/ops/shaping.hpp"

#include <algorithm>
#include <numeric>

#include "autograd/kernels/rows.hpp"
#include "autograd/kernels/strided.hpp"
#include "autograd/ops/elementwise.hpp"

namespace tapestry {
namespace {

Shape resolve(const Tensor& x, const std::vector<std::int64_t>& wanted) {
  Shape shape;
  int inferred = -1;
  for (std::int64_t extent : wanted) {
    require(extent >= -1, "reshape: {} to an extent of {}; expected -1 or more", x.shape(), extent);
    if (extent == -1) {
      require(inferred < 0, "reshape: {} to a shape with more than one -1; expected at most one",
              x.shape());
      inferred = shape.rank();
    }
    shape.push_back(extent == -1 ? 1 : extent);
  }
  if (inferred >= 0) {
    const std::int64_t known = shape.elements();
    require(known > 0,
            "reshape: {} to a shape with an extent of 0 and -1, which any number fits; expected "
            "a number in place of -1",
            x.shape());
    shape[inferred] = x.size() / known;
  }
  require(shape.elements() == x.size(),
          "reshape: {} to {}: the numbers of elements differ; expected equal numbers", x.shape(),
          shape);
  return shape;
}

Array permuted(const Array& x, const std::vector<int>& axes) {
  const Strides own = strides_of(x.shape());
  Walk<1> walk;
  for (int axis : axes) {
    walk.shape.push_back(x.dim(axis));
    walk.strides[0].push_back(own[axis]);
  }
  Array y(walk.shape, x.dtype());
  dispatch(x.dtype(), [&]<class T>() {
    const T* in = x.values<T>().data();
    T* out = y.mutable_values<T>().data();
    for_each_run(walk, [=](std::int64_t place, auto from, auto strides, std::int64_t count) {
      copy_run(count, in + from[0], strides[0], out + place, 1);
    });
  });
  return y;
}

// Copies `count` indices of `axis` from `from_begin` of one array to `to_begin` of another.
void copy_along(int axis, const Array& from, std::int64_t from_begin, Array& to,
                std::int64_t to_begin, std::int64_t count) {
  Walk<2> walk{from.shape(), {strides_of(from.shape()), strides_of(to.shape())}};
  walk.shape[axis] = count;
  const auto [from_step, to_step] = walk.strides;
  dispatch(from.dtype(), [&]<class T>() {
    const T* in = from.values<T>().data() + from_begin * from_step[axis];
    T* out = to.mutable_values<T>().data() + to_begin * to_step[axis];
    for_each_run(walk, [=](std::int64_t, auto at, auto strides, std::int64_t n) {
      copy_run(n, in + at[0], strides[0], out + at[1], strides[1]);
    });
  });
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
  require(std::ssize(axes) == x.rank(), "permute: {} axes for x {}; expected {}", axes.size(),
          x.shape(), x.rank());
  for (int axis : axes) {
    order.push_back(normalize_axis("permute", axis, x.shape()));
    int& back = inverse[order.back()];
    require(back < 0, "permute: axis {} of {} is given twice; give each axis once", axis,
            x.shape());
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
  require(0 <= begin && begin <= end && end <= x.dim(at),
          "slice: [{}, {}) is not a range of axis {} of {}; expected 0 <= begin <= end <= extent",
          begin, end, axis, x.shape());
  return record("slice", sliced(x.value(), at, begin, end), {x},
                [shape = x.shape(), at, begin](const Array& gradient, InputGradients& into) {
                  Array dx = Array::zeros(shape, gradient.dtype());
                  copy_along(at, gradient, 0, dx, begin, gradient.dim(at));
                  into.add(0, dx);
                });
}

Tensor concat(const std::vector<Tensor>& parts, int axis) {
  require(!parts.empty(), "concat: no tensors; expected at least one");
  const int at = normalize_axis("concat", axis, parts[0].shape());
  Shape shape = parts[0].shape();
  shape[at] = 0;
  for (const Tensor& part : parts) {
    check_same_dtype("concat", parts[0], part);
    Shape others = part.shape();
    if (others.rank() == shape.rank()) others[at] = shape[at];
    require(others == shape,
            "concat: {} with {} along axis {}; expected equal ranks, and equal extents of all "
            "other axes",
            parts[0].shape(), part.shape(), axis);
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

std::vector<Tensor> split(const Tensor& x, const std::vector<std::int64_t>& extents, int axis) {
  check_floating("split", x);
  const std::int64_t whole = x.dim(normalize_axis("split", axis, x.shape()));
  require(std::ranges::all_of(extents, [](std::int64_t extent) { return extent >= 0; }) &&
              std::accumulate(extents.begin(), extents.end(), std::int64_t{0}) == whole,
          "split: {} into parts of {} along axis {}; expected extents of 0 or more with the sum {}",
          x.shape(), fmt::join(extents, ", "), axis, whole);
  std::vector<Tensor> parts;
  std::int64_t begin = 0;
  for (const std::int64_t extent : extents) {
    parts.push_back(slice(x, axis, begin, begin + extent));
    begin += extent;
  }
  return parts;
}

std::vector<Tensor> chunk(const Tensor& x, std::int64_t count, int axis) {
  check_floating("chunk", x);
  require_value(count >= 1, "chunk", "count", count, "at least 1");
  const std::int64_t whole = x.dim(normalize_axis("chunk", axis, x.shape()));
  const std::int64_t extent = std::max<std::int64_t>(1, (whole - 1) / count + 1);
  std::vector<Tensor> parts;
  for (std::int64_t begin = 0; begin == 0 || begin < whole; begin += extent)
    parts.push_back(slice(x, axis, begin, std::min(whole, begin + extent)));
  return parts;
}

Tensor stack(const std::vector<Tensor>& parts, int axis) {
  require(!parts.empty(), "stack: no tensors; expected at least one");
  for (const Tensor& part : parts) check_same_shape("stack", parts[0], part);
  Shape longer = parts[0].shape();
  longer.push_back(1);
  const int at = normalize_axis("stack", axis, longer);
  std::vector<std::int64_t> shape(parts[0].shape().begin(), parts[0].shape().end());
  shape.insert(shape.begin() + at, 1);
  std::vector<Tensor> rows;
  for (const Tensor& part : parts) rows.push_back(reshape(part, shape));
  return concat(rows, at);
}

namespace {

// The windows of sequences x (B, T, C).
struct Windows {
  std::int64_t B, T, C, K, stride;
  std::int64_t count;  // T'

  // Computes the windows y (B, T', K C) of x (B, T, C); threads divide the windows.
  template <class Real>
  void take(const Real* x, Real* y) const {
    for_each_row(B * count, K * C, [=, *this](std::int64_t row) {
      const std::int64_t first = row / count * T + row % count * stride;
      std::copy_n(x + first * C, K * C, y + row * K * C);
    });
  }

  // Computes dx (B, T, C) from dy (B, T', K C). Threads divide the steps, and add the windows of
  // each in order.
  template <class Real>
  void give_back(const Real* dy, Real* dx) const {
    for_each_row(B * T, C * (1 + K / stride), [=, *this](std::int64_t row) {
      Real* sum = dx + row * C;
      std::fill_n(sum, C, Real(0));
      for (std::int64_t k = K - 1; k >= 0; --k) {
        const std::int64_t start = row % T - k;
        if (start < 0 || start % stride != 0 || start / stride >= count) continue;
        const Real* g = dy + ((row / T * count + start / stride) * K + k) * C;
        map_span(C, {sum, g}, sum, [](auto x, auto y) { return x + y; });
      }
    });
  }
};

}  // namespace

Tensor unfold(const Tensor& x, const UnfoldOptions& options) {
  check_floating("unfold", x);
  const auto [K, stride] = options;
  require(
      x.rank() == 3 && K >= 1 && stride >= 1,
      "unfold: x {} with width {} and stride {}; expected x (B, T, C), and a width and a stride "
      "of at least 1",
      x.shape(), K, stride);
  const std::int64_t T = x.dim(1);
  const Windows windows{.B = x.dim(0),
                        .T = T,
                        .C = x.dim(2),
                        .K = K,
                        .stride = stride,
                        .count = T < K ? 0 : (T - K) / stride + 1};
  Array y({windows.B, windows.count, K * windows.C}, x.dtype());
  dispatch(x.dtype(), [&]<class Real>() {
    windows.take(x.value().values<Real>().data(), y.mutable_values<Real>().data());
  });
  return record("unfold", y, {x}, [windows](const Array& gradient, InputGradients& into) {
    Array dx({windows.B, windows.T, windows.C}, gradient.dtype());
    dispatch(gradient.dtype(), [&]<class Real>() {
      windows.give_back(gradient.values<Real>().data(), dx.mutable_values<Real>().data());
    });
    into.add(0, dx);
  });
}

}  // namespace tapestry
