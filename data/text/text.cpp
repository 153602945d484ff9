#include "data/text/text.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>

#include "autograd/check.hpp"
#include "data/file.hpp"
#include "data/option_error.hpp"

namespace tapestry {
namespace {

void check_length(const TextRange& range) {
  const bool overlapping = range.windows == Windows::overlapping;
  const std::int64_t needed = overlapping ? range.context + 1 : 2;
  expect_option(range.end - range.begin >= needed, overlapping ? "context" : "end",
                "{}: the {} split has {} tokens, at least {} are needed with a context of {}",
                range.path, range.split, range.end - range.begin, needed, range.context);
}

}  // namespace

std::string printable(std::string_view text) {
  std::string result;
  for (const char character : text) {
    const auto byte = static_cast<unsigned char>(character);
    result += std::iscntrl(byte) ? fmt::format("\\x{:02x}", byte) : std::string(1, character);
  }
  return result;
}

CharVocabulary::CharVocabulary(std::vector<std::string> symbols) : symbols_(std::move(symbols)) {
  for (std::size_t i = 0; i < symbols_.size(); ++i) {
    const std::string& symbol = symbols_[i];
    const CodePoint point = symbol.empty() ? CodePoint{0, 0} : code_point_at(symbol, 0);
    expect_input(point.bytes > 0 && point.bytes == std::ssize(symbol),
                 "vocabulary: symbol {} is not one UTF-8 character; the list is damaged", i);
    if (point.value >= tokens_.size()) tokens_.resize(point.value + 1, -1);
    expect_input(tokens_[point.value] < 0,
                 "vocabulary: symbol {} repeats symbol {}; the list is damaged", i,
                 tokens_[point.value]);
    tokens_[point.value] = static_cast<std::int32_t>(i);
  }
}

CharVocabulary CharVocabulary::of_text(std::string_view text) {
  std::vector<std::string_view> seen;  // by code point
  for (std::size_t offset = 0; offset < text.size();) {
    const CodePoint point = code_point_at(text, offset);
    require(point.bytes > 0, "CharVocabulary::of_text: byte {} is not UTF-8", offset);
    const auto bytes = point.bytes;
    if (point.value >= seen.size()) seen.resize(point.value + 1);
    seen[point.value] = text.substr(offset, bytes);
    offset += bytes;
  }
  std::vector<std::string> symbols;
  for (const std::string_view symbol : seen)
    if (!symbol.empty()) symbols.emplace_back(symbol);
  return CharVocabulary(std::move(symbols));
}

std::vector<std::int32_t> CharVocabulary::encode(std::string_view text) const {
  std::vector<std::int32_t> tokens;
  tokens.reserve(text.size());
  for (std::size_t offset = 0; offset < text.size();) {
    const CodePoint point = code_point_at(text, offset);
    const bool known = point.bytes > 0 && point.value < tokens_.size() && tokens_[point.value] >= 0;
    if (!known) throw_unknown(text, offset);
    tokens.push_back(tokens_[point.value]);
    offset += point.bytes;
  }
  return tokens;
}

void CharVocabulary::throw_unknown(std::string_view text, std::size_t offset) const {
  const CodePoint point = code_point_at(text, offset);
  expect_input(point.bytes > 0, "text: byte {}: not UTF-8; write it as UTF-8", offset);
  std::string known;
  for (const std::string& symbol : symbols_) known += printable(symbol);
  if (symbols_.size() > 100) known = "characters of the text that the model was trained on";
  throw InputError(fmt::format(
      "text: byte {}: character '{}' (U+{:04X}) is not in the vocabulary of {}; use only {}",
      offset, printable(text.substr(offset, point.bytes)), static_cast<std::uint32_t>(point.value),
      size(), known));
}

std::string CharVocabulary::decode(std::span<const std::int32_t> tokens) const {
  std::string text;
  for (const std::int32_t token : tokens) {
    require(token >= 0 && token < size(), "CharVocabulary::decode: token {} of {}", token, size());
    text += symbols_[token];
  }
  return text;
}

TextFormats& text_formats() {
  static TextFormats formats;
  return formats;
}

Text load_text(const std::string& path) { return text_formats().read(path); }

TextDataset::TextDataset(std::shared_ptr<const std::vector<std::int32_t>> tokens, TextRange range)
    : tokens_(std::move(tokens)), range_(std::move(range)) {
  const std::int64_t total = std::ssize(*tokens_);
  require(0 <= range_.begin && range_.begin <= range_.end && range_.end <= total,
          "TextDataset: tokens [{}, {}) of {}", range_.begin, range_.end, total);
  require(range_.context >= 1, "TextDataset: a context of {}", range_.context);
  check_length(range_);
}

std::int64_t TextDataset::size() const {
  const std::int64_t predictable = range_.end - range_.begin - 1;
  if (range_.windows == Windows::overlapping) return predictable - range_.context + 1;
  return (predictable + range_.context - 1) / range_.context;
}

Batch TextDataset::batch(std::span<const std::int64_t> examples) const {
  const std::int64_t T = range_.context;
  const Shape shape{std::ssize(examples), T};
  Batch batch{.inputs = Array::zeros(shape, DType::int32),
              .targets = Array::full(shape, ignored_target, DType::int32),
              .count = 0};
  auto input = batch.inputs.mutable_values<std::int32_t>().begin();
  auto target = batch.targets.mutable_values<std::int32_t>().begin();
  for (const std::int64_t example : examples) {
    require(example >= 0 && example < size(), "TextDataset: example {} of {}", example, size());
    const std::int64_t stride = range_.windows == Windows::overlapping ? 1 : T;
    const std::int64_t start = range_.begin + example * stride;
    const std::int64_t length = std::min(T, range_.end - 1 - start);
    std::copy_n(tokens_->begin() + start, length, input);
    std::copy_n(tokens_->begin() + start + 1, length, target);
    batch.count += static_cast<double>(length);
    input += T;
    target += T;
  }
  return batch;
}

void TextDataset::add_to(Checksum& sum) const {
  sum.add(std::as_bytes(std::span(*tokens_).subspan(range_.begin, range_.end - range_.begin)));
}

}  // namespace tapestry
