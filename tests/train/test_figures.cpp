#include <doctest/doctest.h>

#include <cstdlib>

#include "tests/support/run_fixture.hpp"
#include "train/plot/render.hpp"

// Figures are values; what draws them gives bytes.
namespace tapestry {
namespace {

TEST_SUITE_BEGIN("figures");

const std::string png_begin = "\x89PNG\r\n\x1a\n";

TEST_CASE("figures: heat maps as SVG and PNG, with their labels") {
  const HeatMap map{.title = "it's a map",
                    .values = Array::of(std::vector<float>{0, 0.5f, 1, 0.25f, 0, 1}, {2, 3}),
                    .row_labels = {"first", "\n"},
                    .column_labels = {"a", "'", " "},
                    .row_axis = "Query",
                    .column_axis = "Key"};
  const Figure figure = HeatMaps{{{map, map}, {map}}};
  check_says(render(figure, Format::svg),
             {"<svg", "</svg>", "it's a map", "first", "↵", "␣", "Query", "Key"});
  CHECK(render(figure, Format::png).starts_with(png_begin));
}

TEST_CASE("figures: lines as SVG and PNG, with their names") {
  const LineChart chart{"it's oil", {{"history", -2, {1, 2, 3}}, {"forecast", 1, {3.5, 4}}}};
  const Figure figure = LineCharts{{chart, chart}, "hours"};
  check_says(render(figure, Format::svg),
             {"<svg", "</svg>", "it's oil", "history", "forecast", "hours"});
  CHECK(render(figure, Format::png).starts_with(png_begin));
}

TEST_CASE_FIXTURE(TemporaryFolder, "figures: text of a figure is never a command") {
  const std::string ran = path("ran");
  for (const std::string& text : {"'; system('touch " + ran + "') #", "`touch " + ran + "`",
                                  "$(touch " + ran + ")", "\nsystem('touch " + ran + "')\n"}) {
    CAPTURE(text);
    const Figure figure = LineCharts{{{text, {{text, 0, {1, 2}}}}}, text};
    CHECK(render(figure, Format::svg).find("</svg>") != std::string::npos);
    CHECK(!fs::exists(ran));
  }
}

// A folder that stands first in PATH as long as its test, with a program of ours in it.
class InsteadOf {
 public:
  InsteadOf(const std::string& program, const std::string& script) : path_(std::getenv("PATH")) {
    const std::string file = folder_.write(program, "#!/bin/sh\n" + script);
    fs::permissions(file, fs::perms::owner_all);
    setenv("PATH", (folder_.path() + ":" + path_).c_str(), 1);
  }
  ~InsteadOf() { setenv("PATH", path_.c_str(), 1); }

