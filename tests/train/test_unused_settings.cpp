#include <doctest/doctest.h>

#include "tests/support/papers.hpp"
#include "tests/support/process.hpp"
#include "train/config/config_document.hpp"
#include "train/config/keys.hpp"
#include "train/config/options.hpp"
#include "train/config/settings.hpp"
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

// Writes two IDX files of `count` images of 2 x 2 pixels with the labels 0, 1, 2, …
void write_few_images(const TemporaryFolder& folder, const std::string& split, char count) {
  const std::string counted = {0, 0, 0, count}, side = {0, 0, 0, 2};
  std::string labels;
  for (char label = 0; label < count; ++label) labels += label;
  folder.write(split + "-images-idx3-ubyte",
               std::string({0, 0, 8, 3}) + counted + side + side +
                   std::string(static_cast<std::size_t>(4 * count), 7));
  folder.write(split + "-labels-idx1-ubyte", std::string({0, 0, 8, 1}) + counted + labels);
}

TEST_SUITE_BEGIN("option keys");

TEST_CASE_FIXTURE(TemporaryFolder,
                  "option keys: errors of data/ are printed with key, origin and advice") {
  write("short.txt", "to be or not");
  write("gap.csv", "date,a\n2020-01-01,1\n2020-01-02,1\n2020-01-04,2\n");
  write("small.content", content);
  fs::create_directory(path("tables"));
  write("tables/nodes.csv", "id,note,label\nu,x,a\nv,y,b\n");
  write("tables/edges.csv", "source,target\nu,v\n");
  write("small.cites", cites);
  for (const char* name : {"train.de", "train.en", "val.de", "val.en"}) write(name, "one\ntwo\n");
  write_few_images(*this, "train", 3);
  write_few_images(*this, "t10k", 3);

  const auto check = [](const std::string& task, const Strings& sets, const Strings& parts) {
    CAPTURE(parts.front());
    const Config config = parse_config("task = \"" + task + "\"", "test", sets);
    check_says(message_of([&] { make_task({.config = config}); }), parts);
  };
  check("language-model", {"data.path=" + path("short.txt")},
        {"model.context = 64 (default): ",
         "short.txt: the train split has 11 tokens; expected at least 65",
         "; lower this value or data.validation_fraction"});
  check("language-model",
        {"data.path=" + path("short.txt"), "model.context=4", "data.validation_fraction=0"},
        {"--set: data.validation_fraction = 0.0: ", "short.txt: the validation split has 0 tokens",
         "at least 2", "; raise this value"});
  check("forecast", {"data.kind=csv", "data.path=" + path("gap.csv"), "data.missing=refuse"},
        {"--set: data.missing = \"refuse\": ", "gap.csv: a has no value at 2020-01-03 00:00:00",
         "; set data.missing to \"interpolate\""});
  check("forecast", {"data.split=months", "data.train_months=20"},
        {"--set: data.train_months = 20: waves: 20 + 4 + 4 months",
         "; lower the numbers of months, or set data.split = \"fractions\""});
  check("graph", {"data.kind=karate", "data.labeled=[1,2]"},
        {"--set: data.labeled = [1, 2]: 2 of 34 members are labeled; expected at least one"});
  check("graph", {"data.kind=citations", "data.path=" + path()},
        {"data.training_nodes = 140 (default): ",
         "small.content: 8 nodes; expected at least the sum of 140",
         "; lower this value, data.validation_nodes or data.test_nodes"});
  check("graph", {"data.kind=csv", "data.path=" + path("tables"), "data.label_column=job"},
        {"--set: data.label_column = \"job\": ", "nodes.csv: line 1: no column is named job",
         "; to read another column, set data.label_column to its name"});
  check("graph", {"data.kind=csv", "data.path=" + path("tables"), "data.id_column=key"},
        {"--set: data.id_column = \"key\": ", "no column is named key; expected one of id, note",
         "; give the name of a column"});
  check("graph", {"data.kind=csv", "data.path=" + path("tables"), "data.split_column=note"},
        {"--set: data.split_column = \"note\": ",
         "line 2: column note: expected train, validation, test or nothing, found x",
         "; or give another column, or \"none\""});
  check("graph", {"data.kind=csv", "data.path=" + path("tables"), "data.class_names=a,c"},
        {"--set: data.class_names = [\"a\", \"c\"]: ", "line 3: class b is not one of a, c",
         "; correct the label, or list the class here"});
  check("graph", {"data.kind=csv", "data.path=" + path("tables"), "data.categorical_columns=label"},
        {"--set: data.categorical_columns = [\"label\"]: ",
         "line 2: column note: expected a number", "; list all columns with texts here"});
  check("graph", {"data.kind=csv", "data.path=" + path("tables"), "data.ignore_columns=notes"},
        {"--set: data.ignore_columns = [\"notes\"]: ", "no column is named notes",
         "; list the columns to leave out here"});
  check("graph", {"data.kind=csv", "data.path=" + path("tables")},
        {"data.validation_fraction = 0.2 (default): ",
         "2 nodes with labels of 2 classes, but 2 for training and 0 for validation",
         "; or change this value"});
  check("vae", {"data.path=" + path(), "data.class_names=a,b"},
        {"--set: data.class_names = [\"a\", \"b\"]: ",
         "train-labels-idx1-ubyte: byte 10: expected a label", "from 0 to 1, found 2",
         "; or list all classes of the file here"});
  check("vae", {"data.path=" + path(), "data.validation_fraction=0.9"},
        {"--set: data.validation_fraction = 0.9: 3 of 3 images are used for validation, so that "
         "none",
         "; change the value, or give more images"});
  check("translation", {"data.path=" + path(), "data.kind=text", "data.test=test"},
        {"--set: data.test = \"test\": ", "expected a file test*.de",
         "; leave this key empty if there is no test split"});
  check("recall", {"data.pairs=20"}, {"--set: data.pairs = 20: pairs = 20: expected 1 to 16"});
  check("toy-sequence", {"data.length=2", "data.alphabet=3"},
        {"--set: data.length = 2: only 9 different inputs", "at least 64", "; raise this value"});
  const Config config = parse_config("task = \"vae\"", "test", {"data.path=" + path()});
  check_says(message_of([&] {
               make_task({.config = config, .metadata = {{"height", "3"}, {"width", "2"}}});
             }),
             {"--set: data.path = ", "bytes 8 to 15: expected images of 3 x 2, found 2 x 2",
              "; give images of the size this model was trained on"});
}

TEST_CASE("option keys: errors of options without a key, and others, are unchanged") {
  struct Pairs {
    std::int64_t pairs = 0;
  };
  const SettingsOf<Pairs> settings{{Bound<Pairs>("data.pairs", &Pairs::pairs, "")}};
  const Given<Pairs> given = settings.of(parse_config("task = \"recall\"", "test", {}));
  CHECK(given.pairs == 8);
  const auto fail = [](bool of_option) {
    if (of_option) throw OptionError("distractors", "1 distractor");
    throw InputError("no file");
  };
  for (const bool of_option : {true, false})
    CHECK(message_of([&] { given.checked([&] { return fail(of_option); }); }) ==
          (of_option ? "1 distractor" : "no file"));
  CHECK(given.checked([] { return 3; }) == 3);
}

TEST_SUITE_END();

}  // namespace
}  // namespace tapestry
