#include <doctest/doctest.h>
#include <sys/stat.h>

#include <filesystem>

#include "autograd/buffer_pool.hpp"
#include "tests/support/run_fixture.hpp"
#include "train/run/run_lock.hpp"

// What --resume goes on from, what it refuses, and that a refusal changes nothing.
namespace tapestry {
namespace {
namespace fs = std::filesystem;

// Every file of a folder.
std::map<std::string, std::string> contents_of(const std::string& folder) {
  std::map<std::string, std::string> files;
  for (const auto& entry : fs::directory_iterator(folder))
    files[entry.path().filename().string()] = read_bytes(entry.path().string());
  return files;
}

// Trains once more with --resume, which must be refused in one line and leave the run as it was.
std::string refusal(const RunFixture& fixture, const std::string& config, const std::string& run,
                    std::vector<std::string> more = {}) {
  const auto before = contents_of(fixture.folder.path(run));
  more.push_back("--resume");
  const Finished refused = fixture.train(config, run, more);
  CHECK(refused.status == 2);
  CHECK(lines_of(refused.err).size() == 1);
  CHECK(contents_of(fixture.folder.path(run)) == before);
  return refused.err;
}

// Flips the lowest bit of a tensor's last byte.
void damage(const std::string& path, const std::string& tensor) {
  std::string bytes = read_bytes(path);
  std::uint64_t length = 0;
  std::memcpy(&length, bytes.data(), 8);
  const Json header = Json::parse(bytes.substr(8, length));
  const std::size_t end = header.at(tensor).at("data_offsets")[1];
  bytes[8 + length + end - 1] ^= 1;
  std::ofstream(path, std::ios::binary) << bytes;
}

const std::vector<std::string> steady = {"optim.schedule=constant"};

TEST_SUITE_BEGIN("training");

TEST_CASE("bug: --resume deleted the best model where there was no checkpoint") {
  const RunFixture fixture;
  fixture.must_train("toy", "whole");
  fixture.must_train("toy", "run");
  const std::int64_t best_step = load_checkpoint(fixture.best("run")).state.step;
  fs::remove(fixture.checkpoint("run"));
  check_says(refusal(fixture, "toy", "run", {"model.width=8"}), {"model.width (16, now 8)"});
  const Finished refused = fixture.train("toy", "run");
  CHECK(refused.status == 2);
  check_says(refused.err, {"already holds a run; add --resume"});
  const Finished resumed = tapestry_run(
      {"train", fixture.folder.path("toy.toml"), "--resume", "--out", fixture.folder.path("run")});
  REQUIRE(resumed.status == 0);
  check_says(resumed.out, {fmt::format("from step {}", best_step)});
  check_same_run(fixture, "whole", "run");
}

TEST_CASE("bug: --resume went on from an older checkpoint than the best model") {
  const RunFixture fixture;
  const auto to = [](const char* steps) {
    return std::vector<std::string>{"optim.schedule=constant", std::string("train.steps=") + steps};
  };
  fixture.must_train("toy", "run", to("5"));
  const std::string older = read_bytes(fixture.checkpoint("run"));
  std::vector<std::string> rest = to("40");
  rest.push_back("--resume");
  fixture.must_train("toy", "run", rest);
  const std::int64_t best_step = load_checkpoint(fixture.best("run")).state.step;
  REQUIRE(best_step > 5);
  const std::string newest = read_bytes(fixture.checkpoint("run"));
  fixture.folder.write("run/checkpoint.safetensors", older);
  std::vector<std::string> words = {"train", fixture.folder.path("toy.toml"), "--out",
                                    fixture.folder.path("run")};
  words.insert(words.end(), rest.begin(), rest.end());
  check_says(tapestry_run(with_sets(words)).out, {fmt::format("from step {}", best_step)});
  fixture.folder.write("newest", newest);
  check_same_checkpoint(fixture.checkpoint("run"), fixture.folder.path("newest"));
}

TEST_CASE("bug: a run's folder was looked at before it was locked") {
  const RunFixture fixture;
  fixture.must_train("toy", "run", {"train.steps=2"});
  const std::string run = fixture.folder.path("run");
  const auto train = [&](const std::vector<std::string>& more) {
    std::vector<std::string> words = {"train", fixture.folder.path("toy.toml"), "--out", run};
    words.insert(words.end(), more.begin(), more.end());
    const Finished finished = tapestry_run(words);
    CHECK(finished.status == 2);
    return finished.err;
  };
  {
    const RunLock other(Run(run), RunLock::Folder::find);
    for (const auto& more : std::vector<std::vector<std::string>>{
             {}, {"--resume"}, {"--seeds", "2"}, {"--seeds", "2", "--resume"}})
      check_says(train(more), {"run: another process is training into this folder"});
  }
  check_says(train({}), {"holds a run"});
}

TEST_CASE("bug: the lock of a folder that was removed meanwhile held nothing") {
  const TemporaryFolder folder;
  const Run run(folder.path("outer/run"));
  {
    const RunLock lock(run, RunLock::Folder::make);
    CHECK(!message_of([&] { RunLock(run, RunLock::Folder::make); }).empty());
    CHECK(fs::exists(run.folder()));  // which the one that was refused had not made
  }
  CHECK(!fs::exists(folder.path("outer")));
  CHECK(!message_of([&] { RunLock(run, RunLock::Folder::find); }).empty());
  {
    const RunLock lock(run, RunLock::Folder::make);
    folder.write("outer/run/config.toml", "");
  }
  CHECK(fs::exists(run.config()));
}

TEST_CASE("bug: a training that was refused left its folders behind") {
  const RunFixture fixture;
  fs::create_directory(fixture.folder.path("mine"));
  for (const std::string out : {"new", "mine", "mine/a/b"}) {
    const Finished refused =
        fixture.train("text", out, {"data.path=" + fixture.folder.path("none.txt")});
    CHECK(refused.status == 2);
    check_says(refused.err, {"no such file"});
  }
  CHECK(!fs::exists(fixture.folder.path("new")));
  CHECK(fs::is_empty(fixture.folder.path("mine")));
}

TEST_CASE("bug: a resumption that was refused rewrote the config and cut the metrics") {
  const RunFixture fixture;
  fixture.must_train("text", "run", steady);
  const auto with = [&](std::vector<std::string> more) {
    more.insert(more.end(), steady.begin(), steady.end());
    return refusal(fixture, "text", "run", more);
  };
  std::ofstream(fixture.folder.path("run/metrics.jsonl"), std::ios::app) << R"({"step":90,"split)";
  const std::string longer = fixture.folder.write("longer.txt", story(20) + story(20));
  check_says(with({"train.steps=50", "data.path=" + longer}),
             {"examples", "give the original data"});
  std::string other = story(20);
  std::swap(other[3], other[4]);
  const std::string path = fixture.folder.write("other.txt", other);
  check_says(with({"train.steps=50", "data.path=" + path}),
             {"other.txt", "same number of examples", "give the original data"});
  const std::string tensor = "blocks.0.feed_forward.expand.weight";
  for (const std::string prefix : {"", "optimizer.second_moment."}) {
    const std::string good = read_bytes(fixture.checkpoint("run"));
    damage(fixture.checkpoint("run"), prefix + tensor);
    check_says(with({"train.steps=50"}),
               {"checkpoint.safetensors: tensor " + prefix + tensor + " is damaged"});
    fixture.folder.write("run/checkpoint.safetensors", good);
  }
  // The same text elsewhere is the same data.
  const std::string same = fixture.folder.write("same.txt", story(20));
  std::vector<std::string> more = {"--resume", "train.steps=50", "data.path=" + same};
  more.insert(more.end(), steady.begin(), steady.end());
  fixture.must_train("text", "run", more);
}

TEST_CASE("bug: a checkpoint with a flipped bit was used") {
  const RunFixture fixture;
  fixture.must_train("toy", "run", {"train.steps=10"});
  damage(fixture.best("run"), "final_norm.weight");
  for (const std::string command : {"eval", "sample"}) {
    const Finished refused = tapestry_run({command, fixture.folder.path("run")});
    CHECK(refused.status == 2);
    check_says(refused.err, {"best.safetensors: tensor final_norm.weight is damaged"});
  }
}

TEST_CASE("bug: a step that was changed in a checkpoint was gone on from") {
  const RunFixture fixture;
  fixture.must_train("toy", "run", {"train.steps=10"});
  for (const std::string& path : {fixture.checkpoint("run"), fixture.best("run")}) {
    Safetensors file = read_safetensors(path);
    file.metadata.at("step") = "5";
    write_safetensors(path, file);
  }
  check_says(refusal(fixture, "toy", "run"), {"best.safetensors: the metadata are damaged"});
}

TEST_CASE("bug: a model above 64 MiB was taken for another than its checkpoint's") {
  const RunFixture fixture;
  fixture.must_train(
      "toy", "run",
      {"train.steps=1", "train.batch_size=1", "data.held_back=1", "model.width=1400"});
  CHECK(load_trained(fixture.folder.path("run"), {}, false).state.step == 1);
}

TEST_CASE("bug: a pipe in the place of metrics.jsonl held --resume for ever") {
  const RunFixture fixture;
  fixture.must_train("toy", "run", {"train.steps=2"});
  const std::string metrics = fixture.folder.path("run/metrics.jsonl");
  fs::remove(metrics);
  REQUIRE(mkfifo(metrics.c_str(), 0600) == 0);
  const Finished refused = fixture.train("toy", "run", {"--resume"});
  CHECK(refused.status == 2);
  check_says(refused.err, {"metrics.jsonl: is a pipe or a device"});
}

TEST_CASE("bug: a run of drawn data went on with files") {
  const RunFixture fixture;
  fixture.must_train("vae", "run", {"train.steps=2"});
  check_says(refusal(fixture, "vae", "run", {"data.path=clothes"}),
             {"cannot resume with other data"});
}

TEST_CASE("bug: weights that are not numbers were sampled with status 0") {
  const RunFixture fixture;
  fixture.must_train("toy", "run", {"train.steps=10"});
  Safetensors file = read_safetensors(fixture.best("run"));
  auto weight =
      std::ranges::find(file.tensors, "final_norm.weight", &std::pair<std::string, Array>::first);
  REQUIRE(weight != file.tensors.end());
  weight->second.mutable_values<float>()[3] = std::numeric_limits<float>::quiet_NaN();
  file.metadata.at("xxh3.final_norm.weight") = checksum(weight->second);
  file.metadata["xxh3"] = metadata_checksum(file.metadata);
  write_safetensors(fixture.best("run"), file);
  fs::remove(fixture.folder.path("run/metrics.jsonl"));  // which says that these are others
  for (const std::string command : {"eval", "sample", "attention"}) {
    const Finished refused = tapestry_run({command, fixture.folder.path("run")});
    CHECK(refused.status == 2);
    CHECK(refused.out.empty());
    check_says(refused.err, {"best.safetensors: tensor final_norm.weight", "not finite"});
  }
}

TEST_CASE("bug: --resume trained anew where there was nothing to go on with") {
  const RunFixture fixture;
  const Finished typo = fixture.train("toy", "typo", {"--resume"});
  CHECK(typo.status == 2);
  check_says(typo.err, {"typo: no such run"});
  CHECK(!fs::exists(fixture.folder.path("typo")));
  fs::create_directory(fixture.folder.path("letters"));
  fixture.folder.write("letters/one.txt", "dear");
  check_says(refusal(fixture, "toy", "letters"), {"letters: not a run", "config.toml"});
  check_says(refusal(fixture, "toy", "letters", {"--seeds", "2"}),
             {"letters: holds no run with a seed from 1 to 2; give the --out"});
}

TEST_CASE("bug: other train.steps on --resume let the learning rate jump") {
  const RunFixture fixture;
  fixture.must_train("toy", "run", {"train.steps=20", "optim.final_learning_rate=1e-5"});
  const auto to_40 = [](std::vector<std::string> more) {
    more.insert(more.end(), {"train.steps=40", "optim.final_learning_rate=1e-5"});
    return more;
  };
  check_says(refusal(fixture, "toy", "run", to_40({})),
             {"train.steps = 40", "ends at step 20", "0.00164 instead of 1e-05",
              "--set optim.decay_steps=20", "=40 to extend it"});
  fixture.must_train("toy", "run", to_40({"--resume", "optim.decay_steps=20"}));
  for (const Json& line : fixture.metrics("run"))
    if (line["split"] == "train" && line["step"] >= 20) CHECK(line["lr"] == 1e-5);
  fixture.must_train("toy", "run", to_40({"--resume", "optim.decay_steps=20"}));
  check_says(refusal(fixture, "toy", "run", to_40({})), {"ends at step 20"});
}

TEST_CASE("bug: --resume in a warm-up was refused for a learning rate that stays the same") {
  const RunFixture fixture;
  const std::vector<std::string> warm = {"optim.warmup_steps=15"};
  const auto with = [&](std::vector<std::string> more) {
    more.insert(more.end(), warm.begin(), warm.end());
    return more;
  };
  fixture.must_train("toy", "whole", with({"train.steps=40"}));
  fixture.must_train("toy", "run", with({"train.steps=10"}));
  fixture.must_train("toy", "run", with({"train.steps=40", "--resume"}));
  check_same_checkpoint(fixture.checkpoint("whole"), fixture.checkpoint("run"));

  // Beyond it: rates that differ are shown with the digits in which they do.
  const std::vector<std::string> brief = {"train.early_stopping=1", "train.min_delta=1e9"};
  fixture.must_train("toy", "near", {"train.steps=2000", brief[0], brief[1]});
  const std::string said =
      refusal(fixture, "toy", "near", {"train.steps=2001", brief[0], brief[1]});
  const std::size_t begin = said.find("learning rate is ") + 17,
                    middle = said.find(" instead of ", begin);
  const std::string now = said.substr(begin, middle - begin),
                    before = said.substr(middle + 12, said.find(' ', middle + 12) - middle - 12);
  CHECK(std::stod(now) != std::stod(before));
  CHECK(std::stod(now) == doctest::Approx(std::stod(before)).epsilon(1e-3));
}

TEST_CASE("bug: the last step's learning rate was not the final one") {
  const RunFixture fixture;
  for (const std::string schedule : {"linear", "cosine"}) {
    fixture.must_train("toy", schedule,
                       {"train.steps=12", "train.log_every=1", "optim.final_learning_rate=1e-5",
                        "optim.schedule=" + schedule});
    const std::vector<Json> lines = fixture.metrics(schedule);
    const auto last = std::ranges::find_if(
        lines, [](const Json& line) { return line["split"] == "train" && line["step"] == 12; });
    REQUIRE(last != lines.end());
    CHECK((*last)["lr"].get<double>() == doctest::Approx(1e-5).epsilon(1e-12));
  }
}

TEST_CASE("bug: a small checkpoint of a large config filled the memory") {
  const RunFixture fixture;
  fixture.must_train("toy", "run", {"train.steps=2"});
  Safetensors file = read_safetensors(fixture.best("run"));
  file.tensors.clear();
  std::string& config = file.metadata.at("config");
  for (const auto& [small, large] : std::map<std::string, std::string>{
           {"layers = 1\n", "layers = 1000\n"}, {"width = 16\n", "width = 4096\n"}}) {
    REQUIRE(config.find(small) != std::string::npos);
    config.replace(config.find(small), small.size(), large);
  }
  file.metadata["xxh3"] = metadata_checksum(file.metadata);
  const std::string path = fixture.folder.path("bomb.safetensors");
  write_safetensors(path, file);
  reset_peak_memory();
  const std::int64_t before = memory_use().peak_bytes_in_use;
  check_says(message_of([&] { load_trained(path, {}, false); }),
             {"bomb.safetensors: contains 0 bytes of parameters", "the file is of another model"});
  CHECK(memory_use().peak_bytes_in_use - before < 100 << 20);
  CHECK(tapestry_run({"eval", path}).status == 2);
}

TEST_CASE(
    "training: a run that was ended before its first checkpoint starts over, if it is the same") {
  const RunFixture fixture;
  fixture.must_train("toy", "whole");
  fixture.must_train("toy", "run");
  const std::string config = read_bytes(fixture.folder.path("run/config.toml"));
  fs::remove(fixture.checkpoint("run"));
  fs::remove(fixture.best("run"));
  check_says(refusal(fixture, "toy", "run", {"model.width=8"}), {"model.width (16, now 8)"});
  const Finished resumed = fixture.train("toy", "run", {"--resume"});
  REQUIRE(resumed.status == 0);
  check_says(resumed.out, {"run: has no checkpoint yet: starts from step 0"});
  check_same_run(fixture, "whole", "run");
  fs::create_directory(fixture.folder.path("empty"));
  fixture.folder.write("empty/config.toml.tmp", config.substr(0, 4));
  fixture.must_train("toy", "empty", {"--resume"});
  check_same_run(fixture, "whole", "empty");
}

TEST_SUITE_END();

}  // namespace
}  // namespace tapestry