 private:
  const TemporaryFolder folder_{fs::temp_directory_path().string()};
  std::string path_;
};

TEST_CASE_FIXTURE(RunFixture, "bug: a path that a picture is written to could run commands") {
  for (const std::string name : {"|touch pwned;", "`touch pwned`", "$(touch pwned)",
                                 "';system(\"touch pwned\")#", "\nsystem('touch pwned')\n"}) {
    CAPTURE(name);
    must_train("toy", name, "train.steps=2 train.eval_every=0");
    const RunOptions here{.folder = path()};
    const Finished into_run = tapestry_run(Words("attention {} --prompt 020>", name), here);
    CHECK_MESSAGE(into_run.status == 0, into_run.err);
    const Finished to_path =
        tapestry_run({"attention", name, "--prompt", "020>", "--out", name + ".png"}, here);
    CHECK_MESSAGE(to_path.status == 0, to_path.err);
    CHECK(read(name + ".png").starts_with(png_begin));
    for (const std::string& ran : {path("pwned"), path(name + "/pwned")}) CHECK(!fs::exists(ran));
  }
}

TEST_CASE_FIXTURE(RunFixture, "bug: attention to dates asked for a prompt README.md leaves out") {
  const std::string run = path("dates");
  const Finished trained = tapestry_run(
      "train dates --quiet --out {} train.steps=1 train.batch_size=4 "
      "model.width=8 model.heads=2 data.held_back=10",
      run);
  REQUIRE_MESSAGE(trained.status == 0, trained.err);
  const Finished drawn = tapestry_run("attention " + run);
  CHECK_MESSAGE(drawn.status == 0, drawn.err);
  CHECK(read_bytes(run + "/attention.png").starts_with(png_begin));
}

TEST_CASE("bug: an empty picture was called a success") {
  const InsteadOf gnuplot("gnuplot", "exit 0\n");
  CHECK_THROWS_WITH(render(LineCharts{{{"a", {{"b", 0, {1, 2}}}}}, "c"}, Format::svg),
                    "gnuplot could not draw the figure; check the installation of gnuplot");
}

TEST_CASE_FIXTURE(RunFixture, "bug: a table was written beside a picture that could not be drawn") {
  must_train("toy", "run", "train.steps=2 train.eval_every=0");
  const InsteadOf gnuplot("gnuplot", "exit 1\n");
  check_fails(tapestry_run("attention {} --prompt 020> --out {}", path("run"), path("map.png")),
              {"gnuplot could not draw the figure"}, 1);
  for (const char* name : {"map.csv", "map.png", "map.svg"}) CHECK(!has(name));
}

TEST_CASE_FIXTURE(RunFixture, "figures: gnuplot ignores no signal that only Tapestry ignores") {
  must_train("toy", "run", "train.steps=2 train.eval_every=0");
  const std::string said = path("said");
  const InsteadOf gnuplot("gnuplot", "grep SigIgn /proc/self/status > " + said + "\n");
  tapestry_run("attention {} --prompt 020> --out {}", path("run"), path("map.png"));
  const std::string line = read_bytes(said);  // "SigIgn:\t0000000000000000"
  REQUIRE(line.starts_with("SigIgn:"));
  const std::uint64_t ignored = std::stoull(line.substr(line.find('\t') + 1), nullptr, 16);
  CHECK((ignored & std::uint64_t{1} << (SIGXFSZ - 1)) == 0);
}

TEST_CASE("figures: a grid of pictures is a PNG alone, with a dark pixel between them") {
  const PictureGrid grid{.images = Array::full({3, 4, 5}, 1), .columns = 2};
  CHECK(formats_of(grid) == std::vector<Format>{Format::png});
  const std::string png = render(grid, Format::png);
  CHECK(png.starts_with(png_begin));
  const auto byte = [&](std::size_t i) { return static_cast<unsigned char>(png[i]); };
  CHECK(byte(19) == 2 * (2 * 5 + 1) + 1);  // the width and the height, of the header
  CHECK(byte(23) == 2 * (2 * 4 + 1) + 1);
  CHECK_THROWS_AS(render(grid, Format::svg), std::invalid_argument);
  const auto color_type = [](const std::string& file) { return static_cast<int>(file[25]); };
  CHECK(color_type(png) == 0);  // gray
  CHECK(color_type(render(PictureGrid{.images = Array::full({1, 3, 2, 2}, 1)}, Format::png)) == 2);
  CHECK_THROWS_AS(to_png({.images = Array::full({1, 2, 2, 2}, 1)}), std::invalid_argument);
  CHECK(formats_of(Scatter{}) == std::vector<Format>{Format::png, Format::svg});
}

TEST_CASE("figures: without gnuplot the message says what to install") {
  const std::string path = std::getenv("PATH");
  setenv("PATH", "/nowhere", 1);
  std::string message;
  try {
    render(LineCharts{{{"a", {{"b", 0, {1, 2}}}}}, "c"}, Format::svg);
  } catch (const std::runtime_error& error) {
    message = error.what();
  }
  setenv("PATH", path.c_str(), 1);
  check_says(message, {"gnuplot, which is not installed", "apt install gnuplot-nox"});
}

TEST_SUITE_END();

}  // namespace
}  // namespace tapestry
