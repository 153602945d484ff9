#include "data/text/byte_pair.hpp"

#include <algorithm>
#include <queue>
#include <stdexcept>
#include <tuple>

#include "autograd/check.hpp"
#include "data/file.hpp"
#include "data/text/unicode.hpp"

namespace tapestry {
namespace {

constexpr std::int64_t max_file_bytes = std::int64_t{1} << 26;

std::uint64_t key_of(std::int32_t left, std::int32_t right) {
  return static_cast<std::uint64_t>(left) << 32 | static_cast<std::uint32_t>(right);
}

std::array<char32_t, 256> make_alphabet() {
  std::array<char32_t, 256> alphabet{};
  char32_t next = 0x100;
  for (char32_t byte = 0; byte < 256; ++byte) {
    const bool visible = (byte > 0x20 && byte < 0x7F) || (byte > 0xA0 && byte != 0xAD);
    alphabet[byte] = visible ? byte : next++;
  }
  return alphabet;
}

CharacterKind kind_at(std::string_view text, std::size_t offset) {
  return kind_of(code_point_at(text, offset).value);
}

// Where the run of characters of this kind that starts at `offset` ends, and its last one starts.
struct Run {
  std::size_t last, end;
};
Run run_of(CharacterKind kind, std::string_view text, std::size_t offset) {
  Run run{offset, offset};
  while (run.end < text.size()) {
    const CodePoint point = code_point_at(text, run.end);
    require(point.bytes > 0, "byte_level_pieces: byte {} is not UTF-8", run.end);
    if (kind_of(point.value) != kind) break;
    run = {run.end, run.end + point.bytes};
  }
  return run;
}

// In lower case where that is wanted.
std::string prepared(std::string_view text, bool lower) {
  for (std::size_t offset = 0; offset < text.size();) {
    const int bytes = code_point_at(text, offset).bytes;
    expect_input(bytes > 0, "text: byte {}: not UTF-8; write it as UTF-8", offset);
    offset += bytes;
  }
  return lower ? lower_case(text) : std::string(text);
}

// The bytes at `offset` that begin a character but are cut off: at least one. (Unicode 15, §3.9:
// each maximal subpart of an ill-formed sequence is replaced by one U+FFFD.)
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

std::size_t first_piece_bytes(std::string_view text) {
  for (const std::string_view ending : {"'s", "'t", "'re", "'ve", "'m", "'ll", "'d"})
    if (text.starts_with(ending)) return ending.size();
  const std::size_t word = text.front() == ' ' ? 1 : 0;
  if (word < text.size())
    if (const CharacterKind kind = kind_at(text, word); kind != CharacterKind::space)
      return run_of(kind, text, word).end;
  // White space leaves its last character to what follows, which takes it in where it is ' '.
  const Run spaces = run_of(CharacterKind::space, text, 0);
  return spaces.end == text.size() || spaces.last == 0 ? spaces.end : spaces.last;
}

std::vector<std::string_view> byte_level_pieces(std::string_view text) {
  std::vector<std::string_view> pieces;
  while (!text.empty()) {
    pieces.push_back(text.substr(0, first_piece_bytes(text)));
    text.remove_prefix(pieces.back().size());
  }
  return pieces;
}

BytePairTokenizer::BytePairTokenizer(BytePairModel model) : model_(std::move(model)) {
  require(model_.special.size() == model_.tokens.size(), "BytePairTokenizer: {} tokens, {} flags",
          model_.tokens.size(), model_.special.size());
  for (const std::string& token : model_.tokens)
    require(ids_.emplace(token, static_cast<std::int32_t>(ids_.size())).second,
            "BytePairTokenizer: token {} repeats", ids_.size());
  for (int byte = 0; byte < 256; ++byte) {
    byte_tokens_[byte] = find(std::string(1, static_cast<char>(byte)));
    require(byte_tokens_[byte] >= 0, "BytePairTokenizer: no token is byte {}", byte);
  }
  std::int32_t rank = 0;
  for (const auto& [left, right] : model_.merges) {
    require(left >= 0 && left < size() && right >= 0 && right < size(),
            "BytePairTokenizer: a merge of {} and {} of {}", left, right, size());
    const std::int32_t result = find(model_.tokens[left] + model_.tokens[right]);
    require(result >= 0, "BytePairTokenizer: merging {} and {} gives no token", left, right);
    steps_.insert_or_assign(key_of(left, right), Step{rank++, result});
  }
}

std::int32_t BytePairTokenizer::find(std::string_view token) const {
  const auto found = ids_.find(std::string(token));
  return found == ids_.end() ? -1 : found->second;
}

struct BytePairTokenizer::Scratch {
  struct Candidate {
    Step step;
    std::size_t place;  // of the left token
    std::int32_t left, right;
    bool operator<(const Candidate& other) const {  // the top of the heap is done first
      return std::tie(other.step.rank, other.place) < std::tie(step.rank, place);
    }
  };
  std::priority_queue<Candidate> candidates{};
  std::vector<std::size_t> next{}, previous{};  // where a token's neighbours stand
};

// Of the merges that apply, the earliest learned is done first, and leftmost first where it applies
// more than once. Candidates whose tokens have been merged meanwhile are passed over.
void BytePairTokenizer::merge(std::vector<std::int32_t>& tokens, Scratch& scratch) const {
  constexpr std::int32_t merged_away = -1;
  auto& [candidates, next, previous] = scratch;
  next.resize(tokens.size());
  previous.resize(tokens.size());
  const auto offer = [&](std::size_t place) {
    if (next[place] == tokens.size()) return;
    const std::int32_t left = tokens[place], right = tokens[next[place]];
    if (const auto found = steps_.find(key_of(left, right)); found != steps_.end())
      candidates.push({found->second, place, left, right});
  };
  for (std::size_t i = 0; i < tokens.size(); ++i) {
    next[i] = i + 1;
    previous[i] = i - 1;  // not read where i is 0
    offer(i);
  }
  while (!candidates.empty()) {
    const auto [step, place, left, right] = candidates.top();
    candidates.pop();
    const std::size_t away = next[place];
    if (away == tokens.size() || tokens[place] != left || tokens[away] != right) continue;
    tokens[place] = step.result;
    tokens[away] = merged_away;
    next[place] = next[away];
    if (next[place] < tokens.size()) previous[next[place]] = place;
    if (place > 0) offer(previous[place]);
    offer(place);
  }
  std::erase(tokens, merged_away);
}

std::vector<std::int32_t> BytePairTokenizer::encode(std::string_view text) const {
  const std::string whole = prepared(text, model_.lower_case);
  std::vector<std::int32_t> tokens, piece_tokens;
  Scratch scratch;
  for (const std::string_view piece : byte_level_pieces(whole)) {
    piece_tokens.clear();
    for (const char byte : piece)
      piece_tokens.push_back(byte_tokens_[static_cast<unsigned char>(byte)]);
    merge(piece_tokens, scratch);
    tokens.insert(tokens.end(), piece_tokens.begin(), piece_tokens.end());
  }
  return tokens;
}

std::string BytePairTokenizer::decode(std::span<const std::int32_t> tokens) const {
  std::string bytes;
  for (const std::int32_t token : tokens) {
    require(token >= 0 && token < size(), "BytePairTokenizer::decode: token {} of {}", token,
            size());
    const auto index = token;
    if (!model_.special[index]) bytes += model_.tokens[index];
  }
  return with_replacements(bytes);
}

BytePairTokenizer BytePairTokenizer::load(const std::string& path) {
  return from_json(read_file(path, max_file_bytes), path);
}

}  // namespace tapestry
