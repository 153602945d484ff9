#include "train/plot/render.hpp"

#include "autograd/check.hpp"
#include "train/plot/gnuplot.hpp"
#include "train/plot/png.hpp"

namespace tapestry {

std::string ending_of(Format format) { return format == Format::png ? ".png" : ".svg"; }

std::vector<Format> formats_of(const Figure& figure) {
  if (std::holds_alternative<PictureGrid>(figure)) return {Format::png};
  return {Format::png, Format::svg};
}

std::string render(const Figure& figure, Format format) {
  if (const auto* pictures = std::get_if<PictureGrid>(&figure)) {
    require(format == Format::png, "render: pictures as {}", ending_of(format));
    return to_png(*pictures);
  }
  return draw_by_gnuplot(figure, format);
}

}  // namespace tapestry
