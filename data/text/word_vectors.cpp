#include "data/text/word_vectors.hpp"

#include <fmt/format.h>

#include <iterator>
#include <unordered_set>

#include "autograd/check.hpp"
#include "autograd/counted.hpp"
#include "data/input_file.hpp"
#include "data/text/printable.hpp"

namespace tapestry {
namespace {

// Returns (V, C) of the first line. A number takes at least two of the bytes that follow.
Shape sizes_of(const FileLine& line, std::size_t bytes) {
  const std::vector<std::string_view> parts = split(trimmed(line.text), ' ');
  std::vector<std::int64_t> sizes;
  for (const std::string_view part : parts)
    sizes.push_back(parse_number<std::int64_t>(part).value_or(0));
  line.expect(sizes.size() == 2 && sizes[0] > 0 && sizes[1] > 0,
              "expected the number of words and that of the numbers of each, as in \"3000 100\", "
              "found \"{}\"",
              printable_beginning(line.text));
  const auto most = static_cast<std::int64_t>(bytes) / 2;
  line.expect(sizes[1] <= most && sizes[0] <= most / sizes[1],
              "announces {} words of {} numbers, for which the file is too short", sizes[0],
              sizes[1]);
  return {sizes[0], sizes[1]};
}

void read_numbers(const FileLine& line, std::string_view text, std::span<float> to) {
  std::size_t found = 0;
  while (!(text = trimmed(text)).empty()) {
    const std::string_view number = text.substr(0, text.find(' '));
    const std::optional<float> value = parse_float(number);
    line.expect(value.has_value(), "expected a number, found \"{}\"", printable_beginning(number));
    if (found < to.size()) to[found] = *value;
    ++found;
    text.remove_prefix(number.size());
  }
  line.expect(found == to.size(), "expected a word and {}, found {}",
              counted(std::ssize(to), "number"), found);
}

}  // namespace

WordVectors read_word_vectors(const std::string& path) {
  const std::string content = read_text(path);
  std::string_view rest = content;
  FileLine line{.path = path, .text = next_line(rest).value_or("")};
  const Shape shape = sizes_of(line, rest.size());
  WordVectors read{.vectors = Array(shape)};
  std::unordered_set<std::string_view> seen;
  const auto values = read.vectors.mutable_values<float>();
  for (std::int64_t i = 0; i < shape[0]; ++i) {
    const auto text = next_line(rest);
    line.number = i + 2;
    line.text = text.value_or("");
    line.expect(text.has_value(), "the file ends; expected {}", counted(shape[0], "word"));
    const std::string_view word = line.text.substr(0, line.text.find(' '));
    line.expect(!word.empty() && seen.insert(word).second, "expected a new word, found \"{}\"",
                printable_beginning(word));
    read.words.emplace_back(word);
    read_numbers(line, line.text.substr(word.size()), values.subspan(i * shape[1], shape[1]));
  }
  line.expect(trimmed(rest).empty(), "is followed by more lines; expected {}",
              counted(shape[0], "word"));
  return read;
}

std::string word_vectors_text(const WordVectors& vectors) {
  const std::int64_t C = vectors.vectors.dim(1);
  std::string text = fmt::format("{} {}\n", vectors.words.size(), C);
  const float* value = vectors.vectors.values<float>().data();
  for (const std::string& word : vectors.words) {
    text += word;
    for (std::int64_t c = 0; c < C; ++c) fmt::format_to(std::back_inserter(text), " {}", *value++);
    text += '\n';
  }
  return text;
}

}  // namespace tapestry
