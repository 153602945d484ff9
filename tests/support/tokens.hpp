#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "data/text/byte_pair.hpp"
#include "data/text/text_encoder.hpp"
#include "data/text/token_shards.hpp"
#include "tests/support/folder.hpp"

namespace tapestry {

// Returns a small tokenizer that ends documents with <|endoftext|>.
inline BytePairTokenizer small_tokenizer(const std::string& text, std::int64_t vocabulary = 300) {
  const Strings texts = {text};
  return BytePairTokenizer::train(
      texts, {.vocabulary = vocabulary, .special_tokens = {"<|endoftext|>", "<eos>"}});
}

// Writes shards of a text into a folder, as `tapestry tokens` does, with the name of
// `begins_documents` in their headers.
inline void write_shards(const TemporaryFolder& folder, const BytePairTokenizer& tokenizer,
                         const std::string& text, std::int64_t tokens_of_shard,
                         bool begins_documents = false) {
  const std::string json = tokenizer.to_json();
  const std::int32_t end = *end_of_text_of(tokenizer);
  folder.write(TokenShards::tokenizer_name, json);
  ShardMaker maker(
      tokenizer, json,
      {.end_of_text = end, .begins_documents = begins_documents, .tokens = tokens_of_shard},
      [&](const std::string& name, const std::vector<std::string_view>& parts) {
        std::string bytes;
        for (const std::string_view part : parts) bytes += part;
        folder.write(name, bytes);
      });
  TextEncoder encoder(tokenizer, {.end_of_text = end},
                      [&](std::span<const std::int32_t> tokens) { maker.add(tokens); });
  encoder.add(text);
  encoder.end_text();
  encoder.finish();
  maker.finish();
}

}  // namespace tapestry
