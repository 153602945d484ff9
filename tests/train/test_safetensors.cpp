#include <doctest/doctest.h>
#include <sys/resource.h>

#include <cstring>

#include "autograd/buffer_pool.hpp"
#include "layers/mlp.hpp"
#include "optim/adam.hpp"
#include "tests/support/process.hpp"
#include "tests/support/small.hpp"
#include "tests/support/tensor_files.hpp"
#include "train/config/keys.hpp"
#include "train/run/checkpoint.hpp"
#include "train/run/parameters_file.hpp"
#include "train/run/run.hpp"
#include "train/task_spec.hpp"
#include "train/trainer/trainer.hpp"

namespace tapestry {
namespace {

// --- helpers for file formats ---

std::string bytes_of(const Array& array) {
  return {reinterpret_cast<const char*>(array.raw()), array.bytes()};
}

bool equal(const Array& a, const Array& b) {
  return a.dtype() == b.dtype() && a.shape() == b.shape() && bytes_of(a) == bytes_of(b);
}

// Returns a safetensors file with this header and this many zero bytes of data.
std::string file_of(const std::string& header, std::size_t data_bytes) {
  const std::uint64_t length = header.size();
  return std::string(reinterpret_cast<const char*>(&length), 8) + header +
         std::string(data_bytes, '\0');
}

Safetensors small_file() {
  return {{{"weight", Array::of<float>({1, 2, 3, 4, 5, 6}, {2, 3})},
           {"double", Array::of<double>({0.1, -2e300}, {2})},
           {"none", Array::zeros({3, 0, 2})},
           {"scalar", Array::of<std::int32_t>({-7}, {})},
           {"naïve \"name\"\n", Array::full({1, 1, 1, 1, 1, 1}, 0.5)}},
          {{"format", "test"}, {"text", "two\nlines \"β\" \\"}, {"empty", ""}}};
}

WriteParts into(const std::string& path) {
  return [path](const auto& parts) { write_file_atomically(path, parts); };
}

std::string read_error(const std::string& path) {
  return message_of([&] { read_safetensors(path); });
}

// --- runs of tiny models ---

// Trains some steps into a folder, whose checkpoint is then damaged.
void make_run(const Run& run, const Config& config) {
  fs::create_directories(run.folder());
  const auto task = make_task({config});
  const std::atomic<bool> never = false;
  Ranks alone;
  RunLock lock(run, RunLock::Folder::find);
  Trainer(*task, config, run, nullptr, never, alone, &lock).train();
}

Config tiny_language_model(const TemporaryFolder& folder, const Words& more = {}) {
  const std::string story = folder.write("story.txt", "to be or not to be, that is the question\n");
  return parse_config(
      "task = \"language-model\"", "test",
      Words("data.path={} model.layers=1 model.heads=1 model.width=4 model.context=3 "
            "train.steps=2 train.batch_size=2 train.threads=1",
            story) +
          more);
}

Config tiny_vae() {
  return parse_config("task = \"vae\"", "test",
                      Words("data.training_images=4 data.test_images=2 model.hidden=[2] "
                            "model.latent=1 train.steps=2 train.batch_size=2"));
}

TEST_SUITE_BEGIN("files");

TEST_CASE_FIXTURE(TemporaryFolder,
                  "parameters: a file has all of a model, and is read as a whole or not at all") {
  Random random(1, Stream::init);
  Mlp model({2, 3, 1}, random), other({2, 3, 1}, random), wider({2, 4, 1}, random);
  const std::string file_path = path("model.safetensors");
  save_parameters(model, file_path);
  load_parameters(other, file_path);
  const auto bits = [](Mlp& of) {
    std::string all;
    for (const Parameter* parameter : of.parameters()) all += bytes_of(parameter->value());
    return all;
  };
  CHECK(bits(other) == bits(model));
  const std::string before = bits(wider);
  const auto error = [&](const Safetensors& file) {
    write_safetensors(file_path, file);
    return message_of([&] { load_parameters(wider, file_path); });
  };
  CHECK(contains(message_of([&] { load_parameters(wider, file_path); }), "has no tensor"));
  Safetensors file;
  for (const Parameter* parameter : wider.parameters())
    file.tensors.emplace_back(parameter->name, Array::zeros(parameter->tensor.shape()));
  const std::string last = file.tensors.back().first;
  file.tensors.back().second = file.tensors.back().second.to(DType::float64);
  CHECK(contains(error(file), fmt::format("has no tensor {} of float32", last)));
  file.tensors.back().first = "more";
  CHECK(contains(error(file), "tensor more is not in the model"));
  file.tensors.pop_back();
  CHECK(contains(error(file), fmt::format("has no tensor {}", last)));
  CHECK(bits(wider) == before);
}

TEST_CASE_FIXTURE(TemporaryFolder, "safetensors: a round trip keeps tensors, order and metadata") {
  const std::string path = this->path("file.safetensors");
  const Safetensors files[] = {
      small_file(), {}, {{}, {{"only", "metadata"}}}, {{{"x", Array::zeros({0})}}, {}}};
  for (const Safetensors& written : files) {
    write_safetensors(path, written);  // replaces the one before
    const Safetensors read = read_safetensors(path);
    CHECK(read.metadata == written.metadata);
    REQUIRE(read.tensors.size() == written.tensors.size());
    for (std::size_t i = 0; i < read.tensors.size(); ++i) {
      CHECK(read.tensors[i].first == written.tensors[i].first);
      CHECK(equal(read.tensors[i].second, written.tensors[i].second));
    }
    CHECK(std::distance(fs::directory_iterator(this->path()), {}) == 1);
  }
  CHECK(find_tensor(small_file(), "scalar")->rank() == 0);
  CHECK(find_tensor(small_file(), "no such name") == nullptr);
}

TEST_CASE_FIXTURE(TemporaryFolder, "safetensors: another reader reads the same tensors") {
  const std::string path = this->path("file.safetensors");
  const Safetensors file = small_file();
  write_safetensors(path, file);

  const std::string bytes = read_bytes(path);
  std::uint64_t length = 0;
  std::memcpy(&length, bytes.data(), 8);
  CHECK((8 + length) % 8 == 0);  // data that can be mapped
  const auto header = Json::parse(bytes.substr(8, length));
  CHECK(header.size() == file.tensors.size() + 1);
  CHECK(header["__metadata__"] == Json(file.metadata));
  CHECK(header["weight"] ==
        Json::parse(R"({"dtype": "F32", "shape": [2, 3], "data_offsets": [0, 24]})"));
  CHECK(header["double"]["dtype"] == "F64");
  CHECK(header["scalar"] ==
        Json::parse(R"({"dtype": "I32", "shape": [], "data_offsets": [40, 44]})"));
  const std::string data = bytes.substr(8 + length);
  for (const auto& [name, array] : file.tensors) {
    const std::size_t begin = header[name]["data_offsets"][0],
                      end = header[name]["data_offsets"][1];
    CHECK(data.substr(begin, end - begin) == bytes_of(array));
  }
  float last = 0;
  std::memcpy(&last, data.data() + 20, 4);
  CHECK(last == 6);
}

TEST_CASE_FIXTURE(TemporaryFolder, "safetensors: a file cut short is refused at every length") {
  write_safetensors(path("whole"), small_file());
  const std::string whole = read("whole");
  for (std::size_t length = 0; length < whole.size(); ++length) {
    CAPTURE(length);
    check_says(read_error(write("cut", whole.substr(0, length))), {path("cut") + ": "});
  }
  check_says(read_error(write("cut", whole.substr(0, whole.size() - 1))), {"truncated"});
  check_says(read_error(write("long", whole + "x")), {"long", "bytes of data"});
}

TEST_CASE_FIXTURE(TemporaryFolder, "safetensors: a flipped header byte is refused or harmless") {
  write_safetensors(this->path("whole"), small_file());
  const std::string whole = this->read("whole");
  std::uint64_t length = 0;
  std::memcpy(&length, whole.data(), 8);
  int refused = 0;
  for (std::size_t i = 0; i < 8 + length; ++i)
    for (const int flip : {0x01, 0x02, 0x10, 0x20, 0x80, 0xff}) {
      CAPTURE(i);
      CAPTURE(flip);
      std::string damaged = whole;
      damaged[i] = static_cast<char>(damaged[i] ^ flip);
      const std::string path = write("damaged", damaged);
      Safetensors read;
      if (!message_of([&] { read = read_safetensors(path); }).empty()) {
        ++refused;
        continue;
      }
      std::size_t bytes = 0;
      for (const auto& [name, array] : read.tensors) bytes += array.bytes();
      CHECK(bytes == whole.size() - 8 - length);
    }
  CHECK(refused > static_cast<int>(length));
}

TEST_CASE_FIXTURE(TemporaryFolder, "safetensors: wrong headers are refused with the cause") {
  const auto tensor = [](const std::string& shape, const std::string& offsets) {
    return R"({"x": {"dtype": "F32", "shape": )" + shape + R"(, "data_offsets": )" + offsets + "}}";
  };
  const std::string half = R"({"dtype": "F32", "shape": [2], "data_offsets": )";
  const std::string deep = std::string(200'000, '[') + std::string(200'000, ']');
  const std::string million = "1000000000000";
  const std::tuple<std::string, std::size_t, Strings> rows[] = {
      {"", 0, {"header at byte 8"}},
      {"{", 0, {"header at byte 8"}},
      {"[]", 0, {"expected a JSON object"}},
      {"null", 0, {"expected a JSON object"}},
      {"{}", 4, {"4 bytes of data, but the header states 0"}},
      {"{\"x\": 1}", 0, {"tensor x"}},
      {"{\"x\": {}}", 0, {"tensor x", "dtype"}},
      {R"({"x": {"dtype": "F32", "data_offsets": [0, 4]}})", 4, {"tensor x", "shape"}},
      {R"({"x": {"dtype": "F32", "shape": [1]}})", 4, {"tensor x", "data_offsets"}},
      {R"({"x": {"dtype": "BF17", "shape": [2], "data_offsets": [0, 4]}})",
       4,
       {"tensor x", "dtype BF17", "F32, F64, F16, BF16 or I32"}},
      {R"({"x": {"dtype": 32, "shape": [1], "data_offsets": [0, 4]}})", 4, {"tensor x"}},
      {tensor("[2]", "[0, 4]"), 4, {"tensor x", "data_offsets 0 to 4", "(2,)"}},
      {tensor("[1]", "[4, 0]"), 4, {"tensor x", "data_offsets 4 to 0"}},
      {tensor("[1]", "[0, 4, 8]"), 4, {"tensor x", "two numbers"}},
      {tensor("[1]", "{\"0\": 0, \"1\": 4}"), 4, {"tensor x"}},
      {tensor("[1]", "[0, -4]"), 4, {"tensor x"}},
      {tensor("[1]", "[0, 4.5]"), 4, {"tensor x"}},
      {tensor("[1]", "[false, 4]"), 4, {"tensor x"}},
      {tensor("[1]", "[\"0\", 4]"), 4, {"tensor x"}},
      {tensor("1", "[0, 4]"), 4, {"tensor x", "shape"}},
      {tensor("null", "[0, 4]"), 4, {"tensor x", "shape"}},
      {tensor("{\"a\": 1}", "[0, 4]"), 4, {"tensor x", "shape"}},
      {tensor("[1.5]", "[0, 4]"), 4, {"tensor x", "shape"}},
      {tensor("[true]", "[0, 4]"), 4, {"tensor x", "shape"}},
      {tensor("[-1]", "[0, 4]"), 4, {"tensor x", "shape"}},
      {tensor("[1, 1, 1, 1, 1, 1, 1]", "[0, 4]"), 4, {"tensor x", "shape"}},
      {tensor("[" + million + "]", "[0, 4000000000000]"), 4, {"header states 4000000000000"}},
      {tensor("[" + million + ", " + million + "]", "[0, 4]"), 4, {"tensor x", "large"}},
      {tensor("[4294967296, 4294967296, 1]", "[0, 0]"), 0, {"tensor x", "large"}},
      {tensor("[18446744073709551615]", "[0, 4]"), 4, {"tensor x", "shape"}},
      {tensor("[99999999999999999999]", "[0, 4]"), 4, {"tensor x", "shape"}},
      {tensor("[1]", "[18446744073709551612, 0]"), 4, {"tensor x"}},
      {tensor("[1]", "[18446744073709551608, 18446744073709551612]"), 4, {"tensor x", "a hole"}},
      {tensor("[9]", deep), 4, {"the lists are nested"}},
      {tensor(deep, "[0, 4]"), 4, {"the lists are nested"}},
      {tensor("[99999999999999, " + deep + "]", "[0, 4]"), 4, {"the lists are nested"}},
      {tensor("[1]", "[4, 8]"), 8, {"tensor x starts at data byte 4, expected 0 (a hole)"}},
      {"{\"x\": " + half + "[0, 8]}, \"y\": " + half + "[4, 12]}}", 12, {"y", "tensors overlap"}},
      {"{\"x\": " + half + "[0, 8]}, \"y\": " + half + "[0, 8]}}", 8, {"y", "tensors overlap"}},
      {"{\"x\": " + half + "[0, 8]}, \"y\": " + half + "[12, 20]}}", 20, {"y", "a hole"}},
      {"{\"x\": " + half + "[0, 8]}, \"x\": " + half + "[8, 16]}}", 16, {"x occurs twice"}},
      {"{\"__metadata__\": {\"a\": 1}}", 0, {"__metadata__: expected a map of strings"}},
      {"{\"__metadata__\": \"a\"}", 0, {"__metadata__: expected a map of strings"}},
      {"{\"__metadata__\": {\"a\": {\"b\": \"c\"}}}", 0, {"__metadata__"}},
      {"{\"\xff\": 1}", 0, {"header at byte 8"}}};
  reset_peak_memory();
  const std::int64_t before = memory_use().peak_bytes_in_use;
  for (const auto& [header, data_bytes, parts] : rows) {
    const std::string shown = header.substr(0, 200);
    CAPTURE(shown);
    const std::string message = read_error(write("lie", file_of(header, data_bytes)));
    CHECK(message.size() < 1000);
    check_says(message, {path("lie") + ": "});
    check_says(message, parts);
  }
  CHECK(memory_use().peak_bytes_in_use - before < 1000);  // none of the claimed sizes
}

TEST_CASE_FIXTURE(TemporaryFolder,
                  "safetensors: wrong header lengths and paths that are no files are refused") {
  const std::string good = file_of("{}", 0);
  for (const std::uint64_t length :
       {std::uint64_t{0}, std::uint64_t{1}, std::uint64_t{3}, std::uint64_t{100'000'001},
        std::uint64_t{1} << 40, std::uint64_t{1} << 63, ~std::uint64_t{0}, ~std::uint64_t{7}}) {
    CAPTURE(length);
    std::string lie = good;
    std::memcpy(lie.data(), &length, 8);
    check_says(read_error(write("lie", lie)), {"lie: "});
  }
  CHECK(read_error(write("good", good)).empty());
  check_says(read_error(path("missing")), {"missing: cannot be opened: No such file"});
  check_says(read_error(path()), {path() + ": is a folder"});
  check_says(read_error("/dev/null"), {"/dev/null: is a pipe or a device"});
}

TEST_CASE_FIXTURE(TemporaryFolder, "safetensors: names cannot break messages into lines") {
  const std::string header = R"({"a\nb": {"dtype": "F15", "shape": [], "data_offsets": [0, 0]}})";
  check_says(read_error(write("file", file_of(header, 0))), {"tensor a\\x0ab: dtype F15"});
}

// --- writing ---

std::string write_error(const std::string& path) {
  try {
    write_safetensors(path, {{{"big", Array::zeros({100, 100})}}, {}});
  } catch (const InputError&) {
    FAIL("a full disk is not the user's input");
  } catch (const std::runtime_error& error) {
    return error.what();
  }
  return "";
}

TEST_CASE_FIXTURE(TemporaryFolder, "bug: a file was written through a link with its .tmp name") {
  const std::string path = this->path("file"), other = write("other", "mine");
  fs::create_symlink(other, path + ".tmp");
  write_safetensors(path, small_file());
  CHECK(read_bytes(other) == "mine");
  CHECK(!fs::is_symlink(path));
  CHECK(read_safetensors(path).tensors.size() == small_file().tensors.size());
}

TEST_CASE_FIXTURE(TemporaryFolder, "bug: writing NAME removed somebody else's file NAME.tmp") {
  const std::string path = this->path("file"), other = write("file.tmp", "mine");
  write_safetensors(path, small_file());
  CHECK(read_bytes(other) == "mine");
  CHECK_THROWS_AS(write_safetensors(this->path("no/file"), small_file()), std::runtime_error);
  CHECK(std::distance(fs::directory_iterator(this->path()), {}) == 2);
}

TEST_CASE_FIXTURE(TemporaryFolder, "safetensors: a failed write leaves the old file and no other") {
  const std::string path = this->path("file");
  write_safetensors(path, small_file());

  const std::string before = read_bytes(path);

  // The disk becomes full in the middle of the file.
  rlimit usual{};
  getrlimit(RLIMIT_FSIZE, &usual);
  const rlimit small{20'000, usual.rlim_max};
  const auto old_handler = std::signal(SIGXFSZ, SIG_IGN);
  setrlimit(RLIMIT_FSIZE, &small);
  const std::string message = write_error(path);
  setrlimit(RLIMIT_FSIZE, &usual);
  std::signal(SIGXFSZ, old_handler);
  check_says(message, {path, "File too large"});
  CHECK(read_bytes(path) == before);
  CHECK(std::distance(fs::directory_iterator(this->path()), {}) == 1);

  CHECK_THROWS_AS(write_safetensors(this->path("no/such/folder/file"), small_file()),
                  std::runtime_error);
}

TEST_CASE_FIXTURE(TemporaryFolder, "bug: a file that could not be renamed was left as .tmp") {
  fs::create_directories(path("a-folder/inside"));
  CHECK_THROWS_AS(write_safetensors(path("a-folder"), small_file()), std::runtime_error);
  CHECK(std::distance(fs::directory_iterator(path()), {}) == 1);
}

// --- checkpoints ---

TEST_CASE_FIXTURE(TemporaryFolder, "checkpoint: a round trip keeps all tensors, state and config") {
  const Config config = tiny_language_model(*this);
  const auto task = make_task({config});
  const auto parameters = task->model().parameters();
  AdamW optimizer(parameters, {});
  for (auto [name, array] : whole_state(optimizer))
    Random(7, Stream::data).fill_normal(array, 0, 1);
  const TrainingState state{.step = 12, .position = 345, .best_loss = 1.0 / 3, .elapsed_s = 0.1};
  const std::string path = this->path("checkpoint");
  save_checkpoint(into(path), *task, whole_state(optimizer), config, state);

  const auto loaded = load_checkpoint(path);
  CHECK(loaded.config == config.toml());
  CHECK(loaded.metadata == task->metadata());
  CHECK(loaded.state.step == 12);
  CHECK(loaded.state.position == 345);
  CHECK(loaded.state.best_loss == 1.0 / 3);
  CHECK(loaded.state.elapsed_s == 0.1);

  Config other_seed = config;
  other_seed.set(key::seed, std::int64_t{99});
  const auto other = make_task({other_seed, loaded.metadata, false});  // without its data
  AdamW other_optimizer(other->model().parameters(), {});
  restore_parameters(loaded, other->model());
  restore_optimizer(loaded, other_optimizer);
  CHECK(other_optimizer.steps() == 12);
  const auto others = other->model().parameters();
  REQUIRE(others.size() == parameters.size());
  for (std::size_t i = 0; i < parameters.size(); ++i) {
    CHECK(others[i]->name == parameters[i]->name);
    CHECK(equal(others[i]->value(), parameters[i]->value()));
  }
  const auto slots = whole_state(optimizer), other_slots = whole_state(other_optimizer);
  REQUIRE(slots.size() == 2 * parameters.size());
  for (std::size_t i = 0; i < slots.size(); ++i)
    CHECK(equal(slots[i].second, other_slots[i].second));
}

TEST_CASE_FIXTURE(TemporaryFolder, "checkpoint: a missing best loss is read as infinity") {
  const Config config = tiny_language_model(*this);
  const auto task = make_task({config});
  save_checkpoint(into(path("c")), *task, whole_state(AdamW(task->model().parameters(), {})),
                  config, {});
  CHECK(std::isinf(load_checkpoint(path("c")).state.best_loss));
}

TEST_CASE_FIXTURE(TemporaryFolder, "checkpoint: tensors that do not fit are named") {
  const Run run(path("run"));
  make_run(run, tiny_language_model(*this));
  const Safetensors good = read_safetensors(run.checkpoint());
  const std::string first = good.tensors.front().first;
  const auto metadata = [](const std::string& name, const std::string& value) {
    return [=](Safetensors& file) { file.metadata[name] = value; };
  };
  const auto without = [](const std::string& name) {
    return [=](Safetensors& file) { CHECK(file.metadata.erase(name) == 1); };
  };
  const std::pair<std::function<void(Safetensors&)>, Strings> rows[] = {
      {[](auto& file) { file.tensors.erase(file.tensors.begin()); }, {first, "is missing"}},
      {[](auto& file) { file.tensors.front().second = Array::zeros({5}); },
       {first, "float32 (5,)", "config expects float32"}},
      {[](auto& file) {
         file.tensors.front().second = file.tensors.front().second.to(DType::float64);
       },
       {first, "float64", "config expects float32"}},
      {[](auto& file) { file.metadata.clear(); }, {"not a checkpoint", "\"format\""}},
      {without("config"), {"not a checkpoint", "\"config\""}},
      {without("step"), {"not a checkpoint", "\"step\""}},
      {without("engines"), {"not a checkpoint", "\"engines\""}},
      {without("xxh3"), {"not a checkpoint", "\"xxh3\""}},
      {without("xxh3." + first), {"not a checkpoint", "\"xxh3." + first + "\""}},
      {without("task.vocabulary"), {}},
      {metadata("format", "tapestry 2"), {"format \"tapestry 2\", expected \"tapestry 1\""}},
      {metadata("step", "1x"), {"metadata step = \"1x\": expected a whole number from 0 on"}},
      {metadata("step", ""), {"step"}},
      {metadata("step", "-1"), {"step"}},
      {metadata("position", "-1"), {"position"}},
      {metadata("best_loss", "low"), {"best_loss"}},
      {metadata("config", "task = "), {"(its config):1:"}},
      {metadata("config", "task = \"language-model\"\nmodel.width = 8"), {first, "expects"}},
      {metadata("task.vocabulary", "[1]"), {"damaged"}},
      {metadata("task.vocabulary", "[\"a\""), {"damaged"}},
      {metadata("task.vocabulary", "[\"a\"]"), {first, "expects"}}};
  fs::remove(run.best());
  for (const auto& row : rows) {
    CAPTURE(&row - rows);
    Safetensors file = good;
    row.first(file);
    if (file.metadata.contains("xxh3")) file.metadata["xxh3"] = metadata_checksum(file.metadata);
    write_safetensors(run.checkpoint(), file);
    const std::string message = message_of([&] { load_trained(run.folder(), {}, false); });
    if (!row.second.empty()) check_says(message, {run.checkpoint()});
    check_says(message, row.second);
  }
  write_safetensors(run.checkpoint(), good);
  CHECK(load_trained(run.folder(), {}, false).state.step == 2);
}

TEST_CASE_FIXTURE(TemporaryFolder, "checkpoint: missing state of a task is named") {
  for (const auto& [name, task] : std::map<std::string, std::string>{
           {"clothes-vit", "image-classification"}, {"waves", "forecast"}}) {
    CAPTURE(name);
    const Run run(path(name));
    make_run(run, load_config(name, small(task) + "train.steps=1"));
    const Safetensors good = read_safetensors(run.best());
    for (const auto& [key, value] : good.metadata) {
      if (!key.starts_with("task.")) continue;
      Safetensors file = good;
      file.metadata.erase(key);
      file.metadata["xxh3"] = metadata_checksum(file.metadata);
      write_safetensors(run.best(), file);
      CHECK(message_of([&] { load_trained(run.folder(), {}, false); }) ==
            fmt::format(
                "{}: the metadata are damaged: the metadata \"{}\" is missing; use another copy",
                run.best(), key));
    }
  }
}

TEST_CASE_FIXTURE(TemporaryFolder, "checkpoint: the optimizer's tensors are checked as well") {
  const Run run(path("run"));
  const Config config = tiny_language_model(*this);
  make_run(run, config);
  Safetensors file = read_safetensors(run.checkpoint());
  std::erase_if(file.tensors, [](const auto& tensor) {
    return tensor.first == "optimizer.second_moment.final_norm.weight";
  });
  REQUIRE(file.tensors.size() + 1 == read_safetensors(run.checkpoint()).tensors.size());
  write_safetensors(run.checkpoint(), file);
  const auto task = make_task({config});
  AdamW optimizer(task->model().parameters(), {});
  CHECK_ERROR(restore_optimizer(load_checkpoint(run.checkpoint()), optimizer), run.checkpoint(),
              "optimizer.second_moment.final_norm.weight", "is missing");
}

TEST_CASE_FIXTURE(TemporaryFolder, "checkpoint: a flipped header byte is refused or used") {
  for (const Config& config : {tiny_language_model(*this), tiny_vae()}) {
    const Run run(this->path(config[key::task]));
    make_run(run, config);
    const std::string whole = read_bytes(run.checkpoint());
    std::uint64_t length = 0;
    std::memcpy(&length, whole.data(), 8);
    int refused = 0, used = 0;
    for (std::size_t i = 8; i < 8 + length; i += 5) {
      CAPTURE(i);
      std::string damaged = whole;
      damaged[i] = static_cast<char>(damaged[i] ^ (i % 3 == 0 ? 0x01 : i % 3 == 1 ? 0x10 : 0x80));
      const std::string path = write("damaged", damaged);
      if (message_of([&] { load_trained(path, {}, false); }).empty())
        ++used;
      else
        ++refused;
    }
    CHECK(refused > used);
  }
}

TEST_SUITE_END();

}  // namespace
}  // namespace tapestry
