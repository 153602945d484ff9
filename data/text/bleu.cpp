#include "data/text/bleu.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <iterator>

#include "autograd/check.hpp"
#include "data/input_file.hpp"
#include "data/text/unicode.hpp"

namespace tapestry {
namespace {

constexpr std::size_t max_order = 4;

bool is_digit(char character) { return character >= '0' && character <= '9'; }
bool is_stop(char character) { return character == '.' || character == ','; }

// Returns whether the character is ASCII punctuation other than ' , - and .
bool is_symbol(char character) {
  constexpr std::string_view symbols = "!\"#$%&()*+/:;<=>?@[\\]^_`{|}~";
  return symbols.find(character) != std::string_view::npos;
}

void replace_all(std::string& text, std::string_view from, std::string_view to) {
  for (std::size_t at = text.find(from); at != std::string::npos;
       at = text.find(from, at + to.size()))
    text.replace(at, from.size(), to);
}

// Replaces, from left to right, each pair of characters that `matches` by what `write` appends.
// A character is part of one match at most, as in a regular expression's substitution.
template <class Matches, class Write>
std::string substitute_pairs(const std::string& text, Matches matches, Write write) {
  std::string result;
  std::size_t i = 0;
  while (i < text.size()) {
    if (i + 1 < text.size() && matches(text[i], text[i + 1])) {
      write(result, text[i], text[i + 1]);
      i += 2;
    } else {
      result += text[i++];
    }
  }
  return result;
}

std::string space_symbols(const std::string& text) {
  std::string result;
  for (const char character : text) {
    if (is_symbol(character)) result += ' ';
    result += character;
    if (is_symbol(character)) result += ' ';
  }
  return result;
}

// Returns whether Python's str.split() treats the character as white space, as U+001C–U+001F.
bool splits_words(char32_t character) {
  return kind_of(character) == CharacterKind::space || (character >= 0x1C && character <= 0x1F);
}

std::vector<std::string> split_words(std::string_view text) {
  std::vector<std::string> words;
  bool inside = false;
  for (std::size_t offset = 0; offset < text.size();) {
    const CodePoint point = code_point_at(text, offset);
    const auto bytes = point.bytes;
    const bool space = splits_words(point.value);
    if (!space && !inside) words.emplace_back();
    if (!space) words.back() += text.substr(offset, bytes);
    inside = !space;
    offset += bytes;
  }
  return words;
}

// Returns what Python's str.rstrip() does. Throws std::invalid_argument for text that is not UTF-8.
std::string_view without_trailing_space(std::string_view text) {
  std::size_t kept = 0;
  for (std::size_t offset = 0; offset < text.size();) {
    const CodePoint point = code_point_at(text, offset);
    require(point.bytes > 0, "tokenize_13a: byte {} is not UTF-8; expected UTF-8 text", offset);
    offset += point.bytes;
    if (!splits_words(point.value)) kept = offset;
  }
  return text.substr(0, kept);
}

// Shorter n-grams end in empty words.
using Ngram = std::array<std::string_view, max_order>;

std::vector<Ngram> sorted_ngrams(const std::vector<std::string>& words, std::size_t order) {
  std::vector<Ngram> ngrams;
  for (std::size_t first = 0; first + order <= words.size(); ++first)
    std::copy_n(words.begin() + static_cast<std::ptrdiff_t>(first), order,
                ngrams.emplace_back().begin());
  std::ranges::sort(ngrams);
  return ngrams;
}

struct Counts {
  double matching = 0;
  double total = 0;
};

// Returns precisions in percent. An order without a match counts as 1/2 match, the next one as 1/4,
// …; orders that are longer than every hypothesis have 0.
std::array<double, max_order> smoothed(const std::array<Counts, max_order>& counts) {
  std::array<double, max_order> precisions{};
  double credit = 1;
  for (std::size_t n = 0; n < max_order && counts[n].total > 0; ++n) {
    if (counts[n].matching == 0) credit /= 2;
    const double matching = counts[n].matching == 0 ? credit : counts[n].matching;
    precisions[n] = 100 * matching / counts[n].total;
  }
  return precisions;
}

double geometric_mean(const std::array<double, max_order>& precisions) {
  double sum = 0;
  for (const double precision : precisions) sum += std::log(precision);  // -inf: the mean is 0
  return std::exp(sum / max_order);
}

}  // namespace

std::string bleu_signature(const BleuOptions& options) {
  return fmt::format("nrefs:1|case:{}|eff:no|tok:13a|smooth:exp",
                     options.lower_case ? "lc" : "mixed");
}

std::vector<std::string> tokenize_13a(std::string_view line) {
  std::string text(without_trailing_space(line));
  replace_all(text, "<skipped>", "");
  replace_all(text, "-\n", "");
  replace_all(text, "\n", " ");
  replace_all(text, "&quot;", "\"");
  replace_all(text, "&amp;", "&");
  replace_all(text, "&lt;", "<");
  replace_all(text, "&gt;", ">");
  text = space_symbols(" " + text + " ");
  text = substitute_pairs(  // a period or comma that no digit precedes
      text, [](char a, char b) { return !is_digit(a) && is_stop(b); },
      [](std::string& out, char a, char b) {
        (out += a).append({' ', b, ' '});
      });
  text = substitute_pairs(  // if no digit follows
      text, [](char a, char b) { return is_stop(a) && !is_digit(b); },
      [](std::string& out, char a, char b) {
        out.append({' ', a, ' ', b});
      });
  text = substitute_pairs(  // a hyphen after a digit
      text, [](char a, char b) { return is_digit(a) && b == '-'; },
      [](std::string& out, char a, char b) {
        out.append({a, ' ', b, ' '});
      });
  return split_words(text);
}

BleuScore corpus_bleu(std::span<const std::string> hypotheses,
                      std::span<const std::string> references, const BleuOptions& options) {
  require(hypotheses.size() == references.size(),
          "corpus_bleu: {} hypotheses and {} references; expected equally many", hypotheses.size(),
          references.size());
  const auto words_of = [&](const std::string& line) {
    return tokenize_13a(options.lower_case ? lower_case(line) : line);
  };
  BleuScore result;
  std::array<Counts, max_order> counts{};
  for (std::size_t i = 0; i < hypotheses.size(); ++i) {
    const std::vector<std::string> hypothesis = words_of(hypotheses[i]);
    const std::vector<std::string> reference = words_of(references[i]);
    result.hypothesis_tokens += std::ssize(hypothesis);
    result.reference_tokens += std::ssize(reference);
    for (std::size_t n = 0; n < max_order; ++n) {
      const auto ours = sorted_ngrams(hypothesis, n + 1), theirs = sorted_ngrams(reference, n + 1);
      std::vector<Ngram> matching;  // each n-gram with the smaller of its two counts
      std::ranges::set_intersection(ours, theirs, std::back_inserter(matching));
      counts[n].matching += static_cast<double>(matching.size());
      counts[n].total += static_cast<double>(ours.size());
    }
  }
  const auto ours = static_cast<double>(result.hypothesis_tokens);
  const auto theirs = static_cast<double>(result.reference_tokens);
  if (result.hypothesis_tokens > 0)
    result.brevity_penalty = ours < theirs ? std::exp(1 - theirs / ours) : 1;
  const bool any = std::ranges::any_of(counts, [](const Counts& n) { return n.matching > 0; });
  if (!any) return result;
  result.precisions = smoothed(counts);
  result.score = result.brevity_penalty * geometric_mean(result.precisions);
  return result;
}

}  // namespace tapestry
