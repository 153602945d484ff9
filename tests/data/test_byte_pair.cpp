#include <doctest/doctest.h>

#include <ctime>
#include <map>

#include "autograd/random.hpp"
#include "data/input_file.hpp"
#include "data/text/byte_pair.hpp"
#include "data/text/unicode.hpp"
#include "data/text/word_counts.hpp"
#include "tests/support/labels.hpp"
#include "tests/support/process.hpp"

namespace tapestry {
namespace {

using Pieces = std::vector<std::string_view>;

TEST_SUITE_BEGIN("byte_pair");

// --- unicode ---

TEST_CASE("kind_of: tells letters, numbers, spaces and others apart") {
  using enum CharacterKind;
  const std::pair<char32_t, CharacterKind> expected[] = {
      {U'a', letter},     {U'Z', letter},     {U'ß', letter},     {U'É', letter},
      {U'ª', letter},     {U'ǅ', letter},     {U'ʼ', letter},     {U'λ', letter},
      {U'Я', letter},     {U'ế', letter},     {U'ⁿ', letter},     {U'0', number},
      {U'²', number},     {U'¾', number},     {U'Ⅷ', number},     {U'①', number},
      {U' ', space},      {U'\t', space},     {U'\u00A0', space}, {U'\u2009', space},
      {U'\u3000', space}, {U'\u200B', other}, {U'_', other},      {U'×', other},
      {U'€', other},      {U'„', other},      {U'\u0301', other}, {U'中', letter},
      {U'。', other},     {U'😀', other},      {U'\x1F', other}};
  for (const auto& [character, kind] : expected) {
    CAPTURE(static_cast<std::uint32_t>(character));
    CHECK(kind_of(character) == kind);
  }
}

TEST_CASE("unicode: texts that look alike are seen as one, and digits of all scripts read") {
  for (const std::string text :
       {"Café", "cafe\u0301", "CAFÉ\u200b", "\u00A0café ", "ｃａｆé", "\u200fcafé"})
    CHECK(as_seen(text) == "café");
  CHECK(as_seen("cafe") != "café");
  CHECK(as_seen("") == "");
  for (const auto& [a, b] : {std::pair("Masse", "Maße"),
                             {"m2", "m²"},
                             {"IV", "Ⅳ"},
                             {"👨\u200d👩", "👨👩"},
                             {"می\u200cخواهم", "میخواهم"}})
    CHECK(as_seen(a) != as_seen(b));
  CHECK_THROWS_AS(as_seen("\xff"), std::invalid_argument);
  CHECK(with_ascii_digits("١٬٢٣٤٫٥ ۷ ９．５ －１ ५ 𝟗 a1") == "1,234.5 7 9.5 -1 5 9 a1");
  CHECK(with_ascii_digits("\xff½Ⅷ²") == "\xff½Ⅷ²");
}

TEST_CASE("lower_case: converts each character alone") {
  CHECK(lower_case("Straße ÄÖÜ ÀÉÎÕÝÞ ×÷ ŁŐŽ Ÿ ẞ") == "straße äöü àéîõýþ ×÷ łőž ÿ ß");
  CHECK(lower_case("ΑΣ ΆΏ ЖЁ ՃԱ Ế Ǆ ǅ") == "ασ άώ жё ճա ế ǆ ǆ");
  CHECK(lower_case("İ") == "i\u0307");
  CHECK(lower_case("Ⅷ Ⓐ Å ᾏ Ὂ") == "ⅷ ⓐ å ᾇ ὂ");
  CHECK(lower_case("Ａ Ა 𐐀 Ꭰ ſ ß ŉ 1") == "ａ ა 𐐨 ꭰ ſ ß ŉ 1");
  CHECK(lower_case("\u0378 \U0010FFFF") == "\u0378 \U0010FFFF");  // unassigned
  CHECK(lower_case("").empty());
  CHECK_THROWS_AS(lower_case("a\xFF"), std::invalid_argument);
}

TEST_CASE("append_utf8: is the inverse of code_point_at") {
  for (const char32_t character :
       {U'a', U'\x7F', U'\u0080', U'\u07FF', U'\u0800', U'\uFFFD', U'\U00010000', U'\U0010FFFF'}) {
    std::string text;
    append_utf8(text, character);
    CHECK(code_point_at(text, 0).value == character);
    CHECK(code_point_at(text, 0).bytes == std::ssize(text));
  }
}

// --- pieces ---

TEST_CASE("byte_level_pieces: splits by GPT-2's pattern") {
  CHECK(byte_level_pieces("").empty());
  CHECK(byte_level_pieces("Hello world!") == Pieces{"Hello", " world", "!"});
  CHECK(byte_level_pieces("I'll we've he'S don't") ==
        Pieces{"I", "'ll", " we", "'ve", " he", "'", "S", " don", "'t"});
  CHECK(byte_level_pieces("a's' 'sun") == Pieces{"a", "'s", "'", " '", "sun"});
  CHECK(byte_level_pieces("x  y\n\nz \n w") ==
        Pieces{"x", " ", " y", "\n", "\n", "z", " \n", " w"});
  CHECK(byte_level_pieces("end  ") == Pieces{"end", "  "});
  CHECK(byte_level_pieces("a\u00A0\u00A0b\tc") == Pieces{"a", "\u00A0", "\u00A0", "b", "\t", "c"});
  CHECK(byte_level_pieces("1,000.5kg ²³ Größe-42 „ja“ …") ==
        Pieces{"1", ",", "000", ".", "5", "kg", " ²³", " Größe", "-", "42", " „", "ja", "“", " …"});
  CHECK_THROWS_AS(byte_level_pieces("a\xC3"), std::invalid_argument);
}

TEST_CASE("visible_character: returns 256 different characters") {
  CHECK(visible_character('a') == U'a');
  CHECK(visible_character(' ') == U'Ġ');
  CHECK(visible_character('\n') == U'Ċ');
  CHECK(visible_character(0xC3) == U'Ã');
  CHECK(visible_character(0xAD) == char32_t{0x143});
  std::map<char32_t, int> seen;
  for (int byte = 0; byte < 256; ++byte) ++seen[visible_character(static_cast<std::uint8_t>(byte))];
  CHECK(seen.size() == 256);
}

// --- training ---

const Strings& sentences() {
  static const Strings all = {
      "A boat with two sails lies at the old harbour wall.",
      "Three children are feeding the ducks by the pond, and one duck isn't hungry.",
      "The baker's oven is hot; she'll bake 1,200 rolls before 6 o'clock.",
      "Two dogs run along the beach while the children are watching.",
      "An old man reads the newspaper on a bench in the park.",
      "Ein Boot mit zwei Segeln liegt an der alten Hafenmauer.",
      "Drei Kinder füttern die Enten am Teich, und eine Ente ist nicht hungrig.",
      "Der Ofen der Bäckerin ist heiß; sie backt 1.200 Brötchen vor 6 Uhr.",
      "Zwei Hunde laufen über den Strand, während die Kinder zuschauen.",
      "Ein alter Mann liest auf einer Bank im Park die Zeitung.",
  };
  return all;
}

TEST_CASE("BytePairTokenizer: learns the most frequent pairs first, and ties by their tokens") {
  const Strings texts = {"low low low low low lower lower newest newest newest",
                         "newest newest newest widest widest widest"};
  const auto tokenizer = BytePairTokenizer::train(texts, {.vocabulary = 270});
  const auto token = [&](std::size_t id) { return tokenizer.model().tokens[id]; };
  CHECK(tokenizer.size() == 270);
  CHECK(token(0) == "<pad>");
  CHECK(token(unknown_token) == "<unk>");
  CHECK(token(4) == "!");
  CHECK(token(4 + 94) == "\xA1");
  CHECK(token(4 + 188) == std::string(1, '\0'));
  const Strings learned(tokenizer.model().tokens.begin() + 260, tokenizer.model().tokens.end());
  CHECK(learned ==
        Strings{"es", "est", "lo", "low", "ew", "new", " low", "newest", " newest", "dest"});
}

TEST_CASE("BytePairTokenizer: counts pairs correctly that overlap with a merge") {
  const Strings texts = {"aaaa aaaaa aaa", "abababab ababab"};
  const auto tokenizer = BytePairTokenizer::train(texts, {.vocabulary = 300, .least_count = 1});
  for (const std::string& text : texts) CHECK(tokenizer.decode(tokenizer.encode(text)) == text);
  CHECK(tokenizer.encode("aaaa").size() == 1);
  CHECK(tokenizer.encode(" ababab").size() == 1);
  CHECK(tokenizer.size() < 300);  // no pair to merge
}

TEST_CASE("BytePairTokenizer: the options and the text limit the vocabulary") {
  CHECK(BytePairTokenizer::train(sentences(), {.vocabulary = 300}).size() == 300);
  const auto all = BytePairTokenizer::train(sentences(), {.vocabulary = 8000});
  CHECK(all.size() == 345);  // every remaining pair occurs once
  const auto none = BytePairTokenizer::train({}, {.special_tokens = {"<sep>", "<2de>"}});
  CHECK(none.size() == 258);
  CHECK(none.find("<sep>") == 0);
  CHECK(none.find("<2de>") == 1);
  CHECK(none.find("!") == 2);
  CHECK(none.find("<mask>") == -1);
  CHECK(none.encode("ab") == Tokens{none.find("a"), none.find("b")});
}

// Made with Hugging Face's tokenizers 0.23.3: Tokenizer.from_file(saved file).encode(text).ids.
TEST_CASE("BytePairTokenizer: Hugging Face's tokenizers has the same ids for the saved file") {
  const std::string english = "Two children lie by the old harbour.";
  const std::string german = "Zwei Kinder laufen über den Park – das heißt: 1.250 m!";
  const std::string odd = "She'll  READ\u00A0the 'Zeitung'.";
  const auto cased = BytePairTokenizer::train(sentences(), {.vocabulary = 400});
  CHECK(cased.encode(english) ==
        Tokens{55, 312, 342, 294, 267, 92, 270, 335, 281, 284, 69, 82, 88, 85, 17});
  CHECK(cased.encode(german) == Tokens{61,  313, 343, 282, 285, 286, 224, 315, 69, 261, 266, 260,
                                       224, 51,  339, 224, 162, 226, 245, 266, 68, 86,  224, 263,
                                       76,  131, 257, 87,  29,  316, 17,  21,  24, 19,  321, 4});
  CHECK(cased.encode(odd) == Tokens{54,  263, 10,  287, 224, 224, 53,  40, 36,  39, 130,
                                    258, 87,  263, 224, 10,  61,  278, 87, 293, 10, 17});
  const auto lower = BytePairTokenizer::train(sentences(), {.vocabulary = 400, .lower_case = true});
  CHECK(lower.encode(english) ==
        Tokens{338, 342, 297, 262, 92, 273, 330, 271, 285, 69, 82, 88, 85, 17});
  CHECK(lower.encode(german) == Tokens{93,  313, 340, 282, 286, 288, 224, 315, 69, 261, 267,
                                       260, 335, 224, 162, 226, 245, 267, 68,  86, 271, 264,
                                       131, 257, 87,  29,  316, 17,  21,  24,  19, 291, 4});
  CHECK(lower.encode(odd) == Tokens{86,  75,  72,  10, 289, 224, 224, 277, 68, 71, 130,
                                    258, 268, 224, 10, 93,  264, 87,  290, 10, 17});
}

TEST_CASE("BytePairTokenizer: decodes any text unchanged, except capitals with lower_case") {
  const std::string text = "Zoë's  café\u00A0– 3½ „Ü“\n\t日本 😀 <eos>\r\n ";
  const auto cased = BytePairTokenizer::train(sentences());
  CHECK(cased.decode(cased.encode(text)) == text);
  const auto lower = BytePairTokenizer::train(sentences(), {.lower_case = true});
  CHECK(lower.decode(lower.encode(text)) == lower_case(text));
  CHECK(lower.encode("THE HARBOUR") == lower.encode("the harbour"));
  CHECK(cased.encode("").empty());
}

TEST_CASE("BytePairTokenizer: long pieces are not cut") {
  const auto tokenizer =
      BytePairTokenizer::train(Strings{"aaaaaaaa aaaaaaaa"}, {.vocabulary = 300, .least_count = 1});
  const std::string text(200'000, 'a');  // in linear time
  CHECK(tokenizer.encode(text).size() == 25'000);
  CHECK(tokenizer.decode(tokenizer.encode(text)) == text);
}

TEST_CASE("BytePairTokenizer: special tokens are never read from text, nor written to it") {
  const auto tokenizer = BytePairTokenizer::train(sentences());
  for (const std::int32_t token : tokenizer.encode("<pad><bos><eos><unk>"))
    CHECK(token > unknown_token);
  const std::int32_t a = tokenizer.find("a");
  CHECK(tokenizer.decode(Tokens{bos_token, a, pad_token, a, eos_token, unknown_token}) == "aa");
}

TEST_CASE("BytePairTokenizer: decode replaces what is not UTF-8") {
  const auto tokenizer = BytePairTokenizer::train({});
  const auto decode = [&](std::string_view bytes) {
    Tokens tokens;
    for (const char byte : bytes) tokens.push_back(tokenizer.find({&byte, 1}));
    return tokenizer.decode(tokens);
  };
  CHECK(decode("é€😀") == "é€😀");
  CHECK(decode("a\xC3") == "a\uFFFD");
  CHECK(decode("\xE2\x82z") == "\uFFFDz");
  CHECK(decode("\xF0\x9F\x98") == "\uFFFD");
  CHECK(decode("\xF0\x9F\xE2\x82\xAC") == "\uFFFD€");
  CHECK(decode("\xFF\x80\xC0\xAF") == "\uFFFD\uFFFD\uFFFD\uFFFD");
  CHECK(decode("\xED\xA0\x80") == "\uFFFD\uFFFD\uFFFD");
  CHECK_THROWS_AS(tokenizer.decode(Tokens{260}), std::invalid_argument);
  CHECK_THROWS_AS(tokenizer.decode(Tokens{-1}), std::invalid_argument);
}

TEST_CASE("BytePairTokenizer: refuses wrong options and texts") {
  const auto train = [](const Strings& texts, const BytePairOptions& options) {
    return message_of([&] { BytePairTokenizer::train(texts, options); });
  };
  check_says(train({}, {.vocabulary = 259}), {"259 tokens", "at least 260"});
  check_says(train({}, {.vocabulary = 256, .special_tokens = {"<a>"}}), {"at least 257"});
  check_says(train({}, {.special_tokens = {"sep"}}), {"special token", "'sep'", "<sep>"});
  check_says(train({}, {.special_tokens = {""}}), {"special token", "''"});
  check_says(train({}, {.special_tokens = {"<eos>", "<eos>"}}), {"'<eos>'", "twice"});
  check_says(train({"fine", "caf\xE9"}, {}), {"text 1", "byte 3", "UTF-8"});
  const auto tokenizer = BytePairTokenizer::train({});
  CHECK_ERROR(tokenizer.encode("ab\x80"), "byte 2", "UTF-8");
}

// --- tokenizer.json ---

TEST_CASE_FIXTURE(TemporaryFolder, "BytePairTokenizer: is the same after saving and loading") {
  for (const bool lower : {false, true}) {
    const auto tokenizer = BytePairTokenizer::train(
        sentences(),
        {.vocabulary = 400, .lower_case = lower, .special_tokens = {"<unk>", "<sep>"}});
    const auto loaded = BytePairTokenizer::load(write("tokenizer.json", tokenizer.to_json()));
    CHECK(loaded.to_json() == tokenizer.to_json());
    CHECK(loaded.model().tokens == tokenizer.model().tokens);
    CHECK(loaded.model().special == tokenizer.model().special);
    CHECK(loaded.model().merges == tokenizer.model().merges);
    CHECK(loaded.model().pieces.lower_case == lower);
    for (const std::string& text : sentences())
      CHECK(loaded.encode(text) == tokenizer.encode(text));
  }
}

TEST_CASE("BytePairTokenizer: reads merges as pairs, as newer versions of tokenizers write them") {
  const auto tokenizer = BytePairTokenizer::train(sentences(), {.vocabulary = 300});
  auto json = Json::parse(tokenizer.to_json());
  for (Json& merge : json["model"]["merges"]) {
    const std::string text = merge;
    const std::size_t space = text.find(' ');
    merge = {text.substr(0, space), text.substr(space + 1)};
  }
  const auto loaded = BytePairTokenizer::from_json(json.dump(), "pairs.json");
  CHECK(loaded.to_json() == tokenizer.to_json());
}

TEST_CASE("BytePairTokenizer: the error for an unsupported tokenizer.json names the field") {
  const std::string json = BytePairTokenizer::train(sentences(), {.vocabulary = 300}).to_json();
  const auto read = [](const std::string& text) {
    return message_of([&] { BytePairTokenizer::from_json(text, "some/tokenizer.json"); });
  };
  const auto with = [&](const std::string& from, const std::string& to) {
    return read(replaced(json, from, to));
  };
  CHECK(read(json).empty());
  check_says(read(""), {"some/tokenizer.json", "line 1", "JSON"});
  check_says(read("{\n\"model\":\n}"), {"line 3", "JSON"});
  check_says(read("{\"a\": \"\xFF\"}"), {"line 1", "JSON"});
  check_says(read("[1]"), {"an object", "[1]"});
  check_says(read("{}"), {"some/tokenizer.json", "model.type", "\"BPE\"", "null"});
  check_says(read("{\"model\": 3}"), {"model.type"});
  check_says(with("\"BPE\"", "\"WordPiece\""), {"model.type", "\"BPE\"", "\"WordPiece\""});
  check_says(with("\"dropout\": null", "\"dropout\": 0.1"), {"model.dropout", "0.1"});
  check_says(with("suffix\": null", "suffix\": \"</w>\""), {"model.end_of_word_suffix", "</w>"});
  check_says(with("prefix\": null", "prefix\": \"##\""), {"model.continuing_subword_prefix", "##"});
  check_says(with("fallback\": false", "fallback\": true"), {"model.byte_fallback", "true"});
  check_says(with("ignore_merges\": false", "ignore_merges\": 3"), {"model.ignore_merges", "3"});
  check_says(with("normalizer\": null", "normalizer\": {\"type\": \"NFKC\"}"),
             {"normalizer", "null, NFC, Lowercase, or a Sequence", "NFKC"});
  CHECK(with("normalizer\": null", "normalizer\": {\"type\": \"Lowercase\"}").empty());
  check_says(with("\"ByteLevel\"", "\"Whitespace\""),
             {"pre_tokenizer.type", "ByteLevel", "GPT-2, SmolLM2, Llama 3 and Qwen2"});
  check_says(with("prefix_space\": false", "prefix_space\": 1"),
             {"pre_tokenizer.add_prefix_space", "false"});
  check_says(with("use_regex\": true", "use_regex\": false"), {"pre_tokenizer.use_regex", "true"});
  check_says(with("processor\": null", "processor\": {\"type\": \"BertProcessing\"}"),
             {"post_processor.type", "BertProcessing"});
  CHECK(with("processor\": null", "processor\": {\"type\": \"ByteLevel\"}").empty());
  check_says(with("\"decoder\"", "\"decoded\""), {"decoder.type", "ByteLevel"});
  check_says(with("\"added_tokens\"", "\"added\""), {"added_tokens", "list", "null"});
  check_says(with("\"special\": true", "\"special\": 1"), {"added_tokens[0]", "special"});
  check_says(with("\"rstrip\": false", "\"rstrip\": true"), {"added_tokens[0].rstrip", "false"});
  check_says(with("\"content\": \"<bos>\"", "\"content\": 7"), {"added_tokens[1]", "content"});
  check_says(with("\"content\": \"<bos>\"", "\"content\": \"<pad>\""), {"added_tokens[1]"});
  check_says(with("\"id\": 2", "\"id\": 301"), {"added_tokens[2].id", "model.vocab, 2", "301"});
  check_says(with("\"id\": 2", "\"id\": 2.5"), {"added_tokens[2].id", "2.5"});
  check_says(with("\"<bos>\": 1", "\"<bos>\": 5"), {"added_tokens[1].id", "5"});
  check_says(with("\"<eos>\": 2", "\"<odd>\": 2"),
             {"added_tokens[2].id", "300, the next one after", "2"});
  check_says(with("\"vocab\": {", "\"vocab\": 3, \"old\": {"), {"model.vocab", "object"});
  check_says(with("\"a\": 68", "\"a\": 69"),
             {"model.vocab[\"b\"]", "that no other token has", "69"});
  check_says(with("\"a\": 68", "\"a\": -1"), {"model.vocab[\"a\"]", "0 to 299", "-1"});
  check_says(with("\"a\": 68", "\"a\": \"68\""), {"model.vocab[\"a\"]", "\"68\""});
  check_says(with("\"a\": 68", "\"a b\": 68"), {"model.vocab[\"a b\"]", "encode bytes"});
  check_says(with("\"a\": 68", "\"qqq\": 68"), {"model.merges[", "whose concatenation is a token"});
  check_says(with("\"a\": 68", "\"\": 68"), {"model.vocab[\"\"]", "empty"});
  check_says(with("\"merges\"", "\"merged\""), {"model.merges", "list"});
  check_says(with("\"merges\": [", "\"merges\": [\"a\","),
             {"model.merges[0]", "two tokens", "\"a\""});
  check_says(with("\"merges\": [", "\"merges\": [7,"), {"model.merges[0]", "7"});
  check_says(with("\"merges\": [", "\"merges\": [[\"a\"],"), {"model.merges[0]", "[\"a\"]"});
  check_says(with("\"merges\": [", "\"merges\": [\"q q\","), {"model.merges[0]", "model.vocab"});
  check_says(with("\"merges\": [", "\"merges\": [\"< pad>\","), {"model.merges[0]"});
  CHECK(with("\"merges\": [", "\"merges\": [[\"e\", \"n\"],").empty());
}

// Tests how byte pairs are learned from large texts and long words.

using Pair = BytePairModel::Pair;

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

TEST_CASE("BytePairTokenizer: the merges equal those of counting all pairs each time") {
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

TEST_CASE("bug: learning from and encoding a text without spaces took quadratic time") {
  Random random(2, Stream::data);
  const std::string text = drawn(800'000, "abcdefghijklmnopqrstuvwxyz", random);
  const std::clock_t begin = std::clock();  // CPU seconds, independent of the machine's load
  const auto tokenizer = BytePairTokenizer::train(std::span(&text, 1), {.vocabulary = 8000});
  const Tokens tokens = tokenizer.encode(text);
  CHECK(std::clock() - begin < 60 * CLOCKS_PER_SEC);  // earlier: four minutes
  CHECK(tokenizer.size() == 8000);
  CHECK(tokens.size() < 400'000);
  CHECK(tokenizer.decode(tokens) == text);
}

std::map<std::string, std::int64_t> counted(const WordCounts& words) {
  return {words.counts().begin(), words.counts().end()};
}

TEST_CASE("WordCounts: the pieces do not depend on how a text is divided into parts") {
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

TEST_CASE("bug: a long piece, or all distinct pieces, took more memory than the limit") {
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
  CHECK_ERROR(words.end_text(), "more than 11 bytes of distinct words");
}

// --- files ---

TEST_CASE_FIXTURE(TemporaryFolder,
                  "read_text_parts: bytes and errors do not depend on where a text is cut") {
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

TEST_CASE("BytePairTokenizer: learns the same from files and from their texts" *
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
  CHECK_ERROR(BytePairTokenizer::train_on_files(std::span(&empty, 1)), "empty.txt",
              "the file is empty");
}

TEST_SUITE_END();

}  // namespace
}  // namespace tapestry
