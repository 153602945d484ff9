#include <doctest/doctest.h>

#include <cmath>

#include "autograd/ops.hpp"
#include "tests/support/op_inputs.hpp"

// Compares fused ops with compositions of other ops.
namespace tapestry {
namespace {

TEST_SUITE_BEGIN("ops");

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
  const Tensor centered = x[0] - mean(x[0], {-1}, Keep::yes);
  const Tensor epsilon = Array::full({}, 1e-5, x[0].dtype());
  const Tensor deviation = sqrt(mean(centered * centered, {-1}, Keep::yes) + epsilon);
  return centered / deviation * x[1] + x[2];
}

Tensor composed_rms_norm(In x) {
  const Tensor epsilon = Array::full({}, 1e-5, x[0].dtype());
  return x[0] / sqrt(mean(x[0] * x[0], {-1}, Keep::yes) + epsilon) * x[1];
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

// Columns [k · H, (k + 1) · H) of the gates.
Tensor gate_of(const Tensor& gates, std::int64_t k, std::int64_t H) {
  return slice(gates, 1, k * H, (k + 1) * H);
}

Tensor composed_lstm(In x) {  // x (B, T, 4H), weight, h_0 and c_0 (B, 2H)
  const std::int64_t H = x[1].dim(1);
  Tensor c = gate_of(x[2], 1, H);
  return composed_recurrence(
      x[0].dim(1), gate_of(x[2], 0, H), [&](std::int64_t t, const Tensor& h) {
        const Tensor a = step_of(x[0], t) + linear(h, x[1]);
        c = sigmoid(gate_of(a, 1, H)) * c + sigmoid(gate_of(a, 0, H)) * tanh(gate_of(a, 2, H));
        return sigmoid(gate_of(a, 3, H)) * tanh(c);
      });
}

Tensor composed_gru(In x) {  // x (B, T, 3H), weight, bias, initial
  const std::int64_t H = x[1].dim(1);
  return composed_recurrence(x[0].dim(1), x[3], [&](std::int64_t t, const Tensor& h) {
    const Tensor a = step_of(x[0], t), u = linear(h, x[1]);
    const Tensor r = sigmoid(gate_of(a, 0, H) + gate_of(u, 0, H)),
                 z = sigmoid(gate_of(a, 1, H) + gate_of(u, 1, H)),
                 n = tanh(gate_of(a, 2, H) + r * (gate_of(u, 2, H) + x[2]));
    return n - z * n + z * h;
  });
}

struct Fused {
  std::string name;
  Function fused, composed;
  std::vector<Array> inputs;
};

// A mask (T, S) that hides the keys outside a window.
Array outside_window(std::int64_t window, bool causal, std::int64_t T, std::int64_t S) {
  return infinite_where({T, S}, [=](std::int64_t t, std::int64_t s) {
    const std::int64_t ahead = s - (t + S - T);
    return std::abs(ahead) >= window || (causal && ahead > 0);
  });
}

// Tiles have sides of 16, 32 or 64.
std::vector<Fused> attention_of_few_queries_and_keys() {
  std::vector<Fused> rows;
  for (const auto& [T, S] : {std::pair{16, 16},
                             {16, 17},
                             {17, 16},
                             {31, 32},
                             {33, 32},
                             {5, 33},
                             {64, 64},
                             {64, 65},
                             {65, 64}})
    for (const bool causal : {false, true})
      for (const std::int64_t D : {3, 20}) {
        const Array mask = outside_window(9, causal, T, S);
        rows.push_back(
            {fmt::format("attention{} of {} by {}", causal ? ", causal," : "", T, S),
             [causal](In x) {
               return scaled_dot_product_attention(x[0], x[1], x[2],
                                                   {.causal = causal, .window = 9});
             },
             [mask](In x) { return composed_attention(x[0], x[1], x[2], mask); },
             {normal({2, 3, T, D}, 1), normal({2, 3, S, D}, 2), normal({2, 3, S, D}, 3)}});
      }
  return rows;
}

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
    return row(fmt::format("window {}{} of {} by {}", window, causal ? ", causal," : "", T, S),
               {.causal = causal, .window = window}, outside_window(window, causal, T, S),
               {1, 2, T, 20}, {1, 2, S, 20});
  };
  const Array mask = normal({3, 150, 130}), holes = infinite_where({150, 130}, [](auto t, auto s) {
                                              return t % 7 == 0 || (t + s) % 3 == 0;
                                            });
  std::vector<Fused> rows = {
      row("plain", {}, {}, q, k),
      row("flat heads", {.heads = 2}, {}, flat_q, flat_k),
      row("one flat head", {.heads = 1}, {}, flat_q, flat_k),
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

// Each row has its own random numbers, so that an added row does not change the others.
Array numbers(const Shape& shape) {
  static std::uint64_t step = 1'000'000;
  return normal(shape, ++step);
}

std::vector<Fused> fused_norms_and_gates() {
  return {
      {"rms_norm",
       [](In x) { return rms_norm(x[0], x[1]); },
       composed_rms_norm,
       {numbers({40, 37}), numbers({37})}},
      {"rms_norm of heads between other columns",
       [](In x) { return rms_norm(x[0], x[1], {.first = 5, .columns = 60}); },
       [](In x) {
         const Tensor heads = reshape(slice(x[0], 1, 5, 65), {40, 3, 20});
         return concat({slice(x[0], 1, 0, 5), reshape(composed_rms_norm({heads, x[1]}), {40, 60}),
                        slice(x[0], 1, 65, 70)},
                       1);
       },
       {numbers({40, 70}), numbers({20})}},
      {"silu",
       [](In x) { return silu(x[0]); },
       [](In x) { return x[0] * sigmoid(x[0]); },
       {numbers({40, 37})}},
      {"swiglu",
       [](In x) { return swiglu(x[0]); },
       [](In x) { return silu(slice(x[0], 2, 0, 37)) * slice(x[0], 2, 37, 74); },
       {numbers({2, 40, 74})}},
  };
}

std::vector<Fused> attention_by_shared_heads() {
  const auto shared = [](bool causal) {
    return AttentionOptions{.heads = 6, .key_value_heads = 2, .causal = causal};
  };
  const auto repeated =
      [](const Tensor& x) {  // (2, S, 2 · 18) -> (2, S, 6 · 18), each head three times
        const Tensor heads = reshape(x, {2, x.dim(1), 2, 1, 18});
        return reshape(concat({heads, heads, heads}, 3), {2, x.dim(1), 108});
      };
  std::vector<Fused> rows;
  for (const auto& [T, S] : {std::pair{70, 80}, {80, 70}, {20, 300}, {1, 90}})
    rows.push_back(
        {fmt::format("attention by shared heads, {} by {}", T, S),
         [=](In x) { return scaled_dot_product_attention(x[0], x[1], x[2], shared(true)); },
         [=](In x) {
           return scaled_dot_product_attention(x[0], repeated(x[1]), repeated(x[2]),
                                               {.heads = 6, .causal = true});
         },
         {numbers({2, T, 108}), numbers({2, S, 36}), numbers({2, S, 36})}});
  rows.push_back({"packed self-attention by shared heads",
                  [=](In x) { return packed_self_attention(x[0], shared(false)); },
                  [=](In x) {
                    return scaled_dot_product_attention(slice(x[0], 2, 0, 108),
                                                        slice(x[0], 2, 108, 144),
                                                        slice(x[0], 2, 144, 180), shared(false));
                  },
                  {numbers({2, 70, 180})}});
  rows.push_back({"packed cross-attention by shared heads",
                  [=](In x) { return packed_cross_attention(x[0], x[1], shared(false)); },
                  [=](In x) {
                    return scaled_dot_product_attention(x[0], slice(x[1], 2, 0, 36),
                                                        slice(x[1], 2, 36, 72), shared(false));
                  },
                  {numbers({2, 70, 108}), numbers({2, 80, 72})}});
  return rows;
}

// This path has no tiles.
std::vector<Fused> attention_of_one_query() {
  const auto row = [](const std::string& name, std::int64_t S, std::int64_t D, bool causal,
                      std::int64_t window, const Array& padding, const Array& mask,
                      const Array& hides) {
    return Fused{"attention of one query, " + name,
                 [=](In x) {
                   return scaled_dot_product_attention(
                       x[0], x[1], x[2],
                       {.causal = causal,
                        .window = window,
                        .key_padding = padding,
                        .mask = mask.empty() ? mask : mask.to(x[0].dtype())});
                 },
                 [=](In x) { return composed_attention(x[0], x[1], x[2], hides); },
                 {numbers({2, 3, 1, D}), numbers({2, 3, S, D}), numbers({2, 3, S, D})}};
  };
  const auto after = [](std::int64_t first) {  // hides earlier keys
    return infinite_where({1, 150}, [=](auto, auto s) { return s < first; });
  };
  Array padded = Array::zeros({2, 150}, i32), hidden = Array::zeros({2, 1, 1, 150}, f64);
  for (std::size_t i = 70; i < 200; ++i) {
    padded.mutable_values<std::int32_t>()[i] = 1;
    hidden.mutable_values<double>()[i] = -infinity;
  }
  const Array mask = numbers({3, 1, 150});
  return {row("many keys of a wide head", 1300, 90, true, 0, {}, {}, {}),
          row("few narrow keys", 3, 5, false, 0, {}, {}, {}),
          row("padding", 150, 20, false, 0, padded, {}, hidden),
          row("mask", 150, 20, false, 0, {}, mask, mask),
          row("causal window", 150, 20, true, 70, {}, {}, after(80)),
          row("window", 150, 20, false, 64, {}, {}, after(86))};
}

// Up to 16 examples, and more: different products.
std::vector<Fused> gated_recurrences() {
  std::vector<Fused> rows;
  for (const std::int64_t B : {5, 21}) {
    rows.push_back({"lstm",
                    [](In x) { return lstm(x[0], x[1] * 0.2, x[2]); },
                    [](In x) {
                      return composed_lstm({x[0], x[1] * 0.2, x[2]});
                    },
                    {normal({B, 12, 148}), normal({148, 37}), normal({B, 74})}});
    rows.push_back({"gru",
                    [](In x) { return gru(x[0], x[1] * 0.2, x[2], x[3]); },
                    [](In x) {
                      return composed_gru({x[0], x[1] * 0.2, x[2], x[3]});
                    },
                    {normal({B, 12, 111}), normal({111, 37}), normal({37}), normal({B, 37})}});
  }
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
      {"log_softmax, exponentials",
       [](In x) { return exp(log_softmax(x[0])); },
       stable_softmax,
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
      {"tanh",
       [](In x) { return tanh(x[0]); },
       [=](In x) { return 2.0 * sigmoid(2.0 * x[0]) - one(x); },
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
  for (const Fused& row : fused_norms_and_gates()) rows.push_back(row);
  for (const Fused& row : attention_by_shared_heads()) rows.push_back(row);
  for (const Fused& row : attention_of_few_queries_and_keys()) rows.push_back(row);
  for (const Fused& row : attention_of_one_query()) rows.push_back(row);
  for (const Fused& row : gated_recurrences()) rows.push_back(row);
  return rows;
}

TEST_CASE("ops: fused ops have the values and gradients of their compositions") {
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

TEST_SUITE_END();

}  // namespace
}  // namespace tapestry
