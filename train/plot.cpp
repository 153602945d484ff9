#include "train/plot.hpp"

#include <fmt/ranges.h>
#include <sys/wait.h>

#include <algorithm>
#include <cmath>
#include <csignal>
#include <cstdio>
#include <filesystem>

#include "autograd/check.hpp"

namespace tapestry {
namespace {

// For gnuplot's single quotes, in which only they are special.
std::string quoted(const std::string& text) {
  std::string safe = "'";
  for (const char c : text) safe += c == '\'' ? std::string("''") : std::string(1, c);
  return safe + "'";
}

// ('a' 0, 'b' 1, …)
std::string tics(const std::vector<std::string>& labels) {
  std::vector<std::string> places;
  for (std::size_t i = 0; i < labels.size(); ++i)
    places.push_back(fmt::format("{} {}", quoted(labels[i]), i));
  return fmt::format("({})", fmt::join(places, ", "));
}

std::string terminal(const std::string& path, int width, int height) {
  const std::string ending = std::filesystem::path(path).extension().string();
  expect_input(ending == ".png" || ending == ".svg", "{}: expected a name ending in .png or .svg",
               path);
  return fmt::format("set terminal {} size {},{} font 'DejaVu Sans,11' noenhanced\n",
                     ending == ".png" ? "pngcairo" : "svg", width, height);
}

// Runs a gnuplot script that draws to `path`.
void run_gnuplot(const std::string& path, const std::string& script) {
  const std::string draft = path + ".draft";
  const auto before = std::signal(SIGPIPE, SIG_IGN);
  std::FILE* gnuplot = popen("gnuplot 2>&1 >/dev/null", "w");
  if (!gnuplot) throw std::runtime_error("cannot start gnuplot");
  fmt::print(gnuplot, "set encoding utf8\nset output {}\n{}unset output\n", quoted(draft), script);
  const int status = pclose(gnuplot);
  std::signal(SIGPIPE, before);
  if (WIFEXITED(status) && WEXITSTATUS(status) == 127)
    throw std::runtime_error(
        "pictures are drawn by gnuplot, which is not installed: "
        "apt install gnuplot-nox");
  std::error_code failed;
  if (status == 0) std::filesystem::rename(draft, path, failed);
  if (status == 0 && !failed) return;
  std::filesystem::remove(draft, failed);
  throw std::runtime_error(fmt::format("{}: gnuplot could not draw it", path));
}

std::string rows_of(const Array& values) {
  const auto x = values.values<float>();
  const std::int64_t columns = values.dim(1);
  std::string text;
  for (std::size_t i = 0; i < x.size(); ++i)
    text +=
        fmt::format("{:.4g}{}", x[i], (static_cast<std::int64_t>(i) + 1) % columns ? " " : "\n");
  return text;
}

}  // namespace

void draw_heat_maps(const std::vector<HeatMap>& maps, const std::string& path) {
  require(!maps.empty(), "draw_heat_maps: nothing to draw");
  std::int64_t rows = 1, columns = 1;  // of the largest map
  for (const HeatMap& map : maps) {
    rows = std::max(rows, map.values.dim(0));
    columns = std::max(columns, map.values.dim(1));
  }
  constexpr std::int64_t cell = 18, margin = 110, smallest = 160, largest = 900;
  const auto across = static_cast<std::int64_t>(std::ceil(std::sqrt(maps.size())));
  const std::int64_t down = (static_cast<std::int64_t>(maps.size()) + across - 1) / across;
  const auto extent = [&](std::int64_t cells) {
    return margin + std::clamp(cells * cell, smallest, largest);
  };
  std::string script = terminal(path, static_cast<int>(across * extent(columns)),
                                static_cast<int>(down * extent(rows)));
  script += fmt::format(
      "set multiplot layout {},{}\nset palette defined (0 'white', 0.5 '#4a90c8', 1 '#0b2545')\n"
      "set cbrange [0:1]\nunset colorbox\nunset key\nset xtics rotate by 90 right\n"
      "set tics scale 0\n",
      down, across);
  for (const HeatMap& map : maps)
    script += fmt::format(
        "set title {}\nset xrange [-0.5:{}.5]\nset yrange [{}.5:-0.5]\nset xtics {}\nset ytics {}\n"
        "plot '-' matrix with image\n{}e\ne\n",
        quoted(map.title), map.values.dim(1) - 1, map.values.dim(0) - 1, tics(map.column_labels),
        tics(map.row_labels), rows_of(map.values));
  run_gnuplot(path, script + "unset multiplot\n");
}

}  // namespace tapestry
