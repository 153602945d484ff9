#include <doctest/doctest.h>
#include <zlib.h>

#include <cmath>
#include <set>

#include "data/sampler.hpp"
#include "data/text/bleu.hpp"
#include "data/text/pairs.hpp"
#include "tests/support/arrays.hpp"
#include "tests/support/process.hpp"

namespace tapestry {
namespace {

using Lines = Strings;

void write_gzip(const std::string& path, const std::string& bytes) {
  gzFile file = gzopen(path.c_str(), "wb");
  gzwrite(file, bytes.data(), static_cast<unsigned>(bytes.size()));
  gzclose(file);
}

TEST_SUITE_BEGIN("parallel_text");

// --- reading ---

TEST_CASE_FIXTURE(TemporaryFolder,
                  "load_parallel_text: reads lines with any line ends, plain or gzip") {
  write_gzip(path("b.en.gz"), "A dog.\r\n  Two caf\u00E9s \r\nThree");
  const std::string source = write("a.de",
                                   "\xEF\xBB\xBF"
                                   "Ein Hund.\nZwei Cafés\nDrei\n");
  const ParallelText text = load_parallel_text(source, path("b.en.gz"));
  CHECK(text.sources == Lines{"Ein Hund.", "Zwei Cafés", "Drei"});
  CHECK(text.targets == Lines{"A dog.", "  Two cafés ", "Three"});
  CHECK(text.source_path == source);
  CHECK(text.target_path == path("b.en.gz"));
}

TEST_CASE_FIXTURE(TemporaryFolder, "load_parallel_text: errors name file and line") {
  const auto load = [&](const std::string& source, const std::string& target) {
    write("a.de", source);
    write("a.en", target);
    return message_of([&] { load_parallel_text(path("a.de"), path("a.en")); });
  };
  CHECK(load("eins\nzwei\n", "one\ntwo").empty());
  check_says(load("eins\nzwei\ndrei", "one\ntwo"),
             {"a.de: line 3", "no translation", "a.de has 3 lines", "a.en has 2"});
  check_says(load("eins\n", "one\ntwo\n"), {"a.en: line 2", "a.de has 1 lines", "a.en has 2"});
  check_says(load("eins\n\ndrei", "one\ntwo\nthree"),
             {"a.de: line 2", "expected a sentence", "empty line", "a.en"});
  check_says(load("eins\nzwei", "one\n \t\u00A0\r\n"), {"a.en: line 2", "empty line", "a.de"});
  check_says(load("eins\nzwei\n\n", "one\ntwo\n\n"), {"a.de: line 3", "empty line"});
  check_says(load("", "one"), {"a.de: line 1", "empty"});
  check_says(load("eins", "\n"), {"a.en: line 1"});
  check_says(load("eins\nzw\xE4lf", "one\ntwelve"), {"a.de", "line 2", "UTF-8"});
  CHECK_ERROR(load_parallel_text(path("no.de"), path("a.en")), "no.de", "No such file");
}

TEST_CASE_FIXTURE(TemporaryFolder, "load_parallel_text: finds files by prefix and language") {
  const auto load = [&](const ParallelFiles& files) { return load_parallel_text(path(), files); };
  const auto fails = [&](const ParallelFiles& files) { return message_of([&] { load(files); }); };
  check_says(fails({}), {path(), "train*.de", "nothing", "split"});
  write("train.de", "Hund");
  write("README", "about");
  check_says(fails({}), {"expected train.en or train.en.gz", "README, train.de"});
  write("train.en", "dog");
  write("val.de", "Katze");
  write_gzip(path("val.en.gz"), "cat");
  CHECK(load({}).sources == Lines{"Hund"});
  CHECK(load({.split = "val"}).targets == Lines{"cat"});
  CHECK(load({.split = "val"}).target_path == path("val.en.gz"));
  CHECK(load({.source = "en", .target = "de"}).sources == Lines{"dog"});
  check_says(fails({.source = "fr"}), {"train*.fr"});

  check_says(fails({.split = "test"}), {"test*.de"});
  write("test_2016_flickr.de", "Maus");
  write("test_2016_flickr.en", "mouse");
  CHECK(load({.split = "test"}).targets == Lines{"mouse"});
  write("test_2017_flickr.de", "Kuh");
  write("test_2017_flickr.en", "cow");
  check_says(fails({.split = "test"}), {"test*.de", "test_2016_flickr, test_2017_flickr"});
  CHECK(load({.split = "test_2017_flickr"}).targets == Lines{"cow"});
  write("test.de", "Pferd");
  write("test.en", "horse");
  CHECK(load({.split = "test"}).targets == Lines{"horse"});
  CHECK_ERROR(load_parallel_text(path("none"), ParallelFiles{}), "none", "listed");
}

// --- batches ---

TEST_CASE("pair_batch: places sources, targets and padding") {
  const std::vector<TokenPair> pairs = {{.source = {10, 11, 12}, .target = {20}},
                                        {.source = {13}, .target = {21, 22, 23}},
                                        {.source = {14, 15}, .target = {}}};
  const Batch batch = pair_batch(pairs);
  CHECK(batch.part<SourceTokens>().tokens.shape() == Shape{3, 3});
  CHECK(batch.inputs.shape() == Shape{3, 4});
  CHECK(ints_of(batch.part<SourceTokens>().tokens) == Tokens{10, 11, 12, 13, 0, 0, 14, 15, 0});
  CHECK(ints_of(batch.part<SourceTokens>().padding) == Tokens{0, 0, 0, 0, 1, 1, 0, 0, 1});
  CHECK(ints_of(batch.inputs) == Tokens{1, 20, 0, 0, 1, 21, 22, 23, 1, 0, 0, 0});
  CHECK(ints_of(batch.targets) == Tokens{20, 2, -1, -1, 21, 22, 23, 2, 2, -1, -1, -1});
  CHECK(batch.count == 7);
  CHECK(batch.part<SourceTokens>().references.size() == 3);
  CHECK_THROWS_AS(pair_batch({}), std::invalid_argument);
  CHECK_THROWS_AS(pair_batch(std::vector<TokenPair>{{.target = {1}}}), std::invalid_argument);
}

TEST_CASE("PairDataset: a batch depends on its examples alone") {
  const PairDataset dataset({{{10, 11, 12}, {20}}, {{13}, {21, 22, 23}}, {{14}, {24}}}, {});
  CHECK(dataset.size() == 3);
  CHECK(dataset.num_cut() == 0);
  const Batch batch = dataset.batch(std::vector<std::int64_t>{2, 0});
  CHECK(ints_of(batch.part<SourceTokens>().tokens) == Tokens{14, 0, 0, 10, 11, 12});
  CHECK(ints_of(batch.inputs) == Tokens{1, 24, 1, 20});
  CHECK(dataset.batch(std::vector<std::int64_t>{2}).part<SourceTokens>().tokens.shape() ==
        Shape{1, 1});
  CHECK_THROWS_AS(dataset.batch(std::vector<std::int64_t>{3}), std::invalid_argument);
  CHECK_THROWS_AS(PairDataset({}, {}), std::invalid_argument);
  CHECK_THROWS_AS(PairDataset({{{}, {1}}}, {}), std::invalid_argument);
}

TEST_CASE("PairDataset: long sentences are refused with their line, or cut") {
  const auto make = [](std::size_t source, std::size_t target, Overlong overlong) {
    const TokenPair pair{.source = Tokens(source, 7), .target = Tokens(target, 8)};
    return PairDataset(
        {{{5}, {6}}, pair},
        {.context = 4, .overlong = overlong, .source_path = "a.de", .target_path = "a.en"});
  };
  const auto fails = [&](std::size_t source, std::size_t target) {
    return message_of([&] { make(source, target, Overlong::refuse); });
  };
  CHECK(fails(4, 3).empty());
  check_says(fails(5, 3), {"a.de: line 2", "5 tokens", "at most 4", "shorten it"});
  check_says(fails(4, 4), {"a.en: line 2", "4 tokens", "at most 3"});
  const PairDataset cut = make(9, 9, Overlong::cut);
  CHECK(cut.num_cut() == 2);
  CHECK(cut.pairs()[0].source == Tokens{5});
  const Batch batch = cut.batch(std::vector<std::int64_t>{1});
  CHECK(ints_of(batch.part<SourceTokens>().tokens) == Tokens{7, 7, 7, 7});
  CHECK(ints_of(batch.targets) == Tokens{8, 8, 8, 2});
  CHECK(batch.part<SourceTokens>().references.front().source_cut);
  CHECK(!make(4, 9, Overlong::cut).pairs()[1].source_cut);
}

// --- order ---

std::vector<TokenPair> pairs_of_many_lengths() {
  std::vector<TokenPair> pairs;
  for (std::size_t i = 0; i < 1003; ++i)
    pairs.push_back({.source = Tokens(1 + i * 37 % 40, 9), .target = Tokens(1 + i * 37 % 41, 9)});
  return pairs;
}

// Returns the share of padding in batches.
double padding(const std::vector<TokenPair>& pairs, const std::vector<std::int64_t>& order) {
  double places = 0, tokens = 0;
  for (std::size_t first = 0; first < order.size(); first += 16) {
    std::vector<TokenPair> chosen;
    for (std::size_t i = first; i < std::min(first + 16, order.size()); ++i)
      chosen.push_back(pairs[order[i]]);
    const Batch batch = pair_batch(chosen);
    places += static_cast<double>(batch.targets.size());
    tokens += batch.count;
  }
  return 1 - tokens / places;
}

TEST_CASE("Sampler: batches of similar lengths have little padding, and differ in each epoch") {
  const std::vector<TokenPair> pairs = pairs_of_many_lengths();
  const std::vector<std::int64_t> lengths = PairDataset(pairs, {}).lengths();
  const auto sampler = [&](std::uint64_t seed, std::int64_t pool) {
    return Sampler(1003, Order::similar_lengths, seed,
                   {.batch = 16, .pool = pool, .lengths = lengths});
  };
  Sampler read = sampler(3, 10);
  const std::vector<std::int64_t> first = read.next(992), second = read.next(992);
  CHECK(std::set(first.begin(), first.end()).size() == 992);
  CHECK(std::set(second.begin(), second.end()).size() == 992);
  CHECK(first != second);
  CHECK(first == sampler(3, 10).next(992));
  CHECK(first != sampler(4, 10).next(992));
  CHECK(padding(pairs, Sampler(1003, Order::shuffled, 1).next(992)) > 0.4);
  CHECK(padding(pairs, first) < 0.1);
  CHECK(padding(pairs, second) < 0.1);
  CHECK(padding(pairs, sampler(3, 1).next(992)) > 0.4);
}

TEST_CASE("Sampler: similar lengths work for small and odd sizes, and after a resume") {
  for (const std::int64_t size : {1, 15, 16, 17, 33, 160, 161})
    for (const std::int64_t batch : {1, 16, 500}) {
      const std::vector<std::int64_t> lengths(size, 7);
      const SimilarLengths similar{.batch = batch, .pool = 2, .lengths = lengths};
      Sampler whole(size, Order::similar_lengths, 1, similar), resumed = whole;
      const std::int64_t epoch = size > batch ? size / batch * batch : size;
      const std::vector<std::int64_t> examples = whole.next(3 * epoch);
      CHECK(std::set(examples.begin(), examples.begin() + epoch).size() == epoch);
      resumed.seek(epoch);
      CHECK(std::ranges::equal(resumed.next(epoch), std::span(examples).subspan(epoch, epoch)));
    }
  CHECK_THROWS_AS(Sampler(5, Order::similar_lengths, 1, {.batch = 0, .lengths = {1, 2, 3, 4, 5}}),
                  std::invalid_argument);
  CHECK_THROWS_AS(Sampler(5, Order::similar_lengths, 1), std::invalid_argument);
}

TEST_SUITE_END();

using Lines = Strings;

TEST_SUITE_BEGIN("bleu");

TEST_CASE("tokenize_13a: splits punctuation, numbers, hyphens and entities") {
  CHECK(tokenize_13a("Two men, one dog.") == Lines{"Two", "men", ",", "one", "dog", "."});
  CHECK(tokenize_13a("a well-known 5-year plan, 1,200.50 (3.5%)...") ==
        Lines{"a", "well-known", "5", "-", "year", "plan", ",", "1,200.50", "(", "3.5", "%", ")",
              ".", ".", "."});
  CHECK(tokenize_13a("He said &quot;no &amp; yes&quot; &lt;3 &amp;lt;") ==
        Lines{"He", "said", "\"", "no", "&", "yes", "\"", "<", "3", "<"});
  CHECK(tokenize_13a("a man's T-shirt/hat") == Lines{"a", "man's", "T-shirt", "/", "hat"});
  CHECK(tokenize_13a("ends in 5.") == Lines{"ends", "in", "5", "."});
  CHECK(tokenize_13a(".5 ,a 1.a a.1") == Lines{".", "5", ",", "a", "1", ".", "a", "a", ".", "1"});
  CHECK(tokenize_13a("Größe\u00A0ä.ö\x1F“x”<skipped>") == Lines{"Größe", "ä", ".", "ö", "“x”"});
  CHECK(tokenize_13a("two-\nparts and\nlines-\n") == Lines{"twoparts", "and", "lines-"});
  CHECK(tokenize_13a("  ").empty());
  CHECK_THROWS_AS(tokenize_13a("a\xFF"), std::invalid_argument);
}

const Lines& references() {
  static const Lines lines = {
      "A man in an orange hat is looking at something.",
      "Two dogs, one black and one white, run across the well-mown lawn.",
      "The runner wearing number 1,204 finished in 3.5 hours.",
      "A child shouts &quot;Look at me!&quot; from the top of a slide.",
      "Three women (all in red) are dancing at the Café Zürich.",
      "People are fixing the roof of a house.",
  };
  return lines;
}

const Lines& hypotheses() {
  static const Lines lines = {
      "A man in an orange hat looks at something.",
      "Two dogs, one black and one brown, are running across the lawn.",
      "the runner with number 1,204 finished in 3.5 hours .",
      "A child shouts \"Look at me\" from the top of the slide.",
      "Three women, all in Red, dance at the café Zürich.",
      "",
  };
  return lines;
}

// Made with sacreBLEU 2.6.0: BLEU(lowercase=...).corpus_score(hypotheses, [references]).
TEST_CASE("corpus_bleu: has the values of sacreBLEU") {
  const BleuScore mixed = corpus_bleu(hypotheses(), references());
  CHECK(std::abs(mixed.score - 43.573073) < 1e-6);
  CHECK(std::abs(mixed.brevity_penalty - 0.826565438) < 1e-9);
  CHECK(mixed.hypothesis_tokens == 63);
  CHECK(mixed.reference_tokens == 75);
  for (const auto& [n, precision] :
       {std::pair{0, 80.952381}, {1, 62.068966}, {2, 43.396226}, {3, 35.416667}})
    CHECK(std::abs(mixed.precisions[n] - precision) < 1e-6);
  const BleuScore lower = corpus_bleu(hypotheses(), references(), {.lower_case = true});
  CHECK(std::abs(lower.score - 48.567820) < 1e-6);
  CHECK(bleu_signature() == "nrefs:1|case:mixed|eff:no|tok:13a|smooth:exp");
  CHECK(bleu_signature({.lower_case = true}) == "nrefs:1|case:lc|eff:no|tok:13a|smooth:exp");
}

TEST_CASE("corpus_bleu: smoothing, short and empty sentences, as in sacreBLEU") {
  const auto score = [](const std::string& hypothesis, const std::string& reference) {
    return corpus_bleu(Lines{hypothesis}, Lines{reference}).score;
  };
  CHECK(std::abs(score("The dog ran far away.", "A dog runs very far away today.") - 13.832544) <
        1e-6);
  CHECK(std::abs(score("a b c d e", "a c b e d") - 15.973578) < 1e-6);
  CHECK(std::abs(score("the the the the", "the cat sat on the mat") - 11.521591) < 1e-6);
  CHECK(score("a dog runs", "a dog runs") == 0);  // it has no 4-grams
  CHECK(score("one two", "three four") == 0);
  CHECK(score("", "a dog") == 0);
  CHECK(score("a dog", "") == 0);
  CHECK(std::abs(corpus_bleu(references(), references()).score - 100) < 1e-9);
  CHECK(corpus_bleu({}, {}).score == 0);
  CHECK_THROWS_AS(corpus_bleu(Lines{"a", "b"}, Lines{"a"}), std::invalid_argument);
}

TEST_SUITE_END();

}  // namespace
}  // namespace tapestry
