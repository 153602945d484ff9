#include <doctest/doctest.h>

#include <numeric>

#include "data/option_error.hpp"
#include "data/text/skip_grams.hpp"
#include "data/text/word_vectors.hpp"
#include "tests/support/arrays.hpp"
#include "tests/support/process.hpp"

// Tests files of word vectors, and the skip-grams from which they are learned.
namespace tapestry {
namespace {

TEST_SUITE_BEGIN("word vectors");

TEST_CASE_FIXTURE(TemporaryFolder, "read_word_vectors: reads what word_vectors_text writes") {
  const WordVectors written{{"the", "été"},
                            Array::of<float>({0.1F, -2e-20F, 3, 4, 5, 1e9F}, {2, 3})};
  const std::string text = word_vectors_text(written);
  CHECK(text.starts_with("2 3\nthe 0.1 -2e-20 3\n"));
  const WordVectors read = read_word_vectors(this->write("words.txt", text));
  CHECK(read.words == written.words);
  CHECK(same_bits(read.vectors, written.vectors));
  // As word2vec's program writes them: with a space at the end of lines.
  CHECK(read_word_vectors(this->write("words.txt", "1 2\na 1 2 \n")).words == Strings{"a"});
}

TEST_CASE_FIXTURE(TemporaryFolder, "read_word_vectors: refuses damaged files with one message") {
  const auto message = [&](const std::string& text) {
    const std::string path = this->write("w.txt", text);
    return message_of([&] { read_word_vectors(path); });
  };
  check_says(message(""), {"w.txt: line 1: expected the number of words", "found \"\""});
  check_says(message("the 0.1 0.2\n"), {"line 1: expected the number of words"});
  check_says(message("0 2\n"), {"line 1"});
  check_says(message("9000000000000 9000000000000\na 1\n"), {"for which the file is too short"});
  check_says(message("3 1\na 1\n"), {"3 words of 1 numbers, for which the file is too short"});
  check_says(message("3 1\na 1.000\nb 1.000\n"), {"line 4: the file ends; expected 3 words"});
  check_says(message("1 2\na 1\n\n\n"), {"line 2: expected a word and 2 numbers, found 1"});
  check_says(message("1 2\na 1 2 3\n"), {"line 2: expected a word and 2 numbers, found 3"});
  check_says(message("1 2\na 1 nan\n"), {"line 2: expected a number, found \"nan\""});
  check_says(message("2 1\na 1\na 1\n"), {"line 3: expected a new word, found \"a\""});
  check_says(message("1 1\na 1\nb 1\n"), {"line 2: is followed by more lines; expected 1 word"});
}

TEST_CASE("WordVocabulary: the most frequent words first, then in the order of their letters") {
  const Strings lines = {"The dog, the cat.", "A dog and THE bird", "cat"};
  const WordVocabulary all = WordVocabulary::of(lines, {.minimum_count = 1});
  CHECK(all.words == Strings{"the", "cat", "dog", "a", "and", "bird"});
  CHECK(all.counts == std::vector<std::int64_t>{3, 2, 2, 1, 1, 1});
  CHECK(WordVocabulary::of(lines, {.minimum_count = 2}).words == Strings{"the", "cat", "dog"});
  CHECK(WordVocabulary::of(lines, {.minimum_count = 1, .vocabulary = 2}).words ==
        Strings{"the", "cat"});
  CHECK_THROWS_AS(WordVocabulary::of(lines, {.minimum_count = 3}), OptionError);
}

TEST_CASE("WordWindows: the known words around each word of a line") {
  const WordVocabulary vocabulary{{"a", "b", "c"}, {1, 1, 1}};
  const WordWindows windows(Strings{"a b x c", "y", "b a"}, vocabulary, 2, 4);
  CHECK(windows.size() == 5);
  const Batch batch = windows.batch(indices(0, 5));
  CHECK(batch.count == 0.25);
  CHECK(ints_of(batch.targets) == Tokens{0, 1, 2, 1, 0});
  CHECK(ints_of(batch.inputs) ==
        Tokens{-1, -1, 1, 2, 0, -1, 2, -1, 1, 0, -1, -1, -1, -1, 0, -1, 1, -1, -1, -1});
  CHECK_THROWS_AS(windows.batch(indices(5, 6)), std::invalid_argument);
  CHECK_THROWS_AS(WordWindows(Strings{"z"}, vocabulary, 2, 1), OptionError);
}

// Draws from a batch of one line of the words 0, 1, …, n - 1, with a generator for each.
SkipGramSampler::Drawn draw(const SkipGramSampler& sampler, std::int64_t n, std::uint64_t seed) {
  Batch batch{Array::full({n, 2 * n}, -1, i32), Array({n}, i32), 1};
  for (std::int64_t i = 0; i < n; ++i) {
    const auto near = batch.inputs.mutable_values<std::int32_t>().subspan(2 * n * i, 2 * n);
    for (std::int64_t j = 0; j < i; ++j) near[j] = static_cast<std::int32_t>(i - 1 - j);
    for (std::int64_t j = i + 1; j < n; ++j) near[n + j - i - 1] = static_cast<std::int32_t>(j);
    batch.targets.mutable_values<std::int32_t>()[i] = static_cast<std::int32_t>(i);
  }
  std::vector<Random> random;
  for (std::int64_t i = 0; i < n; ++i)
    random.emplace_back(seed, Stream::dropout, static_cast<std::uint64_t>(i));
  return sampler.draw(batch, random);
}

TEST_CASE("SkipGramSampler: windows, kept words and negative words have their probabilities") {
  const std::vector<std::int64_t> counts = {800, 100, 50, 50};
  const SkipGramSampler all(counts, {.window = 2, .negatives = 4, .subsample = 0});
  const SkipGramSampler some(counts, {.window = 2, .negatives = 4, .subsample = 0.2});
  std::int64_t pairs = 0, kept = 0, drawn = 0, first = 0;
  constexpr int repeats = 4000;
  for (std::uint64_t seed = 0; seed < repeats; ++seed) {
    const auto [contexts, targets, found] = draw(all, 4, seed);
    pairs += found;
    const auto list = ints_of(contexts);
    CHECK(std::ranges::count_if(list, [](auto word) { return word >= 0; }) == found);
    for (std::int64_t k = 1; k <= 4; ++k) {
      const std::int32_t word = ints_of(targets)[2 * 5 + k];  // -1: word 2 itself
      ++drawn;
      first += word == 0;
      CHECK(word != 2);
    }
    kept += ints_of(draw(some, 4, seed).targets)[0] == 0;
  }
  // Neighbors at distance 1: 6 pairs; at distance 2: 4 pairs, half of the time.
  CHECK(static_cast<double>(pairs) / repeats == doctest::Approx(8).epsilon(0.02));
  // 800^0.75 / Σ = 0.685; (√(0.8 / 0.2) + 1) 0.2 / 0.8 = 0.75.
  CHECK(static_cast<double>(first) / static_cast<double>(drawn) ==
        doctest::Approx(0.685).epsilon(0.02));
  CHECK(static_cast<double>(kept) / repeats == doctest::Approx(0.75).epsilon(0.03));
}

TEST_CASE("SkipGramSampler: the bits depend on the generators, not on threads") {
  const SkipGramSampler sampler(std::vector<std::int64_t>(300, 5), {});
  const auto first = draw(sampler, 300, 1);
  with_threads({1, 2, 3}, [&](int) {
    const auto again = draw(sampler, 300, 1);
    CHECK(same_bits(first.contexts, again.contexts));
    CHECK(same_bits(first.targets, again.targets));
  });
  CHECK(!same_bits(first.contexts, draw(sampler, 300, 2).contexts));
}

TEST_SUITE_END();

}  // namespace
}  // namespace tapestry
