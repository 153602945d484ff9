#include <algorithm>
#include <numeric>

#include "train/inspect/inspector.hpp"
#include "train/tasks/images/vae.hpp"
#include "train/tasks/transformer_keys.hpp"

namespace tapestry {
namespace {

// Images that a page holds: as points, and as pictures beside their reconstructions.
constexpr std::int64_t most_points = 2000, most_pictures = 48;
constexpr std::int64_t most_numbers = 100'000, most_shown_pixels = 200'000;
constexpr std::int64_t most_pixels = std::int64_t{1} << 21;  // that are encoded together

std::int64_t fitting(std::int64_t most, std::int64_t each) {
  return std::max<std::int64_t>(1, most / each);
}

std::string activation_name(Activation activation) {
  return activation == Activation::none ? "" : key::activation.name_of(activation);
}

DecoderLayer described(const Linear& linear, Activation activation) {
  return {.kind = "linear",
          .weight = linear.weight.value(),
          .bias = linear.bias.value(),
          .activation = activation_name(activation)};
}

std::vector<std::int64_t> extents(const Planes& planes) {
  return {planes.channels, planes.height, planes.width};
}

Decoder described(const Vae& model) {
  const Activation activation = model.options.activation;
  Decoder decoder{.sigmoid = model.options.likelihood == Likelihood::bernoulli};
  for (const Linear& linear : model.decoder.layers) {
    const bool last = &linear == &model.decoder.layers.back();
    decoder.layers.push_back(
        described(linear, last && !model.decoder.activate_last ? Activation::none : activation));
  }
  if (!model.transposed_convolutions) return decoder;
  const auto& layers = model.transposed_convolutions->layers;
  std::vector<Planes> planes = stack_planes(model.transposed_convolutions->options);
  std::ranges::reverse(planes);
  for (std::size_t i = 0; i < layers.size(); ++i)
    decoder.layers.push_back(
        {.kind = "transposed_convolution",
         .weight = layers[i].weight.value(),
         .bias = layers[i].bias.value(),
         .stride = layers[i].options.stride,
         .padding = layers[i].options.padding,
         .in = extents(planes[i]),
         .out = extents(planes[i + 1]),
         .activation = activation_name(i + 1 < layers.size() ? activation : Activation::none)});
  return decoder;
}

// The images of the test split, or of the validation split where there is none.
ReportPanels panels(VaeTask& task, const Options&) {
  const Vae& model = task.model();
  const ImageDataset* test = task.data().test();
  const ImageDataset& images = test ? *test : task.data().splits().validation;
  const std::int64_t pixels = model.options.pixels();
  const std::int64_t N = std::min({images.size(), most_points, fitting(most_pixels, pixels),
                                   fitting(most_numbers, model.options.latent)});
  std::vector<std::int64_t> first(N);
  std::iota(first.begin(), first.end(), 0);
  const Batch batch = images.batch(first);
  const Array codes = model.encode(batch.inputs).mean.value();
  expect_finite(codes);
  first.resize(std::min({N, most_pictures, fitting(most_shown_pixels, pixels)}));
  const Array again = model.expected_image(codes.select(first)).value();
  const Shape pictures{std::ssize(first), model.options.height, model.options.width};
  return {LatentSpace{.split = test ? "test" : "validation",
                      .class_names = task.data().class_names(),
                      .classes = {images.labels().begin(), images.labels().begin() + N},
                      .codes = codes,
                      .images = batch.inputs.select(first).reshaped(pictures),
                      .reconstructions = again.reshaped(pictures),
                      .decoder = described(model)}};
}

const RegisterInspector shown("vae", {}, &panels);

}  // namespace
}  // namespace tapestry
