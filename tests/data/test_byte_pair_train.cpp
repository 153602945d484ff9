#include <doctest/doctest.h>

#include <ctime>
#include <map>

#include "autograd/random.hpp"
#include "data/input_file.hpp"
#include "data/text/byte_pair.hpp"
#include "data/text/word_counts.hpp"
#include "tests/support/labels.hpp"
#include "tests/support/process.hpp"

// How byte pairs are learned from large texts and long words.
namespace tapestry {
namespace {

using Pair = BytePairModel::Pair;

TEST_SUITE_BEGIN("byte_pair");

std::string drawn(std::int64_t bytes, std::string_view alphabet, Random& random) {
  std::string text;
  while (std::ssize(text) < bytes) text += alphabet[random.below(std::ssize(alphabet))];
  return text;
}

// --- the definition, which counts all pairs again for each merge ---

Tokens merged(const Tokens& tokens, const Pair& pair, std::int32_t result) {
  Tokens kept;
  for (std::size_t i = 0; i < tokens.size(); ++i) {
    const bool here = i + 1 < tokens.size() && Pair{tokens[i], tokens[i + 1]} == pair;
    kept.push_back(here ? result : tokens[i]);
    if (here) ++i;
  }
  return kept;
}

BytePairModel learned_slowly(const std::string& text, std::int64_t vocabulary) {
  const BytePairTokenizer bytes = BytePairTokenizer::train({});
  BytePairModel model = bytes.model();
  std::vector<Tokens> words;
  for (const std::string_view piece : byte_level_pieces(text)) words.push_back(bytes.encode(piece));
  while (std::ssize(model.tokens) < vocabulary) {
    std::map<Pair, std::int64_t> counts;
    for (const Tokens& tokens : words)
      for (std::size_t i = 1; i < tokens.size(); ++i) ++counts[{tokens[i - 1], tokens[i]}];
    std::pair<std::int64_t, Pair> best{1, {}};
    for (const auto& [pair, count] : counts)
      if (count > best.first) best = {count, pair};
    if (best.first < 2) break;
    const Pair pair = best.second;
    const std::string token = model.tokens[pair[0]] + model.tokens[pair[1]];
    const auto known = std::ranges::find(model.tokens, token) - model.tokens.begin();
    if (known == std::ssize(model.tokens)) model.tokens.push_back(token);
    if (std::ranges::find(model.merges, pair) == model.merges.end()) model.merges.push_back(pair);
    for (Tokens& tokens : words) tokens = merged(tokens, pair, static_cast<std::int32_t>(known));
  }
  return model;
}

TEST_CASE("BytePairTokenizer: the merges are those that counting anew each time gives") {
  Random random(1, Stream::data);
  for (const std::string_view alphabet : {"a", "ab", "ab ", "abc  ", "aaaab ", "ä中' t"})
    for (const std::int64_t bytes : {1, 30, 400}) {
      std::string text;
      while (std::ssize(text) < bytes) {  // whole characters
        auto at = static_cast<std::size_t>(random.below(std::ssize(alphabet)));
        while ((static_cast<unsigned char>(alphabet[at]) & 0xC0) == 0x80) --at;
        text += alphabet.substr(at, code_point_at(alphabet, at).bytes);
      }
      CAPTURE(text);
      for (const std::int64_t vocabulary : {270, 400}) {
        const BytePairModel wanted = learned_slowly(text, vocabulary);
        const auto learned =
            BytePairTokenizer::train(std::span(&text, 1), {.vocabulary = vocabulary});
        CHECK(learned.model().tokens == wanted.tokens);
        CHECK(learned.model().merges == wanted.merges);
      }
    }
}

// --- size ---

TEST_CASE("bug: a text without spaces is learned from, and encoded, in time linear in its length") {
  Random random(2, Stream::data);
  const std::string text = drawn(400'000, "abcdefghijklmnopqrstuvwxyz", random);
  const std::clock_t begin = std::clock();  // of the processor, however busy the machine is
  const auto tokenizer = BytePairTokenizer::train(std::span(&text, 1), {.vocabulary = 8000});
  const Tokens tokens = tokenizer.encode(text);
  CHECK(std::clock() - begin < 10 * CLOCKS_PER_SEC);  // it took a minute
  CHECK(tokenizer.size() == 8000);
  CHECK(tokens.size() < 200'000);
  CHECK(tokenizer.decode(tokens) == text);
}

std::map<std::string, std::int64_t> counted(const WordCounts& words) {
  return {words.counts().begin(), words.counts().end()};
}

TEST_CASE("WordCounts: the same pieces, wherever a text is cut into parts") {
  const std::string text =
      "I'll we've 're' don't  stop\n\n\n  42 km, ''re \u00A0 中文。ß't   end 'll' \u3000x'v ";
  std::map<std::string, std::int64_t> pieces;
  for (const std::string_view piece : byte_level_pieces(text)) ++pieces[std::string(piece)];
  for (std::size_t first = 0; first < text.size(); ++first)
    for (const std::size_t step : {1, 2, 7}) {
      WordCounts words({});
      for (std::size_t begin = 0, end = first; begin < text.size(); begin = end, end += step) {
        while (end < text.size() && (static_cast<unsigned char>(text[end]) & 0xC0) == 0x80) ++end;
        words.add(std::string_view(text).substr(begin, end - begin));
      }
      words.end_text();
      REQUIRE(counted(words) == pieces);
    }
  WordCounts two({.lower_case = true});
  for (int i = 0; i < 2; ++i) {
    two.add("ab");
    two.add("CD");
    two.end_text();
  }
  CHECK(counted(two) == std::map<std::string, std::int64_t>{{"abcd", 2}});
}

TEST_CASE("bug: neither a piece nor all that are distinct take more memory than is stated") {
  constexpr std::size_t most = WordCounts::max_piece_bytes;
  for (const std::string character : {"中", " "}) {
    CAPTURE(character);
    std::string text;
    while (text.size() < 5 * most / 2) text += character;
    std::map<std::string, std::int64_t> once;
    for (const std::size_t part : {most / 4 * 3, text.size()}) {
      const std::size_t whole = part / character.size() * character.size();
      WordCounts words({});
      for (std::size_t begin = 0; begin < text.size(); begin += whole)
        words.add(std::string_view(text).substr(begin, whole));
      words.end_text();
      std::int64_t bytes = 0;
      for (const auto& [piece, count] : words.counts()) {
        CHECK(piece.size() <= most);
        bytes += count * std::ssize(piece);
      }
      CHECK(bytes == std::ssize(text));
      if (once.empty()) once = counted(words);
      CHECK(counted(words) == once);
    }
  }
  WordCounts words({}, 11);
  words.add("one two one two one two");  // "one", " two" and " one"
  words.end_text();
  CHECK(words.bytes() == 11);
  words.add("six");
  check_says(message_of([&] { words.end_text(); }), {"more than 11 bytes of distinct words"});
}

// --- files ---

TEST_CASE_FIXTURE(TemporaryFolder, "read_text_parts: a text's bytes or mistakes, wherever cut") {
  const auto parts_of = [&](const std::string& path) {
    std::string all;
    read_text_parts(path, [&](std::string_view part) { all += part; });
    return all;
  };
  constexpr std::size_t chunk = 1 << 20;
  for (const std::size_t lead : {chunk - 4, chunk - 3, chunk - 2, chunk - 1, chunk}) {
    CAPTURE(lead);
    const std::string text = std::string(lead, '\n') + "中😀ß end";
    CHECK(parts_of(write("good.txt", text)) == text);
    CHECK(parts_of(write("marked.txt", "\xEF\xBB\xBF" + text)) == text);
    for (const std::string bad : {"\xE4\xB8", "\xE4\xB8 and more", "\xFF", "ab\x80 and more"}) {
      const std::string path = write("bad.txt", std::string(lead, '\n') + bad);
      const std::string message = message_of([&] { parts_of(path); });
      CHECK(message == message_of([&] { read_text(path); }));
      check_says(message, {"bad.txt: byte", "is not UTF-8"});
    }
  }
  CHECK(parts_of(write("empty.txt", "")).empty());
}

TEST_CASE("BytePairTokenizer: from files what it is from their texts" *
          not_sanitized("a third of a minute there")) {
  const TemporaryFolder folder;
  Random random(3, Stream::data);
  Strings texts, paths;
  for (int i = 0; i < 3; ++i) {
    const std::string text = drawn(700'000, "aabcdeeeE  '\n", random);
    paths.push_back(folder.write(fmt::format("{}.txt", i), text));
    texts.push_back(text);
  }
  for (const bool lower_case : {false, true}) {
    const BytePairOptions options{.vocabulary = 600, .lower_case = lower_case};
    CHECK(BytePairTokenizer::train_on_files(paths, options).to_json() ==
          BytePairTokenizer::train(texts, options).to_json());
  }
  const std::string empty = folder.write("empty.txt", "");
  check_says(message_of([&] { BytePairTokenizer::train_on_files(std::span(&empty, 1)); }),
             {"empty.txt", "the file is empty"});
}

TEST_SUITE_END();

}  // namespace
}  // namespace tapestry
