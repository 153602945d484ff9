#include <doctest/doctest.h>

#include <cmath>

#include "data/text/bleu.hpp"
#include "tests/support/process.hpp"

namespace tapestry {
namespace {

using Lines = Strings;

TEST_SUITE_BEGIN("bleu");

TEST_CASE("tokenize_13a: punctuation, numbers, hyphens and entities") {
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
TEST_CASE("corpus_bleu: the values of sacreBLEU") {
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
