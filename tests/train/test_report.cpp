#include <doctest/doctest.h>
#include <fmt/ranges.h>

#include <cmath>
#include <regex>

#include "autograd/float16.hpp"
#include "tests/support/tensor_files.hpp"
#include "tests/support/verified.hpp"
#include "train/measure/quantities.hpp"
#include "train/plot/figure.hpp"
#include "train/run/lines.hpp"
#include "train/run/session.hpp"
#include "train/task_spec.hpp"
#include "train/tasks/classification.hpp"
#include "train/tools/report/comparison.hpp"
#include "train/tools/report/html.hpp"
#include "train/tools/report/page.hpp"
#include "train/trainer/evaluation.hpp"

// Tests the files of `tapestry report`; test_report_page.cpp opens them in a browser.
namespace tapestry {
namespace {

TEST_SUITE_BEGIN("report");

std::int64_t count(const std::string& text, const std::string& part) {
  std::int64_t found = 0;
  for (std::size_t at = text.find(part); at != std::string::npos; at = text.find(part, at + 1))
    ++found;
  return found;
}

TEST_CASE("report: texts are escaped") {
  CHECK(html_text("</script><b a='1' c=\"2\">&") ==
        "&lt;/script&gt;&lt;b a=&#39;1&#39; c=&quot;2&quot;&gt;&amp;");
  CHECK(html_text("\x1b[2J\n") == "\\x1b[2J\n");
  CHECK(html_table({{"a", "b"}, {"<i>", "-1.5"}}) ==
        "<div class=\"wide\"><table>\n<tr><th>a</th><th class=\"number\">b</th></tr>\n"
        "<tr><td>&lt;i&gt;</td><td class=\"number\">-1.5</td></tr>\n</table></div>\n");
  CHECK(
      html_data("x", {{"</script>", "<!--"}}) ==
      "<script type=\"application/json\" id=\"x\">{\"\\u003c/script>\":\"\\u003c!--\"}</script>\n");
}

TEST_CASE("report: base64 has the values of RFC 4648, section 10") {
  const std::vector<std::pair<std::string, std::string>> rows = {{"", ""},
                                                                 {"f", "Zg=="},
                                                                 {"fo", "Zm8="},
                                                                 {"foo", "Zm9v"},
                                                                 {"foob", "Zm9vYg=="},
                                                                 {"fooba", "Zm9vYmE="},
                                                                 {"foobar", "Zm9vYmFy"},
                                                                 {"\xff\xfe", "//4="}};
  for (const auto& [bytes, text] : rows) CHECK(base64(bytes) == text);
}

// The rows are numpy's float16.
TEST_CASE("report: float16 is rounded to nearest, ties to even") {
  const std::vector<std::pair<float, int>> rows = {
      {0.0F, 0x0000},           {-0.0F, 0x8000},          {1.0F, 0x3C00},     {-2.0F, 0xC000},
      {65504.0F, 0x7BFF},       {65519.9F, 0x7BFF},       {65520.0F, 0x7C00}, {0.1F, 0x2E66},
      {1.00048828125F, 0x3C00}, {1.00146484375F, 0x3C02}, {0x1p-14F, 0x0400}, {0x1p-24F, 0x0001},
      {0x1p-25F, 0x0000},       {0x1.8p-24F, 0x0002},     {6.09e-5F, 0x03FE}, {-INFINITY, 0xFC00}};
  for (const auto& [value, bits] : rows) {
    CAPTURE(value);
    CHECK(float16_bits(value) == bits);
  }
  CHECK((float16_bits(NAN) & 0x7FFF) > 0x7C00);
}

TEST_CASE("report: a layout places neighbors close together, and is deterministic") {
  std::vector<Edge> edges;  // two rings of twelve
  for (std::int32_t i = 0; i < 12; ++i)
    for (const std::int32_t first : {0, 12}) edges.push_back({first + i, first + (i + 1) % 12});
  const Array places = lay_out(24, edges);
  const auto at = places.values<float>();
  const auto distance = [&](std::int64_t a, std::int64_t b) {
    return std::hypot(at[2 * a] - at[2 * b], at[2 * a + 1] - at[2 * b + 1]);
  };
  double joined = 0, all = 0;
  for (const auto& [from, to] : edges) joined += distance(from, to) / 24;
  for (std::int64_t a = 0; a < 24; ++a)
    for (std::int64_t b = 0; b < 24; ++b) all += distance(a, b) / (24 * 23);
  CHECK(joined < 0.6 * all);
  for (const float value : at) CHECK((value >= 0 && value <= 1));
  const Array again = lay_out(24, edges);
  CHECK(std::ranges::equal(again.values<float>(), at));
  CHECK(lay_out(0, {}).size() == 0);
  CHECK(lay_out(1, {}).values<float>()[0] == 0.5F);
}

TEST_CASE("report: long curves are reduced to means, and keep their last point") {
  Curve curve{.metric = "loss", .split = "train"};
  for (int i = 0; i < 100; ++i)
    curve.points.push_back({double(i), double(i), double(i), double(i)});
  thin_out(curve, 30);
  CHECK(curve.points.size() == 26);
  CHECK(curve.rows_a_point == 4);
  CHECK(curve.points[1].x == 5.5);  // of 4, 5, 6 and 7
  CHECK(curve.points[1].y == 5.5);
  CHECK(curve.points.back().x == 99);
  CHECK(curve.points.back().y == 99);
}

Curve read_rows(int rows, double scale) {
  CurveReader reader;
  for (int i = 1; i <= rows; ++i)
    reader.read({.step = i, .split = "train", .values = {{"loss", scale * i}}});
  return reader.take().front();
}

TEST_CASE("report: a long curve is read to its last row in bounded memory") {
  const Curve curve = read_rows(123'457, 1);
  CHECK(curve.points.size() <= 2001);
  CHECK(curve.points.back().x == 123'457);
  CHECK(curve.points.back().y == 123'457);
  CHECK(curve.points[0].y == (1 + curve.rows_a_point) / 2.0);
  for (std::size_t i = 1; i < curve.points.size(); ++i)
    CHECK(curve.points[i].x > curve.points[i - 1].x);
}

TEST_CASE("bug: report: seeds with other lengths had no curve, and with other best steps no test") {
  const std::vector<Curve> bands = joined({{read_rows(1990, 1)}, {read_rows(2010, 3)}});
  REQUIRE(bands.size() == 1);
  CHECK(bands[0].seeds == 2);
  CHECK(bands[0].points.size() > 900);
  CHECK(bands[0].points[0].low == 1.5);  // of rows 1 and 2
  CHECK(bands[0].points[0].y == 3);
  CHECK(bands[0].points[0].high == 4.5);
  CHECK(bands[0].points.back().x == 2010);
  const auto tested = [](double step, double loss) {
    return std::vector<Curve>{
        {.metric = "loss", .split = "test", .points = {{step, loss, loss, loss}}}};
  };
  const std::vector<Curve> tests = joined({tested(90, 1), tested(80, 2), tested(60, 6)});
  REQUIRE(tests[0].points.size() == 1);
  CHECK(tests[0].points[0].y == 3);
  CHECK(tests[0].points[0].low == 1);
  CHECK(tests[0].points[0].high == 6);
}

TEST_CASE_FIXTURE(RunFixture, "bug: report: a folder of seeds showed the metrics of the first") {
  must_train("vae", "seeds", "--seeds 3 train.steps=10");
  fs::create_directory(path("seeds/seed-4"));  // has just begun
  std::vector<double> tests;
  for (const char* seed : {"seed-1", "seed-2", "seed-3"})
    for (const Json& line : metrics("seeds/" + std::string(seed)))
      if (line["split"] == "test") tests.push_back(line["loss"]);
  REQUIRE(tests.size() == 3);
  check_says(report_of({path("seeds")}),
             {fmt::format("{:.5g} ± {:.2g}", estimate_of(tests).mean, estimate_of(tests).deviation),
              "3 seeds: finished, 10 steps", "This is the model of"});
}

TEST_CASE("bug: report: a memory's table counted ages without queries as wrong") {
  const RecallByAge remembered{
      .shares = {1, 0, 0, 0.5, 0, 0, 0, 1}, .asked = {4, 0, 0, 2, 0, 0, 0, 3}, .chance = 0.25};
  const ReportSection section = section_of({{"a", remembered}, {"b", remembered}});
  check_says(section.data.dump(), {R"({"name":"b","color":1,"points":[[0,1.0],[3,0.5],[7,1.0]]})",
                                   R"("points":[[0,0.25],[7,0.25]])"});  // and the chance
  check_says(section.fallback, {"<td class=\"number\">1.000</td><td class=\"number\">1.000</td>"});
}

TEST_CASE_FIXTURE(RunFixture, "bug: report: infinite numbers of one model prevented the page") {
  must_train("vae", "vae", "train.steps=2");
  must_train("toy", "toy", "train.steps=2");
  for (const std::string& path : {best("vae"), this->checkpoint("vae")}) {
    const auto checkpoint = load_checkpoint(path);
    const Config config = resolved_config(checkpoint.config, path, {});
    const std::unique_ptr<Task> task = make_task(checkpoint, config, false);
    for (Parameter* parameter : task->model().parameters()) {
      Array huge = Array::full(parameter->value().shape(), 1e30);
      parameter->tensor = huge;
    }
    save_weights([&](const auto& parts) { write_file_atomically(path, parts); }, *task, config);
  }
  fs::remove(this->path("vae/metrics.jsonl"));  // of the weights before
  check_says(report_of({this->path("vae"), this->path("toy")}),
             {"<h2>Not shown", "data-show=\"attention\""});
}

TEST_CASE_FIXTURE(RunFixture, "report: the first sentence describes the run") {
  const std::vector<std::pair<std::string, std::string>> rows = {
      {"text", "A character-level transformer language model: 1 layer × 16, "},
      {"toy", "A character-level transformer trained on the toy task sort: 1 layer × 16, "},
      {"vae", "A variational autoencoder of images with 2 latent dimensions, "}};
  for (const auto& [config, sentence] : rows) {
    must_train(config, config, "train.steps=1");
    const TrainedModel trained = load_trained(path(config), {}, false);
    std::int64_t parameters = 0;
    for (const Parameter* parameter : trained.task->model().parameters())
      parameters += parameter->value().size();
    check_says(report_of({path(config)}),
               {fmt::format("<p>{}{} parameters.</p>", sentence, count_text(parameters))});
  }
}

TEST_CASE_FIXTURE(RunFixture, "report: several runs have the results of compare") {
  for (const std::string steps : {"10", "40"})
    must_train("toy", steps, "--seeds 3 train.steps=" + steps);
  const Strings folders = {path("10"), path("40")};
  const std::vector<RunGroup> groups = read_groups(folders);
  const auto loss = difference_of(groups[0], groups[1], "loss");
  REQUIRE(loss);
  REQUIRE(loss->outcome == FigureDifference::Outcome::differs);
  check_says(report_of(folders), {"Comparison of the last evaluations",
                                  interval_text({.value = loss->value, .margin = *loss->margin},
                                                decimals_of(*loss->margin)),
                                  "significantly lower (better)"});
  must_train("toy", "alone", "train.steps=10");
  check_says(report_of({folders[0], path("alone")}),
             {outcome_name(FigureDifference::Outcome::one_run)});
  must_train("text", "other", "train.steps=10");  // nothing can be said of single runs
  CHECK(report_of({path("alone"), path("other")}).find("Comparison of the last evaluations") ==
        std::string::npos);
}

TEST_CASE("report: a confusion matrix has targets in rows, and their accuracy") {
  const float logits[] = {2, 0, 0, 0, 1, 0, 3, 0, 0, 0, 0, 1, 0, 5, 0};
  const ClassPredictions all =
      class_predictions(Array::of(std::vector<float>(std::begin(logits), std::end(logits)), {5, 3}),
                        Array::of(std::vector<std::int32_t>{0, 0, 1, ignored_target, 1}, {5}));
  REQUIRE(all.size() == 4);
  CHECK(all[2].example == 2);
  CHECK(all[2].probability == doctest::Approx(std::exp(3) / (std::exp(3) + 2)));
  const TablePanel panel = confusion_matrix(all, {"a", "b", "c"});
  CHECK(panel.rows == std::vector<Strings>{{"Target ↓ Prediction →", "a", "b", "c", "accuracy"},
                                           {"a", "1", "1", "0", "0.500"},
                                           {"b", "1", "1", "0", "0.500"},
                                           {"c", "0", "0", "0", ""}});
  check_says(section_of(panel).fallback, {"<td class=\"number\" style=\"--share: 0.500\">1</td>"});
  CHECK(confusion_matrix(all, Strings(41, "many")).rows[1] == Strings{"many", "0.500"});
  CHECK_ERROR(confusion_matrix(all, {"a"}), "confusion_matrix: example ", " the prediction 1",
              "; expected classes below 1, the number of class names");
  ClassPredictions sorted = all;
  sort_errors_first(sorted);
  std::vector<std::int64_t> order;
  for (const ClassPrediction& one : sorted) order.push_back(one.example);
  CHECK(order == std::vector<std::int64_t>{2, 1, 0, 4});  // of 0.91 and 0.58, then the targets
}

TEST_CASE_FIXTURE(TemporaryFolder,
                  "report: classifiers have the confusion matrix of their evaluation") {
  const std::vector<Words> configs = {
      "clothes-vit data.training_images=100 data.test_images=300 model.layers=1 model.heads=2 "
      "model.width=16 model.patch=7 train.steps=20",
      "karate train.steps=2", "graphs data.held_back=60 train.steps=3 train.batch_size=8"};
  for (const Words& config : configs) {
    CAPTURE(config.front());
    const std::string run = path(config.front());
    REQUIRE(tapestry_run(Words("train --quiet --out {}", run) + config).status == 0);
    Strings eval = {"eval", run, "--json"};
    if (config.front() == "clothes-vit") eval.emplace_back("--test");
    const Json evaluated = Json::parse(tapestry_run(eval).out);
    TrainedModel trained = load_trained(run, {}, true);
    const ReportPanels panels = spec_of(trained.config).panels.show(*trained.task);
    const auto& matrix = std::get<TablePanel>(panels.at(1));
    double right = 0, all = 0;
    for (std::size_t row = 1; row < matrix.rows.size(); ++row)
      for (std::size_t column = 1; column < matrix.rows.size(); ++column) {
        const double count = std::stod(matrix.rows[row][column]);
        all += count;
        right += row == column ? count : 0;
      }
    CHECK(right / all == doctest::Approx(evaluated["accuracy"].get<double>()));
  }
}

TEST_CASE("report: forecasts are compared with the last value and the last season") {
  const ForecastWindows windows{.names = {"a"},
                                .season = 2,
                                .context = 2,
                                .of_series = 1,
                                .values = Array::of(std::vector<float>{1, 2, 3, 4, 5}, {5, 1}),
                                .origins = {2},
                                .forecasts = Array::of(std::vector<float>{3, 4, 6}, {1, 3, 1})};
  // Targets 3, 4, 5; the last value is 2, the last season 1, 2.
  check_says(section_of(windows).fallback,
             {"of the last 2 steps (seasonal naive)",
              "<td>a</td><td class=\"number\">0.3333</td><td class=\"number\">2</td>"
              "<td class=\"number\">2.667</td>"});
}

TEST_CASE("bug: report: one wrong pair was called correct") {
  const auto caption = [](double score) {
    const TranslatedPair pair{.source = {"a"},
                              .prediction = {"b", "end"},
                              .score = score,
                              .alignments = Array::full({1, 2, 1}, 1)};
    return section_of(Translations{.of = 1, .best = {pair}}).caption;
  };
  CHECK(caption(0.5).find("are right") == std::string::npos);
  CHECK(caption(1).find("are right") != std::string::npos);
}

TEST_CASE_FIXTURE(RunFixture, "bug: report: samples longer than the limit of a line were lost") {
  const TemporaryFolder folder;
  must(tapestry_run(
      "train graphs --quiet --out {} data.least_nodes=200 data.most_nodes=300 data.examples=40 "
      "data.held_back=12 train.steps=4 train.eval_every=2 train.batch_size=2 train.samples=true",
      folder.path("run")));
  CHECK(!read_samples(Run(folder.path("run"))).empty());
}

TEST_CASE_FIXTURE(RunFixture,
                  "bug: sessions: the partial line of a killed process was joined to the next") {
  must_train("toy", "run", "train.steps=4");
  const Run run(path("run"));
  const std::string whole = read_bytes(run.sessions());
  std::ofstream(run.sessions()) << whole.substr(0, whole.size() - 12);
  must_train("toy", "run", "train.steps=6 optim.decay_steps=40 --resume");
  const std::vector<Session> sessions = read_sessions(run);
  REQUIRE(sessions.size() == 2);
  CHECK(!sessions[0].end);
  CHECK(sessions[1].from_step == 4);
}

TEST_CASE_FIXTURE(RunFixture,
                  "report: a page of a run, of seeds or of several runs works offline") {
  must_train("text", "text", "train.samples=true --profile");
  must_train("vae", "vae");
  must_train("toy", "seeds", "--seeds 2");
  const auto report = [&](const Strings& runs) {
    Words words = "report --out " + path("page.html");
    for (const std::string& run : runs) words.push_back(path(run));
    must(tapestry_run(words));
    return read("page.html");
  };
  const std::string text = report({"text"});
  check_says(text, {"default-src 'none'", "data-show=\"attention\"", "data-show=\"samples\"",
                    "finished, 40 steps", "checksum of the data", "need JavaScript",
                    "To repeat the training", "Profile of a step", "Sessions: 1", "blocks.0",
                    "Dan Vanderkam"});
  for (const char* loads : {"src=\"http", "href=\"http", "url(", "@import", "fetch(", "eval("})
    CHECK_MESSAGE(count(text, loads) == 0, loads);
  CHECK(count(text, "'sha256-") == count(text, "<script>"));
  CHECK(text == report({"text"}));  // the same run, the same page
  check_says(report({"vae"}), {"data-show=\"latent\"", "\"decoder\"", "data:image/png;base64,"});
  const std::string seeds = report({"seeds"});
  check_says(seeds, {"\"band\":true", "\"seeds\":2"});
  const std::string several = report({"text", "vae"});
  check_says(several, {"Differences of the configs", "model.hidden", "data-show=\"latent\"",
                       "data-show=\"attention\""});
  check_prints(tapestry_run("report " + path("vae")), {"vae/report.html", "MB"});
}

TEST_CASE_FIXTURE(RunFixture, "report: names, labels and texts of a run cannot become markup") {
  const std::string evil = "</script><script>alert(1)</script><img src=x onerror=alert(2)>";
  const std::string run = "<b>&run'";
  std::string names = evil;
  for (int i = 1; i < 10; ++i) names += fmt::format(",\xe2\x80\xae{}{}", i, evil);
  must_train("vae", run, Words("data.class_names={} train.steps=2", names));
  std::ofstream(path(run + "/metrics.jsonl"), std::ios::app)
      << Json{{"step", 3}, {"split", evil}, {"elapsed_s", 1}, {evil, 1.5}}.dump() << "\n";
  std::ofstream(path(run + "/samples.jsonl"))
      << Json{{"step", 1}, {"name", evil}, {"text", evil}}.dump() << "\n";
  std::ofstream(path(run + "/profile.txt")) << evil;
  const std::string page = report_of({path(run)});
  CHECK(count(page, "alert(1)") > 10);
  for (const char* markup : {"<script>alert", "<img src=x", "<b>&run", "<b>&amp;run"})
    CHECK_MESSAGE(count(page, markup) == 0, markup);
  CHECK(count(page, "\xe2\x80\xae") == 0);  // text that is shown from right to left
}

TEST_CASE("bug: report: a page showed undefined for the translation that a model wrote") {
  const TranslatedPair pair{.source = {"a"},
                            .prediction = {"b"},
                            .source_text = "a",
                            .prediction_text = "b",
                            .reference = "c",
                            .alignments = Array::zeros({1, 1, 1})};
  const JsonValue shown =
      section_of(Translations{.split = "test", .score_name = "bleu", .of = 1, .best = {pair}})
          .data["pairs"]
          .back();
  const std::string& script = page_assets().at("translation.js").text;
  const std::regex read("pair\\.([a-z_]+)|([a-z]+_text)");
  int members = 0;
  for (std::sregex_iterator at(script.begin(), script.end(), read), end; at != end; ++at) {
    const std::string name = (*at)[1].matched ? (*at)[1] : (*at)[2];
    CHECK_MESSAGE(shown.contains(name), name);
    ++members;
  }
  CHECK(members > 8);
}

TEST_CASE_FIXTURE(RunFixture, "report: shows runs that are running, failed, killed or damaged") {
  must_train("toy", "run", "train.steps=12");
  const std::string folder = path("run"), sessions = folder + "/sessions.jsonl";
  const std::string good = read_bytes(sessions);
  check_says(report_of({folder}), {"finished, 12 steps"});
  std::ofstream(sessions) << lines_of(good)[0] << "\n";  // without its end
  check_says(report_of({folder}), {"finished, 12 steps"});
  std::ofstream(folder + "/metrics.jsonl", std::ios::app)
      << R"({"step": 15, "split": "train", "loss": 3.5, "elapsed_s": 9})"
      << "\nno json\n";
  replace_in(folder + "/config.toml", "steps = 12", "steps = 40");
  check_says(report_of({folder}), {"step 15 of 40", "metrics.jsonl: damaged lines: 1"});
  std::ofstream(sessions)
      << good.substr(0, good.find('\n') + 1)
      << R"({"ended": "now", "step": 11, "how": "failed: <NaN>", "tensor_bytes": 1})"
      << "\n{\n[]\n";
  check_says(report_of({folder}), {"failed: &lt;NaN&gt; at step 15 of 40"});
  {
    const RunLock lock(Run(folder), RunLock::Folder::find);
    check_says(report_of({folder}), {"is being trained"});
  }
  std::ofstream(folder + "/best.safetensors") << "damaged";
  check_says(report_of({folder}), {"<h2>Not shown", "best.safetensors", "<h2 id=\"curves\""});
  fs::remove(folder + "/best.safetensors");
  fs::remove(folder + "/checkpoint.safetensors");
  check_says(report_of({folder}), {"<h2 id=\"curves\""});
  fs::remove(folder + "/metrics.jsonl");
  check_says(message_of([&] { report_of({folder}); }), {"run: is not a run", "metrics.jsonl"});
  check_says(message_of([&] { report_of({folder + "-none"}); }), {"run-none: no such run"});
}

TEST_CASE_FIXTURE(RunFixture, "report: without its data a run has its curves and a message") {
  must_train("text", "run", "train.steps=4");
  fs::remove(path("story.txt"));
  const std::string page = report_of({path("run")});
  check_says(page, {"<h2>Not shown", "story.txt", "data-show=\"curves\""});
}

TEST_CASE_FIXTURE(RunFixture, "report: --out never replaces a file that a run needs") {
  must_train("toy", "run", "train.steps=2");
  fs::create_symlink(best("run"), path("link.html"));
  for (const std::string& name : Words(
           "run/metrics.jsonl run/config.toml run/best.safetensors run/sessions.jsonl link.html")) {
    const std::string before = read(name);
    CHECK(tapestry_run("report {} --out {}", path("run"), path(name)).status == 2);
    CHECK(read(name) == before);
  }
}

// --- other files of reports than metrics and checkpoints ---

TEST_CASE_FIXTURE(RunFixture, "sessions: each process records its start, end and command") {
  must_train("toy", "run", "train.steps=10");
  must_train("toy", "run", "train.steps=20 optim.decay_steps=40 --resume");
  const std::vector<Session> sessions = read_sessions(Run(path("run")));
  REQUIRE(sessions.size() == 2);
  const std::regex time("20[0-9]{2}-[01][0-9]-[0-3][0-9]T[0-2][0-9]:[0-5][0-9]:[0-5][0-9]Z");
  for (const Session& session : sessions) {
    CHECK(std::regex_match(session.began, time));
    REQUIRE(session.end);
    CHECK(std::regex_match(session.end->at, time));
    CHECK(session.end->how == "done");
    CHECK(session.threads >= 1);
    CHECK(session.ranks == 1);
    CHECK(!session.processor.empty());
    CHECK(std::ranges::count(session.command, "train") == 1);
  }
  CHECK(sessions[0].from_step == 0);
  CHECK(sessions[0].end->step == 10);
  CHECK(sessions[1].from_step == 10);
  CHECK(sessions[1].end->step == 20);
}

TEST_CASE_FIXTURE(RunFixture, "sessions: a training that diverges records it") {
  const Finished failed =
      train("toy", "run", "optim.learning_rate=900 optim.schedule=constant optim.clip_norm=0");
  const std::vector<Session> sessions = read_sessions(Run(path("run")));
  REQUIRE(sessions.size() == 1);
  REQUIRE(sessions[0].end);
  CHECK(sessions[0].end->how.starts_with(failed.status == 0 ? "done" : "failed: "));
}

TEST_CASE_FIXTURE(RunFixture, "config: a run's config has the origin of each setting") {
  must_train("toy", "run", "train.steps=3");
  const std::string text = read("run/config.toml");
  check_says(text, {"steps = 3", "# --set\n", "width = 16", "toy.toml:9:1\n"});
  CHECK(!contains(text, "# default"));
  const Config config = resolved_config(text, "config.toml", {});
  CHECK(config.toml() == load_checkpoint(checkpoint("run")).config);
}

TEST_CASE_FIXTURE(
    RunFixture, "samples: are recorded at evaluations, and removed if a run resumes before them") {
  must_train("text", "run", "train.samples=true train.steps=20");
  const Run run(path("run"));
  const std::vector<KeptSample> first = read_samples(run);
  REQUIRE(!first.empty());
  CHECK(first.front().step == 10);
  CHECK(first.front().name == "samples");
  CHECK(!first.front().text.empty());
  std::ofstream(run.samples(), std::ios::app)
      << R"({"step": 25, "name": "samples", "text": "of a process that was killed"})"
      << "\nhalf";
  must_train("text", "run", "train.samples=true train.steps=30 --resume");
  for (const KeptSample& sample : read_samples(run)) {
    CHECK(sample.step != 25);
    CHECK(sample.text != "of a process that was killed");
  }
  must_train("text", "alone", "train.steps=30");
  CHECK(!fs::exists(Run(path("alone")).samples()));
  check_same_checkpoint(checkpoint("run"), checkpoint("alone"));
}

}  // namespace
}  // namespace tapestry
