#include <doctest/doctest.h>

#include "tests/support/idx.hpp"
#include "tests/support/labels.hpp"
#include "tests/support/process.hpp"
#include "train/inspect/recognized.hpp"
#include "train/task_spec.hpp"
#include "train/tasks/language/text_classification_data.hpp"

// Tests what tests/cli/init.txt cannot: large data, and the memory of a machine.
namespace tapestry {
namespace {

// A text of 1 MB.
std::string long_text() {
  std::string text;
  for (int i = 0; text.size() < 1'000'000; ++i)
    text += fmt::format("Line {} of a long text, with {} words.\n{}", i, i % 7, i % 9 ? "" : "\n");
  return text;
}

// Returns the bytes that this process has read from files; 0 if unknown.
std::int64_t bytes_read() {
  std::ifstream file("/proc/self/io");
  std::string name;
  std::int64_t count = 0;
  file >> name >> count;
  return count;
}

TEST_SUITE_BEGIN("init");

TEST_CASE_FIXTURE(TemporaryFolder, "bug: init: a CSV with other column names was read four times") {
  std::string rows = "id,review,sentiment\n";
  for (int i = 0; rows.size() < 2'000'000; ++i)
    rows += fmt::format("{},\"A fine soup, or not ({})\",{}\n", i, i, i % 2);
  const std::string file = write("reviews.csv", rows);
  const std::int64_t before = bytes_read();
  const std::vector<Recognized> found = recognize_labeled_texts(file);
  const auto times = static_cast<double>(bytes_read() - before) / static_cast<double>(rows.size());
  REQUIRE(found.size() == 1);
  CHECK(found[0].fit == Recognized::Fit::certain);
  CHECK(times < 3.5);
}

TEST_CASE_FIXTURE(CommandFolder, "init: images are classified, or encoded with --task vae") {
  write_images(*this, "shapes", 6);
  const Json found = Json::parse(must(run("init shapes --minutes 1 --json")).out);
  CHECK(found["task"] == "image-classification");
  CHECK(found["facts"]["training_images"] == 20);
  CHECK(found["facts"]["test_images"] == 6);
  CHECK(found["facts"]["classes"] == 2);
  CHECK(found["also_possible"] == Json{"vae"});
  CHECK(found["seconds"].get<double>() < 60);
  must(run("train mine.toml --quiet --set train.steps=2"));
  check_says(read("mine.toml"), {"channels = [16, 32]"});
  check_says(read("runs/mine/config.toml"), {"class_names = [\"0\", \"1\"]"});
  const Json coded =
      Json::parse(must(run("init shapes --minutes 1 --json --task vae --out vae.toml")).out);
  CHECK(coded["task"] == "vae");
  must(run("train vae.toml --quiet --set train.steps=2"));
}

TEST_CASE_FIXTURE(CommandFolder,
                  "bug: init printed the reasons of all tasks in more than two lines") {
  write("names.csv", "time,value\n2020-01-01," + std::string(300, 'x') + "\n");
  write("broken.jsonl", std::string(2000, '{'));
  write("latin.txt", "caf\xe9\n");
  write("binary", std::string(20, '\xff'));
  write("shapes/train-images-idx3-ubyte", "no images");
  write("folder/binary", "\xff");
  const std::pair<const char*, Strings> rows[] = {
      {"init names.csv", {"names.csv: as a CSV of time series: line 2: column value"}},
      {"init broken.jsonl",
       {"as conversations (JSONL): line 1: ",
        "; or add --task text to train on these data as text"}},
      {"init latin.txt", {"latin.txt: as text: byte 3 (line 1): 0xe9 is not UTF-8"}},
      {"init binary", {"; found a binary file that begins with ff ff ff ff ff ff ff ff"}},
      {"init shapes",
       {"shapes: as a folder of images: shapes/train-images-idx3-ubyte: byte 0: expected "
        "0x00000803"}},
      {"init folder", {"; found a folder of 1 entry (binary)"}},
      {"init folder --task names", {"folder: as names: expected .txt files"}}};
  for (const auto& [command, parts] : rows) {
    const Finished refused = run(command);
    CHECK(refused.status == 2);
    CHECK(refused.err.size() <= 240);
    check_says(refused.err, parts);
  }
}

TEST_CASE_FIXTURE(CommandFolder,
                  "bug: init counted bytes of earlier files in the place of an error") {
  write("texts/a.txt", "abcdef\n");
  write("texts/b.txt", "ab\x01\n");
  const std::vector<Recognized> found =
      task_registry().at("language-model").recognize(path("texts"));
  check_says(found.front().refusal, {"b.txt: byte 2: control character 0x01"});
}

TEST_CASE_FIXTURE(CommandFolder,
                  "init: a training that does not fit into the memory is changed, "
                  "or no config is written" *
                      not_sanitized("the memory that is measured contains the sanitizer's")) {
  write("long.txt", long_text());
  const auto written = [&](std::int64_t megabytes) {
    return run("init long.txt --minutes 1 --json --memory {}", megabytes);
  };
  const std::int64_t needed = Json::parse(must(written(0)).out)["bytes"];
  fs::rename(path("mine.toml"), path("large.toml"));
  const Finished changed = must(written(needed * 9 / 10 / 1000000));
  CHECK(Json::parse(changed.out)["bytes"] < needed * 9 / 10);
  check_says(read("mine.toml"), {"# fits into the memory of the machine"});
  must(run("train mine.toml --quiet train.steps=2 train.eval_every=0"));
  fs::remove(path("mine.toml"));
  const Finished refused = written(20);
  check_fails(refused, {"long.txt: ", "memory", "the machine has 20 MB"});
  CHECK(!has("mine.toml"));
}

TEST_CASE_FIXTURE(CommandFolder, "init: a file with the name of the base does not replace it") {
  write("names/names", "");
  std::string list;
  for (int i = 10; i < 99; ++i) list += fmt::format("name{}\n", i);
  write("names/list.txt", list);
  const Finished refused = run("init names/list.txt --out names/mine.toml");
  check_fails(refused, {"--out names/mine.toml", "a file there has this name"});
  CHECK(!has("names/mine.toml"));
}

TEST_SUITE_END();

}  // namespace
}  // namespace tapestry
