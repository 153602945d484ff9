#include <doctest/doctest.h>

#include "autograd/parallel.hpp"
#include "autograd/random.hpp"
#include "data/text/text_encoder.hpp"
#include "tests/support/process.hpp"
#include "tests/support/small.hpp"
#include "tests/support/tokens.hpp"

namespace tapestry {
namespace {

TEST_SUITE_BEGIN("data");

// Words and signs of several scripts, with places to cut at not too far from one another.
std::string drawn_text(Random& random, std::int64_t words) {
  const Strings parts = {"green",  "bottle's", "HANGING",   "on", "1842",     "don't",
                         "naïve",  "日本語",   "。",        "，", "🙂🙂", "-- ...",
                         "\r\n\n", "\t ",      "e\u0301té", "x",  "“quoted”"};
  std::string text;
  for (std::int64_t i = 0; i < words; ++i) {
    text += parts[random.below(std::ssize(parts))];
    if (random.below(2) == 0) text += i % 3 == 0 ? "wall\n" : "wall ";
  }
  return text;
}

struct Fed {
  std::size_t part_bytes;
  std::size_t at_a_time;
};

Tokens encoded(const BytePairTokenizer& tokenizer, const std::string& text,
               const TextEncoderOptions& options, std::size_t at_a_time) {
  Tokens tokens;
  TextEncoder encoder(tokenizer, options, [&](std::span<const std::int32_t> more) {
    tokens.insert(tokens.end(), more.begin(), more.end());
  });
  for (std::size_t begin = 0; begin < text.size();) {
    std::size_t end = std::min(text.size(), begin + at_a_time);
    while (end < text.size() && (text[end] & 0xC0) == 0x80) ++end;
    encoder.add(std::string_view(text).substr(begin, end - begin));
    begin = end;
  }
  encoder.end_text();
  encoder.finish();
  return tokens;
}

TEST_CASE("TextEncoder: each document begins with the given tokens, once, however it is cut") {
  const BytePairTokenizer tokenizer = small_tokenizer(story(50), 300);
  const Tokens begin = {1, 0};
  const std::string one = story(3), other = story(9);
  const auto with = [&](const Tokens& before, const std::string& text) {
    Tokens tokens = before;
    for (const std::int32_t token : tokenizer.encode(text)) tokens.push_back(token);
    tokens.push_back(0);
    return tokens;
  };
  for (const std::size_t part_bytes : {std::size_t{8}, std::size_t{40}, std::size_t{1} << 18}) {
    CAPTURE(part_bytes);
    const TextEncoderOptions options{
        .begin_of_text = begin, .end_of_text = 0, .part_bytes = part_bytes};
    CHECK(encoded(tokenizer, one, options, 5) == with(begin, one));
    TextEncoderOptions rest = options;
    rest.continues = true;
    CHECK(encoded(tokenizer, one, rest, 5) == with({}, one));

    Tokens tokens, expected = with(begin, one);
    TextEncoder encoder(tokenizer, options, [&](std::span<const std::int32_t> more) {
      tokens.insert(tokens.end(), more.begin(), more.end());
    });
    encoder.add(one);
    encoder.end_text();
    encoder.end_text();  // no document
    encoder.add(other);
    encoder.pause_text();
    encoder.end_text();
    encoder.finish();
    for (const std::int32_t token : with(begin, other)) expected.push_back(token);
    CHECK(tokens == expected);
  }
}

TEST_CASE("TextEncoder: parts make the tokens of the whole, however they come") {
  Random random(7, Stream::data);
  const BytePairTokenizer tokenizer = small_tokenizer(story(50) + drawn_text(random, 2000), 500);
  const std::int32_t end = *end_of_text_of(tokenizer);
  for (int i = 0; i < 20; ++i) {
    const std::string text = drawn_text(random, 300);
    Tokens whole = tokenizer.encode(text);
    whole.push_back(end);
    for (const Fed fed : {Fed{64, 1}, Fed{100, 7}, Fed{300, 100000}, Fed{1 << 18, 50}})
      CHECK(encoded(tokenizer, text, {.end_of_text = end, .part_bytes = fed.part_bytes},
                    fed.at_a_time) == whole);
  }
}

TEST_CASE("TextEncoder: a text without a place to cut is cut all the same, between characters") {
  const BytePairTokenizer tokenizer = small_tokenizer(story());
  std::string text;
  for (int i = 0; i < 500; ++i) text += "éa";
  const Tokens parts = encoded(tokenizer, text, {.part_bytes = 8}, 50);
  CHECK(tokenizer.decode(parts) == text);
  CHECK(parts == encoded(tokenizer, text, {.part_bytes = 8}, 3));
}

TEST_CASE("TextEncoder: documents are texts, lines, or stand between names of the token") {
  const BytePairTokenizer tokenizer = small_tokenizer(story());
  const std::int32_t end = *end_of_text_of(tokenizer);
  const auto documents = [&](const std::string& text, const TextEncoderOptions& options) {
    const Tokens tokens = encoded(tokenizer, text, options, 1);
    for (const std::size_t at_a_time : {4, 1000})
      CHECK(encoded(tokenizer, text, options, at_a_time) == tokens);
    Strings found = {""};
    for (const std::int32_t token : tokens)
      if (token == end)
        found.emplace_back();
      else
        found.back() += tokenizer.bytes_of(token);
    return found;
  };
  TextEncoderOptions options{.end_of_text = end, .part_bytes = 8};
  CHECK(documents("one\ntwo\n", options) == Strings{"one\ntwo\n", ""});
  options.documents = Documents::lines;
  CHECK(documents("one\r\n\ntwo more of them\nthree", options) ==
        Strings{"one", "two more of them", "three", ""});
  options.documents = Documents::separated;
  options.separator = "<|endoftext|>";
  CHECK(documents("once upon a time<|endoftext|>\nand then <|endoftext|><|endoftext|>", options) ==
        Strings{"once upon a time", "\nand then ", ""});
  CHECK(documents("no end <|endoftext and so on", options) ==
        Strings{"no end <|endoftext and so on", ""});
}

TEST_CASE("TextEncoder: the same at any number of threads") {
  const BytePairTokenizer tokenizer = small_tokenizer(story());
  const std::string text = story(2000);
  const int before = num_threads();
  std::vector<Tokens> found;
  for (const int threads : {1, 2, 5}) {
    set_num_threads(threads);
    found.push_back(encoded(tokenizer, text, {.part_bytes = 1000}, 4096));
  }
  set_num_threads(before);
  CHECK(found[0] == tokenizer.encode(text));
  CHECK(found[1] == found[0]);
  CHECK(found[2] == found[0]);
}

TEST_CASE("end_of_text_of: the token that is named, or the first of the usual ones") {
  const BytePairTokenizer with = small_tokenizer(story());
  CHECK(end_of_text_of(with) == with.find("<|endoftext|>"));
  const BytePairTokenizer usual =
      BytePairTokenizer::train(std::vector{story()}, {.vocabulary = 300});
  CHECK(end_of_text_of(usual) == usual.find("<eos>"));
  CHECK(end_of_text_of(usual, "<bos>") == usual.find("<bos>"));
  check_says(message_of([&] { end_of_text_of(usual, "wall"); }),
             {"the tokenizer has no special token wall"});
}

TEST_SUITE_END();

}  // namespace
}  // namespace tapestry
