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

std::vector<ConversationList> load_lists(const Config& config) {
  const std::string& path =
      is_pattern(config[key::data_path])
          ? config[key::data_path]
          : key::required_path(config, "no file of conversations",
                               "a JSONL file, or a pattern of several, with --set data.path=FILE");
  std::vector<ConversationList> lists;
  for (const std::string& file : is_pattern(path) ? text_files(path) : std::vector{path})
    lists.push_back(load_conversations(file));
  return lists;
}

// Returns the validation split by rules 2: conversations are equal if roles and texts are.
HeldExamples held_conversations(const Config& config, const std::vector<ConversationList>& lists) {
  std::vector<std::uint64_t> hashes;
  for (const ConversationList& list : lists)
    for (const Conversation& conversation : list.conversations) {
      std::string text;
      for (const Message& message : conversation.messages)
        text += fmt::format("{} {} {}\n", to_string(message.speaker), message.content.size(),
                            message.content);
      hashes.push_back(text_hash(text));
    }
  return divide_by_hash(hashes, {}, {.validation = config[key::text_validation_fraction]});
}

// Divides the conversations into splits, each of at least one conversation. Throws InputError for
// fewer than two conversations.
ConversationSplits split_conversations(const Config& config) {
  std::vector<ConversationList> lists = load_lists(config);
  std::int64_t count = 0;
  for (const ConversationList& list : lists) count += std::ssize(list.conversations);
  config.expect(
      count >= 2, key::data_path,
      "contains one conversation; expected at least 2, because one is used for validation");
  HeldExamples held;
  if (config[key::data_rules] == 1) {
    const std::int64_t wanted = count - training_share(config, count);
    held.validation = validation_examples(count, std::clamp<std::int64_t>(wanted, 1, count - 1));
  } else {
    held = held_conversations(config, lists);
    config.expect(!held.validation.empty(), key::data_path,
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
ChatTemplate chosen_template(const TaskSetup& setup) {
  const Config& config = setup.config;
  const std::string& text = config[key::chat_template];
  constexpr const char* advice =
      "set data.template to \"chatml\", \"llama3\", or a text with {role} and {content}";
  std::optional<ChatTemplate> chosen;
  try {
    if (!text.empty()) return read_chat_template(text);
    chosen = kept_chat_template(setup.metadata);
    if (!chosen && config[key::tokenizer] != train_tokenizer)
      chosen = chat_template_beside(config[key::tokenizer]);
  } catch (const InputError& error) {
    config.fail(key::chat_template,
                text.empty() ? fmt::format("{}; {}", error.what(), advice) : error.what());
  }
  config.expect(chosen.has_value(), key::chat_template, "the tokenizer has no chat template; {}",
                advice);
  return *chosen;
}

// Returns the corpus with a tokenizer, which is trained on the training split `lists` if the config
// asks for it. Throws InputError for a model that reads characters, and if data.tokenizer is empty.
Corpus with_tokenizer(const Config& config, Corpus corpus, const ChatTemplate& chat_template,
                      const std::vector<ConversationList>& lists) {
  config.expect(!corpus.has_characters, key::corpus_kind,
                "the model is character-level; conversations need a model with byte pairs");
  config.expect(corpus.tokenizer || !config[key::tokenizer].empty(), key::tokenizer,
                "conversations need byte pairs; set this key to \"train\", or to a tokenizer.json");
  if (corpus.tokenizer) return corpus;
  std::vector<std::string> texts;
  if (config[key::tokenizer] == train_tokenizer)
    for (const ConversationList& list : lists)
      for (const Conversation& conversation : list.conversations)
        for (const Message& message : conversation.messages) texts.push_back(message.content);
  std::vector<std::string> special = {"<|endoftext|>"};
  for (const std::string& name : special_names(chat_template))
    if (name != special.front()) special.push_back(name);
  return by_byte_pairs(config, chosen_tokenizer(config, texts, special));
}

struct ConversationCounts {
  std::int64_t read = 0, cut = 0, dropped = 0;
};

std::unique_ptr<ConversationDataset> make_conversations(const Config& config,
                                                        const ChatEncoder& encoder,
                                                        const std::vector<ConversationList>& lists,
                                                        const char* split,
                                                        ConversationCounts& counts) {
  const std::int64_t context = config[key::context];
  std::vector<EncodedConversation> all;
  for (const ConversationList& list : lists) {
    EncodedConversations encoded = encode_conversations(list, encoder, context);
    counts.read += std::ssize(list.conversations);
    counts.cut += encoded.cut;
    counts.dropped += encoded.dropped;
    std::ranges::move(encoded.all, std::back_inserter(all));
  }
  config.expect(!all.empty(), key::context,
                "no conversation of the {} split has an answer of weight 1 within this context; "
                "raise this value, or set the weight of answers",
                split);
  return std::make_unique<ConversationDataset>(
      std::move(all), ConversationOptions{.context = context, .packing = config[key::packing]});
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

Corpus read_conversations(const TaskSetup& setup, Corpus corpus) {
  const Config& config = setup.config;
  const ChatTemplate chat_template = chosen_template(setup);
  const ConversationSplits splits = setup.whole_data
                                        ? ConversationSplits{.validation = load_lists(config)}
                                        : split_conversations(config);
  corpus = with_tokenizer(config, std::move(corpus), chat_template, splits.training);
  try {
    set_template(corpus, chat_template);
  } catch (const InputError& error) {
    config.fail(key::chat_template, error.what());
  }
  const ChatEncoder encoder(byte_pairs_of(corpus), chat_template, corpus.end_of_text);
  ConversationCounts counts;
  if (!setup.whole_data)
    corpus.training = make_conversations(config, encoder, splits.training, "training", counts);
  corpus.validation = make_conversations(config, encoder, splits.validation, "validation", counts);
  corpus.remark = remark_on(counts, splits.moved, config[key::context]);
  return corpus;
}

}  // namespace tapestry
