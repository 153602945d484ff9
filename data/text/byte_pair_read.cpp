#include <algorithm>
#include <map>
#include <optional>

#include "autograd/check.hpp"
#include "data/input_file.hpp"
#include "data/json.hpp"
#include "data/text/byte_pair.hpp"

namespace tapestry {
namespace {

using Json = JsonValue;

constexpr std::int64_t max_file_bytes = std::int64_t{1} << 26;
constexpr std::size_t max_name_bytes = 256;  // limits the time to search for names

// Returns the field of a JSON pointer with dots, for messages.
std::string field_at(std::string pointer) {
  std::ranges::replace(pointer, '/', '.');
  return pointer.substr(1);
}

const std::string vocabulary_pointer = "/model/vocab", merges_pointer = "/model/merges",
                  ignore_pointer = "/model/ignore_merges", unknown_pointer = "/model/unk_token";
const std::string vocabulary_field = field_at(vocabulary_pointer),
                  merges_field = field_at(merges_pointer);

// Returns a member of an object; null if there is none.
const Json& member(const Json& object, std::string_view name) {
  static const Json nothing;
  const bool has = object.is_object() && object.contains(name);
  return has ? object.at(name) : nothing;
}

// A reader of a tokenizer.json, which rejects settings with which encode() would return other
// tokens. All functions throw InputError that names the field.
class Reader final {
 public:
  Reader(std::string_view json, const std::string& path)
      : root_(parse_json(json, path)), path_(path) {}

  BytePairModel read() {
    if (!root_.is_object()) fail("the file", "an object", root_);
    check_model();
    read_normalizer(member(root_, "normalizer"));
    read_pre_tokenizer(member(root_, "pre_tokenizer"));
    check_decoder(member(root_, "decoder"));
    read_tokens();
    read_unknown();
    read_merges();
    read_post_processor("post_processor", member(root_, "post_processor"));
    return std::move(model_);
  }

 private:
  [[noreturn]] void fail(const std::string& field, const std::string& expected,
                         const Json& found) const {
    throw InputError(
        fmt::format("{}: {}: expected {}, found {}; use byte-level BPE, as in GPT-2, "
                    "SmolLM2, Llama 3 and Qwen2",
                    path_, field, expected, brief(found)));
  }

  // Returns the value at a JSON pointer of names; null if there is none.
  const Json& at(std::string_view pointer) const {
    const Json* found = &root_;
    while (!pointer.empty()) {
      const std::size_t end = std::min(pointer.find('/', 1), pointer.size());
      found = &member(*found, pointer.substr(1, end - 1));
      pointer.remove_prefix(end);
    }
    return *found;
  }

  // Throws InputError unless the field has one of these values; the message names the first.
  void expect(const std::string& pointer, const std::vector<Json>& allowed) const {
    const Json& found = at(pointer);
    if (std::ranges::find(allowed, found) != allowed.end()) return;
    fail(field_at(pointer), brief(allowed.front()), found);
  }

  bool flag(const std::string& field, const Json& found, bool otherwise) const {
    if (found.is_null()) return otherwise;
    expect_input(found.is_boolean(), "{}: {}: expected true or false, found {}; correct the value",
                 path_, field, brief(found));
    return found.get<bool>();
  }

  void check_model() {
    const bool as_gpt2 = at("/model/type").is_null() && at(merges_pointer).is_array();
    if (!as_gpt2) expect("/model/type", {"BPE"});
    expect("/model/dropout", {nullptr, 0});
    expect("/model/continuing_subword_prefix", {nullptr, ""});
    expect("/model/end_of_word_suffix", {nullptr, ""});
    expect("/model/byte_fallback", {false, nullptr});
    expect("/model/fuse_unk", {false, nullptr});
    model_.whole_first = flag(field_at(ignore_pointer), at(ignore_pointer), false);
  }

  // --- normalizer, pre-tokenizer and decoder ---

  // Returns the steps of a part of the tokenizer: the part itself, or the steps of the elements of
  // a Sequence, which are in its field `elements`.
  std::vector<Json> steps_of(const std::string& field, const Json& part,
                             const std::string& elements) const {
    if (member(part, "type") != "Sequence") return {part};
    std::vector<Json> steps;
    for (const Json& element : list(field + "." + elements, member(part, elements)))
      for (Json& step : steps_of(field, element, elements)) steps.push_back(std::move(step));
    return steps;
  }

