#include <algorithm>
#include <cmath>
#include <functional>
#include <numeric>

#include "autograd/check.hpp"
#include "tests/support/onnx_file.hpp"

// The operators of the standard (onnx/docs/Operators.md), computed one number at a time.
namespace tapestry {
namespace {

using Extents = std::vector<std::int64_t>;
using Inputs = std::vector<OnnxTensor>;

std::int64_t elements(const Extents& shape) {
  return std::accumulate(shape.begin(), shape.end(), std::int64_t{1}, std::multiplies<>());
}

std::int64_t axis_of(std::int64_t axis, std::size_t rank) {
  return axis < 0 ? axis + static_cast<std::int64_t>(rank) : axis;
}

// A shape divided at an axis into outer x length x inner.
struct Around {
  std::int64_t outer, length, inner;
};
Around around(const Extents& shape, std::int64_t axis) {
  const std::int64_t a = axis_of(axis, shape.size());
  require(a >= 0 && a < std::ssize(shape), "axis {} of {}", a, shape.size());
  return {elements({shape.begin(), shape.begin() + a}), shape[a],
          elements({shape.begin() + a + 1, shape.end()})};
}

Extents broadcast(const Extents& a, const Extents& b) {
  Extents shape(std::max(a.size(), b.size()));
  for (std::size_t i = 1; i <= shape.size(); ++i) {
    const std::int64_t m = i <= a.size() ? a[a.size() - i] : 1;
    const std::int64_t n = i <= b.size() ? b[b.size() - i] : 1;
    require(m == n || m == 1 || n == 1, "lengths {} and {}", m, n);
    shape[shape.size() - i] = m == 1 ? n : m;
  }
  return shape;
}

OnnxTensor expanded(const OnnxTensor& x, const Extents& shape) {
  OnnxTensor y{.shape = shape, .values = std::vector<double>(elements(shape))};
  for (std::int64_t i = 0; i < std::ssize(y.values); ++i) {
    std::int64_t rest = i, place = 0, step = 1;
    for (std::size_t k = 1; k <= shape.size(); ++k) {
      const std::int64_t index = rest % shape[shape.size() - k];
      rest /= shape[shape.size() - k];
      if (k > x.shape.size()) continue;
      const std::int64_t length = x.shape[x.shape.size() - k];
      place += (length == 1 ? 0 : index) * step;
      step *= length;
    }
    y.values[i] = x.values[place];
  }
  return y;
}

OnnxTensor each(OnnxTensor x, const std::function<double(double)>& f) {
  for (double& value : x.values) value = f(value);
  return x;
}

OnnxTensor pairs(const OnnxTensor& a, const OnnxTensor& b,
                 const std::function<double(double, double)>& f) {
  const Extents shape = broadcast(a.shape, b.shape);
  OnnxTensor y = expanded(a, shape);
  const OnnxTensor other = expanded(b, shape);
  for (std::size_t i = 0; i < y.values.size(); ++i) y.values[i] = f(y.values[i], other.values[i]);
  return y;
}

// Calls `change` with the numbers along an axis.
OnnxTensor lines(OnnxTensor x, std::int64_t axis,
                 const std::function<void(std::vector<double>&)>& change) {
  const auto [outer, length, inner] = around(x.shape, axis);
  std::vector<double> line(length);
  for (std::int64_t o = 0; o < outer; ++o)
    for (std::int64_t i = 0; i < inner; ++i) {
      const auto at = [&](std::int64_t k) -> double& {
        return x.values[(o * length + k) * inner + i];
      };
      for (std::int64_t k = 0; k < length; ++k) line[k] = at(k);
      change(line);
      for (std::int64_t k = 0; k < length; ++k) at(k) = line[k];
    }
  return x;
}

OnnxTensor reduced(const OnnxTensor& x, std::int64_t axis, bool keep,
                   const std::function<double(const std::vector<double>&)>& f) {
  const auto [outer, length, inner] = around(x.shape, axis);
  OnnxTensor y{.shape = x.shape, .values = {}};
  for (std::int64_t o = 0; o < outer; ++o)
    for (std::int64_t i = 0; i < inner; ++i) {
      std::vector<double> line(length);
      for (std::int64_t k = 0; k < length; ++k) line[k] = x.values[(o * length + k) * inner + i];
      y.values.push_back(f(line));
    }
  const std::int64_t a = axis_of(axis, x.shape.size());
  if (keep)
    y.shape[a] = 1;
  else
    y.shape.erase(y.shape.begin() + a);
  return y;
}

double total(const std::vector<double>& line) {
  return std::accumulate(line.begin(), line.end(), 0.0);
}
double average(const std::vector<double>& line) {
  return total(line) / static_cast<double>(line.size());
}

void softmax(std::vector<double>& line) {
  const double high = *std::ranges::max_element(line);
  for (double& value : line) value = std::exp(value - high);
  const double sum = total(line);
  for (double& value : line) value /= sum;
}

// Returns parts of x along an axis by their indices.
OnnxTensor taken(const OnnxTensor& x, std::int64_t axis, const Extents& indices) {
  const auto [outer, length, inner] = around(x.shape, axis);
  OnnxTensor y{.shape = x.shape, .values = {}};
  y.shape[axis_of(axis, x.shape.size())] = std::ssize(indices);
  for (std::int64_t o = 0; o < outer; ++o)
    for (const std::int64_t index : indices) {
      require(index >= 0 && index < length, "index {} of {}", index, length);
      const auto from = x.values.begin() + (o * length + index) * inner;
      y.values.insert(y.values.end(), from, from + inner);
    }
  return y;
}

Extents integers(const OnnxTensor& x) { return {x.values.begin(), x.values.end()}; }

OnnxTensor gather(const OnnxTensor& x, const OnnxTensor& indices, std::int64_t axis) {
  OnnxTensor y = taken(x, axis, integers(indices));
  const std::int64_t a = axis_of(axis, x.shape.size());
  y.shape.erase(y.shape.begin() + a);
  y.shape.insert(y.shape.begin() + a, indices.shape.begin(), indices.shape.end());
  return y;
}

// Returns the place in x that each element of an index of x's rank names along an axis.
Extents named_places(const OnnxTensor& x, const OnnxTensor& index, std::int64_t axis) {
  const std::size_t rank = x.shape.size();
  const auto a = static_cast<std::size_t>(axis_of(axis, rank));
  Extents places;
  for (std::int64_t i = 0; i < std::ssize(index.values); ++i) {
    std::int64_t rest = i, place = 0, step = 1;
    for (std::size_t k = rank; k-- > 0;) {
      const std::int64_t own = rest % index.shape[k];
      const std::int64_t at = k == a ? static_cast<std::int64_t>(index.values[i]) : own;
      require(at >= 0 && at < x.shape[k], "index {} of {}", at, x.shape[k]);
      place += at * step;
      step *= x.shape[k];
      rest /= index.shape[k];
    }
    places.push_back(place);
  }
  return places;
}

OnnxTensor slice(const Inputs& in) {
  const std::int64_t axis = axis_of(integers(in[3]).at(0), in[0].shape.size());
  const std::int64_t length = in[0].shape[axis], step = in.size() > 4 ? integers(in[4])[0] : 1;
  const auto bound = [&](std::int64_t place) {
    return std::clamp<std::int64_t>(place < 0 ? place + length : place, 0, length);
  };
  Extents indices;
  // The largest number of an int64 is rounded up in a double.
  const double end = in[2].values[0];
  const std::int64_t last = bound(end > 1e18 ? length : static_cast<std::int64_t>(end));
  for (std::int64_t i = bound(integers(in[1])[0]); i < last; i += step) indices.push_back(i);
  return taken(in[0], axis, indices);
}

OnnxTensor transposed(const OnnxTensor& x, const Extents& order) {
  OnnxTensor y{.shape = {}, .values = std::vector<double>(x.values.size())};
  for (const std::int64_t axis : order) y.shape.push_back(x.shape[axis]);
  Extents steps(x.shape.size(), 1);
  for (std::size_t i = x.shape.size() - 1; i > 0; --i) steps[i - 1] = steps[i] * x.shape[i];
  for (std::int64_t i = 0; i < std::ssize(y.values); ++i) {
    std::int64_t rest = i, place = 0;
    for (std::size_t k = order.size(); k > 0; --k) {
      place += rest % y.shape[k - 1] * steps[order[k - 1]];
      rest /= y.shape[k - 1];
    }
    y.values[i] = x.values[place];
  }
  return y;
}

OnnxTensor matmul(const OnnxTensor& a, const OnnxTensor& b) {
  const std::int64_t m = a.shape[a.shape.size() - 2], k = a.shape.back(), n = b.shape.back();
  require(b.shape[b.shape.size() - 2] == k, "a product of {} columns and {} rows", k,
          b.shape[b.shape.size() - 2]);
  Extents shape =
      broadcast({a.shape.begin(), a.shape.end() - 2}, {b.shape.begin(), b.shape.end() - 2});
  const auto spread = [&](const OnnxTensor& x) {
    Extents whole = shape;
    whole.insert(whole.end(), x.shape.end() - 2, x.shape.end());
    return expanded(x, whole);
  };
  const OnnxTensor x = spread(a), y = spread(b);
  const std::int64_t matrices = elements(shape);
  shape.insert(shape.end(), {m, n});
  OnnxTensor z{.shape = shape, .values = std::vector<double>(elements(shape))};
  for (std::int64_t batch = 0; batch < matrices; ++batch)
    for (std::int64_t i = 0; i < m; ++i)
      for (std::int64_t l = 0; l < k; ++l)
        for (std::int64_t j = 0; j < n; ++j)
          z.values[(batch * m + i) * n + j] +=
              x.values[(batch * m + i) * k + l] * y.values[(batch * k + l) * n + j];
  return z;
}

OnnxTensor reshaped(OnnxTensor x, Extents shape) {
  for (std::size_t i = 0; i < shape.size(); ++i)
    if (shape[i] == 0) shape[i] = x.shape.at(i);
  const auto open = std::ranges::find(shape, -1);
  if (open != shape.end()) *open = -std::ssize(x.values) / elements(shape);
  require(elements(shape) == std::ssize(x.values), "{} elements in a shape of {}", x.values.size(),
          elements(shape));
  x.shape = std::move(shape);
  return x;
}

OnnxTensor unsqueezed(OnnxTensor x, Extents axes) {
  std::ranges::sort(axes);
  for (const std::int64_t axis : axes) x.shape.insert(x.shape.begin() + axis, 1);
  return x;
}

OnnxTensor squeezed(OnnxTensor x, std::int64_t axis) {
  require(x.shape.at(axis) == 1, "an axis of {} squeezed", x.shape[axis]);
  x.shape.erase(x.shape.begin() + axis);
  return x;
}

OnnxTensor concat(const Inputs& parts, std::int64_t axis) {
  OnnxTensor y{.shape = parts.front().shape, .values = {}};
  std::int64_t& length = y.shape[axis_of(axis, y.shape.size())];
  length = 0;
  for (const OnnxTensor& part : parts) length += around(part.shape, axis).length;
  for (std::int64_t o = 0; o < around(y.shape, axis).outer; ++o)
    for (const OnnxTensor& part : parts) {
      const Around of = around(part.shape, axis);
      const auto from = part.values.begin() + o * of.length * of.inner;
      y.values.insert(y.values.end(), from, from + of.length * of.inner);
    }
  return y;
}

OnnxTensor cumulative(const OnnxTensor& x, std::int64_t axis, bool exclusive, bool reverse) {
  return lines(x, axis, [=](std::vector<double>& line) {
    if (reverse) std::ranges::reverse(line);
    double sum = 0;
    for (double& value : line) {
      const double before = sum;
      sum += value;
      value = exclusive ? before : sum;
    }
    if (reverse) std::ranges::reverse(line);
  });
}

// X (T, B, C), W (1, H, C), R (1, H, H), B (1, 2H) -> (T, 1, B, H)
OnnxTensor rnn(const Inputs& in) {
  const std::int64_t T = in[0].shape[0], B = in[0].shape[1], C = in[0].shape[2];
  const std::int64_t H = in[1].shape[1];
  OnnxTensor y{.shape = {T, 1, B, H}, .values = std::vector<double>(T * B * H)};
  for (std::int64_t t = 0; t < T; ++t)
    for (std::int64_t b = 0; b < B; ++b)
      for (std::int64_t h = 0; h < H; ++h) {
        double sum = in.size() > 3 ? in[3].values[h] + in[3].values[H + h] : 0;
        for (std::int64_t c = 0; c < C; ++c)
          sum += in[1].values[h * C + c] * in[0].values[(t * B + b) * C + c];
        for (std::int64_t g = 0; t > 0 && g < H; ++g)
          sum += in[2].values[h * H + g] * y.values[((t - 1) * B + b) * H + g];
        y.values[(t * B + b) * H + h] = std::tanh(sum);
      }
  return y;
}

double logistic(double x) { return 1 / (1 + std::exp(-x)); }

// X (T, B, C), W (1, G H, C), R (1, G H, H), B (1, 2 G H) -> (T, 1, B, H), of an LSTM (G = 4, gates
// i, o, f, c) or a GRU (G = 3, gates z, r, h, of which r acts after the product).
OnnxTensor gated(const Inputs& in, std::int64_t G) {
  const std::int64_t T = in[0].shape[0], B = in[0].shape[1], C = in[0].shape[2];
  const std::int64_t H = in[1].shape[1] / G;
  OnnxTensor y{.shape = {T, 1, B, H}, .values = std::vector<double>(T * B * H)};
  const auto bias = [&](std::int64_t row) { return in.size() > 3 ? in[3].values[row] : 0; };
  for (std::int64_t b = 0; b < B; ++b) {
    std::vector<double> state(H), cell(H);
    for (std::int64_t t = 0; t < T; ++t) {
      std::vector<double> x(G * H), u(G * H);  // the two products
      for (std::int64_t row = 0; row < G * H; ++row) {
        x[row] = bias(row), u[row] = bias(G * H + row);
        for (std::int64_t c = 0; c < C; ++c)
          x[row] += in[1].values[row * C + c] * in[0].values[(t * B + b) * C + c];
        for (std::int64_t h = 0; h < H; ++h) u[row] += in[2].values[row * H + h] * state[h];
      }
      const auto gate = [&](std::int64_t k, std::int64_t h) {
        return logistic(x[k * H + h] + u[k * H + h]);
      };
      for (std::int64_t h = 0; h < H; ++h) {
        const std::int64_t last = (G - 1) * H + h;
        if (G == 4) {
          cell[h] = gate(2, h) * cell[h] + gate(0, h) * std::tanh(x[last] + u[last]);
          state[h] = gate(1, h) * std::tanh(cell[h]);
        } else {
          const double candidate = std::tanh(x[last] + gate(1, h) * u[last]);
          state[h] = (1 - gate(0, h)) * candidate + gate(0, h) * state[h];
        }
        y.values[(t * B + b) * H + h] = state[h];
      }
    }
  }
  return y;
}

// Calls visit(b, from channel, to channel, input row, input column, output row, output column,
// index in the kernel) for each product of a convolution with square kernels.
struct Convolution {
  std::int64_t B, from, to, kernel, stride, padding;
  Extents large, small;  // height and width
};

template <class Visit>
void for_each_product(const Convolution& of, const Visit& visit) {
  const std::int64_t K = of.kernel;
  for (std::int64_t b = 0; b < of.B; ++b)
    for (std::int64_t o = 0; o < of.to; ++o)
      for (std::int64_t c = 0; c < of.from; ++c)
        for (std::int64_t i = 0; i < of.small[0]; ++i)
          for (std::int64_t j = 0; j < of.small[1]; ++j)
            for (std::int64_t k = 0; k < K * K; ++k) {
              const std::int64_t row = i * of.stride + k / K - of.padding;
              const std::int64_t column = j * of.stride + k % K - of.padding;
              if (row < 0 || column < 0 || row >= of.large[0] || column >= of.large[1]) continue;
              const std::int64_t large =
                  ((b * of.from + c) * of.large[0] + row) * of.large[1] + column;
              const std::int64_t small = ((b * of.to + o) * of.small[0] + i) * of.small[1] + j;
              visit(large, small, (o * of.from + c) * K * K + k);
            }
}

OnnxTensor with_bias(OnnxTensor y, const OnnxTensor& bias) {
  const std::int64_t channels = y.shape[1], pixels = y.shape[2] * y.shape[3];
  for (std::int64_t i = 0; i < std::ssize(y.values); ++i)
    y.values[i] += bias.values[i / pixels % channels];
  return y;
}

OnnxTensor convolved(const Inputs& in, const OnnxNode& node, bool transposed) {
  const OnnxTensor &x = in[0], &weight = in[1];
  const std::int64_t K = node.attributes.at("kernel_shape").integers[0];
  const std::int64_t stride = node.attributes.at("strides").integers[0];
  const std::int64_t padding = node.attributes.at("pads").integers[0];
  Extents sizes;
  for (const int axis : {0, 1})
    sizes.push_back(transposed ? (x.shape[2 + axis] - 1) * stride + K - 2 * padding +
                                     node.attributes.at("output_padding").integers[axis]
                               : (x.shape[2 + axis] + 2 * padding - K) / stride + 1);
  const Extents own{x.shape[2], x.shape[3]};
  const Convolution of{.B = x.shape[0],
                       .from = weight.shape[1],
                       .to = weight.shape[0],
                       .kernel = K,
                       .stride = stride,
                       .padding = padding,
                       .large = transposed ? sizes : own,
                       .small = transposed ? own : sizes};
  OnnxTensor y{.shape = {of.B, transposed ? of.from : of.to, sizes[0], sizes[1]}, .values = {}};
  y.values.resize(elements(y.shape));
  for_each_product(of, [&](std::int64_t large, std::int64_t small, std::int64_t k) {
    if (transposed)
      y.values[large] += weight.values[k] * x.values[small];
    else
      y.values[small] += weight.values[k] * x.values[large];
  });
  return with_bias(y, in[2]);
}

// Returns the fold of the elements of each window; the windows are squares side by side.
template <class Fold>
OnnxTensor pooled(const OnnxTensor& x, std::int64_t K, const Fold& fold) {
  const std::int64_t planes = x.shape[0] * x.shape[1], W = x.shape[3];
  OnnxTensor y{.shape = {x.shape[0], x.shape[1], x.shape[2] / K, W / K}, .values = {}};
  const std::int64_t h = y.shape[2], w = y.shape[3];
  for (std::int64_t i = 0; i < planes * h * w; ++i) {
    const std::int64_t corner = (i / (h * w) * x.shape[2] + i / w % h * K) * W + i % w * K;
    std::vector<double> window;
    for (std::int64_t k = 0; k < K * K; ++k) window.push_back(x.values[corner + k / K * W + k % K]);
    y.values.push_back(fold(window));
  }
  return y;
}

OnnxTensor normalized(const Inputs& in, double epsilon) {
  const OnnxTensor unit = lines(in[0], -1, [=](std::vector<double>& line) {
    const double mean = average(line);
    double variance = 0;
    for (const double value : line) variance += (value - mean) * (value - mean);
    const double deviation = std::sqrt(variance / static_cast<double>(line.size()) + epsilon);
    for (double& value : line) value = (value - mean) / deviation;
  });
  return pairs(pairs(unit, in[1], std::multiplies<>()), in[2], std::plus<>());
}

OnnxTensor compute(const OnnxNode& node, const Inputs& in) {
  const auto integer = [&](const char* name, std::int64_t otherwise) {
    const auto found = node.attributes.find(name);
    return found == node.attributes.end() ? otherwise : found->second.integer;
  };
  const std::string& op = node.op;
  const auto sign = [](double x) { return -x; };
  const std::map<std::string, std::function<double(double)>> unary = {
      {"Sqrt", [](double x) { return std::sqrt(x); }},
      {"Exp", [](double x) { return std::exp(x); }},
      {"Elu", [](double x) { return x > 0 ? x : std::expm1(x); }},
      {"Sin", [](double x) { return std::sin(x); }},
      {"Cos", [](double x) { return std::cos(x); }},
      {"Tanh", [](double x) { return std::tanh(x); }},
      {"Erf", [](double x) { return std::erf(x); }},
      {"Abs", [](double x) { return std::abs(x); }},
      {"Neg", sign},
      {"Cast", [](double x) { return static_cast<float>(x); }},
      {"IsNaN", [](double x) { return std::isnan(x) ? 1.0 : 0.0; }},
      {"Relu", [](double x) { return std::max(x, 0.0); }},
      {"Sigmoid", [](double x) { return 1 / (1 + std::exp(-x)); }},
      {"Softplus", [](double x) { return std::max(x, 0.0) + std::log1p(std::exp(-std::abs(x))); }}};
  const std::map<std::string, std::function<double(double, double)>> binary = {
      {"Add", std::plus<>()},
      {"Sub", std::minus<>()},
      {"Mul", std::multiplies<>()},
      {"Div", std::divides<>()},
      {"Max", [](double x, double y) { return std::max(x, y); }},
      {"Mod", [](double x, double y) { return x - y * std::floor(x / y); }},
      {"Equal", std::equal_to<>()},
      {"Less", std::less<>()},
      {"Or", [](double x, double y) { return x != 0 || y != 0; }}};
  if (const auto found = unary.find(op); found != unary.end()) return each(in[0], found->second);
  if (const auto found = binary.find(op); found != binary.end())
    return pairs(in[0], in[1], found->second);
  const bool keep = integer("keepdims", 1) != 0;
  if (op == "Constant") return node.attributes.at("value").tensor;
  if (op == "Where") {
    const Extents shape = broadcast(in[0].shape, broadcast(in[1].shape, in[2].shape));
    OnnxTensor y = expanded(in[1], shape);
    const OnnxTensor chosen = expanded(in[0], shape), other = expanded(in[2], shape);
    for (std::size_t i = 0; i < y.values.size(); ++i)
      if (chosen.values[i] == 0) y.values[i] = other.values[i];
    return y;
  }
  if (op == "Softmax") return lines(in[0], integer("axis", -1), softmax);
  if (op == "ReduceSum") return reduced(in[0], integers(in[1])[0], keep, total);
  if (op == "ReduceMean")
    return reduced(in[0], node.attributes.at("axes").integers[0], keep, average);
  const auto largest = [](const auto& line) { return *std::ranges::max_element(line); };
  if (op == "ReduceMax")
    return reduced(in[0], node.attributes.at("axes").integers[0], keep, largest);
  if (op == "MaxPool")
    return pooled(in[0], node.attributes.at("kernel_shape").integers[0], largest);
  if (op == "AveragePool")
    return pooled(in[0], node.attributes.at("kernel_shape").integers[0], average);
  if (op == "CumSum")
    return cumulative(in[0], integers(in[1])[0], integer("exclusive", 0), integer("reverse", 0));
  if (op == "MatMul") return matmul(in[0], in[1]);
  if (op == "Transpose") return transposed(in[0], node.attributes.at("perm").integers);
  if (op == "Reshape") return reshaped(in[0], integers(in[1]));
  if (op == "Expand") return expanded(in[0], broadcast(in[0].shape, integers(in[1])));
  if (op == "Unsqueeze") return unsqueezed(in[0], integers(in[1]));
  if (op == "Squeeze") return squeezed(in[0], integers(in[1])[0]);
  if (op == "Concat") return concat(in, integer("axis", 0));
  if (op == "Slice") return slice(in);
  if (op == "Gather") return gather(in[0], in[1], integer("axis", 0));
  if (op == "GatherElements") {
    OnnxTensor y{.shape = in[1].shape, .values = {}};
    for (const std::int64_t place : named_places(in[0], in[1], integer("axis", 0)))
      y.values.push_back(in[0].values[place]);
    return y;
  }
  if (op == "ScatterElements") {
    require(node.attributes.at("reduction").text == "add", "ScatterElements without add");
    OnnxTensor y = in[0];
    const Extents places = named_places(in[0], in[1], integer("axis", 0));
    for (std::size_t i = 0; i < places.size(); ++i) y.values[places[i]] += in[2].values[i];
    return y;
  }
  if (op == "LeakyRelu") {
    const double slope = node.attributes.at("alpha").number;
    return each(in[0], [=](double x) { return x > 0 ? x : slope * x; });
  }
  if (op == "Shape") {
    const std::int64_t rank = std::ssize(in[0].shape);
    const Extents part(in[0].shape.begin() + integer("start", 0),
                       in[0].shape.begin() + integer("end", rank));
    return {.shape = {std::ssize(part)}, .values = {part.begin(), part.end()}};
  }
  if (op == "Range") {
    std::vector<double> values;
    for (double x = in[0].values[0]; x < in[1].values[0]; x += in[2].values[0]) values.push_back(x);
    return {.shape = {std::ssize(values)}, .values = values};
  }
  if (op == "LayerNormalization") return normalized(in, node.attributes.at("epsilon").number);
  if (op == "RNN") return rnn(in);
  if (op == "LSTM") return gated(in, 4);
  if (op == "GRU") return gated(in, 3);
  if (op == "Conv") return convolved(in, node, false);
  require(op == "ConvTranspose", "an operator {}", op);
  return convolved(in, node, true);
}

}  // namespace

OnnxTensors evaluate(const OnnxModel& model, const OnnxTensors& inputs) {
  OnnxTensors known = inputs;
  for (const OnnxInitializer& initializer : model.initializers) {
    std::vector<float> stored(initializer.raw.size() / sizeof(float));
    std::copy_n(initializer.raw.data(), initializer.raw.size(),
                reinterpret_cast<char*>(stored.data()));
    known[initializer.name] = {initializer.shape, {stored.begin(), stored.end()}};
  }
  for (const OnnxNode& node : model.nodes) {
    Inputs in;
    for (const std::string& name : node.inputs) in.push_back(known.at(name));
    known[node.output] = compute(node, in);
  }
  OnnxTensors outputs;
  for (const OnnxInput& output : model.outputs) outputs[output.name] = known.at(output.name);
  return outputs;
}

}  // namespace tapestry
