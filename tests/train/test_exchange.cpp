#include <doctest/doctest.h>

#include <cstdlib>

#include "data/input_file.hpp"
#include "tests/support/published.hpp"
#include "tests/support/small.hpp"
#include "tests/support/tensor_files.hpp"
#include "train/generate/generate.hpp"
#include "train/run/run.hpp"
#include "train/task_spec.hpp"
#include "train/tools/convert/export.hpp"
#include "train/tools/convert/gguf_file.hpp"

// Tests import and export of Hugging Face models. tests/golden/published has random models saved by
// its library, and their logits (tests/interop/make_published.py).
namespace tapestry {
namespace {

const Words models = "gpt2 llama3 qwen2 qwen3";

// Returns the last `count` positions of logits (B, T, V).
Array last_positions(const Array& logits, std::int64_t count) {
  const std::int64_t B = logits.dim(0), T = logits.dim(1), V = logits.dim(2);
  Array last({B, count, V});
  for (std::int64_t b = 0; b < B; ++b)
    std::ranges::copy(logits.values<float>().subspan((b * T + T - count) * V, count * V),
                      last.mutable_values<float>().begin() + b * count * V);
  return last;
}

// A copy of a golden folder, which tests change.
class Copied {
 public:
  explicit Copied(const std::string& name) { fs::copy(published(name), folder.path("model")); }

