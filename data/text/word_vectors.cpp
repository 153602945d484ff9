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
  const auto V = parse_number<std::int64_t>(parts.front()).value_or(0),
             C = parse_number<std::int64_t>(parts.back()).value_or(0),
             most = static_cast<std::int64_t>(bytes) / 2;
  line.expect(parts.size() == 2 && V > 0 && C > 0,
              "expected the number of words and that of the numbers of each, as in \"3000 100\", "
              "found \"{}\"; add this line, which GloVe's files lack",
              printable_beginning(line.text));
  line.expect(C <= most && V <= most / C,
              "announces {} words of {} numbers, for which the file is too short", V, C);
  return {V, C};
}

}  // namespace

WordVectors read_word_vectors(const std::string& path) {
  const std::string content = read_text(path);
  std::string_view rest = content;
  FileLine line{.path = path, .text = next_line(rest).value_or("")};
  const Shape shape = sizes_of(line, rest.size());
  const std::int64_t V = shape[0], C = shape[1];
  WordVectors read{.vectors = Array(shape)};
  std::unordered_set<std::string_view> seen;
  const auto values = read.vectors.mutable_values<float>();
  for (std::int64_t i = 0; i < V; ++i) {
    const auto text = next_line(rest);
    line.number = i + 2;
    line.text = text.value_or("");
    line.expect(text.has_value(), "the file ends; expected {}", counted(V, "word"));
    const std::vector<std::string_view> parts = split(trimmed(line.text), ' ');
    line.expect(std::ssize(parts) == 1 + C, "expected a word and {}, found {}",
                counted(C, "number"), parts.size() - 1);
    line.expect(seen.insert(parts.front()).second, "expected a new word, found \"{}\"",
                printable_beginning(parts.front()));
    read.words.emplace_back(parts.front());
    for (std::int64_t c = 0; c < C; ++c) {
      const std::optional<float> value = parse_float(parts[c + 1]);
      line.expect(value.has_value(), "expected a number, found \"{}\"",
                  printable_beginning(parts[c + 1]));
      values[i * C + c] = *value;
    }
  }
  line.expect(trimmed(rest).empty(), "is followed by more lines; expected {}", counted(V, "word"));
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
