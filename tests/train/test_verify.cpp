#include <doctest/doctest.h>
#include <fmt/ranges.h>
#include <sys/stat.h>

#include <cmath>

#include "autograd/checksum.hpp"
#include "tests/support/tensor_files.hpp"
#include "tests/support/verified.hpp"
#include "train/run/checkpoint.hpp"
#include "train/run/run_lock.hpp"

// Tests that verify repeats the steps of a run, and compares checksums of evaluations.
namespace tapestry {
namespace {

// Flips the lowest bit of a tensor's first number, and updates its checksum.
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

TEST_SUITE_BEGIN("proof");

TEST_CASE_FIXTURE(RunFixture, "verify: evaluations have checksums of both sets of weights") {
  for (const bool averages : {false, true}) {
    CAPTURE(averages);
    const std::string run = averages ? "averaged" : "run";
    must_train("toy", run, {averages ? "train.average_decay=0.9" : "train.average_decay=0"});
    // Returns the checksums of the checkpoint, "xxh3.<tensor>", in the order of their names.
    const std::string path = checkpoint(run);
    Checksum parameters, weights;
    for (const auto& [name, sum] : load_checkpoint(path).file.metadata) {
      if (!name.starts_with("xxh3.")) continue;
      const bool is_weight = name.starts_with("xxh3.optimizer.weights.");
      if (!is_weight && name.starts_with("xxh3.optimizer.")) continue;
      const std::string line = name.substr(is_weight ? 15 : 5) + " " + sum + "\n";
      (is_weight ? weights : parameters).add(std::vector<char>(line.begin(), line.end()));
    }
    const Json last = last_validation(run);
    CHECK(last["step"] == 40);
    CHECK(last["parameters_xxh3"] == parameters.hex());
    CHECK(last.contains("weights_xxh3") == averages);
    if (averages) CHECK(last["weights_xxh3"] == weights.hex());
    for (const Json& line : metrics(run))
      CHECK(line.contains("parameters_xxh3") == (line["split"] == "val"));
    fs::remove(best(run));
    CHECK(eval(run)["parameters_xxh3"] == last["parameters_xxh3"]);
    CHECK(tapestry_run("compare " + this->path(run)).out.find("xxh3") == std::string::npos);
  }
}

TEST_CASE("verify: tensors differ if bits differ, or if one model lacks them") {
  const Checksums one = {{"a", "1"}, {"b", "2"}, {"c", "3"}};
  CHECK(differing_tensors(one, one).empty());
  CHECK(differing_tensors(one, {{"a", "1"}, {"b", "0"}, {"d", "3"}}) == Strings{"b", "c", "d"});
}

TEST_CASE("verify: checksums of several tensors have their names") {
  const OptimizerState tensors = {{"b", Array::of<float>({1, 2}, {2})},
                                  {"a", Array::of<float>({3}, {1})}};
  const Checksums sums = checksums_of(tensors);
  CHECK(sums == Checksums{{"a", checksum(tensors[1].second)}, {"b", checksum(tensors[0].second)}});
  Checksum lines;
  const std::string text = "a " + sums.at("a") + "\nb " + sums.at("b") + "\n";
  lines.add(std::vector<char>(text.begin(), text.end()));
  CHECK(combined(sums) == lines.hex());
}

TEST_CASE_FIXTURE(RunFixture,
                  "verify: trainings of each task repeat their bits, and nothing is written") {
  for (const std::string config : {"toy", "text", "vae"}) {
    CAPTURE(config);
    must_train(config, config);
    const auto before = files_of(path(config));
    const RunLock trains(Run(path(config)), RunLock::Folder::find);
    const Json result = must_verify(*this, config, "--all --threads 1");
    CHECK(result["last_step"] == 40);
    CHECK(result["training_lines"] == 13);
    CHECK(result["evaluations"] == 4);
    CHECK(result["checksums"] == 4);
    CHECK(result["tensors"].get<int>() > 20);
    CHECK(result["recorded_by"].size() == 1);
    CHECK(result["computed_by"]["threads"] == 1);
    CHECK(files_of(path(config)) == before);
  }
  check_prints(tapestry_run("verify " + path("toy")),
               {"bitwise identical: steps 1 to 10 of 40, trained again from the start (4 recorded)",
                "3 training lines", "1 evaluation with the checksum", "recorded by:  tapestry ",
                "computed by:  tapestry "});
}

TEST_CASE_FIXTURE(RunFixture,
                  "verify: starts at the best or last checkpoint, for some steps or none") {
  must_train("toy", "run", "train.steps=23 train.eval_every=10");
  fs::copy(checkpoint("run"), path("earlier"));
  must_train("toy", "run", "--resume train.steps=40 optim.decay_steps=23 train.eval_every=10");
  fs::remove(checkpoint("run"));
  fs::rename(path("earlier"), checkpoint("run"));
  const Json result = must_verify(*this, "run", "--from checkpoint optim.decay_steps=23");
  CHECK(result["first_step"] == 24);
  CHECK(result["last_step"] == 30);
  CHECK(result["evaluations"] == 2);  // that of its own step, too
  CHECK(must_verify(*this, "run", "--from checkpoint --steps 4")["last_step"] == 27);
  const Json own = must_verify(*this, "run", "--from checkpoint --steps 0");
  CHECK(own["last_step"] == 23);
  CHECK(own["evaluations"] == 1);
  CHECK(own["training_lines"] == 0);
  CHECK(must_verify(*this, "run", "--from best --all")["last_step"] == 40);
  fs::rename(checkpoint("run"), path("kept"));
  const std::string kept = path("kept");
  const Json of_copy = must_verify(*this, "run", {"--from", kept, "optim.decay_steps=23"});
  CHECK(of_copy["first_step"] == 24);
  CHECK(of_copy["from"] == kept);
  must_train("toy", "other", "optim.learning_rate=0.01");
  check_says(refused_verify(*this, "run", {"--from", checkpoint("other")}),
             {"other/checkpoint.safetensors was trained with a different config: ",
              "optim.learning_rate"});
  CHECK(must_verify(*this, "run", "--all")["recorded_by"].size() == 2);
}

TEST_CASE_FIXTURE(RunFixture,
                  "verify: works with micro-batches, averages, early stopping and --from") {
  must_train("text", "base");
  const std::string base = path("base");
  const std::vector<Words> variants = {
      "train.micro_batches=2",
      "train.average_decay=0.9 train.micro_batches=4",
      "train.early_stopping=1 optim.learning_rate=0",
      "train.max_bad_steps=40 train.bad_step_factor=1.1 train.steps=80",
      "train.precision=bf16",
      {"--from", base},
      {"--from", base, "model.lora.rank=2", "model.lora.dropout=0.1"},
      {"--from", base, "train.trainable=[\"blocks.0.*\"]"}};
  for (std::size_t i = 0; i < variants.size(); ++i) {
    CAPTURE(variants[i].back());
    const std::string run = fmt::format("run-{}", i);
    must_train("text", run, variants[i]);
    const Json result = must_verify(*this, run, "--all");
    CHECK(result["checksums"].get<int>() > 0);
    CHECK(result["tensors"].get<int>() > 0);
  }
  fs::rename(base, path("moved"));
  check_says(refused_verify(*this, "run-6"),
             {"train.from = ", "no such file or folder", "--set train.from="});
  must_verify(*this, "run-6", {"train.from=" + path("moved")});
}

TEST_CASE_FIXTURE(RunFixture, "verify: a run that was killed and resumed is repeated") {
  const std::string metrics = path("run/metrics.jsonl");
  while (train("toy", "run", "train.steps=200", {.when = when_holds(metrics, 3000)}).status == 0)
    fs::remove_all(path("run"));       // it ended before this process looked
  must_verify(*this, "run", "--all");  // of existing ones
  must_train("toy", "run", "train.steps=200 --resume");
  const Json result = must_verify(*this, "run", "--all");
  CHECK(result["last_step"] == 200);
  CHECK(result["recorded_by"].size() == 2);
  must_train("toy", "whole", "train.steps=200");
  CHECK(read("run/checksums.jsonl") == read("whole/checksums.jsonl"));
}

TEST_CASE_FIXTURE(RunFixture, "verify: a changed metric or checksum is named with its step") {
  must_train("toy", "run");
  const std::string good = read("run/metrics.jsonl");
  change_metrics(*this, "run", [](Json& line) {
    if (line["step"] == 6) line["loss"] = std::nextafter(line["loss"].get<double>(), 9.0);
  });
  auto [result, status] = verified(*this, "run", "--all");
  CHECK(status == 1);
  CHECK(result["differs_at"] == 6);
  check_says(result["differences"].dump(), {"loss: recorded ", ", computed "});
  CHECK(result["last_same"] == 3);
  check_says(result["not_compared"].dump(), {"after step 6, which differs: 15"});
  CHECK(result["tensors_that_differ"].empty());

  write("run/metrics.jsonl", good);
  change_metrics(*this, "run", [](Json& line) {
    if (line["step"] == 20 && line["split"] == "val") line["parameters_xxh3"] = "0123456789abcdef";
  });
  std::tie(result, status) = verified(*this, "run", "--all");
  CHECK(status == 1);
  CHECK(result["differs_at"] == 20);
  check_says(result["differences"].dump(), {"parameters_xxh3: recorded 0123456789abcdef"});
  const Finished said = tapestry_run("verify {} --steps 20", path("run"));
  CHECK(said.status == 1);
  check_says(said.out, {"step 20 differs, trained again from the start; the recorded step 18 is "
                        "identical: parameters_xxh3: "});
  must_verify(*this, "run", "--steps 19");
}

TEST_CASE_FIXTURE(RunFixture, "verify: a changed bit with a new checksum is named") {
  for (const std::string tensor :
       {"blocks.0.attention.output.weight", "optimizer.second_moment.final_norm.weight"}) {
    CAPTURE(tensor);
    const std::string run = "of-" + tensor;
    must_train("toy", run);
    forge(checkpoint(run), tensor);
    const auto [result, status] = verified(*this, run, "--all");
    CHECK(status == 1);
    CHECK(result["differs_at"] == 40);
    REQUIRE(result["tensors_that_differ"].size() == 1);
    const Json& differing = result["tensors_that_differ"][0];
    CHECK(differing["step"] == 40);
    CHECK(differing["tensors"] == Json::array({tensor}));
    check_says(differing["file"], {"checkpoint.safetensors"});
  }
}

TEST_CASE_FIXTURE(RunFixture, "verify: after a difference, a checkpoint names the parameters") {
  must_train("toy", "run", "train.steps=10");
  replace_in(path("run/config.toml"), "seed = 1", "seed = 2");
  for (const std::string& path : {checkpoint("run"), best("run")}) {
    Safetensors file = read_safetensors(path);
    file.metadata["config"] = replaced(file.metadata.at("config"), "seed = 1", "seed = 2");
    file.metadata["xxh3"] = metadata_checksum(file.metadata);
    write_safetensors(path, file);
  }
  fs::remove(this->path("run/checksums.jsonl"));
  const auto [result, status] = verified(*this, "run");
  CHECK(status == 1);
  CHECK(result["differs_at"] == 3);
  CHECK(result["last_step"] == 10);
  CHECK(result["tensors_that_differ"][0]["tensors"].size() > 10);
}

TEST_CASE_FIXTURE(RunFixture, "verify: without a checkpoint, an evaluation names the parameters") {
  for (const bool averages : {false, true}) {
    CAPTURE(averages);
    const std::string run = averages ? "averaged" : "run",
                      kind = averages ? "weights" : "parameters";
    const std::string tensor = averages ? "weights.final_norm.weight" : "final_norm.weight";
    must_train("toy", run, {averages ? "train.average_decay=0.9" : "train.average_decay=0"});
    // As if one bit of the tensor had been another one at step 20, and a loss two steps before.
    std::string lines;
    for (const std::string& line : lines_of(read(run + "/checksums.jsonl")))
      if (Json entry = Json::parse(line); entry["step"] == 20 && entry["tensor"] == tensor) {
        entry["xxh3"] = "0123456789abcdef";
        lines += entry.dump() + "\n";
      } else {
        lines += line + "\n";
      }
    write(run + "/checksums.jsonl", lines);
    change_metrics(*this, run, [&](Json& line) {
      if (line["step"] == 18) line["loss"] = 1.5;
      if (line["step"] == 20 && line["split"] == "val") line[kind + "_xxh3"] = "fedcba9876543210";
    });
    const auto [result, status] = verified(*this, run, "--all");
    CHECK(status == 1);
    CHECK(result["differs_at"] == 18);
    CHECK(result["last_step"] == 20);
    REQUIRE(result["tensors_that_differ"].size() == 1);
    CHECK(result["tensors_that_differ"][0]["tensors"] == Json::array({tensor}));
    CHECK(result["tensors_that_differ"][0]["step"] == 20);
    must_verify(*this, run, "--steps 17");
  }
}

TEST_CASE_FIXTURE(RunFixture, "verify: changed data are refused without a checkpoint") {
  must_train("text", "run");
  fs::remove(best("run"));
  fs::remove(checkpoint("run"));
  must_verify(*this, "run");
  std::string config = read("run/config.toml");
  const std::size_t at = config.find("path = \"");
  REQUIRE(at != std::string::npos);
  const std::string path = config.substr(at + 8, config.find('"', at + 8) - at - 8);
  std::string text = read_bytes(path);
  text[text.size() / 3] ^= 1;
  std::ofstream(this->path("changed.txt")) << text;
  check_says(refused_verify(*this, "run", {"data.path=" + this->path("changed.txt")}),
             {"gives the same number of examples but different contents"});
}

TEST_CASE_FIXTURE(RunFixture, "verify: says why a run can have other bits") {
  must_train("toy", "run");
  replace_in(path("run/sessions.jsonl"), "\"engines\":\"", "\"engines\":\"an abacus, ");
  const auto says = [&] { return tapestry_run("verify " + path("run")); };
  const Finished same = must(says());
  check_says(same.out, {"recorded by:  tapestry ", ", an abacus, "});
  CHECK(!contains(same.out, "likely cause"));
  change_metrics(*this, "run", [](Json& line) { line["loss"] = 1.5; });
  const Finished other = says();
  CHECK(other.status == 1);
  check_says(other.out, {"step 3 differs", "loss: recorded 1.5, ",
                         "likely cause: the run was computed by an abacus, "});
}

TEST_CASE_FIXTURE(RunFixture, "verify: evaluations need a checksum, and sessions may be missing") {
  must_train("toy", "run");
  fs::remove(path("run/sessions.jsonl"));
  fs::remove(best("run"));
  CHECK(must_verify(*this, "run")["recorded_by"].empty());
  change_metrics(*this, "run", [](Json& line) { line.erase("parameters_xxh3"); });
  check_says(refused_verify(*this, "run"),
             {"metrics.jsonl:4: the evaluation has no parameters_xxh3: the record is damaged"});
}

TEST_CASE_FIXTURE(RunFixture,
                  "bug: verify: damaged or unordered lines did not end the comparison") {
  must_train("toy", "run");
  const std::string path = this->path("run/metrics.jsonl"), good = read_bytes(path);
  const auto refused_with = [&](std::size_t at, const std::string& line, const std::string& what) {
    Strings lines = lines_of(good);
    lines.insert(lines.begin() + static_cast<std::ptrdiff_t>(at), line);
    write("run/metrics.jsonl", fmt::format("{}\n", fmt::join(lines, "\n")));
    check_says(refused_verify(*this, "run"),
               {fmt::format("metrics.jsonl:{}: {}: the record is damaged", at + 1, what)});
  };
  const auto line = [](const std::string& step, const std::string& split) {
    return fmt::format(R"({{"step":{},"split":"{}","elapsed_s":1}})", step, split);
  };
  refused_with(0, line("999", "train"), "step 999; expected 1 to 40");
  refused_with(2, line("3", "train"), "step 3; expected 6 to 40");
  refused_with(1, line("0", "val"), "step 0; expected 3 to 40");
  const std::string no_metrics =
      "not a line of metrics: expected an object of at most 16384 bytes with step, split and "
      "elapsed_s";
  refused_with(0, line("18446744073709551615", "val"), no_metrics);
  refused_with(17, "damaged", no_metrics);
  refused_with(1, line("4", R"(tr\nforged: the same bits)"),
               R"(split "tr\x0aforged: the same bits"; expected train, val or test)");
}

TEST_CASE_FIXTURE(RunFixture, "bug: verify: missing and added metrics were not reported") {
  must_train("toy", "run");
  const std::string good = read("run/metrics.jsonl");
  change_metrics(*this, "run", [](Json& line) { line["other\nfigure"] = 1; });
  check_says(must_verify(*this, "run")["not_compared"].dump(),
             {R"(metrics that are not computed: other\\x0afigure)"});
  for (const std::string figure : {"loss", "grad_norm"}) {
    write("run/metrics.jsonl", good);
    change_metrics(*this, "run", [&](Json& line) { line.erase(figure); });
    const auto [result, status] = verified(*this, "run");
    CHECK(status == 1);
    CHECK(result["differs_at"] == 3);
    CHECK(result["last_same"].is_null());
    check_says(result["differences"].dump(), {figure + ": recorded nothing, "});
  }
}

TEST_CASE_FIXTURE(RunFixture, "bug: verify: texts of a run's files broke lines") {
  must_train("toy", "run");
  const std::string engines = "\"engines\":\"";
  replace_in(path("run/sessions.jsonl"), engines,
             engines + R"(an abacus\nforged: the same bits\u001b[2J)" + std::string(5000, 'x'));
  change_metrics(*this, "run", [](Json& line) { line["loss"] = "1\nforged: the same bits"; });
  const Finished said = tapestry_run("verify " + path("run"));
  CHECK(said.status == 1);
  check_says(said.out,
             {R"(loss: recorded 1\x0aforged)", R"(an abacus\x0aforged: the same bits\x1b[2Jxx)"});
  for (const std::string& line : lines_of(said.out)) {
    CHECK_FALSE(line.starts_with("forged"));
    CHECK(line.size() < 1000);
  }
}

TEST_CASE_FIXTURE(RunFixture, "bug: verify: pipes and folders in place of files were read") {
  must_train("toy", "run");
  for (const std::string name : {"metrics.jsonl", "sessions.jsonl", "config.toml"}) {
    CAPTURE(name);
    const std::string path = this->path("run/" + name), kept = read_bytes(path);
    fs::remove(path);
    REQUIRE(mkfifo(path.c_str(), 0600) == 0);
    check_says(refused_verify(*this, "run"), {name + ": is a pipe or a device"});
    fs::remove(path);
    fs::create_directory(path);
    check_says(refused_verify(*this, "run"), {name + ": is a folder"});
    fs::remove(path);
    write("run/" + name, kept);
  }
  write("run/config.toml", std::string((1 << 20) + 1, '#'));
  CHECK(refused_verify(*this, "run").find("config.toml") != std::string::npos);
}

TEST_CASE_FIXTURE(RunFixture, "bug: verify: a checkpoint's extra tensors were not compared") {
  must_train("toy", "run");
  const std::string path = checkpoint("run");
  const Safetensors good = read_safetensors(path);
  const auto verified_with = [&](const std::function<void(Safetensors&)>& change) {
    Safetensors file = good;
    change(file);
    file.metadata["xxh3"] = metadata_checksum(file.metadata);
    write_safetensors(path, file);
    const auto [result, status] = verified(*this, "run", "--all");
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
  must_verify(*this, "run", "--all");
}

TEST_CASE_FIXTURE(RunFixture,
                  "bug: verify: a checkpoint without a line of metrics was not compared") {
  must_train("toy", "run", "train.steps=7 train.log_every=100");
  write("run/metrics.jsonl", "");
  for (const Words& words : {Words(), Words("--all")}) {
    const Json result = must_verify(*this, "run", words);
    CHECK(result["last_step"] == 7);
    CHECK(result["recorded_steps"] == 1);
    CHECK(result["tensors"].get<int>() > 20);
  }
}

TEST_CASE_FIXTURE(RunFixture, "bug: verify: skipped steps above a later session's limit ended it") {
  const Words bad = "train.max_bad_steps=60 train.bad_step_factor=1.05";
  must_train("text", "run", {bad[0], bad[1], "train.steps=80"});
  const std::int64_t count = load_checkpoint(checkpoint("run")).state.skipped.count;
  REQUIRE(count > 1);
  replace_in(path("run/config.toml"), "max_bad_steps = 60", "max_bad_steps = 1");
  must_verify(*this, "run", "--all");
  must_run("replay {} --step 80", path("run"));

  must_train("text", "plain");
  check_fails(train_here("text", "plain", {"--resume", "train.steps=60", bad[0], bad[1]}),
              {"cannot resume with a different config: train.bad_step_factor (0.0, now 1.05)"});
}

TEST_CASE_FIXTURE(RunFixture, "verify: runs that cannot be compared are refused in one line") {
  must_train("text", "run", "train.steps=10");
  check_says(refused_verify(*this, "none"), {"none: no such run"});
  check_says(refused_verify(*this, "run", "--from middle"),
             {"--from middle: does not exist; expected start, best, checkpoint, or "});
  check_says(refused_verify(*this, "run", "--all --steps 3"), {"--all, --steps"});
  check_says(refused_verify(*this, "run", "optim.learning_rate=0.5"),
             {"different settings: optim.learning_rate (0.001, now 0.5)"});
  check_says(refused_verify(*this, "run", "--steps 2"),
             {"nothing was recorded of the 2 steps after step 0", "give more --steps"});
  std::string other = story(20);
  std::swap(other[3], other[4]);
  const std::string path = write("other.txt", other);
  check_says(refused_verify(*this, "run", {"data.path=" + path}), {"give the original data"});
  const std::string same = write("same.txt", story(20));
  must_verify(*this, "run", {"data.path=" + same});
  change_metrics(*this, "run", [](Json& line) { line["split"] = "test"; });
  fs::remove(this->best("run"));
  fs::remove(this->checkpoint("run"));
  check_says(refused_verify(*this, "run"), {"nothing was recorded after step 0"});
  check_says(refused_verify(*this, "run", "--from best"), {"best.safetensors: does not exist"});
  fs::create_directory(this->path("empty"));
  check_says(refused_verify(*this, "empty"),
             {"empty: is not a run, because it has no config.toml"});
}

TEST_SUITE_END();

}  // namespace
}  // namespace tapestry