  std::string path(const std::string& name = "") const {
    return folder.path(name.empty() ? "model" : "model/" + name);
  }
  void change(const std::string& file, const Json& fields) const {
    change_json(path(file), fields);
  }
  std::string message() const {
    return message_of([&] { import_published(path(), {}); });
  }
  TemporaryFolder folder;
};

TEST_SUITE_BEGIN("exchange");

TEST_CASE("exchange: imported models compute the logits of Hugging Face's library") {
  for (const std::string& name : models) {
    CAPTURE(name);
    const ImportedModel model = import_published(published(name), {});
    const Safetensors expected = read_safetensors(published(name) + "/expected.safetensors");
    const Array tokens = *find_tensor(expected, "tokens");
    const Array logits = logits_of(*model.task, tokens);
    CHECK(largest_difference(last_positions(logits, 3), *find_tensor(expected, "logits")) < 1e-5);

    const auto first = tokens.values<std::int32_t>().first(tokens.dim(1));
    const auto greedy = find_tensor(expected, "greedy")->values<std::int32_t>();
    Random unused(1, Stream::sample, 0);
    const std::vector<std::int32_t> written = std::visit(
        [&](const auto& network) {
          return generate(network, {first.begin(), first.end()}, std::ssize(greedy),
                          {.temperature = 0}, unused);
        },
        language_model(*model.task).network());
    CHECK(std::ranges::equal(written, greedy));
  }
}

// Imports a model, saves it as a run, and exports it again.
TEST_CASE("exchange: imported models are exported and imported again") {
  for (const std::string& name : models) {
    CAPTURE(name);
    const TemporaryFolder folder;
    const std::string run = folder.path("run"), out = folder.path("out");
    must_run({"import", published(name), "--out", run});
    must_run("export {} --out {}", run, out);

    const Json before = Json::parse(read_bytes(published(name) + "/config.json")),
               after = Json::parse(read_bytes(out + "/config.json"));
    for (const std::string& field :
         Words("architectures model_type vocab_size eos_token_id bos_token_id tie_word_embeddings"))
      CHECK(before[field] == after[field]);
    for (const char* file : {"tokenizer_config.json", "generation_config.json", "tokenizer.json"})
      CHECK(Json::parse(read_bytes(published(name) + "/" + file)) ==
            Json::parse(read_bytes(out + "/" + file)));
    const ImportedModel model = import_published(published(name), {}),
                        again = import_published(out, {});
    CHECK(model.architecture == again.architecture);
    CHECK(parameters_difference(*model.task, *again.task) == 0);
  }
}

TEST_CASE("exchange: other files of a model are exported unchanged") {
  const Copied model("llama3");
  model.folder.write("model/chat_template.jinja", "{{ messages }}");
  model.change("generation_config.json", {{"temperature", 0.6}});
  const std::string run = model.folder.path("run"), out = model.folder.path("out");
  must_run("import {} --out {}", model.path(), run);
  must_run("export {} --dtype bfloat16 --out {}", run, out);
  CHECK(read_bytes(out + "/chat_template.jinja") == "{{ messages }}");
  CHECK(Json::parse(read_bytes(out + "/generation_config.json"))["temperature"] == 0.6);
  CHECK(Json::parse(read_bytes(out + "/config.json"))["torch_dtype"] == "bfloat16");
  // bfloat16 weights are unchanged.
  CHECK(SafetensorsReader(out + "/model.safetensors").entries().front().dtype ==
        std::string("BF16"));
  CHECK(parameters_difference(*import_published(published("llama3"), {}).task,
                              *import_published(out, {}).task) == 0);
}

// A model that rotates neighboring columns is exported with reordered rows.
TEST_CASE_FIXTURE(
    TemporaryFolder,
    "exchange: rotary embeddings of neighboring columns are exported as those of halves") {
  const std::string out = path("out"),
                    run = trained_run(
                        *this, {"data.path=" + write("story.txt", story()), "data.tokenizer=train",
                                "data.vocabulary=270", "model.norm_kind=rms", "model.gated=true",
                                "model.bias=false", "model.positions=rotary",
                                "model.query_key_norm=true", "model.activation=silu"});
  must_run("export {} --out {}", run, out);
  const TrainedModel trained = model_of(run);
  const ImportedModel imported = import_published(out, {});
  CHECK(logits_difference(*trained.task, *imported.task) < 1e-5);
  const std::string text = "7 green bottles";
  CHECK(language_model(*imported.task).tokenizer().encode(text) ==
        language_model(*trained.task).tokenizer().encode(text));
}

TEST_CASE_FIXTURE(TemporaryFolder, "exchange: wrong folders are refused by file, field or tensor") {
  CHECK_ERROR(import_published(path(), {}), "has no config.json");
  CHECK_ERROR(import_published(path("nowhere"), {}), "no such folder");

  const auto of_config = [](const std::string& name, const Json& fields) {
    const Copied model(name);
    model.change("config.json", fields);
    return model.message();
  };
  check_says(of_config("gpt2", {{"architectures", {"BertModel"}}}),
             {"config.json: architectures", "LlamaForCausalLM", "BertModel"});
  check_says(of_config("gpt2", {{"architectures", nullptr}}), {"architectures", "nothing"});
  check_says(of_config("gpt2", {{"model_type", "llama"}}), {"model_type: expected \"gpt2\""});
  check_says(of_config("gpt2", {{"scale_attn_by_inverse_layer_idx", true}}),
             {"scale_attn_by_inverse_layer_idx: expected false", "found true"});
  check_says(of_config("gpt2", {{"n_embd", "wide"}}),
             {"n_embd: expected a whole number from 1 to 2^40"});
  check_says(of_config("gpt2", {{"n_embd", nullptr}}), {"n_embd", "nothing"});
  check_says(of_config("gpt2", {{"new_trick", 7}}), {"new_trick = 7: unknown field"});
  check_says(of_config("gpt2", {{"activation_function", "tanh"}}), {"activation_function", "gelu"});
  check_says(of_config("gpt2", {{"n_inner", 21}}), {"tensor", "config.json asks for"});
  check_says(of_config("gpt2", {{"n_layer", 3}}), {"h.2.", "is missing"});
  check_says(of_config("gpt2", {{"n_layer", 1}}), {"h.1.", "asks for no such tensor"});
  check_says(of_config("gpt2", {{"vocab_size", 263}}), {"tokenizer.json: 264 tokens", "263"});
  check_says(of_config("gpt2", {{"n_embd", 60000}}), {"more weights than"});
  check_says(of_config("llama3", {{"rope_parameters", {{"rope_type", "yarn"}}}}),
             {"rope_parameters.rope_type", "yarn", "llama3"});
  check_says(of_config("llama3", {{"mlp_bias", true}}), {"bias", "is missing"});
  check_says(of_config("qwen2", {{"use_sliding_window", true}}), {"use_sliding_window"});
  check_says(of_config("qwen2", {{"tie_word_embeddings", false}}), {"lm_head.weight", "missing"});
  check_says(of_config("qwen2", {{"quantization_config", {{"bits", 4}}}}), {"quantization_config"});

  const Copied broken("gpt2");
  broken.folder.write("model/config.json", "{");
  check_says(broken.message(), {"config.json: line 1: is not JSON"});
  const Copied lone("llama3");
  fs::remove(lone.path("model-00002-of-00002.safetensors"));
  check_says(lone.message(), {"model-00002-of-00002.safetensors, which", "is missing"});
  const Copied astray("llama3");
  astray.change("model.safetensors.index.json", {{"weight_map", {{"a", "../secret"}}}});
  check_says(astray.message(), {"weight_map: a: expected the name of a file in this folder"});
  const Copied moved("llama3");
  moved.change("model.safetensors.index.json",
               {{"weight_map", {{"a", "model-00001-of-00002.safetensors"}}}});
  check_says(moved.message(), {"weight_map: tensor a is not in"});
  const Copied without("qwen3");
  fs::remove(without.path("tokenizer.json"));
  check_says(without.message(), {"has no tokenizer.json"});
  const Copied endless("qwen3");
  endless.change("tokenizer_config.json", {{"eos_token", "<nowhere>"}});
  check_says(endless.message(), {"eos_token", "expected a token of tokenizer.json"});
}

TEST_CASE_FIXTURE(TemporaryFolder, "bug: a model was not imported from within its folder") {
  const std::string model = path("models/tiny-gpt2");
  fs::create_directories(path("models"));
  fs::copy(published("gpt2"), model, fs::copy_options::recursive);
  fs::create_directories(model + "/inner");
  const std::pair<std::string, std::string> places[] = {
      {model, "."}, {model, "./"}, {model + "/inner", ".."}, {path("models"), "tiny-gpt2//"}};
  for (const auto& [from, name] : places) {
    CAPTURE(name);
    check_prints(tapestry_run("import " + name, {.folder = from}),
                 {"runs/tiny-gpt2: GPT2LMHeadModel"});
    fs::remove_all(from + "/runs");
  }
}

TEST_CASE("bug: an import left parameters added by --set uninitialized") {
  CHECK_ERROR(import_published(published("gpt2"), {"model.query_key_norm=true"}),
              "GPT2LMHeadModel has no module blocks.0.attention.query_norm", "--set");
  CHECK(message_of([&] { import_published(published("gpt2"), {"model.lora.rank=2"}); }).empty());
}

TEST_CASE_FIXTURE(TemporaryFolder, "bug: names for a model of byte pairs ended in std::bad_cast") {
  const std::string run = path("run");
  std::string names;
  for (char first = 'a'; first <= 'z'; ++first) names += std::string(1, first) + "na\n";
  must_run({"import", published("gpt2"), "--out", run});
  check_fails(
      run_here({"train",
                write("names.toml", "task = \"language-model\"\n[data]\nkind = \"names\"\n"),
                "--from", run, "--out", path("no"), "data.path=" + write("names.txt", names)}),
      {"data.kind = \"names\"", "names need a character-level model"});
}

TEST_CASE_FIXTURE(TemporaryFolder,
                  "exchange: a character-level model is exported and imported again") {
  const std::string data = write("story.txt", story() + "\"quoted\" \\ é 日🙂\n"),
                    run = trained_run(*this, {"data.path=" + data}), out = this->path("out");
  must_run("export {} --out {}", run, out);
  const std::string again = this->path("again");
  must_run("import {} --out {}", out, again);
  CHECK(language_model(*model_of(again).task).metadata().at("vocabulary") ==
        language_model(*model_of(run).task).metadata().at("vocabulary"));
  const auto sampled = [&](const std::string& model) {
    return tapestry_run({"sample", model, "--prompt", "é 日", "--tokens", "40"}).out;
  };
  CHECK(sampled(again) == sampled(run));
  CHECK(sampled(again).starts_with("é 日"));

  const std::string path = out + "/tokenizer.json", written = read_bytes(path);
  const auto refusal = [&](const std::function<void(Json&)>& change) {
    Json json = Json::parse(written);
    change(json);
    write("out/tokenizer.json", json.dump());
    return message_of([&] { import_published(out, {}); });
  };
  check_says(refusal([](Json& json) { json["pre_tokenizer"]["type"] = "Whitespace"; }),
             {path, "the WordLevel model is not as tapestry export writes one"});
  check_says(refusal([](Json& json) { json["model"]["vocab"]["the"] = 0; }),
             {path, "/model/vocab: expected single characters, numbered from 0 on"});
  check_says(refusal([](Json& json) { json["model"]["vocab"] = 3; }),
             {path, "/model/vocab: expected an object, found 3"});
}

TEST_CASE_FIXTURE(TemporaryFolder,
                  "exchange: models without an architecture there are refused with the key") {
  const auto refusal = [&](const Words& settings) {
    std::string text = "task = \"language-model\"\n";
    Config config = parse_config(text, "text", "model.layers=1 model.width=16" + settings);
    std::unique_ptr<Task> task = make_task({config, {{"vocabulary", "[\"a\",\"b\"]"}}, false});
    const TrainedModel trained{std::move(config), std::move(task), {}};
    const std::string out = path("out");
    const std::string message =
        message_of([&] { export_published(trained, out, StoredFloats::as_they_are); });
    CHECK_FALSE(fs::exists(out));
    return message;
  };
  check_says(refusal("model.window=4"), {"model.window = 4", "expected 0"});
  check_says(refusal("model.norm=post"), {"model.norm = \"post\"", "\"pre\""});
  check_says(refusal("model.attention=random-features"), {"model.attention"});
  check_says(refusal("model.positions=rotary"), {"model.positions", "model.norm_kind"});
  check_says(refusal("model.gated=true"), {"model.gated = true"});
  check_says(refusal("model.bias=false"), {"model.bias = false"});
  check_says(refusal("model.kind=recurrent"), {"model.kind", "transformer"});
  check_says(refusal("model.norm_kind=rms"), {"model.positions"});
  check_says(refusal("model.norm_kind=none"), {"model.norm_kind = \"none\"", "\"layer\" or"});
  check_says(refusal("model.feed_forward=-1"), {"model.feed_forward = -1", "expected 0 or more"});
  check_says(refusal("model.norm_kind=rms model.positions=rotary"), {"model.gated"});
  check_says(
      refusal(
          "model.norm_kind=rms model.positions=rotary model.gated=true model.query_key_norm=true"),
      {"model.bias = true"});
}

TEST_CASE_FIXTURE(TemporaryFolder,
                  "exchange: exports weights of any model, and overwrites nothing") {
  const std::string run = path("run"), weights = path("weights.safetensors");
  REQUIRE(tapestry_run(Words{"train", "karate", "--out", run, "--quiet", "train.steps=2"}).err ==
          "");
  must_run("export {} --format safetensors --out {}", run, weights);
  const auto checkpoint = load_checkpoint(Run(run).best());
  const Safetensors written = read_safetensors(weights);
  CHECK(!written.tensors.empty());
  for (const auto& [name, array] : written.tensors)
    CHECK(largest_difference(array, *find_tensor(checkpoint.file, name)) == 0);

  check_fails(run_here("export {} --out {}", run, path("hf")),
              {"task = \"graph\"", "--format safetensors"});
  CHECK_FALSE(has("hf"));
  check_says(tapestry_run("export {} --format zip --out x", run).err,
             {"--format zip", "expected one of onnx, safetensors"});
  CHECK(tapestry_run("export " + run).status == 2);

  must_run({"import", published("gpt2"), "--out", path("gpt2")});
  check_fails(run_here("export {} --out {}", path("gpt2"), run), {"already exists"});
  check_fails(run_here({"import", published("gpt2"), "--out", path("gpt2")}), {"--out"});
}

TEST_CASE_FIXTURE(TemporaryFolder, "exchange: --from uses weights, tokens and model of a run") {
  const std::string run = path("run"), tuned = path("tuned");
  write("story.txt", story(40));
  write("tune.toml",
        "task = \"language-model\"\n[optim]\nlearning_rate = 0\n[train]\n"
        "steps = 2\nbatch_size = 2\n");
  must_run({"import", published("qwen3"), "--out", run});
  const Finished trained = tapestry_run("train {} --from {} --out {} data.path={}",
                                        path("tune.toml"), run, tuned, path("story.txt"));
  REQUIRE(trained.err == "");
  check_says(trained.out, {"from the weights of"});
  CHECK(logits_difference(*model_of(run).task, *model_of(tuned).task) == 0);
  // It is exported with the imported files.
  must_run("export {} --out {}", tuned, path("out"));
  CHECK(Json::parse(read("out/tokenizer_config.json")) ==
        Json::parse(read_bytes(published("qwen3") + "/tokenizer_config.json")));

  check_fails(run_here("train sort --from {} --out {}", run, path("no")),
              {"language-model", "toy-sequence"});
  CHECK(tapestry_run("train {} --from {} --out {} data.path={} model.width=24", path("tune.toml"),
                     run, path("no"), path("story.txt"))
            .status == 2);
  CHECK_FALSE(has("no"));
  check_fails(run_here({"train", run + "/config.toml", "--out", run, "--resume",
                        "data.path=" + path("story.txt")}),
              {"--from"});
}

// --- fields of config.json ---

// Sets fields of a copied config.json, also to null.
void set_fields(const Copied& model, const Json& fields) {
  Json json = Json::parse(read_bytes(model.path("config.json")));
  for (const auto& [name, value] : fields.items()) json[name] = value;
  model.folder.write("model/config.json", json.dump());
}

TEST_CASE("bug: models were refused for fields without effect") {
  const Json fields = Json::parse(R"({
      "_num_labels": 1, "_flash_attn_2_enabled": true, "unsloth_fixed": true,
      "finetuning_task": "chat", "num_labels": 2, "prefix": "once", "tf_legacy_loss": true,
      "chunk_size_feed_forward": 8, "cross_attention_hidden_size": null,
      "decoder_start_token_id": 7, "max_length": 20, "min_length": 0, "do_sample": true,
      "early_stopping": false, "num_beams": 4, "temperature": 0.7, "top_k": 50, "typical_p": 1.0,
      "repetition_penalty": 1.1, "no_repeat_ngram_size": 3, "bad_words_ids": [[5]],
      "forced_eos_token_id": 3, "output_scores": true, "pruned_heads": null, "is_decoder": null,
      "add_cross_attention": null})");
  for (const std::string& name : models) {
    CAPTURE(name);
    const Copied model(name);
    set_fields(model, fields);
    if (name != "gpt2") set_fields(model, {{"attention_bias", nullptr}, {"rope_scaling", nullptr}});
    const ImportedModel changed = import_published(model.path(), {}),
                        before = import_published(published(name), {});
    CHECK(changed.ignored == (name == "qwen2" ? Strings{"attention_bias"} : Strings{}));
    CHECK(logits_difference(*changed.task, *before.task) == 0);
  }
}

TEST_CASE("bug: an unknown empty field was refused, and no field could be ignored") {
  const Copied model("llama3");
  Json rotary = Json::parse(read_bytes(model.path("config.json")))["rope_parameters"];
  rotary["beta_fast"] = nullptr;
  set_fields(model, {{"rope_parameters", rotary},
                     {"quantization_config", nullptr},
                     {"use_trick", false},
                     {"trick", ""},
                     {"tricks", Json::array()},
                     {"more tricks", Json::object()}});
  const std::string run = model.folder.path("run");
  check_prints(tapestry_run({"import", model.path(), "--out", run}),
               {"ignored the unknown fields rope_parameters.beta_fast, more tricks, "
                "quantization_config, trick, tricks, use_trick\n"});
  const auto refusal = [&](const Json& value, const Words& more = {}) {
    set_fields(model, {{"some trick", value}});
    const Words command{"import", model.path(), "--out", model.folder.path("no")};
    const std::string message = refused(run_here(command + more));
    CHECK_FALSE(model.folder.has("no"));
    return message;
  };
  for (const Json& value : {Json(0), Json(true), Json("x"), Json(Json::array({nullptr}))})
    check_says(refusal(value), {"config.json: some trick = " + value.dump() + ": unknown field",
                                "or import with --ignore 'some trick'"});
  check_says(refusal(7, {"--ignore", "use_trick"}), {"some trick = 7: unknown field"});
  for (const Json& both_ways : {Json(false), Json(nullptr)}) {
    set_fields(model, {{"is_causal", both_ways}});
    check_says(refusal(""),
               {"is_causal: expected true, the only supported value, found " + both_ways.dump()});
  }
  set_fields(model, {{"is_causal", true}});
  check_says(refusal(7, {"--ignore", "some trick", "--ignore", "hidden_size"}),
             {"--ignore hidden_size: ", "has no unknown field of this name"});
  rotary["beta_fast"] = 32;
  set_fields(model, {{"rope_parameters", rotary}});
  check_says(refusal(7, {"--ignore", "some trick"}),
             {"rope_parameters.beta_fast = 32: unknown field"});
  const Finished made =
      must(tapestry_run({"import", model.path(), "--out", model.folder.path("all"), "--json",
                         "--ignore", "some trick", "--ignore", "rope_parameters.beta_fast"}));
  CHECK(Json::parse(made.out)["ignored"] ==
        Json({"rope_parameters.beta_fast", "more tricks", "quantization_config", "some trick",
              "trick", "tricks", "use_trick"}));
}

TEST_CASE("bug: a tokenizer.json with stored padding or truncation was refused") {
  const Json stored = Json::parse(R"({
      "padding": {"strategy": {"Fixed": 16}, "direction": "Right", "pad_to_multiple_of": null,
                  "pad_id": 0, "pad_type_id": 0, "pad_token": "!"},
      "truncation": {"direction": "Right", "max_length": 2, "strategy": "LongestFirst",
                     "stride": 0}})");
  const Copied model("qwen3");
  const auto encoded = [&] {
    const ImportedModel imported = import_published(model.path(), {});
    return language_model(*imported.task).tokenizer().encode("a long text");
  };
  const std::vector<std::int32_t> wanted = encoded();
  model.change("tokenizer.json", stored);
  CHECK(encoded() == wanted);
}

