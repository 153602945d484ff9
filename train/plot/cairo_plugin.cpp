#include <cairo/cairo.h>

#include <numbers>
#include <stdexcept>
#include <string>

#include "train/plot/canvas.hpp"

// A separate library, which render() loads for PNG.
namespace tapestry {
namespace {

constexpr double byte = 255;

class CairoCanvas final : public Canvas {
 public:
  explicit CairoCanvas(const Extent& extent)
      : surface_(cairo_image_surface_create(CAIRO_FORMAT_RGB24, static_cast<int>(extent.width),
                                            static_cast<int>(extent.height))),
        context_(cairo_create(surface_)) {
    set_color(0xffffff);
    cairo_paint(context_);
    cairo_select_font_face(context_, "DejaVu Sans", CAIRO_FONT_SLANT_NORMAL,
                           CAIRO_FONT_WEIGHT_NORMAL);
    cairo_set_line_join(context_, CAIRO_LINE_JOIN_ROUND);
  }
  ~CairoCanvas() override {
    cairo_destroy(context_);
    cairo_surface_destroy(surface_);
  }
  CairoCanvas(const CairoCanvas&) = delete;
  CairoCanvas& operator=(const CairoCanvas&) = delete;

  void line(std::span<const Position> points, const Stroke& stroke) override {
    for (const auto& [x, y] : points) cairo_line_to(context_, x, y);  // the first begins the path
    set_color(stroke.color);
    cairo_set_line_width(context_, stroke.width);
    cairo_stroke(context_);
  }

  void markers(std::span<const Position> points, const Marker& marker) override {
    set_color(marker.color);
    const double half = marker.size / 2;
    for (const auto& [x, y] : points) {
      if (marker.is_square)
        cairo_rectangle(context_, x - half, y - half, marker.size, marker.size);
      else
        cairo_arc(context_, x, y, half, 0, 2 * std::numbers::pi);
      cairo_fill(context_);
    }
  }

  void text(const Position& position, const std::string& text, const TextStyle& style) override {
    cairo_set_font_size(context_, style.size);
    cairo_text_extents_t extents;
    cairo_text_extents(context_, text.c_str(), &extents);
    const double before = extents.x_advance * 0.5 * static_cast<int>(style.anchor);
    cairo_save(context_);
    cairo_translate(context_, position.x, position.y);
    if (style.is_upright) cairo_rotate(context_, -std::numbers::pi / 2);
    cairo_move_to(context_, -before, 0);
    set_color(0);
    cairo_show_text(context_, text.c_str());
    cairo_restore(context_);
    cairo_new_path(context_);
  }

  void cells(const Box& box, std::int64_t columns, std::span<const Color> colors) override {
    const auto rows = static_cast<std::int64_t>(colors.size()) / columns;
    cairo_surface_t* image = cairo_image_surface_create(
        CAIRO_FORMAT_RGB24, static_cast<int>(columns), static_cast<int>(rows));
    unsigned char* bytes = cairo_image_surface_get_data(image);
    if (!bytes) {
      cairo_surface_destroy(image);
      throw std::runtime_error("render: cairo has no memory for a map; free some memory");
    }
    const std::int64_t stride = cairo_image_surface_get_stride(image);
    for (std::int64_t row = 0; row < rows; ++row)
      for (std::int64_t column = 0; column < columns; ++column)
        reinterpret_cast<Color*>(bytes + row * stride)[column] = colors[row * columns + column];
    cairo_surface_mark_dirty(image);
    const double wide = box.width / static_cast<double>(columns),
                 high = box.height / static_cast<double>(rows);
    cairo_save(context_);
    cairo_rectangle(context_, box.left, box.top, box.width, box.height);
    cairo_clip(context_);
    cairo_translate(context_, box.left, box.top);
    cairo_scale(context_, wide, high);
    cairo_set_source_surface(context_, image, 0, 0);
    cairo_pattern_set_filter(cairo_get_source(context_),
                             wide < 1 || high < 1 ? CAIRO_FILTER_GOOD : CAIRO_FILTER_NEAREST);
    cairo_paint(context_);
    cairo_restore(context_);
    cairo_surface_destroy(image);
  }

  std::string finish() override {
    const auto append = [](void* bytes, const unsigned char* more, unsigned count) {
      static_cast<std::string*>(bytes)->append(reinterpret_cast<const char*>(more), count);
      return CAIRO_STATUS_SUCCESS;
    };
    std::string bytes;
    cairo_status_t status = cairo_status(context_);
    if (status == CAIRO_STATUS_SUCCESS)
      status = cairo_surface_write_to_png_stream(surface_, append, &bytes);
    if (status != CAIRO_STATUS_SUCCESS)
      throw std::runtime_error(std::string("render: cairo cannot write the PNG: ") +
                               cairo_status_to_string(status) + "; write SVG (--out x.svg)");
    return bytes;
  }

 private:
  void set_color(Color color) {
    cairo_set_source_rgb(context_, (color >> 16 & 0xff) / byte, (color >> 8 & 0xff) / byte,
                         (color & 0xff) / byte);
  }

  cairo_surface_t* surface_;
  cairo_t* context_;
};

std::unique_ptr<Canvas> open(const Extent& extent) { return std::make_unique<CairoCanvas>(extent); }

}  // namespace
}  // namespace tapestry

extern "C" const tapestry::PngCanvas tapestry_png_canvas{.open = tapestry::open};
