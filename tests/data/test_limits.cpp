#include <doctest/doctest.h>
#include <sys/stat.h>

#include <ctime>

#include "data/graphs/node_graph.hpp"
#include "data/graphs/node_tables.hpp"
#include "data/images/images.hpp"
#include "data/input_file.hpp"
#include "data/json.hpp"
#include "data/series/series.hpp"
#include "data/text/byte_pair.hpp"
#include "data/text/names.hpp"
#include "data/text/pairs.hpp"
#include "data/text/text.hpp"
#include "tests/support/gzip.hpp"
#include "tests/support/labels.hpp"
#include "tests/support/peak_memory.hpp"
#include "tests/support/process.hpp"
#include "tests/support/tensor_files.hpp"
#include "train/run/lines.hpp"
#include "train/run/safetensors.hpp"
#include "train/task_spec.hpp"
#include "train/trainer/callbacks/callbacks.hpp"

// Tests small files that once crashed a reader, took long or filled the memory: each reader has a
// limit.
namespace tapestry {
namespace {

constexpr std::int64_t megabyte = 1 << 20;

// Returns the error of a reader, and checks that it takes at most this memory.
template <class Read>
void check_refused(Read read, const Strings& parts, std::int64_t most_bytes) {
  std::string message;
  const std::int64_t peak = peak_memory([&] { message = message_of(read); });
  check_says(message, parts);
  CHECK(message.size() < 1000);
  CHECK_MESSAGE(peak <= most_bytes, parts.front(), ": ", peak, " bytes");
}

std::string nested(const std::string& open, int depth, const std::string& close) {
  std::string text;
  for (int i = 0; i < depth; ++i) text += open;
  for (int i = 0; i < depth; ++i) text += close;
  return text;
}

TEST_SUITE_BEGIN("limits");

TEST_CASE_FIXTURE(TemporaryFolder, "bug: a small gzip file became gigabytes of text") {
  const std::string lines = write("lines.gz", gzip(std::string(60 * megabyte, '\n')));
  const Strings says = {"lines.gz: ", "bytes of gzip hold more than 33554432",
                        "decompress the file"};
  check_refused([&] { load_text(lines); }, says, 100 * megabyte);
  check_refused([&] { load_names(lines); }, says, 100 * megabyte);
  check_refused([&] { load_series(lines); }, says, 100 * megabyte);
  check_refused([&] { load_parallel_text(lines, lines); }, says, 100 * megabyte);
  check_refused([&] { BytePairTokenizer::load(lines); }, says, 100 * megabyte);
}

TEST_CASE_FIXTURE(TemporaryFolder, "limits: a gzip file of data of any size is inflated") {
  std::string text;  // three quarters of it are repeated
  for (int i = 0; std::ssize(text) < 36 * megabyte; ++i) text += fmt::format("{} of data ", i);
  CHECK(read_file(write("text.gz", gzip(text)), 64 * megabyte) == text);
}

TEST_CASE_FIXTURE(TemporaryFolder, "bug: empty lines took sixteen times a file's memory") {
  const std::string lines = write("lines", std::string(30 * megabyte, '\n'));
  check_refused([&] { load_names(lines); }, {"at least 10 names"}, 40 * megabyte);
  check_refused([&] { load_series(lines); }, {"lines: the file is empty"}, 40 * megabyte);
  write("nodes.csv", "id,label" + std::string(30 * megabyte, '\n'));
  check_refused([&] { detect_node_tables(path()); }, {"nodes.csv: has a header alone"},
                40 * megabyte);
}

TEST_CASE_FIXTURE(TemporaryFolder,
                  "bug: an IDX header decided the memory before the file was read") {
  const std::string header("\0\0\x08\x03\0\0\x40\0\0\0\x01\0\0\0\x01\0", 16);  // 2^30 values
  const std::string bomb = header + std::string(60 * megabyte, '\0');
  const auto images = [](const std::string& path) { return [path] { read_idx_images(path); }; };
  check_refused(images(write("images", header)),
                {"images: byte 16: the file ends, expected 1073741840 bytes"}, megabyte);
  check_refused(
      images(write("images.gz", gzip(bomb))),
      {"images.gz: byte 4: the header states 16384 x 256 x 256 values", "decompress the file"},
      2 * megabyte);
  const std::string black("\0\0\x08\x03\0\0\x01\0\0\0\x01\0\0\0\x01\0", 16);  // 2^24 values
  const std::string path = write("black.gz", gzip(black + std::string(1 << 24, '\0')));
  const std::int64_t peak = peak_memory([&] { CHECK(read_idx_images(path).size() == 1 << 24); });
  CHECK(peak < (4 << 24) + 2 * megabyte);  // the numbers alone
}

TEST_CASE_FIXTURE(TemporaryFolder,
                  "bug: a wide header of a CSV allocated more numbers than the file has bytes") {
  std::string wide = "date";
  for (int i = 0; i < 100'000; ++i) wide += fmt::format(",c{}", i);
  const std::string path = write("wide.csv", wide + "\n" + std::string(100'000, '\n') + "x");
  check_refused([&] { load_series(path); },
                {"wide.csv: line 100002: expected 100001 columns as in the first row, found 1"},
                40 * megabyte);
}

TEST_CASE_FIXTURE(TemporaryFolder, "bug: nested lists overflowed the stack") {
  CHECK(json_depth(R"({"a": ["]]]", {}, "\"["], "b": [[[)") == 4);
  CHECK(json_depth("\"[[[[\"") == 0);
  const std::string lists = nested("[", 300'000, "]"), objects = nested("{\"a\":", 100'000, "}");
  for (const std::string& deep : {lists, objects, "{\"model\": " + lists + "}"}) {
    check_refused([&] { BytePairTokenizer::from_json(deep, "tokenizer.json"); },
                  {"tokenizer.json: arrays and objects are nested", "at most 32"}, megabyte);
    CHECK(!parse_metrics_line(deep));
  }
  const std::string line = R"({"step": 1, "split": "val", "elapsed_s": 1, "a": )" + lists + "}\n";
  const std::string metrics = write("metrics.jsonl", line);
  check_fails(run_here({"compare", path()}), {"metrics.jsonl:1: not a line of metrics"});
  RunLock lock(Run(path()), RunLock::Folder::find);
  record_metrics(lock)->on_begin(1, true);
  CHECK(read_bytes(metrics).empty());
}

TEST_CASE("bug: nested keys of a config overflowed the stack") {
  std::string key = "a";
  for (int i = 0; i < 300'000; ++i) key += ".a";
  for (const std::string& text : {key + " = 1", "[" + key + "]", "a = {" + key + " = 1}"})
    CHECK_ERROR(parse_config(text, "deep.toml", {}), "deep.toml: more than 1000 dots");
  CHECK_ERROR(parse_config("task = \"vae\"", "x", {"seed={" + key + "=1}"}),
              "--set seed: more than 1000 dots");
  const std::string arrays = "a = " + nested("[", 100'000, "]");
  CHECK_ERROR(parse_config(arrays, "deep.toml", {}), "deep.toml:1:", "depth");
}

// Returns a safetensors file of `count` tensors of one number.
std::string many_tensors(int count) {
  std::string header = "{";
  for (int i = 0; i < count; ++i)
    header += fmt::format(R"({}"t{}":{{"dtype":"F32","shape":[],"data_offsets":[{},{}]}})",
                          i ? "," : "", i, 4 * i, 4 * i + 4);
  header += "}";
  const std::uint64_t length = header.size();
  return std::string(reinterpret_cast<const char*>(&length), 8) + header +
         std::string(4 * count, '\0');
}

TEST_CASE("bug: reading a safetensors header took quadratic time" *
          not_sanitized("it holds a time")) {
  const TemporaryFolder folder;
  const std::string path = folder.write("many", many_tensors(100'000));
  const std::clock_t begin = std::clock();  // CPU seconds, independent of the machine's load
  const Safetensors file = read_safetensors(path);
  CHECK(file.tensors.size() == 100'000);
  CHECK(file.tensors.back().first == "t99999");
  write_safetensors(path, file);
  CHECK(read_safetensors(path).tensors.size() == 100'000);
  CHECK(std::clock() - begin < 60 * CLOCKS_PER_SEC);  // earlier: four minutes
}

TEST_CASE_FIXTURE(TemporaryFolder,
                  "limits: a safetensors header takes at most 40 times its bytes") {
  const auto file_of = [&](const std::string& header) {
    const std::uint64_t length = header.size();
    const std::string begin(reinterpret_cast<const char*>(&length), 8);
    const std::string path = write("file", begin + header);
    return [path] { read_safetensors(path); };
  };
  std::string metadata = "{\"__metadata__\":{\"\":\"\"";
  for (int i = 0; i < 300'000; ++i) metadata += fmt::format(",\"{}\":\"\"", i);
  CHECK(peak_memory(file_of(metadata + "}}")) < 40 * std::ssize(metadata));
  std::string zeros = "[0";
  for (int i = 0; i < 1'000'000; ++i) zeros += ",0";
  check_refused(file_of("{\"t\":{\"dtype\":\"F32\",\"shape\":" + zeros + "]}}"),
                {"tensor t: the shape has more than 6 axes"}, 40 * std::ssize(zeros));
  check_refused(file_of(std::string((32 << 20) + 1, ' ')),
                {"file: byte 0: the header has 33554433 bytes, expected at most 33554432"},
                megabyte);
}

TEST_CASE_FIXTURE(TemporaryFolder,
                  "bug: reading waited for a pipe or a device in place of a file") {
  const std::string pipe = this->path("pipe");
  REQUIRE(mkfifo(pipe.c_str(), 0600) == 0);
  for (const std::string& path : {pipe, std::string("/dev/zero")}) {
    const std::string says = path + ": is a pipe or a device; give the path of a file";
    CHECK_ERROR(load_text(path), says);
    CHECK_ERROR(load_names(path), says);
    CHECK_ERROR(load_series(path), says);
    CHECK_ERROR(load_parallel_text(path, path), says);
    CHECK_ERROR(read_idx_images(path), says);
    CHECK_ERROR(read_idx_labels(path, 10), says);
    CHECK_ERROR(BytePairTokenizer::load(path), says);
    CHECK_ERROR(read_safetensors(path), says);
  }
}

TEST_SUITE_END();

}  // namespace
}  // namespace tapestry
