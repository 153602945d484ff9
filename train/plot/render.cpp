#include "train/plot/render.hpp"

#include <fcntl.h>
#include <fmt/ranges.h>
#include <png.h>
#include <spawn.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cmath>
#include <stdexcept>
#include <vector>

#include "autograd/check.hpp"
#include "data/text/printable.hpp"

namespace tapestry {
namespace {

// Returns the text in gnuplot's single quotes, in which only quotes have to be escaped: they are
// doubled, but at the beginning, where two quotes end the text, replaced by ’. Line breaks, tabs
// and a single space are shown as symbols.
std::string quoted(const std::string& text) {
  if (text == " ") return "'␣'";
  std::string shown;
  for (const char c : text) shown += c == '\n' ? "↵" : c == '\t' ? "⇥" : std::string(1, c);
  std::string safe = "'";
  for (const char c : printable(shown))
    safe += c == '\'' && safe.size() == 1 ? "’" : c == '\'' ? "''" : std::string(1, c);
  return safe + "'";
}

// Returns the command set xtics ('a' 0, 'b' 1, …), or unset xtics without labels.
std::string tics(const char* axis, const std::vector<std::string>& labels) {
  if (labels.empty()) return fmt::format("unset {}", axis);
  std::vector<std::string> places;
  for (std::size_t i = 0; i < labels.size(); ++i)
    places.push_back(fmt::format("{} {}", quoted(labels[i]), i));
  return fmt::format("set {} ({})", axis, fmt::join(places, ", "));
}

std::string rows_of(const Array& values) {
  const auto x = values.values<float>();
  const auto columns = values.dim(1);
  std::string text;
  for (std::size_t i = 0; i < x.size(); ++i)
    text += fmt::format("{:.4g}{}", x[i], (i + 1) % columns ? ' ' : '\n');
  return text;
}

struct Extent {
  std::int64_t width = 0, height = 0;  // pixels
};

// A file in memory, which is freed when its descriptor is closed.
class MemoryFile {
 public:
  MemoryFile() : descriptor_(memfd_create("gnuplot", MFD_CLOEXEC)) {
    if (descriptor_ < 0)
      throw std::runtime_error("render: a file in memory cannot be created; free some memory");
  }
  ~MemoryFile() { close(descriptor_); }
  MemoryFile(const MemoryFile&) = delete;
  MemoryFile& operator=(const MemoryFile&) = delete;

  int descriptor() const { return descriptor_; }

  void write(std::string_view text) const {
    while (!text.empty()) {
      const ssize_t written = ::write(descriptor_, text.data(), text.size());
      if (written <= 0)
        throw std::runtime_error("render: a file in memory cannot be written; free some memory");
      text.remove_prefix(written);
    }
    lseek(descriptor_, 0, SEEK_SET);
  }

  std::string read() const {
    lseek(descriptor_, 0, SEEK_SET);
    std::string bytes;
    char part[1 << 16];
    for (ssize_t count = 0; (count = ::read(descriptor_, part, sizeof part)) > 0;)
      bytes.append(part, count);
    return bytes;
  }

