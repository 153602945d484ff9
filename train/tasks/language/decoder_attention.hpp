#pragma once

#include "layers/models/transformer.hpp"
#include "train/view.hpp"

namespace tapestry {

// The attention of a decoder-only model that reads these tokens, whose names are the labels.
AttentionMaps attention_of(const Transformer& model, const std::vector<std::int32_t>& tokens,
                           const std::vector<std::string>& labels);

}  // namespace tapestry
