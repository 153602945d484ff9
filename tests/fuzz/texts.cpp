#include <algorithm>
#include <cstring>
#include <filesystem>
#include <stdexcept>

#include "autograd/checksum.hpp"
#include "data/text/byte_pair.hpp"
#include "data/text/chat_template.hpp"
#include "data/text/conversations.hpp"
#include "data/text/text.hpp"
#include "data/text/token_shards.hpp"
#include "tests/fuzz/target.hpp"

// Fuzzes conversations, chat templates, tokenizers and token shards.
namespace tapestry {
namespace {

// Checks that conversations that were read can be written as ChatML, which accepts every order.
const RegisterFuzzTarget conversations("conversations", [](std::string_view bytes) {
  const ConversationList list = load_conversations(written_file("conversations.jsonl", bytes));
  const ChatTemplate chatml = read_chat_template("chatml");
  for (const Conversation& conversation : list.conversations) {
    const std::string text = written(chatml, conversation.messages);
    for (const Message& message : conversation.messages)
      if (text.find(message.content) == std::string::npos)
        throw std::logic_error("conversations: a message was lost");
  }
});

// A template of Tapestry and, after the first zero byte, one in Jinja.
const RegisterFuzzTarget chat_template("chat-template", [](std::string_view bytes) {
  const std::vector<std::string_view> parts = cut_at_zeros(bytes);
  if (parts.size() > 1) {
    const ChatTemplate known = recognized_chat_template(parts[1], "<|begin_of_text|>");
    if (to_json(chat_template_from_json(to_json(known), "kept")) != to_json(known))
      throw std::logic_error("chat-template: another template came back");
    return;
  }
  const ChatTemplate read = read_chat_template(std::string(parts.front()));
  written(read, {{Speaker::user, "a"}, {Speaker::assistant, "b"}});
  special_names(read);
});

template <class Bytes>
void put_checksum(std::string& shard, std::size_t place, const Bytes& bytes) {
  Checksum sum;
  sum.add(std::as_bytes(std::span(bytes)));
  const std::uint64_t value = sum.value();
  std::memcpy(shard.data() + place, &value, sizeof value);
}

// The first byte says whether checksums are corrected, so that random bytes pass them.
const RegisterFuzzTarget registered("shards", [](std::string_view bytes) {
  if (bytes.empty()) return;
  const std::string json = "{}";
  std::string shard(bytes.substr(1));
  if (bytes.front() == '1' && shard.size() >= ShardHeader::size) {
    put_checksum(shard, 32, json);
    put_checksum(shard, 64, std::string_view(shard).substr(ShardHeader::size));
    put_checksum(shard, 120, std::string_view(shard).substr(0, 120));
  }
  std::filesystem::create_directories(scratch_folder() + "/shards");
  written_file("shards/tokenizer.json", json);
  written_file("shards/shard-00000.tokens", shard);
  const TokenShards shards(scratch_folder() + "/shards");
  std::vector<std::int32_t> tokens(shards.size());
  shards.read(0, tokens);
  for (const std::int32_t token : tokens)
    if (token < 0 || token >= shards.vocabulary())
      throw std::logic_error("shards: a token that is not in the vocabulary");
});

// Returns whether every text is decoded to its prepared form: each byte is a token, and no name in
// the text separates characters that are composed.
bool gives_back(const BytePairTokenizer& tokenizer) {
  const BytePairModel& model = tokenizer.model();
  for (int byte = 0; byte < 256; ++byte) {
    const char bytes = static_cast<char>(byte);
    const std::int32_t token = tokenizer.find({&bytes, 1});
    if (token < 0 || model.special[token]) return false;
  }
  return std::ranges::all_of(model.added,
                             [&](const AddedToken& added) { return model.special[added.token]; });
}

// A tokenizer is written as it was read. The text after the first zero byte is decoded unchanged,
// and its parts have its tokens where it may be cut.
const RegisterFuzzTarget byte_pairs("tokenizer", [](std::string_view bytes) {
  const std::vector<std::string_view> parts = cut_at_zeros(bytes);
  const auto tokenizer = BytePairTokenizer::from_json(parts.front(), "tokenizer.json");
  const std::string written = tokenizer.to_json();
  if (BytePairTokenizer::from_json(written, "written").to_json() != written)
    throw std::logic_error("tokenizer: another tokenizer came back");

  const std::string text(parts.size() > 1 ? parts[1] : "to be, or not to be: 42 \u00E9\n");
  tokenizer.encode(text, {.added_tokens = true, .with_template = true});
  const auto tokens = tokenizer.encode(text);
  const std::string known = prepared(text, tokenizer.model().pieces);
  if (gives_back(tokenizer) && !tokenizer.decode(tokens).ends_with(known))
    throw std::logic_error("tokenizer: another text came back");

  const std::size_t cut = tokenizer.last_cut(text);
  auto apart = tokenizer.encode(text.substr(0, cut));
  const auto rest = tokenizer.encode(text.substr(cut));
  apart.insert(apart.end(), rest.begin(), rest.end());
  if (apart != tokens) throw std::logic_error("tokenizer: a cut text has other tokens");
});

const RegisterFuzzTarget characters("character-tokenizer", [](std::string_view bytes) {
  const auto vocabulary = vocabulary_of_characters(bytes, "tokenizer.json");
  if (!vocabulary) return;
  const auto again = vocabulary_of_characters(character_tokenizer_json(*vocabulary), "written");
  if (!again || again->symbols() != vocabulary->symbols())
    throw std::logic_error("character tokenizer: another vocabulary came back");
});

}  // namespace
}  // namespace tapestry