 private:
  int descriptor_;
};

// Runs gnuplot without a shell and without the user's settings. Returns its exit status, 127 if it
// is not installed.
int run_gnuplot(const MemoryFile& script, const MemoryFile& picture) {
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_adddup2(&actions, script.descriptor(), STDIN_FILENO);
  posix_spawn_file_actions_adddup2(&actions, picture.descriptor(), STDOUT_FILENO);
  posix_spawn_file_actions_addopen(&actions, STDERR_FILENO, "/dev/null", O_WRONLY, 0);
  posix_spawnattr_t attributes;  // restores signals that this process ignores
  posix_spawnattr_init(&attributes);
  sigset_t usual;
  sigemptyset(&usual);
  for (const int signal : {SIGXFSZ, SIGPIPE}) sigaddset(&usual, signal);
  posix_spawnattr_setsigdefault(&attributes, &usual);
  posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETSIGDEF);
  char program[] = "gnuplot", default_settings[] = "-d", from_input[] = "-";
  char* arguments[] = {program, default_settings, from_input, nullptr};
  pid_t process = 0;
  const int failed = posix_spawnp(&process, program, &actions, &attributes, arguments, environ);
  posix_spawn_file_actions_destroy(&actions);
  posix_spawnattr_destroy(&attributes);
  if (failed != 0) return 127;
  int status = 0;
  while (waitpid(process, &status, 0) < 0 && errno == EINTR) {
  }
  return WIFEXITED(status) ? WEXITSTATUS(status) : 1;
}

// A script of gnuplot, and the extent of its picture.
struct Drawing {
  Extent extent;
  std::string script;
};

constexpr std::int64_t cell = 18;  // size of a matrix element in pixels
constexpr std::int64_t label = 9;  // largest size of a character of a label
constexpr std::int64_t gap = 40;   // space above a map, for its title
constexpr std::int64_t axis = 22;  // space beside the labels, for the title of an axis
constexpr std::int64_t head = 50;  // space above all maps, for the color scale
// Minimum and maximum size of a map.
constexpr std::int64_t smallest = 8 * cell, largest = 50 * cell;
constexpr std::int64_t unlabeled = 14 * cell;  // size of a map without labels

// Returns the size of a map in pixels along an axis (0: height, 1: width), without labels.
std::int64_t extent_along(const HeatMap& map, int axis) {
  const std::int64_t entries = map.values.dim(axis);
  if (map.row_labels.empty())
    return unlabeled * entries / std::max(map.values.dim(0), map.values.dim(1));
  return std::clamp(entries * cell, smallest, largest);
}

std::int64_t extent_of_labels(const std::vector<std::string>& labels) {
  std::size_t longest = 1;
  for (const std::string& text : labels) longest = std::max(longest, text.size());
  return 16 + label * static_cast<std::int64_t>(std::min<std::size_t>(longest, 16));
}

// Returns by how many pixels the centered title extends beyond the map on either side.
std::int64_t overhang_of(const HeatMap& map) {
  return std::max<std::int64_t>(0, (label * std::ssize(map.title) - extent_along(map, 1)) / 2);
}

// Returns the left margin of a map, which holds its labels and the title of its axis, or part of
// the map's title.
std::int64_t left_of(const HeatMap& map) {
  const std::int64_t titled = map.row_axis.empty() ? 0 : axis;
  return std::max(titled + extent_of_labels(map.row_labels), overhang_of(map));
}

// Returns the extent of a map with its labels and title.
Extent extent_of(const HeatMap& map) {
  return {left_of(map) + extent_along(map, 1) + overhang_of(map),
          extent_of_labels(map.column_labels) + (map.column_axis.empty() ? 0 : axis) +
              extent_along(map, 0) + gap};
}

// Returns the margins of a map whose labels and title begin at (left, top), as fractions of the
// picture.
std::string margins(const HeatMap& map, std::int64_t left, std::int64_t top, const Extent& whole) {
  const auto across = [&](std::int64_t x) {
    return static_cast<double>(x) / static_cast<double>(whole.width);
  };
  const auto up = [&](std::int64_t y) {
    return 1 - static_cast<double>(y) / static_cast<double>(whole.height);
  };
  const std::int64_t x = left + left_of(map), y = top + gap;
  return fmt::format(
      "set lmargin at screen {:.5f}\nset rmargin at screen {:.5f}\n"
      "set tmargin at screen {:.5f}\nset bmargin at screen {:.5f}\n",
      across(x), across(x + extent_along(map, 1)), up(y), up(y + extent_along(map, 0)));
}

// Returns 1, 2 or 5 times a power of ten that divides the range of a chart into at most four steps.
double tic_step(const LineChart& chart) {
  double low = INFINITY, high = -INFINITY;
  for (const Line& line : chart.lines)
    for (const double value : line.values) low = std::min(low, value), high = std::max(high, value);
  if (!(high > low)) return 1;
  const double power = std::pow(10, std::floor(std::log10((high - low) / 4)));
  for (const double step : {1., 2., 5.})
    if ((high - low) / (step * power) <= 4) return step * power;
  return 10 * power;
}

// Eleven colors that differ in hue or lightness; further clouds repeat them.
constexpr const char* colors[] = {"#1f77b4", "#ff7f0e", "#2ca02c", "#d62728", "#9467bd", "#8c564b",
                                  "#e377c2", "#7f7f7f", "#bcbd22", "#17becf", "#000000"};

Drawing drawing_of(const HeatMaps& maps) {
  const auto& rows = maps.rows;
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
          "set title {}\nset xlabel {}\nset ylabel {}\n"
          "set xrange [-0.5:{}.5]\nset yrange [{}.5:-0.5]\n"
          "{}\n{}\nplot $map{} matrix with image pixels\nunset colorbox\n",
          quoted(map.title), quoted(map.column_axis), quoted(map.row_axis), map.values.dim(1) - 1,
          map.values.dim(0) - 1, tics("xtics", map.column_labels), tics("ytics", map.row_labels),
          number);
      left += extent_of(map).width;
      height = std::max(height, extent_of(map).height);
      ++number;
    }
    top += height + cell;
  }
  std::vector<std::string> scale;
  for (std::size_t i = 0; i < maps.scale.size(); ++i)
    scale.push_back(
        fmt::format("{} {}", quoted(maps.scale[i]),
                    static_cast<double>(i) / static_cast<double>(maps.scale.size() - 1)));
  const double scale_top = 1 - 16 / static_cast<double>(whole.height);
  return {whole,
          data +
              fmt::format("set multiplot\nset palette defined (0 'white', 0.5 '#4a90c8', 1 "
                          "'#0b2545')\nset cbrange [0:1]\nset cbtics ({})\n"
                          "set colorbox horizontal user origin graph 0, screen {:.5f} size "
                          "screen {:.5f}, screen {:.5f}\n",
                          fmt::join(scale, ", "), scale_top, 200 / static_cast<double>(whole.width),
                          10 / static_cast<double>(whole.height)) +
              "unset key\nset xtics rotate by 90 right\nset tics scale 0\n" + plots +
              "unset multiplot\n"};
}

