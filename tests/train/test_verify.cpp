#include <doctest/doctest.h>
#include <fmt/ranges.h>
#include <sys/stat.h>

#include <cmath>
#include <filesystem>

#include "autograd/checksum.hpp"
#include "tests/support/tensor_files.hpp"
#include "tests/support/verified.hpp"
#include "train/run/checkpoint.hpp"
#include "train/run/run_lock.hpp"

// That a run is what its config says: checksums of what was evaluated, and the same steps again.
namespace tapestry {
namespace {
namespace fs = std::filesystem;

// Turns the lowest bit of a tensor's first number, and gives it the checksum that it then has.
void forge(const std::string& path, const std::string& tensor) {
  Safetensors file = read_safetensors(path);
  for (auto& [name, array] : file.tensors)
    if (name == tensor) {
      array.mutable_raw()[0] ^= std::byte{1};
      file.metadata.at("xxh3." + name) = checksum(array);
    }
  file.metadata["xxh3"] = metadata_checksum(file.metadata);
  write_safetensors(path, file);
}

std::map<std::string, std::string> files_of(const std::string& folder) {
  std::map<std::string, std::string> files;
  for (const auto& entry : fs::directory_iterator(folder))
    files[entry.path().filename().string()] = read_bytes(entry.path().string());
  return files;
}

TEST_SUITE_BEGIN("proof");

TEST_CASE("proof: an evaluation has the checksum of what was evaluated, and of what is trained") {
  const RunFixture fixture;
  for (const bool averages : {false, true}) {
    CAPTURE(averages);
    const std::string run = averages ? "averaged" : "run";
    fixture.must_train("toy", run,
                       {averages ? "train.average_decay=0.9" : "train.average_decay=0"});
    // What is known of the checkpoint: "xxh3.<tensor>" of each, in the order of their names.
    const std::string path = fixture.checkpoint(run);
    Checksum parameters, weights;
    for (const auto& [name, sum] : load_checkpoint(path).file.metadata) {
      if (!name.starts_with("xxh3.")) continue;
      const bool is_weight = name.starts_with("xxh3.optimizer.weights.");
      if (!is_weight && name.starts_with("xxh3.optimizer.")) continue;
      const std::string line = name.substr(is_weight ? 15 : 5) + " " + sum + "\n";
      (is_weight ? weights : parameters).add(std::vector<char>(line.begin(), line.end()));
    }
    const Json last = fixture.last_validation(run);
    CHECK(last["step"] == 40);
    CHECK(last["parameters_xxh3"] == parameters.hex());
    CHECK(last.contains("weights_xxh3") == averages);
    if (averages) CHECK(last["weights_xxh3"] == weights.hex());
    for (const Json& line : fixture.metrics(run))
      CHECK(line.contains("parameters_xxh3") == (line["split"] == "val"));
    fs::remove(fixture.best(run));
    CHECK(fixture.eval(run)["parameters_xxh3"] == last["parameters_xxh3"]);
    CHECK(tapestry_run({"compare", fixture.folder.path(run)}).out.find("xxh3") ==
          std::string::npos);
  }
}

TEST_CASE("proof: tensors differ that have other bits, or that one of two models lacks") {
  const Checksums one = {{"a", "1"}, {"b", "2"}, {"c", "3"}};
  CHECK(differing_tensors(one, one).empty());
  CHECK(differing_tensors(one, {{"a", "1"}, {"b", "0"}, {"d", "3"}}) ==
        std::vector<std::string>{"b", "c", "d"});
}

TEST_CASE("proof: checksums of several tensors are those of each, by name") {
  const OptimizerState tensors = {{"b", Array::of<float>({1, 2}, {2})},
                                  {"a", Array::of<float>({3}, {1})}};
  const Checksums sums = checksums_of(tensors);
  CHECK(sums == Checksums{{"a", checksum(tensors[1].second)}, {"b", checksum(tensors[0].second)}});
  Checksum lines;
  const std::string text = "a " + sums.at("a") + "\nb " + sums.at("b") + "\n";
  lines.add(std::vector<char>(text.begin(), text.end()));
  CHECK(combined(sums) == lines.hex());
}

TEST_CASE("verify: whole trainings of each task have the same bits again, and nothing is written") {
  const RunFixture fixture;
  for (const std::string config : {"toy", "text", "vae"}) {
    CAPTURE(config);
    fixture.must_train(config, config);
    const auto before = files_of(fixture.folder.path(config));
    const RunLock trains(Run(fixture.folder.path(config)), RunLock::Folder::find);
    const Json result = must_verify(fixture, config, {"--all", "--threads", "1"});
    CHECK(result["last_step"] == 40);
    CHECK(result["training_lines"] == 13);
    CHECK(result["evaluations"] == 4);
    CHECK(result["checksums"] == 4);
    CHECK(result["tensors"].get<int>() > 20);
    CHECK(result["recorded_by"].size() == 1);
    CHECK(result["computed_by"]["threads"] == 1);
    CHECK(files_of(fixture.folder.path(config)) == before);
  }
  const Finished said = tapestry_run({"verify", fixture.folder.path("toy")});
  CHECK(said.status == 0);
  check_says(said.out,
             {"bitwise identical: steps 1 to 10 of 40, trained again from the start (4 recorded)",
              "3 training lines", "1 evaluation with the checksum", "recorded by:  tapestry ",
              "computed by:  tapestry "});
}

TEST_CASE("verify: from the best and the last checkpoint, for so many steps or none") {
  const RunFixture fixture;
  fixture.must_train("toy", "run", {"train.steps=23", "train.eval_every=10"});
  fs::copy(fixture.checkpoint("run"), fixture.folder.path("earlier"));
  fixture.must_train("toy", "run",
                     {"--resume", "train.steps=40", "optim.decay_steps=23", "train.eval_every=10"});
  fs::remove(fixture.checkpoint("run"));
  fs::rename(fixture.folder.path("earlier"), fixture.checkpoint("run"));
  const Json result = must_verify(fixture, "run", {"--from", "checkpoint", "optim.decay_steps=23"});
  CHECK(result["first_step"] == 24);
  CHECK(result["last_step"] == 30);
  CHECK(result["evaluations"] == 2);  // that of its own step, too
  CHECK(must_verify(fixture, "run", {"--from", "checkpoint", "--steps", "4"})["last_step"] == 27);
  const Json own = must_verify(fixture, "run", {"--from", "checkpoint", "--steps", "0"});
  CHECK(own["last_step"] == 23);
  CHECK(own["evaluations"] == 1);
  CHECK(own["training_lines"] == 0);
  CHECK(must_verify(fixture, "run", {"--from", "best", "--all"})["last_step"] == 40);
  fs::rename(fixture.checkpoint("run"), fixture.folder.path("kept"));
  const std::string kept = fixture.folder.path("kept");
  const Json of_copy = must_verify(fixture, "run", {"--from", kept, "optim.decay_steps=23"});
  CHECK(of_copy["first_step"] == 24);
  CHECK(of_copy["from"] == kept);
  fixture.must_train("toy", "other", {"optim.learning_rate=0.01"});
  check_says(refused_verify(fixture, "run", {"--from", fixture.checkpoint("other")}),
             {"other/checkpoint.safetensors was trained with a different config: ",
              "optim.learning_rate"});
  CHECK(must_verify(fixture, "run", {"--all"})["recorded_by"].size() == 2);
}

TEST_CASE("verify: in parts, with averages, with early stopping, and beginning with a run") {
  const RunFixture fixture;
  fixture.must_train("text", "base");
  const std::string base = fixture.folder.path("base");
  const std::vector<std::vector<std::string>> variants = {
      {"train.micro_batches=2"},
      {"train.average_decay=0.9", "train.micro_batches=4"},
      {"train.early_stopping=1", "optim.learning_rate=0"},
      {"train.max_bad_steps=40", "train.bad_step_factor=1.1", "train.steps=80"},
      {"train.precision=bf16"},
      {"--from", base},
      {"--from", base, "model.lora.rank=2", "model.lora.dropout=0.1"},
      {"--from", base, "train.trainable=[\"blocks.0.*\"]"}};
  for (std::size_t i = 0; i < variants.size(); ++i) {
    CAPTURE(variants[i].back());
    const std::string run = fmt::format("run-{}", i);
    fixture.must_train("text", run, variants[i]);
    const Json result = must_verify(fixture, run, {"--all"});
    CHECK(result["checksums"].get<int>() > 0);
    CHECK(result["tensors"].get<int>() > 0);
  }
  fs::rename(base, fixture.folder.path("moved"));
  check_says(refused_verify(fixture, "run-6"),
             {"started from the weights of ", "--set train.from="});
  must_verify(fixture, "run-6", {"train.from=" + fixture.folder.path("moved")});
}

TEST_CASE("verify: a run that was killed and went on") {
  const RunFixture fixture;
  const std::string metrics = fixture.folder.path("run/metrics.jsonl");
  const Finished killed =
      fixture.train("toy", "run", {"train.steps=200"}, {.when = when_holds(metrics, 3000)});
  REQUIRE(killed.status == 128 + SIGKILL);
  must_verify(fixture, "run", {"--all"});  // of what there is
  fixture.must_train("toy", "run", {"train.steps=200", "--resume"});
  const Json result = must_verify(fixture, "run", {"--all"});
  CHECK(result["last_step"] == 200);
  CHECK(result["recorded_by"].size() == 2);
  fixture.must_train("toy", "whole", {"train.steps=200"});
  CHECK(read_bytes(fixture.folder.path("run/checksums.jsonl")) ==
        read_bytes(fixture.folder.path("whole/checksums.jsonl")));
}

TEST_CASE("verify: a figure or a checksum that was changed is named with its step") {
  const RunFixture fixture;
  fixture.must_train("toy", "run");
  const std::string good = read_bytes(fixture.folder.path("run/metrics.jsonl"));
  change_metrics(fixture, "run", [](Json& line) {
    if (line["step"] == 6) line["loss"] = std::nextafter(line["loss"].get<double>(), 9.0);
  });
  auto [result, status] = verified(fixture, "run", {"--all"});
  CHECK(status == 1);
  CHECK(result["differs_at"] == 6);
  check_says(result["differences"].dump(), {"loss: recorded ", ", computed "});
  CHECK(result["last_same"] == 3);
  check_says(result["not_compared"].dump(), {"after step 6, which differs: 15"});
  CHECK(result["tensors_that_differ"].empty());

  fixture.folder.write("run/metrics.jsonl", good);
  change_metrics(fixture, "run", [](Json& line) {
    if (line["step"] == 20 && line["split"] == "val") line["parameters_xxh3"] = "0123456789abcdef";
  });
  std::tie(result, status) = verified(fixture, "run", {"--all"});
  CHECK(status == 1);
  CHECK(result["differs_at"] == 20);
  check_says(result["differences"].dump(), {"parameters_xxh3: recorded 0123456789abcdef"});
  const Finished said = tapestry_run({"verify", fixture.folder.path("run"), "--steps", "20"});
  CHECK(said.status == 1);
  check_says(said.out, {"step 20 differs, trained again from the start; the recorded step 18 is "
                        "identical: parameters_xxh3: "});
  must_verify(fixture, "run", {"--steps", "19"});
}

TEST_CASE("verify: a bit of a tensor that was changed is named, with its checksum made anew") {
  const RunFixture fixture;
  for (const std::string tensor :
       {"blocks.0.attention.output.weight", "optimizer.second_moment.final_norm.weight"}) {
    CAPTURE(tensor);
    const std::string run = "of-" + tensor;
    fixture.must_train("toy", run);
    forge(fixture.checkpoint(run), tensor);
    const auto [result, status] = verified(fixture, run, {"--all"});
    CHECK(status == 1);
    CHECK(result["differs_at"] == 40);
    REQUIRE(result["tensors_that_differ"].size() == 1);
    const Json& differing = result["tensors_that_differ"][0];
    CHECK(differing["step"] == 40);
    CHECK(differing["tensors"] == Json::array({tensor}));
    check_says(differing["file"], {"checkpoint.safetensors"});
  }
}

TEST_CASE("verify: after a difference it goes on to a checkpoint that names the parameters") {
  const RunFixture fixture;
  fixture.must_train("toy", "run", {"train.steps=10"});
  const auto reseed = [](std::string& config) {
    const std::string seed = "seed = 1";
    REQUIRE(config.find(seed) != std::string::npos);
    config.replace(config.find(seed), seed.size(), "seed = 2");
  };
  std::string config = read_bytes(fixture.folder.path("run/config.toml"));
  reseed(config);
  fixture.folder.write("run/config.toml", config);
  for (const std::string& path : {fixture.checkpoint("run"), fixture.best("run")}) {
    Safetensors file = read_safetensors(path);
    reseed(file.metadata.at("config"));
    file.metadata["xxh3"] = metadata_checksum(file.metadata);
    write_safetensors(path, file);
  }
  fs::remove(fixture.folder.path("run/checksums.jsonl"));
  const auto [result, status] = verified(fixture, "run");
  CHECK(status == 1);
  CHECK(result["differs_at"] == 3);
  CHECK(result["last_step"] == 10);
  CHECK(result["tensors_that_differ"][0]["tensors"].size() > 10);
}

TEST_CASE("verify: an evaluation names the parameters that differ, where no checkpoint does") {
  const RunFixture fixture;
  for (const bool averages : {false, true}) {
    CAPTURE(averages);
    const std::string run = averages ? "averaged" : "run",
                      kind = averages ? "weights" : "parameters";
    const std::string tensor = averages ? "weights.final_norm.weight" : "final_norm.weight";
    fixture.must_train("toy", run,
                       {averages ? "train.average_decay=0.9" : "train.average_decay=0"});
    // As if one bit of the tensor had been another one at step 20, and a loss two steps before.
    std::string lines;
    for (const std::string& line :
         lines_of(read_bytes(fixture.folder.path(run + "/checksums.jsonl"))))
      if (Json entry = Json::parse(line); entry["step"] == 20 && entry["tensor"] == tensor) {
        entry["xxh3"] = "0123456789abcdef";
        lines += entry.dump() + "\n";
      } else {
        lines += line + "\n";
      }
    fixture.folder.write(run + "/checksums.jsonl", lines);
    change_metrics(fixture, run, [&](Json& line) {
      if (line["step"] == 18) line["loss"] = 1.5;
      if (line["step"] == 20 && line["split"] == "val") line[kind + "_xxh3"] = "fedcba9876543210";
    });
    const auto [result, status] = verified(fixture, run, {"--all"});
    CHECK(status == 1);
    CHECK(result["differs_at"] == 18);
    CHECK(result["last_step"] == 20);
    REQUIRE(result["tensors_that_differ"].size() == 1);
    CHECK(result["tensors_that_differ"][0]["tensors"] == Json::array({tensor}));
    CHECK(result["tensors_that_differ"][0]["step"] == 20);
    must_verify(fixture, run, {"--steps", "17"});
  }
}

TEST_CASE("verify: data that were changed are refused, where no checkpoint knows them") {
  const RunFixture fixture;
  fixture.must_train("text", "run");
  fs::remove(fixture.best("run"));
  fs::remove(fixture.checkpoint("run"));
  must_verify(fixture, "run");
  std::string config = read_bytes(fixture.folder.path("run/config.toml"));
  const std::size_t at = config.find("path = \"");
  REQUIRE(at != std::string::npos);
  const std::string path = config.substr(at + 8, config.find('"', at + 8) - at - 8);
  std::string text = read_bytes(path);
  text[text.size() / 3] ^= 1;
  std::ofstream(fixture.folder.path("changed.txt")) << text;
  check_says(refused_verify(fixture, "run", {"data.path=" + fixture.folder.path("changed.txt")}),
             {"has the same number of examples but different contents"});
}

TEST_CASE("verify: what lets other bits be expected is said of a run that has them") {
  const RunFixture fixture;
  fixture.must_train("toy", "run");
  const std::string sessions = fixture.folder.path("run/sessions.jsonl");
  std::string lines = read_bytes(sessions);
  const std::size_t at = lines.find("\"engines\":\"");
  REQUIRE(at != std::string::npos);
  lines.insert(at + 11, "an abacus, ");
  fixture.folder.write("run/sessions.jsonl", lines);
  const auto says = [&] { return tapestry_run({"verify", fixture.folder.path("run")}); };
  const Finished same = says();
  CHECK(same.status == 0);
  check_says(same.out, {"recorded by:  tapestry ", ", an abacus, "});
  CHECK(same.out.find("likely cause") == std::string::npos);
  change_metrics(fixture, "run", [](Json& line) { line["loss"] = 1.5; });
  const Finished other = says();
  CHECK(other.status == 1);
  check_says(other.out, {"step 3 differs", "loss: recorded 1.5, ",
                         "likely cause: the run was computed by an abacus, "});
}

TEST_CASE("verify: an evaluation without a checksum is damaged; sessions may be missing") {
  const RunFixture fixture;
  fixture.must_train("toy", "run");
  fs::remove(fixture.folder.path("run/sessions.jsonl"));
  fs::remove(fixture.best("run"));
  CHECK(must_verify(fixture, "run")["recorded_by"].empty());
  change_metrics(fixture, "run", [](Json& line) { line.erase("parameters_xxh3"); });
  check_says(refused_verify(fixture, "run"),
             {"metrics.jsonl:4: the evaluation has no parameters_xxh3: the record is damaged"});
}

TEST_CASE("bug: verify: lines that are damaged or out of order end the comparison") {
  const RunFixture fixture;
  fixture.must_train("toy", "run");
  const std::string path = fixture.folder.path("run/metrics.jsonl"), good = read_bytes(path);
  const auto refused_with = [&](std::size_t at, const std::string& line, const std::string& what) {
    std::vector<std::string> lines = lines_of(good);
    lines.insert(lines.begin() + static_cast<std::ptrdiff_t>(at), line);
    fixture.folder.write("run/metrics.jsonl", fmt::format("{}\n", fmt::join(lines, "\n")));
    check_says(refused_verify(fixture, "run"),
               {fmt::format("metrics.jsonl:{}: {}: the record is damaged", at + 1, what)});
  };
  const auto line = [](const std::string& step, const std::string& split) {
    return fmt::format(R"({{"step":{},"split":"{}","elapsed_s":1}})", step, split);
  };
  refused_with(0, line("999", "train"), "step 999; expected 1 to 40");
  refused_with(2, line("3", "train"), "step 3; expected 6 to 40");
  refused_with(1, line("0", "val"), "step 0; expected 3 to 40");
  refused_with(0, line("18446744073709551615", "val"), "step -1; expected 0 to 40");
  refused_with(
      17, "damaged",
      "not a line of metrics: expected an object of at most 16384 bytes with step, split and "
      "elapsed_s");
  refused_with(1, line("4", R"(tr\nforged: the same bits)"),
               R"(split "tr\x0aforged: the same bits"; expected train, val or test)");
}

TEST_CASE("bug: verify: a figure that a line lacks differs, one that it has alone is named") {
  const RunFixture fixture;
  fixture.must_train("toy", "run");
  const std::string good = read_bytes(fixture.folder.path("run/metrics.jsonl"));
  change_metrics(fixture, "run", [](Json& line) { line["other\nfigure"] = 1; });
  check_says(must_verify(fixture, "run")["not_compared"].dump(),
             {R"(metrics that are not computed: other\\x0afigure)"});
  for (const std::string figure : {"loss", "grad_norm"}) {
    fixture.folder.write("run/metrics.jsonl", good);
    change_metrics(fixture, "run", [&](Json& line) { line.erase(figure); });
    const auto [result, status] = verified(fixture, "run");
    CHECK(status == 1);
    CHECK(result["differs_at"] == 3);
    CHECK(result["last_same"].is_null());
    check_says(result["differences"].dump(), {figure + ": recorded nothing, "});
  }
}

TEST_CASE("bug: verify: texts of a run's files stay on their line, and are not shown for long") {
  const RunFixture fixture;
  fixture.must_train("toy", "run");
  std::string lines = read_bytes(fixture.folder.path("run/sessions.jsonl"));
  const std::size_t at = lines.find("\"engines\":\"");
  REQUIRE(at != std::string::npos);
  lines.insert(at + 11, R"(an abacus\nforged: the same bits\u001b[2J)" + std::string(5000, 'x'));
  fixture.folder.write("run/sessions.jsonl", lines);
  change_metrics(fixture, "run", [](Json& line) { line["loss"] = "1\nforged: the same bits"; });
  const Finished said = tapestry_run({"verify", fixture.folder.path("run")});
  CHECK(said.status == 1);
  check_says(said.out,
             {R"(loss: recorded 1\x0aforged)", R"(an abacus\x0aforged: the same bits\x1b[2Jxx)"});
  for (const std::string& line : lines_of(said.out)) {
    CHECK_FALSE(line.starts_with("forged"));
    CHECK(line.size() < 1000);
  }
}

TEST_CASE("bug: verify: pipes and folders in a run's place are refused") {
  const RunFixture fixture;
  fixture.must_train("toy", "run");
  for (const std::string name : {"metrics.jsonl", "sessions.jsonl", "config.toml"}) {
    CAPTURE(name);
    const std::string path = fixture.folder.path("run/" + name), kept = read_bytes(path);
    fs::remove(path);
    REQUIRE(mkfifo(path.c_str(), 0600) == 0);
    check_says(refused_verify(fixture, "run"), {name + ": is a pipe or a device"});
    fs::remove(path);
    fs::create_directory(path);
    check_says(refused_verify(fixture, "run"), {name + ": is a folder"});
    fs::remove(path);
    fixture.folder.write("run/" + name, kept);
  }
  fixture.folder.write("run/config.toml", std::string((1 << 20) + 1, '#'));
  CHECK(refused_verify(fixture, "run").find("config.toml") != std::string::npos);
}

TEST_CASE("bug: verify: what a checkpoint has beside the training's tensors is compared") {
  const RunFixture fixture;
  fixture.must_train("toy", "run");
  const std::string path = fixture.checkpoint("run");
  const Safetensors good = read_safetensors(path);
  const auto verified_with = [&](const std::function<void(Safetensors&)>& change) {
    Safetensors file = good;
    change(file);
    file.metadata["xxh3"] = metadata_checksum(file.metadata);
    write_safetensors(path, file);
    const auto [result, status] = verified(fixture, "run", {"--all"});
    CHECK(status == 1);
    CHECK(result["differs_at"] == 40);
    return result;
  };
  const Json more = verified_with([](Safetensors& file) {
    const Array array = Array::of<float>({1}, {1});
    file.tensors.emplace_back("more\nof it", array);
    file.metadata["xxh3.more\nof it"] = checksum(array);
  });
  CHECK(more["tensors_that_differ"][0]["tensors"] == Json::array({"more\nof it"}));
  const std::vector<std::pair<std::string, std::string>> states = {
      {"position", "7"}, {"best_loss", "0.25"}, {"bad_steps", "3"}, {"gradient_norms", "1 2"}};
  for (const auto& [name, value] : states)
    check_says(verified_with([&](Safetensors& file) { file.metadata[name] = value; })["differences"]
                   .dump(),
               {name + " of ", ": recorded "});
  write_safetensors(path, good);
  must_verify(fixture, "run", {"--all"});
}

TEST_CASE("bug: verify: a checkpoint without a line of metrics is compared") {
  const RunFixture fixture;
  fixture.must_train("toy", "run", {"train.steps=7", "train.log_every=100"});
  fixture.folder.write("run/metrics.jsonl", "");
  for (const std::vector<std::string>& words :
       {std::vector<std::string>{}, std::vector<std::string>{"--all"}}) {
    const Json result = must_verify(fixture, "run", words);
    CHECK(result["last_step"] == 7);
    CHECK(result["recorded_steps"] == 1);
    CHECK(result["tensors"].get<int>() > 20);
  }
}

TEST_CASE("bug: verify: bad steps that a later session would not allow are left out again") {
  const RunFixture fixture;
  const std::vector<std::string> bad = {"train.max_bad_steps=60", "train.bad_step_factor=1.05"};
  fixture.must_train("text", "run", {bad[0], bad[1], "train.steps=80"});
  const std::int64_t count = load_checkpoint(fixture.checkpoint("run")).state.skipped.count;
  REQUIRE(count > 1);
  std::string config = read_bytes(fixture.folder.path("run/config.toml"));
  const std::string most = "max_bad_steps = 60";
  REQUIRE(config.find(most) != std::string::npos);
  config.replace(config.find(most), most.size(), "max_bad_steps = 1");
  fixture.folder.write("run/config.toml", config);
  must_verify(fixture, "run", {"--all"});
  const Finished replayed = tapestry_run({"replay", fixture.folder.path("run"), "--step", "80"});
  CHECK(replayed.status == 0);

  fixture.must_train("text", "plain");
  const Finished added =
      fixture.train("text", "plain", {"--resume", "train.steps=60", bad[0], bad[1]});
  CHECK(added.status == 2);
  check_says(added.err,
             {"cannot resume with a different config: train.bad_step_factor (0.0, now 1.05)"});
}

TEST_CASE("verify: what cannot be compared is refused in one line") {
  const RunFixture fixture;
  fixture.must_train("text", "run", {"train.steps=10"});
  check_says(refused_verify(fixture, "none"), {"none: no such run"});
  check_says(refused_verify(fixture, "run", {"--from", "middle"}),
             {"--from middle: does not exist; expected start, best, checkpoint, or "});
  check_says(refused_verify(fixture, "run", {"--all", "--steps", "3"}), {"--all, --steps"});
  check_says(refused_verify(fixture, "run", {"optim.learning_rate=0.5"}),
             {"different settings: optim.learning_rate (0.001, now 0.5)"});
  check_says(refused_verify(fixture, "run", {"--steps", "2"}),
             {"nothing was recorded of the 2 steps after step 0", "give more --steps"});
  std::string other = story(20);
  std::swap(other[3], other[4]);
  const std::string path = fixture.folder.write("other.txt", other);
  check_says(refused_verify(fixture, "run", {"data.path=" + path}), {"give the original data"});
  const std::string same = fixture.folder.write("same.txt", story(20));
  must_verify(fixture, "run", {"data.path=" + same});
  change_metrics(fixture, "run", [](Json& line) { line["split"] = "test"; });
  fs::remove(fixture.best("run"));
  fs::remove(fixture.checkpoint("run"));
  check_says(refused_verify(fixture, "run"), {"nothing was recorded after step 0"});
  check_says(refused_verify(fixture, "run", {"--from", "best"}),
             {"best.safetensors: does not exist"});
  fs::create_directory(fixture.folder.path("empty"));
  check_says(refused_verify(fixture, "empty"), {"empty: not a run, because it has no config.toml"});
}

TEST_SUITE_END();

}  // namespace
}  // namespace tapestry
