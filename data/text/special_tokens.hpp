#pragma once

#include <array>
#include <cstdint>
#include <string_view>

namespace tapestry {

// The first tokens of every vocabulary that pairs are written in.
inline constexpr std::int32_t pad_token = 0;      // fills a row up to the longest of its batch
inline constexpr std::int32_t bos_token = 1;      // stands before a target
inline constexpr std::int32_t eos_token = 2;      // ends a target
inline constexpr std::int32_t unknown_token = 3;  // for vocabularies that may lack a symbol

inline constexpr std::array<std::string_view, 4> special_tokens = {"<pad>", "<bos>", "<eos>",
                                                                   "<unk>"};

}  // namespace tapestry