Drawing drawing_of(const LineCharts& figure) {
  const auto& [charts, steps] = figure;
  constexpr const char* line_colors[] = {"#0b2545", "#9aa5b1", "#d1495b", "#4a90c8"};
  constexpr std::int64_t width = 900, height = 130, legend = 40, axis = 56;
  const std::int64_t count = std::ssize(charts);
  const Extent whole{width, legend + count * height + axis};
  const auto up = [&](std::int64_t y) {
    return 1 - static_cast<double>(y) / static_cast<double>(whole.height);
  };
  std::string data, plots;
  for (std::int64_t i = 0; i < count; ++i) {
    const LineChart& chart = charts[i];
    require(chart.lines.size() <= std::size(line_colors),
            "render: a line chart of {} lines; expected at most 4", chart.lines.size());
    std::vector<std::string> lines;
    for (std::size_t j = 0; j < chart.lines.size(); ++j) {
      const Line& line = chart.lines[j];
      if (line.values.empty()) continue;
      data += fmt::format("$line{}_{} << END\n", i, j);
      for (std::size_t k = 0; k < line.values.size(); ++k)
        data += fmt::format("{} {:.6g}\n", line.first + static_cast<double>(k) * line.spacing,
                            line.values[k]);
      data += "END\n";
      lines.push_back(fmt::format("$line{}_{} with lines lw 1.6 lc rgb '{}' title {}", i, j,
                                  line_colors[j], quoted(line.name)));
    }
    plots += fmt::format(
        "set tmargin at screen {:.5f}\nset bmargin at screen {:.5f}\nset ylabel {}\n"
        "set ytics {:g}\n{}plot {}\n"
        "unset key\n",
        up(legend + i * height), up(legend + (i + 1) * height - 14), quoted(chart.title),
        tic_step(chart),
        i + 1 == count ? fmt::format("set format x\nset xlabel {}\n", quoted(steps)) : "",
        fmt::join(lines, ", "));
  }
  return {whole,
          data +
              fmt::format("set multiplot\nset lmargin at screen 0.09\nset rmargin at screen 0.98\n"
                          "set key at screen 0.98, screen {:.5f} right horizontal\n"
                          "set border 3\nset tics nomirror out\nset grid lc rgb '#e6e6e6' lt 1\n"
                          "set format x ''\nset autoscale xfix\n",
                          up(18)) +
              plots + "unset multiplot\n"};
}

