#include "data/text/conversation_dataset.hpp"

#include <algorithm>
#include <set>

#include "autograd/check.hpp"
#include "autograd/dry_run.hpp"
#include "autograd/parallel.hpp"

namespace tapestry {
namespace {

// Returns whether a conversation has a target after its first token.
bool teaches(const EncodedConversation& conversation) {
  const auto& learned = conversation.learned;
  return learned.size() >= 2 &&
         std::find(learned.begin() + 1, learned.end(), true) != learned.end();
}

}  // namespace

EncodedConversations encode_conversations(const ConversationList& list, const ChatEncoder& encoder,
                                          std::int64_t context) {
  const std::int64_t count = std::ssize(list.conversations);
  std::vector<EncodedConversation> all(count);
  std::vector<std::string> complaints(count);
  constexpr std::int64_t grain = 16;
  parallel_for(count, grain, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t i = begin; i < end; ++i) try {
        all[i] = encoder.encode(list.conversations[i].messages);
      } catch (const InputError& error) {
        complaints[i] = error.what();
      }
  });
  EncodedConversations made;
  for (std::int64_t i = 0; i < count; ++i) {
    expect_input(complaints[i].empty(), "{}: line {}: {}", list.path, list.conversations[i].line,
                 complaints[i]);
    if (std::ssize(all[i].tokens) > context + 1) {
      all[i].tokens.resize(context + 1);
      all[i].learned.resize(context + 1);
      ++made.cut;
    }
    if (teaches(all[i]))
      made.all.push_back(std::move(all[i]));
    else
      ++made.dropped;
  }
  return made;
}

ConversationDataset::ConversationDataset(std::vector<EncodedConversation> conversations,
                                         const ConversationOptions& options)
    : conversations_(std::move(conversations)), packing_(options.packing) {
  require(!conversations_.empty(), "ConversationDataset: no conversations; expected at least one");
  for (std::int64_t i = 0; i < this->conversations(); ++i)
    require(length(i) >= 1 && length(i) <= options.context &&
                conversations_[i].learned.size() == conversations_[i].tokens.size(),
            "ConversationDataset: a conversation of {} tokens with {} flags and a context of {}; "
            "expected one flag per token, and 2 to context + 1 tokens",
            conversations_[i].tokens.size(), conversations_[i].learned.size(), options.context);
  if (packing_)
    pack(options.context);
  else
    for (std::int64_t i = 0; i < this->conversations(); ++i) rows_.push_back({i});
}

std::int64_t ConversationDataset::length(std::int64_t conversation) const {
  return std::ssize(conversations_[conversation].tokens) - 1;
}

std::int64_t ConversationDataset::length(const Row& row) const {
  std::int64_t sum = 0;
  for (const std::int64_t conversation : row) sum += length(conversation);
  return sum;
}

void ConversationDataset::pack(std::int64_t context) {
  std::vector<std::int64_t> order = indices(0, conversations());
  std::ranges::stable_sort(order, std::greater(), [&](std::int64_t i) { return length(i); });
  std::set<std::pair<std::int64_t, std::int64_t>> rooms;  // the free tokens of a row, and its index
  for (const std::int64_t i : order) {
    auto fullest = rooms.lower_bound({length(i), 0});
    std::pair<std::int64_t, std::int64_t> room(context, size());
    if (fullest == rooms.end())
      rows_.emplace_back();
    else
      room = rooms.extract(fullest).value();
    rows_[room.second].push_back(i);
    rooms.emplace(room.first - length(i), room.second);
  }
}

Batch ConversationDataset::batch(std::span<const std::int64_t> examples) const {
  const std::int64_t B = std::ssize(examples);
  std::int64_t T = 0;
  for (const std::int64_t example : examples) {
    require_example("ConversationDataset", example);
    T = std::max(T, length(rows_[example]));
  }
  Batch batch{.inputs = Array::full({B, T}, 0, DType::int32),
              .targets = Array::full({B, T}, ignored_target, DType::int32),
              .count = 0};
  Array starts({B, T}, DType::int32);
  if (packing_) batch.auxiliary = DocumentStarts{starts};
  if (is_dry_run()) return with_all_counted(batch);
  const auto inputs = batch.inputs.mutable_values<std::int32_t>(),
             targets = batch.targets.mutable_values<std::int32_t>(),
             documents = starts.mutable_values<std::int32_t>();
  for (std::int64_t b = 0; b < B; ++b) {
    std::int64_t t = 0;
    for (const std::int64_t i : rows_[examples[b]]) {
      const auto& [tokens, learned] = conversations_[i];
      const auto start = static_cast<std::int32_t>(t);
      for (std::int64_t k = 0; k < length(i); ++k, ++t) {
        inputs[b * T + t] = tokens[k];
        documents[b * T + t] = start;
        if (!learned[k + 1]) continue;
        targets[b * T + t] = tokens[k + 1];
        batch.count += 1;
      }
    }
    std::fill_n(documents.begin() + b * T + t, T - t, static_cast<std::int32_t>(t));
  }
  return batch;
}

void ConversationDataset::add_to(Checksum& sum) const {
  for (const auto& [tokens, learned] : conversations_) {
    sum.add_list(tokens);
    sum.add_list(std::vector<std::int32_t>(learned.begin(), learned.end()));
  }
}

}  // namespace tapestry
