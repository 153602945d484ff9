#include <algorithm>
#include <iterator>

#include "data/text/chat_encoder.hpp"
#include "data/text/conversation_dataset.hpp"
#include "data/text/text.hpp"
#include "data/validation_split.hpp"
#include "train/config/keys.hpp"
#include "train/tasks/language/corpus.hpp"
#include "train/tasks/language/kept_chat_template.hpp"

namespace tapestry {
namespace {

// The files of the training and the validation split.
struct ConversationSplits {
  std::vector<ConversationList> training{}, validation{};
  std::int64_t moved = 0;  // HeldExamples::moved
};

std::vector<ConversationList> load_lists(const Given<CorpusSettings>& given) {
  const std::string& path =
      is_pattern(given.path)
          ? given.path
          : given.required_path("no file of conversations",
                                "a JSONL file, or a pattern of several, with --set data.path=FILE");
  std::vector<ConversationList> lists;
  for (const std::string& file : is_pattern(path) ? text_files(path) : std::vector{path})
    lists.push_back(load_conversations(file));
  return lists;
}

// Returns the validation split by rules 2: conversations are equal if roles and texts are.
HeldExamples held_conversations(const CorpusSettings& settings,
                                const std::vector<ConversationList>& lists) {
  std::vector<std::uint64_t> hashes;
  for (const ConversationList& list : lists)
    for (const Conversation& conversation : list.conversations) {
      std::string text;
      for (const Message& message : conversation.messages)
        text += fmt::format("{} {} {}\n", to_string(message.speaker), message.content.size(),
                            message.content);
      hashes.push_back(text_hash(text));
    }
  return divide_by_hash(hashes, {}, {.validation = settings.validation_fraction});
}

// Divides the conversations into splits, each of at least one conversation. Throws InputError for
// fewer than two conversations.
ConversationSplits split_conversations(const Given<CorpusSettings>& given) {
  std::vector<ConversationList> lists = load_lists(given);
  std::int64_t count = 0;
  for (const ConversationList& list : lists) count += std::ssize(list.conversations);
  given.expect(
      count >= 2, "path",
      "contains one conversation; expected at least 2, because one is used for validation");
  HeldExamples held;
  if (given.rules == 1) {
    const std::int64_t wanted = count - training_share(given, count);
    held.validation = validation_examples(count, std::clamp<std::int64_t>(wanted, 1, count - 1));
  } else {
    held = held_conversations(given, lists);
    given.expect(!held.validation.empty(), "path",
                 "all of its {} conversations are equal; expected at least 2 different ones, "
                 "because one is used for validation",
                 count);
  }
  ConversationSplits splits{.moved = held.moved};
  std::int64_t number = 0;
  for (ConversationList& list : lists) {
    ConversationList training{.path = list.path}, validation{.path = list.path};
    for (Conversation& conversation : list.conversations) {
      const bool is_held = std::ranges::binary_search(held.validation, number++);
      (is_held ? validation : training).conversations.push_back(std::move(conversation));
    }
    splits.training.push_back(std::move(training));
    splits.validation.push_back(std::move(validation));
  }
  return splits;
}

// Returns the template of the config, or else of the trained model, or of the files beside the
// tokenizer. Throws InputError if there is none, or if it is not recognized.
ChatTemplate chosen_template(const TaskSetup& setup, const Given<CorpusSettings>& given) {
  const std::string& text = given.chat_template;
  constexpr const char* advice =
      "set data.template to \"chatml\", \"llama3\", or a text with {role} and {content}";
  std::optional<ChatTemplate> chosen;
  try {
    if (!text.empty()) return read_chat_template(text);
    chosen = kept_chat_template(setup.metadata);
    if (!chosen && given.tokenizer != train_tokenizer)
      chosen = chat_template_beside(given.tokenizer);
  } catch (const InputError& error) {
    given.fail("template",
               text.empty() ? fmt::format("{}; {}", error.what(), advice) : error.what());
  }
  given.expect(chosen.has_value(), "template", "the tokenizer has no chat template; {}", advice);
  return *chosen;
}

// Returns the corpus with a tokenizer, which is trained on the training split `lists` if the config
// asks for it. Throws InputError for a model that reads characters, and if data.tokenizer is empty.
Corpus with_tokenizer(const Given<CorpusSettings>& given, Corpus corpus,
                      const ChatTemplate& chat_template,
                      const std::vector<ConversationList>& lists) {
  given.expect(!corpus.has_characters, "kind",
               "the model is character-level; conversations need a model with byte pairs");
  given.expect(corpus.tokenizer || !given.tokenizer.empty(), "tokenizer",
               "conversations need byte pairs; set this key to \"train\", or to a tokenizer.json");
  if (corpus.tokenizer) return corpus;
  std::vector<std::string> texts;
  if (given.tokenizer == train_tokenizer)
    for (const ConversationList& list : lists)
      for (const Conversation& conversation : list.conversations)
        for (const Message& message : conversation.messages) texts.push_back(message.content);
  std::vector<std::string> special = {"<|endoftext|>"};
  for (const std::string& name : special_names(chat_template))
    if (name != special.front()) special.push_back(name);
  return by_byte_pairs(given,
                       given.checked([&] { return chosen_tokenizer(given, texts, special); }));
}

struct ConversationCounts {
  std::int64_t read = 0, cut = 0, dropped = 0;
};

std::unique_ptr<ConversationDataset> make_conversations(const Given<CorpusSettings>& given,
                                                        const ChatEncoder& encoder,
                                                        const std::vector<ConversationList>& lists,
                                                        const char* split,
                                                        ConversationCounts& counts) {
  const std::int64_t context = given.context;
  std::vector<EncodedConversation> all;
  for (const ConversationList& list : lists) {
    EncodedConversations encoded = encode_conversations(list, encoder, context);
    counts.read += std::ssize(list.conversations);
    counts.cut += encoded.cut;
    counts.dropped += encoded.dropped;
    std::ranges::move(encoded.all, std::back_inserter(all));
  }
  given.expect(!all.empty(), "context",
               "no conversation of the {} split has an answer of weight 1 within this context; "
               "raise this value, or set the weight of answers",
               split);
  return std::make_unique<ConversationDataset>(
      std::move(all), ConversationOptions{.context = context, .packing = given.packing});
}

std::string remark_on(const ConversationCounts& counts, std::int64_t moved, std::int64_t context) {
  const std::string text = moved > 0 ? moved_to_empty_split(moved, "conversation") : "";
  if (counts.cut + counts.dropped == 0) return text;
  return text + (text.empty() ? "" : "; ") +
         fmt::format(
             "of {} conversations, {} are longer than model.context = {} and are truncated; {} "
             "without a remaining answer are left out",
             counts.read, counts.cut, context, counts.dropped);
}

}  // namespace

Corpus read_conversations(const TaskSetup& setup, const Given<CorpusSettings>& given,
                          Corpus corpus) {
  const ChatTemplate chat_template = chosen_template(setup, given);
  const ConversationSplits splits = setup.whole_data
                                        ? ConversationSplits{.validation = load_lists(given)}
                                        : split_conversations(given);
  corpus = with_tokenizer(given, std::move(corpus), chat_template, splits.training);
  try {
    set_template(corpus, chat_template);
  } catch (const InputError& error) {
    given.fail("template", error.what());
  }
  const ChatEncoder encoder(byte_pairs_of(corpus), chat_template, corpus.end_of_text);
  ConversationCounts counts;
  if (!setup.whole_data)
    corpus.training = make_conversations(given, encoder, splits.training, "training", counts);
  corpus.validation = make_conversations(given, encoder, splits.validation, "validation", counts);
  corpus.remark = remark_on(counts, splits.moved, given.context);
  return corpus;
}

}  // namespace tapestry
