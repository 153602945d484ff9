#include "train/tools/convert/gguf_rotary.hpp"

#include <algorithm>
#include <cmath>

#include "autograd/check.hpp"

namespace tapestry {
namespace {

constexpr const char* low_field = "tapestry.rotary_low_frequency";
constexpr const char* high_field = "tapestry.rotary_high_frequency";
constexpr const char* context_field = "tapestry.rotary_original_context";

// But for the rounding of one who computed them in float32.
bool are_same(const Array& a, const Array& b) {
  return std::ranges::equal(a.values<float>(), b.values<float>(), [](float x, float y) {
    return std::fabs(x - y) <= 1e-4F * std::fabs(y);
  });
}

}  // namespace

Array rotary_factors(std::int64_t D, const RotaryForm& form) {
  RotaryForm unscaled = form;
  unscaled.scaling.reset();
  const std::vector<double> slowed = rotary_rates(D, form), plain = rotary_rates(D, unscaled);
  Array factors({D / 2});
  for (std::int64_t k = 0; k < D / 2; ++k)
    factors.mutable_values<float>()[k] = static_cast<float>(plain[k] / slowed[k]);
  return factors;
}

std::vector<GgufField> rotary_scaling_fields(const RotaryScaling& scaling) {
  return {{low_field, static_cast<float>(scaling.low_frequency)},
          {high_field, static_cast<float>(scaling.high_frequency)},
          {context_field, static_cast<std::uint32_t>(scaling.original_context)}};
}

std::optional<RotaryScaling> read_rotary_scaling(Fields& fields, const Array& factors,
                                                 const RotaryForm& unscaled) {
  RotaryForm form = unscaled;
  RotaryScaling& scaling = form.scaling.emplace();
  scaling.factor = *std::ranges::max_element(factors.values<float>());
  scaling.low_frequency = fields.number(low_field, scaling.low_frequency);
  scaling.high_frequency = fields.number(high_field, scaling.high_frequency);
  scaling.original_context =
      fields.optional_count(context_field).value_or(scaling.original_context);
  const bool in_order = scaling.factor >= 1 && std::isfinite(scaling.factor) &&
                        0 <= scaling.low_frequency &&
                        scaling.low_frequency < scaling.high_frequency;
  if (!in_order || !are_same(factors, rotary_factors(2 * factors.size(), form)))
    return std::nullopt;
  return scaling;
}

}  // namespace tapestry
