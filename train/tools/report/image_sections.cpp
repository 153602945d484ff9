#include <fmt/format.h>

#include <algorithm>

#include "autograd/counted.hpp"
#include "autograd/ops/shaping.hpp"
#include "train/plot/principal_components.hpp"
#include "train/tools/report/html.hpp"
#include "train/tools/report/page.hpp"

namespace tapestry {
namespace {

// Maximum number of decoder weights in a page of 5 MB, as float32 and as float16.
constexpr std::int64_t most_floats = 600'000, most_halves = 1'400'000;

std::int64_t count_weights(const Decoder& decoder) {
  std::int64_t count = 0;
  for (const DecoderLayer& layer : decoder.layers) count += layer.weight.size() + layer.bias.size();
  return count;
}

JsonValue data_of(const DecoderLayer& layer, bool in_full) {
  JsonValue data = {{"kind", layer.kind},
                    {"weight", in_full ? as_floats(layer.weight) : as_halves(layer.weight)},
                    {"bias", as_floats(layer.bias)},
                    {"activation", layer.activation}};
  if (layer.stride > 0)
    data.update({{"stride", layer.stride},
                 {"padding", layer.padding},
                 {"in", layer.in},
                 {"out", layer.out}});
  return data;
}

void add_decoder(const Decoder& decoder, JsonValue& data) {
  const std::int64_t weights = count_weights(decoder);
  if (weights > most_halves) {
    data["decoder"] = nullptr;
    data["why_no_decoder"] = fmt::format(
        "The decoder has {} weights, more than a page can hold ({}): `tapestry "
        "sample RUN --kind around` draws its images.",
        weights, most_halves);
    return;
  }
  data["decoder"] = {{"layers", JsonValue::array()},
                     {"output", decoder.sigmoid ? "sigmoid" : "identity"}};
  for (const DecoderLayer& layer : decoder.layers)
    data["decoder"]["layers"].push_back(data_of(layer, weights <= most_floats));
}

JsonValue basis_of(const PrincipalComponents& components) {
  constexpr std::int64_t most_axes = 8;
  const std::int64_t K = std::min(components.axes.dim(0), most_axes);
  return {{"mean", as_floats(components.mean)},
          {"axes", as_floats(slice(components.axes, 0, 0, K).value())}};
}

}  // namespace

ReportSection section_of(const LabeledPictures& pictures) {
  std::string html = "<div class=\"labeled\">\n";
  for (std::size_t i = 0; i < pictures.labels.size(); ++i) {
    const Array image = pictures.images.select({static_cast<std::int64_t>(i)});
    html += fmt::format("<figure>{}<figcaption>{}</figcaption></figure>\n",
                        html_pictures({.images = image}, pictures.labels[i]),
                        html_text(pictures.labels[i]));
  }
  return {.title = pictures.title, .caption = pictures.caption, .fallback = html + "</div>\n"};
}

ReportSection section_of(const LatentSpace& space) {
  const std::int64_t N = space.codes.dim(0), Z = space.codes.dim(1);
  const PrincipalComponents components = principal_components(space.codes);
  ReportSection section{
      .script = "latent",
      .title = "Latent space",
      .caption = fmt::format("{} of the {} split.", counted(N, "image"), space.split)};
  section.data = {{"channels", space.images.dim(1)},
                  {"height", space.images.dim(2)},
                  {"width", space.images.dim(3)},
                  {"class_names", as_labels(space.class_names)},
                  {"classes", as_integers(space.classes, {N})},
                  {"codes", as_floats(space.codes)},
                  {"latent", Z},
                  {"basis", basis_of(components)},
                  {"pictures", as_bytes(space.images)},
                  {"reconstructed", as_bytes(space.reconstructions)}};
  add_decoder(space.decoder, section.data);
  return section;
}

}  // namespace tapestry