Drawing drawing_of(const Scatter& scatter) {
  const std::size_t dimensions = scatter.axes.size();
  require(dimensions == 2 || dimensions == 3, "render: a scatter plot of {} axes; expected 2 or 3",
          dimensions);
  std::string script = fmt::format(
      "set title {}\nset xlabel {} offset 0,-0.5\nset ylabel {} offset 0,-0.5\nset key outside "
      "right top\n"
      "set tics scale 0.5 font ',9' textcolor rgb 'black'\nset border 31 lc rgb '#999999'\n",
      quoted(scatter.title), quoted(scatter.axes[0]), quoted(scatter.axes[1]));
  if (dimensions == 3)
    script += fmt::format("set zlabel {} rotate offset 2\nset view 62,40,1.1,1.3\nset xyplane 0\n",
                          quoted(scatter.axes[2]));
  std::vector<std::string> clouds, legend;  // separate, because the legend's points are larger
  for (std::size_t i = 0; i < scatter.clouds.size(); ++i) {
    const Cloud& cloud = scatter.clouds[i];
    const std::string style = fmt::format("with points pt {} lc rgb '{}'",
                                          7 + i / std::size(colors), colors[i % std::size(colors)]);
    legend.push_back(fmt::format("keyentry {} ps 1 title {}", style, quoted(cloud.name)));
    if (cloud.points.size() == 0) continue;
    script += fmt::format("$cloud{} << END\n{}END\n", i, rows_of(cloud.points));
    clouds.push_back(fmt::format("$cloud{} {} ps 0.35 notitle", i, style));
  }
  script += fmt::format("{} {}, {}\n", dimensions == 3 ? "splot" : "plot", fmt::join(clouds, ", "),
                        fmt::join(legend, ", "));
  const std::int64_t names = std::ssize(scatter.clouds);
  return {{.width = 860, .height = std::max<std::int64_t>(560, 80 + 18 * names)}, script};
}

Drawing drawing_of(const PictureGrid&) { throw std::invalid_argument("gnuplot draws no pictures"); }

// Draws all figures except grids of pictures. Text of a figure is never a command: it is quoted,
// and gnuplot is started without a shell. Throws std::runtime_error if gnuplot is missing or fails.
std::string draw_by_gnuplot(const Figure& figure, Format format) {
  const auto [extent, drawn] = std::visit([](const auto& one) { return drawing_of(one); }, figure);
  const MemoryFile script, picture;
  script.write(fmt::format(
      "set encoding utf8\n"
      "set terminal {} size {},{} font 'DejaVu Sans,11' noenhanced background 'white'\n{}"
      "unset output\n",
      format == Format::png ? "pngcairo" : "svg", extent.width, extent.height, drawn));
  const int status = run_gnuplot(script, picture);
  if (status == 127)
    throw std::runtime_error(
        "figures are drawn by gnuplot, which is not installed; run apt install gnuplot-nox");
  std::string bytes = picture.read();
  if (status != 0 || bytes.empty())
    throw std::runtime_error(
        "gnuplot could not draw the figure; check the installation of gnuplot");
  return bytes;
}

