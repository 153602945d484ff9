#include "data/text/bag_of_words.hpp"

#include <algorithm>
#include <cmath>
#include <map>

#include "data/input_file.hpp"
#include "data/text/unicode.hpp"

namespace tapestry {
namespace {

enum class Place { between, in_word, alone };

Place place_of(char32_t character) {
  if (character < 128) {
    const bool is_digit = character >= '0' && character <= '9';
    const char32_t lower = character | 32;
    return is_digit || (lower >= 'a' && lower <= 'z') ? Place::in_word : Place::between;
  }
  const CharacterKind kind = kind_of(character);
  if (kind != CharacterKind::letter && kind != CharacterKind::number) return Place::between;
  constexpr char32_t first_ideograph = 0x3040, last_ideograph = 0x9FFF;  // with kana
  return character >= first_ideograph && character <= last_ideograph ? Place::alone
                                                                     : Place::in_word;
}

std::string lower_word(std::string_view word) {
  if (std::ranges::any_of(word, [](unsigned char byte) { return byte >= 128; }))
    return lower_case(word);
  std::string lower(word);
  for (char& byte : lower)
    if (byte >= 'A' && byte <= 'Z') byte = static_cast<char>(byte + ('a' - 'A'));
  return lower;
}

}  // namespace

std::vector<std::string> words_of(std::string_view text) {
  std::vector<std::string> words;
  std::size_t begin = 0, at = 0;
  const auto end_word = [&] {
    if (at > begin) words.push_back(lower_word(text.substr(begin, at - begin)));
  };
  while (at < text.size()) {
    const auto byte = static_cast<unsigned char>(text[at]);
    const CodePoint point = byte < 128 ? CodePoint{byte, 1} : code_point_at(text, at);
    const std::size_t bytes = std::max<std::size_t>(1, point.bytes);  // 0: no UTF-8
    const Place place = point.bytes == 0 ? Place::between : place_of(point.value);
    if (place != Place::in_word) {
      end_word();
      if (place == Place::alone) words.emplace_back(text.substr(at, bytes));
      begin = at + bytes;
    }
    at += bytes;
  }
  end_word();
  return words;
}

BagOfWords::BagOfWords(std::span<const std::string> texts, std::int64_t most) {
  struct Seen {
    std::int64_t texts = 0, last = -1;
  };
  std::unordered_map<std::string, Seen> seen;
  for (std::int64_t i = 0; i < std::ssize(texts); ++i)
    for (std::string& word : words_of(texts[i]))
      if (Seen& one = seen[std::move(word)]; one.last != i) {
        one.last = i;
        ++one.texts;
      }
  std::vector<std::pair<std::int64_t, std::string>> words;
  for (const auto& [word, counts] : seen) words.emplace_back(-counts.texts, word);
  std::ranges::sort(words);
  if (std::ssize(words) > most) words.resize(most);
  const double N = static_cast<double>(texts.size());
  for (auto& [negative, word] : words) {
    numbers_.emplace(std::move(word), static_cast<std::int32_t>(weights_.size()));
    weights_.push_back(std::log((1 + N) / (1 - static_cast<double>(negative))) + 1);
  }
}

std::vector<std::pair<std::int32_t, double>> BagOfWords::row(std::string_view text) const {
  std::map<std::int32_t, double> counts;
  for (const std::string& word : words_of(text))
    if (const auto found = numbers_.find(word); found != numbers_.end()) ++counts[found->second];
  double squares = 0;
  for (auto& [number, value] : counts) {
    value *= weights_[number];
    squares += value * value;
  }
  std::vector<std::pair<std::int32_t, double>> row(counts.begin(), counts.end());
  for (auto& [number, value] : row) value /= std::sqrt(squares);
  return row;
}

}  // namespace tapestry
