#include <doctest/doctest.h>

#include "autograd/random.hpp"
#include "data/csv.hpp"
#include "tests/support/process.hpp"
#include "train/task_spec.hpp"

// A graph in nodes.csv and edges.csv: training, evaluation, and the predictions of all nodes.
namespace tapestry {
namespace {

TEST_SUITE_BEGIN("node tables task");

// Writes 60 people of three clubs, each with friends in the same club and an age that tells little.
// `unlabeled` is the label of every fifth one, which no split has.
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

TEST_CASE_FIXTURE(CommandFolder, "node tables task: init, train, eval, report, all predictions") {
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
  check_fails(run("sample runs/clubs --csv clubs/nodes.csv"),
              {"--csv clubs/nodes.csv: is a file that this command reads"});
  check_fails(run("sample runs/clubs --csv runs/clubs/metrics.jsonl"),
              {"--csv runs/clubs/metrics.jsonl: is the name of a file of a run"});
  check_fails(run("sample runs/clubs --csv p.csv --out q.csv"),
              {"not used with --csv; leave out --out and --json"});
  check_fails(run("sample runs/clubs --csv p.csv --count 3"), {"--count: not used with --csv"});

  write("clubs/nodes.csv", read("clubs/nodes.csv") + "new,33,Bonn,,\n");
  write("clubs/edges.csv", read("clubs/edges.csv") + "new,p4,1\nnew,p7,1\n");
  must("sample runs/clubs --csv predictions.csv");
  CHECK(lines_of(read("predictions.csv"))[61].starts_with("new,,,club "));
  check_fails(run("train cora --set data.path=clubs --out x"),
              {"data.kind = \"citations\": ", "clubs has nodes.csv; set data.kind = \"csv\""});
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

TEST_CASE("node tables task: cells with commas and quotes are written so that they are read back") {
  const std::string name = "M\xC3\xBCller, \"A\" ";
  CHECK(csv_quoted(name) == "\"M\xC3\xBCller, \"\"A\"\" \"");
  CHECK(csv_quoted("plain text") == "plain text");
}

TEST_SUITE_END();

}  // namespace
}  // namespace tapestry