// Pixels as a PNG stores them, row by row: one byte each, or three for red, green and blue.
struct PixelBytes {
  std::int64_t height, width, channels;
  std::vector<unsigned char> bytes{};
};

// Returns the whole grid, each pixel of an image enlarged to 2 x 2, with gray lines between images.
PixelBytes joined(const PictureGrid& pictures) {
  constexpr std::int64_t enlarged = 2;
  constexpr unsigned char line = 64;
  const auto& [images, columns] = pictures;
  const int rank = images.rank();
  const std::int64_t C = rank == 4 ? images.dim(1) : 1;
  require((rank == 3 || rank == 4) && (C == 1 || C == 3) && columns >= 1,
          "to_png: {} in {} columns; expected images (N, H, W) or (N, C, H, W), C 1 or 3, in at "
          "least 1 column",
          to_string(images.shape()), columns);
  const std::int64_t N = images.dim(0), h = images.dim(rank - 2), w = images.dim(rank - 1);
  const std::int64_t H = enlarged * h, W = enlarged * w, rows = (N + columns - 1) / columns;
  PixelBytes grid{.height = rows * (H + 1) + 1, .width = columns * (W + 1) + 1, .channels = C};
  grid.bytes.assign(grid.height * grid.width * C, line);
  const auto from = images.values<float>();
  for (std::int64_t i = 0; i < N; ++i)
    for (std::int64_t y = 0; y < H; ++y) {
      const std::int64_t row = i / columns * (H + 1) + 1 + y, column = i % columns * (W + 1) + 1;
      for (std::int64_t x = 0; x < W; ++x)
        for (std::int64_t c = 0; c < C; ++c) {
          const float value = from[((i * C + c) * h + y / enlarged) * w + x / enlarged];
          grid.bytes[(row * grid.width + column + x) * C + c] =
              static_cast<unsigned char>(std::lround(std::clamp(value, 0.0F, 1.0F) * 255));
        }
    }
  return grid;
}

}  // namespace

Array attention_colors(const Array& weights) {
  Array colors = weights.clone();
  const std::int64_t H = weights.dim(0), size = weights.size() / H;
  for (std::int64_t h = 0; h < H; ++h) {
    const auto head = colors.mutable_values<float>().subspan(h * size, size);
    const float most = std::ranges::max(head);
    for (float& weight : head) weight = weight > 0 ? std::sqrt(weight / most) : 0;
  }
  return colors;
}

std::string to_png(const PictureGrid& grid) {
  const PixelBytes pixels = joined(grid);
  png_image image{};
  image.version = PNG_IMAGE_VERSION;
  image.height = static_cast<png_uint_32>(pixels.height);
  image.width = static_cast<png_uint_32>(pixels.width);
  image.format = pixels.channels == 1 ? PNG_FORMAT_GRAY : PNG_FORMAT_RGB;
  png_alloc_size_t size = 0;
  std::string bytes;
  bool written =
      png_image_write_get_memory_size(image, size, 0, pixels.bytes.data(), 0, nullptr) != 0;
  bytes.resize(size);
  written = written && png_image_write_to_memory(&image, bytes.data(), &size, 0,
                                                 pixels.bytes.data(), 0, nullptr) != 0;
  if (!written)
    throw std::runtime_error(
        fmt::format("to_png: libpng cannot write the image: {}; free some memory", image.message));
  return bytes;
}

std::string ending_of(Format format) { return format == Format::png ? ".png" : ".svg"; }

std::vector<Format> formats_of(const Figure& figure) {
  if (std::holds_alternative<PictureGrid>(figure)) return {Format::png};
  return {Format::png, Format::svg};
}

std::string render(const Figure& figure, Format format) {
  if (const auto* pictures = std::get_if<PictureGrid>(&figure)) {
    require(format == Format::png, "render: pictures as {}; expected .png", ending_of(format));
    return to_png(*pictures);
  }
  return draw_by_gnuplot(figure, format);
}

}  // namespace tapestry
