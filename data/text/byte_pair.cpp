#include "data/text/byte_pair.hpp"

#include <algorithm>
#include <optional>
#include <tuple>

#include "autograd/check.hpp"
#include "data/input_file.hpp"
#include "data/text/unicode.hpp"

namespace tapestry {
namespace {

std::array<char32_t, 256> make_alphabet() {
  std::array<char32_t, 256> alphabet{};
  char32_t next = 0x100;
  for (char32_t byte = 0; byte < 256; ++byte) {
    const bool visible = (byte > 0x20 && byte < 0x7F) || (byte > 0xA0 && byte != 0xAD);
    alphabet[byte] = visible ? byte : next++;
  }
  return alphabet;
}

// Returns the byte that each character represents; -1: none.
std::array<int, 0x180> make_bytes() {
  std::array<int, 0x180> bytes{};
  bytes.fill(-1);
  for (int byte = 0; byte < 256; ++byte)
    bytes.at(visible_character(static_cast<std::uint8_t>(byte))) = byte;
  return bytes;
}

// Returns how many bytes at `offset`, at least one, begin a character that is cut off. (Unicode 15,
// §3.9: each maximal subpart of an ill-formed sequence is replaced by one U+FFFD.)
std::size_t malformed_bytes(std::string_view text, std::size_t offset) {
  for (std::size_t bytes = std::min<std::size_t>(3, text.size() - offset); bytes > 1; --bytes)
    for (const char filler : {'\x80', '\xBF'})
      for (const std::size_t missing : {1, 2}) {
        const std::string whole =
            std::string(text.substr(offset, bytes)) + std::string(missing, filler);
        if (code_point_at(whole, 0).bytes == static_cast<int>(whole.size())) return bytes;
      }
  return 1;
}

std::string with_replacements(std::string_view bytes) {
  constexpr char32_t replacement = 0xFFFD;
  std::string text;
  for (std::size_t offset = 0; offset < bytes.size();) {
    const auto length = code_point_at(bytes, offset).bytes;
    if (length > 0) {
      text += bytes.substr(offset, length);
      offset += length;
    } else {
      append_utf8(text, replacement);
      offset += malformed_bytes(bytes, offset);
    }
  }
  return text;
}

}  // namespace

char32_t visible_character(std::uint8_t byte) {
  static const std::array<char32_t, 256> alphabet = make_alphabet();
  return alphabet[byte];
}

std::string visible_text(std::string_view bytes) {
  std::string text;
  for (const char byte : bytes)
    append_utf8(text, visible_character(static_cast<std::uint8_t>(byte)));
  return text;
}

std::optional<std::string> bytes_of_visible(std::string_view text) {
  static const std::array<int, 0x180> byte_of = make_bytes();
  std::string bytes;
  for (std::size_t offset = 0; offset < text.size();) {
    const CodePoint point = code_point_at(text, offset);
    if (point.bytes == 0 || point.value >= byte_of.size() || byte_of[point.value] < 0)
      return std::nullopt;
    bytes += static_cast<char>(byte_of[point.value]);
    offset += point.bytes;
  }
  return bytes;
}

struct BytePairTokenizer::Scratch {
  struct Candidate {
    MergeTable::Step step;
    std::size_t place;  // position of the left token
    std::int32_t left, right;
    bool operator<(const Candidate& other) const {  // the top of the heap applies first
      return std::tie(other.step.rank, other.place) < std::tie(step.rank, place);
    }
  };
  std::vector<std::int32_t> tokens{};           // tokens of the text so far
  std::vector<std::int32_t> piece{};            // being merged
  std::vector<Candidate> candidates{};          // a heap
  std::vector<std::size_t> next{}, previous{};  // positions of each token's neighbors
};

BytePairTokenizer::BytePairTokenizer(BytePairModel model) : model_(std::move(model)) {
  index_tokens();
  index_merges();
}

void BytePairTokenizer::index_tokens() {
  require(model_.special.size() == model_.tokens.size(),
          "BytePairTokenizer: {} tokens and {} flags; expected equally many", model_.tokens.size(),
          model_.special.size());
  std::vector<bool> is_added(size(), false);
  for (const auto& [token, normalized] : model_.added) {
    require(token >= 0 && token < size(), "BytePairTokenizer: added token {}; expected 0 to {}",
            token, size() - 1);
    const std::string& name = model_.tokens[token];
    require(names_.emplace(name, token).second,
            "BytePairTokenizer: added token {} occurs twice; expected different names", token);
    if (normalized)
      found_prepared_.add(prepared(name, model_.pieces), token);
    else
      found_raw_.add(name, token);
    is_added[token] = true;
  }
  for (std::int32_t token = 0; token < size(); ++token) {
    require(is_added[token] || !model_.special[token],
            "BytePairTokenizer: special token {} has no name; expected it among the added tokens",
            token);
    if (is_added[token]) continue;
    require(texts_.emplace(model_.tokens[token], token).second,
            "BytePairTokenizer: token {} occurs twice; expected different bytes", token);
  }
  // A token that is found by its name may be the result of a merge, too.
  for (const auto& [token, normalized] : model_.added)
    if (!model_.special[token] && token < size() - model_.only_added)
      texts_.emplace(model_.tokens[token], token);
  for (int byte = 0; byte < 256; ++byte) {
    const char bytes = static_cast<char>(byte);
    byte_tokens_[byte] = text_token({&bytes, 1});
    if (byte_tokens_[byte] < 0) byte_tokens_[byte] = model_.unknown;
  }
}

void BytePairTokenizer::index_merges() {
  merges_ = MergeTable(model_.merges.size());
  std::int32_t rank = 0;
  for (const auto& [left, right] : model_.merges) {
    require(left >= 0 && left < size() && right >= 0 && right < size(),
            "BytePairTokenizer: a merge of tokens {} and {}; expected tokens below {}", left, right,
            size());
    const std::int32_t result = text_token(model_.tokens[left] + model_.tokens[right]);
    require(result >= 0,
            "BytePairTokenizer: tokens {} and {} merge to bytes that are not a token; expected a "
            "token with these bytes",
            left, right);
    merges_.set(left, right, {rank++, result});
  }
  whole_.assign(size(), false);
  Scratch scratch;
  for (const auto& [bytes, token] : texts_) {
    scratch.tokens.clear();
    encode_bytes(bytes, scratch);
    const bool is_merged = scratch.tokens == std::vector{token};
    whole_[token] = model_.whole_first || is_merged;
    merges_suffice_ &= is_merged;
  }
}

std::int32_t BytePairTokenizer::find(std::string_view token) const {
  const auto named = names_.find(token);
  return named == names_.end() ? text_token(token) : named->second;
}

std::int32_t BytePairTokenizer::text_token(std::string_view bytes) const {
  const auto found = texts_.find(bytes);
  return found == texts_.end() ? -1 : found->second;
}

// Applies the merges in the order in which they were learned, and each one from left to right.
// Skips candidates whose tokens have been merged in the meantime.
void BytePairTokenizer::merge(Scratch& scratch) const {
  constexpr std::int32_t merged_away = -1;
  auto& [text, tokens, candidates, next, previous] = scratch;
  next.resize(tokens.size());
  previous.resize(tokens.size());
  candidates.clear();
  const auto candidate_at = [&](std::size_t place) {
    if (next[place] == tokens.size()) return false;
    const std::int32_t left = tokens[place], right = tokens[next[place]];
    const MergeTable::Step* step = merges_.find(left, right);
    if (step) candidates.push_back({*step, place, left, right});
    return step != nullptr;
  };
  for (std::size_t i = 0; i < tokens.size(); ++i) {
    next[i] = i + 1;
    previous[i] = i - 1;  // not read for i = 0
    candidate_at(i);
  }
  std::make_heap(candidates.begin(), candidates.end());
  while (!candidates.empty()) {
    const auto [step, place, left, right] = candidates.front();
    std::pop_heap(candidates.begin(), candidates.end());
    candidates.pop_back();
    const std::size_t away = next[place];
    if (away == tokens.size() || tokens[place] != left || tokens[away] != right) continue;
    tokens[place] = step.result;
    tokens[away] = merged_away;
    next[place] = next[away];
    if (next[place] < tokens.size()) previous[next[place]] = place;
    if (place > 0 && candidate_at(previous[place]))
      std::push_heap(candidates.begin(), candidates.end());
    if (candidate_at(place)) std::push_heap(candidates.begin(), candidates.end());
  }
  std::erase(tokens, merged_away);
}

// Appends the tokens of a piece by merging its bytes.
void BytePairTokenizer::encode_bytes(std::string_view piece, Scratch& scratch) const {
  scratch.piece.clear();
  for (const char byte : piece)
    if (const std::int32_t token = byte_tokens_[static_cast<unsigned char>(byte)]; token >= 0)
      scratch.piece.push_back(token);
  merge(scratch);
  scratch.tokens.insert(scratch.tokens.end(), scratch.piece.begin(), scratch.piece.end());
}

void BytePairTokenizer::encode_pieces(std::string_view text, Scratch& scratch) const {
  while (!text.empty()) {
    const std::string_view piece = text.substr(0, first_piece(text, model_.pieces.pattern).bytes);
    const std::int32_t token = text_token(piece);
    if (token >= 0 && whole_[token])
      scratch.tokens.push_back(token);
    else
      encode_bytes(piece, scratch);
    text.remove_prefix(piece.size());
  }
}

namespace {

// Calls `text` with the parts between the names of tokens and `token` with these tokens, in order.
void cut_at_names(std::string_view whole, const NameFinder& names, auto&& counts, auto&& text,
                  auto&& token) {
  std::size_t begin = 0, from = 0;
  while (const std::optional<NameFinder::Match> match = names.find(whole, from)) {
    from = match->end;
    if (!counts(match->token)) continue;
    if (match->begin > begin) text(whole.substr(begin, match->begin - begin));
    token(match->token);
    begin = match->end;
  }
  if (begin < whole.size()) text(whole.substr(begin));
}

}  // namespace

// Appends the tokens of a text without the template: finds names in the raw text, then in the
// prepared text between them.
void BytePairTokenizer::encode_between(std::string_view text, const EncodeOptions& options,
                                       Scratch& scratch) const {
  const auto counts = [&](std::int32_t token) {
    return options.added_tokens || !model_.special[token];
  };
  const auto add = [&](std::int32_t token) { scratch.tokens.push_back(token); };
  cut_at_names(
      text, found_raw_, counts,
      [&](std::string_view part) {
        cut_at_names(
            prepared(part, model_.pieces), found_prepared_, counts,
            [&](std::string_view rest) {
              const bool lacks_space = model_.space_before && !rest.starts_with(' ');
              if (lacks_space)
                encode_pieces(fmt::format(" {}", rest), scratch);
              else
                encode_pieces(rest, scratch);
            },
            add);
      },
      add);
}

std::vector<std::int32_t> BytePairTokenizer::encode(std::string_view text) const {
  return encode(text, {});
}

std::vector<std::int32_t> BytePairTokenizer::encode(std::string_view text,
                                                    const EncodeOptions& options) const {
  const std::size_t valid = utf8_bytes(text);
  expect_input(valid == text.size(), "text: byte {}: is not UTF-8; convert the text to UTF-8",
               valid);
  Scratch scratch;
  if (options.with_template) scratch.tokens = model_.before;
  encode_between(text, options, scratch);
  if (options.with_template)
    scratch.tokens.insert(scratch.tokens.end(), model_.after.begin(), model_.after.end());
  return std::move(scratch.tokens);
}

// Returns a cut that is not within a possible name, nor where the second part would get an
// additional space.
std::size_t BytePairTokenizer::last_cut(std::string_view text) const {
  for (std::string_view rest = text; !rest.empty();) {
    const std::size_t cut = last_sure_end(rest, model_.pieces);
    if (cut == 0) break;
    const std::size_t before = character_before(text, cut);
    const std::string left = prepared(text.substr(before, cut - before), model_.pieces);
    const std::string right = prepared(rest.substr(cut), model_.pieces);
    const bool in_name = found_raw_.joins(text[cut - 1], text[cut]) ||
                         found_prepared_.joins(left.back(), right.front());
    if (!in_name && (!model_.space_before || text[cut] == ' ')) return cut;
    rest = rest.substr(0, cut);
  }
  return 0;
}

std::string BytePairTokenizer::decode(std::span<const std::int32_t> tokens) const {
  std::string bytes;
  for (const std::int32_t token : tokens) {
    require(token >= 0 && token < size(), "BytePairTokenizer::decode: token {}; expected 0 to {}",
            token, size() - 1);
    if (!model_.special[token]) bytes += model_.tokens[token];
  }
  return with_replacements(bytes);
}

}  // namespace tapestry
