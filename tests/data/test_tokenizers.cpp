#include <doctest/doctest.h>

#include "autograd/random.hpp"
#include "data/input_file.hpp"
#include "data/text/byte_pair.hpp"
#include "data/text/text.hpp"
#include "data/text/unicode.hpp"
#include "tests/support/process.hpp"

// Compares tokenizers of other models with Hugging Face's `tokenizers`: reading, encoding, writing.
namespace tapestry {
namespace {

using Pieces = std::vector<std::string_view>;

TEST_SUITE_BEGIN("tokenizers");

std::string golden_tokenizer(const std::string& name) {
  return golden_path("tokenizers/" + name + ".json");
}

Json golden(const std::string& name) { return Json::parse(read_bytes(golden_tokenizer(name))); }

const Strings kinds = {"gpt2", "smollm2", "llama3", "qwen2", "roberta"};

// --- Unicode ---

TEST_CASE("kind_of: knows whole ranges of letters and numbers, and all spaces") {
  using enum CharacterKind;
  const std::tuple<char32_t, char32_t, CharacterKind> ranges[] = {
      {U'A', U'Z', letter},      {U'a', U'z', letter},       {U'0', U'9', number},
      {0xD8, 0xF6, letter},      {0x300, 0x36F, other},      {0x3A3, 0x3F5, letter},
      {0x660, 0x669, number},    {0x904, 0x939, letter},     {0x1100, 0x1248, letter},
      {0x2070, 0x2070, number},  {0x2190, 0x2211, other},    {0x2460, 0x249B, number},
      {0x3041, 0x3096, letter},  {0x4E00, 0x9FFF, letter},   {0xAC00, 0xD7A3, letter},
      {0xD800, 0xF8FF, other},   {0x10107, 0x10133, number}, {0x1D400, 0x1D454, letter},
      {0x1F300, 0x1F64F, other}, {0x20000, 0x2A6DF, letter}, {0x31350, 0x323AF, letter},
      {0xE0100, 0xE01EF, other}, {0xF0000, 0x10FFFF, other}};
  for (const auto& [first, last, kind] : ranges)
    for (char32_t character = first; character <= last; ++character) {
      CAPTURE(static_cast<std::uint32_t>(character));
      REQUIRE(kind_of(character) == kind);
    }
  std::u32string spaces;  // White_Space, which has been the same since Unicode 6.3
  for (char32_t character = 0; character < 0x110000; ++character)
    if (kind_of(character) == space) spaces += character;
  CHECK(spaces ==
        U"\t\n\v\f\r \u0085\u00A0\u1680\u2000\u2001\u2002\u2003\u2004\u2005\u2006\u2007"
        U"\u2008\u2009\u200A\u2028\u2029\u202F\u205F\u3000");
  CHECK(kind_of(0x378) == other);  // unassigned
  CHECK(kind_of(0x110000) == other);
}

TEST_CASE("composed: returns normalization form C") {
  CHECK(composed("") == "");
  CHECK(composed("plain text, été") == "plain text, été");
  CHECK(composed("e\u0301te\u0301") == "été");
  CHECK(composed("\u212B A\u030A") == "\u00C5 \u00C5");                   // one stands for another
  CHECK(composed("\u1E0B\u0323") == "\u1E0D\u0307");                      // marks are put in order
  CHECK(composed("a\u0315\u0300\u05AE\u0301") == "à\u05AE\u0301\u0315");  // their order is kept
  CHECK(composed("\u0958 \u0344") == "\u0915\u093C \u0308\u0301");        // never put together
  CHECK(composed("\u1112\u1161\u11AB \uAC00\u11A8 \u11A8") == "한 각 \u11A8");
  CHECK(composed("\uAC00\u11A7\u11A8") == "\uAC00\u11A7\u11A8");            // a vowel of old Hangul
  CHECK(composed("\u0378\u0301 \U0010FFFF") == "\u0378\u0301 \U0010FFFF");  // unassigned
  CHECK(composed("\u0BC7\u0BBE \u09C7\u09D7") == "\u0BCB \u09CC");          // marks of class 0
  CHECK(composed("\u1FA7 ω\u0345\u0342\u0314") == "\u1FA7 \u1FF7\u0314");
  CHECK(composed("\u0301a") == "\u0301a");
  CHECK(composed("\u0F73\u0334") == "\u0334\u0F71\u0F72");
  CHECK(composed("\U0001D15E") == "\U0001D157\U0001D165");
  CHECK_THROWS_AS(composed("a\xC3"), std::invalid_argument);
}

TEST_CASE("settled_composition_bytes: a text can be composed in two parts at this place") {
  CHECK(settled_composition_bytes("ab") == 1);
  CHECK(settled_composition_bytes("abe\u0301\u0323") == 2);
  CHECK(settled_composition_bytes("\u0301") == 0);
  CHECK(settled_composition_bytes("x\uAC00\u11A8") == 1);
  CHECK(settled_composition_bytes("") == 0);
  CHECK(settled_composition_bytes("x\u09D7") == 0);
  CHECK(settled_composition_bytes("x\uAC00\u11A7") == 4);
}

// --- pieces ---

TEST_CASE("byte_level_pieces: splits digits by SmolLM2's pattern") {
  const auto pieces = [](std::string_view text) {
    return byte_level_pieces(text, PiecePattern::smollm2);
  };
  CHECK(pieces("in 1804, x2") == Pieces{"in", " ", "1", "8", "0", "4", ",", " x", "2"});
  CHECK(pieces("a  1  b") == Pieces{"a", "  ", "1", " ", " b"});
  CHECK(pieces("½Ⅷ's 's") == Pieces{"½", "Ⅷ", "'s", " '", "s"});
}

TEST_CASE("byte_level_pieces: splits by Llama 3's and Qwen2's patterns") {
  const auto pieces = [](std::string_view text) {
    return byte_level_pieces(text, PiecePattern::llama3);
  };
  CHECK(pieces("Hello world!") == Pieces{"Hello", " world", "!"});
  CHECK(pieces("he'S WE'LL I'vE it'ſ 'tis") ==
        Pieces{"he", "'S", " WE", "'LL", " I", "'vE", " it", "'ſ", " '", "tis"});
  CHECK(pieces("'rest 'x") == Pieces{"'re", "st", " '", "x"});
  CHECK(pieces("(a\tb\u00A0c") == Pieces{"(a", "\tb", "\u00A0c"});
  CHECK(pieces("1234567 12") == Pieces{"123", "456", "7", " ", "12"});
  CHECK(byte_level_pieces("1234 5", PiecePattern::qwen2) == Pieces{"1", "2", "3", "4", " ", "5"});
  CHECK(pieces("x;\n\n  y") == Pieces{"x", ";\n\n", " ", " y"});
  CHECK(pieces("x \n \n  y") == Pieces{"x", " \n \n", " ", " y"});
  CHECK(pieces("x\r\ny") == Pieces{"x", "\r\n", "y"});
  CHECK(pieces("x   1  ") == Pieces{"x", "  ", " ", "1", "  "});
  CHECK(pieces(" !\n a") == Pieces{" !\n", " a"});
  CHECK_THROWS_AS(pieces("a\xC3"), std::invalid_argument);
}

std::string drawn_text(Random& random) {
  static const Strings parts = {
      "a",  "The",    "'s",     "'LL",    "'ſ",     "'",  " ",  "  ", "\n",    "\r\n",
      "\t", "\u00A0", "1",      "42",     "½",      ".",  "!?", "<|", "<pad>", "é",
      "e",  "\u0301", "\u0323", "\u1112", "\u1161", "中", "😀",  "İ",  "=",     "\u0338"};
  std::string text;
  for (int left = static_cast<int>(random.below(12)); left >= 0; --left)
    text += parts[random.below(std::ssize(parts))];
  return text;
}

TEST_CASE("first_piece: a complete piece does not depend on the text after it") {
  Random random(1, Stream::data);
  for (int i = 0; i < 20'000; ++i) {
    const std::string start = drawn_text(random), whole = start + drawn_text(random);
    for (const auto pattern :
         {PiecePattern::gpt2, PiecePattern::smollm2, PiecePattern::llama3, PiecePattern::qwen2}) {
      const Piece piece = first_piece(start, pattern);
      if (!piece.settled) continue;
      CAPTURE(whole);
      REQUIRE(first_piece(whole, pattern).bytes == piece.bytes);
    }
  }
}

// --- names ---

TEST_CASE("NameFinder: finds the first name, and the longest of several") {
  NameFinder names;
  CHECK_FALSE(names.find("anything", 0));
  names.add("<a>", 1);
  names.add("<a><b>", 2);
  names.add("b", 3);
  const auto found = [&](std::string_view text, std::size_t from) {
    const auto match = names.find(text, from);
    REQUIRE(match);
    return std::vector<std::size_t>{match->begin, match->end,
                                    static_cast<std::size_t>(match->token)};
  };
  CHECK(found("x<a><b>", 0) == std::vector<std::size_t>{1, 7, 2});
  CHECK(found("x<a><c>b", 0) == std::vector<std::size_t>{1, 4, 1});
  CHECK(found("x<a><c>b", 2) == std::vector<std::size_t>{7, 8, 3});
  CHECK_FALSE(names.find("<a", 0));
  CHECK(names.joins('<', 'a'));
  CHECK_FALSE(names.joins('a', '<'));
}

// --- results of `tokenizers` ---

TEST_CASE("tokenizers: give the tokens and texts of Hugging Face's library") {
  const Json cases = golden("cases");
  for (const std::string& kind : kinds) {
    CAPTURE(kind);
    const auto read = BytePairTokenizer::load(golden_tokenizer(kind));
    const auto again = BytePairTokenizer::from_json(read.to_json(), "written");
    CHECK(again.to_json() == read.to_json());
    for (const BytePairTokenizer& tokenizer : {std::cref(read), std::cref(again)})
      for (std::size_t i = 0; i < cases["texts"].size(); ++i) {
        const std::string text = cases["texts"][i];
        CAPTURE(text);
        const Tokens tokens = tokenizer.encode(text);
        CHECK(tokens == cases[kind]["plain"][i].get<Tokens>());
        CHECK(tokenizer.encode(text, {.added_tokens = true, .with_template = true}) ==
              cases[kind]["found"][i].get<Tokens>());
        CHECK(tokenizer.decode(tokens) == cases[kind]["decoded"][i].get<std::string>());
      }
  }
}

// Returns the fields of a tokenizer.json that determine tokens.
Json essence(Json json) {
  const Json& processor = json["post_processor"];
  if (processor.is_object() && processor["type"] == "ByteLevel") json["post_processor"] = nullptr;
  if (processor.is_object() && processor["type"] == "Sequence")
    json["post_processor"] = Json(processor["processors"][1]);
  for (Json& merge : json["model"]["merges"])
    if (merge.is_array()) merge = merge[0].get<std::string>() + " " + merge[1].get<std::string>();
  json["model"]["type"] = "BPE";
  json.erase("decoder");
  return json;
}

TEST_CASE("tokenizers: are written as they were read") {
  for (const std::string& kind : kinds) {
    CAPTURE(kind);
    const Json read = golden(kind);
    const Json written = Json::parse(BytePairTokenizer::load(golden_tokenizer(kind)).to_json());
    CHECK(essence(written) == essence(read));
  }
}

TEST_CASE("tokenizers: a text may be cut where last_cut says") {
  Random random(2, Stream::data);
  for (const std::string& kind : kinds) {
    CAPTURE(kind);
    const auto tokenizer = BytePairTokenizer::load(golden_tokenizer(kind));
    int cuts = 0;
    for (int i = 0; i < 3'000; ++i) {
      const std::string text = drawn_text(random) + drawn_text(random);
      const std::size_t cut = tokenizer.last_cut(text);
      if (cut == 0) continue;
      ++cuts;
      Tokens tokens = tokenizer.encode(text.substr(0, cut));
      const Tokens rest = tokenizer.encode(text.substr(cut));
      tokens.insert(tokens.end(), rest.begin(), rest.end());
      CAPTURE(text);
      CAPTURE(cut);
      REQUIRE(tokens == tokenizer.encode(text));
    }
    CHECK(cuts > 500);
    CHECK(tokenizer.last_cut("") == 0);
    CHECK(tokenizer.last_cut("word") == 0);
  }
  const auto qwen2 = BytePairTokenizer::load(golden_tokenizer("qwen2"));
  CHECK(qwen2.last_cut("a <think>b") == 1);  // it is one token, in which "<think" ends no piece
}

TEST_CASE("tokenizers: are trained as by Hugging Face's library") {
  const std::string text =
      "The weaver's 12 threads, the 365 rows.\n\nShe'LL weave e\u0301t\u00e9.\n";
  for (const auto pattern :
       {PiecePattern::gpt2, PiecePattern::smollm2, PiecePattern::llama3, PiecePattern::qwen2}) {
    const Strings texts(20, text);
    const auto tokenizer = BytePairTokenizer::train(
        texts, {.vocabulary = 280, .special_tokens = {"<|endoftext|>"}, .pattern = pattern});
    CHECK(tokenizer.size() == 280);
    CHECK(tokenizer.find("<|endoftext|>") == 0);
    CHECK(tokenizer.model().unknown == -1);
    CHECK(tokenizer.model().pieces.compose == (pattern == PiecePattern::qwen2));
    const auto again = BytePairTokenizer::from_json(tokenizer.to_json(), "written");
    CHECK(again.to_json() == tokenizer.to_json());
    CHECK(again.encode(text) == tokenizer.encode(text));
    CHECK(tokenizer.decode(tokenizer.encode(text)) ==
          (pattern == PiecePattern::qwen2 ? composed(text) : text));
    const Tokens found = tokenizer.encode("<|endoftext|>", {.added_tokens = true});
    CHECK(found == Tokens{0});
    CHECK(tokenizer.encode("<|endoftext|>").size() > 1);
  }
}

TEST_CASE("bug: one part in a Sequence, stored padding and truncation were refused") {
  const Json cases = golden("cases");
  for (const std::string& kind : kinds) {
    CAPTURE(kind);
    Json json = golden(kind);
    const BytePairTokenizer before = BytePairTokenizer::from_json(json.dump(), kind);
    const auto in_sequence = [](const Json& part, const char* elements) {
      return Json({{"type", "Sequence"}, {elements, Json::array({part})}});
    };
    if (!json["normalizer"].is_null())
      json["normalizer"] = in_sequence(json["normalizer"], "normalizers");
    if (!json["post_processor"].is_null())
      json["post_processor"] = in_sequence(json["post_processor"], "processors");
    json["pre_tokenizer"] =
        in_sequence(in_sequence(json["pre_tokenizer"], "pretokenizers"), "pretokenizers");
    json["decoder"] = in_sequence(json["decoder"], "decoders");
    json["truncation"] = {{"max_length", 3}, {"strategy", "LongestFirst"}, {"stride", 0}};
    json["padding"] = {{"strategy", "BatchLongest"}, {"pad_id", 0}, {"pad_token", "!"}};
    const BytePairTokenizer after = BytePairTokenizer::from_json(json.dump(), kind);
    CHECK(after.to_json() == before.to_json());
    json["decoder"]["decoders"].push_back({{"type", "Fuse"}});
    CHECK_ERROR(BytePairTokenizer::from_json(json.dump(), "t.json"),
                "t.json: decoder: expected ByteLevel alone, found {\"decoders\"");
  }
}

// --- errors ---

TEST_CASE("tokenizers: the error for another kind names it and the known ones") {
  const auto refused = [](const std::string& kind, const std::string& pointer, const Json& value) {
    Json json = golden(kind);
    json[Json::json_pointer(pointer)] = value;
    const std::string says =
        message_of([&] { BytePairTokenizer::from_json(json.dump(), "some/tokenizer.json"); });
    check_says(says, {"some/tokenizer.json: ", "GPT-2, SmolLM2, Llama 3 and Qwen2"});
    return says;
  };
  const std::string split = "/pre_tokenizer/pretokenizers/0";
  check_says(refused("qwen2", "/model/type", "Unigram"), {"model.type", "\"BPE\"", "Unigram"});
  check_says(refused("gpt2", "/model/merges", nullptr), {"model.type", "null"});
  check_says(refused("qwen2", "/model/byte_fallback", true), {"model.byte_fallback", "true"});
  check_says(refused("qwen2", "/model/fuse_unk", true), {"model.fuse_unk", "true"});
  check_says(refused("gpt2", "/pre_tokenizer", {{"type", "Metaspace"}}),
             {"pre_tokenizer.type", "ByteLevel", "Metaspace"});
  check_says(refused("gpt2", "/pre_tokenizer", nullptr), {"pre_tokenizer", "null"});
  check_says(refused("smollm2", split + "/individual_digits", false), {"pre_tokenizer", "Digits"});
  check_says(refused("llama3", split + "/pattern/Regex", "\\w+"),
             {"pre_tokenizer.pretokenizers[0].pattern.Regex", "\\\\w+"});
  check_says(refused("llama3", split + "/behavior", "Removed"), {"pre_tokenizer"});
  check_says(refused("llama3", split + "/invert", true), {"pre_tokenizer"});
  check_says(refused("llama3", "/pre_tokenizer/pretokenizers/1/use_regex", true),
             {"pre_tokenizer.use_regex", "expected false"});
  check_says(refused("llama3", "/pre_tokenizer/pretokenizers/1/add_prefix_space", true),
             {"pre_tokenizer.add_prefix_space", "false"});
  check_says(refused("roberta", "/normalizer/normalizers/0/type", "NFKD"), {"normalizer", "NFKD"});
  check_says(refused("roberta", "/post_processor/single", Json::array()), {"the sequence A once"});
  check_says(refused("roberta", "/post_processor/single/0", 7), {"post_processor.single", "7"});
  check_says(refused("roberta", "/post_processor/special_tokens/<s>/ids/0", 150),
             {"post_processor.special_tokens", "0 to 149", "150"});
  check_says(refused("roberta", "/post_processor/special_tokens", nullptr), {"special_tokens"});
  check_says(refused("llama3", "/post_processor/processors/0",
                     golden("llama3")["post_processor"]["processors"][1]),
             {"at most one TemplateProcessing"});
  check_says(refused("roberta", "/model/unk_token", "<none>"), {"model.unk_token", "<none>"});
  check_says(refused("llama3", "/added_tokens/1/id", 341), {"added_tokens[1].id", "342", "341"});
  check_says(refused("llama3", "/added_tokens/1/content", "!"), {"added_tokens[1].id", "342"});
  check_says(refused("gpt2", "/added_tokens/0", {{"id", 0}, {"content", "!"}, {"special", true}}),
             {"added_tokens[0].special", "a byte"});
  check_says(refused("gpt2", "/added_tokens/0/single_word", true),
             {"added_tokens[0].single_word", "false"});
  check_says(refused("gpt2", "/added_tokens/0/content", std::string(257, 'x')),
             {"added_tokens[0].content", "1 to 256 bytes"});
}

TEST_CASE("tokenizers: NFC after Lowercase is refused, because Tapestry applies it before") {
  Json json = golden("roberta");
  std::swap(json["normalizer"]["normalizers"][0], json["normalizer"]["normalizers"][1]);
  CHECK_ERROR(BytePairTokenizer::from_json(json.dump(), "t.json"), "t.json: normalizer",
              "a Sequence of NFC and then Lowercase", "NFC");
}

// --- characters ---

TEST_CASE("character_tokenizer_json: `tokenizers` splits with it as the vocabulary does") {
  const Json cases = golden("cases"), wanted = golden("characters");
  Strings symbols(wanted["model"]["vocab"].size());
  for (const auto& [symbol, token] : wanted["model"]["vocab"].items())
    symbols[token.get<std::size_t>()] = symbol;
  const CharVocabulary vocabulary(symbols);
  CHECK(Json::parse(character_tokenizer_json(vocabulary)) == wanted);
  Json used = wanted;  // bug: a file was refused because of settings stored by an earlier use
  used["padding"] = {{"strategy", "BatchLongest"}, {"pad_id", 0}};
  used["truncation"] = {{"max_length", 3}};
  CHECK(vocabulary_of_characters(used.dump(), "t.json").value().symbols() == symbols);
  for (std::size_t i = 0; i < cases["character_texts"].size(); ++i) {
    const std::string text = cases["character_texts"][i];
    CHECK(vocabulary.encode(text) == cases["characters"]["plain"][i].get<Tokens>());
    CHECK(text == cases["characters"]["decoded"][i].get<std::string>());
  }
}

TEST_SUITE_END();

}  // namespace
}  // namespace tapestry
