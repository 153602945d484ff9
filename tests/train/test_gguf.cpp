#include <doctest/doctest.h>

#include <functional>
#include <map>

#include "data/text/byte_pair.hpp"
#include "tests/support/published.hpp"
#include "tests/support/small.hpp"
#include "train/run/run.hpp"
#include "train/run/safetensors.hpp"
#include "train/task_spec.hpp"
#include "train/tools/convert/export.hpp"
#include "train/tools/convert/gguf_file.hpp"

// Tests import and export of llama.cpp's models. tests/golden/gguf has those that its converter
// made of tests/golden/published (tests/golden/make_gguf.py).
namespace tapestry {
namespace {

std::string converted_golden(const std::string& name) {
  return golden_path("gguf/" + name + ".gguf");
}

// A run of a golden model.
std::string run_of(const TemporaryFolder& folder, const std::string& name) {
  const std::string run = folder.path("run-" + name);
  must_run({"import", published(name), "--out", run});
  return run;
}

const Words as_llama =
    "model.norm_kind=rms model.gated=true model.activation=silu model.positions=rotary "
    "model.bias=false model.rotary_pairs=halves model.feed_forward=64";

// Files of a model of three characters, whose fields and tensors are damaged by name.
class TinyLlama {
 public:
  TinyLlama() {
    for (const auto& [name, number] : {std::pair("context_length", 8),
                                       {"embedding_length", 4},
                                       {"block_count", 1},
                                       {"feed_forward_length", 3},
                                       {"attention.head_count", 2}})
      set("llama." + std::string(name), static_cast<std::uint32_t>(number));
    set("general.architecture", std::string("llama"));
    set("llama.attention.layer_norm_rms_epsilon", 1e-5F);
    set("tokenizer.ggml.model", std::string("rwkv"));
    set("tokenizer.ggml.tokens", Strings{"a", "\\n", "é"});
    for (const char* name : {"attn_q", "attn_k", "attn_v", "attn_output"})
      tensors["blk.0." + std::string(name) + ".weight"] = {4, 4};
    for (const char* name : {"ffn_gate", "ffn_up"})
      tensors["blk.0." + std::string(name) + ".weight"] = {3, 4};
    for (const char* name : {"blk.0.attn_norm", "blk.0.ffn_norm", "output_norm"})
      tensors[std::string(name) + ".weight"] = {4};
    tensors["blk.0.ffn_down.weight"] = {4, 3};
    tensors["token_embd.weight"] = {3, 4};
  }

  template <class Value>
  TinyLlama& set(const std::string& name, Value value) {
    fields[name] = value;
    return *this;
  }
  TinyLlama& byte_pairs(const Strings& tokens, const Strings& merges) {
    tensors["token_embd.weight"] = {std::ssize(tokens), 4};
    return set("tokenizer.ggml.model", std::string("gpt2"))
        .set("tokenizer.ggml.pre", std::string("gpt-2"))
        .set("tokenizer.ggml.tokens", tokens)
        .set("tokenizer.ggml.merges", merges);
  }

  std::string write(const TemporaryFolder& folder) const {
    std::vector<GgufField> all;
    std::vector<GgufTensor> shapes;
    for (const auto& [name, value] : fields) all.push_back({name, value});
    for (const auto& [name, shape] : tensors) shapes.push_back({name, GgufType::f32, shape});
    const std::string path = folder.path("tiny.gguf");
    write_gguf(path, all, shapes, [&](std::size_t i) {
      Array array(shapes[i].shape);
      for (std::int64_t k = 0; k < array.size(); ++k)
        array.mutable_values<float>()[k] = static_cast<float>((i * 7 + k * 3) % 11) / 11;
      return array;
    });
    return path;
  }

  // Returns the error of importing it.
  std::string message() const {
    const TemporaryFolder folder;
    const std::string path = write(folder);
    std::string said = message_of([&] { import_gguf(path, {}); });
    for (std::size_t at = 0; (at = said.find(path)) != std::string::npos;)
      said.replace(at, path.size(), "tiny.gguf");
    return said;
  }

