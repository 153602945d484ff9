#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "data/dataset.hpp"
#include "data/text/chat_encoder.hpp"

namespace tapestry {

// Conversations as tokens, those that a model cannot learn from left out.
struct EncodedConversations {
  std::vector<EncodedConversation> all{};
  std::int64_t cut = 0;      // so many were longer than the context, and end before their end
  std::int64_t dropped = 0;  // of so many nothing is left that is learnt
};

// Of each the first `context` + 1 tokens at most, and from these a model reads all but the last.
// InputError names file and line where a conversation does not suit the template.
EncodedConversations encode_conversations(const ConversationList& list, const ChatEncoder& encoder,
                                          std::int64_t context);

struct ConversationOptions {
  std::int64_t context = 64;
  bool packing = true;  // several conversations a row, as many as find room
};

// Next-token prediction in conversations, of what is learnt in them. A batch, whose T is the length
// of its longest row, is int32:
//   inputs   (B, T)  conversations one after the other, then 0 up to the end of the row
//   targets  (B, T)  one token ahead where that is learnt, else ignored_target
// With packing, DocumentStarts are its auxiliary inputs. Rows are packed by the length of the
// conversations, the longest first, each into the fullest row that has room, or a new one (best fit
// decreasing; Johnson 1974, "Fast algorithms for bin packing").
class ConversationDataset final : public Dataset {
 public:
  // Each conversation has from 2 to `context` + 1 tokens; at least one of them.
  ConversationDataset(std::vector<EncodedConversation> conversations,
                      const ConversationOptions& options);

  std::int64_t size() const override { return std::ssize(rows_); }
  std::int64_t conversations() const { return std::ssize(conversations_); }
  Batch batch(std::span<const std::int64_t> examples) const override;
  void add_to(Checksum& sum) const override;

 private:
  using Row = std::vector<std::int64_t>;  // the conversations in it
  std::int64_t length(std::int64_t conversation) const;
  std::int64_t length(const Row& row) const;
  void pack(std::int64_t context);

  std::vector<EncodedConversation> conversations_;
  bool packing_;
  std::vector<Row> rows_{};
};

}  // namespace tapestry
