#include <doctest/doctest.h>

#include <filesystem>

#include "tests/support/arrays.hpp"
#include "tests/support/run_fixture.hpp"
#include "train/run/run.hpp"
#include "train/tasks/language/language_model.hpp"
#include "train/tools/convert/import.hpp"

// Trainings that begin with a model and change a part of it: chosen parameters, or adapters, which
// come and go as peft keeps them. tests/golden/adapters holds random ones that it saved, and the
// logits that it computes with them (tests/interop/make_adapters.py).
namespace tapestry {
namespace {
namespace fs = std::filesystem;

const Strings adapting = {"model.lora.rank=2", "model.lora.alpha=4", "model.lora.dropout=0.2",
                          "optim.learning_rate=0.05"};

std::string golden_path(const std::string& name) {
  return TAPESTRY_SOURCE_DIR "/tests/golden/" + name;
}

Strings from(const RunFixture& fixture, const Strings& settings) {
  Strings words = {"--from", fixture.folder.path("base")};
  words.insert(words.end(), settings.begin(), settings.end());
  return words;
}

bool is_of_adapter(const std::string& tensor) { return tensor.find(".lora.") != tensor.npos; }

Array logits_with(Task& task, const Array& tokens) {
  return std::visit([&](const auto& model) { return model.forward(tokens).value(); },
                    dynamic_cast<LanguageModel&>(task).network());
}

const Array some_tokens = Array::of<std::int32_t>({1, 2, 3, 4, 5, 6, 7, 8}, {2, 4});

// A copy of a golden adapter, and a run of the model that it is for.
class CopiedAdapter {
 public:
  explicit CopiedAdapter(const std::string& name) {
    fs::copy(golden_path("adapters/" + name), path());
    REQUIRE(tapestry_run({"import", golden_path("published/" + name), "--out", run()}).err == "");
  }
  std::string path() const { return folder.path("adapter"); }
  std::string run() const { return folder.path("run"); }

  void change(const std::string& field, const Json& value) const {
    Json json = Json::parse(read_bytes(path() + "/adapter_config.json"));
    json[field] = value;
    folder.write("adapter/adapter_config.json", json.dump());
  }
  void change_tensors(const std::function<void(Safetensors&)>& change) const {
    Safetensors file = read_safetensors(path() + "/adapter_model.safetensors");
    change(file);
    write_safetensors(path() + "/adapter_model.safetensors", file);
  }
  // What is said of it, once; nothing is written.
  std::string message() const {
    const Finished finished =
        tapestry_run({"import", path(), "--base", run(), "--out", folder.path("out")});
    CHECK(finished.status == 2);
    CHECK(lines_of(finished.err).size() == 1);
    CHECK(!fs::exists(folder.path("out")));
    return finished.err;
  }