  std::map<std::string, decltype(GgufField::value)> fields{};
  std::map<std::string, Shape> tensors{};
};

TEST_SUITE_BEGIN("exchange");

TEST_CASE("gguf: tensors and fields equal those of llama.cpp's converter") {
  for (const std::string name : {"gpt2", "llama3", "qwen2", "qwen3"}) {
    CAPTURE(name);
    const TemporaryFolder folder;
    const std::string out = folder.path("m.gguf"), dtype = name == "llama3" ? "float32" : "q8_0";
    must_run({"export", run_of(folder, name), "--format", "gguf", "--dtype", dtype, "--out", out});
    GgufReader theirs(converted_golden(name)), ours(out);
    std::map<std::string, std::size_t> places;
    for (std::size_t i = 0; i < ours.tensors().size(); ++i) places[ours.tensors()[i].name] = i;
    CHECK(ours.tensors().size() == theirs.tensors().size());
    for (std::size_t i = 0; i < theirs.tensors().size(); ++i) {
      const GgufTensor& wanted = theirs.tensors()[i];
      CAPTURE(wanted.name);
      REQUIRE(places.contains(wanted.name));
      const GgufTensor& made = ours.tensors()[places[wanted.name]];
      CHECK(made.type == wanted.type);
      CHECK(made.shape == wanted.shape);
      // llama.cpp computes the factors of scaled positions in float32.
      const double allowed = wanted.name == "rope_freqs.weight" ? 1e-5 : 0;
      CHECK(largest_difference(ours.read(places[wanted.name]), theirs.read(i)) <= allowed);
    }
    for (const auto& [field, value] : theirs.fields().items()) {
      CAPTURE(field);
      // Differences without effect: name and size, an error of the converter for a narrow GPT-2,
      // and a flag of BERT.
      if (field == "general.name" || field == "general.size_label" ||
          field == "gpt2.feed_forward_length" || field == "tokenizer.ggml.add_sep_token")
        continue;
      REQUIRE(ours.fields().contains(field));
      CHECK(ours.fields()[field] == value);
    }
  }
}

TEST_CASE("gguf: exported models are imported with the same numbers and tokens") {
  for (const std::string name : {"gpt2", "llama3", "qwen2", "qwen3"}) {
    CAPTURE(name);
    const TemporaryFolder folder;
    const std::string run = run_of(folder, name), out = folder.path("m.gguf");
    must_run("export {} --format gguf --out {}", run, out);
    const TrainedModel before = model_of(run);
    const ImportedModel after = import_gguf(out, {});
    CHECK(parameters_difference(*before.task, *after.task) == 0);
    CHECK(logits_difference(*before.task, *after.task, {5, 1, 260, 77, 9, 130}) == 0);
    const auto& tokenizer =
        dynamic_cast<const BytePairTokenizer&>(language_model(*before.task).tokenizer());
    const auto& again =
        dynamic_cast<const BytePairTokenizer&>(language_model(*after.task).tokenizer());
    for (const bool whole : {false, true}) {
      const EncodeOptions options{.added_tokens = whole, .with_template = whole};
      const std::string text = "the cat's e\u0301 1234\n\n <|endoftext|> 日";
      CHECK(tokenizer.encode(text, options) == again.encode(text, options));
    }
    CHECK(language_model(*before.task).end_of_text() == language_model(*after.task).end_of_text());
    for (std::int32_t token = 0; token < tokenizer.size(); ++token)
      CHECK(language_model(*before.task).ends_text(token) ==
            language_model(*after.task).ends_text(token));
  }
}

TEST_CASE_FIXTURE(TemporaryFolder,
                  "gguf: a run of an imported file is exported with its template") {
  fs::copy(published("llama3"), path("hf"));
  write("hf/chat_template.jinja", "{{ messages }}");
  const std::string run = path("run"), file = path("m.gguf"), again = path("again"),
                    back = path("back");
  must_run("import {} --out {}", path("hf"), run);
  must_run("export {} --format gguf --out {}", run, file);
  CHECK(GgufReader(file).fields()["tokenizer.chat_template"] == "{{ messages }}");
  const Finished imported = tapestry_run("import {} --out {}", file, again);
  REQUIRE(imported.err == "");
  check_says(imported.out, {again + ": LlamaForCausalLM, "});
  must_run("export {} --out {}", again, back);
  CHECK(read_bytes(back + "/chat_template.jinja") == "{{ messages }}");
  const auto sampled = [](const std::string& from) {
    return tapestry_run("sample {} --prompt the --tokens 8 --temperature 0", from).out;
  };
  CHECK(sampled(again) == sampled(run));
}

TEST_CASE("bug: gguf: chat templates without a default one were left out without a message") {
  const std::string says = "chat_template: expected a template named \"default\" in the list";
  for (const char* name : {"default", "search"}) {
    const TemporaryFolder folder;
    fs::copy(published("llama3"), folder.path("hf"));
    change_json(folder.path("hf/tokenizer_config.json"),
                {{"chat_template",
                  {{{"name", "tool"}, {"template", "{{ tools }}"}},
                   {{"name", name}, {"template", "{{ all }}"}}}}});
    const std::string run = folder.path("run"), file = folder.path("m.gguf");
    must_run("import {} --out {}", folder.path("hf"), run);
    const Finished out = tapestry_run("export {} --format gguf --out {}", run, file);
    REQUIRE(out.err == "");
    const JsonValue fields = GgufReader(file).fields();
    if (name == std::string("default")) {
      CHECK(fields["tokenizer.chat_template"] == "{{ all }}");
      continue;
    }
    check_says(out.out, {"the file has no chat template", says});
    CHECK(!fields.contains("tokenizer.chat_template"));
    check_says(tapestry_run("chat " + run).err, {says, "give --template chatml"});
  }
}

TEST_CASE_FIXTURE(TemporaryFolder, "gguf: float16 and q8_0 keep the logits within tolerances") {
  const std::string run =
      trained_run(*this, as_llama + Words({"data.path=" + write("story.txt", story()),
                                           "data.tokenizer=train", "data.vocabulary=270"}));
  const TrainedModel before = model_of(run);
  const std::vector<std::int32_t> tokens = {5, 1, 260, 77};
  const Array exact = logits_of(*before.task, tokens);
  for (const auto& [dtype, allowed, bytes] :
       {std::tuple("float32", 0.0, 4.0), {"float16", 2e-3, 2.0}, {"q8_0", 2e-2, 34 / 32.0}}) {
    const std::string out = path(dtype);
    const Finished exported =
        tapestry_run("export {} --format gguf --dtype {} --out {}", run, dtype, out);
    REQUIRE(exported.err == "");
    CHECK(exported.out == out + ": LlamaForCausalLM, in " + dtype + "\n");
    const double difference =
        largest_difference(exact, logits_of(*import_gguf(out, {}).task, tokens));
    CHECK(difference <= allowed);
    CHECK((difference > 0) == (allowed > 0));
    const double numbers = 270 * 32 + 4 * 32 * 32 + 3 * 32 * 64;
    CHECK(static_cast<double>(fs::file_size(out)) > numbers * bytes);
    CHECK(static_cast<double>(fs::file_size(out)) < numbers * bytes + 16000);  // with its tokens
  }
}

TEST_CASE_FIXTURE(TemporaryFolder,
                  "gguf: rows that are no whole blocks are float16, with a message") {
  const std::string out = path("m.gguf");
  const Finished exported = tapestry_run(
      {"export", run_of(*this, "qwen3"), "--format", "gguf", "--dtype", "q8_0", "--out", out});
  CHECK(exported.err == "");
  check_says(exported.out,
             {out + ": Qwen3ForCausalLM, in q8_0\n",
              "in float16 instead, because the length of a row is not a multiple of 32: "
              "token_embd.weight, ",
              "the tokenizer composes characters (NFC), llama.cpp does not: give llama.cpp "
              "composed texts"});
}

TEST_CASE_FIXTURE(TemporaryFolder, "gguf: a character-level model is exported and imported again") {
  const std::string text = story() + "\"quoted\" \\ é 日🙂\t\n";
  const std::string run = trained_run(*this, {"data.path=" + write("story.txt", text)}),
                    out = path("m.gguf"), again = path("again");
  const Finished exported = tapestry_run("export {} --format gguf --out {}", run, out);
  CHECK(exported.err == "");
  check_says(exported.out, {"only texts of characters that the model knows"});
  const GgufReader reader(out);
  const JsonValue& fields = reader.fields();
  CHECK(fields["tokenizer.ggml.model"] == "rwkv");
  CHECK(fields["tokenizer.ggml.tokens"][0] == "\\x09");
  CHECK(fields["tokenizer.ggml.tokens"][1] == "\\x0a");
  must_run("import {} --out {}", out, again);
  CHECK(language_model(*model_of(again).task).metadata().at("vocabulary") ==
        language_model(*model_of(run).task).metadata().at("vocabulary"));
  const auto sampled = [&](const std::string& model) {
    return tapestry_run({"sample", model, "--prompt", "é \\", "--tokens", "40"}).out;
  };
  CHECK(sampled(again) == sampled(run));
}

TEST_CASE_FIXTURE(TemporaryFolder,
                  "gguf: a model of names is exported with line ends, and imported") {
  std::string names;
  for (const char* name : {"ana", "béa", "bo", "cléo", "dan", "eva", "finn", "gus", "ida", "日"})
    names += std::string(name) + "\n";
  const std::string run = trained_run(*this, {"data.kind=names", "data.held_back=2",
                                              "data.path=" + write("names.txt", names)}),
                    out = path("m.gguf"), again = path("again");
  must_run("export {} --format gguf --out {}", run, out);
  const GgufReader reader(out);
  const JsonValue& fields = reader.fields();
  CHECK(fields["tokenizer.ggml.model"] == "gpt2");
  CHECK(fields["tokenizer.ggml.tokens"][0] == "Ċ");
  CHECK(fields["tokenizer.ggml.merges"] == JsonValue({"Ã ©", "æ Ĺ", "æĹ ¥"}));
  CHECK(fields["tokenizer.ggml.eos_token_id"] == 0);
  must_run("import {} --out {}", out, again);
  const auto sampled = [&](const std::string& model) {
    return tapestry_run("sample {} --tokens 8", model).out;
  };
  CHECK(sampled(again) == sampled(run));
}

TEST_CASE_FIXTURE(TemporaryFolder,
                  "gguf: embedding rows beyond the tokens are exported as unused tokens") {
  const std::string run =
      trained_run(*this, {"data.path=" + write("story.txt", story()), "model.vocabulary=64"});
  const std::string out = path("m.gguf");
  must_run("export {} --format gguf --out {}", run, out);
  const GgufReader reader(out);
  const JsonValue& fields = reader.fields();
  CHECK(fields["tokenizer.ggml.tokens"].size() == 64);
  CHECK(fields["tokenizer.ggml.tokens"][63] == "\\xff[PAD63]");
  CHECK(fields["tokenizer.ggml.token_type"][63] == 5);
  const ImportedModel model = import_gguf(out, {});
  CHECK(language_model(*model.task).vocabulary() == 64);
  CHECK(language_model(*model.task).tokenizer().size() ==
        language_model(*model_of(run).task).tokenizer().size());
}

TEST_CASE_FIXTURE(TemporaryFolder,
                  "gguf: models that llama.cpp computes differently are refused with the key") {
  const auto refusal = [&](const Words& settings) {
    Config config = parse_config("task = \"language-model\"\n", "text",
                                 "model.layers=1 model.width=16" + settings);
    std::unique_ptr<Task> task = make_task({config, {{"vocabulary", "[\"a\",\"b\"]"}}, false});
    const TrainedModel trained{std::move(config), std::move(task), {}};
    const std::string out = path("m.gguf");
    const std::string message = message_of([&] { export_gguf(trained, out, GgufType::f32); });
    CHECK_FALSE(fs::exists(out));
    return message;
  };
  CHECK(refusal("model.activation=gelu") ==
        "--set: model.activation = \"gelu\": llama.cpp does not support this for gpt2; expected "
        "\"gelu_tanh\"; --format huggingface writes the model unchanged");
  check_says(refusal(as_llama + "model.activation=gelu"),
             {"model.activation = \"gelu\"", "for llama", "expected \"silu\""});
  check_says(refusal(as_llama + "model.attention_bias=inputs model.head_width=8"),
             {"model.head_width = 8", "for qwen2", "expected 0"});
  check_says(refusal(as_llama + "model.query_key_norm=true model.attention_bias=all"),
             {"model.attention_bias = \"all\"", "for qwen3", "expected \"none\""});
  check_says(refusal(as_llama + "model.query_key_norm=true model.rotary_scaling=llama3"),
             {"model.rotary_scaling = \"llama3\"", "for qwen3", "expected \"none\""});
  check_says(refusal("model.attention=random-features"), {"model.attention", "\"softmax\""});
  check_says(refusal("model.window=4"), {"model.window = 4", "expected 0"});
  check_says(refusal("model.kind=recurrent"), {"--format gguf: model.kind = \"recurrent\""});
  check_says(refusal("model.kind=lstm"), {"--format gguf: model.kind = \"lstm\""});
}

TEST_CASE_FIXTURE(TemporaryFolder, "gguf: wrong arguments of export are refused in one line") {
  const auto says = [&](const Words& words, const std::string& message) {
    const Finished refused = tapestry_run("export" + words);
    CHECK(refused.status == 2);
    CHECK(refused.err == "tapestry: " + message + "\n");
  };
  const std::string run = run_of(*this, "gpt2"), out = path("m.gguf");
  says({run, "--format", "gguf", "--dtype", "bfloat16", "--out", out},
       "--dtype bfloat16: expected one of float32, float16, q8_0 with --format gguf");
  says({run, "--dtype", "q8_0", "--out", out},
       "--dtype q8_0: expected one of float32, bfloat16 with --format huggingface");
  says({run, "--format", "ggml", "--out", out},
       "--format ggml: expected one of huggingface, peft, gguf, onnx, safetensors");
  says({run, "--format", "gguf"}, "--out is required: the file to write");
  says({run, "--format", "gguf", "--out", write("there", "text")},
       path("there") + ": already exists; give the name of a new file");
  const std::string graph = path("graph");
  must_run("train karate --out {} --quiet train.steps=2", graph);
  says({graph, "--format", "gguff", "--out", out},
       "--format gguff: expected one of onnx, safetensors");  // bug: formats of other tasks
  says({graph, "--format", "gguf", "--out", out},
       "--format gguf: task = \"graph\": expected \"language-model\"; --format safetensors writes "
       "the weights of any model");
  CHECK_FALSE(fs::exists(out));
}

// A golden model with a changed tokenizer.json.
TEST_CASE("gguf: tokenizers that llama.cpp does not support are refused") {
  const auto refusal = [](const std::function<void(Json&)>& change) {
    const TemporaryFolder folder;
    fs::copy(published("gpt2"), folder.path("hf"));
    Json json = Json::parse(folder.read("hf/tokenizer.json"));
    change(json);
    folder.write("hf/tokenizer.json", json.dump());
    must_run("import {} --out {}", folder.path("hf"), folder.path("run"));
    const TrainedModel trained = model_of(folder.path("run"));
    return message_of([&] { export_gguf(trained, folder.path("m.gguf"), GgufType::f32); });
  };
  CHECK(refusal([](Json&) {}).empty());
  CHECK(refusal([](Json& json) {
          json["normalizer"] = {{"type", "Lowercase"}};
        }) ==
        "--format gguf: the tokenizer converts texts to lower case, which llama.cpp does not "
        "support; use --format huggingface");
  CHECK(refusal([](Json& json) { json["pre_tokenizer"]["add_prefix_space"] = true; }) ==
        "--format gguf: the tokenizer adds a space before texts, which llama.cpp does not support; "
        "use --format huggingface");
  // bug: it was refused although merges alone give each token.
  CHECK(refusal([](Json& json) { json["model"]["ignore_merges"] = true; }).empty());
  // Without the merge, the piece "at" is this token only if whole tokens are looked up first.
  CHECK(refusal([](Json& json) {
          json["model"]["ignore_merges"] = true;
          json["model"]["merges"].erase(0);
          json["model"]["merges"].erase(1);
        }) ==
        "--format gguf: the tokenizer has ignore_merges = true, which llama.cpp supports only with "
        "Llama 3's pre-tokenizer; use --format huggingface");
}

TEST_CASE("gguf: files of other models are refused with the field or tensor") {
  CHECK(TinyLlama().message().empty());
  const auto says = [](const TinyLlama& model, const std::string& message) {
    CHECK(model.message() == "tiny.gguf: " + message);
  };
  const std::string text;
  says(TinyLlama().set("general.architecture", std::string("gemma")),
       "general.architecture: expected one of gpt2, llama, qwen2, qwen3, found \"gemma\"; use "
       "another file");
  says(TinyLlama().set("general.type", std::string("adapter")),
       "general.type: expected \"model\", the only supported value, found \"adapter\"; use another "
       "file");
  says(TinyLlama().set("llama.attention.sliding_window", std::uint32_t{4}),
       "llama.attention.sliding_window = 4: unknown field, which may change what the model "
       "computes; use a file without this field, or import with --ignore "
       "llama.attention.sliding_window");
  says(TinyLlama().set("llama.expert_count", std::uint32_t{8}),
       "llama.expert_count: expected 0, the only supported value, found 8; use another file");
  says(TinyLlama().set("llama.rope.scaling.type", std::string("yarn")),
       "llama.rope.scaling.type: expected \"none\", the only supported value, found \"yarn\"; "
       "use another file");
  says(TinyLlama().set("llama.rope.dimension_count", std::uint32_t{4}),
       "llama.rope.dimension_count: expected 2, the only supported value, found 4; use another "
       "file");
  says(TinyLlama().set("llama.block_count", -1.0F),
       "llama.block_count: expected a whole number from 1 to 2^40, found -1.0; use another file");
  says(TinyLlama().set("split.count", std::uint32_t{3}),
       "split.count: expected 1 or 0, found 3; use another file");
  says(TinyLlama().set("tokenizer.ggml.model", std::string("llama")),
       "tokenizer.ggml.model: expected \"gpt2\" (byte pairs) or \"rwkv\" (characters; "
       "SentencePiece is not supported), found \"llama\"; use another file");
  says(TinyLlama().set("tokenizer.ggml.tokens", Strings{"a", "bc", "d"}),
       "tokenizer.ggml.tokens: vocabulary: symbol 1 is not one UTF-8 character; the list is "
       "damaged, copy or create it again; expected single characters, as Tapestry writes them; use "
       "another file");
  says(TinyLlama().set("tokenizer.ggml.token_type", std::vector<std::int32_t>{1, 1}),
       "tokenizer.ggml.token_type: expected 3 numbers, one for each token, instead of 2, found "
       "[1,1]; use another file");
  says(TinyLlama().set("tokenizer.ggml.token_type", std::vector<std::int32_t>{1, 9, 1}),
       "tokenizer.ggml.token_type: expected numbers from 1 to 5, of which number 1 is 9, found "
       "[1,9,1]; use another file");
  says(TinyLlama().set("tokenizer.ggml.token_type", std::vector<std::int32_t>{5, 5, 5}),
       "tokenizer.ggml.tokens: expected at least one used token, found "
       "[\"a\",\"\\\\n\",\"\\u00e9\"]; use another file");
  says(TinyLlama().set("llama.embedding_length", std::uint32_t{8}),
       "tensor token_embd.weight has shape (3, 4), but its fields ask for (3, 8); check the files "
       "and --set");
  says(TinyLlama().set("llama.embedding_length", std::uint32_t{60000}),
       "describes a model with more weights than the 124 of tiny.gguf; check the files and --set");

  TinyLlama missing;
  missing.tensors.erase("blk.0.ffn_up.weight");
  says(missing,
       "tensor blk.0.ffn_up.weight (3, 4) is missing, but its fields ask for this tensor; check "
       "the files and --set");
  TinyLlama more;
  more.tensors["blk.1.attn_q.weight"] = {4, 4};
  says(more,
       "unexpected tensor blk.1.attn_q.weight (4, 4): its fields ask for no such tensor; check the "
       "files and --set");
  TinyLlama turned;
  turned.tensors["rope_freqs.weight"] = {1};
  says(turned,
       "tensor rope_freqs.weight: expected the factors of Llama 3's scaling, as Llama 3.1 to 3.3 "
       "or the fields tapestry.rotary_* describe them, found others; use another file");
  turned.tensors["rope_freqs.weight"] = {2};
  says(turned,
       "tensor rope_freqs.weight has shape (2,), but its fields ask for (1,); check the files and "
       "--set");
  TinyLlama headless;
  headless.fields.erase("llama.attention.head_count");
  says(headless,
       "llama.attention.head_count: expected a whole number from 1 to 2^40, found nothing; use "
       "another file");
}

TEST_CASE("bug: a GGUF file's wrong vocab_size was ignored") {
  CHECK(TinyLlama().set("llama.vocab_size", std::uint32_t{3}).message().empty());
  CHECK(TinyLlama().set("llama.vocab_size", std::uint32_t{5}).message() ==
        "tiny.gguf: llama.vocab_size: expected 3, the only supported value, found 5; use another "
        "file");
}

TEST_CASE_FIXTURE(TemporaryFolder, "bug: a GGUF file's output layer was dropped if --set tied it") {
  TinyLlama model;
  model.tensors["output.weight"] = {3, 4};
  const std::string path = model.write(*this);
  CHECK_ERROR(import_gguf(path, {"model.tied_embeddings=true"}),
              "tiny.gguf: tensor output.weight differs from token_embd.weight", "ties them");
}

TEST_CASE_FIXTURE(TemporaryFolder, "gguf: wrong tokens of byte pairs are refused with the field") {
  const Strings tokens = {"a", "b", "ab", "<end>"};
  const auto made = [&] {
    return TinyLlama()
        .byte_pairs(tokens, {"a b"})
        .set("tokenizer.ggml.token_type", std::vector<std::int32_t>{1, 1, 1, 3})
        .set("tokenizer.ggml.eos_token_id", std::uint32_t{3});
  };
  CHECK(made().message().empty());
  const auto says = [](const TinyLlama& model, const std::string& message) {
    CHECK(model.message() == "tiny.gguf" + message);
  };
  says(made().set("tokenizer.ggml.pre", std::string("tekken")),
       ": tokenizer.ggml.pre: expected one of gpt-2, smollm, llama-bpe, llama3, smaug-bpe, qwen2, "
       "found \"tekken\"; use another file");
  says(made().set("tokenizer.ggml.eos_token_id", std::uint32_t{4}),
       ": tokenizer.ggml.eos_token_id: expected the number of a token, below 4, found 4; use "
       "another file");
  says(made().set("tokenizer.ggml.add_bos_token", true),
       ": tokenizer.ggml.add_bos_token: expected false, or a field with the number of the token to "
       "add, found true; use another file");
  says(made().set("tokenizer.ggml.tokens", Strings{"a", "b", "a", "<end>"}),
       ": tokenizer.ggml.tokens: expected different tokens, found "
       "[\"a\",\"b\",\"a\",\"<end>\"]; use another file");
  says(made().set("tokenizer.ggml.merges", Strings{"b a"}),
       " (tokens as a tokenizer.json): model.merges[0]: expected two tokens of model.vocab "
       "whose concatenation is a token, found \"b a\"; use byte-level BPE, as in GPT-2, "
       "SmolLM2, Llama 3 and Qwen2");
  says(made().set("tokenizer.ggml.merges", true),
       ": tokenizer.ggml.merges: expected a list, found true; use another file");

  const ImportedModel model = import_gguf(made().write(*this), {});
  CHECK(language_model(*model.task).end_of_text() == 3);
  CHECK(language_model(*model.task).tokenizer().encode("abba") ==
        std::vector<std::int32_t>{2, 1, 0});
}

TEST_CASE_FIXTURE(TemporaryFolder, "bug: shakespeare-char could not be exported as GGUF") {
  const std::string run = path("run"), out = path("m.gguf");
  const Finished trained =
      tapestry_run({"train", "shakespeare-char", "--quiet", "--out", run,
                    "data.path=" + write("story.txt", story(20)), "train.steps=1",
                    "train.eval_every=0", "train.samples=false"});
  REQUIRE_MESSAGE(trained.status == 0, trained.err);
  must_run("export {} --format gguf --out {}", run, out);
  must_run("import {} --out {}", out, path("again"));
  CHECK(tapestry_run("sample {} --temperature 0", path("again")).out ==
        tapestry_run("sample {} --temperature 0", run).out);
}

// Llama 3.1's own numbers need no fields beside the factors, and earlier versions wrote no
// rotary_factor.
TEST_CASE_FIXTURE(TemporaryFolder,
                  "gguf: Llama 3.1's position scaling is recognized by its factors") {
  const std::string run = trained_run(
      *this, as_llama + Words({"data.path=" + write("story.txt", story()),
                               "model.rotary_scaling=llama3", "model.rotary_base=500000"}));
  const std::string out = path("m.gguf");
  must_run("export {} --format gguf --out {}", run, out);
  const TrainedModel before = model_of(run);
  std::string bytes = read_bytes(out);
  for (const std::string& field :
       Words("tapestry.rotary_factor tapestry.rotary_low_frequency tapestry.rotary_high_frequency "
             "tapestry.rotary_original_context")) {
    const std::size_t at = bytes.find(field);
    REQUIRE(at != std::string::npos);
    bytes.replace(at, 9, "general.x");  // an unknown field
    const ImportedModel model = import_gguf(write("plain.gguf", bytes), {});
    CHECK(logits_difference(*before.task, *model.task) == 0);
  }
}

TEST_CASE_FIXTURE(TemporaryFolder,
                  "bug: gguf: short heads with scaled positions could not be imported again") {
  const std::string run = trained_run(
      *this, as_llama + Words({"data.path=" + write("story.txt", story()), "model.head_width=8",
                               "model.rotary_scaling=llama3", "model.rotary_factor=5"}));
  const std::string out = path("m.gguf");
  must_run("export {} --format gguf --out {}", run, out);
  const ImportedModel model = import_gguf(out, {});
  CHECK(model.config.toml().find("rotary_factor = 5.0") != std::string::npos);
  CHECK(logits_difference(*model_of(run).task, *model.task) == 0);
}

TEST_SUITE_END();

}  // namespace
}  // namespace tapestry
