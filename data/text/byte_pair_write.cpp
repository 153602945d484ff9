#include "autograd/check.hpp"
#include "data/json.hpp"
#include "data/text/byte_pair.hpp"
#include "data/text/unicode.hpp"

namespace tapestry {
namespace {

using Ordered = JsonValue;

// A writer of a model in the format of Hugging Face's tokenizers.
class Writer final {
 public:
  explicit Writer(const BytePairModel& model)
      : model_(model), is_added_(model.tokens.size(), false) {
    for (const AddedToken& added : model.added) is_added_[added.token] = true;
  }

  Ordered root() const {
    return {{"version", "1.0"},
            {"truncation", nullptr},
            {"padding", nullptr},
            {"added_tokens", added_tokens()},
            {"normalizer", normalizer()},
            {"pre_tokenizer", pre_tokenizer()},
            {"post_processor", post_processor()},
            {"decoder", byte_level({.space_before = false, .cuts = true})},
            {"model",
             {{"type", "BPE"},
              {"dropout", nullptr},
              {"unk_token", model_.unknown < 0 ? Ordered() : Ordered(name_of(model_.unknown))},
              {"continuing_subword_prefix", nullptr},
              {"end_of_word_suffix", nullptr},
              {"fuse_unk", false},
              {"byte_fallback", false},
              {"ignore_merges", model_.whole_first},
              {"vocab", vocabulary()},
              {"merges", merges()}}}};
  }

 private:
  std::string name_of(std::int32_t token) const {
    return is_added_[token] ? model_.tokens[token] : visible_text(model_.tokens[token]);
  }

  Ordered added_tokens() const {
    Ordered all = Ordered::array();
    for (const auto& [token, normalized] : model_.added)
      all.push_back({{"id", token},
                     {"content", name_of(token)},
                     {"single_word", false},
                     {"lstrip", false},
                     {"rstrip", false},
                     {"normalized", normalized},
                     {"special", static_cast<bool>(model_.special[token])}});
    return all;
  }

  Ordered normalizer() const {
    const Ordered compose = {{"type", "NFC"}}, lower_case = {{"type", "Lowercase"}};
    const PieceOptions& pieces = model_.pieces;
    if (pieces.compose && pieces.lower_case)
      return {{"type", "Sequence"}, {"normalizers", Ordered::array({compose, lower_case})}};
    if (pieces.compose) return compose;
    return pieces.lower_case ? lower_case : Ordered();
  }

  struct ByteLevel {
    bool space_before = false, cuts = false;
  };
  static Ordered byte_level(const ByteLevel& options) {
    return {{"type", "ByteLevel"},
            {"add_prefix_space", options.space_before},
            {"trim_offsets", true},
            {"use_regex", options.cuts}};
  }

  Ordered pre_tokenizer() const {
    const PiecePattern pattern = model_.pieces.pattern;
    const bool cuts = regex_of(pattern).empty();
    const Ordered last = byte_level({.space_before = model_.space_before, .cuts = cuts});
    if (pattern == PiecePattern::gpt2) return last;
    const Ordered digits = {{"type", "Digits"}, {"individual_digits", true}};
    const Ordered split = {{"type", "Split"},
                           {"pattern", {{"Regex", regex_of(pattern)}}},
                           {"behavior", "Isolated"},
                           {"invert", false}};
    return {{"type", "Sequence"}, {"pretokenizers", Ordered::array({cuts ? digits : split, last})}};
  }

  Ordered template_step(std::int32_t token, int type) const {
    return {{"SpecialToken", {{"id", name_of(token)}, {"type_id", type}}}};
  }

  Ordered post_processor() const {
    if (model_.before.empty() && model_.after.empty()) return nullptr;
    Ordered special = Ordered::object(), one = Ordered::array(), two = Ordered::array();
    for (const int type : {0, 1}) {
      Ordered steps = Ordered::array();
      for (const std::int32_t token : model_.before) steps.push_back(template_step(token, type));
      steps.push_back({{"Sequence", {{"id", type == 0 ? "A" : "B"}, {"type_id", type}}}});
      for (const std::int32_t token : model_.after) steps.push_back(template_step(token, type));
      if (type == 0) one = steps;
      for (const Ordered& step : steps) two.push_back(step);
    }
    for (const auto* tokens : {&model_.before, &model_.after})
      for (const std::int32_t token : *tokens)
        special[name_of(token)] = {
            {"id", name_of(token)}, {"ids", {token}}, {"tokens", {name_of(token)}}};
    return {{"type", "TemplateProcessing"},
            {"single", one},
            {"pair", two},
            {"special_tokens", special}};
  }

  Ordered vocabulary() const {
    Ordered::object_t all;
    const auto listed = static_cast<std::int32_t>(std::ssize(model_.tokens) - model_.only_added);
    for (std::int32_t token = 0; token < listed; ++token) all.emplace_back(name_of(token), token);
    return all;
  }

  Ordered merges() const {
    Ordered all = Ordered::array();
    for (const auto& [left, right] : model_.merges)
      all.push_back(fmt::format("{} {}", name_of(left), name_of(right)));
    return all;
  }

  const BytePairModel& model_;
  std::vector<bool> is_added_;
};

}  // namespace

std::string BytePairTokenizer::to_json() const { return Writer(model_).root().dump(1) + "\n"; }

}  // namespace tapestry