// --- weights ---

TEST_CASE("bug: a file with only the head of a tied model was refused") {
  const std::pair<std::string, std::string> tables[] = {{"gpt2", "transformer.wte.weight"},
                                                        {"qwen2", "model.embed_tokens.weight"}};
  for (const auto& [name, table] : tables) {
    for (const std::string prefix : {"", "transformer."}) {
      CAPTURE(name + prefix);
      const Copied model(name);
      const std::string path = model.path("model.safetensors");
      Safetensors file = read_safetensors(path);
      for (auto& [tensor, array] : file.tensors) {
        if (tensor == table) tensor = "lm_head.weight";
        if (name == "gpt2" && tensor.starts_with(prefix)) tensor.erase(0, prefix.size());
      }
      write_safetensors(path, file);
      CHECK(logits_difference(*import_published(model.path(), {}).task,
                              *import_published(published(name), {}).task) == 0);
      CHECK_ERROR(import_published(model.path(), {"model.tied_embeddings=false"}),
                  "tensor " + table, "is missing");
    }
  }
}

// --- the context ---

TEST_CASE_FIXTURE(TemporaryFolder,
                  "bug: another context than the source's was reported as a wrong tensor") {
  const std::string run = path("run"), tune = path("tune.toml");
  write("tune.toml", "task = \"language-model\"\ndata.path = \"" + write("story.txt", story(40)) +
                         "\"\n[train]\nsteps = 1\nbatch_size = 2\n");
  check_refused(run_here({"import", published("gpt2"), "--out", run, "--set", "model.context=8"}),
                {"model.context = 8: expected 32, the number of learned positions of"});
  CHECK_FALSE(has("run"));
  must_run({"import", published("gpt2"), "--out", run});
  for (const char* context : {"8", "64"})
    check_refused(run_here("train {} --from {} --out {} --set model.context={}", tune, run,
                           path("tuned"), context),
                  {fmt::format("model.context = {}: expected 32, with which the learned positions "
                               "of {} were trained",
                               context, run)});
  CHECK_FALSE(has("tuned"));
}

