#include <doctest/doctest.h>

#include <cmath>
#include <map>

#include "tests/support/labels.hpp"
#include "tests/support/run_fixture.hpp"
#include "train/run/run_lock.hpp"
#include "train/task_spec.hpp"

// What a run leaves in its folder, and what is made of it.
namespace tapestry {
namespace {

TEST_SUITE_BEGIN("training");

TEST_CASE_FIXTURE(RunFixture,
                  "training: --profile prints where the time goes, and leaves a trace of it" *
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
    CHECK(event["ts"].get<double>() >= end - 1e-3);  // in order, none over another
    end = event["ts"].get<double>() + event["dur"].get<double>();
    flops += event["args"]["gflop"].get<double>() * 1e9;
    if (event["name"] == "packed_self_attention")
      CHECK(event["args"]["scope"] == "blocks.0.attention");
  }
  // One block of width 16 over 8 · 6 tokens, counted by hand: the products' three directions of
  // 48 × (16 · (48 + 16 + 64 + 64) + 16 · 5) and attention's 2 + 5 products of 8 · 2 heads · 21
  // visible pairs · 8 columns.
  const double linear = 3 * 2.0 * 48 * (16 * 192 + 16 * 5), attention = 7 * 2.0 * 8 * 2 * 21 * 8;
  CHECK(flops / 20 == doctest::Approx(linear + attention).epsilon(1e-3));

  must_train("toy", "plain");
  check_same_run(*this, run, "plain");
  check_prints(train("toy", "brief", "train.steps=3 --profile"),
               {"no profile: the first 5 steps are not measured"});
}

TEST_CASE_FIXTURE(RunFixture, "training: every line of metrics has its fields") {
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

TEST_CASE_FIXTURE(RunFixture, "eval: prints the run's evaluation, with its task's own figures") {
  const std::pair<std::string, Words> fields[] = {{"toy", {"exact_match"}},
                                                  {"text", {"bits_per_char"}},
                                                  {"vae", {"recon", "kl", "elbo", "mse"}}};
  for (const auto& [config, own] : fields) {
    CAPTURE(config);
    must_train(config, config);
    fs::remove(best(config));  // the last checkpoint
    const Json result = eval(config);
    const Json last = last_validation(config);
    const std::size_t additional = config == "text" ? 3 : 2;  // data, examples, tokens
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

TEST_CASE_FIXTURE(RunFixture, "training: best.safetensors is of the best evaluation") {
  // A learning rate that rises too high: the first evaluations are the best.
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

TEST_CASE_FIXTURE(RunFixture, "eval: a run without its data, and with other data") {
  must_train("text", "run");
  const std::string other = write("other.txt", story(20) + story(20));
  const std::string digits = write("unknown.txt", story(20) + "5 € please\n" + story(20));
  CHECK(this->eval("run", {"data.path=" + other})["loss"].get<double>() > 0);

  const auto eval = [&](const Words& more) {
    const Finished finished = tapestry_run(Words("eval {}", path("run")) + more);
    check_fails(finished, {});
    return finished.err;
  };
  check_says(eval({"data.path=" + digits}), {"unknown.txt", "'€'", "U+20AC"});
  check_says(eval({"data.path=" + path("none")}), {"no such file"});
  fs::rename(path("story.txt"), path("moved.txt"));
  check_says(eval({}), {"story.txt", "no such file", "--set data.path=FILE"});
  const std::string moved = path("moved.txt");
  CHECK(this->eval("run", {"data.path=" + moved})["loss"].get<double>() > 0);
  // A sample needs no data.
  CHECK(must(tapestry_run({"sample", path("run"), "--prompt", "9 bottles", "--tokens", "20"}))
            .out.starts_with("9 bottles"));
}

TEST_CASE_FIXTURE(RunFixture, "bug: the command that Ctrl-C advises to resume with forgot --set") {
  const Finished stopped = train("toy", "run", "train.steps=100000 model.width=8",
                                 {.when = when_holds(path("run/metrics.jsonl")), .signal = SIGINT});
  REQUIRE(stopped.status == 130);
  check_says(stopped.out, {"tapestry train " + path("run") + " --resume\n"});
  const auto step = std::to_string(load_checkpoint(checkpoint("run")).state.step);
  must(
      tapestry_run("train {} --resume train.steps={} optim.decay_steps=100000", path("run"), step));
}

TEST_CASE_FIXTURE(RunFixture, "bug: two processes could train into one folder") {
  fs::create_directories(path("run"));
  const RunLock lock(Run(path("run")), RunLock::Folder::find);
  check_fails(train("toy", "run"), {"another process is training into this folder"});
}

TEST_CASE_FIXTURE(RunFixture, "bug: a model smaller than its checkpoint took what fitted") {
  must_train("toy", "run", "model.layers=2");
  check_fails(tapestry_run("eval {} model.layers=1", path("run")), {"tensor blocks.1."});
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
      check_fails(tapestry_run(words), parts);
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

  // A file that is no run's has no record beside it; its own run takes it back.
  CHECK(tapestry_run("eval " + kept).status == 0);
  put(kept, best("run"));
  CHECK(eval("run")["parameters_xxh3"] == recorded);
}

TEST_CASE_FIXTURE(RunFixture, "runs: all commands say the same of a path that is no run") {
  fs::create_directory(this->path("empty"));
  const Words commands[] = {
      "eval",
      "sample",
      "watch",
      "compare",
      "report",
      "verify",
      "replay --step 1",
      {"plan", this->path("text.toml"), "--from"},
      {"train", this->path("text.toml"), "--out", this->path("new"), "--from"}};
  for (const Words& words : commands)
    for (const auto& [path, says] :
         {std::pair{"none", "none: no such run; give a run's folder, or train"},
          std::pair{"empty", "empty: is not a run, because it has no "}}) {
      CAPTURE(words.front());
      check_fails(tapestry_run(words + this->path(path)), {says});
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
  check_fails(tapestry_run("eval " + path("run")),
              {"run/metrics.jsonl:", ": the evaluation of step ",
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

TEST_CASE_FIXTURE(RunFixture, "training: the variants of a VAE and of a transformer run") {
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

TEST_CASE_FIXTURE(RunFixture, "bug: a run was trained into a folder of seeds, which it hid") {
  must_train("toy", "seeds", "--seeds 2 train.steps=3");
  check_fails(train("toy", "seeds", {}),
              {"seeds: contains runs of several seeds; give another --out"});
}

TEST_SUITE_END();

}  // namespace
}  // namespace tapestry
