#include "data/text/text_encoder.hpp"

#include <algorithm>
#include <utility>

#include "autograd/parallel.hpp"
#include "data/input_file.hpp"
#include "data/option_error.hpp"

namespace tapestry {
namespace {

constexpr std::size_t parts_at_a_time = 32, most_parts_uncut = 16;

}  // namespace

std::optional<std::int32_t> end_of_text_of(const BytePairTokenizer& tokenizer,
                                           const std::string& name) {
  const auto added = [&](std::string_view token) -> std::optional<std::int32_t> {
    const std::int32_t id = tokenizer.find(token);
    return id >= 0 && tokenizer.model().special[id] ? std::optional(id) : std::nullopt;
  };
  if (!name.empty()) {
    const auto named = added(name);
    expect_option(
        named.has_value(), "end_of_text",
        "the tokenizer has no special token {}; give the name of one that the tokenizer has", name);
    return named;
  }
  for (const char* usual : {"<|endoftext|>", "<eos>", "<|end_of_text|>", "</s>"})
    if (const auto found = added(usual)) return found;
  return std::nullopt;
}

TextEncoder::TextEncoder(const BytePairTokenizer& tokenizer, TextEncoderOptions options, Take take)
    : tokenizer_(tokenizer),
      options_(std::move(options)),
      take_(std::move(take)),
      begun_(options_.continues) {
  if (options_.documents == Documents::lines) options_.separator = std::string(1, '\n');
  require((options_.documents == Documents::whole) == options_.separator.empty(),
          "TextEncoder: documents {} with a separator of {} bytes; expected a separator only for "
          "separated documents",
          static_cast<int>(options_.documents), options_.separator.size());
  require(options_.part_bytes >= 8, "TextEncoder: part size {}; expected at least 8",
          options_.part_bytes);
}

void TextEncoder::add(std::string_view part) {
  const std::string& separator = options_.separator;
  std::string_view rest = rest_.empty() ? part : std::string_view(rest_ += part);
  for (std::size_t at = 0; !separator.empty() && (at = rest.find(separator)) != rest.npos;) {
    end_document(rest.substr(0, at));
    rest.remove_prefix(at + separator.size());
  }
  rest_ = std::string(without_parts(rest));
}

void TextEncoder::end_text() {
  end_document(rest_);
  rest_.clear();
}

void TextEncoder::pause_text() {
  if (const std::string_view rest = without_parts(rest_); !rest.empty()) push(rest, false);
  rest_.clear();
  finish();
}

// Returns the number of bytes of the next part of a document; 0 if there is too little text to
// decide.
std::size_t TextEncoder::cut_of(std::string_view text) const {
  const std::size_t part = options_.part_bytes, most = most_parts_uncut * part;
  if (text.size() < part) return 0;
  if (const std::size_t cut = tokenizer_.last_cut(text.substr(0, whole_characters(text, part))))
    return cut;
  if (text.size() < most) return 0;
  if (const std::size_t cut = tokenizer_.last_cut(text.substr(0, whole_characters(text, most))))
    return cut;
  return whole_characters(text, most);
}

// Pushes all complete parts, and returns the remaining text. A separator may begin at its end.
std::string_view TextEncoder::without_parts(std::string_view text) {
  const std::size_t kept = std::max<std::size_t>(options_.separator.size(), 1) - 1;
  while (text.size() > kept) {
    const std::string_view sure = text.substr(0, whole_characters(text, text.size() - kept));
    const std::size_t cut = cut_of(sure);
    if (cut == 0) break;
    push(text.substr(0, cut), false);
    text.remove_prefix(cut);
  }
  return text;
}

void TextEncoder::end_document(std::string_view text) {
  if (options_.documents == Documents::lines && text.ends_with('\r')) text.remove_suffix(1);
  const bool is_one = begun_ || !text.empty();
  while (const std::size_t cut = cut_of(text)) {
    push(text.substr(0, cut), false);
    text.remove_prefix(cut);
  }
  if (is_one) push(text, true);
}

void TextEncoder::push(std::string_view text, bool ends_document) {
  parts_.push_back({std::string(text), !begun_, ends_document});
  begun_ = !ends_document;
  waiting_ += text.size();
  if (waiting_ >= parts_at_a_time * options_.part_bytes) finish();
}

void TextEncoder::finish() {
  std::vector<std::size_t> groups = {0};  // first parts of groups of about part_bytes
  std::size_t bytes = 0;
  for (std::size_t i = 0; i < parts_.size(); ++i)
    if ((bytes += parts_[i].text.size()) >= options_.part_bytes) {
      groups.push_back(i + 1);
      bytes = 0;
    }
  if (groups.back() != parts_.size()) groups.push_back(parts_.size());
  std::vector<std::vector<std::int32_t>> encoded(groups.size() - 1);
  parallel_for(std::ssize(encoded), 1, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t group = begin; group < end; ++group)
      for (std::size_t i = groups[group]; i < groups[group + 1]; ++i) {
        const auto append = [&](const std::vector<std::int32_t>& tokens) {
          encoded[group].insert(encoded[group].end(), tokens.begin(), tokens.end());
        };
        if (parts_[i].begins_document) append(options_.begin_of_text);
        append(tokenizer_.encode(parts_[i].text));
        if (parts_[i].ends_document && options_.end_of_text)
          encoded[group].push_back(*options_.end_of_text);
      }
  });
  parts_.clear();
  waiting_ = 0;
  for (const std::vector<std::int32_t>& tokens : encoded)
    if (!tokens.empty()) take_(tokens);
}

}  // namespace tapestry