  TemporaryFolder folder;
};

}  // namespace

TEST_SUITE_BEGIN("fine-tuning");

TEST_CASE("fine-tuning: chosen parameters are trained, and the others keep their bits") {
  const RunFixture fixture;
  fixture.must_train("text", "base");
  fixture.must_train(
      "text", "tuned",
      from(fixture, {"train.trainable=[\"blocks.*.attention\", \"final_norm.weight\"]"}));
  const auto before = load_checkpoint(fixture.best("base")),
             after = load_checkpoint(fixture.checkpoint("tuned"));
  for (const auto& [name, array] : after.file.tensors) {
    CAPTURE(name);
    const bool trained = name.starts_with("blocks.0.attention.") || name == "final_norm.weight";
    if (name.starts_with("optimizer."))
      CHECK((name.find("blocks.0.attention.") != name.npos ||
             name.find("final_norm.weight") != name.npos));
    else
      CHECK(same_bits(array, *find_tensor(before.file, name)) != trained);
  }
}

TEST_CASE("fine-tuning: adapters alone are trained, have moments, and are resumed bit for bit") {
  const RunFixture fixture;
  fixture.must_train("text", "base");
  fixture.must_train("text", "tuned", from(fixture, adapting));
  const auto before = load_checkpoint(fixture.best("base")),
             after = load_checkpoint(fixture.checkpoint("tuned"));
  std::size_t adapters = 0, moments = 0;
  for (const auto& [name, array] : after.file.tensors) {
    CAPTURE(name);
    if (name.starts_with("optimizer."))
      moments += is_of_adapter(name);
    else if (is_of_adapter(name))
      ++adapters;
    else
      CHECK(same_bits(array, *find_tensor(before.file, name)));
  }
  CHECK(adapters == 4);
  CHECK(moments == 8);
  CHECK(moments + adapters + before.file.tensors.size() / 3 == after.file.tensors.size());
  CHECK(fixture.last_validation("tuned")["loss"] < fixture.last_validation("base")["loss"]);

  Strings half = from(fixture, adapting);
  half.push_back("train.steps=20");  // an evaluation of both
  fixture.must_train("text", "resumed", half);
  Strings rest = from(fixture, adapting);
  rest.push_back("--resume");
  fixture.must_train("text", "resumed", rest);
  check_same_checkpoint(fixture.checkpoint("tuned"), fixture.checkpoint("resumed"));
}

TEST_CASE("fine-tuning: any number of micro-batches, and averaged weights, go with adapters") {
  const RunFixture fixture;
  fixture.must_train("text", "base");
  Strings settings = from(fixture, adapting);
  settings.insert(settings.end(), {"train.micro_batches=2", "train.average_decay=0.9",
                                   "train.checkpoint_activations=true"});
  fixture.must_train("text", "tuned", settings);
  for (const auto& [name, array] : load_checkpoint(fixture.checkpoint("tuned")).file.tensors)
    CHECK((!name.starts_with("optimizer.weights.") || is_of_adapter(name)));
}

TEST_CASE("fine-tuning: every task whose model has blocks can have adapters") {
  const RunFixture fixture;
  fixture.must_train("toy", "base");
  fixture.must_train("toy", "tuned", from(fixture, {"model.lora.rank=2"}));
  fixture.must_train("vae", "pictures");
  const Finished vae = fixture.train(
      "vae", "refused", {"--from", fixture.folder.path("pictures"), "model.lora.rank=2"});
  CHECK(vae.status == 2);
  check_says(vae.err, {"model.lora.rank = 2", "a model with transformer blocks"});
}

TEST_CASE("fine-tuning: keys that fit nothing are refused in one line") {
  const RunFixture fixture;
  fixture.must_train("text", "base");
  const auto refusal = [&](const std::string& setting, const Strings& more = {}) {
    Strings settings = from(fixture, {setting});
    settings.insert(settings.end(), more.begin(), more.end());
    const Finished finished = fixture.train("text", "refused", settings);
    CHECK(finished.status == 2);
    CHECK(lines_of(finished.err).size() == 1);
    CHECK(!fs::exists(fixture.folder.path("refused")));
    return finished.err;
  };
  check_says(refusal("train.trainable=[\"block.0\"]"),
             {"train.trainable", "no parameter of the model matches \"block.0\"",
              "did you mean \"blocks.0\"?"});
  check_says(refusal("train.trainable=\"head\""), {"no parameter of the model matches \"head\""});
  check_says(refusal("train.trainable=[1]"), {"expected a list of strings"});
  check_says(refusal("model.lora.targets=[\"qeury\"]", {"model.lora.rank=1"}),
             {"expected one of query, key", "did you mean \"query\"?"});
  check_says(refusal("model.lora.targets=[\"gate\"]", {"model.lora.rank=1"}),
             {"unknown target gate", "expand"});
  check_says(refusal("model.lora.targets=[]", {"model.lora.rank=1"}), {"expected one of"});
  check_says(refusal("model.lora.targets=[\"key\", \"query_key_value\"]", {"model.lora.rank=1"}),
             {"key is contained in query_key_value"});
  check_says(refusal("model.lora.rank=33"),
             {"expected at most 32, the number of rows and columns of"});
  const Finished without_base = fixture.train("text", "refused", {"model.lora.rank=2"});
  check_says(without_base.err, {"model.lora.rank = 2", "--from RUN"});
  check_says(refusal("model.lora.alpha=3"), {"model.lora.alpha", "model.lora.rank"});

  // Adapters go on at the scale that they were learned with.
  fixture.must_train("text", "scaled", from(fixture, {"model.lora.rank=2", "train.steps=2"}));
  const Finished scaled = fixture.train(
      "text", "refused", {"--from", fixture.folder.path("scaled"), "model.lora.alpha=64"});
  CHECK(scaled.status == 2);
  check_says(scaled.err, {"model.lora.alpha = 64", "were trained with 16"});

  // A run with adapters, of which a model without is wanted.
  fixture.must_train("text", "adapted", from(fixture, {"model.lora.rank=2", "train.steps=2"}));
  Finished without = fixture.train("text", "refused",
                                   {"--from", fixture.folder.path("adapted"), "model.lora.rank=0"});
  CHECK(without.status == 2);
  check_says(without.err, {"unexpected tensor", "lora.query.a", "export --merge"});
}

TEST_CASE("fine-tuning: adapters of peft give imported models the logits that it computes") {
  for (const std::string name : {"gpt2", "llama3", "qwen3"}) {
    CAPTURE(name);
    const CopiedAdapter adapter(name);
    const TrainedModel both = load_trained_with(adapter.path(), adapter.run(), {}, false);
    const Array tokens = *find_tensor(
        read_safetensors(golden_path("published/" + name) + "/expected.safetensors"), "tokens");
    const Array wanted = *find_tensor(
        read_safetensors(golden_path("adapters/" + name) + "/expected.safetensors"), "logits");
    const Array logits = logits_with(*both.task, tokens);
    const std::int64_t B = logits.dim(0), T = logits.dim(1), V = logits.dim(2);
    for (std::int64_t b = 0; b < B; ++b)
      check_close(logits.part((b * T + T - 3) * V, (b + 1) * T * V),
                  wanted.part(b * 3 * V, (b + 1) * 3 * V), 1e-5);
  }
}

TEST_CASE("fine-tuning: an adapter that comes in goes out, in as many ranks as it needs") {
  for (const std::string name : {"gpt2", "llama3", "qwen3"}) {
    CAPTURE(name);
    const CopiedAdapter adapter(name);
    const std::string both = adapter.folder.path("both"), out = adapter.folder.path("out"),
                      merged = adapter.folder.path("merged"), again = adapter.folder.path("again");
    REQUIRE(tapestry_run({"import", adapter.path(), "--base", adapter.run(), "--out", both}).err ==
            "");
    REQUIRE(tapestry_run({"export", both, "--format", "peft", "--out", out}).err == "");
    const Safetensors before = read_safetensors(adapter.path() + "/adapter_model.safetensors"),
                      after = read_safetensors(out + "/adapter_model.safetensors");
    REQUIRE(before.tensors.size() == after.tensors.size());
    for (const auto& [tensor, array] : before.tensors) {
      REQUIRE_MESSAGE(find_tensor(after, tensor) != nullptr, tensor);
      CHECK(same_bits(*find_tensor(after, tensor), array));
    }

    const TrainedModel wanted = load_trained(both, {}, false);
    REQUIRE(tapestry_run({"export", both, "--merge", "--out", merged}).err == "");
    const ImportedModel whole = import_published(merged, {});
    check_close(logits_with(*whole.task, some_tokens), logits_with(*wanted.task, some_tokens),
                1e-5);
    REQUIRE(tapestry_run({"import", out, "--base", adapter.run(), "--out", again}).err == "");
    check_close(logits_with(*load_trained(again, {}, false).task, some_tokens),
                logits_with(*wanted.task, some_tokens), 0);
  }
}

TEST_CASE("fine-tuning: queries and values apart leave as one change of GPT-2's c_attn") {
  const RunFixture fixture;
  const Strings gpt2 = {"data.tokenizer=train", "data.vocabulary=260", "model.activation=gelu_tanh",
                        "model.dropout=0"};
  fixture.must_train("text", "base", gpt2);
  Strings settings = from(fixture, {"model.lora.rank=2",
                                    "model.lora.targets=[\"value\", \"query\", "
                                    "\"output\"]",
                                    "optim.learning_rate=0.05"});
  fixture.must_train("text", "tuned", settings);
  const std::string out = fixture.folder.path("adapter"), again = fixture.folder.path("again");
  REQUIRE(tapestry_run({"export", fixture.folder.path("tuned"), "--format", "peft", "--out", out})
              .err == "");
  const Json config = Json::parse(read_bytes(out + "/adapter_config.json"));
  CHECK(config["r"] == 4);
  CHECK(config["lora_alpha"] == 32);
  CHECK(config["target_modules"] == Json({"attn.c_attn", "attn.c_proj"}));
  CHECK(config["fan_in_fan_out"] == true);
  REQUIRE(
      tapestry_run({"import", out, "--base", fixture.folder.path("base"), "--out", again}).err ==
      "");
  check_close(logits_with(*load_trained(again, {}, false).task, some_tokens),
              logits_with(*load_trained(fixture.folder.path("tuned"), {}, false).task, some_tokens),
              1e-5);
}

TEST_CASE("fine-tuning: eval, sample and export apply an adapter") {
  const CopiedAdapter adapter("llama3");
  const auto sampled = [&](const Strings& more) {
    Strings words = {"sample", adapter.run(), "--tokens", "12", "--temperature", "0"};
    words.insert(words.end(), more.begin(), more.end());
    const Finished finished = tapestry_run(words);
    REQUIRE(finished.err == "");
    return finished.out;
  };
  CHECK(sampled({}) != sampled({"--adapter", adapter.path()}));
  adapter.folder.write("story.txt", story(3));
  const std::string data = "data.path=" + adapter.folder.path("story.txt");
  const auto loss = [&](const Strings& more) {
    Strings words = {"eval", adapter.run(), "--json", "--set", data};
    words.insert(words.end(), more.begin(), more.end());
    const Finished finished = tapestry_run(words);
    REQUIRE(finished.err == "");
    return Json::parse(finished.out)["loss"].get<double>();
  };
  CHECK(loss({}) != loss({"--adapter", adapter.path()}));

  const std::string out = adapter.folder.path("out");
  const Finished unmerged =
      tapestry_run({"export", adapter.run(), "--adapter", adapter.path(), "--out", out});
  CHECK(unmerged.status == 2);
  check_says(unmerged.err, {"--merge adds them to the weights", "--format peft"});
  CHECK(tapestry_run({"export", adapter.run(), "--merge", "--out", out}).status == 2);
  for (const char* format : {"peft", "safetensors"}) {
    Strings words = {"export", adapter.run(), "--adapter", adapter.path(), "--format", format};
    if (format == std::string("peft")) words.emplace_back("--merge");
    words.insert(words.end(), {"--out", out});
    const Finished refused = tapestry_run(words);
    CHECK(refused.status == 2);
    check_says(refused.err, {"--merge"});
  }
  REQUIRE(
      tapestry_run({"export", adapter.run(), "--adapter", adapter.path(), "--merge", "--out", out})
          .err == "");
  const TrainedModel both = load_trained_with(adapter.path(), adapter.run(), {}, false);
  check_close(logits_with(*import_published(out, {}).task, some_tokens),
              logits_with(*both.task, some_tokens), 1e-5);
}

TEST_CASE("bug: an adapter of more ranks than a map's smaller side was not read again") {
  const RunFixture fixture;
  fixture.must_train("text", "base",
                     {"data.tokenizer=train", "data.vocabulary=260", "model.activation=gelu_tanh"});
  fixture.must_train("text", "tuned",
                     from(fixture, {"model.lora.rank=16", "train.steps=2",
                                    "model.lora.targets=[\"query\", \"key\", \"value\"]"}));
  const std::string out = fixture.folder.path("adapter"), both = fixture.folder.path("both");
  REQUIRE(tapestry_run({"export", fixture.folder.path("tuned"), "--format", "peft", "--out", out})
              .err == "");
  CHECK(tapestry_run({"import", out, "--base", fixture.folder.path("base"), "--out", both}).err ==
        "");
  check_close(logits_with(*load_trained(both, {}, false).task, some_tokens),
              logits_with(*load_trained(fixture.folder.path("tuned"), {}, false).task, some_tokens),
              1e-5);
}

TEST_CASE("bug: export wrote where a run's files are, and over links that lead nowhere") {
  const RunFixture fixture;
  fixture.must_train("text", "base");
  const std::string base = fixture.folder.path("base"), link = fixture.folder.path("link");
  fs::create_symlink("nowhere", link);
  for (const char* format : {"safetensors", "onnx"}) {
    const Finished over_link = tapestry_run({"export", base, "--format", format, "--out", link});
    CHECK(over_link.status == 2);
    check_says(over_link.err, {"already exists"});
    const Finished into_run = tapestry_run(
        {"export", base, "--format", format, "--out", fixture.folder.path("base/samples.jsonl")});
    CHECK(into_run.status == 2);
    check_says(into_run.err, {"the name of a file of runs"});
    const Finished nowhere = tapestry_run(
        {"export", base, "--format", format, "--out", fixture.folder.path("no/folder")});
    CHECK(nowhere.status == 2);
    check_says(nowhere.err, {"does not exist"});
  }
}

TEST_CASE("bug: an imported file's name led out of runs/") {
  for (const std::string name : {"..", ".", ".hidden", "a/b", "two\nlines"})
    CHECK(message_of([&] { Run::default_folder(name, false); }).find("folder with --out") !=
          std::string::npos);
}

TEST_CASE("fine-tuning: a run of an imported adapter is trained on") {
  const CopiedAdapter adapter("llama3");
  const std::string both = adapter.folder.path("both"), on = adapter.folder.path("on");
  REQUIRE(tapestry_run({"import", adapter.path(), "--base", adapter.run(), "--out", both}).err ==
          "");
  adapter.folder.write("story.txt", story(20));
  adapter.folder.write("text.toml", "task = \"language-model\"\n");
  const Finished trained = tapestry_run(with_sets(
      {"train", adapter.folder.path("text.toml"), "--from", both, "--out", on, "--quiet",
       "data.path=" + adapter.folder.path("story.txt"), "train.steps=3", "train.batch_size=2"}));
  REQUIRE(trained.err == "");
  const TrainedModel before = load_trained(both, {}, false), after = load_trained(on, {}, false);
  CHECK(after.config.toml({"model.lora"}) == before.config.toml({"model.lora"}));
  const std::vector<Parameter*> parameters = before.task->model().parameters(),
                                others = after.task->model().parameters();
  for (std::size_t i = 0; i < parameters.size(); ++i)
    CHECK_MESSAGE(
        same_bits(parameters[i]->value(), others[i]->value()) != is_of_adapter(parameters[i]->name),
        parameters[i]->name);
}

TEST_CASE("fine-tuning: wrong adapters are refused by file, field or tensor") {
  const auto of_field = [](const std::string& field, const Json& value) {
    const CopiedAdapter adapter("llama3");
    adapter.change(field, value);
    return adapter.message();
  };
  check_says(of_field("peft_type", "IA3"), {"adapter_config.json: peft_type: expected \"LORA\""});
  check_says(of_field("r", 0), {"r: expected a whole number from 1 on, found 0"});
  check_says(of_field("r", 3), {"lora_A.weight has shape (2, 16)",
                                "adapter_config.json ask for (3, 16)", "base model"});
  check_says(of_field("r", 40), {"model.lora.rank = 40: expected at most"});
  check_says(of_field("r", 5000), {"adapter_config.json: r: expected a number from 0 to 4096"});
  check_says(of_field("lora_alpha", -8), {"adapter_config.json: lora_alpha: expected a number"});
  check_says(of_field("init_lora_weights", "pissa"), {"true or false or \"gaussian\""});
  check_says(of_field("use_dora", true), {"use_dora: expected false"});
  check_says(of_field("bias", "all"), {"bias: expected \"none\""});
  check_says(of_field("rank_pattern", {{"q_proj", 4}}), {"rank_pattern"});
  check_says(of_field("modules_to_save", {"lm_head"}), {"modules_to_save"});
  check_says(of_field("surprise", 1), {"surprise = 1: unknown field"});

  const auto of_tensors = [](const std::function<void(Safetensors&)>& change) {
    const CopiedAdapter adapter("llama3");
    adapter.change_tensors(change);
    return adapter.message();
  };
  check_says(of_tensors([](Safetensors& file) { file.tensors.pop_back(); }), {"is missing"});
  check_says(of_tensors([](Safetensors& file) { file.tensors.front().first = "other"; }),
             {"unexpected tensor other", "the model that it was trained for"});
  check_says(of_tensors([](Safetensors& file) { file.tensors.clear(); }), {"contains no tensors"});
  check_says(of_tensors([](Safetensors& file) {
               Array first = file.tensors.front().second;
               first.mutable_values<float>()[0] = std::numeric_limits<float>::quiet_NaN();
             }),
             {"not finite"});
  check_says(of_tensors([](Safetensors& file) {
               Array& first = file.tensors.front().second;
               first = Array::of<std::int32_t>(std::vector<std::int32_t>(first.size(), 1),
                                               first.shape());
             }),
             {"holds integers"});

  const CopiedAdapter of_another("gpt2");
  const CopiedAdapter adapter("llama3");
  const Finished other = tapestry_run({"sample", adapter.run(), "--adapter", of_another.path()});
  CHECK(other.status == 2);
  check_says(other.err, {"unexpected tensor", "the model that it was trained for"});
  const Finished nowhere = tapestry_run({"eval", adapter.run(), "--adapter", adapter.run()});
  check_says(nowhere.err, {"holds no adapter_config.json and adapter_model.safetensors"});
  const Finished no_base = tapestry_run({"import", adapter.path()});
  CHECK(no_base.status == 2);
  check_says(no_base.err, {"contains an adapter; add --base RUN"});
}

TEST_SUITE_END();

}  // namespace tapestry
