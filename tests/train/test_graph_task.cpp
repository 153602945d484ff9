#include <doctest/doctest.h>

#include <cmath>

#include "tests/support/arrays.hpp"
#include "tests/support/papers.hpp"
#include "tests/support/process.hpp"
#include "tests/support/tensor_files.hpp"
#include "train/config/keys.hpp"
#include "train/run/checkpoint.hpp"
#include "train/task_spec.hpp"

// Graph networks from the command line, and trainings of several seeds.
namespace tapestry {
namespace {

TEST_SUITE_BEGIN("graph task");

const Words short_papers =
    "data.path=papers data.training_nodes=2 data.validation_nodes=2 data.test_nodes=3 "
    "train.steps=60 train.batch_size=2 train.eval_batch_size=2";

// A folder with small citations, and runs of the task in it.
class CitationFixture : public CommandFolder {
 public:
  CitationFixture() {
    fs::create_directory(path("papers"));
    write("papers/small.content", content);
    write("papers/small.cites", cites);
  }
  Finished run(const Words& words, const Words& more = {}) const {
    return tapestry_run(words + more, {.folder = path()});
  }
  Finished must(const Words& words, const Words& more = {}) const {
    Finished finished = run(words, more);
    INFO(finished.err);
    REQUIRE(finished.status == 0);
    return finished;
  }
  Json eval(const std::string& name) const {
    return Json::parse(must(Words("eval {} --json", name)).out);
  }
};

TEST_CASE_FIXTURE(CitationFixture, "graph task: finds the karate club's sides, shown by name") {
  must("train karate --quiet --out club");
  CHECK(eval("club")["accuracy"].get<double>() > 0.8);
  const Finished shown = must("sample club");
  CHECK(lines_of(shown.out).size() == 32);
  check_says(shown.out, {"2  Mr. Hi  right\n", "33  Officer  right\n"});
  CHECK(must("sample club --prompt 17").out == "17  Mr. Hi  right\n");
  CHECK(lines_of(must("sample club --count 3").out).size() == 3);
  check_fails(run("sample club --prompt 35"), {"--prompt 35: no node has this name"});
}

TEST_CASE_FIXTURE(CitationFixture, "graph task: papers from a folder, validated and tested") {
  const std::string said = must("train cora --out run", short_papers).out;
  check_says(said, {"accuracy", "test_accuracy 1 ", "2 training examples"});
  CHECK(Json::parse(must("eval run --test --json").out)["accuracy"] == 1.0);
  CHECK(lines_of(must("sample run").out).size() == 3);
  CHECK(load_checkpoint(path("run/checkpoint.safetensors")).metadata.at("classes") == "art, maths");

  std::string renamed = content;
  for (std::size_t at; (at = renamed.find("maths")) != std::string::npos;)
    renamed.replace(at, 5, "logic");
  write("papers/small.content", renamed);
  check_fails(run("eval run"),
              {"has the classes art, logic, but this model was trained on art, maths"});

  write("papers/small.content", content);
  write("papers/small.cites", "p1 p99\n");
  const std::string before = read("run/checkpoint.safetensors");
  check_fails(run("train cora --out run --resume" + short_papers),
              {"papers/small.cites: line 1", "node p99"});
  CHECK(read("run/checkpoint.safetensors") == before);
  check_fails(run("train cora --out new"), {"data.path", "Cora", "*.content"});
  CHECK(!has("new"));
}

TEST_CASE_FIXTURE(CitationFixture, "graph task: drawn graphs and any others are classified") {
  must("train graphs --quiet --out run", "data.held_back=200 train.steps=300 train.eval_every=0");
  CHECK(eval("run")["accuracy"].get<double>() > 0.8);
  const auto shown = lines_of(must("sample run --count 4").out);
  CHECK(shown.size() == 8);
  CHECK(shown[0].find('-') != std::string::npos);
  std::string star = "0-1";
  for (int leaf = 2; leaf < 16; ++leaf) star += fmt::format(" 0-{}", leaf);
  CHECK(must({"sample", "run", "--prompt", star}).out == star + "  star\n");
  check_fails(run({"sample", "run", "--prompt", "0-1 12"}), {"edge '12'"});
}

TEST_CASE_FIXTURE(CitationFixture, "graph task: the same bits on 1 to 3 threads, and resumed") {
  const Words keys =
      "train.steps=8 train.eval_every=4 model.dropout=0.2 data.held_back=50 "
      "optim.schedule=constant";
  for (const std::string layer : {"convolution", "attention"}) {
    Words own = keys + ("model.layer=" + layer);
    if (layer == "attention") own.push_back("model.heads=2");
    const auto tensors = [&](const std::string& run) {
      std::map<std::string, std::vector<double>> values;
      const LoadedCheckpoint saved = load_checkpoint(path(run + "/checkpoint.safetensors"));
      for (const auto& [name, array] : saved.file.tensors) values[name] = doubles(array);
      return values;
    };
    for (const std::string threads : {"1", "2", "3"})
      must({"train", "graphs", "--quiet", "--out", layer + threads, "--threads", threads}, own);
    CHECK(tensors(layer + "1") == tensors(layer + "2"));
    CHECK(tensors(layer + "1") == tensors(layer + "3"));
    own.front() = "train.steps=3";
    must("train graphs --quiet --out " + layer, own);
    own.front() = "train.steps=8";
    must(Words("train graphs --quiet --out {} --resume", layer), own);
    CHECK(tensors(layer + "1") == tensors(layer));
  }
}

TEST_CASE_FIXTURE(CitationFixture, "graph task: the variants run") {
  const Words rows[] = {
      "karate model.layer=attention model.heads=4",
      {"karate", "model.normalization=mean", "model.dropout=0.5", "data.labeled=[1, 2, 33, 34]"},
      "karate model.normalization=sum model.layers=1 model.l2=1e-3",
      "graphs model.pooling=mean model.normalization=symmetric data.held_back=20",
      "graphs model.pooling=max model.layer=attention model.heads=8 data.held_back=20"};
  int made = 0;
  for (const Words& words : rows) {
    const std::string run = fmt::format("run-{}", made++);
    must(Words("train --out {} train.steps=5", run) + words);
    CHECK(std::isfinite(eval(run)["loss"].get<double>()));
  }
  check_fails(this->run("train karate --out new model.layer=attention model.heads=3"),
              {"model.heads = 3: must divide model.width = 16"});
}

TEST_CASE("graph task: the penalty is half λ times the first layer's squares, in training alone") {
  const auto losses = [](const std::string& l2) {
    const Config config = load_config("karate", {"model.l2=" + l2});
    const auto task = make_task({config});
    const std::int64_t both[] = {0, 1};
    const Batch batch = task->training_data().batch(both);
    double squares = 0;
    for (const Parameter* parameter : task->model().parameters())
      if (parameter->name == "layers.0.neighbours.weight")
        for (const double v : doubles(parameter->value())) squares += v * v;
    return std::array{task->loss(batch, {.training = true}).objective.item(),
                      task->loss(batch, {}).objective.item(), squares};
  };
  const auto without = losses("0"), with = losses("0.1");
  CHECK(without[0] == without[1]);
  CHECK(with[1] == without[1]);
  CHECK(with[0] - without[0] == doctest::Approx(2 * 0.05 * with[2]).epsilon(1e-4));
}

TEST_CASE("graph task: a training loss leaves the parameters their names") {
  const Config config = load_config("karate", {"model.l2=0.1"});
  const auto task = make_task({config});
  const std::vector<Parameter*> parameters = task->model().parameters();
  const std::string before = parameters.front()->name;
  const std::int64_t both[] = {0, 1};
  task->loss(task->training_data().batch(both), {.training = true});
  CHECK(before == "layers.0.bias");
  CHECK(parameters.front()->name == before);
}

// --- several seeds ---

TEST_CASE_FIXTURE(CitationFixture, "seeds: each has its own run; mean and deviation are theirs") {
  const Words keys = "train.steps=20 seed=4";
  const Strings lines = lines_of(must("train karate --quiet --seeds 3 --out club", keys).out);
  REQUIRE(lines.size() == 4);
  double sum = 0, squares = 0;
  for (int i = 0; i < 3; ++i) {
    const std::string run = fmt::format("club/seed-{}", 4 + i);
    CHECK(lines[i].starts_with(fmt::format("seed {}: loss ", 4 + i)));
    const auto metrics = lines_of(read(run + "/metrics.jsonl"));
    const double accuracy = Json::parse(metrics.back())["accuracy"];
    sum += accuracy, squares += accuracy * accuracy;
    CHECK(load_config(path(run + "/config.toml"), {})[key::seed] == 4 + i);
  }
  const double deviation = std::sqrt(std::max(0.0, (squares - sum * sum / 3) / 2));
  check_says(lines[3],
             {"mean of 3 seeds:", fmt::format("accuracy {:.4f} ± {:.4f}", sum / 3, deviation)});

  // One seed of them is what training with that seed alone gives.
  must("train karate --quiet --out alone train.steps=20 seed=5");
  const auto checksums = [&](const std::string& run) {  // of its tensors
    auto kept = read_safetensors(path(run + "/best.safetensors")).metadata;
    std::erase_if(kept, [](const auto& entry) { return !entry.first.starts_with("xxh3."); });
    return kept;
  };
  CHECK(!checksums("alone").empty());
  CHECK(checksums("alone") == checksums("club/seed-5"));
  CHECK(eval("alone")["loss"] == eval("club/seed-5")["loss"]);

  check_fails(this->run("train karate --seeds 3 --out club", keys),
              {"club/seed-4: already holds a run"});

  check_fails(this->run("eval club"), {"club: is not a run", "such as ", "club/seed-"});

  // Nothing is trained where a later seed could not be.
  CHECK(this->run("train karate --seeds 3 --out club seed=2").status == 2);
  CHECK(!has("club/seed-2"));
  check_fails(this->run("train karate --seeds 3 --out alone"),
              {"alone: already contains a run of one seed"});
  check_fails(this->run("train karate --seeds 3 --out last seed=9223372036854775807"),
              {"seed", "--seeds 3"});
}

TEST_CASE_FIXTURE(CitationFixture, "seeds: --resume keeps, continues and adds runs") {
  must("train karate --quiet --seeds 2 --out club train.steps=20");
  const std::string first = path("club/seed-1/checkpoint.safetensors");
  must("train karate --quiet --out whole --seeds 3 train.steps=30");
  const Finished resumed =
      must("train karate --quiet --seeds 3 --out club --resume train.steps=30");
  CHECK(lines_of(resumed.out).size() == 4);
  CHECK(load_checkpoint(first).state.step == 30);
  const auto means = [&](const Finished& finished) { return lines_of(finished.out)[3]; };
  CHECK(means(resumed) ==
        means(must("train karate --quiet --seeds 3 --out whole --resume train.steps=30")));
}

TEST_SUITE_END();

}  // namespace
}  // namespace tapestry
