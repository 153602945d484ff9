#include <doctest/doctest.h>

#include "tests/support/process.hpp"
#include "train/run/lines.hpp"
#include "train/trainer/callbacks/callbacks.hpp"

namespace tapestry {
namespace {

TEST_SUITE_BEGIN("recorder");

std::string line_of(std::int64_t step, const std::string& split = "train") {
  return MetricsLine{step, split, {{"loss", 1.5}}, 0.25}.json() + "\n";
}

TEST_CASE("recorder: a line is one JSON object: step, split, loss, seconds, the rest by name") {
  CHECK(MetricsLine{3, "val", {{"accuracy", 0.5}, {"loss", 2}, {"a", 1}}, 0.25}.json() ==
        R"({"step":3,"split":"val","loss":2.0,"elapsed_s":0.25,"a":1.0,"accuracy":0.5})");
}

TEST_CASE_FIXTURE(TemporaryFolder, "recorder: a resumed run keeps records up to its checkpoint") {
  const std::string seen = line_of(10) + line_of(20) + line_of(20, "val");
  const std::string later = line_of(30) + "{\"step\": 40, \"spl";
  for (const std::string damage : {"", "not JSON\n", "{\"step\": \"x\"}\n", "[]\n"}) {
    CAPTURE(damage);
    const std::string path = write("metrics.jsonl", line_of(5) + damage + seen + later);
    RunLock lock(Run(this->path()), RunLock::Folder::find);
    const auto recorder = record_metrics(lock);
    recorder->on_begin(20, true);
    recorder->on_metrics({30, "train", {{"loss", 1.5}}, 0.25});
    CHECK(read_bytes(path) == line_of(5) + damage + seen + line_of(30));
  }
}

TEST_CASE_FIXTURE(TemporaryFolder, "recorder: a run that goes on is tested again at its end") {
  const std::string path =
      write("metrics.jsonl", line_of(10) + line_of(10, "val") + line_of(10, "test"));
  RunLock lock(Run(this->path()), RunLock::Folder::find);
  record_metrics(lock)->on_begin(10, true);
  CHECK(read_bytes(path) == line_of(10) + line_of(10, "val"));
}

TEST_CASE("recorder: a signature stands beside its figure") {
  CHECK(
      MetricsLine{3, "val", {{"bleu", 5}, {"loss", 2}}, 0.25, {{"bleu", "case:lc"}}}.json() ==
      R"({"step":3,"split":"val","loss":2.0,"elapsed_s":0.25,"bleu":5.0,"bleu_signature":"case:lc"})");
}

TEST_CASE_FIXTURE(TemporaryFolder, "recorder: forgets the evaluation to repeat, not its step") {
  const std::string seen = line_of(10) + line_of(10, "val") + line_of(20);
  const std::string path = write("metrics.jsonl", seen + line_of(20, "val"));
  RunLock lock(Run(this->path()), RunLock::Folder::find);
  record_metrics(lock)->on_begin(20, false);
  CHECK(read_bytes(path) == seen);
}

TEST_CASE_FIXTURE(TemporaryFolder, "bug: a line of metrics without an end was read whole") {
  const std::string endless(LineReader::max_bytes + 1, '[');
  const std::string path = write("metrics.jsonl", endless + "\n" + line_of(10) + endless);
  LineReader line(path);
  REQUIRE(line.next());
  CHECK(line.text().empty());
  REQUIRE(line.next());
  CHECK(line.text() + "\n" == line_of(10));
  check_says(message_of([&] { line.expect(false, "?"); }), {"metrics.jsonl:2: ?"});
  CHECK(line.end() == std::ssize(endless + "\n" + line_of(10)));
  CHECK(!line.next());
  RunLock lock(Run(this->path()), RunLock::Folder::find);
  record_metrics(lock)->on_begin(10, true);
  CHECK(read_bytes(path) == endless + "\n" + line_of(10));
}

TEST_CASE_FIXTURE(TemporaryFolder, "recorder: a new run begins an empty file") {
  const std::string path = write("metrics.jsonl", line_of(10));
  RunLock lock(Run(this->path()), RunLock::Folder::find);
  record_metrics(lock)->on_begin(0, true);
  CHECK(read_bytes(path).empty());
  fs::remove(path);
  record_metrics(lock)->on_begin(7, true);  // lost, and begun again
  CHECK(read_bytes(path).empty());
  fs::remove(path);
  fs::create_directory(path);
  CHECK_THROWS_WITH_AS(record_metrics(lock)->on_begin(0, true),
                       doctest::Contains("metrics.jsonl: cannot open"), std::runtime_error);
}

TEST_SUITE_END();

}  // namespace
}  // namespace tapestry
