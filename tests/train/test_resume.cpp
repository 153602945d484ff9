#include <doctest/doctest.h>
#include <sys/stat.h>

#include "autograd/buffer_pool.hpp"
#include "autograd/engine.hpp"
#include "tests/support/run_fixture.hpp"
#include "train/run/run_lock.hpp"

// Tests what --resume resumes and refuses, and that a refusal changes nothing.
namespace tapestry {
namespace {

// Checks that --resume is refused in one line, and leaves the run unchanged.
std::string refusal(const RunFixture& fixture, const std::string& config, const std::string& run,
                    const Words& more = {}) {
  const auto before = files_of(fixture.path(run));
  const std::string message = refused(fixture.train_here(config, run, more + "--resume"));
  CHECK(files_of(fixture.path(run)) == before);
  return message;
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

const Words steady = "optim.schedule=constant";

TEST_SUITE_BEGIN("training");

TEST_CASE_FIXTURE(RunFixture, "bug: --resume deleted the best model if there was no checkpoint") {
  must_train("toy", "whole");
  must_train("toy", "run");
  const std::int64_t best_step = load_checkpoint(best("run")).state.step;
  fs::remove(checkpoint("run"));
  check_says(refusal(*this, "toy", "run", "model.width=8"), {"model.width (16, now 8)"});
  check_fails(train_here("toy", "run"), {"already holds a run; give another --out", "--resume"});
  check_prints(tapestry_run("train {} --resume --out {}", path("toy.toml"), path("run")),
               {fmt::format("from step {}", best_step)});
  check_same_run(*this, "whole", "run");
}

TEST_CASE_FIXTURE(RunFixture, "bug: --resume took an older checkpoint than the best model") {
  const auto to = [](const std::string& steps) {
    return Words("optim.schedule=constant train.steps=" + steps);
  };
  must_train("toy", "run", to("5"));
  const std::string older = read_bytes(checkpoint("run"));
  Words rest = to("40") + "--resume";
  must_train("toy", "run", rest);
  const std::int64_t best_step = load_checkpoint(best("run")).state.step;
  REQUIRE(best_step > 5);
  const std::string newest = read_bytes(checkpoint("run"));
  write("run/checkpoint.safetensors", older);
  check_says(tapestry_run(Words("train {} --out {}", path("toy.toml"), path("run")) + rest).out,
             {fmt::format("from step {}", best_step)});
  write("newest", newest);
  check_same_checkpoint(checkpoint("run"), path("newest"));
}

TEST_CASE_FIXTURE(RunFixture, "bug: a run's folder was read before it was locked") {
  must_train("toy", "run", "train.steps=2");
  const std::string run = path("run");
  const auto train = [&](const Words& more) {
    return refused(run_here(Words("train {} --out {}", path("toy.toml"), run) + more));
  };
  {
    const RunLock other(Run(run), RunLock::Folder::find);
    for (const auto& more :
         std::vector<Words>{{}, {"--resume"}, {"--seeds", "2"}, {"--seeds", "2", "--resume"}})
      check_says(train(more), {"run: another process is training into this folder"});
  }
  check_says(train({}), {"holds a run"});
}

TEST_CASE_FIXTURE(TemporaryFolder, "bug: the lock of a removed folder was accepted") {
  const Run run(path("outer/run"));
  {
    const RunLock lock(run, RunLock::Folder::make);
    CHECK(!message_of([&] { RunLock(run, RunLock::Folder::make); }).empty());
    CHECK(fs::exists(run.folder()));  // which the refused training did not make
  }
  CHECK(!has("outer"));
  CHECK(!message_of([&] { RunLock(run, RunLock::Folder::find); }).empty());
  {
    const RunLock lock(run, RunLock::Folder::make);
    write("outer/run/config.toml", "");
  }
  CHECK(fs::exists(run.config()));
}

TEST_CASE_FIXTURE(RunFixture, "bug: a training that was refused left its folders behind") {
  fs::create_directory(path("mine"));
  for (const std::string out : {"new", "mine", "mine/a/b"}) {
    check_fails(train_here("text", out, "data.path=" + path("none.txt")), {"no such file"});
  }
  CHECK(!has("new"));
  CHECK(fs::is_empty(path("mine")));
}

TEST_CASE_FIXTURE(RunFixture, "bug: a refused resumption rewrote the config and cut the metrics") {
  must_train("text", "run", steady);
  const auto with = [&](const Words& more) { return refusal(*this, "text", "run", more + steady); };
  std::ofstream(this->path("run/metrics.jsonl"), std::ios::app) << R"({"step":90,"split)";
  const std::string longer = write("longer.txt", story(20) + story(20));
  check_says(with({"train.steps=50", "data.path=" + longer}),
             {"examples", "give the original data"});
  std::string other = story(20);
  std::swap(other[3], other[4]);
  const std::string path = write("other.txt", other);
  check_says(with({"train.steps=50", "data.path=" + path}),
             {"other.txt", "same number of examples", "give the original data"});
  const std::string tensor = "blocks.0.feed_forward.expand.weight";
  for (const std::string prefix : {"", "optimizer.second_moment."}) {
    const std::string good = read_bytes(checkpoint("run"));
    damage(checkpoint("run"), prefix + tensor);
    check_says(with("train.steps=50"),
               {"checkpoint.safetensors: tensor " + prefix + tensor + " is damaged"});
    write("run/checkpoint.safetensors", good);
  }
  // The same text at another path is the same data.
  const std::string same = write("same.txt", story(20));
  must_train("text", "run", Words("--resume train.steps=50 data.path={}", same) + steady);
}

TEST_CASE_FIXTURE(RunFixture, "bug: a checkpoint with a flipped bit was used") {
  must_train("toy", "run", "train.steps=10");
  damage(best("run"), "final_norm.weight");
  for (const std::string command : {"eval", "sample"}) {
    check_fails(run_here("{} {}", command, path("run")),
                {"best.safetensors: tensor final_norm.weight is damaged"});
  }
}

TEST_CASE_FIXTURE(RunFixture, "bug: a checkpoint with a changed step was resumed") {
  must_train("toy", "run", "train.steps=10");
  for (const std::string& path : {checkpoint("run"), best("run")}) {
    Safetensors file = read_safetensors(path);
    file.metadata.at("step") = "5";
    write_safetensors(path, file);
  }
  check_says(refusal(*this, "toy", "run"), {"best.safetensors: the metadata are damaged"});
}

TEST_CASE_FIXTURE(RunFixture, "bug: a model above 64 MiB did not match its checkpoint") {
  must_train("toy", "run",
             "train.steps=1 train.batch_size=1 data.held_back=1 model.width=1250 optim.name=sgd");
  CHECK(load_trained(path("run"), {}, false).state.step == 1);
}

TEST_CASE_FIXTURE(RunFixture, "bug: a run of synthetic data resumed with files") {
  must_train("vae", "run", "train.steps=2");
  check_says(refusal(*this, "vae", "run", "data.path=clothes"), {"cannot resume with other data"});
}

TEST_CASE_FIXTURE(RunFixture, "bug: weights that are not numbers were sampled with status 0") {
  must_train("toy", "run", "train.steps=10");
  Safetensors file = read_safetensors(best("run"));
  auto weight =
      std::ranges::find(file.tensors, "final_norm.weight", &std::pair<std::string, Array>::first);
  REQUIRE(weight != file.tensors.end());
  weight->second.mutable_values<float>()[3] = std::numeric_limits<float>::quiet_NaN();
  file.metadata.at("xxh3.final_norm.weight") = checksum(weight->second);
  file.metadata["xxh3"] = metadata_checksum(file.metadata);
  write_safetensors(best("run"), file);
  fs::remove(path("run/metrics.jsonl"));  // which says that the data differ
  for (const std::string command : {"eval", "sample", "attention"}) {
    check_refused(run_here("{} {}", command, path("run")),
                  {"best.safetensors: tensor final_norm.weight", "not finite"});
  }
}

TEST_CASE_FIXTURE(RunFixture,
                  "bug: --resume started a new training if there was nothing to resume") {
  check_fails(train_here("toy", "typo", "--resume"),
              {"typo: there is no run to resume; leave out --resume"});
  CHECK(!has("typo"));
  write("letters/one.txt", "dear");
  check_says(refusal(*this, "toy", "letters"), {"letters: is not a run", "config.toml"});
  check_says(refusal(*this, "toy", "letters", "--seeds 2"),
             {"letters: holds no run with a seed from 1 to 2; give the --out"});
}

TEST_CASE_FIXTURE(RunFixture, "bug: other train.steps on --resume let the learning rate jump") {
  must_train("toy", "run", "train.steps=20 optim.final_learning_rate=1e-5");
  const auto to_40 = [](const Words& more) {
    return more + "train.steps=40 optim.final_learning_rate=1e-5";
  };
  check_says(refusal(*this, "toy", "run", to_40({})),
             {"train.steps = 40", "ends at step 20", "changes from 1e-05 to 0.00164",
              "--set optim.decay_steps=20", "=40 to change its end"});
  must_train("toy", "run", to_40("--resume optim.decay_steps=20"));
  for (const Json& line : metrics("run"))
    if (line["split"] == "train" && line["step"] >= 20) CHECK(line["lr"] == 1e-5);
  must_train("toy", "run", to_40("--resume optim.decay_steps=20"));
  check_says(refusal(*this, "toy", "run", to_40({})), {"ends at step 20"});
}

TEST_CASE_FIXTURE(RunFixture, "bug: --resume in a warm-up was refused for an unchanged rate") {
  const Words warm = "optim.warmup_steps=15";
  const auto with = [&](const Words& more) { return more + warm; };
  must_train("toy", "whole", with("train.steps=40"));
  must_train("toy", "run", with("train.steps=10"));
  must_train("toy", "run", with("train.steps=40 --resume"));
  check_same_checkpoint(checkpoint("whole"), checkpoint("run"));

  // After it, different rates are shown with the digits that differ.
  const Words brief = "train.early_stopping=1 train.min_delta=1e9";
  must_train("toy", "near", {"train.steps=2000", brief[0], brief[1]});
  const std::string said = refusal(*this, "toy", "near", {"train.steps=2001", brief[0], brief[1]});
  const std::size_t begin = said.find("changes from ") + 13, middle = said.find(" to ", begin);
  const std::string before = said.substr(begin, middle - begin),
                    now = said.substr(middle + 4, said.find(';', middle) - middle - 4);
  CHECK(std::stod(now) != std::stod(before));
  CHECK(std::stod(now) == doctest::Approx(std::stod(before)).epsilon(1e-3));
}

std::map<std::int64_t, double> rates_of(const std::vector<Json>& lines) {
  std::map<std::int64_t, double> rates;
  for (const Json& line : lines)
    if (line["split"] == "train") rates[line["step"]] = line["lr"];
  return rates;
}

TEST_CASE_FIXTURE(RunFixture, "resume: a wsd schedule continues before its decay, without a jump") {
  const Words wsd =
      "optim.schedule=wsd optim.final_learning_rate=1e-5 train.log_every=1 train.eval_every=3";
  const Words brief = wsd + "train.steps=20 optim.cooldown_steps=8";
  const Words longer = wsd + "train.steps=40 optim.cooldown_steps=10";
  must_train("toy", "whole", longer);
  must_train("toy", "run", brief);
  CHECK(rates_of(metrics("run")).at(12) == 3e-3);
  CHECK(rates_of(metrics("run")).at(13) < 3e-3);
  CHECK(load_checkpoint(path("run/before_decay.safetensors")).state.step == 12);

  check_says(refusal(*this, "toy", "run", wsd + "train.steps=22 optim.cooldown_steps=12"),
             {"train.steps = 22", "is at step 20, and the learning rate decays from step 10 on",
              "raise train.steps"});
  Words rest = wsd + "train.steps=22 optim.cooldown_steps=10";  // the same step begins the decay
  must_train("toy", "run", rest + "--resume");
  CHECK(rates_of(metrics("run")).at(12) == 3e-3);
  CHECK(rates_of(metrics("run")).at(22) == doctest::Approx(1e-5));
  rest = longer;
  check_prints(
      tapestry_run(Words("train {} --resume --out {}", path("toy.toml"), path("run")) + rest),
      {"from step 12"});
  CHECK(rates_of(metrics("run")) == rates_of(metrics("whole")));
  CHECK(load_checkpoint(path("run/before_decay.safetensors")).state.step == 30);
  check_same_run(*this, "whole", "run");
  check_prints(tapestry_run("verify {}", path("run")), {"bitwise identical"});
}

TEST_CASE_FIXTURE(RunFixture, "bug: the best model before the decay of a wsd schedule was lost") {
  must_train("toy", "run",
             "optim.schedule=wsd optim.cooldown_steps=8 train.steps=20 train.eval_every=3");
  const std::string best = path("run/best.safetensors");
  REQUIRE(load_checkpoint(best).state.step > 12);
  {
    RunLock lock(Run(path("run")), RunLock::Folder::find);
    lock.restore_before_decay(true);
    CHECK(load_checkpoint(checkpoint("run")).state.step == 12);
    CHECK(load_checkpoint(best).state.step <= 12);
    CHECK(load_checkpoint(best).state.best_loss ==
          load_checkpoint(checkpoint("run")).state.best_loss);
    CHECK_THROWS_AS(lock.restore_before_decay(true), FileError);  // removes a best model at most
  }
}

TEST_CASE_FIXTURE(RunFixture,
                  "bug: the checkpoint before the decay of a wsd schedule was not resumed") {
  const Words settings = "optim.schedule=wsd optim.cooldown_steps=8 train.steps=20";
  must_train("toy", "run", settings);
  fs::remove(checkpoint("run"));
  fs::remove(path("run/best.safetensors"));
  check_prints(
      tapestry_run(Words("train {} --resume --out {}", path("toy.toml"), path("run")) + settings),
      {"from step 12"});
}

TEST_CASE_FIXTURE(RunFixture, "bug: the last step's learning rate was not the final one") {
  for (const std::string schedule : {"linear", "cosine"}) {
    must_train("toy", schedule,
               "train.steps=12 train.log_every=1 optim.final_learning_rate=1e-5 optim.schedule=" +
                   schedule);
    const std::vector<Json> lines = metrics(schedule);
    const auto last = std::ranges::find_if(
        lines, [](const Json& line) { return line["split"] == "train" && line["step"] == 12; });
    REQUIRE(last != lines.end());
    CHECK((*last)["lr"].get<double>() == doctest::Approx(1e-5).epsilon(1e-12));
  }
}

TEST_CASE_FIXTURE(RunFixture, "bug: a small checkpoint of a large config filled the memory") {
  must_train("toy", "run", "train.steps=2");
  Safetensors file = read_safetensors(best("run"));
  file.tensors.clear();
  std::string& config = file.metadata.at("config");
  for (const auto& [small, large] : std::map<std::string, std::string>{
           {"layers = 1\n", "layers = 1000\n"}, {"width = 16\n", "width = 4096\n"}})
    config = replaced(config, small, large);
  file.metadata["xxh3"] = metadata_checksum(file.metadata);
  const std::string path = this->path("bomb.safetensors");
  write_safetensors(path, file);
  reset_peak_memory();
  const std::int64_t before = memory_use().peak_bytes_in_use;
  CHECK_ERROR(load_trained(path, {}, false), "bomb.safetensors: contains 0 bytes of parameters",
              "the file belongs to another model");
  CHECK(memory_use().peak_bytes_in_use - before < 100 << 20);
  CHECK(tapestry_run("eval " + path).status == 2);
}

TEST_CASE_FIXTURE(RunFixture,
                  "training: without a checkpoint, --resume starts the same training again") {
  must_train("toy", "whole");
  must_train("toy", "run");
  const std::string config = read("run/config.toml");
  fs::remove(checkpoint("run"));
  fs::remove(best("run"));
  check_says(refusal(*this, "toy", "run", "model.width=8"), {"model.width (16, now 8)"});
  check_prints(train("toy", "run", "--resume"), {"run: has no checkpoint yet: starts from step 0"});
  check_same_run(*this, "whole", "run");
  write("empty/config.toml.tmp", config.substr(0, 4));
  must_train("toy", "empty", "--resume");
  check_same_run(*this, "whole", "empty");
}

TEST_CASE_FIXTURE(RunFixture,
                  "bug: a training killed while it wrote its config could not be started") {
  must_train("toy", "whole");
  write("killed/config.toml.tmp", read("whole/config.toml").substr(0, 40));
  must_train("toy", "killed");
  check_same_run(*this, "whole", "killed");
  write("other/config.toml.tmp", "notes");  // a user's file
  const Finished refused = train("toy", "other");
  check_fails(refused, {"other/config.toml.tmp: already exists"});
  CHECK(read("other/config.toml.tmp") == "notes");
  write("link/notes", "");
  fs::rename(path("link/notes"), path("notes"));
  fs::create_symlink("../notes", path("link/config.toml.tmp"));
  CHECK(train("toy", "link").status == 2);
  CHECK(fs::is_symlink(path("link/config.toml.tmp")));
}

TEST_CASE_FIXTURE(RunFixture,
                  "bug: a config that was not written completely required the same threads") {
  must_train("toy", "whole", "train.steps=2 --threads 1");
  const std::string config = read("whole/config.toml");
  const std::size_t threads = config.find("threads = 1"), steps = config.find("steps = 2");
  REQUIRE(threads != std::string::npos);
  // Cuts within and after settings that do not affect the result, or may change, and at the end.
  for (const std::size_t bytes : {threads, threads + 9, threads + 11, steps + 9, config.size()}) {
    CAPTURE(bytes);
    write("killed/config.toml.tmp", config.substr(0, bytes));
    must_train("toy", "killed", "train.steps=3 --threads 2 train.log_every=2 name=other");
    CHECK(read("killed/config.toml").find("threads = 2") != std::string::npos);
    fs::remove_all(path("killed"));
  }
  // A setting with effect and a user's text are kept.
  const std::size_t seed = config.find("seed = 1") + 9;
  for (const std::string& text : {config.substr(0, seed), config.substr(0, seed) + "notes",
                                  config.substr(0, seed) + "a = 1\n", std::string("[notes]\n")}) {
    CAPTURE(text);
    write("other/config.toml.tmp", text);
    check_fails(train_here("toy", "other", "train.steps=2 seed=2"),
                {"other/config.toml.tmp: already exists"});
    CHECK(read("other/config.toml.tmp") == text);
  }
}

TEST_SUITE_END();

// tests/golden/runs/ has checkpoints of small models that commit 1259dc1 trained for 6 steps. The
// table has the validation losses that this commit measured after 6 steps and, resumed, after 12.

TEST_SUITE_BEGIN("earlier versions");

struct EarlierRun {
  std::string name;  // of the shipped config of which it is a smaller version
  double loss_after_6, loss_after_12;
};

const EarlierRun runs[] = {{"sort", 2.3439221382141113, 2.328699827194214},
                           {"reverse-rfa", 2.382730007171631, 2.3783042430877686},
                           {"dates", 4.519089438698509, 4.436201268976385},
                           {"memory-multi-head", 2.8096256256103516, 2.8107199668884277},
                           {"waves", 1.123537331507141, 1.086796342701782},
                           {"clothes-vit", 2.440157890319824, 2.428241729736328},
                           {"clothes-vae", 565.30330286026, 563.7521966934204},
                           {"karate", 0.6610850095748901, 0.5976523160934448},
                           {"graphs", 2.5208277702331543, 2.324174404144287},
                           {"shakespeare-char", 3.1852922941509045, 3.173338772957785},
                           {"shakespeare-rnn", 3.2141215006510415, 3.2116265547902962}};

std::string bottles() {
  std::string text;
  for (int i = 0; i < 40; ++i)
    text += fmt::format("{} green bottles, and {} more\n", i, i * 7 % 13);
  return text;
}

TEST_CASE_FIXTURE(RunFixture, "earlier versions: their checkpoints load, and their runs resume") {
  write("bottles.txt", bottles());
  for (const auto& [name, loss_after_6, loss_after_12] : runs) {
    CAPTURE(name);
    const std::string run = path(name), checkpoint = run + "/checkpoint.safetensors";
    fs::create_directory(run);
    fs::copy(golden_path("runs/" + name + ".safetensors"), checkpoint);
    const std::string config = load_checkpoint(checkpoint).config;
    write(name + "/config.toml", config);
    Words data;
    if (name.starts_with("shakespeare")) data = {"data.path=" + path("bottles.txt")};

    CHECK(eval(name, data)["loss"].get<double>() == doctest::Approx(loss_after_6).epsilon(1e-5));

    Words more = "--resume train.steps=12";
    if (!contains(config, "schedule = \"constant\"")) more.push_back("optim.decay_steps=13");
    must_train(name + "/config", name, more + data);
    const Json last = last_validation(name);
    CHECK(last["step"] == 12);
    CHECK(last["loss"].get<double>() == doctest::Approx(loss_after_12).epsilon(1e-4));
  }
}

// tests/golden/rules1/ has data and checkpoints of commit 2860413, whose rules are data.rules = 1
// today. See make_rules1.py.
TEST_CASE_FIXTURE(RunFixture,
                  "earlier versions: runs without data.rules keep their data and bits") {
  const std::string golden = golden_path("rules1/");
  const Json expected = Json::parse(read_bytes(golden + "expected.json"));
  CHECK(expected.size() == 7);
  for (const auto& [name, measured] : expected.items()) {
    CAPTURE(name);
    const std::string run = path(name), checkpoint = run + "/checkpoint.safetensors";
    fs::create_directory(run);
    fs::copy(golden + name + ".safetensors", checkpoint);
    const std::string config = load_checkpoint(checkpoint).config;
    CHECK(!contains(config, "\nrules ="));
    write(name + "/config.toml", config);
    const Words data = {"data.path=" + golden + measured["data"].get<std::string>()};
    CHECK(eval(name, data)["loss"].get<double>() ==
          doctest::Approx(measured["loss"].get<double>()).epsilon(1e-5));

    // It resumes only if the checksum of the data equals that of the checkpoint.
    must_train(name + "/config", name, "--resume train.steps=12" + data);
    CHECK(contains(load_checkpoint(checkpoint).config, "rules = 1"));
    Json last;
    for (const Json& line : metrics(name)) last[line["split"].get<std::string>()] = line;
    for (const auto& [split, loss] : measured["resumed"].items()) {
      CHECK(last[split]["step"] == 12);
      CHECK(last[split]["loss"].get<double>() == doctest::Approx(loss.get<double>()).epsilon(1e-4));
    }
#if defined __OPTIMIZE__ && !defined __clang__  // other compilers and levels have other bits
    if (const auto bits = measured["bits"].find(instruction_level());
        bits != measured["bits"].end())
      CHECK(last["val"]["parameters_xxh3"] == *bits);
#endif
  }
}

TEST_CASE_FIXTURE(
    RunFixture,
    "earlier versions: a run without config.toml keeps its rules, and can be compared") {
  for (const std::string config : {"toy", "text"}) {
    must_train(config, config + "-1", "data.rules=1 train.steps=20");
    must_train(config, config + "-2", "train.steps=20");
    const Finished compared =
        tapestry_run("compare {} {}", path(config + "-1"), path(config + "-2"));
    check_prints(compared, {"data.rules", "loss"});
    CHECK(!contains(compared.out, "not comparable"));
    fs::remove(path(config + "-1/config.toml"));
    must_train(config, config + "-1", "--resume train.steps=20");
    CHECK(contains(load_checkpoint(checkpoint(config + "-1")).config, "rules = 1"));
  }
}

TEST_SUITE_END();

}  // namespace
}  // namespace tapestry