  void read_normalizer(const Json& normalizer) {
    if (normalizer.is_null()) return;
    for (const Json& step : steps_of("normalizer", normalizer, "normalizers")) {
      const Json& type = member(step, "type");
      if (type == "NFC" && !model_.pieces.lower_case)
        model_.pieces.compose = true;
      else if (type == "Lowercase")
        model_.pieces.lower_case = true;
      else
        fail("normalizer", "null, NFC, Lowercase, or a Sequence of NFC and then Lowercase", step);
    }
  }

  void check_decoder(const Json& decoder) const {
    const std::vector<Json> steps = steps_of("decoder", decoder, "decoders");
    if (steps.size() != 1) fail("decoder", "ByteLevel alone", decoder);
    const Json& type = member(steps.front(), "type");
    if (type != "ByteLevel") fail("decoder.type", "\"ByteLevel\"", type);
  }

  const Json& list(const std::string& field, const Json& found) const {
    if (!found.is_array()) fail(field, "a list", found);
    return found;
  }

  void read_pre_tokenizer(const Json& found) {
    const std::vector<Json> steps = steps_of("pre_tokenizer", found, "pretokenizers");
    if (steps.empty() || member(steps.back(), "type") != "ByteLevel" || steps.size() > 2)
      fail_pre_tokenizer(found);
    if (steps.size() == 1) return read_byte_level(steps.front(), true);
    const Json& first = steps.front();
    const Json& pattern = member(member(first, "pattern"), "Regex");
    if (member(first, "type") == "Digits" && member(first, "individual_digits") == true) {
      model_.pieces.pattern = PiecePattern::smollm2;
    } else if (member(first, "type") == "Split" && member(first, "behavior") == "Isolated" &&
               member(first, "invert") == false && pattern.is_string()) {
      if (pattern == regex_of(PiecePattern::llama3))
        model_.pieces.pattern = PiecePattern::llama3;
      else if (pattern == regex_of(PiecePattern::qwen2))
        model_.pieces.pattern = PiecePattern::qwen2;
      else
        fail("pre_tokenizer.pretokenizers[0].pattern.Regex", "Llama 3's or Qwen2's pattern",
             pattern);
    } else {
      fail_pre_tokenizer(found);
    }
    read_byte_level(steps[1], model_.pieces.pattern == PiecePattern::smollm2);
  }

  [[noreturn]] void fail_pre_tokenizer(const Json& found) const {
    const Json& type = member(found, "type");
    fail(type.is_string() && type != "Sequence" ? "pre_tokenizer.type" : "pre_tokenizer",
         "ByteLevel, alone or after the Digits or Split of these models",
         type.is_string() && type != "Sequence" ? type : found);
  }

  void read_byte_level(const Json& found, bool cuts) {
    const std::string cuts_field = "pre_tokenizer.use_regex",
                      space_field = "pre_tokenizer.add_prefix_space";
    if (flag(cuts_field, member(found, "use_regex"), true) != cuts)
      fail(cuts_field, cuts ? "true" : "false", member(found, "use_regex"));
    model_.space_before = flag(space_field, member(found, "add_prefix_space"), true);
    if (model_.space_before && model_.pieces.pattern != PiecePattern::gpt2)
      fail(space_field, "false", true);
  }

  // --- tokens ---

  struct Name {
    Json id;
    std::size_t place;  // index in added_tokens
  };

  void read_tokens() {
    const Json &added = at("/added_tokens"), &vocabulary = at(vocabulary_pointer);
    if (!added.is_array()) fail("added_tokens", "a list of tokens", added);
    if (!vocabulary.is_object())
      fail(vocabulary_field, "an object of tokens and their ids", vocabulary);
    std::map<std::string, Name> names;
    for (std::size_t i = 0; i < added.size(); ++i) {
      const std::string name = read_added(fmt::format("added_tokens[{}]", i), added[i]);
      if (!names.try_emplace(name, Name{added[i]["id"], i}).second)
        throw InputError(
            fmt::format("{}: added_tokens[{}]: the token {} is listed twice; remove this entry",
                        path_, i, brief(name)));
      model_.only_added += vocabulary.contains(name) ? 0 : 1;
    }
    model_.tokens.resize(vocabulary.size() + model_.only_added);
    model_.special.assign(model_.tokens.size(), false);
    place_added(added, vocabulary);
    place_vocabulary(vocabulary, names);
  }

