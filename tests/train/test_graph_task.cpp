#include <doctest/doctest.h>

#include <cmath>

#include "autograd/random.hpp"
#include "data/table/records.hpp"
#include "tests/support/arrays.hpp"
#include "tests/support/papers.hpp"
#include "tests/support/process.hpp"
#include "tests/support/tensor_files.hpp"
#include "train/config/keys.hpp"
#include "train/run/checkpoint.hpp"
#include "train/task_spec.hpp"
#include "train/trainer/step.hpp"

// Tests graph networks by the command line, and trainings of several seeds.
namespace tapestry {
namespace {

TEST_SUITE_BEGIN("graph task");

const Words short_papers =
    "data.path=papers data.training_nodes=2 data.validation_nodes=2 data.test_nodes=3 "
    "train.steps=60 train.batch_size=2 train.eval_batch_size=2";

// A folder with small citation data, and runs of the task.
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

TEST_CASE_FIXTURE(CitationFixture,
                  "graph task: finds the classes of the karate club, and shows their names") {
  must("train karate --quiet --out club");
  CHECK(eval("club")["accuracy"].get<double>() > 0.8);
  const Finished shown = must("sample club");
  CHECK(lines_of(shown.out).size() == 32);
  check_says(shown.out, {"2  Mr. Hi  right\n", "33  Officer  right\n"});
  CHECK(must("sample club --prompt 17").out == "17  Mr. Hi  right\n");
  CHECK(lines_of(must("sample club --count 3").out).size() == 3);
  check_fails(here("sample club --prompt 35"), {"--prompt 35: no node has this name"});
}

TEST_CASE_FIXTURE(CitationFixture,
                  "graph task: trains on a folder of papers, with validation and test") {
  const std::string said = must("train cora --out run", short_papers).out;
  check_says(said, {"accuracy", "test_accuracy 1 ", "2 training examples"});
  CHECK(Json::parse(must("eval run --test --json").out)["accuracy"] == 1.0);
  CHECK(lines_of(must("sample run").out).size() == 3);
  CHECK(load_checkpoint(path("run/checkpoint.safetensors")).metadata.at("classes") == "art, maths");

  std::string renamed = content;
  for (std::size_t at; (at = renamed.find("maths")) != std::string::npos;)
    renamed.replace(at, 5, "logic");
  write("papers/small.content", renamed);
  check_fails(here("eval run"),
              {"has the classes art, logic, but this model was trained on art, maths"});

  write("papers/small.content", content);
  write("papers/small.cites", "p1 p99\n");
  const std::string before = read("run/checkpoint.safetensors");
  check_fails(here("train cora --out run --resume" + short_papers),
              {"papers/small.cites: line 1", "node p99"});
  CHECK(read("run/checkpoint.safetensors") == before);
  check_fails(here("train cora --out new"), {"data.path", "Cora", "*.content"});
  CHECK(!has("new"));
}

TEST_CASE_FIXTURE(CitationFixture, "graph task: classifies synthetic and other graphs") {
  must("train graphs --quiet --out run", "data.held_back=200 train.steps=300 train.eval_every=0");
  CHECK(eval("run")["accuracy"].get<double>() > 0.8);
  const auto shown = lines_of(must("sample run --count 4").out);
  CHECK(shown.size() == 8);
  CHECK(shown[0].find('-') != std::string::npos);
  std::string star = "0-1";
  for (int leaf = 2; leaf < 16; ++leaf) star += fmt::format(" 0-{}", leaf);
  CHECK(must({"sample", "run", "--prompt", star}).out == star + "  star\n");
  check_fails(here({"sample", "run", "--prompt", "0-1 12"}), {"edge '12'"});
}

TEST_CASE_FIXTURE(CitationFixture, "graph task: has the same bits on 1 to 3 threads, and resumed") {
  const Words keys =
      "train.steps=8 train.eval_every=4 model.dropout=0.2 data.held_back=50 "
      "optim.schedule=constant";
  for (const std::string layer : {"convolution", "attention", "gat", "gcnii"}) {
    Words own = keys + ("model.layer=" + layer);
    if (layer == "attention" || layer == "gat") own.push_back("model.heads=2");
    if (layer == "gat") own.push_back("model.attention_dropout=0.3");
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

TEST_CASE_FIXTURE(CitationFixture, "graph task: trains all variants") {
  const Words rows[] = {
      "karate model.layer=attention model.heads=4",
      {"karate", "model.normalization=mean", "model.dropout=0.5", "data.labeled=[1, 2, 33, 34]"},
      "karate model.normalization=sum model.layers=1 model.l2=1e-3",
      "graphs model.pooling=mean model.normalization=symmetric data.held_back=20",
      "graphs model.pooling=max model.layer=attention model.heads=8 data.held_back=20",
      "karate model.layer=gat model.heads=4 model.output_heads=2 model.attention_dropout=0.5",
      "karate model.layer=gcnii model.layers=6 model.alpha=0.2 model.lambda=1 model.dropout=0.5"};
  int made = 0;
  for (const Words& words : rows) {
    const std::string run = fmt::format("run-{}", made++);
    must(Words("train --out {} train.steps=5", run) + words);
    CHECK(std::isfinite(eval(run)["loss"].get<double>()));
  }
  check_fails(this->run("train karate --out new model.layer=attention model.heads=3"),
              {"model.heads = 3: must divide model.width = 16"});
}

// Returns the objective of a training step's batch, and the squares of the weights of each module.
double objective_of(const Words& settings, std::map<std::string, double>* squares = nullptr) {
  const Config config = load_config("karate", settings);
  const auto task = make_task({config});
  const std::int64_t both[] = {0, 1};
  StepInputs inputs{.task = *task, .config = config};
  inputs.batches.push_back(task->training_data().batch(both));
  const double objective = inputs.loss(0).objective.item();
  for (const Parameter* parameter : task->model().parameters())
    for (const double v : doubles(parameter->value()))
      if (squares) (*squares)[parameter->name] += v * v;
  return objective;
}

TEST_CASE("graph task: model.l2 adds λ/2 times the first layer's squares, as its group does") {
  std::map<std::string, double> squares;
  const double without = objective_of({}, &squares), with = objective_of({"model.l2=0.1"});
  CHECK(with - without ==
        doctest::Approx(2 * 0.05 * squares["layers.0.neighbours.weight"]).epsilon(1e-4));
  CHECK(objective_of({R"(optim.groups=["layers.0.*.weight l2=0.1"])"}) == with);
  CHECK(objective_of({"model.l2=0.3", R"(optim.groups=["* lr=0.5", "layers.0 l2=0.1"])"}) ==
        doctest::Approx(with));
}

TEST_CASE("graph task: groups may have different L2 terms, of which the last counts") {
  std::map<std::string, double> squares;
  const double without = objective_of({}, &squares);
  const double with =
      objective_of({R"(optim.groups=["* l2=0.4", "layers.1 l2=0.1", "*.bias l2=0"])"});
  CHECK(with - without == doctest::Approx(2 * (0.2 * squares["layers.0.neighbours.weight"] +
                                               0.05 * squares["layers.1.neighbours.weight"]))
                              .epsilon(1e-4));
}

TEST_CASE("graph task: a training loss does not change names of parameters") {
  const Config config = load_config("karate", {"model.l2=0.1"});
  const auto task = make_task({config});
  const std::vector<Parameter*> parameters = task->model().parameters();
  const std::string before = parameters.front()->name;
  const std::int64_t both[] = {0, 1};
  StepInputs inputs{.task = *task, .config = config};
  inputs.batches.push_back(task->training_data().batch(both));
  inputs.loss(0);
  CHECK(before == "layers.0.bias");
  CHECK(parameters.front()->name == before);
}

// --- several seeds ---

TEST_CASE_FIXTURE(CitationFixture,
                  "seeds: each seed has a run, and mean and deviation are printed") {
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

  // A seed's run equals a training with this seed alone.
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

  // Nothing is trained if a later seed is refused.
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

// Tests training, evaluation and predictions for a graph in nodes.csv and edges.csv.

TEST_SUITE_BEGIN("node tables task");

// Writes 60 people of three clubs, each with friends in the same club and an age that says little.
// `unlabeled` is the label of each fifth person, who is in no split.
void write_clubs(const TemporaryFolder& folder, const std::string& unlabeled = "") {
  Random random(5, Stream::data);
  std::string nodes = "id,age,town,label,split\n", edges = "source,target,weight\n";
  for (std::int64_t i = 0; i < 60; ++i) {
    const std::int64_t club = i % 3;
    const bool has_label = i % 5 > 0;
    nodes += fmt::format("p{},{},{},{},{}\n", i, 30 + 20 * club + random.below(20),
                         random.below(2) == 0 ? "Rome" : "Oslo",
                         has_label ? fmt::format("club {}", club) : unlabeled,
                         !has_label   ? ""
                         : i % 5 == 1 ? "val"
                         : i % 5 == 2 ? "test"
                                      : "train");
    for (const std::int64_t step : {3, 6})
      edges += fmt::format("p{},p{},0.5\n", i, (i + step) % 60);
  }
  fs::create_directory(folder.path("clubs"));
  folder.write("clubs/nodes.csv", nodes);
  folder.write("clubs/edges.csv", edges);
}

TEST_CASE_FIXTURE(CommandFolder,
                  "node tables task: init, train, eval, report and all predictions work") {
  write_clubs(*this);
  const auto run = [&](const Words& words) { return tapestry_run(words, {.folder = path()}); };
  const auto must = [&](const Words& words) {
    Finished finished = run(words);
    INFO(finished.err);
    REQUIRE(finished.status == 0);
    return finished.out;
  };
  must("init clubs --minutes 1 --out clubs.toml");
  const std::string said = must("train clubs.toml --set train.steps=100");
  check_says(said, {"graph: 60 nodes, 120 undirected edges; features: 3 (1 column of numbers, "
                    "standardized; 1 column of categories, one-hot); 3 classes: club 0, club 1, "
                    "club 2; 24 for training, 12 for validation, 12 for test, 12 without a label",
                    "not used of edges.csv: weight", "test_accuracy 1 "});
  check_says(
      read("runs/clubs/config.toml"),
      {"label_column = \"label\"", "split_column = \"split\"", "categorical_columns = [\"town\"]",
       "class_names = [\"club 0\", \"club 1\", \"club 2\"]"});
  CHECK(Json::parse(must("eval runs/clubs --test --json"))["accuracy"] == 1.0);
  must("report runs/clubs");
  CHECK(must("sample runs/clubs --prompt p5") == "p5  club 2  no label\n");
  CHECK(must("sample runs/clubs --csv predictions.csv") == "predictions.csv\n");
  const Strings lines = lines_of(read("predictions.csv"));
  CHECK(lines.size() == 61);
  CHECK(lines[0] == "id,label,split,prediction,probability");
  CHECK(lines[1].starts_with("p0,,,club "));
  CHECK(lines[2].starts_with("p1,club 1,val,club "));
  check_fails(here("sample runs/clubs --csv clubs/nodes.csv"),
              {"--csv clubs/nodes.csv: is a file that this command reads"});
  check_fails(here("sample runs/clubs --csv runs/clubs/metrics.jsonl"),
              {"--csv runs/clubs/metrics.jsonl: is the name of a file of a run"});
  check_fails(here("sample runs/clubs --csv p.csv --out q.csv"),
              {"not used with --csv; leave out --out and --json"});
  check_fails(here("sample runs/clubs --csv p.csv --count 3"), {"--count: not used with --csv"});

  write("clubs/nodes.csv", read("clubs/nodes.csv") + "new,33,Bonn,,\n");
  write("clubs/edges.csv", read("clubs/edges.csv") + "new,p4,1\nnew,p7,1\n");
  must("sample runs/clubs --csv predictions.csv");
  CHECK(lines_of(read("predictions.csv"))[61].starts_with("new,,,club "));
  check_fails(here("train cora --set data.path=clubs --out x"),
              {"data.kind = \"citations\": ", "clubs has nodes.csv; set data.kind = \"csv\""});
}

TEST_CASE_FIXTURE(CommandFolder,
                  "node tables task: init asks for the classes, and records what it found") {
  std::string nodes = "Unnamed: 0,person,age,team,train_mask,val_mask\n", edges = "nr,who,whom\n";
  for (int i = 0; i < 60; ++i) {
    nodes += fmt::format("{},p{},{},{},{},{}\n", i, i * 7 % 60, 20 + i % 9, i % 3,
                         i % 4 < 2 ? "True" : "False", i % 4 == 2 ? "True" : "False");
    edges += fmt::format("{},p{},p{}\n", i, i, (i + 3) % 60);
  }
  write("teams/nodes.csv", nodes);
  write("teams/edges.csv", edges);
  check_fails(here("init teams --minutes 1"),
              {"data.label_column = \"\" (default): ",
               "several columns may have the classes: age (9 values), team (3 values)",
               "set data.label_column to its name"});
  const Finished made = here("init teams --label team --minutes 1");
  REQUIRE(made.status == 0);
  check_says(made.out, {"column Unnamed: 0      row numbers, left out: numbers, 0 to 59",
                        "column person          id: ", "column age             feature: ",
                        "column train_mask      split: ", "not used of nodes.csv: Unnamed: 0",
                        "not used of edges.csv: nr"});
  check_says(read("mine.toml"),
             {"label_column = \"team\"", "id_column = \"person\"",
              "split_column = \"train_mask + val_mask\"", "edge_columns = [\"who\", \"whom\"]",
              "ignore_columns = [\"Unnamed: 0\"]"});
  REQUIRE(here("train mine.toml --quiet --set train.steps=3").status == 0);
  REQUIRE(here("init teams --set data.label_column=team --minutes 1 --out two.toml").status == 0);
  check_says(read("two.toml"), {"label_column = \"team\""});
}

TEST_CASE_FIXTURE(CommandFolder, "bug: node tables task: foreign classes were all listed") {
  std::string nodes = "id,age,label,split\n";
  for (int i = 0; i < 28; ++i)
    nodes += fmt::format("p{},{},class {},{}\n", i, i % 5, i / 4,
                         i % 4 == 0   ? "val"
                         : i % 4 == 1 ? "test"
                                      : "train");
  write("many/nodes.csv", nodes);
  write("many/edges.csv", "source,target\np0,p1\np1,p2\np2,p3\n");
  must(
      run("train cora --quiet --out run data.kind=csv data.path=many data.label_column=label "
          "data.split_column=split train.steps=2"));
  const auto refused = [&](const Strings& names, const std::string& part) {
    std::string list;
    for (const std::string& name : names)
      list += fmt::format("{}\"{}\"", list.empty() ? "" : ", ", name);
    const Finished finished = run(Words{"eval", "run", "data.class_names=[" + list + "]"});
    check_fails(finished, {part});
    CHECK(finished.err.size() < 300);
  };
  Strings names;
  for (int i = 0; i < 7; ++i) names.push_back(fmt::format("class {}", i));
  Strings more = names;
  more.emplace_back("class 7");
  refused(more,
          "class 8 of 8 is class 7, but this model was trained on 7 classes, of which it is "
          "missing; give the data");
  std::swap(names[0], names[6]);
  refused(names,
          "has the classes class 6, class 1, class 2, class 3, class 4, ..., but this model was "
          "trained on class 0, class 1, class 2, class 3, class 4, ...; give the data");
}

TEST_CASE_FIXTURE(CommandFolder, "node tables task: classes outside all splits change nothing") {
  const auto losses = [&](const std::string& unlabeled) {
    write_clubs(*this, unlabeled);
    const Config config =
        load_config("cora", {"data.kind=csv", "data.path=" + path("clubs"), "model.dropout=0"});
    const auto task = make_task({config});
    std::vector<double> all;
    for (const Dataset* split :
         {&task->training_data(), &task->validation_data(), task->test_data()}) {
      std::vector<std::int64_t> examples(split->size());
      for (std::int64_t i = 0; i < split->size(); ++i) examples[i] = i;
      const Batch batch = split->batch(examples);
      CHECK(batch.count == split->size());
      all.push_back(task->loss(batch, {.training = true}).objective.item());
    }
    return all;
  };
  const std::vector<double> without = losses("");
  CHECK(without == losses("club 0"));
  CHECK(without == losses("club 2"));
}

TEST_CASE("node tables task: cells with commas and quotes are written in quotes") {
  const std::string name = "M\xC3\xBCller, \"A\" ";
  CHECK(csv_quoted(name) == "\"M\xC3\xBCller, \"\"A\"\" \"");
  CHECK(csv_quoted("plain text") == "plain text");
}

TEST_SUITE_END();

}  // namespace
}  // namespace tapestry