TEST_CASE_FIXTURE(TemporaryFolder,
                  "bug: a shorter context of a training was exported as the model's") {
  write("tune.toml", "task = \"language-model\"\ndata.path = \"" + write("story.txt", story(40)) +
                         "\"\n[train]\nsteps = 1\nbatch_size = 2\n");
  const auto tuned = [&](const std::string& from, const std::string& run, int context) {
    must_run("train {} --from {} --out {} --quiet --set model.context={}", path("tune.toml"),
             path(from), path(run), context);
  };
  const auto exported = [&](const std::string& run) {
    const std::string out = path(run + "-hf"), file = path(run + ".gguf");
    must_run("export {} --out {}", path(run), out);
    must_run("export {} --format gguf --out {}", path(run), file);
    const Json config = Json::parse(read_bytes(out + "/config.json"));
    CHECK(GgufReader(file).fields()["llama.context_length"] ==
          config["max_position_embeddings"].get<int>());
    return config["max_position_embeddings"].get<int>();
  };
  must_run({"import", published("llama3"), "--out", path("source")});
  must_run({"import", published("llama3"), "--out", path("low"), "--set", "model.context=16"});
  tuned("source", "short", 8);
  tuned("short", "shorter", 4);
  tuned("short", "long", 64);
  tuned("long", "again", 8);
  CHECK(exported("source") == 32);
  CHECK(exported("low") == 32);
  CHECK(exported("short") == 32);
  CHECK(exported("shorter") == 32);
  CHECK(exported("long") == 64);
  CHECK(exported("again") == 64);
  CHECK(language_model(*model_of(path("short")).task).context() == 8);
}