  // Returns the name of an added token.
  std::string read_added(const std::string& field, const Json& token) const {
    const Json& content = member(token, "content");
    const bool well_formed = content.is_string() && !member(token, "id").is_null() &&
                             member(token, "special").is_boolean();
    if (!well_formed)
      throw InputError(
          fmt::format("{}: {}: found {}, expected an object with id, content (a string) and "
                      "special (true or false); use another copy of the file",
                      path_, field, brief(token)));
    for (const std::string strips : {"single_word", "lstrip", "rstrip"})
      if (flag(field + "." + strips, member(token, strips), false))
        fail(field + "." + strips, "false", true);
    const auto name = content.get<std::string>();
    if (name.empty() || name.size() > max_name_bytes)
      fail(field + ".content", fmt::format("a name of 1 to {} bytes", max_name_bytes), content);
    return name;
  }

  // Stores the added tokens. Those that are not in the vocabulary must have the ids after those of
  // the vocabulary, in order.
  void place_added(const Json& added, const Json& vocabulary) {
    const std::size_t listed = vocabulary.size();
    std::size_t next = listed;
    for (std::size_t i = 0; i < added.size(); ++i) {
      const std::string field = fmt::format("added_tokens[{}]", i);
      const Json& id = added[i]["id"];
      const auto name = added[i]["content"].get<std::string>();
      if (vocabulary.contains(name)) {
        if (vocabulary[name] != id)
          fail(field + ".id", "the id in " + vocabulary_field + ", " + brief(vocabulary[name]), id);
      } else if (id != next++) {
        fail(field + ".id",
             fmt::format("{}, the next one after {} and the added tokens before", next - 1,
                         vocabulary_field),
             id);
      }
      const std::size_t token = place(field + ".id", id, name);
      const bool special = added[i]["special"].get<bool>();
      model_.special[token] = special;
      model_.added.push_back(
          {static_cast<std::int32_t>(token),
           flag(field + ".normalized", member(added[i], "normalized"), !special)});
    }
  }

  void place_vocabulary(const Json& vocabulary, const std::map<std::string, Name>& names) {
    for (const auto& [token, id] : vocabulary.items()) {
      const auto field = [&, &token = token] {
        return fmt::format("{}[{}]", vocabulary_field, brief(token));
      };
      const std::optional<std::string> bytes = bytes_of_visible(token);
      const auto named = names.find(token);
      if (named == names.end()) {
        if (!bytes) fail(field(), "characters that encode bytes, as in GPT-2", token);
        if (bytes->empty()) fail(field(), "a token that is not empty", "");
        ids_[*bytes] = static_cast<std::int32_t>(place(field(), id, *bytes));
      } else if (model_.special[id.get<std::size_t>()]) {
        if (bytes && bytes->size() == 1)
          fail(fmt::format("added_tokens[{}].special", named->second.place),
               "false for a token that is a byte", true);
      } else if (bytes == token) {
        ids_[*bytes] = id.get<std::int32_t>();
      }
    }
  }

  // Stores a token, and returns its index, which is its id.
  std::size_t place(const std::string& field, const Json& id, const std::string& bytes) {
    const std::size_t size = model_.tokens.size();
    if (!id.is_number_unsigned() || id.get<std::uint64_t>() >= size)
      fail(field, fmt::format("an id from 0 to {}", size - 1), id);
    std::string& token = model_.tokens[id.get<std::size_t>()];
    if (!token.empty()) fail(field, "an id that no other token has", id);
    token = bytes;
    return id.get<std::size_t>();
  }

  // Reads the unknown token, which is needed only if a byte is not a token.
  void read_unknown() {
    const Json& name = at(unknown_pointer);
    if (name.is_null() || name == "") return;
    const Json& id =
        name.is_string() ? member(at(vocabulary_pointer), name.get<std::string>()) : Json();
    const auto is_token = [&](int byte) {
      return ids_.contains(std::string(1, static_cast<char>(byte)));
    };
    if (!id.is_null())
      model_.unknown = id.get<std::int32_t>();
    else
      for (int byte = 0; byte < 256; ++byte)
        if (!is_token(byte))
          fail(field_at(unknown_pointer), "a token of " + vocabulary_field, name);
  }

