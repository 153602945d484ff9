#include "train/inspect/concepts.hpp"

#include <fmt/format.h>

#include <cmath>

#include "autograd/check.hpp"
#include "autograd/ops/arithmetic.hpp"
#include "autograd/ops/attention.hpp"
#include "autograd/ops/linear_attention.hpp"
#include "autograd/ops/matmul.hpp"
#include "autograd/ops/rotary.hpp"
#include "layers/embedding.hpp"
#include "layers/random_features.hpp"

namespace tapestry {
namespace {

std::vector<std::string> numbers_until(std::int64_t count) {
  std::vector<std::string> names;
  for (std::int64_t i = 0; i < count; ++i) names.push_back(std::to_string(i));
  return names;
}

HeatMap map_of_numbers(const std::string& title, const Array& values, const std::string& row_axis,
                       const std::string& column_axis) {
  return {.title = title,
          .values = values,
          .row_labels = numbers_until(values.dim(0)),
          .column_labels = numbers_until(values.dim(1)),
          .row_axis = row_axis,
          .column_axis = column_axis};
}

// Maps numbers from -1 to 1 to colors from 0 to 1.
Array colors_of_signed(const Tensor& x) { return (0.5 * x + Array::full({1}, 0.5)).value(); }

constexpr std::int64_t feature_tokens = 16, feature_width = 16;

// Returns the weights that features estimate: linear attention to the rows of the identity.
Array estimated_weights(const RandomFeatures& map, const Tensor& q, const Tensor& k) {
  Array identity = Array::zeros({1, feature_tokens, feature_tokens});
  for (std::int64_t i = 0; i < feature_tokens; ++i)
    identity.mutable_values<float>()[i * (feature_tokens + 1)] = 1;
  const Features queries = map.forward(q), keys = map.forward(k);
  return linear_attention(queries.values, keys.values, identity, {},
                          {.key_log_scales = keys.log_scales, .floor = map.floor()})
      .value()
      .reshaped({feature_tokens, feature_tokens});
}

// Returns the exact weights: softmax(q kᵀ / √D), or of the cosines for trigonometric features.
Array exact_weights(FeatureMap map, const Tensor& q, const Tensor& k) {
  const bool is_cosine = map == FeatureMap::trigonometric;
  const double scale = is_cosine ? std::sqrt(static_cast<double>(feature_width)) : 1;
  const auto rows = [&](const Tensor& x) {
    return (is_cosine ? unit_rows(x) : x).value().reshaped({1, feature_tokens, feature_width});
  };
  return attention_weights((scale * Tensor(rows(q))).value(), rows(k), {})
      .reshaped({feature_tokens, feature_tokens});
}

double mean_difference(const Array& a, const Array& b) {
  double sum = 0;
  for (std::int64_t i = 0; i < a.size(); ++i)
    sum += std::abs(a.values<float>()[i] - b.values<float>()[i]);
  return sum / static_cast<double>(a.size());
}

HeatMap weights_map(const std::string& title, const Array& weights) {
  Array colors = weights.clone();
  for (float& weight : colors.mutable_values<float>()) weight = std::sqrt(std::max(0.0f, weight));
  return map_of_numbers(title, colors, "Query", "Key");
}

}  // namespace

HeatMaps figure_of_positions(std::int64_t tokens, std::int64_t width) {
  require(width % 2 == 0, "positions: width {}; expected an even number", width);
  Random unused(1, Stream::init);
  const PositionalEncoding encoding({.kind = Positions::sinusoidal, .width = width}, unused);
  const Tensor p(
      encoding.forward(Array::zeros({1, tokens, width})).value().reshaped({tokens, width}));
  const Tensor products = matmul(p, p, {.transpose_b = true}) * (2.0 / static_cast<double>(width));
  const std::vector<double> rates = rotary_rates(width, {});
  Array cosines({tokens, width / 2});
  for (std::int64_t i = 0; i < cosines.size(); ++i) {
    const auto position = static_cast<double>(i / (width / 2));
    cosines.mutable_values<float>()[i] =
        static_cast<float>(std::cos(position * rates[i % (width / 2)]));
  }
  return {.rows = {{map_of_numbers("sinusoidal encodings p(pos)", colors_of_signed(p), "Position",
                                   "Feature"),
                    map_of_numbers("2/C p(pos)·p(other)", colors_of_signed(products), "Position",
                                   "Position"),
                    map_of_numbers("rotary: cos(pos · θₖ)", colors_of_signed(cosines), "Position",
                                   "Pair k")}},
          .scale = {"-1", "0", "1"}};
}

HeatMaps figure_of_masks(const MaskOptions& options) {
  const std::int64_t T = options.tokens;
  Array padding = Array::zeros({1, T}, DType::int32);
  for (std::int64_t s = std::max<std::int64_t>(0, T - options.padding); s < T; ++s)
    padding.mutable_values<std::int32_t>()[s] = 1;
  const auto visible = [&](const std::string& title, const AttentionOptions& attention) {
    const Array zeros = Array::zeros({1, T, 1});
    Array seen = attention_weights(zeros, zeros, attention).reshaped({T, T}).clone();
    for (float& weight : seen.mutable_values<float>()) weight = weight > 0 ? 1 : 0;
    return map_of_numbers(title, seen, "Query", "Key");
  };
  return {.rows = {{visible("no mask", {}), visible("causal", {.causal = true})},
                   {visible(fmt::format("causal, window {}", options.window),
                            {.causal = true, .window = options.window}),
                    visible(fmt::format("padding: last {}", options.padding),
                            {.key_padding = padding})}},
          .scale = {"hidden: -∞", "visible: 0"}};
}

FeatureEstimates estimate_by_features(std::int64_t seeds) {
  FeatureEstimates estimates;
  estimates.figure.scale = {"0", "¼", "1"};
  for (const auto& [name, kind] : {std::pair{"positive", FeatureMap::positive},
                                   {"trigonometric", FeatureMap::trigonometric}}) {
    std::vector<HeatMap>& row = estimates.figure.rows.emplace_back();
    for (const std::int64_t features : {16, 64, 256, 1024}) {
      std::vector<double>& errors =
          estimates.errors.emplace_back(FeatureErrors{.map = name, .features = features}).values;
      for (std::int64_t seed = 1; seed <= seeds; ++seed) {
        Random random(seed, Stream::init);
        Array q({1, 1, feature_tokens, feature_width}), k(q.shape());
        random.fill_normal(q, 0, 1);
        random.fill_normal(k, 0, 1);
        const RandomFeatures map(1, feature_width, random, {.features = features, .map = kind});
        const Array exact = exact_weights(kind, q, k), estimate = estimated_weights(map, q, k);
        errors.push_back(mean_difference(exact, estimate));
        if (seed > 1) continue;
        if (row.empty()) row.push_back(weights_map(fmt::format("{}: exact", name), exact));
        row.push_back(weights_map(fmt::format("{} features", features), estimate));
      }
    }
  }
  return estimates;
}

}  // namespace tapestry
