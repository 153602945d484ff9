#include <doctest/doctest.h>

#include "data/text/byte_pair.hpp"
#include "tests/support/process.hpp"
#include "tests/support/run_fixture.hpp"

namespace tapestry {
namespace {

TEST_SUITE_BEGIN("tokenizers");

// A folder with a text to run commands in.
struct TextFolder : public CommandFolder {
  TextFolder() { write("story.txt", story(20)); }
};

std::string golden_tokenizer(const std::string& kind) {
  return std::string(TAPESTRY_SOURCE_DIR) + "/tests/golden/tokenizers/" + kind + ".json";
}

TEST_CASE_FIXTURE(TextFolder, "tokenizer encode and decode: a text a line") {
  const std::string path = golden_tokenizer("llama3");
  const auto tokenizer = BytePairTokenizer::load(path);
  write("lines.txt", "The weaver's thread\n\nline <|end_of_text|>\n");
  write("lines.jsonl", R"("a\r\n b")"
                       "\n\"<|end_of_text|>\"\n");
  const auto run = [&](const Words& words) {
    return must(this->run(words + Words{"--tokenizer", path})).out;
  };
  const auto tokens = [&](const std::string& text, const EncodeOptions& options = {}) {
    return Json(tokenizer.encode(text, options)).dump() + "\n";
  };
  const std::string plain = run("tokenizer encode lines.txt");
  CHECK(plain == tokens("The weaver's thread") + "[]\n" + tokens("line <|end_of_text|>"));
  CHECK(run("tokenizer encode lines.jsonl --json --added --template") ==
        tokens("a\r\n b", {.added_tokens = true, .with_template = true}) +
            Json({tokenizer.find("<|begin_of_text|>"), tokenizer.find("<|end_of_text|>")}).dump() +
            "\n");

  CHECK(run("tokenizer encode lines.txt --out tokens.jsonl").empty());
  CHECK(read("tokens.jsonl") == plain);
  CHECK(run("tokenizer decode tokens.jsonl") == read("lines.txt"));
  write("odd.jsonl", tokens("a\r\n b"));
  CHECK(run("tokenizer decode odd.jsonl --json") == "\"a\\r\\n b\"\n");
}

TEST_CASE_FIXTURE(TextFolder, "tokenizer train: cuts as other models, with own special tokens") {
  must(
      run("tokenizer train story.txt --vocabulary 270 --pieces qwen2 --special "
          "<|endoftext|> --special <|sep|> --out own.json"));
  const auto tokenizer = BytePairTokenizer::load(path("own.json"));
  CHECK(tokenizer.find("<|endoftext|>") == 0);
  CHECK(tokenizer.find("<|sep|>") == 1);
  CHECK(tokenizer.model().pieces.pattern == PiecePattern::qwen2);
  CHECK(tokenizer.model().pieces.compose);
}

TEST_CASE_FIXTURE(TextFolder, "tokenizer: what is refused") {
  const std::string path = golden_tokenizer("gpt2");
  write("latin.txt", "caf\xE9\n");
  write("tokens.jsonl", "[1,2]\n[1,331]\n");
  for (const char* name : {"train.de", "train.en", "val.de", "val.en", "test.de", "test.en"})
    write(name, "ein Satz\n");
  const Refusal rows[] = {
      {"train story.txt --pieces gpt3",
       {"--pieces gpt3: expected one of gpt2, smollm2, llama3, qwen2"}},
      {"train story.txt --special word", {"special token 'word'", "<word>"}},
      {"train story.txt --vocabulary 258", {"--vocabulary: 258 tokens", "least 260"}},
      {{"encode", "none.txt", "--tokenizer", path}, {"none.txt", "No such file"}},
      {{"encode", "latin.txt", "--tokenizer", path}, {"latin.txt", "not UTF-8"}},
      {{"encode", "story.txt", "--json", "--tokenizer", path},
       {"story.txt: line 1", "JSON string"}},
      {"encode story.txt --tokenizer none.json", {"none.json"}},
      {{"encode", "story.txt", "--tokenizer", golden_tokenizer("characters")},
       {"characters.json: model.type", "WordLevel", "GPT-2, SmolLM2, Llama 3 and Qwen2"}},
      {{"encode", "story.txt", "--tokenizer", path, "--out", "run/config.toml"}, {"of a run"}},
      {{"decode", "tokens.jsonl", "--tokenizer", path}, {"tokens.jsonl: line 2", "0 to 330"}},
      {{"decode", "story.txt", "--tokenizer", path}, {"story.txt: line 1", "JSON list"}}};
  for (const Refusal& row : rows) check_fails(run("tokenizer" + row.words), row.parts);
  check_fails(run("train multi30k --out new data.path=. data.tokenizer=" + path),
              {"data.tokenizer = ", "gpt2.json", "<pad>, <bos>, <eos>, <unk>"});
}

TEST_SUITE_END();

}  // namespace
}  // namespace tapestry
