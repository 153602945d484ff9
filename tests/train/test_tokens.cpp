#include <doctest/doctest.h>
#include <fmt/ranges.h>

#include <array>
#include <cmath>

#include "autograd/dry_run.hpp"
#include "autograd/ops/losses.hpp"
#include "data/input_file.hpp"
#include "data/text/byte_pair.hpp"
#include "data/text/token_shards.hpp"
#include "layers/models/transformer.hpp"
#include "tests/support/arrays.hpp"
#include "tests/support/gzip.hpp"
#include "tests/support/process.hpp"
#include "tests/support/run_fixture.hpp"
#include "tests/support/tokens.hpp"
#include "train/model.hpp"
#include "train/tasks/token_loss.hpp"

// Tests language models of byte pairs on texts and shards.
namespace tapestry {
namespace {

// Texts, a tokenizer, shards, and a config of byte pairs.
class TextDesk {
 public:
  TextDesk() {
    fixture.write("books/one.txt", story(60));
    fixture.write("books/two.txt", "A last line without an end");
    fixture.write("story.txt", story(60));
    fixture.write("tokenizer.json", small_tokenizer(story(60)).to_json());
    fixture.write("other.json", small_tokenizer(story(60), 270).to_json());
  }
  Finished run(const Words& words) const { return tapestry_run(words, {.folder = fixture.path()}); }
  Finished here(const Words& words) const { return fixture.here(words); }
  Finished tokens(const Words& more) const {
    return run("tokens --tokenizer tokenizer.json" + more);
  }
  // Trains six steps by default.
  Finished train(const std::string& out, const std::string& data, const Words& more = {}) const {
    const auto says_steps = [](const std::string& word) { return word.starts_with("train.steps"); };
    return run(Words("train text.toml --quiet --out {} data.path={}", out, data) +
               (std::ranges::none_of(more, says_steps) ? "train.steps=6" : "") + more);
  }
  void must_train(const std::string& out, const std::string& data, const Words& more = {}) const {
    must(train(out, data, more));
  }
  void must_cut(const std::string& data, const std::string& out) const {
    must(tokens({data, "--out", out}));
  }
  RunFixture fixture;
};

TEST_SUITE_BEGIN("tokens");

TEST_CASE_FIXTURE(
    TextDesk, "tokens: writes shards of files, folders and patterns; documents end with a token") {
  const TemporaryFolder& folder = fixture;
  const BytePairTokenizer tokenizer = BytePairTokenizer::load(folder.path("tokenizer.json"));
  const std::int32_t end = *end_of_text_of(tokenizer);
  std::vector<std::int32_t> expected;
  for (const std::string& text : {story(60), std::string("A last line without an end")}) {
    const std::vector<std::int32_t> tokens = tokenizer.encode(text);
    expected.insert(expected.end(), tokens.begin(), tokens.end());
    expected.push_back(end);
  }
  folder.write("one.gz", gzip(story(60)));
  const std::vector<Words> sources = {"books", "books/*.txt", "books/one.txt books/two.txt",
                                      "one.gz books/t*"};
  for (std::size_t i = 0; i < sources.size(); ++i) {
    const std::string out = fmt::format("shards-{}", i);
    check_prints(this->tokens(sources[i] + Words("--out {} --threads {}", out, 1 + i)),
                 {out + ": ", " tokens of ", " bytes in 2 documents, 1 shard of uint16"});
    CHECK(!folder.has(out + ".tmp"));
    const TokenShards shards(folder.path(out));
    std::vector<std::int32_t> found(shards.size());
    shards.read(0, found);
    CHECK(found == expected);
    CHECK(shards.counts().bytes == story(60).size() + 26);
    CHECK(folder.read(out + "/shard-00000.tokens") == folder.read("shards-0/shard-00000.tokens"));
    CHECK(folder.read(out + "/tokenizer.json") == folder.read("tokenizer.json"));
  }
  check_says(run("tokens shards-0 shards-1 --verify").out,
             {"shards-0: ", "shards-1: ", "in 2 documents, 1 shard, not damaged"});
  this->tokens("books/one.txt --documents lines --out lines");
  CHECK(TokenShards(folder.path("lines")).counts().documents == 60);
  folder.write("stories", "one<|endoftext|>two<|endoftext|>\n<eos>three");
  this->tokens("stories --documents separator --out stories-1");
  CHECK(TokenShards(folder.path("stories-1")).counts().documents == 3);
  this->tokens("stories --documents separator --end-of-text <eos> --out stories-2");
  CHECK(TokenShards(folder.path("stories-2")).counts().documents == 2);
}

TEST_CASE_FIXTURE(TextDesk, "tokens: errors are one line, and leave no files") {
  const TemporaryFolder& folder = fixture;
  folder.write("latin.txt", story(30000) + "caf\xE9");
  folder.write("empty.txt", "");
  folder.write("blank.txt", "\n\n\n");
  folder.write("full/mine", "");
  must_cut("story.txt", "damaged");
  fs::resize_file(folder.path("damaged/shard-00000.tokens"), 200);
  const Refusal rows[] = {
      {"none.txt --out new", {"none.txt: cannot be opened: No such file"}},
      {"none* --out new", {"none*: no file matches"}},
      {"full --out new", {"full: expected .txt files, found mine"}},
      {"story.txt latin.txt --out new", {"latin.txt: byte 1", "0xe9 is not UTF-8"}},
      {"story.txt empty.txt --out new", {"empty.txt: byte 0: the file is empty"}},
      {"blank.txt --documents lines --out new", {"the texts contain no documents"}},
      {"story.txt --out full", {"full: already exists; give the name of a new folder"}},
      {"story.txt --out full/", {"full: already exists; give the name of a new folder"}},
      {"story.txt --out story.txt", {"story.txt: already exists"}},
      {"story.txt --out none/new", {"none/new: the folder none does not exist"}},
      {"story.txt", {"--out is required"}},
      {"story.txt --out new --documents line",
       {"--documents line: expected one of whole, lines, separator; did you mean lines?"}},
      {"story.txt --out new --end-of-text wall",
       {"--end-of-text wall: the tokenizer has no special token wall"}},
      {"damaged --verify", {"damaged/shard-00000.tokens: the file has 200 bytes, expected "}},
      {"books --verify", {"books/tokenizer.json: cannot be opened"}}};
  for (const Refusal& row : rows) {
    CAPTURE(row.parts.front());
    check_refused(here("tokens --tokenizer tokenizer.json" + row.words), row.parts);
    CHECK(!folder.has("new"));
    CHECK(!folder.has("new.tmp"));
  }
  check_fails(here("tokens story.txt --out new"), {"--tokenizer is required"});
  check_says(run("tokens story.txt --out new --tokenizer story.txt").err,
             {"story.txt: line 1: is not JSON"});
}

TEST_CASE_FIXTURE(TextDesk, "tokens: trainings on shards equal those on texts") {
  const TemporaryFolder& folder = fixture;
  must_cut("books", "shards");
  must_train("whole", "shards");
  must_train("resumed", "shards", "train.steps=4");
  must_train("resumed", "shards", "train.steps=6 --resume");
  must_train("threads", "shards", "train.threads=3");
  check_same_checkpoint(fixture.checkpoint("whole"), fixture.checkpoint("resumed"));
  const Json eval = Json::parse(run("eval whole --json").out);
  CHECK(eval["loss"] == fixture.last_validation("threads")["loss"]);
  CHECK(!eval.contains("bits_per_char"));

  // By the share of tokens; an end of text counts in the loss, and has no bytes.
  const TokenShards shards(folder.path("shards"));
  const BytePairTokenizer tokenizer =
      BytePairTokenizer::from_json(shards.tokenizer_json(), "shards");
  std::vector<std::int32_t> all(shards.size());
  shards.read(0, all);
  const std::int64_t begin = std::ssize(all) - std::ssize(all) / 10;
  double bytes = 0;
  for (std::int64_t i = begin + 1; i < std::ssize(all); ++i)
    bytes += static_cast<double>(tokenizer.bytes_of(all[i]).size());
  const double targets = static_cast<double>(std::ssize(all) - begin - 1);
  CHECK(eval["bits_per_byte"].get<double>() ==
        doctest::Approx(eval["loss"].get<double>() * targets / std::log(2) / bytes));

  CHECK(must(run("sample whole --prompt green --tokens 20")).out.starts_with("green"));
}

TEST_CASE_FIXTURE(TextDesk, "tokens: a tokenizer is trained on the training text alone") {
  const TemporaryFolder& folder = fixture;
  const std::string text = story(60), zebras = "zebra zebra zebra zebra zebra zebra zebra zebra ";
  folder.write("zebras.txt", text + zebras);
  const Strings keys = {"data.tokenizer=train", "data.vocabulary=320",
                        fmt::format("data.validation_fraction={}",
                                    static_cast<double>(zebras.size() + 0.5) /
                                        static_cast<double>(text.size() + zebras.size()))};
  must_train("run", "zebras.txt", keys);
  const std::string json = load_checkpoint(fixture.checkpoint("run")).metadata.at("tokenizer");
  const BytePairTokenizer own = BytePairTokenizer::train(
      std::array{text}, {.vocabulary = 320, .special_tokens = {"<|endoftext|>"}});
  CHECK(json == own.to_json());
  CHECK(!contains(json, "zebra"));
  // Measured on this text for any tokenizer: all of its tokens except the first, and an end.
  const Json eval = Json::parse(run("eval run --json").out);
  const BytePairTokenizer tokenizer = BytePairTokenizer::from_json(json, "run");
  const std::vector<std::int32_t> tokens = tokenizer.encode(zebras);
  const double bytes =
      static_cast<double>(zebras.size() - tokenizer.bytes_of(tokens.front()).size());
  CHECK(eval["bits_per_byte"].get<double>() ==
        doctest::Approx(eval["loss"].get<double>() * static_cast<double>(tokens.size()) /
                        std::log(2) / bytes));
}

TEST_CASE_FIXTURE(TextDesk, "tokens: several texts can be read by characters") {
  fixture.write("joined.txt", story(60) + "A last line without an end");
  for (const std::string data : {"joined.txt", "books", "books/*.txt"})
    must_train("run-" + std::to_string(data.size()), data);
  const Json joined = fixture.last_validation("run-10");
  for (const std::string run : {"run-5", "run-11"})
    CHECK(fixture.last_validation(run)["loss"] == joined["loss"]);
  CHECK(joined["bits_per_byte"].get<double>() ==
        doctest::Approx(joined["bits_per_char"].get<double>()));
}

TEST_CASE_FIXTURE(TextDesk, "sample: prompts of a file are continued as each alone") {
  must_train("run", "story.txt", "data.tokenizer=train data.vocabulary=300");
  const Strings prompts = {"1 green", "hanging on the wall", "the", "7", "green b"};
  fixture.write("prompts", fmt::format("{}\n", fmt::join(prompts, "\n")));
  for (const char* temperature : {"0", "1"}) {
    const Words options = {"--tokens", "20", "--temperature", temperature};
    const auto sample = [&](const std::string& name, const std::string& value) {
      CHECK(run(Words("sample run {} {} --out written", name, value) + options).err == "");
      return fixture.read("written");
    };
    const std::string together = sample("--prompts", "prompts");
    std::string_view lines = together;
    for (const std::string& prompt : prompts) {
      const auto line = Json::parse(next_line(lines).value_or("null"));
      CHECK(line.at("prompt") == prompt);
      CHECK(prompt + line.at("text").get<std::string>() + "\n" == sample("--prompt", prompt));
    }
    CHECK(lines.empty());
  }
  fixture.write("gap", "one\n\ntwo\n");
  check_fails(here("sample run --prompts gap"), {"gap: line 2 is empty"});
  check_fails(here("sample run --prompts none"), {"none"});
  check_fails(here("sample run --prompts prompts --prompt a"), {"--prompt"});
}

TEST_CASE_FIXTURE(TextDesk, "tokens: data and tokenizers that do not belong together are refused") {
  const TemporaryFolder& folder = fixture;
  must_cut("story.txt", "shards");
  must_train("run", "shards");
  must_train("characters", "story.txt");
  REQUIRE(run("tokens story.txt --tokenizer other.json --out others").status == 0);
  must_cut("story.txt", "mixed");
  folder.write("mixed/story.txt", story());
  must_cut("books", "more");
  const Refusal rows[] = {
      {"train text.toml data.path=books/*.text", {"books/*.text: no file matches"}},
      {"train text.toml data.path=none", {"none", "no such file or folder; give a UTF-8"}},
      {"train text.toml data.path=mixed", {"mixed: contains shards of tokens and texts"}},
      {"train text.toml data.path=shards data.tokenizer=other.json",
       {"data.tokenizer = \"other.json\": ",
        "contains shards of another tokenizer; leave out this key"}},
      {"train text.toml data.path=shards data.tokenizer=train",
       {"data.tokenizer = \"train\": ",
        "contains shards, which have a tokenizer; leave out this key"}},
      {"train text.toml data.path=story.txt data.tokenizer=none.json",
       {"none.json: cannot be opened"}},
      {"train text.toml data.path=story.txt data.tokenizer=tokenizer.json data.end_of_text=<end>",
       {"data.end_of_text = \"<end>\": the tokenizer has no special token <end>"}},
      {"train text.toml data.path=shards data.vocabulary=400",
       {"data.vocabulary = 400: is not used with data.tokenizer = \"\""}},
      {"eval run data.path=others", {"data.path = ", "shards have another tokenizer than the"}},
      {"eval characters data.path=shards", {"shards have another tokenizer than the model"}},
      {"train text.toml data.path=more train.steps=9 --out run --resume",
       {"give the original data"}}};
  for (const Refusal& row : rows) check_fails(here(row.words), row.parts);
  CHECK(!folder.has("runs"));
  CHECK(train("same", "shards", "data.tokenizer=tokenizer.json").status == 0);
  std::string bytes = folder.read("shards/shard-00000.tokens");
  bytes[300] = static_cast<char>(bytes[300] + 1);
  folder.write("shards/shard-00000.tokens", bytes);
  const Finished damaged = train("damaged", "shards");
  check_fails(damaged, {"shard-00000.tokens: the tokens are damaged"});
  CHECK(!folder.has("damaged"));
}

TEST_SUITE_END();

TEST_SUITE_BEGIN("tokenizers");

// A folder with a text.
struct TextFolder : public CommandFolder {
  TextFolder() { write("story.txt", story(20)); }
};

std::string golden_tokenizer(const std::string& kind) {
  return golden_path("tokenizers/" + kind + ".json");
}

TEST_CASE_FIXTURE(TextFolder, "tokenizer encode and decode: convert one text per line") {
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

TEST_CASE_FIXTURE(TextFolder,
                  "tokenizer train: splits as other models, with given special tokens") {
  must(
      run("tokenizer train story.txt --vocabulary 270 --pieces qwen2 --special "
          "<|endoftext|> --special <|sep|> --out own.json"));
  const auto tokenizer = BytePairTokenizer::load(path("own.json"));
  CHECK(tokenizer.find("<|endoftext|>") == 0);
  CHECK(tokenizer.find("<|sep|>") == 1);
  CHECK(tokenizer.model().pieces.pattern == PiecePattern::qwen2);
  CHECK(tokenizer.model().pieces.compose);
}

TEST_CASE_FIXTURE(TextFolder, "tokenizer: wrong arguments are refused") {
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
  for (const Refusal& row : rows) check_fails(here("tokenizer" + row.words), row.parts);
  check_fails(here("train multi30k --out new data.path=. data.tokenizer=" + path),
              {"data.tokenizer = ", "gpt2.json", "<pad>, <bos>, <eos>, <unk>"});
}

TEST_SUITE_END();

// Two texts, of which the second one is the validation split and fits into the context, and a
// tokenizer whose template puts <|begin|> before each text.
struct Beginnings : public RunFixture {
  Beginnings() {
    const Strings texts = {first + second};
    const BytePairTokenizer trained = BytePairTokenizer::train(
        texts, {.vocabulary = 300, .special_tokens = {"<|begin|>", "<|endoftext|>"}});
    BytePairModel model = trained.model();
    model.before = {trained.find("<|begin|>")};
    write("tokenizer.json", BytePairTokenizer(model).to_json());
    write("texts/1.txt", first);
    write("texts/2.txt", second);
    std::string config = text_toml;
    config.replace(config.find("PATH"), 4, path("texts"));
    config.replace(config.find("[model]"), 0,
                   "tokenizer = \"" + path("tokenizer.json") + "\"\nvalidation_fraction = 0.25\n");
    config.replace(config.find("context = 8"), 11, "context = 100");
    write("begun.toml", config);
  }

  // Returns the mean loss of these tokens, which fit into the context, each after those before it.
  static double loss_of(const Model& model, const Tokens& tokens) {
    const Matrix logits = model.logits(std::span(tokens).first(tokens.size() - 1));
    double nats = 0;
    for (std::size_t t = 0; t + 1 < tokens.size(); ++t) {
      const auto row = logits.row(static_cast<std::int64_t>(t));
      double sum = 0;
      for (const float logit : row) sum += std::exp(logit);
      nats += std::log(sum) - row[tokens[t + 1]];
    }
    return nats / static_cast<double>(tokens.size() - 1);
  }

  const std::string first = story(40).substr(0, 600), second = story(60).substr(700, 200);
  static constexpr std::int32_t begin = 0, end = 1;
};

TEST_CASE_FIXTURE(
    Beginnings,
    "bug: texts were evaluated without the begin-of-text token that sample puts first") {
  must_train("begun", "run");
  check_says(read("run/config.toml"), {"begin_of_text = true"});
  const Model model(path("run"));
  Tokens tokens = model.tokenize(second);
  CHECK(tokens.front() == begin);
  tokens.push_back(end);
  CHECK(loss_of(model, tokens) == doctest::Approx(eval("run")["loss"].get<double>()).epsilon(1e-5));

  must_train("begun", "without", "data.begin_of_text=false");
  const Model without(path("without"));
  Tokens bare = without.tokenize(second);
  CHECK(Tokens(tokens.begin() + 1, tokens.end() - 1) == bare);
  bare.push_back(end);
  CHECK(loss_of(without, bare) ==
        doctest::Approx(eval("without")["loss"].get<double>()).epsilon(1e-5));
  must_run("export {} --format huggingface --out {}", path("without"), path("exported"));
  CHECK(BytePairTokenizer::load(path("exported/tokenizer.json")).before_text().empty());
  must_run("export {} --format huggingface --out {}", path("run"), path("exported-run"));
  CHECK(BytePairTokenizer::load(path("exported-run/tokenizer.json")).before_text().size() == 1);
}

TEST_CASE_FIXTURE(Beginnings, "begin of text: a run of an earlier version evaluates without it") {
  must_train("begun", "earlier", "data.rules=1");
  const Model model(path("earlier"));
  Tokens bare = model.tokenize(second);
  CHECK(bare.front() != begin);
  bare.push_back(end);
  CHECK(loss_of(model, bare) ==
        doctest::Approx(eval("earlier")["loss"].get<double>()).epsilon(1e-5));
  // but a sample begins with it
  const GenerationOptions greedy{.tokens = 5, .temperature = 0};
  Tokens prompt = {begin};
  for (const std::int32_t token : model.tokenize("green")) prompt.push_back(token);
  CHECK(model.generate("green", greedy) == model.detokenize(model.generate(prompt, greedy)));
}

TEST_CASE_FIXTURE(Beginnings, "begin of text: shards record whether their documents have it") {
  must_run("tokens {} --tokenizer {} --out {}", path("texts"), path("tokenizer.json"),
           path("shards"));
  const TokenShards shards(path("shards"));
  CHECK(shards.begins_documents());
  Tokens start(1);
  shards.read(0, start);
  CHECK(start.front() == begin);
  const Words from_shards = {"data.tokenizer=", "data.path=" + path("shards"), "model.context=20"};
  must_train("begun", "of-shards", from_shards);
  check_says(read("of-shards/config.toml"), {"begin_of_text = true"});
  check_fails(train_here("begun", "refused", from_shards + "data.begin_of_text=false"),
              {"data.begin_of_text = false: the documents in the shards begin with begin-of-text "
               "tokens; create the shards again with `tapestry tokens --no-begin-of-text`"});
  check_fails(train_here("begun", "refused", from_shards + "data.rules=1"),
              {"data.rules = 1: the documents in the shards begin with"});
  must_run("tokens {} --tokenizer {} --out {} --no-begin-of-text", path("texts"),
           path("tokenizer.json"), path("bare"));
  must_train("begun", "of-bare",
             {"data.tokenizer=", "data.path=" + path("bare"), "model.context=20",
              "data.begin_of_text=false", "train.steps=1"});

  // Shards of an earlier version have no such token, and a training on them says so in its config.
  const TemporaryFolder earlier;
  write_shards(earlier, BytePairTokenizer::load(path("tokenizer.json")), first + second, 1000);
  must_train("begun", "of-earlier",
             {"data.tokenizer=", "data.path=" + earlier.path(), "model.context=20"});
  check_says(read("of-earlier/config.toml"), {"begin_of_text = false"});
  check_fails(train_here("begun", "refused",
                         {"data.tokenizer=", "data.path=" + earlier.path(), "model.context=20",
                          "data.begin_of_text=true"}),
              {"data.begin_of_text = true: the documents in the shards do not begin with"});
  check_fails(run_here("eval {} --set data.path={}", path("of-shards"), earlier.path()),
              {"the documents in the shards do not begin with begin-of-text tokens"});
}

// Tests that the head of a language model is computed where there is a target, and only there.

// Six positions of two rows, of which those in `ignored` have no target.
Batch batch_without(const std::vector<int>& ignored) {
  Batch batch{.inputs = Array::of(std::vector<std::int32_t>{1, 2, 0, 4, 3, 2}, {2, 3}),
              .targets = Array::of(std::vector<std::int32_t>{2, 0, 1, 3, 2, 3}, {2, 3}),
              .count = 6.0 - static_cast<double>(ignored.size())};
  for (const int place : ignored) batch.targets.mutable_values<std::int32_t>()[place] = -1;
  return batch;
}

Transformer small_model(Random& random) {
  return Transformer({.vocabulary = 5,
                      .context = 3,
                      .layers = 1,
                      .block = {.width = 8, .attention = {.heads = 2}}},
                     random);
}

TEST_SUITE_BEGIN("tasks");

TEST_CASE("counted rows: the loss and its gradients are those of all logits") {
  for (const auto& ignored : std::vector<std::vector<int>>{{}, {1}, {0, 2, 5}, {0, 1, 2, 3, 4}}) {
    CAPTURE(ignored.size());
    Random random(3, Stream::init);
    Transformer model = small_model(random);
    for (Parameter* parameter : model.parameters()) parameter->convert(DType::float64);
    const Batch batch = batch_without(ignored);
    const auto gradients = [&](bool only_counted) {
      Tape tape;
      const Tensor all = model.hidden(batch.inputs);
      const CountedRows rows =
          only_counted ? counted_rows(all, batch) : CountedRows{all, batch.targets};
      CHECK((ignored.empty() || !only_counted ||
             rows.hidden.shape() == Shape{6 - std::ssize(ignored), 8}));
      const Tensor loss = cross_entropy(model.logits(rows.hidden), rows.targets, {.mean = false});
      const Gradients found = tape.backward(loss);
      std::vector<double> values = {loss.item()};
      for (const Parameter* parameter : model.parameters())
        for (const double value : found[*parameter].values<double>()) values.push_back(value);
      return values;
    };
    const std::vector<double> all = gradients(false), counted = gradients(true);
    REQUIRE(all.size() == counted.size());
    for (std::size_t i = 0; i < all.size(); ++i)
      CHECK(counted[i] == doctest::Approx(all[i]).epsilon(1e-12));
    if (ignored.empty()) CHECK(counted == all);
  }
}

TEST_CASE("counted rows: NaN where there is no target changes nothing") {
  const Batch batch = batch_without({1, 3});
  Array hidden = Array::full({2, 3, 4}, 0.5);
  for (const std::int64_t row : {1, 3})
    for (std::int64_t i = 0; i < 4; ++i) hidden.mutable_values<float>()[row * 4 + i] = NAN;
  const Parameter states(hidden, Role::weight);
  Tape tape;
  const CountedRows rows = counted_rows(states.tensor, batch);
  const Tensor loss = cross_entropy(rows.hidden, rows.targets, {.mean = false});
  CHECK(loss.item() == doctest::Approx(4 * std::log(4.0)));
}

TEST_CASE("counted rows: without any target all rows stay, and a dry run takes the count") {
  const Batch none = batch_without({0, 1, 2, 3, 4, 5});
  const Tensor hidden = Array::full({2, 3, 4}, 0.5);
  CHECK(counted_rows(hidden, none).hidden.shape() == Shape{2, 3, 4});
  const Batch some = batch_without({0, 4});
  const DryRun dry_run;
  CHECK(counted_rows(hidden, some).hidden.shape() == Shape{4, 4});
  CHECK(counted_rows(hidden, some).targets.shape() == Shape{4});
}

TEST_SUITE_END();

}  // namespace
}  // namespace tapestry
