#include "train/plot.hpp"

#include <fmt/ranges.h>
#include <sys/wait.h>

#include <algorithm>
#include <cmath>
#include <csignal>
#include <cstdio>
#include <filesystem>
#include <fstream>

#include "autograd/check.hpp"

namespace fs = std::filesystem;

namespace tapestry {
namespace {

// For gnuplot's single quotes, in which only they are special. What would break the line is shown
// as the sign for it, and a lone space as one that can be seen.
std::string quoted(const std::string& text) {
  if (text == " ") return "'␣'";
  std::string safe = "'";
  for (const char c : text)
    safe += c == '\'' ? "''" : c == '\n' ? "↵" : c == '\t' ? "⇥" : std::string(1, c);
  return safe + "'";
}

// ('a' 0, 'b' 1, …)
std::string tics(const std::vector<std::string>& labels) {
  std::vector<std::string> places;
  for (std::size_t i = 0; i < labels.size(); ++i)
    places.push_back(fmt::format("{} {}", quoted(labels[i]), i));
  return fmt::format("({})", fmt::join(places, ", "));
}

std::string rows_of(const Array& values) {
  const auto x = values.values<float>();
  const auto columns = static_cast<std::size_t>(values.dim(1));
  std::string text;
  for (std::size_t i = 0; i < x.size(); ++i)
    text += fmt::format("{:.4g}{}", x[i], (i + 1) % columns ? ' ' : '\n');
  return text;
}

struct Extent {
  std::int64_t width = 0, height = 0;  // pixels
};

// Runs a gnuplot script that draws a picture of this extent to `path`.
void run_gnuplot(const std::string& path, const Extent& extent, const std::string& script) {
  const std::string ending = fs::path(path).extension().string();
  expect_input(ending == ".png" || ending == ".svg", "{}: expected a name ending in .png or .svg",
               path);
  const std::string draft = path + ".draft";
  if (!std::ofstream(draft)) throw std::runtime_error(fmt::format("{}: cannot be written", path));
  const auto before = std::signal(SIGPIPE, SIG_IGN);
  std::FILE* gnuplot = popen("gnuplot /dev/stdin 2>/dev/null", "w");
  if (!gnuplot) throw std::runtime_error("cannot start gnuplot");
  fmt::print(gnuplot,
             "set encoding utf8\n"
             "set terminal {} size {},{} font 'DejaVu Sans,11' noenhanced background 'white'\n"
             "set output {}\n{}unset output\n",
             ending == ".png" ? "pngcairo" : "svg", extent.width, extent.height, quoted(draft),
             script);
  const int status = pclose(gnuplot);
  std::signal(SIGPIPE, before);
  std::error_code failed;
  if (status == 0) fs::rename(draft, path, failed);
  if (status == 0 && !failed) return;
  fs::remove(draft, failed);
  const bool missing = WIFEXITED(status) && WEXITSTATUS(status) == 127;
  throw std::runtime_error(fmt::format(
      "{}: {}", path,
      missing ? "pictures are drawn by gnuplot, which is not installed: apt install gnuplot-nox"
              : "gnuplot could not draw it"));
}

constexpr std::int64_t cell = 18;  // pixels of an entry
constexpr std::int64_t label = 9;  // of a character beside it, at most
constexpr std::int64_t gap = 40;   // above a map, for its title
constexpr std::int64_t head = 50;  // above all, for the scale
constexpr std::int64_t smallest = 8 * cell, largest = 50 * cell;  // of a map

std::int64_t extent_of(std::int64_t entries) {
  return std::clamp(entries * cell, smallest, largest);
}

std::int64_t room_for(const std::vector<std::string>& labels) {
  std::size_t longest = 1;
  for (const std::string& text : labels) longest = std::max(longest, text.size());
  return 16 + label * static_cast<std::int64_t>(std::min<std::size_t>(longest, 16));
}

// Of a map with its labels and its title, which is centred above it.
Extent extent_of(const HeatMap& map) {
  const std::int64_t left = room_for(map.row_labels), width = extent_of(map.values.dim(1));
  const std::int64_t title = label * static_cast<std::int64_t>(map.title.size());
  return {std::max(left + width, left + (width + title) / 2),
          room_for(map.column_labels) + extent_of(map.values.dim(0)) + gap};
}

// The four margins of a map whose labels and title begin at (left, top), as shares of the picture.
std::string margins(const HeatMap& map, std::int64_t left, std::int64_t top, const Extent& whole) {
  const auto across = [&](std::int64_t x) {
    return static_cast<double>(x) / static_cast<double>(whole.width);
  };
  const auto up = [&](std::int64_t y) {
    return 1 - static_cast<double>(y) / static_cast<double>(whole.height);
  };
  const std::int64_t x = left + room_for(map.row_labels), y = top + gap;
  return fmt::format(
      "set lmargin at screen {:.5f}\nset rmargin at screen {:.5f}\n"
      "set tmargin at screen {:.5f}\nset bmargin at screen {:.5f}\n",
      across(x), across(x + extent_of(map.values.dim(1))), up(y),
      up(y + extent_of(map.values.dim(0))));
}

}  // namespace

void draw_heat_maps(const std::vector<std::vector<HeatMap>>& rows, const std::string& path) {
  Extent whole{.width = 400, .height = head};
  for (const auto& row : rows) {
    Extent extent;
    for (const HeatMap& map : row) {
      extent.width += extent_of(map).width;
      extent.height = std::max(extent.height, extent_of(map).height);
    }
    whole = {std::max(whole.width, extent.width + cell), whole.height + extent.height + cell};
  }
  std::string data, plots;
  std::int64_t top = head, number = 0;
  for (const auto& row : rows) {
    std::int64_t left = 0, height = 0;
    for (const HeatMap& map : row) {
      data += fmt::format("$map{} << END\n{}END\n", number, rows_of(map.values));
      plots += margins(map, left, top, whole);
      plots += fmt::format(
          "set title {}\nset xrange [-0.5:{}.5]\nset yrange [{}.5:-0.5]\n"
          "set xtics {}\nset ytics {}\nplot $map{} matrix with image pixels\nunset colorbox\n",
          quoted(map.title), map.values.dim(1) - 1, map.values.dim(0) - 1, tics(map.column_labels),
          tics(map.row_labels), number);
      left += extent_of(map).width;
      height = std::max(height, extent_of(map).height);
      ++number;
    }
    top += height + cell;
  }
  const double scale_top = 1 - 16 / static_cast<double>(whole.height);
  run_gnuplot(path, whole,
              data +
                  fmt::format("set multiplot\nset palette defined (0 'white', 0.5 '#4a90c8', 1 "
                              "'#0b2545')\nset cbrange [0:1]\nset cbtics 0,0.5,1\n"
                              "set colorbox horizontal user origin graph 0, screen {:.5f} size "
                              "screen {:.5f}, screen {:.5f}\n",
                              scale_top, 120 / static_cast<double>(whole.width),
                              10 / static_cast<double>(whole.height)) +
                  "unset key\nset xtics rotate by 90 right\nset tics scale 0\n" + plots +
                  "unset multiplot\n");
}

}  // namespace tapestry
