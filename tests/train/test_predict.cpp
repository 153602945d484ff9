#include <doctest/doctest.h>

#include <cmath>
#include <map>

#include "data/table/record_stream.hpp"
#include "tests/support/papers.hpp"
#include "tests/support/pictures.hpp"
#include "tests/support/process.hpp"
#include "train/model.hpp"
#include "train/tools/predict/predict.hpp"

// Tests `tapestry predict RUN DATA`.
namespace tapestry {
namespace {

struct PredictFixture : public CommandFolder {
  Finished train(const std::string& config, const Words& more) const {
    return must(run(Words("train {} --quiet --out run", config) + more));
  }
  // Returns the records of the predictions of a file, which are delimited by commas.
  std::vector<Strings> predicted(const Words& more) const {
    const std::string text = must(run(Words("predict run") + more)).out;
    RecordStream stream(write("out", text), ',');
    std::vector<Strings> rows;
    for (StreamedRecord record; stream.next(record);) rows.push_back(record.cells);
    return rows;
  }
  double evaluated(const std::string& metric, const Words& more = {}) const {
    return Json::parse(must(run(Words("eval run --json") + more)).out)[metric].get<double>();
  }
};

std::int64_t column(const std::vector<Strings>& rows, const std::string& name) {
  const auto found = std::ranges::find(rows.front(), name);
  REQUIRE(found != rows.front().end());
  return found - rows.front().begin();
}

// Returns tickets "id,body,queue" whose words tell the queue.
std::string tickets(int count, int first = 0) {
  std::string text = "id,body,queue\n";
  for (int i = first; i < first + count; ++i)
    text += fmt::format("T{},\"{}, \"\"please\"\" {}\",{}\n", i,
                        i % 3 == 0   ? "my refund"
                        : i % 3 == 1 ? "the login"
                                     : "a crash",
                        i * 7 % 11,
                        i % 3 == 0   ? "billing"
                        : i % 3 == 1 ? "access"
                                     : "technical");
  return text;
}

const Words small_texts = Words("data.kind=text data.path=data model.width=8 data.vocabulary=270") +
                          Words("model.kind=embeddings train.steps=60 train.batch_size=16") +
                          Words("optim.learning_rate=0.05");

TEST_SUITE_BEGIN("predict");

TEST_CASE_FIXTURE(PredictFixture, "predict: texts of the validation have the accuracy of eval") {
  write("data/train.csv", tickets(60));
  write("data/val.csv", tickets(31, 60));
  train("match-reports", small_texts);
  const auto rows = predicted("data/val.csv");
  REQUIRE(rows.size() == 32);
  const std::int64_t label = column(rows, "queue"), prediction = column(rows, "prediction");
  double right = 0;
  for (const Strings& row : std::span(rows).subspan(1)) {
    right += row[label] == row[prediction];
    double sum = 0;
    for (const char* name : {"p:access", "p:billing", "p:technical"})
      sum += std::stod(row[column(rows, name)]);
    CHECK(sum == doctest::Approx(1).epsilon(1e-6));
  }
  CHECK(right / 31 == evaluated("accuracy"));
  const auto best = predicted(Words("data/val.csv --best 2"));
  CHECK(best.front() ==
        Strings{"id", "body", "queue", "prediction", "p", "prediction 2", "p 2", "unusual"});
}

TEST_CASE_FIXTURE(PredictFixture,
                  "predict: cells are copied byte for byte, and rows keep their place") {
  write("data/train.csv", tickets(60));
  train("match-reports", small_texts);
  const std::string first = "N0,  \"my \"\"refund\"\"\" ,p.1",
                    second = "N1,\"the login,\n\"\"please\"\" 4\",";
  write("new.csv", "# made by hand\nid,body,prediction\r\n" + first + "\r\n" + second +
                       "\nN2,,\nN3,short\nN4,\u6f22\u5b57\u6f22\u5b57,q\n");
  const Finished done = must(run("predict run new.csv"));
  const auto rows = predicted("new.csv");
  REQUIRE(rows.size() == 6);
  CHECK(rows[0][3] == "prediction_2");
  CHECK(contains(done.out, "\n" + first + ",billing,"));
  CHECK(contains(done.out, "\n" + second + ",access,"));
  CHECK(contains(done.out, "\nN2,,,,,,,\n"));
  CHECK(contains(done.out, "\nN3,short,,,,,,\n"));
  CHECK(rows[5].back() == "more than half of the tokens are unknown");
  check_says(done.err, {"2 examples not predicted", "line 6: the text is empty",
                        "line 7: expected 3 cells as in the first row, found 2"});
  check_refused(run("predict run data/none.csv"), {"none.csv"});
  write("other.csv", "id,text\n1,a\n");
  check_refused(run("predict run other.csv"), {"no column is named body"});
  check_refused(run("predict run new.csv --out new.csv"), {"--out"});
  check_refused(run("predict run new.csv --out a.txt"), {"--out a.txt", ".jsonl"});

  must(run("predict run new.csv --out out.jsonl"));
  const Strings lines = lines_of(read("out.jsonl"));
  REQUIRE(lines.size() == 5);
  CHECK(Json::parse(lines[1])["body"] == "the login,\n\"please\" 4");
  CHECK(Json::parse(lines[1])["prediction_2"] == "access");
  CHECK(Json::parse(lines[1])["p:access"].is_number());
  CHECK(Json::parse(lines[2])["prediction_2"].is_null());
  const Finished piped = run_program(
      {"sh", "-c", fmt::format("{} predict run - < new.csv", paths::program)}, {.folder = path()});
  CHECK(piped.out == done.out);
}

TEST_CASE_FIXTURE(PredictFixture, "predict: objects, lines and files of texts") {
  std::string objects, lines;
  for (int i = 0; i < 60; ++i) {
    const char* kind = i % 2 ? "good" : "bad";
    objects += fmt::format("{{\"data\": {{\"text\": \"a {} day {}\"}}, \"label\": \"{}\"}}\n", kind,
                           i, kind);
    lines += fmt::format("__label__{} a {} day {}\n", kind, kind, i);
    write(fmt::format("folder/{}/{}.txt", kind, i), fmt::format("a {} day {}", kind, i));
  }
  const auto trained = [&](const std::string& data) {
    fs::remove_all(path("run"));
    train("match-reports", small_texts + Words{"data.path=" + data});
  };
  write("a.jsonl", objects);
  trained("a.jsonl");
  write("new.jsonl", "{\"id\": 1.50, \"data\": {\"text\": \"a good day\"}}\n\n{\"id\": 2}\n[]\n");
  const Finished done = must(run("predict run new.jsonl"));
  const Strings out = lines_of(done.out);
  REQUIRE(out.size() == 3);
  CHECK(
      out[0].starts_with("{\"id\": 1.50, \"data\": {\"text\": \"a good day\"}, \"prediction\": "
                         "\"good\", \"p:bad\": "));
  CHECK(Json::parse(out[1])["prediction"].is_null());
  CHECK(Json::parse(out[2])["row"] == "[]");
  check_says(done.err, {"line 3: the field data.text is missing", "line 4: is no JSON object"});
  check_refused(run("predict run new.jsonl --out a.csv"), {".jsonl"});

  write("a.txt", lines);
  trained("a.txt");
  write("new.txt", "a good day\n__label__x a bad day\n\n");
  CHECK(predicted("new.txt").size() == 4);
  CHECK(predicted("new.txt")[1][1] == "good");
  CHECK(predicted("new.txt")[2][1] == "bad");

  trained("folder");
  write("new/some/day.txt", "a bad day");
  CHECK(predicted("new")[1][0] == "new/some/day.txt");
  CHECK(predicted("new")[1][1] == "bad");
}

TEST_CASE_FIXTURE(PredictFixture, "predict: the loss of each line is that of eval") {
  std::string names;
  for (int i = 0; i < 120; ++i)
    names += std::string(1 + i % 7, static_cast<char>('a' + i % 5)) + (i % 3 ? "n\n" : "k\n");
  write("names.txt", names);
  train("names", Words("data.path=names.txt model.width=8 train.steps=2"));
  const auto rows = predicted("names.txt");
  REQUIRE(rows.size() == 121);
  CHECK(rows[0] == Strings{"text", "loss", "tokens"});
  double sum = 0, count = 0;
  for (const Strings& row : std::span(rows).subspan(1)) {
    sum += std::stod(row[1]) * std::stod(row[2]);
    count += std::stod(row[2]);
    CHECK(std::stod(row[2]) == row[0].size() + 1);
  }
  CHECK(sum / count == doctest::Approx(evaluated("loss", Words("--data names.txt"))).epsilon(1e-6));
}

TEST_CASE_FIXTURE(PredictFixture, "predict: pictures have classes, or codes and an error") {
  for (int i = 0; i < 12; ++i)
    for (const char* kind : {"dark", "light"})
      write(fmt::format("all/{}/{}.png", kind, i),
            png(4, PNG_FORMAT_GRAY, std::vector<std::uint8_t>(16, kind[0] == 'd' ? i : 255 - i)));
  write("new/a.png", png(4, PNG_FORMAT_GRAY, std::vector<std::uint8_t>(16, 3)));
  write("new/b.PNG", "no picture");
  write("new/deep/c.png", png(4, PNG_FORMAT_GRAY, std::vector<std::uint8_t>(16, 250)));
  train("clothes-vit", Words("data.path=all model.patch=2 model.width=8 model.heads=2") +
                           Words("model.layers=1 train.steps=60 train.batch_size=8"));
  const Finished done = must(run("predict run new"));
  check_says(done.err, {"1 example not predicted: new/b.PNG: "});
  const auto rows = predicted("new");
  write("flawed/b.png", "no picture");
  check_fails(run("predict run flawed"), {"1 example not predicted: flawed/b.png: "});
  REQUIRE(rows.size() == 4);
  CHECK(rows[0] == Strings{"file", "prediction", "p:dark", "p:light", "unusual"});
  CHECK(rows[1][1] == "dark");
  CHECK(rows[2][1].empty());
  CHECK(rows[3][1] == "light");
  fs::remove_all(path("run"));
  train("clothes-vae", Words("data.path=all model.hidden=[4] model.latent=2 train.steps=5"));
  CHECK(predicted("new")[0] == Strings{"file", "z1", "z2", "mse"});
}

// Returns rows of a table whose price follows from size and kind.
std::string houses(int count, int first = 0) {
  std::string text = "row,size,kind,when,price\n";
  for (int i = first; i < first + count; ++i) {
    const int size = 20 + i * 37 % 200;
    text += fmt::format("{},{},{},2020-{:02}-{:02},{}\n", i,
                        i % 10 == 3 ? "" : fmt::to_string(size), i % 3 ? "flat" : "house",
                        1 + i % 12, 1 + i % 28, 1000 * (2 * size + (i % 3 ? 0 : 100)));
  }
  return text;
}

TEST_CASE_FIXTURE(PredictFixture, "predict: rows of a table have the error of eval") {
  write("data/train.csv", houses(200));
  write("data/val.csv", houses(40, 200));
  train("friedman", Words("data.kind=csv data.path=data data.label_field=price train.steps=200") +
                        Words("model.width=16 model.members=4 train.eval_every=100"));
  const auto rows = predicted("data/val.csv");
  REQUIRE(rows.size() == 41);
  double squares = 0;
  for (const Strings& row : std::span(rows).subspan(1))
    squares += std::pow(std::stod(row[column(rows, "prediction")]) - std::stod(row[4]), 2);
  CHECK(std::sqrt(squares / 40) == doctest::Approx(evaluated("rmse")).epsilon(1e-5));
  write("new.csv",
        "kind,size,when,row\ntent,100,2020-01-01,1\nflat,5000,2020-01-01,2\n"
        "flat,100,2020-01-01,3\nflat,many,2020-01-01,4\n");
  const auto others = predicted("new.csv");
  CHECK(others[1].back() == "kind: unseen category tent");
  CHECK(others[2].back() == "size: outside 20 to 219");
  CHECK(others[3].back().empty());
  CHECK(others[4][4].empty());
}

TEST_CASE_FIXTURE(PredictFixture, "predict: nodes without labels, and the rows after a series") {
  std::string nodes = "id,x,label\n", bare = "id,x\n", edges = "source,target\n";
  for (int i = 0; i < 40; ++i) {
    nodes += fmt::format("n{},{},{}\n", i, i % 2 ? 1 + i : -1 - i, i % 2 ? "odd" : "even");
    bare += fmt::format("n{},{}\n", i, i == 39 ? 999 : i % 2 ? 1 + i : -1 - i);
    edges += fmt::format("n{},n{}\n", i, (i + 2) % 40);
  }
  write("graph/nodes.csv", nodes);
  write("new/nodes.csv", bare);
  for (const char* folder : {"graph", "new"}) write(std::string(folder) + "/edges.csv", edges);
  train("cora", Words("data.kind=csv data.path=graph train.steps=60 train.batch_size=40"));
  const auto rows = predicted("new");
  REQUIRE(rows.size() == 41);
  CHECK(rows[0] == Strings{"id", "x", "prediction", "p:even", "p:odd", "unusual"});
  CHECK(rows[1][2] == "even");
  CHECK(rows[2][2] == "odd");
  CHECK(rows[40].back() == "x: outside -39 to 40");
  check_refused(run("eval run --data new"), {"no node has a label"});

  std::string series = "time,a,b\n";
  for (int i = 0; i < 300; ++i)
    series += fmt::format("{},{},{}\n", 1'577'836'800 + 3600 * i, i % 24, 5 + i % 2);
  write("series.csv", series);
  fs::remove_all(path("run"));
  train("etth1", Words("data.path=series.csv data.split=fractions model.context=48") +
                     Words("model.horizon=24 train.steps=2"));
  const auto future = predicted("series.csv");
  CHECK(future.size() == 25);
  CHECK(future[0] == Strings{"time", "a", "b"});
  CHECK(future[1][0] == "2020-01-13 12:00:00");
}

TEST_CASE_FIXTURE(PredictFixture, "predict: a C++ program gets the predictions of the command") {
  write("data/train.csv", houses(200));
  write("data/val.csv", houses(9, 200));
  train("friedman", Words("data.kind=csv data.path=data data.label_field=price train.steps=20") +
                        Words("model.width=16 model.members=4"));
  write("new.csv", houses(9, 200) + "9,,,\n");
  const auto rows = predicted("new.csv");
  const Model model(path("run"));
  CHECK(model.task() == "table");
  CHECK(model.prediction_columns() == Strings{"prediction", "unusual"});
  CHECK(model.example_fields() == Strings{"size", "kind", "when"});
  std::vector<PredictedExample> all;
  model.predict(path("new.csv"), [&](const PredictedExample& example) {
    all.push_back(example);
    return all.size() < 10;
  });
  REQUIRE(all.size() == 10);
  CHECK(all[0].place == "line 2");
  CHECK(all[0].cells == Strings(rows[1].begin(), rows[1].begin() + 5));
  CHECK(all[0].prediction == Strings(rows[1].begin() + 5, rows[1].end()));
  CHECK(contains(all[9].flaw, "expected 5 cells as in the first row, found 4"));
  CHECK(all[9].prediction.empty());
  const std::vector<Strings> one{Strings(rows[3].begin() + 1, rows[3].begin() + 4)};
  CHECK(model.predict(one).front().prediction[0] == rows[3][5]);
  CHECK_THROWS_WITH_AS(model.predict(std::vector<Strings>{{"1"}}),
                       "predict: example 0 (from 0) has 1 cells; expected 3: size, kind, when",
                       std::invalid_argument);
  CHECK_THROWS_AS(model.predict(path("none.csv"), [](auto&) { return true; }), std::runtime_error);
}

// Writes what a predictor makes of the rows of a file, x and y, as CSV.
std::string written(const std::string& path, const PredictExamples& predict) {
  const Predictor predictor{
      .input = {.fields = {{"x"}, {"y"}}}, .columns = {{"sum", true}}, .predict = predict};
  std::string text;
  predict_all(predictor, "mine", path,
              *prediction_writer(predictor.columns, false,
                                 [&](std::string_view bytes) { return text += bytes, true; }));
  return text;
}

TEST_CASE_FIXTURE(TemporaryFolder, "bug: predict: a wrong predictor ended the program") {
  const auto sums = [](std::span<const ExampleFields> rows) {
    std::vector<Prediction> all;
    for (const ExampleFields& row : rows)
      all.push_back({.cells = {fmt::format("{}", std::stof(row[0]) + std::stof(row[1]))}});
    return all;
  };
  const auto changed = [&](void (*change)(std::vector<Prediction>&)) {
    return [sums, change](std::span<const ExampleFields> rows) {
      std::vector<Prediction> all = sums(rows);
      change(all);
      return all;
    };
  };
  const std::string good = write("good.csv", "x,y\n1,2\n3,4\n"),
                    bad = write("bad.csv", "x,y\n1,2\n3\n5,six\n7,eight\n");
  CHECK(written(good, sums) == "x,y,sum\n1,2,3\n3,4,7\n");
  CHECK_ERROR(written(good, changed([](auto& all) { all.pop_back(); })),
              "task mine: TaskSpec::predictor: 1 predictions of 2 examples; expected one for each");
  CHECK_ERROR(written(good, changed([](auto& all) { all.resize(5); })), "5 predictions of 2 exam");
  for (const auto change : {+[](std::vector<Prediction>& all) { all[1].cells.clear(); },
                            +[](std::vector<Prediction>& all) { all[1].cells.resize(3); }})
    CHECK_ERROR(written(good, changed(change)), " cells for line 3; expected 1, one for each");
  CHECK(written(good, changed([](auto& all) { all[0] = {.flaw = "odd"}; })) ==
        "x,y,sum\n1,2,\n3,4,7\n");
  CHECK_ERROR(written(bad, sums), "task mine: TaskSpec::predictor: line 4: stof; return a");
  CHECK_ERROR(written(bad, [](auto) -> std::vector<Prediction> { throw InputError("wrong"); }),
              "wrong");
}

TEST_SUITE_END();

}  // namespace
}  // namespace tapestry
