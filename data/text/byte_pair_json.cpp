#include <algorithm>
#include <map>
#include <nlohmann/json.hpp>

#include "autograd/check.hpp"
#include "data/file.hpp"
#include "data/json.hpp"
#include "data/text/byte_pair.hpp"
#include "data/text/unicode.hpp"

namespace tapestry {
namespace {

using Json = nlohmann::json;
using Ordered = nlohmann::ordered_json;

std::string visible(std::string_view bytes) {
  std::string text;
  for (const char byte : bytes)
    append_utf8(text, visible_character(static_cast<std::uint8_t>(byte)));
  return text;
}

// On one line, in ASCII, and not for long.
std::string brief(const Json& json) {
  constexpr std::size_t most = 60;
  const std::string text = json.dump(-1, ' ', true);
  return text.size() <= most ? text : text.substr(0, most) + "...";
}

// The field of a JSON pointer as messages name it, with dots.
std::string field_at(std::string pointer) {
  std::ranges::replace(pointer, '/', '.');
  return pointer.substr(1);
}

const std::string vocabulary_pointer = "/model/vocab", merges_pointer = "/model/merges";
const std::string vocabulary_field = field_at(vocabulary_pointer),
                  merges_field = field_at(merges_pointer);

Json parse(std::string_view json, const std::string& path) {
  const int depth = json_depth(json);
  expect_input(depth <= max_json_depth,
               "{}: lists and objects within each other, {} deep; expected at most {}", path, depth,
               max_json_depth);
  try {
    return Json::parse(json);
  } catch (const Json::parse_error& error) {
    const std::size_t byte = std::min(error.byte, json.size());
    throw InputError(fmt::format("{}: line {}: not JSON; copy or make the file again", path,
                                 1 + std::ranges::count(json.substr(0, byte), '\n')));
  } catch (const Json::out_of_range&) {
    throw InputError(
        fmt::format("{}: a number is too large for any computer's; copy or make the "
                    "file again",
                    path));
  }
}

// Reads a tokenizer.json, and refuses what would make other tokens than encode() does.
class Reader final {
 public:
  Reader(std::string_view json, const std::string& path) : root_(parse(json, path)), path_(path) {
    for (std::uint32_t byte = 0; byte < 256; ++byte)
      bytes_[visible_character(static_cast<std::uint8_t>(byte))] = static_cast<char>(byte);
  }

  BytePairModel read() {
    check_settings();
    model_.lower_case = !at("/normalizer").is_null();
    read_tokens();
    check_tokens();
    read_merges();
    return std::move(model_);
  }

 private:
  [[noreturn]] void fail(const std::string& field, const std::string& expected,
                         const Json& found) const {
    throw InputError(
        fmt::format("{}: {}: expected {}, found {}; give a tokenizer.json of byte-level BPE, as "
                    "Tapestry saves it",
                    path_, field, expected, brief(found)));
  }

  // What is at a JSON pointer; null where nothing is.
  const Json& at(const std::string& pointer) const {
    static const Json nothing;
    const Json::json_pointer path(pointer);
    return root_.contains(path) ? root_.at(path) : nothing;
  }

  // Checks that the field is one of these; the first is the one to name.
  void expect(const std::string& pointer, const std::vector<Json>& allowed) const {
    const Json& found = at(pointer);
    if (std::ranges::find(allowed, found) != allowed.end()) return;
    fail(field_at(pointer), brief(allowed.front()), found);
  }

  void check_settings() const {
    if (!root_.is_object()) fail("the file", "an object", root_);
    expect("/model/type", {"BPE"});
    expect("/model/dropout", {nullptr, 0});
    expect("/model/continuing_subword_prefix", {nullptr, ""});
    expect("/model/end_of_word_suffix", {nullptr, ""});
    expect("/model/byte_fallback", {false, nullptr});
    expect("/model/ignore_merges", {false, nullptr});
    expect("/normalizer", {nullptr, {{"type", "Lowercase"}}});
    expect("/pre_tokenizer/type", {"ByteLevel"});
    expect("/pre_tokenizer/add_prefix_space", {false});
    expect("/pre_tokenizer/use_regex", {true, nullptr});
    if (!at("/post_processor").is_null()) expect("/post_processor/type", {"ByteLevel"});
    expect("/decoder/type", {"ByteLevel"});
    expect("/truncation", {nullptr});
    expect("/padding", {nullptr});
  }

  void read_tokens() {
    const Json &added = at("/added_tokens"), &vocabulary = at(vocabulary_pointer);
    if (!added.is_array()) fail("added_tokens", "a list of tokens", added);
    if (!vocabulary.is_object())
      fail(vocabulary_field, "an object of tokens and their ids", vocabulary);
    std::map<std::string, Json> special;  // their ids
    for (std::size_t i = 0; i < added.size(); ++i) {
      const std::string field = fmt::format("added_tokens[{}]", i);
      const Json& token = added[i];
      const bool well_formed = token.is_object() && token.contains("id") &&
                               token.contains("content") && token["content"].is_string() &&
                               token.value("special", Json()) == true;
      if (!well_formed) fail(field, "an object with an id, a content and special: true", token);
      if (!special.emplace(token["content"].get<std::string>(), token["id"]).second)
        fail(field, "a token that is not there yet", token["content"]);
    }
    const auto only_added = std::ranges::count_if(
        special, [&](const auto& token) { return !vocabulary.contains(token.first); });
    model_.tokens.resize(vocabulary.size() + only_added);
    model_.special.assign(model_.tokens.size(), false);
    for (const auto& [name, id] : special) model_.special[place("added_tokens", id, name)] = true;
    for (const auto& [token, id] : vocabulary.items()) {
      const std::string field = fmt::format("{}[{}]", vocabulary_field, brief(token));
      if (const auto same = special.find(token); same == special.end())
        ids_[bytes_of(token, field)] =
            static_cast<std::int32_t>(place(field, id, bytes_of(token, field)));
      else if (same->second != id)
        fail(field, "its id of added_tokens, " + brief(same->second), id);
    }
  }

