#include <doctest/doctest.h>

#include <cmath>
#include <cstdlib>

#include "autograd/ops.hpp"
#include "layers/multi_head_attention.hpp"
#include "tests/support/modules.hpp"
#include "tests/support/process.hpp"
#include "tests/support/run_fixture.hpp"
#include "train/plot/canvas.hpp"
#include "train/plot/render.hpp"

// Tests figures as SVG and PNG.
namespace tapestry {
namespace {

TEST_SUITE_BEGIN("figures");

const std::string png_begin = "\x89PNG\r\n\x1a\n";

TEST_CASE("figures: heat maps are SVG and PNG with labels") {
  const HeatMap map{.title = "it's a map",
                    .values = Array::of(std::vector<float>{0, 0.5f, 1, 0.25f, 0, 1}, {2, 3}),
                    .row_labels = {"first", "\n"},
                    .column_labels = {"a", "'", " "},
                    .row_axis = "Query",
                    .column_axis = "Key"};
  const Figure figure = HeatMaps{{{map, map}, {map}}};
  check_says(render(figure, Format::svg),
             {"<svg", "</svg>", "it&#39;s a map", "first", "↵", "␣", "Query", "Key"});
  CHECK(render(figure, Format::png).starts_with(png_begin));
}

TEST_CASE("figures: line charts as SVG and PNG, with their names") {
  const LineChart chart{"it's oil", {{"history", -2, {1, 2, 3}}, {"forecast", 1, {3.5, 4}}}};
  const Figure figure = LineCharts{{chart, chart}, "hours"};
  check_says(render(figure, Format::svg),
             {"<svg", "</svg>", "it&#39;s oil", "history", "forecast", "hours"});
  CHECK(render(figure, Format::png).starts_with(png_begin));
}

TEST_CASE(
    "figures: a table with arcs is SVG and PNG, and its arcs reach to the left of its cells") {
  const ArcTable table{.title = "tape",
                       .columns = {"op", "norm"},
                       .rows = {{"a: add", "1"}, {"b: <exp>", "2"}, {"loss: sum", "3"}},
                       .arcs = {{.from = 0, .to = 1}, {.from = 0, .to = 2}}};
  check_says(render(table, Format::svg),
             {"<svg", "</svg>", "tape", "norm", "a: add", "b: &lt;exp&gt;", "loss: sum"});
  CHECK(render(table, Format::png).starts_with(png_begin));
  CHECK(render(ArcTable{}, Format::svg).ends_with("</svg>\n"));
}

std::size_t times(const std::string& text, const std::string& part) {
  std::size_t found = 0;
  for (std::size_t at = text.find(part); at != std::string::npos; at = text.find(part, at + 1))
    ++found;
  return found;
}

const std::string hostile = "</text><script>alert('1')</script>&\"\xff\x01\xe2\x80\xae";

Figure line_chart(const Line& line) { return LineCharts{{{"chart", {line}}}, "steps"}; }

TEST_CASE("figures: each kind of mark has SVG") {
  const auto canvas = svg_canvas({40, 20.5});
  canvas->line(std::vector<Position>{{1, 2}, {3.256, -4}}, {.color = 0x0b2545, .width = 1.6});
  canvas->markers(std::vector<Position>{{5, 6}, {7, 8}}, {.color = 0xff7f0e, .size = 4});
  canvas->markers({}, {});
  canvas->text({9, 10}, "a<b", {.anchor = TextStyle::Anchor::end, .is_upright = true});
  canvas->cells({2, 3, 6, 4}, 3, std::vector<Color>{1, 1, 2, 2, 1, 1});
  CHECK(canvas->finish() ==
        R"svg(<svg xmlns="http://www.w3.org/2000/svg" width="40" height="20.5" )svg"
        R"svg(viewBox="0 0 40 20.5" font-family="DejaVu Sans, sans-serif">
<rect width="40" height="20.5" fill="#ffffff"/>
<path fill="none" stroke="#0b2545" stroke-width="1.6" stroke-linejoin="round" d="M1 2L3.26 -4"/>
<path fill="none" stroke="#ff7f0e" stroke-width="4" stroke-linecap="round" d="M5 6h0M7 8h0"/>
<text x="9" y="10" font-size="13" text-anchor="end" transform="rotate(-90 9 10)">a&lt;b</text>
<g transform="translate(2 3) scale(2 2)" shape-rendering="crispEdges">
<path fill="#000001" d="M0 0h2v1H0zM1 1h2v1H1z"/>
<path fill="#000002" d="M2 0h1v1H2zM0 1h1v1H0z"/>
</g>
</svg>
)svg");
}

TEST_CASE("figures: a map without labels has SVG") {
  const HeatMap map{.title = "m", .values = Array::of(std::vector<float>{0, 1}, {1, 2})};
  const std::string svg = render(HeatMaps{{{map}}}, Format::svg);
  check_says(svg,
             {"<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"400\" height=\"250\"",
              "<g transform=\"translate(16 90) scale(126 126)\" shape-rendering=\"crispEdges\">\n"
              "<path fill=\"#0b2545\" d=\"M1 0h1v1H1z\"/>\n"
              "<path fill=\"#ffffff\" d=\"M0 0h1v1H0z\"/>\n</g>\n",
              "text-anchor=\"middle\">m</text>"});
  const std::string png = render(HeatMaps{{{map}}}, Format::png);
  const auto byte = [&](std::size_t i) { return static_cast<unsigned char>(png[i]); };
  CHECK(256 * byte(18) + byte(19) == 400);  // width and height of the header
  CHECK(256 * byte(22) + byte(23) == 250);
}

TEST_CASE("figures: ticks are multiples of 1, 2 or 5 times a power of ten") {
  CHECK(round_ticks(0, 1, 4) == std::vector<double>{0, 0.5, 1});
  CHECK(round_ticks(-3, 7, 5) == std::vector<double>{-2, 0, 2, 4, 6});
  CHECK(round_ticks(99.5, 350, 5) == std::vector<double>{100, 200, 300});
  for (const double size : {1e-12, 0.037, 1.0, 7.7e20})
    for (const int most : {4, 8}) {
      const std::vector<double> ticks = round_ticks(-0.3 * size, size, most);
      CHECK(std::ssize(ticks) >= 2);
      CHECK(std::ssize(ticks) <= most + 1);
      CHECK(ticks.front() >= -0.3 * size);
      CHECK(ticks.back() <= size);
    }
}

TEST_CASE("figures: labels are text on one line that fits its space") {
  CHECK(label_text(" ", 5) == "␣");
  CHECK(label_text("\n\t", 5) == "↵⇥");
  CHECK(label_text("äöüäöü", 5) == "äöüäö…");
  CHECK(label_text("äöüäö", 5) == "äöüäö");
  const Cloud cloud{hostile, Array::of(std::vector<float>{1, 2}, {1, 2})};
  const HeatMap map{.title = hostile,
                    .values = Array::full({1, 1}, 1),
                    .row_labels = {hostile},
                    .column_labels = {hostile},
                    .row_axis = hostile,
                    .column_axis = hostile};
  const std::vector<Figure> figures = {
      HeatMaps{{{map}}, {hostile, hostile}},
      LineCharts{{{hostile, {{hostile, 0, {1, 2}}}}}, hostile},
      Scatter{.title = hostile, .axes = {hostile, hostile}, .clouds = {cloud}}};
  for (const Figure& figure : figures) {
    const std::string svg = render(figure, Format::svg);
    check_says(svg, {"&lt;/text&gt;&lt;script"});
    for (const char* raw : {"<script", "</text><", "alert('", "\xff", "\x01", "\xe2\x80\xae"})
      CHECK_MESSAGE(svg.find(raw) == std::string::npos, raw);
    for (std::size_t at = svg.find('&'); at != std::string::npos; at = svg.find('&', at + 1))
      CHECK(svg.find(';', at) - at <= 5);
    CHECK(render(figure, Format::png).starts_with(png_begin));
  }
}

TEST_CASE("figures: values that are not finite interrupt lines") {
  const double nan = std::nan(""), infinite = INFINITY;
  const auto f = [](double value) { return static_cast<float>(value); };
  const std::string svg =
      render(line_chart({"a", 0, {0, 1, nan, 1, 0, infinite, 0.5, -infinite}}), Format::svg);
  CHECK(times(svg, "stroke=\"#0b2545\" stroke-width=\"1.6\"") == 2);
  CHECK(times(svg, "stroke=\"#0b2545\" stroke-width=\"4\" stroke-linecap=\"round\"") == 1);
  const HeatMap map{.values = Array::of(std::vector<float>{f(nan), f(infinite), 2, -1}, {2, 2})};
  const Cloud some{"b",
                   Array::of(std::vector<float>{0, 1, f(nan), 1, 1, f(infinite), 1, 0}, {4, 2})};
  const std::vector<Figure> figures = {line_chart({"a", 0, {0, 1, nan, infinite}}),
                                       line_chart({"a", 0, {nan, nan}}),
                                       line_chart({"a", nan, {1, 2}}),
                                       line_chart({"a", 0, {-1.7e308, 1.7e308}}),
                                       HeatMaps{{{map}}},
                                       Scatter{.axes = {"x", "y"}, .clouds = {some}}};
  for (const Figure& figure : figures) {
    const std::string drawn = render(figure, Format::svg);
    for (const char* text : {"nan", "inf"}) CHECK(drawn.find(text) == std::string::npos);
    CHECK(render(figure, Format::png).starts_with(png_begin));
  }
  check_says(render(figures.back(), Format::svg), {"h0M"});  // two of four points
}

TEST_CASE("figures: no values give a figure, too") {
  const std::vector<Figure> figures = {
      HeatMaps{},
      HeatMaps{{{{.values = Array({0, 0})}}, {}}, {}},
      LineCharts{},
      line_chart({"a", 0, {}}),
      line_chart({"a", 3, {2}}),
      Scatter{.axes = {"x", "y", "z"}},
      Scatter{.axes = {"x", "y"}, .clouds = {{"none", Array({0, 2})}}}};
  for (const Figure& figure : figures) {
    check_says(render(figure, Format::svg), {"<svg", "</svg>\n"});
    CHECK(render(figure, Format::png).starts_with(png_begin));
  }
  const Line line{"a", 0, {1, 2}};
  CHECK_THROWS_AS(render(LineCharts{{{"b", {5, line}}}}, Format::svg), std::invalid_argument);
  CHECK_THROWS_AS(render(Scatter{.axes = {"x"}}, Format::svg), std::invalid_argument);
}

TEST_CASE_FIXTURE(RunFixture, "bug: attention to dates required a prompt") {
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

// Sets a variable of the environment of the programs that a test starts, until it is destroyed.
class Variable {
 public:
  Variable(const char* name, const std::string& value) : name_(name) {
    setenv(name, value.c_str(), 1);
  }
  ~Variable() { unsetenv(name_); }

 private:
  const char* name_;
};

TEST_CASE_FIXTURE(RunFixture, "figures: without cairo SVG is written, and no partial PNG") {
  must_train("toy", "run", "train.steps=2 train.eval_every=0");
  write("libcairo.so.2", "no library");
  const Variable instead("LD_LIBRARY_PATH", path());
  check_fails(tapestry_run("attention {} --prompt 020> --out {}", path("run"), path("map")),
              {"PNG figures need cairo", "libcairo.so.2", "apt install libcairo2", "--out x.svg"},
              1);
  for (const char* name : {"map.csv", "map.png", "map.svg"}) CHECK(!has(name));
  must(tapestry_run("attention {} --prompt 020> --out {}", path("run"), path("map.svg")));
  CHECK(read("map.svg").starts_with("<svg"));
}

TEST_CASE_FIXTURE(RunFixture, "figures: PNG is written on a machine without fonts") {
  must_train("toy", "run", "train.steps=2 train.eval_every=0");
  const Variable no_fonts("FONTCONFIG_FILE", write("fonts.conf", "<fontconfig></fontconfig>"));
  must(tapestry_run("attention {} --prompt 020> --out {}", path("run"), path("map.png")));
  CHECK(read_bytes(path("map.png")).starts_with(png_begin));
}

TEST_CASE("figures: a grid of pictures is a PNG alone, with a dark pixel between them") {
  const PictureGrid grid{.images = Array::full({3, 4, 5}, 1), .columns = 2};
  CHECK(formats_of(grid) == std::vector<Format>{Format::png});
  const std::string png = render(grid, Format::png);
  CHECK(png.starts_with(png_begin));
  const auto byte = [&](std::size_t i) { return static_cast<unsigned char>(png[i]); };
  CHECK(byte(19) == 2 * (2 * 5 + 1) + 1);  // width and height of the header
  CHECK(byte(23) == 2 * (2 * 4 + 1) + 1);
  CHECK_THROWS_AS(render(grid, Format::svg), std::invalid_argument);
  const auto color_type = [](const std::string& file) { return static_cast<int>(file[25]); };
  CHECK(color_type(png) == 0);  // gray
  CHECK(color_type(render(PictureGrid{.images = Array::full({1, 3, 2, 2}, 1)}, Format::png)) == 2);
  CHECK_THROWS_AS(to_png({.images = Array::full({1, 2, 2, 2}, 1)}), std::invalid_argument);
  CHECK(formats_of(Scatter{}) == std::vector<Format>{Format::png, Format::svg});
}

TEST_SUITE_END();

// Tests recorded attention: weights, a worked example, and figures.

TEST_SUITE_BEGIN("attention");

TEST_CASE("attention: recorded weights times the values equal the fused op") {
  constexpr std::int64_t B = 2, H = 2, T = 4, S = 6, D = 3;
  const Array q = normal({B, T, H * D}, 1), k = normal({B, S, H * D}, 2),
              v = normal({B, S, H * D}, 3);
  const Array padding = Array::of(Tokens{0, 0, 0, 0, 1, 1, 0, 0, 0, 0, 0, 1}, {B, S});
  const std::pair<const char*, AttentionOptions> rows[] = {
      {"all", {.heads = H}},
      {"causal", {.heads = H, .causal = true}},
      {"window", {.heads = H, .window = 2}},
      {"causal window", {.heads = H, .causal = true, .window = 2}},
      {"padding", {.heads = H, .key_padding = padding}},
      {"causal with padding", {.heads = H, .causal = true, .key_padding = padding}},
      {"additive", {.heads = H, .mask = normal({T, S}, 4)}},
      {"additive, one a head", {.heads = H, .mask = normal({H, 1, S}, 5)}},
      {"the first keys", {.heads = H, .causal = true, .keys = 5}},
      {"one head", {}},
  };
  for (const auto& [name, options] : rows) {
    CAPTURE(name);
    const std::int64_t heads = options.heads, width = H * D / heads;
    const std::int64_t keys = options.keys < 0 ? S : options.keys;
    const Array weights = attention_weights(q, k, options);
    CHECK(weights.shape() == Shape{B, heads, T, keys});
    const Tensor values =
        permute(reshape(slice(v, 1, 0, keys), {B, keys, heads, width}), {0, 2, 1, 3});
    const Tensor joined =
        reshape(permute(matmul(weights, values), {0, 2, 1, 3}), {B, T, heads * width});
    check_close(joined.value(), scaled_dot_product_attention(q, k, v, options).value(), 1e-13);
    const Array sums = sum(weights, {-1}).value();
    for (const double one : sums.values<double>()) CHECK(one == doctest::Approx(1));
  }
}

TEST_CASE("attention: a recorder sees the layers of its scope, with their paths") {
  Random init(1, Stream::init);
  const SelfAttention attention(6, init, {.heads = 3});
  const CrossAttention crossing(6, 4, init, {.heads = 3});
  Array x({2, 5, 6}), source({2, 7, 4});
  init.fill_normal(x, 0, 1);
  init.fill_normal(source, 0, 1);
  attention.forward(x);
  AttentionRecorder outer;
  attention.forward(x, {.causal = true});
  {
    AttentionRecorder inner;
    crossing.forward(x, source);
    REQUIRE(inner.entries.size() == 1);
    CHECK(inner.entries[0].weights.shape() == Shape{2, 3, 5, 7});
  }
  REQUIRE(outer.entries.size() == 1);
  CHECK(outer.entries[0].weights.shape() == Shape{2, 3, 5, 5});
}

TEST_CASE_FIXTURE(CommandFolder,
                  "bug: attention to a translation that fills a context of learned positions") {
  // One step trains no translation to end.
  must(
      run("train dates --out full model.positions=learned data.examples=100 data.held_back=4 "
          "train.steps=1 train.batch_size=4"));
  CHECK(must(run("attention full --prompt 1.2.1979 --out map.svg")).out.starts_with("map.svg"));
  must(run("report full --out page.html"));
  check_says(read("page.html"), {"alignments"});
}

TEST_SUITE_END();

}  // namespace
}  // namespace tapestry
