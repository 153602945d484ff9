#include <doctest/doctest.h>

#include <cstdlib>

#include "tests/support/process.hpp"
#include "train/draw/render.hpp"

// Figures are values; what draws them gives bytes.
namespace tapestry {
namespace {

TEST_SUITE_BEGIN("figures");

const std::string png_begin = "\x89PNG\r\n\x1a\n";

TEST_CASE("figures: heat maps as SVG and PNG, with their labels") {
  const HeatMap map{.title = "it's a map",
                    .values = Array::of(std::vector<float>{0, 0.5f, 1, 0.25f, 0, 1}, {2, 3}),
                    .row_labels = {"first", "\n"},
                    .column_labels = {"a", "'", " "}};
  const Figure figure = HeatMaps{{{map, map}, {map}}};
  check_says(render(figure, Format::svg), {"<svg", "</svg>", "it's a map", "first", "↵", "␣"});
  CHECK(render(figure, Format::png).starts_with(png_begin));
}

TEST_CASE("figures: lines as SVG and PNG, with their names") {
  const LineChart chart{"it's oil", {{"history", -2, {1, 2, 3}}, {"forecast", 1, {3.5, 4}}}};
  const Figure figure = LineCharts{{chart, chart}, "hours"};
  check_says(render(figure, Format::svg),
             {"<svg", "</svg>", "it's oil", "history", "forecast", "hours"});
  CHECK(render(figure, Format::png).starts_with(png_begin));
}

TEST_CASE("figures: text of a figure is never a command") {
  const TemporaryFolder folder;
  const std::string ran = folder.path("ran");
  for (const std::string& text : {"'; system('touch " + ran + "') #", "`touch " + ran + "`",
                                  "$(touch " + ran + ")", "\nsystem('touch " + ran + "')\n"}) {
    CAPTURE(text);
    const Figure figure = LineCharts{{{text, {{text, 0, {1, 2}}}}}, text};
    CHECK(render(figure, Format::svg).find("</svg>") != std::string::npos);
    CHECK(!std::filesystem::exists(ran));
  }
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