TEST_CASE_FIXTURE(TemporaryFolder,
                  "bug: a Llama that transformers refuses was exported without a message") {
  const auto exported = [&](int width, const std::string& format) {
    const std::string run = path(fmt::format("{}-{}", width, format));
    must_run(
        "train {} --out {} --quiet --set data.path={} --set model.layers=1 --set "
        "model.heads=4 --set model.width={} --set model.head_width=4 --set "
        "model.context=8 --set train.steps=1 --set train.batch_size=2 --set "
        "model.norm_kind=rms --set model.gated=true --set model.bias=false --set "
        "model.activation=silu --set model.positions=rotary",
        write("text.toml", "task = \"language-model\"\n"), run, write("story.txt", story()), width);
    const Finished finished =
        must(tapestry_run("export {} --format {} --out {}", run, format, run + "-out"));
    check_says(finished.out, {"LlamaForCausalLM, in float32"});
    return finished.err;
  };
  CHECK(
      exported(18, "huggingface") ==
      "tapestry: model.width = 18 is not a multiple of model.heads = 4: transformers refuses this "
      "of a LlamaForCausalLM; --format gguf writes the model for llama.cpp\n");
  CHECK(exported(18, "gguf") == "");
  CHECK(exported(16, "huggingface") == "");
}

// With TAPESTRY_RUN, TAPESTRY_TOKENS (a safetensors file with "tokens" (B, T)) and TAPESTRY_LOGITS
// it writes "logits" (B, T, V) for tests/interop/.
TEST_CASE("interop: writes a run's logits" *
          doctest::skip(std::getenv("TAPESTRY_TOKENS") == nullptr)) {
  const char *run = std::getenv("TAPESTRY_RUN"), *given = std::getenv("TAPESTRY_TOKENS"),
             *out = std::getenv("TAPESTRY_LOGITS");
  REQUIRE((run && given && out));
  const TrainedModel trained = model_of(run);
  const Safetensors tokens = read_safetensors(given);
  const Array logits = logits_of(*trained.task, *find_tensor(tokens, "tokens"));
  write_safetensors(out, {.tensors = {{"logits", logits}}, .metadata = {}});
  CHECK(find_tensor(read_safetensors(out), "logits")->shape() == logits.shape());
}

TEST_SUITE_END();

}  // namespace
}  // namespace tapestry
