#include <doctest/doctest.h>

#include <cmath>
#include <map>

#include "tests/support/labels.hpp"
#include "tests/support/process.hpp"
#include "tests/support/run_fixture.hpp"
#include "train/config/config_document.hpp"
#include "train/run/lines.hpp"
#include "train/run/run_lock.hpp"
#include "train/task_spec.hpp"
#include "train/tools/report/comparison.hpp"
#include "train/trainer/callbacks/callbacks.hpp"

// Tests the files of a run, and the commands that read them.
namespace tapestry {
namespace {

TEST_SUITE_BEGIN("training");

TEST_CASE_FIXTURE(RunFixture, "training: --profile prints the time of each op, and writes a trace" *
                                  not_sanitized("the peaks that it measures take minutes there")) {
  const std::string run = "profiled\nlines";  // bug: the newline was shown
  check_prints(train("toy", run, "--profile"),
               {"profiled\\x0alines/trace.json: open it with", "over 20 steps", "GFLOP/s", "GB/s",
                "linear", "packed_self_attention", "cross_entropy", "forward", "backward",
                "optimizer", "clip", "wait for batch", "trace.json", "ui.perfetto.dev"});
  const Json trace = Json::parse(read(run + "/trace.json"));
  double end = 0, flops = 0;
  for (const Json& event : trace["traceEvents"]) {
    CHECK(event["ph"] == "X");
    CHECK(event["ts"].get<double>() >= end - 1e-3);  // in order, without overlap
    end = event["ts"].get<double>() + event["dur"].get<double>();
    flops += event["args"]["gflop"].get<double>() * 1e9;
    if (event["name"] == "packed_self_attention")
      CHECK(event["args"]["scope"] == "blocks.0.attention");
  }
  // One block of width 16 over 8 · 6 tokens, counted by hand: the products' three directions of
  // 48 × (16 · (48 + 16 + 64 + 64)), those of the head at the 8 · 3 tokens of answers, and
  // attention's 2 + 5 products of 8 · 2 heads · 21 visible pairs · 8 columns.
  const double linear = 3 * 2.0 * (48 * 16 * 192 + 24 * 16 * 5),
               attention = 7 * 2.0 * 8 * 2 * 21 * 8;
  CHECK(flops / 20 == doctest::Approx(linear + attention).epsilon(1e-3));

  must_train("toy", "plain");
  check_same_run(*this, run, "plain");
  check_prints(train("toy", "brief", "train.steps=3 --profile"),
               {"no profile: the first 5 steps are not measured"});
}

TEST_CASE_FIXTURE(RunFixture, "training: every line of metrics has all fields") {
  const std::pair<std::string, std::string> units[] = {
      {"toy", "examples_per_s"}, {"text", "tokens_per_s"}, {"vae", "examples_per_s"}};
  for (const auto& [config, speed] : units) {
    CAPTURE(config);
    must_train(config, config);
    std::map<std::string, std::vector<std::int64_t>> steps;
    double elapsed = 0;
    for (const Json& line : metrics(config)) {
      CAPTURE(line.dump());
      for (const char* field : {"step", "loss", "elapsed_s"}) CHECK(line[field].is_number());
      CHECK(line["elapsed_s"].get<double>() >= elapsed);
      elapsed = line["elapsed_s"];
      const bool train = line["split"] == "train";
      steps[line["split"]].push_back(line["step"]);
      for (const std::string& field : {std::string("lr"), std::string("grad_norm"), speed})
        CHECK(line.contains(field) == train);
      if (train) CHECK(line[speed].get<double>() > 0);
    }
    CHECK(steps["train"] ==
          std::vector<std::int64_t>{3, 6, 9, 12, 15, 18, 21, 24, 27, 30, 33, 36, 39});
    CHECK(steps["val"] == std::vector<std::int64_t>{10, 20, 30, 40});
    CHECK(steps["test"].size() == (config == "vae"));
    CHECK(steps.size() == 3);
  }
}

TEST_CASE_FIXTURE(RunFixture, "eval: prints the run's evaluation with all metrics of its task") {
  const std::pair<std::string, Words> fields[] = {{"toy", {"exact_match"}},
                                                  {"text", {"bits_per_char"}},
                                                  {"vae", {"recon", "kl", "elbo", "mse"}}};
  for (const auto& [config, own] : fields) {
    CAPTURE(config);
    must_train(config, config);
    fs::remove(best(config));  // the last checkpoint
    const Json result = eval(config);
    const Json last = last_validation(config);
    const std::size_t additional = config == "text" ? 4 : 2;  // data, examples, tokens, baselines
    CHECK(result.size() == last.size() + additional);
    CHECK(result["examples"] > 0);
    for (const auto& [name, value] : last.items())
      if (name != "elapsed_s") CHECK_MESSAGE(result[name] == value, name);
    for (const std::string& field : own) CHECK(result[field].is_number());
    const double loss = result["loss"];
    if (config == "text") CHECK(result["bits_per_char"] == doctest::Approx(loss / std::log(2)));
    if (config == "vae") {
      CHECK(result["elbo"].get<double>() == doctest::Approx(-loss).epsilon(1e-6));
      CHECK(loss == doctest::Approx(result["recon"].get<double>() + result["kl"].get<double>()));
    }
    CHECK(eval(config, "train.eval_batch_size=3")["loss"].get<double>() == doctest::Approx(loss));
    check_says(tapestry_run("eval " + path(config)).out, {"step 40  validation: loss "});
  }
}

TEST_CASE_FIXTURE(RunFixture, "training: best.safetensors has the model of the best evaluation") {
  // The learning rate becomes too high, so that the first evaluations are the best.
  must_train("toy", "run",
             "optim.name=sgd optim.schedule=constant optim.warmup_steps=30 "
             "optim.learning_rate=30 train.eval_every=1");
  double best = INFINITY;
  std::int64_t best_step = 0, evaluations = 0;
  for (const Json& line : metrics("run"))
    if (line["split"] == "val") {
      ++evaluations;
      if (line["loss"].get<double>() < best) best = line["loss"], best_step = line["step"];
    }
  CHECK(evaluations == 40);
  CHECK(best_step < 40);
  CHECK(load_checkpoint(this->best("run")).state.step == best_step);
  const Json result = eval("run");
  CHECK(result["step"] == best_step);
  CHECK(result["loss"] == best);
  CHECK(eval("run/checkpoint.safetensors")["step"] == 40);
}

TEST_CASE_FIXTURE(RunFixture, "eval: a run without its data, or with other data, is refused") {
  must_train("text", "run");
  const std::string other = write("other.txt", story(20) + story(20));
  const std::string digits = write("unknown.txt", story(20) + "5 € please\n" + story(20));
  CHECK(this->eval("run", {"data.path=" + other})["loss"].get<double>() > 0);

  const auto eval = [&](const Words& more) {
    return refused(run_here(Words("eval {}", path("run")) + more));
  };
  check_says(eval({"data.path=" + digits}), {"unknown.txt", "'€'", "U+20AC"});
  check_says(eval({"data.path=" + path("none")}), {"no such file"});
  fs::rename(path("story.txt"), path("moved.txt"));
  check_says(eval({}), {"story.txt", "no such file", "--set data.path=FILE"});
  const std::string moved = path("moved.txt");
  CHECK(this->eval("run", {"data.path=" + moved})["loss"].get<double>() > 0);
  // A sample needs no data.
  CHECK(must_run({"sample", path("run"), "--prompt", "9 bottles", "--tokens", "20"})
            .starts_with("9 bottles"));
}

TEST_CASE_FIXTURE(RunFixture, "bug: the command that Ctrl-C advises to resume with forgot --set") {
  const Finished stopped = train("toy", "run", "train.steps=100000 model.width=8",
                                 {.when = when_holds(path("run/metrics.jsonl")), .signal = SIGINT});
  REQUIRE(stopped.status == 130);
  check_says(stopped.out, {"tapestry train " + path("run") + " --resume\n"});
  const auto step = std::to_string(load_checkpoint(checkpoint("run")).state.step);
  must_run("train {} --resume train.steps={} optim.decay_steps=100000", path("run"), step);
}

TEST_CASE_FIXTURE(RunFixture,
                  "bug: a model smaller than its checkpoint loaded the tensors that fit") {
  must_train("toy", "run", "model.layers=2");
  check_fails(run_here("eval {} model.layers=1", path("run")), {"tensor blocks.1."});
}

TEST_CASE_FIXTURE(RunFixture, "bug: another run's best model was taken for the run's own") {
  must_train("text", "run");
  must_train("text", "other", "seed=2");
  must_train("text", "longer", "seed=2 train.steps=35 train.eval_every=35");
  const auto put = [&](const std::string& from, const std::string& to) {
    fs::copy_file(from, to, fs::copy_options::overwrite_existing);
  };
  const std::string run = path("run"), out = path("out");
  const auto check_all_refuse = [&](const std::string& given, const Strings& parts) {
    const std::vector<Words> commands = {
        {"train", run, "--resume"},
        {"eval", given},
        {"sample", given},
        {"attention", given},
        {"chat", given},
        {"report", run},
        {"compare", run},
        {"export", given, "--out", out},
        {"train", path("text.toml"), "--from", given, "--out", out}};
    for (const Words& words : commands) {
      CAPTURE(words.front());
      check_fails(run_here(words), parts);
      CHECK(!fs::exists(out));
    }
  };
  const std::string kept = path("kept.safetensors");
  put(best("run"), kept);
  put(best("other"), best("run"));
  const std::string found = last_validation("other")["parameters_xxh3"],
                    recorded = last_validation("run")["parameters_xxh3"];
  for (const std::string& given : {run, best("run")})
    check_all_refuse(given, {"run/best.safetensors: parameters_xxh3 of step 40 is " + found,
                             "metrics.jsonl recorded " + recorded, "restore the original"});
  put(best("longer"), best("run"));
  REQUIRE(load_checkpoint_metadata(best("run")).state.step == 35);
  check_all_refuse(run, {"is of step 35, of which metrics.jsonl has no evaluation"});
  fs::remove(best("run"));
  put(checkpoint("other"), checkpoint("run"));
  check_all_refuse(run, {"run/checkpoint.safetensors: parameters_xxh3 of step 40 is"});

  // A checkpoint outside of a run has no record; its own run accepts it again.
  CHECK(tapestry_run("eval " + kept).status == 0);
  put(kept, best("run"));
  CHECK(eval("run")["parameters_xxh3"] == recorded);
}

TEST_CASE_FIXTURE(RunFixture,
                  "runs: all commands refuse a path that is no run with the same message") {
  fs::create_directory(this->path("empty"));
  std::vector<Words> commands = {
      {"replay", "--step", "1"},
      {"plan", this->path("text.toml"), "--from"},
      {"train", this->path("text.toml"), "--out", this->path("new"), "--from"}};
  for (const std::string& command : Words("eval sample watch compare report verify"))
    commands.push_back({command});
  for (const Words& words : commands)
    for (const auto& [path, says] :
         {std::pair{"none", "none: no such run; give a run's folder, or train"},
          std::pair{"empty", "empty: is not a run, because it has no "}}) {
      CAPTURE(words.front());
      check_fails(run_here(words + this->path(path)), {says});
    }
}

TEST_CASE_FIXTURE(RunFixture, "training: a model evaluated without recorded checksum is refused") {
  must_train("toy", "run");
  std::string lines;
  for (Json line : metrics("run")) {
    line.erase("parameters_xxh3");
    lines += line.dump() + "\n";
  }
  write("run/metrics.jsonl", lines);
  check_fails(run_here("eval " + path("run")), {"run/metrics.jsonl:", ": the evaluation of step ",
                                                " has no parameters_xxh3: the record is damaged"});
  fs::remove(path("run/metrics.jsonl"));
  CHECK(eval("run")["step"] == load_checkpoint_metadata(best("run")).state.step);
}

TEST_CASE_FIXTURE(RunFixture, "bug: a sample written to a device or a link replaced it") {
  must_train("toy", "run");
  const std::string link = path("link"), target = write("target", "");
  fs::create_symlink(target, link);
  CHECK(tapestry_run("sample {} --out {}", path("run"), link).status == 0);
  CHECK(fs::is_symlink(link));
  CHECK(read_bytes(target).find('>') != std::string::npos);
}

TEST_CASE_FIXTURE(RunFixture, "training: variants of a VAE and of a transformer are trained") {
  const std::pair<std::string, Words> rows[] = {
      {"vae", "model.beta=4"},
      {"vae", "model.beta=0"},
      {"vae", "model.likelihood=gaussian"},
      {"vae", "model.sigma=shared"},
      {"vae", "model.sigma=none"},
      {"vae", "model.sigma=none model.likelihood=gaussian model.reconstruction_weight=5"},
      {"vae", {"model.channels=[2, 3]"}},
      {"vae", "model.sigma=shared model.likelihood=gaussian model.activation=relu"},
      {"vae", {"model.hidden=[9, 7, 5]", "model.kl_warmup_steps=5", "train.micro_batches=7"}},
      {"toy", "data.kind=reverse model.norm=post model.positions=sinusoidal"},
      {"toy", "model.positions=rotary train.checkpoint_activations=true"},
      {"toy", "model.positions=none model.window=3"},
      {"toy", "model.attention=random-features model.gate=true train.micro_batches=2"},
      {"toy", "model.attention=random-features model.feature_map=positive"},
      {"text", "model.attention=random-features model.features=7"},
      {"toy", "data.kind=copy model.tied_embeddings=false model.bias=false"},
      {"toy", "model.activation=gelu_tanh model.feed_forward=5 model.heads=1"},
      {"toy", "model.norm_kind=rms model.gated=true model.activation=silu"},
      {"text",
       "model.norm_kind=rms model.positions=rotary model.rotary_pairs=halves model.rotary_base=500 "
       "model.rotary_scaling=llama3 model.rotary_factor=2 model.rotary_original_context=6 "
       "model.heads=2 model.key_value_heads=1 model.head_width=6 model.query_key_norm=true "
       "model.attention_bias=inputs model.bias=false model.gated=true"},
      {"text",
       "model.attention_bias=none model.norm_epsilon=0.1 model.norm=post "
       "model.attention=random-features model.head_width=3 model.query_key_norm=true"},
      {"toy", "data.kind=addition optim.decay_all=true optim.schedule=linear"},
      {"text", "optim.name=adamw data.validation_fraction=0.5 model.layers=3"}};
  int made = 0;
  for (const auto& [config, keys] : rows) {
    CAPTURE(keys.front());
    Words options = "train.steps=6" + keys;
    const std::string run = fmt::format("run-{}", made++);
    must_train(config, run, options);
    CHECK(std::isfinite(eval(run)["loss"].get<double>()));
    CHECK(tapestry_run("sample {} --out {}", path(run), path("sample")).status == 0);
  }
}

TEST_CASE_FIXTURE(RunFixture, "bug: a run was written into a folder of seeds, and hid them") {
  must_train("toy", "seeds", "--seeds 2 train.steps=3");
  check_fails(train_here("toy", "seeds", {}),
              {"seeds: contains runs of several seeds; give another --out"});
}

TEST_SUITE_END();

// Tests with what [expected] of a config is compared.

TEST_SUITE_BEGIN("expectation");

std::string why_not(const std::string& name, const Strings& overrides) {
  return why_not_expected(load_config(name, overrides).settings(),
                          load_config(name, {}).settings());
}

TEST_CASE("bug: results of other data, models or steps were compared with [expected]") {
  CHECK(why_not("karate", {}).empty());
  CHECK(
      why_not("karate", {"seed=7", "train.eval_every=3", "name=club", "train.threads=1"}).empty());
  CHECK(why_not("karate", {"train.steps=20"}) == "train.steps = 20, karate has 100");
  CHECK(why_not("sort", {"data.length=4"}) == "data.length = 4, sort has 8");
  CHECK(why_not("sort", {"model.width=32"}) == "model.width = 32, sort has 64");
  CHECK(why_not("sort", {"data.kind=reverse"}).empty());  // `reverse`, whose result it is
  CHECK(why_not("shakespeare-char", {"data.path=notes.txt"}) ==
        "the data are notes.txt, expected.data is tinyshakespeare.txt");
  const std::string right = "data.path=/texts/tinyshakespeare.txt";
  CHECK(why_not("shakespeare-char", {right}).empty());
  CHECK(why_not("shakespeare-char", {right, "data.tokenizer=train"})
            .starts_with("data.tokenizer = \"train\", shakespeare-char has \"\""));
  for (const auto& [name, text] : shipped_configs()) {
    const ConfigSettings own = parse_config(text, name, {}).settings();
    const bool needs_data = own.contains("data.path") &&
                            own.at("expected.data") != "\"built-in\"" &&
                            own.at("expected.data") != "\"\"";
    CHECK_MESSAGE((needs_data || why_not_expected(own, own).empty()), name);
  }
}

TEST_CASE_FIXTURE(TemporaryFolder, "bug: a run resumed by its own config lost its other steps") {
  const RunOptions here{.folder = path()};
  const auto said = [&](const Words& words) {
    const Finished finished = tapestry_run(words, here);
    CHECK_MESSAGE(finished.status == 0, finished.err);
    return finished.out;
  };
  check_says(said("train karate --out whole"), {" reached, 0.9688 expected ("});
  CHECK(!contains(said("train karate --out run train.steps=20"), "expected"));
  CHECK(!contains(said("train run/config.toml --out run --resume"), "expected"));
  said({"report", "run"});
  check_says(read("run/report.html"), {"not compared with the expected"});

  write("own.toml",
        "base = \"karate\"\n[train]\nsteps = 9\n[expected]\nmetric = \"accuracy\"\n"
        "value = 0.5\nsource = \"mine\"\n");
  check_says(said("train own.toml --out own"), {" reached, 0.5000 expected (mine)"});
  CHECK(!contains(said("train own.toml --out more train.steps=8"), "expected"));
}

TEST_SUITE_END();

TEST_SUITE_BEGIN("recorder");

std::string line_of(std::int64_t step, const std::string& split = "train") {
  return MetricsLine{step, split, {{"loss", 1.5}}, 0.25}.json() + "\n";
}

TEST_CASE("recorder: a line is one JSON object with step, split, loss, seconds and metrics") {
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

TEST_CASE_FIXTURE(TemporaryFolder, "recorder: a resumed run is tested again at its end") {
  const std::string path =
      write("metrics.jsonl", line_of(10) + line_of(10, "val") + line_of(10, "test"));
  RunLock lock(Run(this->path()), RunLock::Folder::find);
  record_metrics(lock)->on_begin(10, true);
  CHECK(read_bytes(path) == line_of(10) + line_of(10, "val"));
}

TEST_CASE("recorder: a signature is recorded with its metric") {
  CHECK(
      MetricsLine{3, "val", {{"bleu", 5}, {"loss", 2}}, 0.25, {{"bleu", "case:lc"}}}.json() ==
      R"({"step":3,"split":"val","loss":2.0,"elapsed_s":0.25,"bleu":5.0,"bleu_signature":"case:lc"})");
}

TEST_CASE_FIXTURE(TemporaryFolder,
                  "recorder: removes an evaluation that is repeated, not its step") {
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
  CHECK_ERROR(line.expect(false, "?"), "metrics.jsonl:2: ?");
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
  record_metrics(lock)->on_begin(7, true);  // lost, and begun again by a new training
  CHECK(read_bytes(path).empty());
  fs::remove(path);
  fs::create_directory(path);
  CHECK_THROWS_WITH_AS(record_metrics(lock)->on_begin(0, true),
                       doctest::Contains("metrics.jsonl: cannot open"), std::runtime_error);
}

TEST_SUITE_END();

}  // namespace
}  // namespace tapestry
