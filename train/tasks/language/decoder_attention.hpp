#pragma once

#include <functional>

#include "layers/models/transformer.hpp"
#include "train/inspect/report_panels.hpp"

namespace tapestry {

// The attention of a decoder-only model that reads these tokens, whose names are the labels.
AttentionMaps attention_of(const Transformer& model, const std::vector<std::int32_t>& tokens,
                           const std::vector<std::string>& labels);

// The same with what it expects after each token, which `label` names.
ReadExample read_by(const Transformer& model, const std::vector<std::int32_t>& tokens,
                    const std::function<std::string(std::int32_t token)>& label);

// How many tokens of an example a page holds the attention of, where it shows so many examples.
std::int64_t readable_tokens(const Transformer& model, std::int64_t examples);

}  // namespace tapestry
