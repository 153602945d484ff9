#include <doctest/doctest.h>

#include <cmath>

#include "layers/models/vae.hpp"
#include "tests/support/browser.hpp"
#include "tests/support/labels.hpp"
#include "tests/support/run_fixture.hpp"
#include "train/run/run.hpp"

// Tests reports in Debian's chromium: by mouse, finger and keyboard, on a desktop and on a phone,
// in light and dark, and without scripts.
namespace tapestry {
namespace {

// The report of a small training, open in a browser; empty without a browser.
class OpenReport {
 public:
  OpenReport(const std::string& config, const Strings& more = {}) {
    const std::string run = folder_.path("run"), page = folder_.path("page.html");
    Strings words = {
        "train", config, "--quiet", "--out", run, "train.eval_every=10", "train.log_every=2"};
    words.insert(words.end(), more.begin(), more.end());
    must(tapestry_run(words));
    must(tapestry_run({"report", run, "--out", page}));
    browser.resize(1280, 900);
    browser.open(page);
    browser.wait_for("document.documentElement.classList.contains('shown')");
  }
  ~OpenReport() {
    for (const std::string& message : browser.console()) CHECK_MESSAGE(message.empty(), message);
  }

  std::string run() const { return folder_.path("run"); }
  std::string page() const { return folder_.path("page.html"); }
  const TemporaryFolder& folder() const { return folder_; }

  // Returns the data-z attribute of a part, which is set for tests.
  std::string kept(const std::string& part, const std::string& name) {
    const Json value =
        browser.run("return document.querySelector(arguments[0]).dataset[arguments[1]]",
                    Json::array({live(part), name}));
    return value.is_string() ? value.get<std::string>() : "";
  }
  static std::string live(const std::string& part) { return "[data-show=" + part + "] > .live"; }

  // Checks that every part has its scripts, and none is wider than the window, on a desktop and on
  // a phone.
  void check_fits() {
    for (const auto& [width, phone] : {std::pair{1280, false}, std::pair{375, true}})
      for (const bool dark : {false, true}) {
        CAPTURE(width);
        browser.resize(width, 800, phone);
        browser.prefer_dark(dark);
        browser.wait_for("innerWidth === " + std::to_string(width));
        CHECK(browser.run("return document.documentElement.scrollWidth").get<int>() <= width);
        CHECK(browser.run("return Array.from(document.querySelectorAll('.facts')).filter(table => "
                          "table.scrollWidth > table.clientWidth).length") == 0);
        CHECK(browser.run("return document.querySelectorAll('[data-show]:not(.is-live)').length") ==
              0);
        const Json paper = browser.run(
            "return Number(getComputedStyle(document.body).backgroundColor.match(/[0-9]+/)[0])");
        CHECK((paper.get<int>() < 128) == dark);
      }
    browser.resize(1280, 900);
    browser.prefer_dark(false);
  }

  Browser browser;

