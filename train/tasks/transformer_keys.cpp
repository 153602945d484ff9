#include "train/tasks/transformer_keys.hpp"

#include <fmt/ranges.h>

namespace tapestry {
namespace {

std::vector<std::int64_t> divisors(std::int64_t n) {
  std::vector<std::int64_t> found;
  for (std::int64_t i = 1; i <= n; ++i)
    if (n % i == 0) found.push_back(i);
  return found;
}

Positions positions_of(const Config& config) {
  const std::string& name = config[key::positions];
  return name == "learned"      ? Positions::learned
         : name == "sinusoidal" ? Positions::sinusoidal
         : name == "rotary"     ? Positions::rotary
                                : Positions::none;
}

}  // namespace

std::vector<KeyInfo> transformer_keys() {
  return {key::layers,     key::heads,     key::width,           key::feed_forward,
          key::dropout,    key::positions, key::window,          key::norm,
          key::activation, key::bias,      key::tied_embeddings, key::checkpoint_activations};
}

Activation activation_of(const Config& config) {
  const std::string& name = config[key::activation];
  return name == "relu"   ? Activation::relu
         : name == "gelu" ? Activation::gelu
                          : Activation::gelu_tanh;
}

TransformerOptions transformer_options(const Config& config, std::int64_t vocabulary,
                                       std::int64_t context) {
  const std::int64_t width = config[key::width], heads = config[key::heads];
  config.expect(width % heads == 0, key::heads, "must divide model.width = {}: one of {}", width,
                fmt::join(divisors(width), ", "));
  const Positions positions = positions_of(config);
  config.expect(positions != Positions::rotary || width / heads % 2 == 0, key::positions,
                "needs an even model.width / model.heads, not {} / {}", width, heads);
  return {.vocabulary = vocabulary,
          .context = context,
          .layers = config[key::layers],
          .heads = heads,
          .width = width,
          .hidden = config[key::feed_forward],
          .positions = positions,
          .window = config[key::window],
          .norm = config[key::norm] == "pre" ? NormPlacement::pre : NormPlacement::post,
          .activation = activation_of(config),
          .dropout = config[key::dropout],
          .bias = config[key::bias],
          .tied_embeddings = config[key::tied_embeddings],
          .recompute_blocks = config[key::checkpoint_activations]};
}

}  // namespace tapestry
