#include <doctest/doctest.h>

#include <set>

#include "optim/optimizer.hpp"
#include "tests/support/process.hpp"
#include "train/config/config_document.hpp"
#include "train/config/keys.hpp"
#include "train/task_spec.hpp"

namespace tapestry {
namespace {

const Key<bool> on{"on", false, "a switch"};
const Key<std::string> text_key{"text", "none", "any words", {.may_change_on_resume = true}};
const Key<std::string> color{"model.color", "red", "a choice", {.choices = {"red", "green"}}};

// The names and values of a choice are declared here.
enum class Outline { round, square, flat };
const Choice<Outline> outline{
    "model.outline",
    Outline::square,
    "another choice",
    {{"round", Outline::round}, {"square", Outline::square}, {"flat", Outline::flat}}};

const Key<std::int64_t> layers{"model.layers", 4, "an integer", {.low = 1, .high = 100}};
const Key<double> rate{"optim.rate", 1e-3, "a number", {.low = 0, .high = 10}};
const Key<std::vector<std::int64_t>> hidden{"model.hidden", {400}, "a list", {.low = 1}};
const std::vector<KeyInfo> test_keys{on, text_key, color, outline, layers, hidden, rate};

Config parse(const std::string& toml, const Strings& overrides = {}) {
  return Config(with_bases({"file.toml", toml}), overrides, test_keys);
}

std::string error_of(const std::string& toml, const Strings& overrides = {}) {
  return message_of([&] { parse(toml, overrides); });
}

// Returns the line of a config with the origin of a key's value.
std::string line_of(const Config& config, const std::string& key) {
  for (const std::string& line : lines_of(config.explain()))
    if (line.starts_with(key + " = ")) return line;
  return "";
}

TEST_SUITE_BEGIN("files");

TEST_CASE("config: values come from defaults, file and --set, and have an origin") {
  const Config config = parse("on = true\n[model]\n  layers = 2\n", {"optim.rate=0.5"});
  CHECK(config[on]);
  CHECK(config[text_key] == "none");
  CHECK(config[layers] == 2);
  CHECK(config[rate] == 0.5);
  CHECK(config[hidden] == std::vector<std::int64_t>{400});
  const std::pair<const char*, Strings> origins[] = {
      {"on", {"on = true", "# file.toml:1:1: a switch"}},
      {"text", {"\"none\"", "# default: any words"}},
      {"layers", {"layers = 2", "# file.toml:3:3: an integer"}},
      {"rate", {"rate = 0.5", "# --set: a number"}}};
  for (const auto& [key, parts] : origins) check_says(line_of(config, key), parts);
}

TEST_CASE("choice: a config stores the name and returns the value") {
  CHECK((parse("")[outline] == Outline::square));
  CHECK((parse("model.outline = \"round\"")[outline] == Outline::round));
  CHECK((parse("model.outline = \"round\"", {"model.outline=flat"})[outline] == Outline::flat));
  check_says(line_of(parse(""), "outline"), {"outline = \"square\"", "# default: another choice"});
  check_says(error_of("model.outline = \"squre\""),
             {"file.toml:1:7: model.outline = \"squre\": expected one of round, square, flat; did "
              "you mean \"square\"?"});
  check_says(error_of("model.outline = 1"), {"model.outline = 1: expected a string"});
  CHECK(parse("model.outline = \"flat\"").differences(parse("")) ==
        Strings{"model.outline (\"flat\", now \"square\")"});
}

TEST_CASE("choice: a default without a name and a name without a value are refused") {
  CHECK_THROWS_AS(Choice<Outline>("a", Outline::flat, "", {{"round", Outline::round}}),
                  std::invalid_argument);
  const Choice<Outline> fewer{"model.outline", Outline::round, "", {{"round", Outline::round}}};
  CHECK((parse("model.outline = \"round\"")[fewer] == Outline::round));
  CHECK_THROWS_AS(parse("")[fewer], std::invalid_argument);
}

TEST_CASE("config: --set takes every type and bare strings, and the last one counts") {
  const std::pair<std::string, std::string> rows[] = {
      {"on=true", "on = true"},
      {"text=bare words = some", "text = \"bare words = some\""},
      {"text='quoted # 1'", "text = \"quoted # 1\""},
      {"text=", "text = \"\""},
      {"text=12", "text = \"12\""},
      {"text=true", "text = \"true\""},
      {"text=[1, 2]", "text = \"[1, 2]\""},
      {"text=it's \"so\"", "text = \"it's \\\"so\\\"\""},
      {"model.color=green", "color = \"green\""},
      {"model.layers=7", "layers = 7"},
      {"model.layers=0x10", "layers = 16"},
      {"model.hidden=[3, 2]", "hidden = [3, 2]"},
      {"model.hidden=[]", "hidden = []"},
      {"optim.rate=2", "rate = 2.0"},
      {"optim.rate=3e-4", "rate = 0.0003"}};
  for (const auto& [override_text, line] : rows) {
    CAPTURE(override_text);
    const auto written = lines_of(parse("", {override_text}).toml());
    CHECK(std::ranges::count(written, line) == 1);
  }
  CHECK(parse("model.layers = 5", {"model.layers=6", "model.layers=7"})[layers] == 7);
}

TEST_CASE("config: errors are one line with place and expected value") {
  const std::tuple<std::string, Strings, Strings> rows[] = {
      {"[network]\nlayers = 2", {}, {"unknown key network.layers", "mean model.layers?"}},
      {"model.layer = 2", {}, {"file.toml:1:", "unknown key model.layer;", "mean model.layers?"}},
      {"\n[model]\nlayrs = 2", {}, {"file.toml:3:1:", "model.layrs", "model.layers?"}},
      {"[optim]\nlayers = 2", {}, {"file.toml:2:1:", "optim.layers", "mean model.layers?"}},
      {"rate = 2.0", {}, {"unknown key rate", "mean optim.rate?"}},
      {"[[model]]\nlayers = 2", {}, {"file.toml:1:", "model"}},
      {"[model.layers]\nx = 2", {}, {"file.toml:2:1:", "model.layers.x"}},
      {"model = {layers = 2, widht = 3}", {}, {"file.toml:1:", "model.widht"}},
      {"on = 1", {}, {"file.toml:1:1: on = 1: expected true or false"}},
      {"text = 1", {}, {"text = 1: expected a string"}},
      {"model.layers = 2.5", {}, {"model.layers = 2.5: expected an integer"}},
      {"model.layers = 0.1", {}, {"model.layers = 0.1: expected an integer"}},
      {"model.layers = \"2\"", {}, {"model.layers = \"2\": expected an integer"}},
      {"model.hidden = 3", {}, {"model.hidden = 3: expected a list of integers"}},
      {"model.hidden = [1.5]", {}, {"expected a list of integers"}},
      {"optim.rate = true", {}, {"optim.rate = true: expected a number"}},
      {"optim.rate = 2024-01-01", {}, {"optim.rate = 2024-01-01: expected a number"}},
      {"model.layers = 0", {}, {"model.layers = 0: expected between 1 and 100"}},
      {"model.layers = 101", {}, {"model.layers = 101: expected between 1 and 100"}},
      {"optim.rate = -0.5", {}, {"optim.rate = -0.5: expected between 0 and 10"}},
      {"optim.rate = nan", {}, {"optim.rate = nan: expected between 0 and 10"}},
      {"optim.rate = inf", {}, {"optim.rate = inf: expected between 0 and 10"}},
      {"model.hidden = [3, 0]", {}, {"[3, 0]: expected integers at least 1"}},
      {"model.color = \"gren\"", {}, {"expected one of red, green; did you mean \"green\"?"}},
      {"on = ", {}, {"file.toml:1:", "value"}},
      {"on = true\n[model\n", {}, {"file.toml:2:"}},
      {"on = true\non = false\n", {}, {"file.toml:2:", "on"}},
      {"text = \"\xff\"", {}, {"file.toml:1:"}},
      {"model.layers = 99999999999999999999", {}, {"file.toml:1:"}},
      {"", {"layers"}, {"--set layers: expected key=value"}},
      {"", {"=2"}, {"--set =2: expected key=value"}},
      {"", {"model.layer=2"}, {"--set: unknown key model.layer; did you mean model.layers?"}},
      {"", {"model.layers=two"}, {"--set: model.layers = \"two\": expected an integer"}},
      {"", {"model.layers="}, {"--set: model.layers = \"\": expected an integer"}},
      {"", {"model.layers=0"}, {"--set: model.layers = 0: expected between 1 and 100"}},
      {"", {"model.color=blue"}, {"--set: model.color = \"blue\": expected one of red, green"}},
  };
  for (const auto& [toml, overrides, parts] : rows) {
    CAPTURE(toml);
    CAPTURE(overrides.size());
    const std::string message = error_of(toml, overrides);
    check_says(message, parts);
    CHECK(!message.empty());
  }
}

TEST_CASE("bug: values of several lines made messages of several lines") {
  std::string long_list = "[";
  for (int i = 0; i < 80; ++i) long_list += "1000.5, ";
  CHECK(!error_of("model.color = '''a\nb'''").empty());
  CHECK(!error_of("model.layers = \"a\\nb\"").empty());
  CHECK(!error_of("model.hidden = " + long_list + "]").empty());
  CHECK(!error_of("", {"model.layers=1\n2"}).empty());
  CHECK(!error_of("", {"model.lay\ners=1"}).empty());
  CHECK(!error_of("\"model.lay\\ners\" = 1").empty());
}

TEST_CASE("bug: dots in strings and comments counted as nested keys") {
  std::string dots;
  for (int i = 0; i < 1001; ++i) dots += ".a";
  parse("text = \"a" + dots + "\" # comment" + dots);
  const std::string nested[] = {"a" + dots + " = 1", "a\"'\"" + dots + " = 1",
                                "'\"'" + dots + " = 1", "text = \"\\\"\"\na" + dots + " = 1"};
  for (const std::string& toml : nested)
    CHECK_THROWS_WITH_AS(parse(toml), doctest::Contains("more than 1000 dots"), InputError);
}

TEST_CASE("config: the resolved text gives exactly the same values") {
  const std::string hard[] = {"",
                              "plain",
                              "it's",
                              "\"double\"",
                              "both ' and \"",
                              "back\\slash\\n",
                              "two\nlines\r\n",
                              "\ttab \x01 control \x7f",
                              "naïve β 日本 🙂",
                              "# no comment",
                              "'''\"\"\"\n'''",
                              " spaces ",
                              "\n"};
  const double numbers[] = {0, -0.0, 0.1, 1.0 / 3, 1e-8, 5e-324, 1e-300, 2.5, 7, 9.999999999999999};
  const std::vector<std::int64_t> lists[] = {
      {}, {1}, {1, 2, 3}, std::vector<std::int64_t>(100, 1 << 20)};
  for (const std::string& words : hard)
    for (const double number : numbers)
      for (const auto& list : lists) {
        Config config = parse("");
        config.set(text_key, words);
        config.set(rate, number);
        config.set(hidden, list);
        config.set(layers, std::int64_t{17});
        for (const std::string& written : {config.toml(), config.explain()}) {
          CAPTURE(written);
          const Config again = parse(written);
          CHECK(again[text_key] == words);
          CHECK(std::memcmp(&again[rate], &number, sizeof number) == 0);
          CHECK(again[hidden] == list);
          CHECK(again[layers] == 17);
          CHECK(again.toml() == config.toml());
        }
      }
}

TEST_CASE("bug: a run of an earlier version was not resumed because it had not recorded the data") {
  const Config before = parse("");
  Config now = before;
  now.detect(outline.name, outline.name_of(Outline::flat));
  now.detect(layers.name, std::int64_t{2});
  CHECK(before.differences(now).empty());
  CHECK(now.toml_with_origins().find("layers = 2                          # data.path") !=
        std::string::npos);
  Config set = parse("model.outline = \"round\"");
  set.detect(outline.name,
             outline.name_of(Outline::flat));  // does not replace what the config sets
  CHECK(before.differences(set).size() == 1);
  CHECK(set[outline] == Outline::round);
}

TEST_CASE("config: differences name key and values, except keys that may change on resume") {
  const Config before = parse("on = true\ntext = \"a\"\n[model]\nlayers = 2");
  CHECK(before.differences(before).empty());
  CHECK(before.differences(parse("on = true\ntext = \"b\"\nmodel.layers = 2")).empty());
  CHECK(
      before.differences(parse("[model]\nlayers = 3\nhidden = [1]")) ==
      Strings{"on (true, now false)", "model.layers (2, now 3)", "model.hidden ([400], now [1])"});
}

TEST_CASE("config: an error about a key has its place and value") {
  const Config config = parse("model.layers = 3", {"text=a\nb"});
  CHECK(message_of([&] { config.expect(true, layers, "fine"); }).empty());
  CHECK(message_of([&] { config.expect(false, layers, "must be {}", 4); }) ==
        "file.toml:1:7: model.layers = 3: must be 4");
  check_says(message_of([&] { config.fail(text_key, "no"); }), {"--set: text = \"a\\nb\": no"});
  CHECK(message_of([&] { config.fail(rate, "no"); }) == "optim.rate = 0.001 (default): no");
  const Key<bool> undeclared{"undeclared", false, ""};
  CHECK_THROWS_AS(config[undeclared], std::invalid_argument);
}

TEST_CASE("nearest: returns the name with the fewest edits, the first of equals") {
  CHECK(nearest("trian", {"eval", "train", "sample"}) == "train");
  CHECK(nearest("b", {"a", "c"}) == "a");
  CHECK(nearest("x", {}).empty());
  CHECK(nearest("clothes", {"copy", "clothes-vit"}) == "clothes-vit");
  CHECK(nearest("vea", {"graph", "vae"}) == "vae");
}

TEST_CASE("bug: the nearest name was suggested at any distance") {
  CHECK(nearest("frobnicate", {"compare", "config", "gradcheck"}).empty());
  CHECK(nearest("", {"eval", "ab"}).empty());
  CHECK(nearest("fifo", {"copy", "sort"}).empty());
  CHECK(nearest(std::string(1 << 20, 'x'), {"copy"}).empty());
  CHECK(did_you_mean("srot", {"sort"}, "\"") == "; did you mean \"sort\"?");
  CHECK(did_you_mean("zzzz", {"sort"}).empty());
}

TEST_CASE("config: the task comes first") {
  const std::tuple<std::string, Strings, Strings> rows[] = {
      {"", {}, {"file.toml: has no task; add task = \""}},
      {"task = \"vea\"", {}, {"file.toml", "\"vea\"", "language-model", "did you mean \"vae\"?"}},
      {"task = \"vae\"", {"task=toy-sequences"}, {"toy-sequences", "mean \"toy-sequence\"?"}},
      {"[task", {}, {"file.toml:1:"}},
      {"task = \"vae\"\n[model]\nheads = 4", {}, {"file.toml:3:1: unknown key model.heads"}},
      {"task = \"vae\"\nmodel.precision = \"f32\"", {}, {"mean train.precision?"}},
  };
  for (const auto& [toml, overrides, parts] : rows) {
    CAPTURE(toml);
    const auto parse_row = [&text = toml, &sets = overrides] {
      parse_config(text, "file.toml", sets);
    };
    check_says(message_of(parse_row), parts);
  }
  CHECK(parse_config("task = \"vae\"", "f", {"task=toy-sequence"})[key::task] == "toy-sequence");
}

TEST_CASE("config: every key of every task has a help text and a valid default") {
  for (const auto& [task, spec] : task_registry()) {
    CAPTURE(task);
    CHECK(!spec.help.empty());
    const auto keys = key::with_common_keys(spec.keys);
    Strings names;
    for (const KeyInfo& info : keys) {
      CAPTURE(info.name);
      names.push_back(info.name);
      CHECK(!info.help.empty());
      CHECK(info.help.find('\n') == std::string::npos);
      const bool section = info.name.find('.') != std::string::npos;
      const std::string value = to_toml(info.fallback);
      CHECK(section ==
            !std::set<std::string>{"task", "plugin", "name", "seed"}.contains(info.name));
      CHECK_NOTHROW(Config({ConfigDocument("default", info.name + " = " + value)}, {}, keys));
    }
    for (const KeyInfo& own : spec.keys)  // none of a section that is absent
      CHECK_MESSAGE(std::ranges::count(names, own.name) == 1, own.name);
    std::ranges::sort(names);
    CHECK(std::ranges::adjacent_find(names) == names.end());
  }
}

TEST_CASE("config: optim.name accepts exactly the registered optimizers") {
  const std::vector<KeyInfo> keys = key::with_common_keys({});
  const auto chosen = std::ranges::find(keys, key::optimizer.name, &KeyInfo::name);
  REQUIRE(chosen != keys.end());
  for (const std::string& choice : chosen->limits.choices)
    CHECK_MESSAGE(optimizer_registry().contains(choice), choice);
  CHECK(chosen->limits.choices.size() == optimizer_registry().size());
}

TEST_CASE("config: shipped configs are those in train/configs/, and resolve to themselves") {
  std::size_t files = 0;
  for (const auto& entry : fs::recursive_directory_iterator(source_path("train/configs"))) {
    if (entry.is_directory() || entry.path().filename() == "README.md") continue;
    const std::string name = entry.path().stem().string();
    CAPTURE(name);
    REQUIRE(shipped_configs().contains(name));
    CHECK(shipped_configs().at(name) == read_bytes(entry.path().string()));
    const Config config = load_config(name, {});
    CHECK(config[key::name] == name);
    const Config again = parse_config(config.toml(), "again", {});
    CHECK(again.toml() == config.toml());
    CHECK(config.differences(again).empty());
    ++files;
  }
  CHECK(files == shipped_configs().size());
}

TEST_CASE_FIXTURE(TemporaryFolder,
                  "config: finds a file or a shipped name, or suggests the nearest one") {
  const std::string file = write("mine.toml", "task = \"toy-sequence\"\n");
  CHECK(load_config(file, {})[key::name] == "mine");
  CHECK(load_config(file, {"name=other"})[key::name] == "other");
  const std::string data = load_config(file, {"data.path=some.txt"})[key::data_path];
  CHECK(data == fs::absolute("some.txt").string());
  check_says(message_of([] { load_config("srot", {}); }),
             {"srot: no such file and no shipped config", "did you mean sort?; tapestry list"});
  check_says(message_of([&] { load_config(path(), {}); }), {path()});
  check_says(message_of([&] { load_config(file, {"name=a/b"}); }), {"--set: name = \"a/b\""});
  check_says(message_of([&] { load_config(file, {"name=.."}); }), {"--set: name = \"..\""});
  const std::string huge = write("huge.toml", std::string((1 << 20) + 1, '\n'));
  check_says(message_of([&] { load_config(huge, {}); }), {"huge.toml"});
}

// --- bases ---

const std::string a_task = "task = \"toy-sequence\"\n";

TEST_CASE_FIXTURE(TemporaryFolder, "base: settings come from the base and its base") {
  fs::create_directory(path("shared"));
  const std::string first =
      write("shared/first.toml", a_task + "[model]\nlayers = 1\nheads = 1\nwidth = 8\n");
  const std::string second =
      write("shared/second.toml", "base = \"first.toml\"\n[model]\nheads = 2\nwidth = 16\n");
  const std::string own = write("own.toml", "base = \"shared/second.toml\"\nmodel.width = 32\n");
  const Config config = load_config(own, {"optim.name=sgd", "optim.momentum=0.5"});
  const std::pair<std::string, std::string> lines[] = {{"task = \"toy-sequence\"", first + ":1:1:"},
                                                       {"layers = 1", first + ":3:1:"},
                                                       {"heads = 2", second + ":3:1:"},
                                                       {"width = 32", own + ":2:7:"},
                                                       {"momentum = 0.5", "--set:"},
                                                       {"dropout = 0.0", "default:"}};
  for (const auto& [value, origin] : lines)
    check_says(line_of(config, value.substr(0, value.find(' '))), {value, "# " + origin});
  CHECK(config[key::name] == "own");
  check_says(load_config(own, {"model.layers=3"}).toml(), {"\nlayers = 3\n"});
  CHECK(config.toml().find("base") == std::string::npos);  // the resolved config is flat
  const std::string resolved = write("resolved.toml", config.toml());
  CHECK(load_config(resolved, {}).toml() == config.toml());
}

TEST_CASE_FIXTURE(TemporaryFolder, "base: names a file of the folder, or else a shipped config") {
  const std::string own = write("own.toml", "base = \"sort\"\nmodel.layers = 1\n");
  CHECK(load_config(own, {})[key::batch_size] == 64);
  check_says(line_of(load_config(own, {}), "batch_size"), {"# sort:"});
  write("sort", a_task + "train.batch_size = 3\n");
  CHECK(load_config(own, {})[key::batch_size] == 3);
  CHECK(parse_config("base = \"sort\"", "a text", {})[key::batch_size] == 64);
  write("absolute.toml", fmt::format("base = \"{}\"", path("sort")));
  CHECK(load_config(path("absolute.toml"), {})[key::batch_size] == 3);
}

TEST_CASE_FIXTURE(TemporaryFolder, "base: name and published result are not inherited") {
  const std::string base = write("base.toml", "name = \"published\"\n" + a_task +
                                                  "[expected]\nmetric = \"loss\"\nvalue = 0.5\n");
  const Config config =
      load_config(write("own.toml", "base = \"base.toml\"\nexpected.value = 2\n"), {});
  CHECK(config[key::name] == "own");
  CHECK(config[key::expected_metric].empty());
  CHECK(config[key::expected_value] == 2);
  CHECK(load_config(base, {})[key::name] == "published");
}

TEST_CASE_FIXTURE(TemporaryFolder, "base: errors are one line with their place") {
  fs::create_directory(path("folder.toml"));
  write("good.toml", a_task);
  write("misspelled.toml", a_task + "[model]\nlayrs = 2\n");
  write("wrong.toml", "expected.value = \"x\"\n" + a_task);
  write("no_task.toml", "task = \"srot\"\n");
  write("broken.toml", "task = \n");
  write("binary.toml", std::string("\0\xff", 2));
  write("huge.toml", std::string((1 << 20) + 1, '\n'));
  write("one.toml", "base = \"two.toml\"\n");
  write("two.toml", "\nbase = \"./one.toml\"\n");
  for (int i = 0; i < 20; ++i)
    write(fmt::format("deep{}.toml", i), fmt::format("base = \"deep{}.toml\"", i + 1));
  write("linked.toml", "base = \"again.toml\"");
  fs::create_symlink(path("linked.toml"), path("again.toml"));
  const std::pair<std::string, Strings> rows[] = {
      {"\"srot\"", {"own.toml:2:1: base = \"srot\"", "no shipped config", "mean \"sort\"?"}},
      {"\"god.toml\"", {"base = \"god.toml\": no such file", "did you mean \"good.toml\"?"}},
      {"\"\"", {"own.toml:2:1: base = \"\""}},
      {"\".\"", {"base = \".\"", "no such file"}},
      {"\"folder.toml\"", {"base = \"folder.toml\"", "no such file"}},
      {"\"/dev/zero\"", {"base = \"/dev/zero\"", "no such file"}},
      {"\"good.toml\\u0000\"", {"base = \"good.toml\\u0000\"", "no such file"}},
      {"\"" + std::string(5000, 'x') + "\"", {"no such file"}},
      {"\"a\\nb\"", {"base = \"a\\nb\"", "no such file"}},
      {"3", {"own.toml:2:1: base = 3: expected a string"}},
      {"[\"sort\"]", {"base = […]: expected a string"}},
      {"{name = \"sort\"}", {"base = {…}: expected a string"}},
      {"true", {"base = true: expected a string"}},
      {"\"own.toml\"", {"own.toml:2:1: base = \"own.toml\"", "circle", "own.toml -> "}},
      {"\"one.toml\"", {"two.toml:2:1: base = \"./one.toml\"", "circle", "one.toml -> "}},
      {"\"linked.toml\"", {"linked.toml:1:1: base = \"again.toml\"", "circle"}},
      {"\"deep0.toml\"", {"deep15.toml:1:1:", "expected at most 16 nested bases"}},
      {"\"misspelled.toml\"", {"misspelled.toml:3:1: unknown key model.layrs", "model.layers?"}},
      {"\"wrong.toml\"", {"wrong.toml:1:10: expected.value = \"x\": expected a number"}},
      {"\"no_task.toml\"", {"no_task.toml:1:1: task = \"srot\": expected one of"}},
      {"\"broken.toml\"", {"broken.toml:1:"}},
      {"\"binary.toml\"", {"binary.toml:1:"}},
      {"\"huge.toml\"", {"huge.toml: "}},
  };
  for (const auto& [base, parts] : rows) {
    CAPTURE(base.substr(0, 80));
    const std::string own = write("own.toml", "\nbase = " + base + "\n");
    const std::string message = message_of([&] { load_config(own, {}); });
    CHECK(!message.empty());
    check_says(message, parts);
  }
  const std::string good = path("good.toml");
  check_says(message_of([&] { load_config(good, {"base=sort"}); }), {"--set base=sort: "});
  check_says(message_of([] { parse_config("base = \"good.toml\"", "a text", {}); }),
             {"a text:1:1: base = \"good.toml\": no shipped config of that name"});
  check_says(message_of([] { parse_config("model.base = \"sort\"\n" + a_task, "a text", {}); }),
             {"a text:1:7: unknown key model.base"});
}

TEST_CASE("bug: the published result was not compared when data.path ended in a slash") {
  for (const std::string path : {"/some/fashion-mnist-mini", "/some/fashion-mnist-mini/"})
    CHECK(parse_config("task = \"vae\"", "f", {"data.path=" + path})[key::data_path] ==
          "/some/fashion-mnist-mini");
}

TEST_CASE("config: keys and choices of earlier versions are accepted, in files and by --set") {
  const std::array<std::string, 6> rows[] = {
      {"sort", "train.early_stopping=3", "train.least_gain", "train.min_delta", "0.25", "0.25"},
      {"karate", "seed=1", "data.labelled", "data.labeled", "[2, 33]", "[2, 33]"},
      {"sort", "model.positions=rotary", "model.rotary_pairs", "model.rotary_pairs",
       "\"neighbours\"", "\"neighbors\""}};
  for (const auto& [base, needed, old, current, value, resolved] : rows) {
    CAPTURE(old);
    const std::string text = "base = \"" + base + "\"\n";
    const Config in_file = parse_config(text + old + " = " + value + "\n", "file", {needed});
    CHECK(in_file.settings().at(current) == resolved);
    const Config by_set = parse_config(text, "file", {needed, old + "=" + value});
    CHECK(by_set.settings().at(current) == resolved);
    CHECK(by_set.toml() == in_file.toml());
    CHECK(resolved_config(by_set.toml(), "file", {}).settings() == by_set.settings());
  }
}

TEST_CASE("config: a shipped config is found by its name in an earlier version") {
  const std::string old = "memory-forgetting-learnt", current = "memory-forgetting-learned";
  CHECK(is_shipped(old));
  CHECK(load_config(old, {"name=run"}).settings() == load_config(current, {"name=run"}).settings());
  CHECK(parse_config("base = \"" + old + "\"", "file", {}).settings() ==
        parse_config("base = \"" + current + "\"", "file", {}).settings());
}

TEST_CASE_FIXTURE(TemporaryFolder, "config: combinations of values are checked") {
  const std::string story = write("story.txt", "once upon a time there was a text");
  const auto refuses = [](const std::string& task, Strings overrides, const Strings& parts) {
    CAPTURE(task);
    CAPTURE(parts.front());
    if (task == "vae")
      overrides.insert(overrides.end(), {"data.training_images=1", "data.test_images=1"});
    const std::string toml = fmt::format("task = \"{}\"", task);
    check_says(message_of([&] { make_task({parse_config(toml, "file.toml", overrides)}); }), parts);
  };
  refuses("toy-sequence", {"model.width=10", "model.heads=4"},
          {"--set: model.heads = 4: must divide model.width = 10: one of 1, 2, 5, 10"});
  refuses(
      "toy-sequence", {"model.width=65"},  // a key that was set is named before a default
      {"--set: model.width = 65: must be a multiple of model.heads = 4; or set model.heads to one "
       "of 1, 5, 13, 65"});
  refuses("toy-sequence", {"model.width=12", "model.heads=4", "model.positions=rotary"},
          {"model.positions = \"rotary\": needs an even model.width / model.heads, not 12 / 4"});
  refuses("toy-sequence", {"model.width=16", "model.head_width=3", "model.positions=rotary"},
          {"model.positions = \"rotary\": needs an even model.head_width, not 3"});
  refuses("toy-sequence", {"model.heads=6", "model.width=12", "model.key_value_heads=4"},
          {"model.key_value_heads = 4: must divide model.heads = 6: one of 1, 2, 3, 6"});
  refuses(
      "toy-sequence",
      {"model.positions=rotary", "model.rotary_scaling=llama3", "model.rotary_low_frequency=4"},
      {"model.rotary_high_frequency = 4.0 (default): must be above model.rotary_low_frequency = "
       "4"});
  refuses("toy-sequence", {"model.attention=random-features", "model.key_value_heads=1"},
          {"model.key_value_heads = 1: is not used with model.attention = \"random-features\""});
  refuses("toy-sequence", {"model.rotary_base=500"},
          {"model.rotary_base = 500.0: is not used with model.positions = \"learned\""});
  refuses("toy-sequence", {"model.positions=rotary", "model.rotary_factor=2"},
          {"model.rotary_factor = 2.0: is not used with model.rotary_scaling = \"none\""});
  refuses("toy-sequence", {"model.norm_epsilon=0"}, {"model.norm_epsilon = 0.0: "});
  refuses("translation", {"model.key_value_heads=2"}, {"unknown key model.key_value_heads"});
  refuses("image-classification", {"model.query_key_norm=true"},
          {"unknown key model.query_key_norm"});
  refuses("toy-sequence", {"model.attention=random-features", "model.window=4"},
          {"model.window = 4: is not used with model.attention = \"random-features\""});
  refuses("toy-sequence", {"model.gate=true"},
          {"model.gate = true: is not used with model.attention = \"softmax\""});
  refuses("translation", {"model.attention=random-features", "model.gate=true"},
          {"model.gate = true: is not supported by an encoder or cross-attention"});
  refuses("toy-sequence", {"data.kind=addition", "data.length=600"}, {"data.length", "512"});
  refuses("toy-sequence", {"data.kind=recall"}, {"data.kind", "sort", "associative-recall"});
  refuses("language-model", {}, {"data.path = \"\" (default)", "--set data.path=FILE"});
  refuses("language-model", {"data.path=" + this->path("none")}, {"none", "no such file"});
  refuses("language-model", {"data.path=" + story, "model.context=64"}, {"story.txt", "context"});
  refuses("language-model", {"data.path=" + story, "model.context=4", "data.validation_fraction=0"},
          {"story.txt", "validation"});
  refuses("vae", {"model.hidden=[]"}, {"model.hidden = []", "at least one layer"});
}

TEST_SUITE_END();

}  // namespace
}  // namespace tapestry