 private:
  TemporaryFolder folder_;
};

// Returns why reports cannot be opened here; empty if they can.
std::string what_keeps_from_looking() {
  if (!has_browser() || *paths::emulator) return "there is no chromium with chromium-driver";
  try {
    const Browser first;
  } catch (const std::runtime_error& error) {
    return fmt::format("chromium does not start here: {}", error.what());
  }
  return "";
}

bool can_look() {
  static const std::string why = what_keeps_from_looking();
  if (!why.empty()) left_out(why);
  return why.empty();
}

Strings small_and(const std::string& task, Strings more) {
  const Strings keys = small(task);
  more.insert(more.begin(), keys.begin(), keys.end());
  return more;
}

TEST_SUITE_BEGIN("page");

TEST_CASE("page: an autoencoder's decoder draws the program's pictures") {
  if (!can_look()) return;
  for (const char* channels : {"model.channels=[]", "model.channels=[4,6]"}) {
    CAPTURE(channels);
    OpenReport report("clothes-vae", {"data.training_images=200", "data.test_images=60",
                                      "model.hidden=[32]", "train.steps=60", channels});
    TrainedModel trained = load_trained(report.run(), {}, false);
    auto& model = dynamic_cast<Vae&>(trained.task->model());
    for (const std::vector<float>& z :
         {std::vector<float>{0, 0, 0}, {1.5F, -0.7F, 0.3F}, {-3, 2, 4}, {40, 0, -40}}) {
      const Json drawn = report.browser.run(
          "return Array.from(document.querySelector(arguments[0]).decode(Float32Array.from("
          "arguments[1])))",
          Json::array({OpenReport::live("latent"), z}));
      const Array image = model.expected_image(Array::of(z, {1, 3})).value();
      REQUIRE(drawn.size() == 28 * 28);
      double farthest = 0;
      for (std::size_t i = 0; i < drawn.size(); ++i) {
        const double wanted = 255 * std::clamp(image.values<float>()[i], 0.0F, 1.0F);
        farthest = std::max(farthest, std::abs(drawn[i].get<double>() - wanted));
      }
      CHECK(farthest <= 1);
    }
  }
}

TEST_CASE("page: the latent point is dragged, the cloud is rotated, and images are chosen") {
  if (!can_look()) return;
  OpenReport report("clothes-vae", {"data.training_images=200", "data.test_images=60",
                                    "model.hidden=[16]", "train.steps=40"});
  Browser& browser = report.browser;
  const auto z = [&] { return report.kept("latent", "z"); };
  const auto picture = [&] {
    return browser.run("return document.querySelector('.latent .side canvas').toDataURL()")
        .get<std::string>();
  };
  browser.click(".latent .tools button");  // the center, with the marker in the middle
  const std::string centre = z();
  browser.drag(".latent canvas.front", {0.9, 0.9}, {0.7, 0.8});  // the background, which rotates
  CHECK(z() == centre);
  browser.run("document.querySelector('.latent canvas.front').scrollIntoView({block: 'center'})");
  const std::string before = picture();
  browser.keys(".latent canvas.front", std::string(key_shift) + key_right + key_right + key_up);
  CHECK(z() != centre);
  browser.run("document.querySelector('.latent .sliders input').focus()");
  browser.keys(".latent .sliders input", key_home);
  const std::string at_the_side = z();
  CHECK(at_the_side != centre);
  browser.wait_for("new Promise(requestAnimationFrame)");
  CHECK(picture() != before);
  browser.click(".latent .pair:nth-child(5)");
  CHECK(z() != at_the_side);
  CHECK(browser.run("return document.querySelectorAll('.latent .pair[data-end]').length")
            .get<int>() >= 1);
  browser.click(".latent .row button:nth-child(4)");
  CHECK(browser.run("return document.querySelectorAll('.latent .row button').length") == 9);
  report.check_fits();
}

TEST_CASE("page: the marker follows the pointer, and a finger") {
  if (!can_look()) return;
  OpenReport report("clothes-vae", {"data.training_images=200", "data.test_images=60",
                                    "model.hidden=[16]", "model.latent=2", "train.steps=40"});
  Browser& browser = report.browser;
  for (const bool phone : {false, true}) {
    browser.resize(phone ? 375 : 1280, 900, phone);
    browser.open(report.page());
    browser.wait_for("document.documentElement.classList.contains('shown')");
    browser.drag(".latent canvas.front", {0.5, 0.5}, {0.7, 0.3});
    const std::string there = report.kept("latent", "z");
    browser.drag(".latent canvas.front", {0.7, 0.3}, {0.3, 0.6});
    CHECK(report.kept("latent", "z") != there);
  }
}

TEST_CASE_FIXTURE(TemporaryFolder,
                  "page: shows a model's attention, predictions, samples and curves") {
  if (!can_look()) return;
  OpenReport report("shakespeare-char",
                    {"data.path=" + write("story.txt", story(60)), "model.layers=2",
                     "model.heads=2", "model.width=16", "model.context=24", "train.steps=40",
                     "train.batch_size=4", "train.samples=true", "optim.warmup_steps=5"});
  Browser& browser = report.browser;
  CHECK(report.kept("curves", "charts") == "6");
  browser.hover("[data-show=attention] .token:nth-child(4)", 0.5, 0.5);
  CHECK(report.kept("attention", "query") == "3");
  browser.keys("[data-show=attention] .token:nth-child(4)", key_right);
  CHECK(report.kept("attention", "query") == "4");
  check_says(browser.text("[data-show=attention]"),
             {"attends most to", "probabilities after", "%"});
  const std::string step = report.kept("samples", "step");
  browser.click("[data-show=samples] button");
  CHECK(report.kept("samples", "step") != step);
  const auto steps = [&] {  // the labels of the second chart, which follows the first
    return browser.run(
        "return [...document.querySelectorAll('.chart')[1].querySelectorAll("
        "'.dygraph-axis-label-x')].map(label => label.textContent)");
  };
  const Json whole = steps();
  browser.drag("[data-show=curves] .chart canvas:last-of-type", {0.3, 0.5}, {0.6, 0.5});
  CHECK(steps() != whole);
  const auto press = [&](const std::string& text) {
    browser.run(
        "[...document.querySelectorAll('[data-show=curves] button')].find(button => "
        "button.textContent === arguments[0]).click()",
        Json::array({text}));
  };
  press("Whole");
  CHECK(steps() == whole);
  press("Log steps");
  CHECK(steps() != whole);
  report.check_fits();
}

TEST_CASE("page: shows patches of images, pairs of translations and windows of forecasts") {
  if (!can_look()) return;
  {
    OpenReport report("clothes-vit",
                      {"data.training_images=100", "data.test_images=20", "model.layers=2",
                       "model.heads=2", "model.width=16", "model.patch=7", "train.steps=10"});
    CHECK(report.kept("attention", "query") == "0");  // the class token
    check_says(report.browser.text("body"), {"Confusion matrix", "most confident errors"});
    report.browser.run("document.querySelector('[data-show=attention] select').focus()");
    report.check_fits();
  }
  {
    OpenReport report("dates", {"model.layers=1", "model.heads=2", "model.width=16",
                                "train.steps=20", "train.batch_size=8"});
    CHECK(report.kept("translation", "pair") == "0");
    report.browser.click("[data-show=translation] button[data-pair='2']");
    CHECK(report.kept("translation", "pair") == "2");
    report.check_fits();
  }
  OpenReport report("waves",
                    {"model.layers=1", "model.width=8", "model.context=28", "model.horizon=3",
                     "model.patch=4", "train.steps=20", "train.batch_size=4", "data.rows=400"});
  const std::string origin = report.kept("forecast", "origin");
  report.browser.run(
      "[...document.querySelectorAll('[data-show=forecast] button')].find(b => b.textContent === "
      "'Next').click()");
  CHECK(std::stoi(report.kept("forecast", "origin")) > std::stoi(origin));
  // The table of the script has the errors that the table without scripts has.
  const Json errors = report.browser.run(
      "return ['.fallback tr:nth-child(2) td', '.forecast-errors tbody td:nth-child(4)'].map("
      "cells => [...document.querySelectorAll('[data-show=forecast] ' + cells)].map("
      "cell => Number(cell.textContent)).slice(-3))");
  REQUIRE(errors[0].size() == 3);
  for (int i = 0; i < 3; ++i)
    CHECK(errors[0][i].get<double>() == doctest::Approx(errors[1][i].get<double>()).epsilon(1e-3));
  check_says(report.browser.text(".forecast-errors"), {"Last 24 steps (seasonal naive)"});
  report.check_fits();
}

TEST_CASE("page: the color of an attention weight is the square root of its share of the largest") {
  if (!can_look()) return;
  OpenReport report("sort", small_and("toy-sequence", {"train.steps=10", "model.heads=2"}));
  const Json heads = report.browser.run(R"(
    const host = document.querySelector('[data-show=attention]');
    const {maps} = JSON.parse(document.getElementById(host.dataset.of).textContent).examples[0];
    const {shape: [, rows, columns], values} = arrayOf(maps.at(-1).weights);
    const first = [...values.slice(0, rows * columns)];
    const canvas = host.querySelector('.heads button:nth-child(2) canvas');
    const {data} = canvas.getContext('2d').getImageData(0, 0, columns, rows);
    return first.map((weight, i) => [weight, data[4 * i + 3]]);)");
  double most = 0, farthest = 0;
  for (const Json& cell : heads) most = std::max(most, cell[0].get<double>());
  for (const Json& cell : heads)
    farthest = std::max(
        farthest, std::abs(255 * std::sqrt(cell[0].get<double>() / most) - cell[1].get<double>()));
  CHECK(heads.size() >= 16);
  CHECK(farthest <= 1);
  check_says(report.browser.text("[data-show=attention]"),
             {"Query, Key", "Attention weights", "Next-token probabilities", "Target (✓)"});
}

TEST_CASE("page: runs are side by side on a wide screen, and stacked on a phone") {
  if (!can_look()) return;
  OpenReport report("sort", small_and("toy-sequence", {"train.steps=10"}));
  const std::string other = report.folder().path("other");
  REQUIRE(tapestry_run({"train", report.run() + "/config.toml", "--quiet", "--out", other, "--set",
                        "train.steps=20"})
              .status == 0);
  REQUIRE(tapestry_run({"report", report.run(), other, "--out", report.page()}).status == 0);
  Browser& browser = report.browser;
  const auto lefts_and_columns = [&](int width, bool phone) {
    browser.resize(width, 900, phone);
    browser.open(report.page());
    browser.wait_for("document.documentElement.classList.contains('shown')");
    return browser.run(
        "return [[...document.querySelectorAll('[data-show=attention]')].map(shown => "
        "shown.getBoundingClientRect().left), [...document.querySelectorAll('.stacked "
        "tr:nth-child(2) td')].slice(1, 3).map(cell => cell.getBoundingClientRect().left)]");
  };
  const Json wide = lefts_and_columns(1920, false), narrow = lefts_and_columns(375, true);
  CHECK(wide[0][1].get<double>() > 900);
  CHECK(wide[1][1].get<double>() > wide[1][0].get<double>());
  CHECK(narrow[0][1] == narrow[0][0]);
  CHECK(narrow[1][1] == narrow[1][0]);
  check_says(browser.text(".stacked"), {"finished, 10 steps", "finished, 20 steps"});
  report.check_fits();
}

TEST_CASE("page: shows the nodes of a graph and what a memory recalls") {
  if (!can_look()) return;
  {
    OpenReport report("karate", {"train.steps=20"});
    Browser& browser = report.browser;
    browser.run("document.querySelector('[data-show=graph] canvas').scrollIntoView()");
    std::string node;
    for (int i = 0; i < 100 && node.empty(); ++i) {  // a node is under one of the places
      browser.hover("[data-show=graph] canvas", 0.3 + 0.04 * (i % 10), 0.3 + 0.04 * (i / 10));
      node = report.kept("graph", "node");
    }
    CHECK(!node.empty());
    check_says(browser.text("[data-show=graph]"), {"Mr. Hi", "Officer"});
    report.check_fits();
  }
  OpenReport report("memory-query-key", small_and("recall", {"train.steps=10"}));
  check_says(report.browser.text("[data-show=chart]"), {"chance"});
  report.check_fits();
}

TEST_CASE("page: has tables and texts without scripts") {
  if (!can_look()) return;
  OpenReport report("clothes-vae", {"data.training_images=100", "data.test_images=20",
                                    "model.hidden=[8]", "train.steps=20"});
  report.browser.disable_scripts(true);
  report.browser.open(report.page());
  CHECK(report.browser.run("return document.querySelectorAll('.is-live').length") == 0);
  check_says(report.browser.text("body"), {"best validation, step 20", "finished, 20 steps",
                                           "pictures of this page need JavaScript"});
}

TEST_CASE("page: texts of a run are never executed") {
  if (!can_look()) return;
  const std::string evil = "</script><script>document.title='evil'</script><img src=x>";
  std::string names = evil;
  for (int i = 1; i < 10; ++i) names += "," + evil + std::to_string(i);
  OpenReport report("clothes-vae",
                    {"data.training_images=50", "data.test_images=20", "model.hidden=[8]",
                     "train.steps=5", "data.class_names=" + names});
  CHECK(report.browser.run("return document.title") != "evil");
  CHECK(report.browser.run("return document.querySelectorAll('img[src=x]').length") == 0);
  check_says(report.browser.text("[data-show=latent]"), {"</script>"});
  report.check_fits();
}

TEST_SUITE_END();

}  // namespace
}  // namespace tapestry
