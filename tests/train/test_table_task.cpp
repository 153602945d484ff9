#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>

#include "autograd/random.hpp"
#include "tests/support/process.hpp"
#include "train/inspect/report_panels.hpp"
#include "train/run/run.hpp"
#include "train/tasks/tables/table_metrics.hpp"
#include "train/tasks/tables/table_task.hpp"

// Tests the task `table`: its metrics, and what its reports show.
namespace tapestry {
namespace {

TEST_SUITE_BEGIN("table task");

constexpr double exact = 1e-9;

ScoredExamples shares_of(const std::vector<std::vector<double>>& counts,
                         const std::vector<std::int32_t>& targets) {
  ScoredExamples scored{.targets = targets};
  for (const auto& row : counts) {
    double sum = 0;
    for (const double count : row) sum += count;
    for (const double count : row) scored.scores.push_back(count / sum);
  }
  return scored;
}

Metrics classification_metrics_of(const ScoredExamples& scored) {
  Metrics metrics;
  add_classification_metrics(scored, metrics);
  return metrics;
}

void check_near(double value, double wanted) {
  CHECK(std::abs(value - wanted) <= exact * std::max(1.0, std::abs(wanted)));
}

// Tenths of the second of two classes, many of them equal.
const std::vector<double> tenths{6, 3, 0, 0, 8, 9, 6, 7, 5, 9, 8, 0,  9,  0, 7,
                                 2, 9, 5, 3, 4, 0, 1, 7, 6, 6, 4, 10, 10, 7, 7};
const std::vector<std::int32_t> two{0, 1, 1, 0, 1, 1, 1, 0, 0, 1, 1, 0, 1, 0, 1,
                                    0, 1, 0, 1, 0, 0, 1, 0, 1, 1, 1, 1, 0, 1, 1};
// Scores of four classes, and their targets.
const std::vector<std::vector<double>> four{
    {11, 8, 19, 4},   {18, 2, 12, 12}, {18, 6, 18, 13}, {17, 4, 15, 18},  {1, 7, 13, 3},
    {10, 12, 15, 18}, {8, 9, 10, 19},  {4, 10, 1, 9},   {18, 12, 7, 19},  {12, 19, 1, 9},
    {16, 15, 8, 10},  {8, 11, 5, 15},  {2, 8, 6, 14},   {15, 14, 18, 18}, {4, 3, 3, 14},
    {19, 18, 13, 19}, {17, 1, 3, 17},  {2, 19, 16, 19}, {7, 3, 10, 19},   {7, 17, 8, 16},
    {5, 10, 7, 5},    {17, 16, 3, 18}, {19, 6, 9, 11},  {13, 9, 3, 18}};
const std::vector<std::int32_t> of_four{3, 2, 2, 0, 2, 3, 2, 1, 2, 0, 3, 0,
                                        2, 2, 2, 3, 0, 1, 2, 1, 3, 0, 0, 2};

// The values are those of scikit-learn 1.9: roc_auc_score, also with multi_class="ovr" and
// average="macro", brier_score_loss, balanced_accuracy_score, accuracy_score and f1_score with
// average="macro".
TEST_CASE("table: metrics of classes are those of scikit-learn") {
  std::vector<std::vector<double>> pairs;
  for (const double one : tenths) pairs.push_back({10 - one, one});
  const Metrics of_two = classification_metrics_of(shares_of(pairs, two));
  check_near(of_two.at("auc"), 0.71527777777777779);
  check_near(of_two.at("brier"), 0.23533333333333331);
  check_near(of_two.at("balanced_accuracy"), 0.69444444444444442);

  const ScoredExamples scored = shares_of(four, of_four);
  const Metrics metrics = classification_metrics_of(scored);
  check_near(metrics.at("auc"), 0.61932957393483712);
  check_near(metrics.at("brier"), 0.76016022566968056);
  check_near(metrics.at("balanced_accuracy"), 0.43333333333333329);

  const Array p = Array::of(scored.scores, {24, 4}), targets = Array::of(of_four, {24});
  check_near(accuracy(p, targets).value(), 0.33333333333333331);
  MetricSums sums;
  add_f1_counts(sums, p, targets);
  Metrics f1;
  for (const auto& [name, sum] : sums) f1[name] = sum.value();
  derive_macro_f1(f1);
  check_near(f1.at("macro_f1"), 0.38108974358974357);
}

TEST_CASE("table: the area under the curve is of classes that occur, and none of one class") {
  const std::vector<std::int32_t> targets{0, 2, 2, 0, 2, 0, 2, 1, 2, 0, 2, 0,
                                          2, 2, 2, 1, 0, 1, 2, 1, 0, 0, 0, 2};
  check_near(classification_metrics_of(shares_of(four, targets)).at("auc"), 0.7137054303720971);
  const ScoredExamples one = shares_of({{1, 3}, {2, 2}}, {1, 1});
  CHECK_FALSE(classification_metrics_of(one).contains("auc"));
}

// Two bins: (0.6, 0.7] with 0.625 and 0.75 - 0.0625, one of two right, and (0.7, 0.8] with 0.75,
// right.
TEST_CASE("table: the expected calibration error by hand") {
  const ScoredExamples scored =
      shares_of({{10, 6}, {5, 11}, {4, 12}}, {0, 0, 1});  // 0.625, 0.6875, 0.75
  const double apart = std::abs(0.625 + 0.6875 - 1) + std::abs(0.75 - 1);
  check_near(classification_metrics_of(scored).at("calibration_error"), apart / 3);
}

// The values are those of scikit-learn 1.9: root_mean_squared_error, mean_absolute_error, r2_score.
TEST_CASE("table: metrics of numbers are those of scikit-learn, in units of the target") {
  const std::vector<double> y{2.625, 3,      -4.5,   0.5,   -0.5, -2.125,
                              -0.5,  -0.875, -0.125, 3.125, 3.25, 1.25};
  const std::vector<double> predicted{3,      3.875, -4.25,  0.125, -1.375, -2.125,
                                      -1.125, -0.75, -1.125, 3.75,  4.125,  0.5};
  const double deviation = 2.5, mean = -1;
  const auto scaled = [&](std::vector<double> all) {
    for (double& one : all) one = (one - mean) / deviation;
    return Array::of(all, {std::ssize(all), 1});
  };
  MetricSums sums;
  add_regression_sums(sums, scaled(predicted), scaled(y));
  Metrics metrics;
  for (const auto& [name, sum] : sums) metrics[name] = sum.value();
  derive_regression_metrics(metrics, deviation);
  check_near(metrics.at("rmse"), 0.6454972243679028);
  check_near(metrics.at("mae"), 0.5625);
  check_near(metrics.at("r2"), 0.91921062043718837);
  CHECK(metrics.size() == 4);  // with the loss
}

// Rows in which `wide` and `kind` decide the color and the price, and `noise` says nothing.
std::string goods(int count) {
  std::string text = "wide,kind,noise,constant,color,price\n";
  Random random(3, Stream::data);
  for (int i = 0; i < count; ++i) {
    const double wide = random.uniform(), noise = random.uniform();
    const bool is_box = random.below(2) == 1;
    text +=
        fmt::format("{},{},{:.4f},7,{},{:.3f}\n", i % 11 == 5 ? "" : fmt::format("{:.4f}", wide),
                    is_box ? "box" : "bag", noise, (wide > 0.5) != is_box ? "red" : "blue",
                    100 * wide + (is_box ? 20 : 0));
  }
  return text;
}

struct Goods : public CommandFolder {
  Goods() { write("goods.csv", goods(400)); }
  void train(const std::string& target, const std::string& more = "") {
    must(
        run("train friedman --out run --quiet data.kind=csv data.path=goods.csv model.width=16 "
            "model.members=2 model.bins=8 model.number_width=4 train.steps=150 "
            "train.eval_every=50 train.batch_size=64 data.label_field=" +
            target +
            (target == "color" ? " data.ignore_columns=[\"price\"]"
                               : " data.ignore_columns=[\"color\"]") +
            more));
  }
  ReportPanels panels() {
    const TrainedModel trained = load_trained(path("run"), {}, true);
    return task_registry().at("table").panels.show(*trained.task);
  }
};

TablePanel panel_named(const ReportPanels& panels, const std::string& title) {
  for (const ReportPanel& panel : panels)
    if (const auto* table = std::get_if<TablePanel>(&panel); table && table->title == title)
      return *table;
  FAIL("no panel " << title);
  return {};
}

TEST_CASE_FIXTURE(Goods, "table: a report of classes shows importance, errors and calibration") {
  train("color");
  const ReportPanels panels = this->panels();
  const TablePanel importance = panel_named(panels, "Permutation importance");
  REQUIRE(importance.rows.size() == 2 + 3);  // the constant column is not read
  CHECK(importance.rows[1][0] == "(none)");
  CHECK(importance.rows[4][0] == "noise");
  for (const std::size_t row : {2, 3}) {  // the interval of a column that matters is above 0
    CHECK(std::stod(importance.rows[row][2]) > 0);
    CHECK(std::stod(importance.rows[row][4]) < std::stod(importance.rows[1][4]));
  }
  CHECK(std::stod(importance.rows[4][1]) < 0.2 * std::stod(importance.rows[3][1]));
  const auto rows = Json::parse(run("eval run --test --json").out);
  const double accuracy = rows["accuracy"];
  CHECK(std::stod(importance.rows[1][4]) == doctest::Approx(accuracy).epsilon(1e-3));

  const TablePanel errors = panel_named(panels, "Errors by column");
  std::map<std::string, double> of_column;
  for (const Strings& row : std::span(errors.rows).subspan(1))
    of_column[row[0]] += std::stod(row[2]);
  CHECK(of_column.size() == 3);
  for (const auto& [column, count] : of_column)
    check_says(importance.caption, {fmt::format("{} rows of the test split", count)});
  const auto is_missing = [](const Strings& row) { return row[1] == "missing"; };
  CHECK(std::ranges::count_if(errors.rows, is_missing) == 1);
  CHECK(panel_named(panels, "Calibration").rows.size() > 1);
  CHECK(panel_named(panels, "Confusion matrix").rows.size() == 3);
}

TEST_CASE_FIXTURE(Goods, "table: a report of numbers shows predicted and true values") {
  train("price");
  const ReportPanels panels = this->panels();
  const TablePanel values = panel_named(panels, "Predicted and true values");
  REQUIRE(values.rows.size() == 1 + 8);
  double count = 0;
  for (std::size_t i = 1; i < values.rows.size(); ++i) {
    double of_row = 0;
    for (std::size_t j = 1; j <= 8; ++j) of_row += std::stod(values.rows[i][j]);
    CHECK(of_row == std::stod(values.rows[i][9]));
    count += of_row;
  }
  check_says(values.caption, {fmt::format("{} rows", count)});
  CHECK(panel_named(panels, "Permutation importance").rows[2][0] == "wide");
}

TEST_CASE_FIXTURE(Goods, "table: class weights need classes, and an unknown class is named") {
  const Finished refused =
      run("train friedman --out w data.kind=csv data.path=goods.csv data.label_field=price "
          "data.class_weights=balanced");
  CHECK(refused.status == 2);
  check_says(refused.err, {"data.class_weights", "the target is a number; leave out this key"});
  const Finished unknown =
      run("train friedman --out w data.kind=csv data.path=goods.csv data.label_field=color "
          "data.class_names=[\"red\",\"green\"]");
  CHECK(unknown.status == 2);
  check_says(unknown.err, {"data.class_names", "\"blue\" is not one of the classes red, green"});
}

TEST_CASE_FIXTURE(Goods, "bug: doctor compared each target with one member of an ensemble") {
  const Finished done =
      run("doctor friedman --json data.kind=csv data.path=goods.csv data.label_field=color "
          "data.ignore_columns=[\"price\"] model.width=16 model.members=3 train.batch_size=64");
  CHECK_MESSAGE(done.status == 0, done.out);
  check_says(done.out, {"initial loss"});
}

TEST_CASE_FIXTURE(Goods, "table: init names the setting that decides what the target is") {
  std::string text = "x,target\n";
  for (int i = 0; i < 100; ++i) text += fmt::format("{},{}\n", 0.5 * i, i % 7);
  write("seven.csv", text);
  const Finished asked = run("init seven.csv --label target");
  CHECK(asked.status == 2);
  check_says(asked.err, {"7 different integers", "set data.target to \"class\" or \"number\""});
  write("one.csv", "x,price\n1,2\n");
  check_says(run("init one.csv --label price").err, {"no row is for validation; give more rows"});
}

TEST_CASE_FIXTURE(Goods, "bug: init asked whether a folder of tables without texts is of texts") {
  for (const char* name : {"rows/train.csv", "rows/val.csv", "rows/test.csv"})
    write(name, goods(60));
  const Finished done = must(run("init rows --label color --set model.members=1"));
  check_says(done.out, {"rows: table", "test rows              60"});
  const std::string text = "text,color\nit is very wide,red\nit is not wide,blue\n";
  for (const char* name : {"texts/train.csv", "texts/val.csv"}) write(name, text);
  check_says(run("init texts --label color --set model.kind=embeddings --out t.toml").out,
             {"texts: text-classification"});
}

TEST_CASE_FIXTURE(Goods, "table: scores have the same metrics in any batches") {
  train("color");
  const std::string one = run("eval run --json").out;
  CHECK(Json::parse(one)["auc"].get<double>() > 0.9);
  const std::string whole = run("eval run --json train.eval_batch_size=7").out;
  for (const char* metric : {"auc", "brier", "calibration_error", "balanced_accuracy"})
    CHECK(Json::parse(whole)[metric].get<double>() ==
          doctest::Approx(Json::parse(one)[metric].get<double>()).epsilon(1e-6));
}

TEST_CASE_FIXTURE(CommandFolder, "bug: tables: each time was read in a format of its own") {
  const auto visits = [](const char* last) {
    std::string text = "when,visits\n";
    for (int i = 1; i <= 40; ++i)
      text += fmt::format("{:02}/{:02}/2020,{}\n", 1 + i % 12, 1 + i % 9, i * 7 % 23 + 0.5);
    return text + last;
  };
  const Words data = Words("train friedman --quiet --set data.kind=csv data.path=visits.csv") +
                     Words("data.label_field=visits train.steps=1 model.width=8 --out run");
  write("visits.csv", visits(""));
  check_refused(run(data), {"column when: \"02/02/2020\" is a time in the formats \"%d/%m/%Y\" and",
                            "data.time_format"});
  must(run(data + Words{"data.time_format=%m/%d/%Y"}));
  write("new.csv", "when\n01/02/2020\n25/02/2020\n2020-01-02\n");
  const Finished done = must(run("predict run new.csv"));
  check_says(done.err, {"2 examples not predicted: line 3: when: \"25/02/2020\" is no time",
                        "line 4: when: \"2020-01-02\" is no time"});
  fs::remove_all(path("run"));
  write("visits.csv", visits("28/03/2020,1\n"));  // tells that the day is first
  must(run(data));
  CHECK(must(run("predict run new.csv")).err.find("line 3") == std::string::npos);
}

TEST_SUITE_END();

}  // namespace
}  // namespace tapestry
