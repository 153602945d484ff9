#include "tests/support/small_data.hpp"

#include "data/series/series.hpp"
#include "tests/support/small.hpp"
#include "train/config/keys.hpp"

namespace tapestry {
namespace {

// 20 months of half days: twelve, four and four of them.
std::string station() {
  std::string text = "date,load,oil\n";
  for (std::int64_t row = 0; row < 1200; ++row)
    text += fmt::format("{},{},{}\n", time_text({.us = row * day_us / 2}), row % 7, 20 - row % 30);
  return text;
}

// Lines of a text and a label.
std::string meals(int count) {
  std::string lines = "text\tlabel\n";
  for (int i = 0; i < count; ++i)
    lines += fmt::format("meal {} was {}\t{}\n", i, i % 2 ? "good" : "bad", i % 2 ? "up" : "down");
  return lines;
}

// By "task/kind", or by "task" alone.
std::map<std::string, SmallData> small_data() {
  std::string names;
  for (int i = 0; i < 100; ++i) names += fmt::format("n{}\n", i);
  const SmallData images{.few = {"data.training_images=200", "data.test_images=20"}},
      drawn{.few = {"data.held_back=20"}}, sequences{.few = {"data.held_back=50"}};
  return {
      {"vae", images},
      {"image-classification", images},
      {"captioning", images},
      {"text-classification/reports", {.few = {"data.examples=200", "data.held_back=20"}}},
      {"text-classification/text",
       {.files = {{"train.tsv", meals(40)}, {"test.tsv", meals(8)}},
        .data = {"data.path=."},
        .few = {"data.vocabulary=270", "train.batch_size=4"}}},
      {"toy-sequence", sequences},
      {"recall", sequences},
      {"in-context-regression", sequences},
      {"graph/drawn", {.few = {"data.held_back=20", "model.width=256"}}},  // see word-vectors
      {"translation/dates", drawn},
      {"language-model/text",
       {.files = {{"story.txt", story(400)}},
        .data = {"data.path=story.txt"},
        .sample = {"--tokens", "10"}}},
      {"language-model/names", {.files = {{"names.txt", names}}, .data = {"data.path=names.txt"}}},
      {"word-vectors",
       {.files = {{"story.txt", story(400)}},
        .data = {"data.path=story.txt"},
        .few = {"model.width=1024", "train.batch_size=16"},  // more than the batches read ahead
        .sample = {"--words", "green"}}},
      {"forecast/csv",
       {.files = {{"station.csv", station()}},
        .data = {"data.path=station.csv"},
        .few = {"train.batch_size=2", "train.eval_batch_size=2"}}},  // less than the weights
      {"translation/text",
       {.files = {{"train.de", story()},
                  {"train.en", story()},
                  {"val.de", story()},
                  {"val.en", story()},
                  {"test.de", story()},
                  {"test.en", story()}},
        .data = {"data.path=."},
        .few = {"data.vocabulary=300", "train.batch_size=4"},
        .sample = {"--prompt", "1 green bottle"}}},
      {"graph/csv",
       {.files = {{"nodes.csv",
                   "id,size,color,label\n1,2,red,a\n2,5,blue,b\n3,1,red,a\n4,7,blue,b\n5,1,red,a\n"
                   "6,6,blue,b\n7,3,red,\n"},
                  {"edges.csv", "source,target\n1,3\n2,4\n5,1\n6,2\n7,5\n"}},
        .data = {"data.path=."}}},
      {"graph/citations",
       {.files = {{"cora.content", "a 1 0 x\nb 0 1 y\nc 1 0 x\nd 0 1 y\n"},
                  {"cora.cites", "a c\nb d\n"}},
        .data = {"data.path=.", "data.training_nodes=2", "data.validation_nodes=1",
                 "data.test_nodes=1"}}},
  };
}

}  // namespace

SmallData small_data_of(const std::string& task, const std::string& kind) {
  static const std::map<std::string, SmallData> known = small_data();
  const auto found = known.find(task + "/" + kind), of_task = known.find(task);
  if (found != known.end()) return found->second;
  return of_task == known.end() ? SmallData() : of_task->second;
}

bool is_preset(const Config& config) { return config[key::expected_metric].empty(); }

Strings small_preset(const Config& config) {
  constexpr std::int64_t wide = 384;
  const bool is_wide = config.has("model.kind") &&
                       config.value("model.kind") == Value(std::string("transformer")) &&
                       std::get<std::int64_t>(config.value("model.width")) >= wide;
  if (!is_preset(config) && !is_wide) return {};
  const std::int64_t heads = std::get<std::int64_t>(config.value("model.heads"));
  return {"model.layers=2",        fmt::format("model.width={}", 4 * heads),
          "model.feed_forward=16", "model.context=32",
          "train.batch_size=4",    "train.micro_batches=1"};
}

}  // namespace tapestry
