#pragma once

#include "data/text/byte_pair.hpp"

// What a GGUF file says of tokens, by llama.cpp's names. Private to gguf_tokens*.cpp.
namespace tapestry::gguf {

// llama.cpp's kinds of tokens.
enum TokenKind : std::int32_t {
  normal = 1,
  unknown = 2,
  control = 3,
  user_defined = 4,
  unused = 5
};

inline constexpr const char* model_field = "tokenizer.ggml.model";
inline constexpr const char* pattern_field = "tokenizer.ggml.pre";
inline constexpr const char* tokens_field = "tokenizer.ggml.tokens";
inline constexpr const char* kinds_field = "tokenizer.ggml.token_type";
inline constexpr const char* merges_field = "tokenizer.ggml.merges";
inline constexpr const char* bos_field = "tokenizer.ggml.bos_token_id";
inline constexpr const char* eos_field = "tokenizer.ggml.eos_token_id";
inline constexpr const char* eot_field = "tokenizer.ggml.eot_token_id";
inline constexpr const char* pad_field = "tokenizer.ggml.padding_token_id";
inline constexpr const char* add_bos_field = "tokenizer.ggml.add_bos_token";
inline constexpr const char* add_eos_field = "tokenizer.ggml.add_eos_token";
inline constexpr const char* template_field = "tokenizer.chat_template";
// What llama.cpp does not read.
inline constexpr const char* composes_field = "tapestry.composes";
inline constexpr const char* names_field = "tapestry.names";
inline constexpr const char* byte_pairs = "gpt2";     // llama.cpp's name of byte-level byte pairs
inline constexpr const char* longest_match = "rwkv";  // of the longest token that fits

// How llama.cpp names the patterns; those that take a whole piece that is a token, and those that
// merge in any case.
struct PatternName {
  const char* name;
  PiecePattern pattern;
  bool whole_first = false;
};
inline constexpr PatternName pattern_names[] = {{"gpt-2", PiecePattern::gpt2},
                                                {"smollm", PiecePattern::smollm2},
                                                {"llama-bpe", PiecePattern::llama3, true},
                                                {"llama3", PiecePattern::llama3, true},
                                                {"smaug-bpe", PiecePattern::llama3},
                                                {"qwen2", PiecePattern::qwen2}};

}  // namespace tapestry::gguf