  // --- merges ---

  void read_merges() {
    const Json& merges = at(merges_pointer);
    if (!merges.is_array()) fail(merges_field, "a list of pairs", merges);
    model_.merges.reserve(merges.size());
    for (std::size_t i = 0; i < merges.size(); ++i) {
      const auto [left, right] = pair_of(merges[i], i);
      const std::optional<std::string> left_bytes = bytes_of_visible(left),
                                       right_bytes = bytes_of_visible(right);
      const bool known = left_bytes && right_bytes && ids_.contains(*left_bytes) &&
                         ids_.contains(*right_bytes) && ids_.contains(*left_bytes + *right_bytes);
      if (!known)
        fail(field_of_merge(i),
             fmt::format("two tokens of {} whose concatenation is a token", vocabulary_field),
             merges[i]);
      model_.merges.push_back({ids_.at(*left_bytes), ids_.at(*right_bytes)});
    }
  }

  static std::string field_of_merge(std::size_t i) {
    return fmt::format("{}[{}]", merges_field, i);
  }

  // Returns both tokens of a merge: "a b", or ["a", "b"] in newer versions.
  std::array<std::string, 2> pair_of(const Json& merge, std::size_t i) const {
    if (merge.is_array() && merge.size() == 2 && merge[0].is_string() && merge[1].is_string())
      return {merge[0].get<std::string>(), merge[1].get<std::string>()};
    const std::string text = merge.is_string() ? merge.get<std::string>() : "";
    const std::size_t space = text.find(' ');
    if (space == std::string::npos) fail(field_of_merge(i), "two tokens", merge);
    return {text.substr(0, space), text.substr(space + 1)};
  }

  // --- the template ---

  // Reads the template of a post-processor. Ignores ByteLevel, which changes only offsets.
  void read_post_processor(const std::string& field, const Json& found) {
    const Json& type = member(found, "type");
    if (found.is_null() || type == "ByteLevel") return;
    if (type == "Sequence") {
      const Json& processors = list(field + ".processors", member(found, "processors"));
      for (std::size_t i = 0; i < processors.size(); ++i)
        read_post_processor(fmt::format("{}.processors[{}]", field, i), processors[i]);
    } else if (type == "TemplateProcessing" && model_.before.empty() && model_.after.empty()) {
      read_template(field, found);
    } else {
      fail(field + ".type", "ByteLevel or at most one TemplateProcessing", type);
    }
  }

  void read_template(const std::string& field, const Json& found) {
    const Json& steps = list(field + ".single", member(found, "single"));
    const Json& tokens = member(found, "special_tokens");
    int texts = 0;
    for (const Json& step : steps) {
      const Json& name = member(member(step, "SpecialToken"), "id");
      if (member(member(step, "Sequence"), "id") == "A")
        ++texts;
      else if (name.is_string())
        add_to_template(field, member(member(tokens, name.get<std::string>()), "ids"),
                        texts == 0 ? model_.before : model_.after);
      else
        fail(field + ".single", "special tokens and the sequence A", step);
    }
    if (texts != 1) fail(field + ".single", "the sequence A once", steps);
  }

  void add_to_template(const std::string& field, const Json& ids, std::vector<std::int32_t>& to) {
    for (const Json& id : list(field + ".special_tokens", ids)) {
      if (!id.is_number_unsigned() || id.get<std::uint64_t>() >= model_.tokens.size())
        fail(field + ".special_tokens", fmt::format("an id from 0 to {}", model_.tokens.size() - 1),
             id);
      to.push_back(id.get<std::int32_t>());
    }
  }

  Json root_;
  std::string path_;
  BytePairModel model_;
  // Keyed by bytes; only tokens that a text can have.
  std::unordered_map<std::string, std::int32_t> ids_;
};

}  // namespace

BytePairTokenizer BytePairTokenizer::load(const std::string& path) {
  return from_json(read_file(path, max_file_bytes), path);
}

BytePairTokenizer BytePairTokenizer::from_json(std::string_view json, const std::string& path) {
  return BytePairTokenizer(Reader(json, path).read());
}

}  // namespace tapestry