  // The token's index: its id.
  std::size_t place(const std::string& field, const Json& id, const std::string& bytes) {
    const std::size_t size = model_.tokens.size();
    if (!id.is_number_unsigned() || id.get<std::uint64_t>() >= size)
      fail(field, fmt::format("an id from 0 to {}", size - 1), id);
    std::string& token = model_.tokens[id.get<std::size_t>()];
    if (!token.empty()) fail(field, "an id of its own", id);
    if (bytes.empty()) fail(field, "a token that is not empty", "");
    token = bytes;
    return id.get<std::size_t>();
  }

  std::string bytes_of(const std::string& token, const std::string& field) const {
    std::string bytes;
    for (std::size_t offset = 0; offset < token.size();) {
      const CodePoint point = code_point_at(token, offset);
      const auto byte = bytes_.find(point.value);
      if (byte == bytes_.end()) fail(field, "characters that stand for bytes, as in GPT-2", token);
      bytes += byte->second;
      offset += point.bytes;
    }
    return bytes;
  }

  void check_tokens() const {
    for (std::size_t id = 0; id < special_tokens.size(); ++id)
      if (id >= model_.tokens.size() || !model_.special[id] ||
          model_.tokens[id] != special_tokens[id])
        fail("added_tokens", fmt::format("{} with id {}", special_tokens[id], id),
             id < model_.tokens.size() ? visible(model_.tokens[id]) : "");
    for (const auto& [character, byte] : bytes_)
      if (!ids_.contains(std::string(1, byte)))
        fail(vocabulary_field, fmt::format("a token for each byte, {} too", visible({&byte, 1})),
             Json());
  }

  void read_merges() {
    const Json& merges = at(merges_pointer);
    if (!merges.is_array()) fail(merges_field, "a list of pairs", merges);
    for (std::size_t i = 0; i < merges.size(); ++i) {
      const std::string field = fmt::format("{}[{}]", merges_field, i);
      const auto [left, right] = pair_of(merges[i], field);
      const std::string left_bytes = bytes_of(left, field), right_bytes = bytes_of(right, field);
      for (const std::string& bytes : {left_bytes, right_bytes, left_bytes + right_bytes})
        if (!ids_.contains(bytes))
          fail(field, fmt::format("two tokens that are in {} and make another", vocabulary_field),
               merges[i]);
      model_.merges.push_back({ids_.at(left_bytes), ids_.at(right_bytes)});
    }
  }

  // "a b", or as newer versions write it ["a", "b"].
  std::array<std::string, 2> pair_of(const Json& merge, const std::string& field) const {
    if (merge.is_array() && merge.size() == 2 && merge[0].is_string() && merge[1].is_string())
      return {merge[0].get<std::string>(), merge[1].get<std::string>()};
    const std::string text = merge.is_string() ? merge.get<std::string>() : "";
    const std::size_t space = text.find(' ');
    if (space == std::string::npos) fail(field, "two tokens", merge);
    return {text.substr(0, space), text.substr(space + 1)};
  }

  Json root_;
  std::string path_;
  std::map<char32_t, char> bytes_;  // by the character that stands for each
  BytePairModel model_;
  std::unordered_map<std::string, std::int32_t> ids_;  // by bytes, of tokens that are not special
};

Ordered added_token(std::int32_t id, const std::string& name) {
  return {{"id", id},        {"content", name},     {"single_word", false}, {"lstrip", false},
          {"rstrip", false}, {"normalized", false}, {"special", true}};
}

}  // namespace

BytePairTokenizer BytePairTokenizer::from_json(std::string_view json, const std::string& path) {
  return BytePairTokenizer(Reader(json, path).read());
}

std::string BytePairTokenizer::to_json() const {
  const auto name_of = [&](std::int32_t id) {
    return model_.special[id] ? model_.tokens[id] : visible(model_.tokens[id]);
  };
  Ordered added = Ordered::array(), merges = Ordered::array();
  Ordered::object_t vocabulary;  // appended to, for looking each key up first takes quadratic time
  for (std::int32_t id = 0; id < size(); ++id) {
    vocabulary.emplace_back(name_of(id), id);
    if (model_.special[id]) added.push_back(added_token(id, name_of(id)));
  }
  for (const auto& [left, right] : model_.merges)
    merges.push_back(fmt::format("{} {}", name_of(left), name_of(right)));
  const Ordered byte_level = {{"type", "ByteLevel"},
                              {"add_prefix_space", false},
                              {"trim_offsets", true},
                              {"use_regex", true}};
  const Ordered root = {
      {"version", "1.0"},
      {"truncation", nullptr},
      {"padding", nullptr},
      {"added_tokens", added},
      {"normalizer", model_.lower_case ? Ordered{{"type", "Lowercase"}} : Ordered()},
      {"pre_tokenizer", byte_level},
      {"post_processor", nullptr},
      {"decoder", byte_level},
      {"model",
       {{"type", "BPE"},
        {"dropout", nullptr},
        {"unk_token", special_tokens[unknown_token]},
        {"continuing_subword_prefix", nullptr},
        {"end_of_word_suffix", nullptr},
        {"fuse_unk", false},
        {"byte_fallback", false},
        {"ignore_merges", false},
        {"vocab", vocabulary},
        {"merges", merges}}}};
  return root.dump(1) + "\n";
}

}  // namespace tapestry
