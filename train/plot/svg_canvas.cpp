#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <map>
#include <utility>

#include "data/text/printable.hpp"
#include "train/plot/canvas.hpp"

namespace tapestry {
namespace {

// Returns a number with at most two decimals: "12", "0.5", "-3.25".
std::string short_number(double value) {
  std::string text = fmt::format("{:.2f}", value);
  text.erase(text.find_last_not_of('0') + 1);
  if (text.ends_with('.')) text.pop_back();
  return text == "-0" ? "0" : text;
}

// Returns whether a byte of UTF-8 begins a character.
bool begins_character(char byte) { return (static_cast<unsigned char>(byte) & 0xc0) != 0x80; }

std::string color_text(Color color) { return fmt::format("#{:06x}", color); }

class SvgCanvas final : public Canvas {
 public:
  explicit SvgCanvas(const Extent& extent) {
    const std::string width = short_number(extent.width), height = short_number(extent.height);
    svg_ = fmt::format(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{0}\" height=\"{1}\" "
        "viewBox=\"0 0 {0} {1}\" font-family=\"DejaVu Sans, sans-serif\">\n"
        "<rect width=\"{0}\" height=\"{1}\" fill=\"#ffffff\"/>\n",
        width, height);
  }

  void line(std::span<const Position> points, const Stroke& stroke) override {
    std::string path;
    for (const auto& [x, y] : points)
      path += fmt::format("{}{} {}", path.empty() ? "M" : "L", short_number(x), short_number(y));
    add_path(
        path, stroke.color,
        fmt::format("stroke-width=\"{}\" stroke-linejoin=\"round\"", short_number(stroke.width)));
  }

  // A line without length is drawn as its caps.
  void markers(std::span<const Position> points, const Marker& marker) override {
    std::string path;
    for (const auto& [x, y] : points)
      path += fmt::format("M{} {}h0", short_number(x), short_number(y));
    add_path(path, marker.color,
             fmt::format("stroke-width=\"{}\" stroke-linecap=\"{}\"", short_number(marker.size),
                         marker.is_square ? "square" : "round"));
  }

  void text(const Position& position, const std::string& text, const TextStyle& style) override {
    const std::string x = short_number(position.x), y = short_number(position.y);
    constexpr const char* anchors[] = {"start", "middle", "end"};
    svg_ +=
        fmt::format("<text x=\"{}\" y=\"{}\" font-size=\"{}\" text-anchor=\"{}\"{}>{}</text>\n", x,
                    y, short_number(style.size), anchors[static_cast<int>(style.anchor)],
                    style.is_upright ? fmt::format(" transform=\"rotate(-90 {} {})\"", x, y) : "",
                    markup_escaped(text));
  }

  // One path for each color, with a rectangle for each run of it in a row.
  void cells(const Box& box, std::int64_t columns, std::span<const Color> colors) override {
    const std::int64_t rows = std::ssize(colors) / columns;
    std::map<Color, std::string> paths;
    for (std::int64_t row = 0; row < rows; ++row)
      for (std::int64_t from = 0, to = 0; from < columns; from = to) {
        const Color color = colors[row * columns + from];
        while (to < columns && colors[row * columns + to] == color) ++to;
        paths[color] += fmt::format("M{} {}h{}v1H{}z", from, row, to - from, from);
      }
    svg_ += fmt::format(
        "<g transform=\"translate({} {}) scale({:.6g} {:.6g})\" shape-rendering=\"crispEdges\">\n",
        short_number(box.left), short_number(box.top), box.width / static_cast<double>(columns),
        box.height / static_cast<double>(rows));
    for (const auto& [color, path] : paths)
      svg_ += fmt::format("<path fill=\"{}\" d=\"{}\"/>\n", color_text(color), path);
    svg_ += "</g>\n";
  }

  std::string finish() override { return std::move(svg_) + "</svg>\n"; }

 private:
  void add_path(const std::string& path, Color stroke, const std::string& attributes) {
    if (!path.empty())
      svg_ += fmt::format("<path fill=\"none\" stroke=\"{}\" {} d=\"{}\"/>\n", color_text(stroke),
                          attributes, path);
  }

  std::string svg_;
};

}  // namespace

std::string markup_escaped(std::string_view text) {
  using Entity = std::pair<char, const char*>;
  constexpr Entity entities[] = {
      {'&', "&amp;"}, {'<', "&lt;"}, {'>', "&gt;"}, {'"', "&quot;"}, {'\'', "&#39;"}};
  std::string escaped;
  for (const char c : text) {
    const auto* entity = std::ranges::find(entities, c, &Entity::first);
    escaped += entity == std::end(entities) ? std::string(1, c) : entity->second;
  }
  return escaped;
}

std::string label_text(const std::string& text, std::size_t most) {
  if (text == " ") return "␣";
  std::string marked;
  for (const char c : text) marked += c == '\n' ? "↵" : c == '\t' ? "⇥" : std::string(1, c);
  const std::string shown = printable(marked);
  std::size_t characters = 0;
  for (std::size_t i = 0; i < shown.size(); ++i)
    if (begins_character(shown[i]) && ++characters > most) return shown.substr(0, i) + "…";
  return shown;
}

double width_of(const std::string& text, double size) {
  constexpr double mean_width = 0.58;  // of a character of DejaVu Sans, as a part of its size
  return mean_width * size * static_cast<double>(std::ranges::count_if(text, begins_character));
}

std::unique_ptr<Canvas> svg_canvas(const Extent& extent) {
  return std::make_unique<SvgCanvas>(extent);
}

}  // namespace tapestry
