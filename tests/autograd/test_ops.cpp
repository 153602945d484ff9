#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <numbers>

#include "autograd/check.hpp"
#include "autograd/kernels/simd.hpp"
#include "autograd/ops.hpp"
#include "autograd/random.hpp"
#include "autograd/tape.hpp"
#include "tests/support/golden.hpp"

namespace tapestry {
namespace {

using In = const std::vector<Tensor>&;
using Function = std::function<Tensor(In)>;

constexpr double infinity = std::numeric_limits<double>::infinity();
constexpr DType f32 = DType::float32, f64 = DType::float64, i32 = DType::int32;

Array normal(const Shape& shape, DType dtype = f64) {
  static std::uint64_t step = 0;
  Array array(shape, f32);  // the same numbers in both types
  Random(0, Stream::data, ++step).fill_normal(array, 0, 1);
  return array.to(dtype);
}

std::vector<double> doubles(const Array& array) {
  const Array wide = array.to(f64);
  return {wide.values<double>().begin(), wide.values<double>().end()};
}

Array row(const std::vector<double>& values, DType dtype = f64) {
  return Array::of(values, {std::ssize(values)}).to(dtype);
}

// The largest |a - b| / max(1, |b|); infinite where either is NaN or the shapes differ.
double distance(const Array& a, const Array& b) {
  if (a.shape() != b.shape()) return infinity;
  const std::vector<double> x = doubles(a), y = doubles(b);
  double worst = 0;
  for (std::size_t i = 0; i < x.size(); ++i) {
    const double error = x[i] == y[i] ? 0 : std::abs(x[i] - y[i]) / std::max(1.0, std::abs(y[i]));
    worst = std::max(worst, std::isnan(error) ? infinity : error);
  }
  return worst;
}

// A value and the gradients of its inputs.
struct Outcome {
  Array y;
  std::vector<Array> gradients;
};

Outcome run(const Function& f, const std::vector<Array>& inputs, DType dtype, const Array& g) {
  std::vector<Tensor> variables;
  for (const Array& input : inputs) variables.push_back(Tensor::variable(input.to(dtype)));
  Tape tape;
  const Tensor y = f(variables);
  const Gradients gradients = tape.backward(y, g.to(dtype));
  Outcome outcome{y.value(), {}};
  for (const Tensor& variable : variables) outcome.gradients.push_back(gradients[variable]);
  return outcome;
}

// --- fused ops equal their compositions ---

Array infinite_where(const Shape& shape,
                     const std::function<bool(std::int64_t, std::int64_t)>& hide) {
  Array mask = Array::zeros(shape, f64);
  const std::int64_t columns = shape[-1], rows = shape[-2];
  for (std::int64_t i = 0; i < mask.size(); ++i)
    if (hide(i / columns % rows, i % columns)) mask.mutable_values<double>()[i] = -infinity;
  return mask;
}

// softmax(q kᵀ / √D + mask) v over (B, H, T, D).
Tensor composed_attention(const Tensor& q, const Tensor& k, const Tensor& v, const Array& mask) {
  Tensor scores = scale(matmul(q, k, {.transpose_b = true}), 1 / std::sqrt(q.dim(-1)));
  if (!mask.empty()) scores = scores + mask.to(q.dtype());
  return matmul(softmax(scores), v);
}

Tensor split_heads(const Tensor& x, std::int64_t H) {
  return permute(reshape(x, {x.dim(0), x.dim(1), H, x.dim(2) / H}), {0, 2, 1, 3});
}

Tensor join_heads(const Tensor& x) {
  return reshape(permute(x, {0, 2, 1, 3}), {x.dim(0), x.dim(2), -1});
}

Tensor composed_layer_norm(In x) {
  const Tensor centred = x[0] - mean(x[0], {-1}, Keep::yes);
  const Tensor epsilon = Array::full({}, 1e-5, x[0].dtype());
  const Tensor deviation = sqrt(mean(centred * centred, {-1}, Keep::yes) + epsilon);
  return centred / deviation * x[1] + x[2];
}

// -Σ q log p for the distribution q over the classes, a constant.
Tensor composed_cross_entropy(const Tensor& logits, const Array& targets, double smoothing,
                              double weight) {
  const std::int64_t V = logits.dim(-1);
  Array wanted = Array::zeros(logits.shape(), f64);
  for (std::int64_t i = 0; i < targets.size(); ++i) {
    const std::int32_t target = targets.values<std::int32_t>()[i];
    for (std::int64_t c = 0; target >= 0 && c < V; ++c)
      wanted.mutable_values<double>()[i * V + c] =
          (c == target ? 1 - smoothing : 0) + smoothing / static_cast<double>(V);
  }
  return scale(sum(log_softmax(logits) * wanted.to(logits.dtype())), -weight);
}

// h_t = step(t, h_(t-1)) for t = 0 … T - 1, joined along the time axis.
Tensor composed_recurrence(std::int64_t T, Tensor h,
                           const std::function<Tensor(std::int64_t t, const Tensor& h)>& step) {
  std::vector<Tensor> states;
  for (std::int64_t t = 0; t < T; ++t) {
    h = step(t, h);
    states.push_back(reshape(h, {h.dim(0), 1, h.dim(1)}));
  }
  return concat(states, 1);
}

Tensor step_of(const Tensor& x, std::int64_t t) {
  return reshape(slice(x, 1, t, t + 1), {x.dim(0), x.dim(2)});
}

Tensor composed_linear_recurrence(In x) {  // gate and x (B, T, C)
  const Tensor zeros = Array::zeros({x[1].dim(0), x[1].dim(2)}, x[1].dtype());
  return composed_recurrence(x[1].dim(1), zeros, [&](std::int64_t t, const Tensor& h) {
    return step_of(x[0], t) * h + step_of(x[1], t);
  });
}

Tensor composed_tanh_recurrence(In x) {  // x (B, T, H), weight, initial
  return composed_recurrence(x[0].dim(1), x[2], [&](std::int64_t t, const Tensor& h) {
    return tanh(step_of(x[0], t) + linear(h, x[1]));
  });
}

struct Fused {
  std::string name;
  Function fused, composed;
  std::vector<Array> inputs;
};

std::vector<Fused> fused_attention() {
  const auto row = [](const std::string& name, AttentionOptions options, const Array& mask,
                      const Shape& q, const Shape& k) {
    const auto fused = [options](In x) {
      AttentionOptions typed = options;
      if (!typed.mask.empty()) typed.mask = typed.mask.to(x[0].dtype());
      return scaled_dot_product_attention(x[0], x[1], x[2], typed);
    };
    const auto composed = [mask, H = options.heads](In x) {
      if (x[0].rank() == 4) return composed_attention(x[0], x[1], x[2], mask);
      return join_heads(composed_attention(split_heads(x[0], H), split_heads(x[1], H),
                                           split_heads(x[2], H), mask));
    };
    return Fused{"attention, " + name, fused, composed, {normal(q), normal(k), normal(k)}};
  };
  const Shape q{2, 3, 150, 20}, k{2, 3, 130, 20}, flat_q{2, 150, 40}, flat_k{2, 130, 40};
  const auto after = [](std::int64_t ahead) {
    return [ahead](std::int64_t t, std::int64_t s) { return s > t + ahead; };
  };
  Array padding = Array::zeros({2, 130}, i32);
  for (std::int64_t i = 100; i < 200; ++i) padding.mutable_values<std::int32_t>()[i] = 1;
  Array hidden = Array::zeros({2, 1, 1, 130}, f64);
  for (std::size_t i = 100; i < 200; ++i) hidden.mutable_values<double>()[i] = -infinity;
  const auto window_row = [&](std::int64_t window, bool causal, std::int64_t T, std::int64_t S) {
    Array hides = Array::zeros({T, S}, f64);
    for (std::int64_t t = 0, i = 0; t < T; ++t)
      for (std::int64_t s = 0; s < S; ++s, ++i) {
        const std::int64_t ahead = s - (t + S - T);
        if (std::abs(ahead) >= window || (causal && ahead > 0))
          hides.mutable_values<double>()[i] = -infinity;
      }
    return row(fmt::format("window {}{} of {} by {}", window, causal ? ", causal," : "", T, S),
               {.causal = causal, .window = window}, hides, {1, 2, T, 20}, {1, 2, S, 20});
  };
  const Array mask = normal({3, 150, 130}), holes = infinite_where({150, 130}, [](auto t, auto s) {
                                              return t % 7 == 0 || (t + s) % 3 == 0;
                                            });
  std::vector<Fused> rows = {
      row("plain", {}, {}, q, k),
      row("flat heads", {.heads = 2}, {}, flat_q, flat_k),
      row("causal", {.causal = true}, infinite_where({130, 130}, after(0)), k, k),
      row("causal, T > S", {.causal = true}, infinite_where({150, 130}, after(-20)), q, k),
      row("causal, T < S", {.causal = true}, infinite_where({130, 150}, after(20)), k, q),
      row("padding", {.heads = 2, .key_padding = padding}, hidden, flat_q, flat_k),
      row("mask", {.mask = mask}, mask, q, k),
      row("mask with -inf and hidden rows", {.mask = holes}, holes, q, k),
      row("one query", {}, {}, {2, 3, 1, 20}, k),
      window_row(3, false, 150, 150),
      window_row(3, true, 150, 150),
      window_row(64, true, 150, 130),
      window_row(65, false, 130, 150),
      window_row(1, true, 130, 150),
      window_row(1000, false, 130, 130),
      window_row(20, true, 700, 700),
      window_row(100, false, 600, 700),
      row("small", {}, {}, {1, 1, 2, 3}, {1, 1, 2, 3}),
  };
  const auto part = [](const Tensor& x, std::int64_t i, std::int64_t C) {
    return slice(x, 2, i * C, (i + 1) * C);
  };
  rows.push_back({"packed self-attention",
                  [](In x) { return packed_self_attention(x[0], {.heads = 2, .causal = true}); },
                  [part](In x) {
                    return scaled_dot_product_attention(part(x[0], 0, 18), part(x[0], 1, 18),
                                                        part(x[0], 2, 18),
                                                        {.heads = 2, .causal = true});
                  },
                  {normal({2, 70, 54})}});
  rows.push_back({"packed cross-attention",
                  [](In x) { return packed_cross_attention(x[0], x[1], {.heads = 3}); },
                  [part](In x) {
                    return scaled_dot_product_attention(x[0], part(x[1], 0, 18), part(x[1], 1, 18),
                                                        {.heads = 3});
                  },
                  {normal({2, 70, 18}), normal({2, 80, 36})}});
  rows.push_back({"attention to the first keys",
                  [](In x) { return scaled_dot_product_attention(x[0], x[1], x[2], {.keys = 70}); },
                  [](In x) {
                    return scaled_dot_product_attention(x[0], slice(x[1], 1, 0, 70),
                                                        slice(x[2], 1, 0, 70));
                  },
                  {normal({2, 5, 8}), normal({2, 90, 8}), normal({2, 90, 8})}});
  return rows;
}

// Away from 0, where float32 could not tell one quotient's gradient from another's.
Array positive(const Shape& shape) {
  Array array = normal(shape);
  for (double& x : array.mutable_values<double>()) x = std::abs(x) + 0.1;
  return array;
}

// Σ_s w_ts (q_t · k_s) v_s / max(Σ_s w_ts (q_t · k_s), floor Σ_s w_ts) for one head, written out:
// q (1, 1, F, T), k (1, 1, F, S), v (1, S, D), the weights (T, S) a tensor.
Tensor composed_linear_attention(In x, const Tensor& weights, double floor) {
  const Tensor weighted = matmul(x[0], x[1], {.transpose_a = true}) * weights;  // (1, 1, T, S)
  const Tensor sums = sum(weighted, {-1}, Keep::yes);
  const Tensor least = scale(sum(weights, {-1}, Keep::yes), floor);
  const Tensor pair = concat({sums, least * Array::full(sums.shape(), 1, sums.dtype())}, -1);
  return reshape(matmul(weighted, x[2]) / max(pair, {-1}, Keep::yes), {1, x[0].dim(3), -1});
}

// (1 - g_s) g_(s+1) … g_t, of logits (1, T, 1): step by step, S_t = g_t S_(t-1) + (1 - g_t) 1_t.
Tensor composed_gate(const Tensor& logits) {
  const std::int64_t T = logits.dim(1);
  const Tensor gate = reshape(sigmoid(logits), {T, 1});
  Tensor row = Array::zeros({1, T}, logits.dtype());
  std::vector<Tensor> rows;
  for (std::int64_t t = 0; t < T; ++t) {
    Array own = Array::zeros({1, T}, f64);
    own.mutable_values<double>()[t] = 1;
    const Tensor g = slice(gate, 0, t, t + 1), one = Array::full({1, 1}, 1, logits.dtype());
    row = g * row + (one - g) * own.to(logits.dtype());
    rows.push_back(row);
  }
  return concat(rows, 0);
}

std::vector<Fused> fused_linear_attention() {
  const auto inputs = [=](std::int64_t T, std::int64_t S, std::int64_t F, std::int64_t D) {
    return std::vector<Array>{positive({1, 1, F, T}), positive({1, 1, F, S}), normal({1, S, D})};
  };
  const auto where = [](std::int64_t T, std::int64_t S, auto visible) {
    Array weights({T, S}, f64);
    for (std::int64_t i = 0; i < T * S; ++i)
      weights.mutable_values<double>()[i] = visible(i / S, i % S);
    return weights;
  };
  const auto row = [&](const std::string& name, const LinearAttentionOptions& options,
                       const Array& weights, const std::vector<Array>& arrays) {
    return Fused{"linear attention, " + name,
                 [options](In x) {
                   LinearAttentionOptions typed = options;
                   if (!typed.key_log_scales.empty())
                     typed.key_log_scales = typed.key_log_scales.to(x[0].dtype());
                   return linear_attention(x[0], x[1], x[2], {}, typed);
                 },
                 [weights, floor = options.floor](In x) {
                   return composed_linear_attention(x, weights.to(x[0].dtype()), floor);
                 },
                 arrays};
  };
  const auto all = [](auto, auto) { return 1.0; };
  const auto past = [](auto t, auto s) { return s <= t ? 1.0 : 0.0; };
  Array padding = Array::zeros({1, 150}, i32), scales = normal({1, 1, 150});
  for (std::size_t s = 1; s < 150; s += 1 + s / 3) padding.mutable_values<std::int32_t>()[s] = 1;
  const auto hidden = [padding](auto s) { return padding.values<std::int32_t>()[s] != 0; };
  const auto factor = [scales](auto s) { return std::exp(scales.values<double>()[s]); };
  std::vector<Fused> rows = {
      row("cross", {}, where(70, 150, all), inputs(70, 150, 10, 20)),
      row("causal", {.causal = true}, where(150, 150, past), inputs(150, 150, 10, 20)),
      row("causal, one feature", {.causal = true}, where(65, 65, past), inputs(65, 65, 1, 1)),
      row("cross, padded", {.key_padding = padding},
          where(70, 150, [=](auto, auto s) { return hidden(s) ? 0.0 : 1.0; }),
          inputs(70, 150, 10, 20)),
      row("causal, padded", {.causal = true, .key_padding = padding},
          where(150, 150, [=](auto t, auto s) { return hidden(s) ? 0.0 : past(t, s); }),
          inputs(150, 150, 10, 20)),
      row("cross, scaled", {.key_log_scales = scales},
          where(70, 150, [=](auto, auto s) { return factor(s); }), inputs(70, 150, 10, 20)),
      row("causal, scaled", {.causal = true, .key_log_scales = scales},
          where(150, 150, [=](auto t, auto s) { return past(t, s) * factor(s); }),
          inputs(150, 150, 10, 20)),
      row("causal, partly floored", {.causal = true, .floor = 6}, where(150, 150, past),
          inputs(150, 150, 10, 20)),
  };
  for (const double floor : {0.0, 6.0})
    rows.push_back(
        {fmt::format("linear attention, gate, floor {}", floor),
         [floor](In x) {
           return linear_attention(x[0], x[1], x[2], x[3], {.causal = true, .floor = floor});
         },
         [floor](In x) {
           return composed_linear_attention({x[0], x[1], x[2]}, composed_gate(x[3]), floor);
         },
         {positive({1, 1, 10, 150}), positive({1, 1, 10, 150}), normal({1, 150, 20}),
          normal({1, 150, 1})}});
  rows.push_back({"sine_features",
                  [](In x) { return sine_features(x[0]); },
                  [](In x) {
                    return scale(concat({sin(x[0]), cos(x[0])}, -2), 1 / std::sqrt(5.0));
                  },
                  {normal({2, 5, 21})}});
  rows.push_back({"unit_rows",
                  [](In x) { return unit_rows(x[0]); },
                  [](In x) { return x[0] / sqrt(sum(x[0] * x[0], {-1}, Keep::yes)); },
                  {normal({2, 5, 21})}});
  return rows;
}

std::vector<Fused> fused_ops() {
  const Array targets = Array::of<std::int32_t>({3, 0, -1, 36, 1}, {5});
  const auto one = [](In x) { return Tensor(Array::full({}, 1, x[0].dtype())); };
  const auto stable_softmax = [](In x) {
    const Tensor e = exp(x[0] - max(x[0], {-1}, Keep::yes));
    return e / sum(e, {-1}, Keep::yes);
  };
  std::vector<Fused> rows = {
      {"linear",
       [](In x) { return linear(x[0], x[1], x[2]); },
       [](In x) {
         return matmul(x[0], permute(x[1], {1, 0})) + x[2];
       },
       {normal({7, 33, 20}), normal({35, 20}), normal({35})}},
      {"linear without bias",
       [](In x) { return linear(x[0], x[1]); },
       [](In x) { return matmul(x[0], x[1], {.transpose_b = true}); },
       {normal({33, 20}), normal({35, 20})}},
      {"layer_norm",
       [](In x) { return layer_norm(x[0], x[1], x[2]); },
       composed_layer_norm,
       {normal({40, 37}), normal({37}), normal({37})}},
      {"softmax", [](In x) { return softmax(x[0]); }, stable_softmax, {normal({40, 37})}},
      {"log_softmax",
       [](In x) { return log_softmax(x[0]); },
       [=](In x) { return log(stable_softmax(x)); },
       {normal({40, 37})}},
      {"logsumexp",
       [](In x) { return logsumexp(x[0]); },
       [](In x) { return log(sum(exp(x[0]), {-1})); },
       {normal({40, 37})}},
      {"cross_entropy",
       [=](In x) { return cross_entropy(x[0], targets); },
       [=](In x) { return composed_cross_entropy(x[0], targets, 0, 0.25); },
       {normal({5, 37})}},
      {"cross_entropy, smoothed sum",
       [=](In x) { return cross_entropy(x[0], targets, {.label_smoothing = 0.1, .mean = false}); },
       [=](In x) { return composed_cross_entropy(x[0], targets, 0.1, 1); },
       {normal({5, 37})}},
      {"binary_cross_entropy",
       [](In x) { return binary_cross_entropy(x[0], x[1]); },
       [=](In x) {
         return -(x[1] * log(sigmoid(x[0])) + (one(x) - x[1]) * log(one(x) - sigmoid(x[0])));
       },
       {normal({40, 37}), normal({40, 37})}},
      {"gaussian_kl",
       [](In x) { return gaussian_kl(x[0], x[1]); },
       [=](In x) { return 0.5 * (x[0] * x[0] + exp(2.0 * x[1]) - one(x)) - x[1]; },
       {normal({40, 37}), normal({40, 37})}},
      {"squared_error",
       [](In x) { return squared_error(x[0], x[1]); },
       [](In x) { return (x[0] - x[1]) * (x[0] - x[1]); },
       {normal({40, 37}), normal({40, 37})}},
      {"softplus",
       [](In x) { return softplus(x[0]); },
       [=](In x) { return log(one(x) + exp(x[0])); },
       {normal({40, 37})}},
      {"sigmoid",
       [](In x) { return sigmoid(x[0]); },
       [=](In x) { return one(x) / (one(x) + exp(-x[0])); },
       {normal({40, 37})}},
      {"linear_recurrence",
       [](In x) { return linear_recurrence(sigmoid(x[0]), x[1]); },
       [](In x) {
         return composed_linear_recurrence({sigmoid(x[0]), x[1]});
       },
       {normal({5, 20, 70}), normal({5, 20, 70})}},
      {"linear_recurrence, a gate a column",
       [](In x) { return linear_recurrence(sigmoid(x[0]), x[1]); },
       [](In x) {
         const Tensor gate = sigmoid(x[0]) * Array::full(x[1].shape(), 1, x[1].dtype());
         return composed_linear_recurrence({gate, x[1]});
       },
       {normal({7}), normal({5, 20, 7})}},
      {"tanh_recurrence",
       [](In x) { return tanh_recurrence(x[0], x[1] * 0.2, x[2]); },
       [](In x) {
         return composed_tanh_recurrence({x[0], x[1] * 0.2, x[2]});
       },
       {normal({5, 20, 37}), normal({37, 37}), normal({5, 37})}},
  };
  for (const Fused& row : fused_attention()) rows.push_back(row);
  for (const Fused& row : fused_linear_attention()) rows.push_back(row);
  return rows;
}

TEST_CASE("ops: a fused op equals its composition, in value and gradient") {
  for (const Fused& row : fused_ops())
    for (const DType dtype : {f32, f64}) {
      CAPTURE(row.name);
      INFO(std::string(to_string(dtype)));
      const double tolerance = dtype == f32 ? 1e-5 : 1e-10;
      const Array g = normal(row.fused({row.inputs.begin(), row.inputs.end()}).shape());
      const Outcome fused = run(row.fused, row.inputs, dtype, g);
      const Outcome composed = run(row.composed, row.inputs, dtype, g);
      CHECK(distance(fused.y, composed.y) <= tolerance);
      for (std::size_t i = 0; i < row.inputs.size(); ++i)
        CHECK(distance(fused.gradients[i], composed.gradients[i]) <= tolerance);
    }
}

// --- PyTorch's numbers ---

struct GoldenRow {
  std::string name;
  std::function<Tensor(In, const Golden&)> f;
  std::vector<std::string> inputs;
};

Tensor golden_attention(In x, const AttentionOptions& options = {}) {
  return scaled_dot_product_attention(x[0], x[1], x[2], options);
}

TEST_CASE("ops: values and gradients are PyTorch's") {
  const std::vector<GoldenRow> rows = {
      {"linear", [](In x, auto&) { return linear(x[0], x[1], x[2]); }, {"x", "weight", "bias"}},
      {"layer_norm",
       [](In x, auto&) { return layer_norm(x[0], x[1], x[2]); },
       {"x", "weight", "bias"}},
      {"gelu_erf", [](In x, auto&) { return gelu(x[0]); }, {"x"}},
      {"gelu_tanh", [](In x, auto&) { return gelu_tanh(x[0]); }, {"x"}},
      {"softmax", [](In x, auto&) { return softmax(x[0]); }, {"x"}},
      {"log_softmax", [](In x, auto&) { return log_softmax(x[0]); }, {"x"}},
      {"attention_plain", [](In x, auto&) { return golden_attention(x); }, {"q", "k", "v"}},
      {"attention_causal",
       [](In x, auto&) { return golden_attention(x, {.causal = true}); },
       {"q", "k", "v"}},
      {"attention_padding",
       [](In x, auto& golden) { return golden_attention(x, {.key_padding = golden["padding"]}); },
       {"q", "k", "v"}},
      {"attention_additive",
       [](In x, auto& golden) {
         return golden_attention(x, {.mask = golden["mask"].to(x[0].dtype())});
       },
       {"q", "k", "v"}},
      {"convolution2d",
       [](In x, auto&) { return convolution2d(x[0], x[1], {.stride = 2, .padding = 1}); },
       {"x", "weight"}},
      {"convolution2d_plain",
       [](In x, auto&) { return convolution2d(x[0], x[1]); },
       {"x", "weight"}},
      {"transposed_convolution2d",
       [](In x, auto&) {
         return transposed_convolution2d(x[0], x[1],
                                         {.stride = 2, .padding = 1, .height = 7, .width = 6});
       },
       {"x", "weight"}},
      {"transposed_convolution2d_plain",
       [](In x, auto&) { return transposed_convolution2d(x[0], x[1], {.stride = 3}); },
       {"x", "weight"}},
  };
  for (const GoldenRow& row : rows)
    for (const DType dtype : {f32, f64}) {
      CAPTURE(row.name);
      INFO(std::string(to_string(dtype)));
      const double tolerance = dtype == f32 ? 1e-5 : 1e-10;
      const Golden golden(row.name);
      std::vector<Array> inputs;
      for (const std::string& input : row.inputs) inputs.push_back(golden[input]);
      const Outcome outcome =
          run([&](In x) { return row.f(x, golden); }, inputs, dtype, golden["g"]);
      CHECK(distance(outcome.y, golden["y"]) <= tolerance);
      for (std::size_t i = 0; i < inputs.size(); ++i)
        CHECK(distance(outcome.gradients[i], golden["d" + row.inputs[i]]) <= tolerance);
    }
}

TEST_CASE("ops: cross_entropy is PyTorch's") {
  const Golden golden("cross_entropy");
  for (const DType dtype : {f32, f64})
    for (const std::string suffix : {"", "_smoothed"}) {
      CAPTURE(suffix);
      INFO(std::string(to_string(dtype)));
      const double tolerance = dtype == f32 ? 1e-6 : 1e-10;
      const CrossEntropyOptions options{.label_smoothing = suffix.empty() ? 0 : 0.1};
      const Outcome outcome =
          run([&](In x) { return cross_entropy(x[0], golden["targets"], options); },
              {golden["logits"]}, dtype, Array::full({}, 1, dtype));
      CHECK(distance(outcome.y, golden["loss" + suffix]) <= tolerance);
      CHECK(distance(outcome.gradients[0], golden["dlogits" + suffix]) <= tolerance);
    }
}

TEST_CASE("ops: transposed_convolution2d is the transpose of convolution2d") {
  const Tensor x = normal({2, 3, 8, 5}), weight = normal({4, 3, 3, 3}), y = normal({2, 4, 4, 3});
  const Tensor forth = convolution2d(x, weight, {.stride = 2, .padding = 1});
  const Tensor back =
      transposed_convolution2d(y, weight, {.stride = 2, .padding = 1, .height = 8, .width = 5});
  CHECK(sum(forth * y).item() == doctest::Approx(sum(back * x).item()).epsilon(1e-10));
}

// --- exact cases ---

TEST_CASE("ops: equal maxima share the gradient") {
  for (const DType dtype : {f32, f64}) {
    const Array x =
        Array::of(std::vector{1., 3., 3., 2., 2., 2., -infinity, -infinity, -infinity}, {3, 3});
    const Outcome rows = run([](In in) { return max(in[0], {1}); }, {x}, dtype, row({6, 6, 6}));
    CHECK(doubles(rows.y) == std::vector{3., 2., -infinity});
    CHECK(doubles(rows.gradients[0]) == std::vector<double>{0, 3, 3, 2, 2, 2, 2, 2, 2});
    const Outcome all = run([](In in) { return max(in[0]); }, {x}, dtype, Array::full({}, 1, f64));
    CHECK(doubles(all.gradients[0]) == std::vector<double>{0, 0.5, 0.5, 0, 0, 0, 0, 0, 0});
  }
}

TEST_CASE("ops: the operators are the named ops") {
  const Tensor a = normal({2, 3}), b = normal({3});
  const std::vector<std::pair<Tensor, Tensor>> pairs = {
      {a + b, add(a, b)},    {a - b, subtract(a, b)},  {a * b, multiply(a, b)},
      {a / b, divide(a, b)}, {a * 2.5, scale(a, 2.5)}, {2.5 * a, scale(a, 2.5)},
      {-a, scale(a, -1)}};
  for (const auto& [by_operator, by_name] : pairs)
    CHECK(doubles(by_operator.value()) == doubles(by_name.value()));
  CHECK((a - b).value().values<double>()[4] ==
        a.value().values<double>()[4] - b.value().values<double>()[1]);
  CHECK((a / b).value().values<double>()[4] ==
        a.value().values<double>()[4] / b.value().values<double>()[1]);
}

TEST_CASE("ops: shaping ops move the right elements") {
  const Tensor x = Array::of(std::vector{0., 1., 2., 3., 4., 5.}, {2, 3});
  CHECK(doubles(permute(x, {1, 0}).value()) == std::vector<double>{0, 3, 1, 4, 2, 5});
  CHECK(doubles(slice(x, 1, 1, 3).value()) == std::vector<double>{1, 2, 4, 5});
  CHECK(doubles(slice(x, 0, 1, 2).value()) == std::vector<double>{3, 4, 5});
  CHECK(doubles(concat({x, x}, 1).value()) ==
        std::vector<double>{0, 1, 2, 0, 1, 2, 3, 4, 5, 3, 4, 5});
  CHECK(doubles(concat({x, x}, 0).value()) ==
        std::vector<double>{0, 1, 2, 3, 4, 5, 0, 1, 2, 3, 4, 5});
  CHECK(reshape(x, {3, -1}).shape() == Shape{3, 2});
  CHECK(reshape(x, {3, -1}).value().raw() == x.value().raw());
  CHECK(sum(x, {0}).shape() == Shape{3});
  CHECK(sum(x, {0}, Keep::yes).shape() == Shape{1, 3});
  CHECK(doubles(mean(x, {1}).value()) == std::vector<double>{1, 4});
  CHECK(doubles(embedding(x, Array::of<std::int32_t>({1, 0, 1}, {3})).value()) ==
        std::vector<double>{3, 4, 5, 0, 1, 2, 3, 4, 5});
}

TEST_CASE("ops: reductions over nothing") {
  const Tensor empty = Array(Shape{0, 2}, f32);
  CHECK(sum(empty).item() == 0);
  CHECK(doubles(sum(empty, {0}).value()) == std::vector<double>{0, 0});
  CHECK(doubles(max(empty, {0}).value()) == std::vector<double>{-infinity, -infinity});
  CHECK(std::isnan(mean(empty).item()));
  CHECK(doubles(logsumexp(Tensor(Array(Shape{2, 0}, f32))).value()) ==
        std::vector<double>{-infinity, -infinity});
  const Array nothing(Shape{0, 4}, f32);
  CHECK(cross_entropy(nothing, Array(Shape{0}, i32)).item() == 0);
}

TEST_CASE("ops: dropout scales what it keeps and keeps the given share") {
  const Array ones = Array::full({100, 1000}, 1, f32);
  for (const double rate : {0.0, 0.1, 0.5, 0.9}) {
    Random random(3, Stream::dropout);
    const std::vector<double> y = doubles(dropout(ones, rate, random).value());
    const auto kept =
        static_cast<double>(std::ranges::count_if(y, [](double v) { return v != 0; }));
    CHECK(std::ranges::all_of(
        y, [&](double v) { return v == 0 || v == doctest::Approx(1 / (1 - rate)).epsilon(1e-6); }));
    CHECK(kept / 1e5 == doctest::Approx(1 - rate).epsilon(0.01));
    const Array again = dropout(ones, rate, random).value();
    CHECK((rate == 0 || doubles(again) != y));
    Random same(3, Stream::dropout);
    CHECK(doubles(dropout(ones, rate, same).value()) == y);
  }
}

// --- extreme values ---

TEST_CASE("ops: extreme values stay finite and exact") {
  for (const DType dtype : {f32, f64}) {
    INFO(std::string(to_string(dtype)));
    const auto values = [&](Tensor (*op)(const Tensor&), const std::vector<double>& x) {
      return doubles(op(row(x, dtype)).value());
    };
    CHECK(values(softmax, {1e4, -1e4, 1e4}) == std::vector<double>{0.5, 0, 0.5});
    CHECK(values(softmax, {-1e4, -infinity}) == std::vector<double>{1, 0});
    CHECK(values(softmax, {-infinity, -infinity}) == std::vector<double>{0, 0});
    CHECK(values(logsumexp, {-1e4, -infinity}) == std::vector<double>{-1e4});
    CHECK(values(logsumexp, {1e4, -1e4}) == std::vector<double>{1e4});
    CHECK(values(logsumexp, {-infinity, -infinity}) == std::vector<double>{-infinity});
    CHECK(values(log_softmax, {1e4, -1e4}) == std::vector<double>{0, -2e4});
    CHECK(values(sigmoid, {-1e4, 1e4, 0, -infinity, infinity}) ==
          std::vector<double>{0, 1, 0.5, 0, 1});
    CHECK(values(sigmoid, {-80})[0] == doctest::Approx(std::exp(-80.)).epsilon(1e-6));
    CHECK(values(softplus, {1e4, -1e4, infinity, -infinity}) ==
          std::vector<double>{1e4, 0, infinity, 0});
    CHECK(values(softplus, {-80})[0] == doctest::Approx(std::exp(-80.)).epsilon(1e-6));
    CHECK(values(tanh, {-1e4, 1e4, infinity, -infinity}) == std::vector<double>{-1, 1, 1, -1});
    CHECK(values(relu, {-infinity, infinity, -0., 0}) == std::vector<double>{0, infinity, 0, 0});
    CHECK(values(gelu, {-100, 100}) == std::vector<double>{0, 100});
    CHECK(values(gelu_tanh, {-100, 100}) == std::vector<double>{0, 100});
    CHECK(values(exp, {-infinity, infinity, 0}) == std::vector<double>{0, infinity, 1});
    CHECK(values(log, {0, infinity, 1}) == std::vector<double>{-infinity, infinity, 0});
    const std::vector<double> bce = doubles(
        binary_cross_entropy(row({100, -100, 100, -100}, dtype), row({1, 0, 0, 1}, dtype)).value());
    CHECK(bce[0] == doctest::Approx(std::exp(-100.)).epsilon(1e-4));
    CHECK(bce[1] == doctest::Approx(std::exp(-100.)).epsilon(1e-4));
    CHECK((bce[2] == 100 && bce[3] == 100));
    const Array logits = Array::of(std::vector{1e4, -1e4}, {1, 2}).to(dtype);
    CHECK(cross_entropy(logits, Array::of<std::int32_t>({0}, {1})).item() == 0);
    CHECK(cross_entropy(logits, Array::of<std::int32_t>({1}, {1})).item() == 2e4);
    for (Tensor (*op)(const Tensor&) :
         {exp, sin, cos, tanh, sigmoid, relu, softplus, gelu, gelu_tanh, log, sqrt})
      CHECK(std::isnan(values(op, {std::nan("")})[0]));
  }
}

TEST_CASE("bug: float32 softmax, log_softmax and cross_entropy lost digits to large logits") {
  const std::vector<double> logits{10000, 10001, 9998.5};
  const Array x = Array::of(logits, {1, 3});
  const Array shifted = Array::of(std::vector{0., 1., -1.5}, {1, 3});
  const Array target = Array::of<std::int32_t>({2}, {1});
  const std::vector<std::pair<std::string, Function>> ops = {
      {"softmax", [](In in) { return softmax(in[0]); }},
      {"log_softmax", [](In in) { return log_softmax(in[0]); }},
      {"cross_entropy", [&](In in) { return cross_entropy(in[0], target); }},
      {"smoothed", [&](In in) { return cross_entropy(in[0], target, {.label_smoothing = 0.1}); }}};
  for (const auto& [name, f] : ops) {
    CAPTURE(name);
    const Array g = normal(f({shifted}).shape());
    const Outcome large = run(f, {x}, f32, g), exact = run(f, {shifted}, f64, g);
    CHECK(distance(large.y, exact.y) <= 1e-6);
    CHECK(distance(large.gradients[0], exact.gradients[0]) <= 1e-6);
  }
}

TEST_CASE("ops: a query that sees no key gets zeros and gives zero gradient") {
  const auto hide_query = infinite_where({70, 130}, [](auto t, auto) { return t == 1 || t == 69; });
  Array nobody = Array::zeros({2, 130}, i32);
  std::ranges::fill(nobody.mutable_values<std::int32_t>().first(130), 1);
  for (const DType dtype : {f32, f64}) {
    const std::vector<Array> inputs{normal({2, 70, 5}), normal({2, 130, 5}), normal({2, 130, 5})};
    const auto with = [](const AttentionOptions& options) {
      return [options](In x) { return scaled_dot_product_attention(x[0], x[1], x[2], options); };
    };
    const auto zero = [](const Array& array, std::size_t begin, std::size_t end) {
      const std::vector<double> x = doubles(array);
      return std::all_of(x.begin() + static_cast<std::ptrdiff_t>(begin),
                         x.begin() + static_cast<std::ptrdiff_t>(end),
                         [](double v) { return v == 0; });
    };
    const auto finite = [](const Outcome& outcome) {
      bool all = true;
      for (const Array& array :
           {outcome.y, outcome.gradients[0], outcome.gradients[1], outcome.gradients[2]})
        for (const double x : doubles(array)) all &= std::isfinite(x);
      return all;
    };
    const Array g = normal({2, 70, 5});
    const Outcome masked = run(with({.mask = hide_query.to(dtype)}), inputs, dtype, g);
    CHECK(finite(masked));
    for (const std::size_t query : {1u, 69u, 71u, 139u}) {
      CHECK(zero(masked.y, query * 5, query * 5 + 5));
      CHECK(zero(masked.gradients[0], query * 5, query * 5 + 5));
    }
    CHECK_FALSE(zero(masked.y, 0, 5));

    const Outcome padded = run(with({.key_padding = nobody}), inputs, dtype, g);
    CHECK(finite(padded));
    CHECK(zero(padded.y, 0, 350));
    CHECK_FALSE(zero(padded.y, 350, 355));
    CHECK(zero(padded.gradients[0], 0, 350));
    for (const Array& gradient : {padded.gradients[1], padded.gradients[2]}) {
      CHECK(zero(gradient, 0, 650));
      CHECK_FALSE(zero(gradient, 650, 655));
    }

    // T > S: the first T - S queries stand before every key.
    const Outcome causal =
        run(with({.causal = true}), {inputs[1], inputs[0], inputs[0]}, dtype, normal({2, 130, 5}));
    CHECK(finite(causal));
    CHECK(zero(causal.y, 0, 300));
    CHECK(zero(causal.gradients[0], 0, 300));
    CHECK_FALSE(zero(causal.y, 300, 305));

    const Outcome none = run(with({.keys = 0}), inputs, dtype, g);
    CHECK(finite(none));
    for (const Array& array : {none.y, none.gradients[0], none.gradients[1], none.gradients[2]})
      CHECK(zero(array, 0, array.size()));

    const Outcome row_of_infinity =
        run([](In x) { return softmax(x[0]); }, {Array::full({2, 3}, -infinity, f64)}, dtype,
            normal({2, 3}));
    CHECK(zero(row_of_infinity.y, 0, 6));
    CHECK(zero(row_of_infinity.gradients[0], 0, 6));
  }
}

TEST_CASE("ops: causal linear attention is the running sum of its paper, step by step") {
  constexpr std::int64_t T = 200, F = 6, D = 5;
  const Array q = positive({1, 1, F, T}), k = positive({1, 1, F, T}), v = normal({1, T, D}),
              gate = normal({1, T, 1});
  const auto at = [](const Array& array, std::int64_t i) { return array.values<double>()[i]; };
  for (const bool gated : {false, true}) {
    std::vector<double> S(F * D), z(F), wanted;
    for (std::int64_t t = 0; t < T; ++t) {
      const double g = 1 / (1 + std::exp(-at(gate, t)));
      const double keep = gated ? g : 1, add = gated ? 1 - g : 1;
      for (std::int64_t f = 0; f < F; ++f) {
        const double feature = at(k, f * T + t);
        double& total = z[f];
        total = keep * total + add * feature;
        for (std::int64_t d = 0; d < D; ++d) {
          double& product = S[f * D + d];
          product = keep * product + add * feature * at(v, t * D + d);
        }
      }
      for (std::int64_t d = 0; d < D; ++d) {
        double above = 0, below = 0;
        for (std::int64_t f = 0; f < F; ++f) {
          above += at(q, f * T + t) * S[f * D + d];
          below += at(q, f * T + t) * z[f];
        }
        wanted.push_back(above / below);
      }
    }
    const Tensor y = linear_attention(q, k, v, gated ? Tensor(gate) : Tensor(), {.causal = true});
    CHECK(distance(y.value(), Array::of(wanted, {1, T, D})) <= 1e-12);
  }
}

TEST_CASE("ops: linear attention takes gates that shut, and keys of very different scales") {
  constexpr std::int64_t T = 130;
  const std::vector<Array> inputs{positive({1, 1, 4, T}), positive({1, 1, 4, T}),
                                  normal({1, T, 3})};
  Array gate = normal({1, T, 1}), scales({1, 1, T}, f64);
  for (std::size_t t = 0; t < T; ++t) {
    if (t % 10 == 3) gate.mutable_values<double>()[t] = t % 20 == 3 ? -1e3 : 1e3;
    scales.mutable_values<double>()[t] = t % 10 == 5 ? 300 : -300.0 + static_cast<double>(t);
  }
  for (const DType dtype : {f32, f64})
    for (const bool scaled : {false, true}) {
      std::vector<Tensor> x;
      for (const Array& input : inputs) x.push_back(Tensor::variable(input.to(dtype)));
      const Tensor logits = Tensor::variable(gate.to(dtype));
      LinearAttentionOptions options{.causal = true};
      if (scaled) options.key_log_scales = scales.to(dtype);
      Tape tape;
      const Tensor y = linear_attention(x[0], x[1], x[2], logits, options);
      const Gradients gradients = tape.backward(sum(y));
      bool finite = true;
      for (const Array& array :
           {y.value(), gradients[x[0]], gradients[x[1]], gradients[x[2]], gradients[logits]})
        for (const double value : doubles(array)) finite &= std::isfinite(value);
      CHECK(finite);
      // A gate that shuts forgets all before it, and a key e^300 times the others drowns them.
      for (const std::int64_t t : scaled ? std::vector<std::int64_t>{0, 5, 25, 105}
                                         : std::vector<std::int64_t>{0, 3, 23, 103})
        CHECK(distance(slice(y, 1, t, t + 1).value(), slice(x[2], 1, t, t + 1).value()) <=
              (dtype == f32 ? 1e-5 : 1e-12));
    }
}

TEST_CASE("ops: hidden keys leave no trace in linear attention") {
  constexpr std::int64_t T = 140;
  Array padding = Array::zeros({1, T}, i32), spoiled_k = normal({1, 2, 3, T}),
        spoiled_v = normal({1, T, 4});
  const Array q = normal({1, 2, 3, T}), k = spoiled_k.clone(), v = spoiled_v.clone();
  for (std::int64_t s = 0; s < T; s += 3) {
    padding.mutable_values<std::int32_t>()[s] = 1;
    for (std::int64_t f = 0; f < 6; ++f) spoiled_k.mutable_values<double>()[f * T + s] = 1e6;
    for (std::int64_t c = 0; c < 4; ++c) spoiled_v.mutable_values<double>()[s * 4 + c] = -1e6;
  }
  const Array g = normal({1, T, 4});
  for (const DType dtype : {f32, f64})
    for (const bool causal : {false, true}) {
      const Function f = [=](In x) {
        return linear_attention(x[0], x[1], x[2], {},
                                {.causal = causal, .key_padding = padding, .floor = 0.1});
      };
      const Outcome clean = run(f, {q, k, v}, dtype, g),
                    spoiled = run(f, {q, spoiled_k, spoiled_v}, dtype, g);
      CHECK(distance(clean.y, spoiled.y) == 0);
      CHECK(distance(clean.gradients[0], spoiled.gradients[0]) == 0);
      const std::vector<double> dk = doubles(spoiled.gradients[1]),
                                dv = doubles(spoiled.gradients[2]);
      for (std::int64_t s = 0; s < T; s += 3) {
        for (std::int64_t f2 = 0; f2 < 6; ++f2) CHECK(dk[f2 * T + s] == 0);
        for (std::int64_t c = 0; c < 4; ++c) CHECK(dv[s * 4 + c] == 0);
      }
    }
}

TEST_CASE("ops: a misuse of linear attention names the op and the shapes") {
  const auto t = [](const Shape& shape, DType dtype = f32) {
    return Tensor(Array::zeros(shape, dtype));
  };
  const auto said = [](const auto& call) -> std::string {
    try {
      call();
    } catch (const std::invalid_argument& error) {
      return error.what();
    }
    return "no std::invalid_argument";
  };
  const Tensor q = t({1, 2, 3, 5}), k = t({1, 2, 3, 7}), v = t({1, 7, 4});
  struct Call {
    Tensor q, k, v, gate;
    LinearAttentionOptions options;
    std::string said;
  };
  LinearAttentionState small(1, 2, 3, 1, f32);
  const std::vector<Call> rows = {
      {q, k, t({1, 7, 3}), {}, {}, "shapes (1, 2, 3, 5), (1, 2, 3, 7), (1, 7, 3)"},
      {q, t({1, 2, 4, 7}), v, {}, {}, "shapes (1, 2, 3, 5), (1, 2, 4, 7), (1, 7, 4)"},
      {q, t({1, 3, 3, 7}), v, {}, {}, "shapes (1, 2, 3, 5), (1, 3, 3, 7)"},
      {q, k, t({1, 6, 4}), {}, {}, "(1, 6, 4)"},
      {q, k, v, {}, {.causal = true}, "causal, with 5 queries and 7 keys"},
      {q, k, v, t({1, 7, 2}), {}, "a gate without causality"},
      {k, k, v, t({1, 7, 3}), {.causal = true}, "a gate (1, 7, 3) for (B, S, H) = (1, 7, 2)"},
      {q, k, v, {}, {.key_padding = Array::zeros({1, 5}, i32)}, "key padding int32 (1, 5)"},
      {q,
       k,
       v,
       {},
       {.key_log_scales = Array::zeros({1, 2, 5})},
       "key scales float32 (1, 2, 5) for float32 (1, 2, 7)"},
      {q,
       k,
       v,
       {},
       {.key_log_scales = Array::zeros({1, 2, 7}), .floor = 1},
       "a floor under scaled keys"},
      {q, k, v, {}, {.floor = -1}, "a floor of -1"},
      {q, k, t({1, 7, 4}, f64), {}, {}, "float32 (1, 2, 3, 5) with float64 (1, 7, 4)"},
      {q, k, v, {}, {.state = &small}, "a state without causality"},
      {k, k, v, {}, {.causal = true, .state = &small}, "(1, 2, 3, 2) for float32 (1, 2, 3, 3)"},
  };
  for (const Call& row : rows) {
    const std::string message =
        said([&] { linear_attention(row.q, row.k, row.v, row.gate, row.options); });
    CAPTURE(message);
    CHECK(message.starts_with("linear_attention: "));
    CHECK(message.find(row.said) != std::string::npos);
  }
  CHECK(said([&] { sine_features(t({3})); }) == "sine_features: x (3,)");
}

TEST_CASE("ops: linear attention goes on from a state, whatever the chunks") {
  constexpr std::int64_t T = 150;
  Array padding = Array::zeros({2, T}, i32);
  for (std::size_t i = 0; i < 2 * T; i += 7) padding.mutable_values<std::int32_t>()[i] = 1;
  const std::vector<Array> inputs{positive({2, 3, 5, T}), positive({2, 3, 5, T}), normal({2, T, 6}),
                                  normal({2, T, 3}), normal({2, 3, T})};
  const auto part = [](const Array& array, int axis, std::int64_t begin, std::int64_t end) {
    return slice(Tensor(array.to(f64)), axis, begin, end).value();
  };
  for (const DType dtype : {f32, f64})
    for (const bool gated : {false, true})
      for (const bool scaled : {false, true}) {
        const auto attend = [&](std::int64_t begin, std::int64_t end, LinearAttentionState* state) {
          LinearAttentionOptions options{.causal = true,
                                         .key_padding = part(padding, 1, begin, end).to(i32),
                                         .floor = scaled ? 0 : 0.5,
                                         .state = state};
          if (scaled) options.key_log_scales = part(inputs[4], 2, begin, end).to(dtype);
          return linear_attention(
              part(inputs[0], 3, begin, end).to(dtype), part(inputs[1], 3, begin, end).to(dtype),
              part(inputs[2], 1, begin, end).to(dtype),
              gated ? Tensor(part(inputs[3], 1, begin, end).to(dtype)) : Tensor(), options);
        };
        const Tensor whole = attend(0, T, nullptr);
        for (const std::vector<std::int64_t>& lengths : std::vector<std::vector<std::int64_t>>{
                 {T}, {64, 86}, {1, 1, 1, 1, 146}, {100, 1, 1, 48}, {0, 75, 0, 75}}) {
          LinearAttentionState state(2, 3, 5, 2, dtype);
          std::vector<Tensor> parts;
          std::int64_t t = 0;
          for (const std::int64_t length : lengths) {
            parts.push_back(attend(t, t + length, &state));
            t += length;
          }
          CHECK(distance(concat(parts, 1).value(), whole.value()) <= (dtype == f32 ? 1e-5 : 1e-12));
        }
      }
}

TEST_CASE("bug: attention gave zeros for a query of NaN") {
  for (const DType dtype : {f32, f64})
    for (const bool causal : {false, true}) {
      Array q = normal({1, 70, 3}, f64);
      q.mutable_values<double>()[9] = std::nan("");
      const Array k = normal({1, 70, 3}, dtype);
      const std::vector<double> y =
          doubles(scaled_dot_product_attention(q.to(dtype), k, k, {.causal = causal}).value());
      CHECK((std::isnan(y[9]) && std::isnan(y[10]) && std::isnan(y[11])));
      CHECK((std::isfinite(y[8]) && std::isfinite(y[12])));
    }
}

TEST_CASE("bug: packed_self_attention left the gradient of keys past `keys` unset") {
  const auto inputs = std::vector{normal({1, 4, 6})};
  for (int i = 0; i < 8; ++i) Array::full({1, 4, 6}, 7, f64);  // what the pool may hand out
  const Outcome outcome = run([](In x) { return packed_self_attention(x[0], {.keys = 2}); }, inputs,
                              f64, normal({1, 4, 2}));
  const std::vector<double> d = doubles(outcome.gradients[0]);
  for (const std::size_t t : {2u, 3u})
    for (std::size_t c = 2; c < 6; ++c) CHECK(d[t * 6 + c] == 0);
}

// --- errors ---

struct Misuse {
  std::string op;
  std::function<void()> call;
  std::vector<std::string> said;  // besides the op's name
};

TEST_CASE("ops: a misuse is std::invalid_argument that names the op and both shapes") {
  const auto t = [](const Shape& shape, DType dtype = f32) {
    return Tensor(Array::zeros(shape, dtype));
  };
  const auto i = [](const Shape& shape) { return Array::zeros(shape, i32); };
  Random random(0, Stream::dropout);
  const Tensor a = t({2, 3}), b = t({4, 3}), wide = t({2, 3}, f64), whole = i({2, 3});
  std::vector<Misuse> rows = {
      {"matmul", [&] { matmul(a, b); }, {"(2, 3)", "(4, 3)"}},
      {"matmul", [&] { matmul(a, b, {.transpose_a = true}); }, {"(2, 3) transposed", "(4, 3)"}},
      {"matmul",
       [&] {
         matmul(t({2, 2, 3}), t({3, 3, 4}));
       },
       {"(2, 2, 3)", "(3, 3, 4)"}},
      {"matmul", [&] { matmul(t({3}), b); }, {"(3,)", "(4, 3)"}},
      {"matmul",
       [&] {
         matmul(a, t({3, 4}, f64));
       },
       {"float32 (2, 3)", "float64 (3, 4)"}},
      {"linear",
       [&] {
         linear(a, t({5, 4}));
       },
       {"(2, 3)", "(5, 4)"}},
      {"linear",
       [&] {
         linear(t({}), t({5, 4}));
       },
       {"()", "(5, 4)"}},
      {"linear", [&] { linear(a, t({3})); }, {"(2, 3)", "(3,)"}},
      {"linear", [&] { linear(a, b, t({3})); }, {"(3,)", "(4, 3)"}},
      {"linear", [&] { linear(wide, b); }, {"float64 (2, 3)", "float32 (4, 3)"}},
      {"linear", [&] { linear(a, b, t({4}, f64)); }, {"float32 (4, 3)", "float64 (4,)"}},
      {"convolution2d",
       [&] {
         convolution2d(a, t({4, 3, 2, 2}));
       },
       {"(2, 3)", "(4, 3, 2, 2)"}},
      {"convolution2d",
       [&] {
         convolution2d(t({1, 2, 5, 5}), t({4, 3, 2, 2}));
       },
       {"(1, 2, 5, 5)", "(4, 3, 2, 2)"}},
      {"convolution2d",
       [&] {
         convolution2d(t({1, 3, 5, 5}), t({4, 3, 2, 3}));
       },
       {"(1, 3, 5, 5)", "(4, 3, 2, 3)"}},
      {"convolution2d",
       [&] {
         convolution2d(t({1, 3, 1, 5}), t({4, 3, 2, 2}));
       },
       {"(1, 3, 1, 5)", "(4, 3, 2, 2)", "padding 0"}},
      {"convolution2d",
       [&] {
         convolution2d(t({1, 3, 5, 5}), t({4, 3, 2, 2}), {.stride = 0});
       },
       {"stride 0"}},
      {"convolution2d",
       [&] {
         convolution2d(t({1, 3, 5, 5}), t({4, 3, 2, 2}, f64));
       },
       {"float32 (1, 3, 5, 5)", "float64 (4, 3, 2, 2)"}},
      {"transposed_convolution2d",
       [&] {
         transposed_convolution2d(t({1, 3, 5, 5}), t({4, 3, 2, 2}));
       },
       {"(1, 3, 5, 5)", "(4, 3, 2, 2)"}},
      {"transposed_convolution2d",
       [&] {
         transposed_convolution2d(t({1, 4, 5, 5}), t({4, 3, 2, 2}), {.stride = 2, .height = 12});
       },
       {"(1, 4, 5, 5)", "stride 2", "12 × 10"}},
      {"layer_norm", [&] { layer_norm(a, t({2}), t({2})); }, {"(2, 3)", "(2,)"}},
      {"layer_norm", [&] { layer_norm(a, t({3}), t({2})); }, {"(2, 3)", "(3,)", "(2,)"}},
      {"layer_norm", [&] { layer_norm(t({}), t({}), t({})); }, {"()"}},
      {"layer_norm", [&] { layer_norm(wide, t({3}), t({3})); }, {"float64 (2, 3)", "float32 (3,)"}},
      {"layer_norm",
       [&] { layer_norm(a, t({3}), t({3}, f64)); },
       {"float32 (2, 3)", "float64 (3,)"}},
      {"softmax", [&] { softmax(t({})); }, {}},
      {"log_softmax", [&] { log_softmax(t({})); }, {}},
      {"logsumexp", [&] { logsumexp(t({})); }, {}},
      {"sum", [&] { sum(a, {2}); }, {"axis 2", "(2, 3)"}},
      {"mean", [&] { mean(a, {-3}); }, {"axis -3", "(2, 3)"}},
      {"max",
       [&] {
         max(a, {1, -1});
       },
       {"axis -1", "(2, 3)", "twice"}},
      {"reshape",
       [&] {
         reshape(a, {4, 2});
       },
       {"(2, 3)", "(4, 2)"}},
      {"reshape",
       [&] {
         reshape(a, {4, -1});
       },
       {"(2, 3)", "(4, 1)"}},
      {"reshape",
       [&] {
         reshape(a, {-1, -1});
       },
       {"(2, 3)", "-1"}},
      {"permute", [&] { permute(a, {0}); }, {"1 axes", "(2, 3)"}},
      {"permute",
       [&] {
         permute(a, {0, 0});
       },
       {"axis 0", "(2, 3)", "twice"}},
      {"permute",
       [&] {
         permute(a, {0, 2});
       },
       {"axis 2", "(2, 3)"}},
      {"slice", [&] { slice(a, 2, 0, 1); }, {"axis 2", "(2, 3)"}},
      {"slice", [&] { slice(a, 1, 2, 4); }, {"[2, 4)", "(2, 3)"}},
      {"slice", [&] { slice(a, 1, 2, 1); }, {"[2, 1)", "(2, 3)"}},
      {"slice", [&] { slice(a, 1, -1, 1); }, {"[-1, 1)", "(2, 3)"}},
      {"concat", [&] { concat({}, 0); }, {}},
      {"concat",
       [&] {
         concat({a, b}, 1);
       },
       {"(2, 3)", "(4, 3)"}},
      {"concat",
       [&] {
         concat({a, t({3})}, 0);
       },
       {"(2, 3)", "(3,)"}},
      {"concat",
       [&] {
         concat({a, wide}, 0);
       },
       {"float32 (2, 3)", "float64 (2, 3)"}},
      {"concat",
       [&] {
         concat({a, a}, 2);
       },
       {"axis 2", "(2, 3)"}},
      {"embedding", [&] { embedding(t({3}), i({2})); }, {"(3,)", "(2,)"}},
      {"embedding", [&] { embedding(a, Array::zeros({4}, f32)); }, {"(2, 3)", "float32", "(4,)"}},
      {"embedding", [&] { embedding(a, Array::full({4}, 2, i32)); }, {"token 2", "(2, 3)"}},
      {"embedding", [&] { embedding(a, Array::full({4}, -1, i32)); }, {"token -1", "(2, 3)"}},
      {"dropout", [&] { dropout(a, 1, random); }, {"1", "(2, 3)"}},
      {"dropout", [&] { dropout(a, -0.1, random); }, {"-0.1", "(2, 3)"}},
      {"dropout", [&] { dropout(whole, 0.1, random); }, {"int32", "(2, 3)"}},
      {"scale", [&] { scale(whole, 2); }, {"int32", "(2, 3)"}},
      {"reshape", [&] { reshape(whole, {6}); }, {"int32", "(2, 3)"}},
      {"permute",
       [&] {
         permute(whole, {1, 0});
       },
       {"int32", "(2, 3)"}},
      {"slice", [&] { slice(whole, 0, 0, 1); }, {"int32", "(2, 3)"}},
      {"concat",
       [&] {
         concat({whole, whole}, 0);
       },
       {"int32", "(2, 3)"}},
      {"embedding", [&] { embedding(whole, i({2})); }, {"int32", "(2, 3)"}},
      {"cross_entropy", [&] { cross_entropy(a, i({3})); }, {"(2, 3)", "(3,)"}},
      {"cross_entropy", [&] { cross_entropy(t({3}), i({})); }, {"(3,)"}},
      {"cross_entropy",
       [&] {
         cross_entropy(t({2, 0}), i({2}));
       },
       {"(2, 0)", "(2,)"}},
      {"cross_entropy",
       [&] { cross_entropy(a, Array::zeros({2}, f32)); },
       {"(2, 3)", "float32", "(2,)"}},
      {"cross_entropy",
       [&] { cross_entropy(a, Array::full({2}, 3, i32)); },
       {"target 3", "(2, 3)"}},
      {"cross_entropy",
       [&] { cross_entropy(a, Array::full({2}, -2, i32)); },
       {"target -2", "(2, 3)"}},
      {"cross_entropy", [&] { cross_entropy(whole, i({2})); }, {"int32", "(2, 3)"}},
      {"linear_recurrence", [&] { linear_recurrence(a, a); }, {"(2, 3)"}},
      {"linear_recurrence",
       [&] {
         linear_recurrence(t({2, 5, 4}), t({2, 5, 3}));
       },
       {"(2, 5, 4)", "(2, 5, 3)"}},
      {"linear_recurrence",  // which would stretch x
       [&] {
         linear_recurrence(t({2, 5, 3}), t({1, 5, 3}));
       },
       {"(2, 5, 3)", "(1, 5, 3)"}},
      {"linear_recurrence",
       [&] {
         linear_recurrence(wide, t({2, 2, 3}));
       },
       {"float64 (2, 3)", "float32 (2, 2, 3)"}},
      {"tanh_recurrence",
       [&] {
         tanh_recurrence(t({2, 5, 3}), t({3, 4}));
       },
       {"(2, 5, 3)", "(3, 4)"}},
      {"tanh_recurrence",
       [&] {
         tanh_recurrence(a, t({3, 3}));
       },
       {"(2, 3)", "(3, 3)"}},
      {"tanh_recurrence",
       [&] {
         tanh_recurrence(t({2, 5, 3}), t({3, 3}), t({5, 3}));
       },
       {"(2, 5, 3)", "(5, 3)"}},
      {"tanh_recurrence",
       [&] {
         tanh_recurrence(t({2, 5, 3}), t({3, 3}), wide);
       },
       {"float32 (2, 5, 3)", "float64 (2, 3)"}},
  };
  using Binary = Tensor (*)(const Tensor&, const Tensor&);
  for (const auto& [op, f] :
       std::vector<std::pair<const char*, Binary>>{{"add", add},
                                                   {"subtract", subtract},
                                                   {"multiply", multiply},
                                                   {"divide", divide},
                                                   {"binary_cross_entropy", binary_cross_entropy},
                                                   {"squared_error", squared_error},
                                                   {"gaussian_kl", gaussian_kl}}) {
    rows.push_back({op, [&, f = f] { f(a, b); }, {"(2, 3)", "(4, 3)"}});
    rows.push_back({op, [&, f = f] { f(a, wide); }, {"float32 (2, 3)", "float64 (2, 3)"}});
    rows.push_back({op, [&, f = f] { f(whole, whole); }, {"int32", "(2, 3)"}});
  }
  using Unary = Tensor (*)(const Tensor&);
  for (const auto& [op, f] : std::vector<std::pair<const char*, Unary>>{
           {"exp", exp},
           {"log", log},
           {"sqrt", sqrt},
           {"sin", sin},
           {"cos", cos},
           {"tanh", tanh},
           {"sigmoid", sigmoid},
           {"relu", relu},
           {"softplus", softplus},
           {"gelu", gelu},
           {"gelu_tanh", gelu_tanh},
           {"softmax", softmax},
           {"log_softmax", log_softmax},
           {"logsumexp", logsumexp},
           {"sum", [](const Tensor& x) { return sum(x); }},
           {"mean", [](const Tensor& x) { return mean(x); }},
           {"max", [](const Tensor& x) { return max(x); }},
           {"matmul", [](const Tensor& x) { return matmul(x, x); }},
           {"linear", [](const Tensor& x) { return linear(x, x); }},
           {"layer_norm", [](const Tensor& x) { return layer_norm(x, x, x); }}})
    rows.push_back({op, [&, f = f] { f(whole); }, {"int32", "(2, 3)"}});
  for (const Misuse& row : rows) {
    CAPTURE(row.op);
    std::string message = "no std::invalid_argument";
    try {
      row.call();
    } catch (const std::invalid_argument& error) {
      message = error.what();
    }
    CAPTURE(message);
    CHECK(message.starts_with(row.op + ":"));
    for (const std::string& text : row.said) CHECK(message.find(text) != std::string::npos);
  }
}

TEST_CASE("ops: a misuse of attention names the op and the shapes") {
  const auto t = [](const Shape& shape, DType dtype = f32) {
    return Tensor(Array::zeros(shape, dtype));
  };
  const Tensor q = t({2, 3, 4}), k = t({2, 5, 4}), q4 = t({1, 2, 3, 4}), k4 = t({1, 2, 5, 4});
  struct Call {
    Tensor q, k, v;
    AttentionOptions options;
    std::vector<std::string> said;
  };
  const std::vector<Call> rows = {
      {t({3, 4}), t({5, 4}), t({5, 4}), {}, {"(3, 4)", "(5, 4)"}},
      {q, k4, k4, {}, {"(2, 3, 4)", "(1, 2, 5, 4)"}},
      {q, t({3, 5, 4}), k, {}, {"(2, 3, 4)", "(3, 5, 4)"}},
      {q, k, t({2, 6, 4}), {}, {"(2, 5, 4)", "(2, 6, 4)"}},
      {q, t({2, 5, 6}), k, {}, {"(2, 3, 4)", "(2, 5, 6)"}},
      {q, k, t({2, 5, 6}), {}, {"(2, 3, 4)", "(2, 5, 6)"}},
      {q, k, k, {.heads = 3}, {"(2, 3, 4)", "3 heads"}},
      {q, k, k, {.heads = 0}, {"(2, 3, 4)", "0 heads"}},
      {q, k, k, {.keys = 6}, {"6 keys", "(2, 5, 4)"}},
      {q, k, k, {.window = -1}, {"a window of -1"}},
      {q4, t({1, 4, 5, 2}), k4, {}, {"(1, 2, 3, 4)", "(1, 4, 5, 2)"}},
      {q4, k4, t({1, 4, 5, 2}), {}, {"(1, 2, 3, 4)", "(1, 4, 5, 2)"}},
      {q, t({2, 5, 4}, f64), k, {}, {"float32 (2, 3, 4)", "float64 (2, 5, 4)"}},
      {q, k, t({2, 5, 4}, f64), {}, {"float32 (2, 3, 4)", "float64 (2, 5, 4)"}},
      {q, k, k, {.key_padding = Array::zeros({2, 3}, i32)}, {"(2, 3)", "(2, 5)"}},
      {q, k, k, {.key_padding = Array::zeros({2, 5}, f32)}, {"float32 (2, 5)"}},
      {q, k, k, {.mask = Array::zeros({5, 3}, f32)}, {"(5, 3)", "(2, 1, 3, 5)"}},
      {q, k, k, {.mask = Array::zeros({3, 5}, f64)}, {"float64 (3, 5)", "(2, 1, 3, 5)"}},
      {q, k, k, {.mask = Array::zeros({1, 2, 1, 3, 5}, f32)}, {"(1, 2, 1, 3, 5)", "(2, 1, 3, 5)"}},
      {q, k, k, {.mask = Array::zeros({2, 2, 3, 5}, f32)}, {"(2, 2, 3, 5)", "(2, 1, 3, 5)"}},
  };
  const auto message = [](const auto& call) -> std::string {
    try {
      call();
    } catch (const std::invalid_argument& error) {
      return error.what();
    }
    return "no std::invalid_argument";
  };
  const auto check = [](const std::string& said, const std::string& op,
                        const std::vector<std::string>& wanted) {
    CAPTURE(said);
    CHECK(said.starts_with(op + ":"));
    for (const std::string& text : wanted) CHECK(said.find(text) != std::string::npos);
  };
  for (const Call& row : rows)
    check(message([&] { scaled_dot_product_attention(row.q, row.k, row.v, row.options); }),
          "scaled_dot_product_attention", row.said);
  check(message([&] { packed_self_attention(q); }), "packed_self_attention", {"(2, 3, 4)"});
  check(message([&] { packed_self_attention(q4); }), "packed_self_attention", {"(1, 2, 3, 4)"});
  check(message([&] {
          packed_self_attention(t({2, 3, 6}, i32));
        }),
        "packed_self_attention", {"int32", "(2, 3, 6)"});
  check(message([&] { packed_cross_attention(q, k); }), "packed_cross_attention",
        {"(2, 3, 4)", "(2, 5, 4)"});
  check(message([&] {
          packed_cross_attention(q, t({2, 5, 8}, f64));
        }),
        "packed_cross_attention", {"float32 (2, 3, 4)", "float64 (2, 5, 8)"});
}

TEST_CASE("ops: a misuse of rotary names the op and the shape") {
  const auto said = [](const Shape& shape, const RotaryOptions& options) -> std::string {
    try {
      rotary(Array::zeros(shape), options);
    } catch (const std::invalid_argument& error) {
      return error.what();
    }
    return "no std::invalid_argument";
  };
  CHECK(said({3, 5}, {}) == "rotary: x (3, 5) with 5 columns of heads of width 5");
  CHECK(said({6}, {}) == "rotary: x (6,) with 0 columns of heads of width 0");
  CHECK(said({2, 3, 8}, {.head_width = 4, .columns = 6}) ==
        "rotary: x (2, 3, 8) with 6 columns of heads of width 4");
  CHECK(said({3, 4}, {.head_width = 4, .columns = 8}) ==
        "rotary: x (3, 4) with 8 columns of heads of width 4");
}

TEST_CASE("bug: attention read past the end of a v with other heads than k") {
  const Array k = normal({1, 2, 5, 4}), v = normal({1, 4, 5, 2});
  CHECK_THROWS_WITH_AS(scaled_dot_product_attention(k, k, v),
                       "scaled_dot_product_attention: shapes (1, 2, 5, 4), (1, 2, 5, 4), "
                       "(1, 4, 5, 2) with 2 heads",
                       std::invalid_argument);
}

TEST_CASE("bug: linear read a float64 bias as float32") {
  CHECK_THROWS_WITH_AS(linear(normal({2, 3}, f32), normal({4, 3}, f32), normal({4}, f64)),
                       "linear: float32 (4, 3) with float64 (4,)", std::invalid_argument);
}

TEST_CASE("bug: matmul named only the leading axes that do not broadcast") {
  CHECK_THROWS_WITH_AS(matmul(normal({2, 2, 3}), normal({3, 3, 4})),
                       "matmul: (2, 2, 3) with (3, 3, 4)", std::invalid_argument);
}

TEST_CASE("bug: embedding and cross_entropy did not say that they want int32") {
  CHECK_THROWS_WITH_AS(embedding(normal({2, 3}), normal({4})),
                       "embedding: table (2, 3) with float64 tokens (4,)", std::invalid_argument);
  CHECK_THROWS_WITH_AS(cross_entropy(normal({2, 3}), normal({2})),
                       "cross_entropy: logits (2, 3) with float64 targets (2,)",
                       std::invalid_argument);
}

// --- vector arithmetic against the standard library ---

struct Elementary {
  std::string name;
  std::function<Array(const Array&)> vectorised;
  long double (*exact)(long double);
  double low, high;  // of float64; clipped for float32
  double ulps32, ulps64;
};

template <class F>
std::function<Array(const Array&)> each(F f) {
  return [f](const Array& x) {
    Array y(x.shape(), x.dtype());
    dispatch(x.dtype(), [&]<class T>() {
      map_span<T>(x.size(), f, y.mutable_values<T>().data(), x.values<T>().data());
    });
    return y;
  };
}

// The worst error of y in units of the last place of the exact value, where that is normal.
template <class T>
double worst_ulps(const Elementary& f, double low, double high) {
  const int n = 20001;
  std::vector<T> x;
  for (int i = 0; i < n; ++i) {
    x.push_back(static_cast<T>(low + (high - low) * i / (n - 1)));
    const T tiny = static_cast<T>(std::pow(10., -30. * i / n));  // towards 0 as well
    for (const T small : {tiny, -tiny})
      if (small >= low && small <= high) x.push_back(small);
  }
  const Array y = f.vectorised(Array::of(x, {std::ssize(x)}));
  double worst = 0;
  for (std::size_t i = 0; i < x.size(); ++i) {
    const long double exact = f.exact(x[i]);
    const T rounded = static_cast<T>(exact);
    if (!std::isnormal(rounded)) continue;
    const T size = std::abs(rounded);
    const T ulp = size - std::nextafter(size, T(0));
    const double error = static_cast<double>(std::abs(y.template values<T>()[i] - exact) / ulp);
    worst = std::max(worst, std::isnan(error) ? infinity : error);
  }
  return worst;
}

#ifdef __FMA__
TEST_CASE("kernels: fma rounds once, where the processor has it") {
  const auto check = [](auto one) {
    using T = decltype(one);
    const T x = one + std::numeric_limits<T>::epsilon();
    const Simd<T> fused = xsimd::fma(Simd<T>(x), Simd<T>(x), Simd<T>(-(x * x)));
    alignas(64) T lanes[simd_width<T>];
    fused.store_aligned(lanes);
    CHECK(lanes[simd_width<T> - 1] == std::fma(x, x, -(x * x)));
    CHECK(lanes[0] != 0);  // what a product rounded before the sum leaves
  };
  check(1.0f);
  check(1.0);
}
#endif

TEST_CASE("kernels: vectorised functions are within a few units in the last place of std::") {
  const std::vector<Elementary> rows = {
      {"exp", each([](auto x) { return exp(x); }), std::exp, -87, 88, 2, 2},
      {"log", each([](auto x) { return log(x); }), std::log, 1e-30, 1e6, 2, 2},
      {"sin", each([](auto x) { return sin(x); }), std::sin, -3, 3, 2, 2},
      {"cos", each([](auto x) { return cos(x); }), std::cos, -1.5, 1.5, 2, 2},
      {"tanh", each([](auto x) { return tanh(x); }), std::tanh, -20, 20, 2, 2},
      {"erf", each([](auto x) { return erf(x); }), std::erf, -6, 6, 3, 70},
      {"log1p", each([](auto x) { return log1p(x); }), std::log1p, -0.99, 1e3, 2, 2},
      {"expm1", each([](auto x) { return expm1(x); }), std::expm1, -30, 80, 3, 2},
  };
  for (const Elementary& row : rows) {
    CAPTURE(row.name);
    CHECK_MESSAGE(worst_ulps<float>(row, row.low, row.high) <= row.ulps32, row.name);
    CHECK(worst_ulps<double>(row, row.low, row.high) <= row.ulps64);
  }
}

TEST_CASE(
    "kernels: vectorised sines and cosines of large angles are right to the last places of 1") {
  std::vector<float> angles;
  for (double x = 1; x < 1e6; x *= 1.001) angles.insert(angles.end(), {float(x), -float(x)});
  for (const DType dtype : {f32, f64}) {
    const Array x = Array::of(angles, {std::ssize(angles)}).to(dtype);
    const std::vector<double> sines = doubles(sin(x).value()), cosines = doubles(cos(x).value());
    double worst = 0;
    for (std::size_t i = 0; i < angles.size(); ++i)
      worst = std::max({worst, std::abs(sines[i] - std::sin(double{angles[i]})),
                        std::abs(cosines[i] - std::cos(double{angles[i]}))});
    CHECK(worst <= (dtype == f32 ? 1.2e-7 : 2.3e-16));
  }
}

TEST_CASE("kernels: vectorised functions of special values") {
  const double nan = std::nan("");
  struct Special {
    std::string name;
    std::function<Array(const Array&)> f;
    std::vector<double> x, y;
  };
  const std::vector<Special> rows = {
      {"exp",
       each([](auto x) { return exp(x); }),
       {infinity, -infinity, nan, 0, -0., 1e-310, -1e4, 1e4},
       {infinity, 0, nan, 1, 1, 1, 0, infinity}},
      {"log",
       each([](auto x) { return log(x); }),
       {infinity, 0, -0., -1, -infinity, nan, 1},
       {infinity, -infinity, -infinity, nan, nan, nan, 0}},
      {"sin", each([](auto x) { return sin(x); }), {infinity, nan, 0, -0.}, {nan, nan, 0, -0.}},
      {"cos", each([](auto x) { return cos(x); }), {-infinity, nan, 0, -0.}, {nan, nan, 1, 1}},
      {"tanh",
       each([](auto x) { return tanh(x); }),
       {infinity, -infinity, nan, 0, -0., 1e-310},
       {1, -1, nan, 0, -0., 1e-310}},
      {"erf",
       each([](auto x) { return erf(x); }),
       {infinity, -infinity, nan, 0, -0.},
       {1, -1, nan, 0, -0.}},
      {"log1p",
       each([](auto x) { return log1p(x); }),
       {infinity, -1, nan, 0, -2},
       {infinity, -infinity, nan, 0, nan}},
      {"expm1",
       each([](auto x) { return expm1(x); }),
       {infinity, -infinity, nan, 0},
       {infinity, -1, nan, 0}},
      {"sqrt",
       each([](auto x) { return sqrt(x); }),
       {infinity, 0, -0., -1, nan, 4},
       {infinity, 0, -0., nan, nan, 2}},
  };
  for (const Special& row : rows)
    for (const DType dtype : {f32, f64})
      for (std::size_t i = 0; i < row.x.size(); ++i) {
        CAPTURE(row.name);
        CAPTURE(row.x[i]);
        INFO(std::string(to_string(dtype)));
        const Array x = Array::full({1}, row.x[i], dtype),
                    wanted = Array::full({1}, row.y[i], dtype);
        const double y = doubles(row.f(x))[0], exact = doubles(wanted)[0];
        CAPTURE(y);
        CHECK((std::isnan(exact) ? std::isnan(y) : y == exact));
      }
}

}  // namespace
}  // namespace tapestry
