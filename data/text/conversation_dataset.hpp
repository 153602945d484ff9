#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "data/dataset.hpp"
#include "data/text/chat_encoder.hpp"

namespace tapestry {

// Conversations as tokens, without those that have no targets.
struct EncodedConversations {
  std::vector<EncodedConversation> all{};
  std::int64_t cut = 0;      // number of conversations that were truncated to the context
  std::int64_t dropped = 0;  // number of conversations that have no targets
};

// Encodes at most the first `context` + 1 tokens of each conversation; a model reads all of them
// but the last. Throws InputError with file and line if a conversation does not fit the template.
EncodedConversations encode_conversations(const ConversationList& list, const ChatEncoder& encoder,
                                          std::int64_t context);

struct ConversationOptions {
  std::int64_t context = 64;
  bool packing = true;  // several conversations per row, as many as fit
};

// A data set for next-token prediction of the learned parts of conversations. A batch, whose T is
// the length of its longest row, is int32:
//   inputs   (B, T)  conversations one after the other, then 0 up to the end of the row
//   targets  (B, T)  one token ahead if that is learned, else ignored_target
// With packing, DocumentStarts are its auxiliary inputs. Conversations are packed in descending
// order of length, each into the fullest row in which it fits, or a new one (best fit decreasing;
// Johnson 1974, "Fast algorithms for bin packing").
class ConversationDataset final : public Dataset {
 public:
  // Takes at least one conversation, each of 2 to `context` + 1 tokens and as many flags, else
  // throws std::invalid_argument.
  ConversationDataset(std::vector<EncodedConversation> conversations,
                      const ConversationOptions& options);

  std::int64_t size() const override { return std::ssize(rows_); }
  std::int64_t conversations() const { return std::ssize(conversations_); }
  Batch batch(std::span<const std::int64_t> examples) const override;
  void add_to(Checksum& sum) const override;
  bool has_single_examples() const override { return !packing_; }

 private:
  using Row = std::vector<std::int64_t>;  // indices of conversations
  std::int64_t length(std::int64_t conversation) const;
  std::int64_t length(const Row& row) const;
  void pack(std::int64_t context);

  std::vector<EncodedConversation> conversations_;
  bool packing_;
  std::vector<Row> rows_{};
};

}  // namespace tapestry
