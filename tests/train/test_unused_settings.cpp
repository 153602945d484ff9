#include <doctest/doctest.h>

#include "tests/support/process.hpp"
#include "train/config/config_document.hpp"
#include "train/config/keys.hpp"
#include "train/config/options.hpp"
#include "train/task_spec.hpp"

// Tests keys and options that are unused because of another one.
namespace tapestry {
namespace {

TEST_SUITE_BEGIN("idle keys");

TEST_CASE("bug: a setting unused because of another one was ignored without a message") {
  const auto check = [](const char* task, const Strings& sets, const std::string& says) {
    CAPTURE(says);
    const std::string message =
        message_of([&] { parse_config(fmt::format("task = \"{}\"", task), "text", sets); });
    check_says(message, {"--set: ", says, "; leave out this key, or set "});
  };
  const std::string recurrent = "model.kind=recurrent", linear = "model.kind=linear";
  check("vae", {"optim.momentum=0.9"}, "optim.momentum = 0.9: is not used with optim.name = ");
  check("vae", {"optim.name=sgd", "optim.beta1=0.8"}, "optim.beta1 = 0.8: is not used with optim.");
  check("vae", {"optim.name=sgd", "optim.epsilon=1e-6"}, "optim.epsilon = 1e-06: is not used with");
  check("vae", {"optim.name=adam", "optim.decay_all=true"}, "optim.decay_all = true: is not used");
  check("vae", {"optim.final_learning_rate=1e-5"},
        "is not used with optim.schedule = \"constant\"");
  check("vae", {"model.sigma=none", "model.kl_warmup_steps=5"},
        "model.kl_warmup_steps = 5: is not");
  check("vae", {"data.path=/images", "data.test_images=5"},
        "data.test_images = 5: is not used with");
  check("language-model", {recurrent, "model.heads=2"}, "model.heads = 2: is not used with model.");
  check("language-model", {recurrent, "model.positions=rotary"},
        "model.positions = \"rotary\": is");
  check("language-model", {recurrent, "model.window=8"},
        "is not used with model.kind = \"recurrent");
  check("language-model", {recurrent, "model.attention=random-features"},
        "model.attention = \"ran");
  check("language-model", {recurrent, "train.checkpoint_activations=true"},
        "is not used with model");
  check("language-model", {"model.kind=lstm", "model.heads=2"},
        "model.heads = 2: is not used with model.kind = \"lstm\"");
  check("text-classification", {"model.kind=gru", "model.heads=2"},
        "model.heads = 2: is not used with model.kind = \"gru\"");
  check("text-classification", {"model.kind=embeddings", "model.layers=2"},
        "model.layers = 2: is not used with model.kind = \"embeddings\"");
  check("forecast", {"model.kind=gru", "model.heads=2"},
        "model.heads = 2: is not used with model.kind = \"gru\"");
  check("language-model", {"data.held_back=5"},
        "data.held_back = 5: is not used with data.kind = ");
  check("language-model", {"data.kind=names", "data.validation_fraction=0.2"},
        "is not used with dat");
  check("toy-sequence", {"model.features=8"},
        "model.features = 8: is not used with model.attention");
  check("toy-sequence", {"data.kind=addition", "data.alphabet=3"},
        "data.alphabet = 3: is not used");
  check("translation", {"data.vocabulary=500"}, "is not used with data.kind = \"dates\"");
  check("translation", {"data.kind=text", "data.tokenizer=t.json", "data.vocabulary=500"},
        "data.vocabulary = 500: is not used with data.tokenizer = \"t.json\"; leave out this key, "
        "or set data.tokenizer = \"\"");
  check("translation", {"data.kind=text", "data.examples=5"},
        "data.examples = 5: is not used with");
  check("forecast", {linear, "model.width=8"}, "is not used with model.kind = \"linear\"");
  check("forecast", {linear, "model.patch=8"}, "model.patch = 8: is not used with model.kind");
  check("forecast", {"data.kind=csv", "data.noise=0.1"},
        "data.noise = 0.1: is not used with data.");
  check("forecast", {"data.gaps=true"}, "data.gaps = true: is not used with data.kind = \"waves\"");
  check("forecast", {"data.targets=[\"a\"]"}, "is not used with data.kind = \"waves\"");
  check("forecast", {"data.kind=csv", "data.series_column=shop", "data.targets=[\"a\"]"},
        "data.targets = [\"a\"]: is not used with data.series_column = \"shop\"; leave out this "
        "key, or set data.series_column = \"\"");
  check("forecast", {"data.train_months=3"}, "is not used with data.split = \"fractions\"");
  check("graph", {"model.heads=4"},
        "model.heads = 4: is not used with model.layer = \"convolution\"");
  check("graph", {"model.layer=attention", "model.normalization=sum"},
        "is not used with model.layer");
  check("graph", {"data.kind=karate", "model.pooling=max"},
        "is not used with data.kind = \"karate\"");
  check("graph", {"data.training_nodes=3"}, "data.training_nodes = 3: is not used with data.kind");
  check("recall", {"model.heads=2"},
        "model.heads = 2: is not used with model.memory = \"query-key\"");
  check("recall", {"model.gamma=0.5"},
        "is not used with model.memory = \"query-key\"; leave out this key,");
}

TEST_CASE("unused settings: conditions name keys of the task and their values") {
  for (const auto& [task, spec] : task_registry()) {
    CAPTURE(task);
    const std::vector<KeyInfo> keys = key::with_common_keys(spec.keys);
    for (const KeyInfo& key : keys)
      for (const Condition& condition : key.limits.used_if) {
        CAPTURE(key.name);
        const auto other = std::ranges::find(keys, condition.key, &KeyInfo::name);
        REQUIRE(other != keys.end());
        // Otherwise a resolved config could set an unused key.
        for (const Condition& further : other->limits.used_if)
          CHECK(std::ranges::any_of(key.limits.used_if, [&](const Condition& own) {
            return own.key == further.key && own.values == further.values &&
                   own.excludes == further.excludes;
          }));
        CHECK(!condition.values.empty());
        for (const Value& value : condition.values) {
          CHECK(value.index() == other->fallback.index());
          CHECK(range_error(*other, value).empty());
        }
      }
  }
}

const std::string toy_task = "task = \"toy-sequence\"\n";

TEST_CASE_FIXTURE(TemporaryFolder,
                  "unused settings: defaults and keys set before the choice are accepted") {
  CHECK_NOTHROW(parse_config(toy_task, "text", {"optim.momentum=0"}));
  const Config config = parse_config(toy_task + "optim.beta2 = 0.9", "text", {"optim.name=sgd"});
  CHECK(std::get<double>(config.value("optim.beta2")) == 0.999);
  CHECK(config.dropped() ==
        Strings{"text:2:7: optim.beta2 = 0.9: ignored; it is not used with optim.name = \"sgd\""});
  check_says(
      message_of(
          [] { parse_config(toy_task + "[optim]\nname = \"sgd\"\nbeta2 = 0.9", "text", {}); }),
      {"text:4:1: optim.beta2 = 0.9: is not used with optim.name = \"sgd\"; leave out this key, or "
       "set optim.name = \"adam\" or \"adamw\""});

  write("adam.toml", toy_task + "optim.beta2 = 0.9\n");
  write("sgd.toml", "base = \"adam.toml\"\noptim.name = \"sgd\"\n");
  const std::string wrong = write("wrong.toml", "base = \"sgd.toml\"\noptim.beta2 = 0.95\n");
  CHECK(load_config(path("sgd.toml"), {}).dropped().size() == 1);
  CHECK(load_config(path("sgd.toml"), {"optim.name=adam"}).dropped().empty());
  CHECK_ERROR(load_config(wrong, {}), "wrong.toml:2:7: optim.beta2 = 0.95: ");
}

TEST_CASE(
    "unused settings: every shipped config accepts another optimizer, and lists dropped keys") {
  for (const auto& [name, text] : shipped_configs()) {
    CAPTURE(name);
    for (const char* optimizer : {"adam", "adamw", "sgd"}) {
      const Config config = load_config(name, {fmt::format("optim.name={}", optimizer)});
      CHECK_NOTHROW(parse_config(config.toml(), "resolved", {}));
    }
  }
  check_says(
      tapestry_run("config sort optim.name=sgd").out,
      {"\n# beta2 = 0.999 ", "; is not used with optim.name = \"sgd\"\n", "\nmomentum = 0.0 "});
}

TEST_CASE_FIXTURE(TemporaryFolder,
                  "bug: options unused because of another one were ignored without a message") {
  const Key<std::string> prompt{"prompt", "", "a text"};
  const Key<std::int64_t> count{"count", 4, "how many", {.used_if = {prompt.is("")}}};
  const auto typed = [&](const std::vector<std::pair<std::string, std::string>>& words) {
    return message_of([&] {
      Options options({prompt, count});
      for (const auto& [name, text] : words) options.set(name, text);
      options.expect_all_used();
    });
  };
  CHECK(typed({}).empty());
  CHECK(typed({{"count", "3"}}).empty());
  CHECK(typed({{"prompt", "a"}}).empty());
  CHECK(typed({{"count", "3"}, {"prompt", "a"}}) ==
        "--count 3: is not used with --prompt a, but with --prompt \"\"");

  const RunOptions here{.folder = path()};
  for (const Words& words :
       {Words("train sort --out toy model.layers=1 model.width=4 data.held_back=8 train.steps=1"),
        Words("train clothes-vae --out vae data.training_images=8 data.test_images=4 "
              "train.steps=1")})
    REQUIRE(tapestry_run(words, here).status == 0);
  const std::pair<Words, std::string> rows[] = {
      {"sample toy --prompt 31415926 --count 2", "--count 2: is not used with --p"},
      {"sample vae --index 3", "--index 3: is not used with --kind prior, but with --ki"},
      {"sample vae --spread 2", "is not used with --kind prior, but with --kind around"},
      {"sample vae --kind reconstructions --seed 2", "--seed 2: is not used with"},
      {"sample vae --kind around --temperature 2", "--temperature 2.0: is not us"},
      {"sample vae --prompt a", "--prompt"},
      {"sample toy --top-k 3",
       "--top-k: not an option for the task of this run; expected one of --count, --prompt"}};
  for (const auto& [words, part] : rows) check_refused(run_here(words, here), {part});
}

TEST_SUITE_END();

}  // namespace
}  // namespace tapestry
