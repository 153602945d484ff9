#include <algorithm>
#include <array>
#include <cmath>

#include "train/plot/canvas.hpp"

namespace tapestry {
namespace {

using enum TextStyle::Anchor;

constexpr double cell = 18;        // size of a matrix element in pixels, if there is room
constexpr double gap = 40;         // space above a map, for its title
constexpr double axis_title = 22;  // space beside the labels, for the title of an axis
constexpr double head = 50;        // space above all maps, for the color scale
constexpr double smallest = 8 * cell, largest = 50 * cell;  // of a map with labels
constexpr double unlabeled = 14 * cell;                     // the longer side of other maps
constexpr std::size_t most_characters = 16;                 // of a label

// Returns the size of a map along an axis (0: height, 1: width), without labels.
double extent_along(const HeatMap& map, int axis) {
  const auto entries = static_cast<double>(map.values.dim(axis - 2));
  if (map.row_labels.empty())
    return unlabeled * entries /
           static_cast<double>(std::max<std::int64_t>({1, map.values.dim(-2), map.values.dim(-1)}));
  return std::clamp(entries * cell, smallest, largest);
}

double extent_of_labels(const std::vector<std::string>& labels) {
  double longest = 0;
  for (const std::string& text : labels)
    longest = std::max(longest, width_of(label_text(text, most_characters)));
  return 16 + longest;
}

// Returns by how much the centered title extends beyond the map on either side.
double overhang_of(const HeatMap& map) {
  return std::max(0.0, (width_of(map.title) - extent_along(map, 1)) / 2);
}

// Returns the space to the left of a map, which has its labels, or a part of its title.
double left_of(const HeatMap& map) {
  const double titled = map.row_axis.empty() ? 0 : axis_title;
  return std::max(titled + extent_of_labels(map.row_labels), overhang_of(map));
}

// Returns the extent of a map with its labels and titles.
Extent extent_of(const HeatMap& map) {
  return {left_of(map) + extent_along(map, 1) + std::max(overhang_of(map), cell),
          extent_of_labels(map.column_labels) + (map.column_axis.empty() ? 0 : axis_title) +
              extent_along(map, 0) + gap};
}

Extent extent_of(const std::vector<HeatMap>& row) {
  Extent extent;
  for (const HeatMap& map : row) {
    const auto [width, height] = extent_of(map);
    extent = {extent.width + width, std::max(extent.height, height)};
  }
  return extent;
}

// Returns the color of a value from 0 (white) to 1 (dark) in 256 steps; what is not finite is
// white.
Color color_of(double value) {
  constexpr std::array<std::array<double, 3>, 3> stops{
      {{0xff, 0xff, 0xff}, {0x4a, 0x90, 0xc8}, {0x0b, 0x25, 0x45}}};
  const double place =
      std::isfinite(value) ? 2 * std::round(255 * std::clamp(value, 0.0, 1.0)) / 255 : 0;
  const int stop = place < 1 ? 0 : 1;
  Color color = 0;
  for (int channel = 0; channel < 3; ++channel)
    color = color << 8 | static_cast<Color>(std::lround(std::lerp(
                             stops[stop][channel], stops[stop + 1][channel], place - stop)));
  return color;
}

// Returns the colors of a map's cells, row by row.
std::vector<Color> colors_of(const HeatMap& map) {
  const auto values = map.values.values<float>();
  std::vector<Color> colors;
  if (map.values.rank() == 2) {
    for (const float value : values) colors.push_back(color_of(value));
    return colors;
  }
  const std::size_t channels = map.values.dim(0), cells = values.size() / channels;
  for (std::size_t i = 0; i < cells; ++i) {
    Color color = 0;
    for (std::size_t channel = 0; channel < 3; ++channel) {
      const float value = values[std::min(channel, channels - 1) * cells + i];
      color = color << 8 | static_cast<Color>(std::lround(255 * std::clamp(value, 0.0f, 1.0f)));
    }
    colors.push_back(color);
  }
  return colors;
}

void outline(const Box& box, Canvas& canvas) {
  const auto [left, top, width, height] = box;
  canvas.line({{left, top},
               {left + width, top},
               {left + width, top + height},
               {left, top + height},
               {left, top}},
              {.color = 0x999999});
}

// Draws the labels of the rows to the left of a box, or those of the columns below it; of labels
// that would overlap, one in several.
void draw_labels(const std::vector<std::string>& labels, const Box& box, bool of_rows,
                 Canvas& canvas) {
  if (labels.empty()) return;
  const double step = (of_rows ? box.height : box.width) / static_cast<double>(labels.size());
  const auto stride = static_cast<std::size_t>(std::ceil(TextStyle{}.size / std::max(step, 0.01)));
  for (std::size_t i = 0; i < labels.size(); i += stride) {
    const double along = (static_cast<double>(i) + 0.5) * step + 4.5;  // to the baseline
    canvas.text(of_rows ? Position{box.left - 6, box.top + along}
                        : Position{box.left + along, box.top + box.height + 6},
                label_text(labels[i], most_characters), {.anchor = end, .is_upright = !of_rows});
  }
}

void draw_map(const HeatMap& map, const Position& corner, Canvas& canvas) {
  const Box box{corner.x + left_of(map), corner.y + gap, extent_along(map, 1),
                extent_along(map, 0)};
  const std::vector<Color> colors = colors_of(map);
  if (!colors.empty()) canvas.cells(box, map.values.dim(-1), colors);
  outline(box, canvas);
  const double center = box.left + box.width / 2, bottom = box.top + box.height;
  canvas.text({center, box.top - 10}, label_text(map.title, 200), {.anchor = middle});
  draw_labels(map.row_labels, box, true, canvas);
  draw_labels(map.column_labels, box, false, canvas);
  if (!map.row_axis.empty())
    canvas.text({box.left - extent_of_labels(map.row_labels) - 4, box.top + box.height / 2},
                label_text(map.row_axis, 40), {.anchor = middle, .is_upright = true});
  if (!map.column_axis.empty())
    canvas.text({center, bottom + extent_of_labels(map.column_labels) + 14},
                label_text(map.column_axis, 40), {.anchor = middle});
}

void draw_scale(const std::vector<std::string>& labels, double left, Canvas& canvas) {
  if (labels.empty()) return;
  const Box box{left, 6, 200, 10};
  std::vector<Color> colors;
  for (int i = 0; i < 100; ++i) colors.push_back(color_of((i + 0.5) / 100));
  canvas.cells(box, std::ssize(colors), colors);
  outline(box, canvas);
  for (std::size_t i = 0; i < labels.size(); ++i)
    canvas.text({left + box.width * static_cast<double>(i) /
                            static_cast<double>(std::max<std::size_t>(1, labels.size() - 1)),
                 30},
                label_text(labels[i], 40), {.anchor = middle});
}

}  // namespace

Array attention_over(const Array& image, const Array& weights) {
  constexpr std::array<float, 3> red = {0.88f, 0.05f, 0.05f};
  constexpr float strongest = 0.85f, darkest = 0.35f;
  const std::int64_t C = image.dim(0), H = image.dim(1), W = image.dim(2), cells = H * W;
  const std::int64_t rows = weights.dim(0), columns = weights.dim(1);
  const auto from = image.values<float>(), weight = weights.values<float>();
  const float most = std::max(std::ranges::max(weight), 1e-20f);
  Array over({3, H, W});
  const auto to = over.mutable_values<float>();
  for (std::int64_t i = 0; i < cells; ++i) {
    float gray = 0;
    for (std::int64_t channel = 0; channel < C; ++channel)
      gray += from[channel * cells + i] / static_cast<float>(C);
    gray = std::lerp(darkest, 1.0f, gray);
    const std::int64_t patch = i / W * rows / H * columns + i % W * columns / W;
    for (std::int64_t channel = 0; channel < 3; ++channel)
      to[channel * cells + i] = std::lerp(gray, red[channel], strongest * weight[patch] / most);
  }
  return over;
}

std::vector<HeatMap> attention_of_words(const std::string& title, const Array& image,
                                        const std::vector<std::string>& words,
                                        const Array& weights) {
  std::vector<HeatMap> maps{{.title = title, .values = image}};
  for (std::int64_t word = 0; word < std::ssize(words); ++word)
    maps.push_back({.title = words[word],
                    .values = attention_over(
                        image, weights.select({word}).reshaped({weights.dim(1), weights.dim(2)}))});
  return maps;
}

Extent extent_of(const HeatMaps& maps) {
  Extent whole{.width = 400, .height = head};
  for (const auto& row : maps.rows) {
    const auto [width, height] = extent_of(row);
    whole = {std::max(whole.width, width + cell), whole.height + height + cell};
  }
  return whole;
}

void draw(const HeatMaps& maps, Canvas& canvas) {
  double top = head;
  for (const auto& row : maps.rows) {
    double left = 0;
    for (const HeatMap& map : row) {
      if (top == head && left == 0) draw_scale(maps.scale, left_of(map), canvas);
      draw_map(map, {left, top}, canvas);
      left += extent_of(map).width;
    }
    top += extent_of(row).height + cell;
  }
}

}  // namespace tapestry
