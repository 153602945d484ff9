#include <doctest/doctest.h>

#include "tests/support/process.hpp"
#include "train/config/keys.hpp"
#include "train/inspect/values.hpp"
#include "train/task_spec.hpp"
#include "train/tools/report/curve.hpp"

// What a TaskSpec declares is checked when it is registered.
namespace tapestry {
namespace {

const Key<double> ratio_key{"data.ratio", 0.5, "share of a class", {.low = 0, .high = 1}};
const Key<std::string> kind_key{"model.kind", "deep", "kind", {.choices = {"deep", "wide"}}};
const Key<std::int64_t> count_option{"count", 3, "how many", {.low = 1}};

Sample no_sample(Task&, const Options&) { return {}; }

TaskSpec sound_spec() {
  return {.name = "ring-2",
          .help = "rings of points",
          .keys = {ratio_key, kind_key},
          .make = [](const TaskSetup&) { return std::unique_ptr<Task>(); },
          .metrics = {{.name = "hits", .meaning = "the share of hits"}},
          .samples = {{count_option}, &no_sample}};
}

// Returns the message for a sound TaskSpec with a change; "" if there is none.
std::string message_for(const std::function<void(TaskSpec&)>& change) {
  static TaskSpec changed;
  changed = sound_spec();
  change(changed);
  try {
    tasks_by_name({[] { return changed; }});
  } catch (const InputError& error) {
    return error.what();
  }
  return "";
}

std::string with_key(const KeyInfo& key) {
  return message_for([&](TaskSpec& spec) { spec.keys.push_back(key); });
}

std::string with_metric(const MetricInfo& metric) {
  return message_for([&](TaskSpec& spec) { spec.metrics.push_back(metric); });
}

std::string with_option(const KeyInfo& option) {
  return message_for([&](TaskSpec& spec) { spec.samples = {{count_option, option}, &no_sample}; });
}

TEST_SUITE_BEGIN("task specs");

TEST_CASE("bug: a TaskSpec without a usable name, help or factory was accepted") {
  CHECK(message_for([](TaskSpec&) {}).empty());
  for (const std::string name : {"", "a b", "a.b", "a/b", "ö"})
    check_says(message_for([&](TaskSpec& spec) { spec.name = name; }),
               {"task ", "TaskSpec::name: expected letters, digits, '_' and '-'"});
  check_says(message_for([](TaskSpec& spec) { spec.help = ""; }),
             {"task ring-2 of ", "TaskSpec::help: is empty"});
  check_says(message_for([](TaskSpec& spec) { spec.make = nullptr; }), {"TaskSpec::make"});
}

TEST_CASE("bug: keys of a TaskSpec that no config can set, or that exist, were accepted") {
  for (const std::string name : {"", "ratio", "data.", "data.Ratio", "data.a ratio", "data.a.ratio",
                                 "data.2", "optim.ratio", ".ratio", "data.räte"})
    check_says(with_key({name, 1.0, "help", {}}),
               {"task ring-2 of ", name, ": expected data., model. or train., and lower-case"});
  CHECK(with_key({"train.a_2", 1.0, "help", {}}).empty());
  CHECK(with_key(key::data_path).empty());  // as the options of a component declare it
  check_says(with_key(ratio_key), {"data.ratio: two keys have this name"});
  for (const std::string name : {"train.steps", "data.path"})
    check_says(with_key({name, 0.25, "help", {}}), {name + ": is a key of every task"});
  const std::vector<std::pair<KeyInfo, std::string>> rows = {
      {{"data.a", 1.0, "", {}}, "data.a: has no help"},
      {{"data.a", 2.0, "help", {.high = 1}}, "the default 2.0 is not allowed; expected at most 1"},
      {{"data.a", std::int64_t{0}, "help", {.low = 1}}, "the default 0 is not allowed"},
      {{"data.a", std::string("c"), "help", {.choices = {"a", "b"}}}, "expected one of a, b"},
      {{"data.a", 1.0, "help", {.used_if = {{"data.none", {Value(true)}}}}},
       "data.a: is used with data.none = true, which cannot be set"},
      {{"data.a", 1.0, "help", {.used_if = {kind_key.is("flat")}}},
       "is used with model.kind = \"flat\", which cannot be set"},
      {{"data.a", 1.0, "help", {.used_if = {{"data.ratio", {Value(true)}}}}},
       "which cannot be set"}};
  for (const auto& [key, message] : rows) check_says(with_key(key), {message});
  CHECK(with_key({"data.a", 1.0, "help", {.used_if = {kind_key.is("wide")}}}).empty());
}

TEST_CASE("bug: metrics and options of a TaskSpec that cannot be shown were accepted") {
  const std::vector<std::pair<MetricInfo, std::string>> metrics = {
      {{.name = "", .meaning = "m"}, "metric \"\": expected a name"},
      {{.name = "test_a", .meaning = "m"}, "metric \"test_a\": expected a name, without test_"},
      {{.name = "hits", .meaning = "m"}, "metric \"hits\": two metrics have this name"},
      {{.name = "a"}, "metric \"a\": has no meaning"},
      {{.name = "a", .meaning = "m", .settings = {"data.none"}},
       "depends on data.none, which is no"}};
  for (const auto& [metric, message] : metrics) check_says(with_metric(metric), {message});
  CHECK(with_metric({.name = "loss", .meaning = "m", .settings = {"data.ratio"}}).empty());

  const std::vector<std::pair<KeyInfo, std::string>> options = {
      {{"", 1.0, "help", {}}, "--: expected lower-case letters"},
      {{"Count", 1.0, "help", {}}, "--Count: expected lower-case letters"},
      {{"a b", 1.0, "help", {}}, "--a b: expected lower-case letters"},
      {count_option, "--count: two options have this name"},
      {{"a", 1.0, "", {}}, "--a: has no help"},
      {{"a", 1.0, "help", {.used_if = {{"b", {Value(1.0)}}}}}, "--a: is used with b = 1.0"}};
  for (const auto& [option, message] : options) check_says(with_option(option), {message});
  CHECK(with_option({"top-k", 0.0, "help", {.low = 1}}).empty());  // 0: not given
}

TEST_CASE("task specs: the expected metrics of shipped configs are those of their tasks") {
  for (const auto& [name, text] : shipped_configs()) {
    CAPTURE(name);
    CHECK_NOTHROW(expect_known_metric(parse_config(text, name, {})));
  }
}

TEST_CASE("bug: the throughput of tables had no unit, and its curve was one of the metrics") {
  for (const std::string unit : {"rows", "tokens", "words"}) {
    CHECK(unit_of_throughput(unit + "_per_s") == unit);
    CHECK(metric_info("table", unit + "_per_s").unit == unit + " per second");
  }
  CHECK(unit_of_throughput("rmse").empty());
  std::vector<Curve> curves(4);
  curves[0].metric = "rows_per_s", curves[1].metric = "lr", curves[2].metric = "rmse",
  curves[3].metric = "loss";
  sort_by_interest(curves);
  CHECK(curves[0].metric == "loss");
  CHECK(curves[1].metric == "rmse");
}

TEST_SUITE_END();

}  // namespace
}  // namespace tapestry
