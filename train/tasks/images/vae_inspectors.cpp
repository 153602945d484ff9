#include <algorithm>
#include <cmath>

#include "autograd/counted.hpp"
#include "autograd/ops/arithmetic.hpp"
#include "autograd/ops/losses.hpp"
#include "autograd/ops/matmul.hpp"
#include "autograd/ops/reduce.hpp"
#include "autograd/ops/shaping.hpp"
#include "data/text/printable.hpp"
#include "train/inspect/onnx/models.hpp"
#include "train/inspect/predictor.hpp"
#include "train/inspect/values.hpp"
#include "train/plot/principal_components.hpp"
#include "train/tasks/images/vae.hpp"
#include "train/tasks/inspectors.hpp"
#include "train/tasks/transformer_settings.hpp"

namespace tapestry {
namespace {

enum class Kind { prior, reconstructions, denoised, around, interpolation };
const Choice<Kind> kind{"kind",
                        Kind::prior,
                        "images to show",
                        {{"prior", Kind::prior},
                         {"reconstructions", Kind::reconstructions},
                         {"denoised", Kind::denoised},
                         {"around", Kind::around},
                         {"interpolation", Kind::interpolation}}};
const Key<std::int64_t> image_count = count_option(
    "64 images, 32 reconstructions, 16 denoised images, 62 around an image, or 8 interpolations");
const Key<double> temperature =
    temperature_option("standard deviation of the code; 0: the mean", {kind.is(Kind::prior)});
const Key<std::int64_t> seed = seed_option({kind.is(Kind::prior, Kind::denoised, Kind::around)});
const Key<std::int64_t> first_image = index_option(
    "index of the validation image to start from",
    {kind.is(Kind::reconstructions, Kind::denoised, Kind::around, Kind::interpolation)});
const Key<std::string> decoded_image = image_option(
    "PNG or JPEG file that replaces the validation images, shown as a reconstruction "
    "unless --kind is given");
const Key<double> spread{"spread",
                         0.5,
                         "standard deviation of the noise that is added to a code (default: 0.5)",
                         {.low = 0, .high = 100, .used_if = {kind.is(Kind::around)}}};

const Key<double> noise_level{"noise",
                              -1,
                              "level of the noise (default: data.noise_level of the run)",
                              {.low = 0, .high = 10, .used_if = {kind.is(Kind::denoised)}}};

// Returns images (…, F) as a grid of pictures with `columns` per row.
PictureGrid grid(const Tensor& images, const VaeOptions& size, std::int64_t columns) {
  const Array pixels = images.value().to(DType::float32);
  const std::int64_t N = pixels.size() / size.values();
  return {pixels.reshaped({N, size.channels_in, size.height, size.width}), columns};
}

// Returns `steps` evenly spaced numbers from 0 to 1, (steps, 1).
Array equal_steps(std::int64_t steps) {
  std::vector<float> shares;
  for (std::int64_t i = 0; i < steps; ++i)
    shares.push_back(static_cast<float>(i) / static_cast<float>(steps - 1));
  return Array::of(shares, {steps, 1});
}

// Returns how many images are computed together: as many as have 2^18 values, at least one.
std::int64_t at_once(const Vae& model) {
  return std::max<std::int64_t>(1, (std::int64_t{1} << 18) / model.options.values());
}

// Returns fn(x) of x (N, ...), computed for at most `most` rows at a time.
template <class Fn>
Array in_parts(const Tensor& x, std::int64_t most, Fn fn) {
  std::vector<Tensor> parts;
  for (std::int64_t first = 0; first < x.dim(0); first += most)
    parts.push_back(fn(slice(x, 0, first, std::min(x.dim(0), first + most))));
  return concat(parts, 0).value();
}

// Returns the mean of q(z | x), (N, Z) float32, for every image.
Array latent_codes_of(const Vae& model, const ImageDataset& images) {
  std::vector<Tensor> codes;
  for (std::int64_t first = 0; first < images.size(); first += at_once(model))
    codes.push_back(model.encode(batch_from(images, first, at_once(model)).inputs).mean);
  return concat(codes, 0).value();
}

// Grids of pictures that a trained autoencoder makes from its latent space.
class Pictures {
 public:
  Pictures(VaeTask& task, const Options& options)
      : model_(task.model()),
        data_(task.data()),
        variational_(task.variational()),
        noise_(task.noise()),
        options_(options) {}

  // Returns images decoded from samples of the prior.
  PictureGrid prior() {
    const std::int64_t images = count_or(64);
    Tensor z = deviations(images, options_[temperature]);
    if (!variational_) z = z + training_codes().mean.to(DType::float32);
    const double side = std::ceil(std::sqrt(static_cast<double>(images)));
    return grid(decoded(z), model_.options, static_cast<std::int64_t>(side));
  }

  // Returns images, each beside its reconstruction.
  PictureGrid reconstructions() {
    const Tensor x = images_from_index(count_or(32));
    const std::int64_t N = x.dim(0), F = x.dim(1);
    const Tensor again = decoded(model_.encode(x).mean);
    return grid(concat({reshape(x, {N, 1, F}), reshape(again, {N, 1, F})}, 1), model_.options, 8);
  }

  // Returns images, each beside the same image with noise and what the model makes of that.
  PictureGrid denoised() {
    expect_input(noise_.is_any(),
                 "--kind denoised: the model was trained without noise; train one with --set "
                 "data.noise=gaussian");
    ImageNoise noise = noise_;
    if (options_.is_set(noise_level)) noise.level = options_[noise_level];
    expect_input(noise.is_possible(), "--noise {}: expected a fraction of the values, below 1",
                 noise.level);
    const Array x = images_from_index(count_or(16)).value();
    const std::int64_t N = x.dim(0), F = x.dim(1);
    Random random(options_[seed], Stream::sample);
    const Tensor input = noisy(x, noise, std::span(&random, 1));
    const Tensor again = decoded(model_.encode(input).mean);
    const auto column = [&](const Tensor& images) { return reshape(images, {N, 1, F}); };
    return grid(concat({column(x), column(input), column(again)}, 1), model_.options, 6);
  }

  // Returns the first image, its reconstruction, and the images of z + ε.
  PictureGrid around() {
    const std::int64_t images = count_or(62);
    const Tensor x = slice(images_from_index(1), 0, 0, 1), z = model_.encode(x).mean;
    const Tensor others = z + deviations(images, options_[spread]);
    return grid(concat({x, decoded(concat({z, others}, 0))}, 0), model_.options, 8);
  }

  // Returns a row for each pair of images: the two images at its ends, and between them the images
  // of equal steps from one code to the other. Throws InputError for fewer than two images.
  PictureGrid interpolation() {
    constexpr std::int64_t steps = 8;
    const Tensor x = images_from_index(2 * count_or(8));
    const std::int64_t pairs = x.dim(0) / 2, F = x.dim(1), Z = model_.options.latent;
    expect_input(pairs > 0 || !options_.is_set(decoded_image),
                 "--image: found one picture; --kind interpolation expects at least two; give "
                 "--image twice");
    expect_input(pairs > 0,
                 "--index {}: there is one validation image from this index on; "
                 "expected at least two images",
                 options_[first_image]);
    const Tensor ends = slice(x, 0, 0, 2 * pairs);
    const Tensor codes = reshape(model_.encode(ends).mean, {pairs, 2, Z});
    const Tensor from = slice(codes, 1, 0, 1), to = slice(codes, 1, 1, 2);  // (pairs, 1, Z)
    const Tensor z = from + equal_steps(steps) * (to - from);               // (pairs, steps, Z)
    const Tensor between = decoded(reshape(z, {pairs * steps, Z}));
    const Tensor both = reshape(ends, {pairs, 2, F});
    const Tensor rows = concat(
        {slice(both, 1, 0, 1), reshape(between, {pairs, steps, F}), slice(both, 1, 1, 2)}, 1);
    return grid(rows, model_.options, steps + 2);
  }

 private:
  std::int64_t count_or(std::int64_t usual) const {
    return options_[image_count] > 0 ? options_[image_count] : usual;
  }

  // Returns the decoded images: z (N, Z) -> (N, F).
  Tensor decoded(const Tensor& z) const {
    return in_parts(z, at_once(model_),
                    [&](const Tensor& some) { return model_.expected_image(some); });
  }

  // Returns the pictures of --image, or up to `wanted` validation images from --index on: (N, F).
  Tensor images_from_index(std::int64_t wanted) {
    const bool own = options_.is_set(decoded_image);
    expect_input(!own || !options_.is_set(first_image),
                 "--index: not used with --image; leave out --index");
    if (own) return data_.pictures(options_.texts(decoded_image));
    return data_.validation(options_[first_image], wanted).inputs;
  }

  // Returns samples (rows, Z) of N(0, scale²). A plain autoencoder has no prior: the mean and the
  // covariance of its training images' codes replace 0 and the identity.
  Tensor deviations(std::int64_t rows, double scale) {
    Random random(options_[seed], Stream::sample);
    Array epsilon({rows, model_.options.latent});
    random.fill_normal(epsilon, 0, scale);
    if (variational_) return epsilon;
    return matmul(epsilon, training_codes().factor.to(DType::float32));
  }

  const PrincipalComponents& training_codes() {
    if (!training_codes_)
      training_codes_ = principal_components(latent_codes_of(model_, data_.splits().train));
    return *training_codes_;
  }

  const Vae& model_;
  ImageData& data_;
  bool variational_;
  ImageNoise noise_;
  const Options& options_;
  std::optional<PrincipalComponents> training_codes_;
};

PictureGrid pictures_of(VaeTask& task, const Options& options) {
  Pictures pictures(task, options);
  const bool own = options.is_set(decoded_image);
  const Kind shown = own && !options.is_set(kind) ? Kind::reconstructions : options[kind];
  expect_input(!own || shown != Kind::prior,
               "--image: not used by --kind prior; give another kind");
  expect_input(!own || shown == Kind::around || !options.is_set(image_count),
               "--count: not used with --image, whose pictures are all shown; leave out --count");
  switch (shown) {
    case Kind::prior:
      return pictures.prior();
    case Kind::reconstructions:
      return pictures.reconstructions();
    case Kind::denoised:
      return pictures.denoised();
    case Kind::around:
      return pictures.around();
    case Kind::interpolation:
      return pictures.interpolation();
  }
  throw_unhandled(kind);
}

// Returns the code of each picture file, the mean of q(z | x), and the mean squared error of its
// reconstruction.
JsonValue codes_of(VaeTask& task, const std::vector<std::string>& paths) {
  JsonValue codes{{"images", JsonValue::array()}};
  for (const std::string& path : paths) {
    const Array x = task.data().pictures({path});
    const Tensor z = task.model().encode(x).mean;
    const Tensor error = mean(squared_error(task.model().expected_image(z), x));
    const Array code = z.value().to(DType::float32);
    codes["images"].push_back(
        {{"file", printable(path)},
         {"code", std::vector<float>(code.values<float>().begin(), code.values<float>().end())},
         {"mse", error.item()}});
  }
  return codes;
}

Sample sample_images(VaeTask& task, const Options& options) {
  Sample sample{.figure = pictures_of(task, options)};
  if (options.is_set(decoded_image)) sample.json = codes_of(task, options.texts(decoded_image));
  if (options.is_set(kind)) sample.name = kind.name_of(options[kind]);
  return sample;
}

// Maximum number of images on a page, as points and as pictures beside their reconstructions; of
// numbers of all points; and of pixels of all pictures.
constexpr std::int64_t most_points = 2000, most_pictures = 48;
constexpr std::int64_t most_numbers = 100'000, most_shown_pixels = 200'000;
// Maximum number of pixels encoded together.
constexpr std::int64_t most_pixels = std::int64_t{1} << 21;

std::int64_t fitting(std::int64_t most, std::int64_t each) {
  return std::max<std::int64_t>(1, most / each);
}

std::string activation_name(Activation activation) {
  return activation == Activation::none ? "" : name_of(activation);
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

// --- ONNX ---

using onnx::Graph, onnx::Value;

ImageSize size_of(const VaeOptions& options) {
  return {options.channels_in, options.height, options.width};
}

std::shared_ptr<Graph> encoder_graph(const Vae& model) {
  const VaeOptions& options = model.options;
  auto graph = std::make_shared<Graph>("encoder", "Where images lie in the latent space.");
  const Value images = graph->input(onnx_images(size_of(options), "from 0 (black) to 1"));
  const onnx::Posterior found = onnx::encode(model, onnx::reshape(images, {0, options.values()}));
  const auto latent = [&](const std::string& name, const std::string& help) {
    return onnx::Described{.name = name, .shape = {"batch", options.latent}, .help = help};
  };
  graph->output(latent("mean", "of q(z | x)"), found.mean);
  if (found.log_variance)
    graph->output(latent("log_variance", "of q(z | x): z = mean + exp(log_variance / 2) noise"),
                  *found.log_variance);
  return graph;
}

std::shared_ptr<Graph> decoder_graph(const Vae& model) {
  const VaeOptions& options = model.options;
  auto graph = std::make_shared<Graph>("decoder", "The images of points of the latent space.");
  const Value z = graph->input({.name = "z",
                                .shape = {"batch", options.latent},
                                .help = "the mean of an image, or a draw from N(0, 1)"});
  const ImageSize size = size_of(options);
  const Value images = onnx::expected_image(model, z);
  graph->output(onnx_images(size, "the mean of p(x | z), from 0 (black) to 1"),
                size.channels == 1 ? onnx::reshape(images, {0, size.height, size.width})
                                   : onnx::reshape(images, {0, 3, size.height, size.width}));
  return graph;
}

// Returns the mean squared error of noisy images (N, F) and of what the model makes of them, for
// levels of noise from 0 to twice the trained one.
TablePanel error_by_noise(VaeTask& task, const Array& images, const std::string& split) {
  const Vae& model = task.model();
  TablePanel table{
      .title = "Error by noise",
      .caption = fmt::format("Mean squared error of a pixel, {} of the {} split. The "
                             "model was trained with {} noise of level {}.",
                             counted(images.dim(0), "image"), split,
                             task.noise().kind == Noise::gaussian ? "gaussian" : "masking",
                             task.noise().level),
      .rows = {{"level", "noisy image", "restored image"}}};
  constexpr int steps = 8;
  for (int i = 0; i <= steps; ++i) {
    ImageNoise noise = task.noise();
    noise.level *= 2.0 * i / steps;
    if (!noise.is_possible()) break;
    Random random(0, Stream::sample);
    const Array input = noisy(images, noise, std::span(&random, 1));
    const Array restored = in_parts(input, at_once(model), [&](const Tensor& some) {
      return model.expected_image(model.encode(some).mean);
    });
    const auto error = [&](const Array& shown) {
      return fmt::format("{:.4f}", mean(squared_error(shown, images)).item());
    };
    table.rows.push_back({fmt::format("{:.3g}", noise.level), error(input), error(restored)});
  }
  return table;
}

}  // namespace

// Returns the columns z1, z2, … of the mean code of a picture, and mse, the mean squared error of
// its reconstruction.
Predictor vae_predictor(VaeTask& task) {
  Predictor predictor{.input = pictures_to_predict()};
  for (std::int64_t i = 1; i <= task.model().options.latent; ++i)
    predictor.columns.push_back({fmt::format("z{}", i), true});
  predictor.columns.push_back({"mse", true});
  const auto encode = [&task](const Array& images) {
    const Vae& model = task.model();
    const Tensor z = model.encode(images).mean;
    const Array codes = z.value().to(DType::float32);
    const Tensor errors = squared_error(model.expected_image(z), images);
    const Array mse = mean(errors, {1}).value().to(DType::float32);
    expect_finite(codes);
    std::vector<Prediction> predictions(codes.dim(0));
    for (std::size_t i = 0; i < predictions.size(); ++i) {
      const std::size_t Z = codes.dim(1);
      for (const float code : codes.values<float>().subspan(i * Z, Z))
        predictions[i].cells.push_back(fmt::format("{}", code));
      predictions[i].cells.push_back(fmt::format("{}", mse.values<float>()[i]));
    }
    return predictions;
  };
  predictor.predict = [&task, encode](std::span<const ExampleFields> paths) {
    return task.data().predict(paths, encode);
  };
  return predictor;
}

Inspector<Sample> vae_samples() {
  return {{kind, image_count, temperature, seed, first_image, decoded_image, spread, noise_level},
          &sample_images};
}

LatentCodes vae_latent_codes(VaeTask& task) {
  LatentCodes codes{.class_names = task.data().class_names()};
  const ImageTaskSplits& splits = task.data().splits();
  for (const auto& [name, images] :
       {std::pair{"train", &splits.train}, std::pair{"validation", &splits.validation},
        std::pair{"test", task.data().test()}})
    if (images != nullptr)
      codes.splits.push_back({name, latent_codes_of(task.model(), *images), images->labels()});
  return codes;
}

// Returns a panel of the images of the test split, or of the validation split if there is none.
// Throws InputError if a code is not finite.
ReportPanels vae_panels(VaeTask& task) {
  const Vae& model = task.model();
  const ImageDataset* test = task.data().test();
  const ImageDataset& images = test ? *test : task.data().splits().validation;
  const std::int64_t pixels = model.options.values();
  const std::int64_t N = std::min({images.size(), most_points, fitting(most_pixels, pixels),
                                   fitting(most_numbers, model.options.latent)});
  const Batch batch = batch_from(images, 0, N);
  const Array codes = model.encode(batch.inputs).mean.value();
  expect_finite(codes);
  const std::int64_t shown = std::min({N, most_pictures, fitting(most_shown_pixels, pixels)});
  const Array again = model.expected_image(slice(codes, 0, 0, shown)).value();
  const Shape pictures{shown, model.options.channels_in, model.options.height, model.options.width};
  const std::string split = test ? "test" : "validation";
  ReportPanels panels{
      LatentSpace{.split = split,
                  .class_names = task.data().class_names(),
                  .classes = {images.labels().begin(), images.labels().begin() + N},
                  .codes = codes,
                  .images = slice(batch.inputs, 0, 0, shown).value().reshaped(pictures),
                  .reconstructions = again.reshaped(pictures),
                  .decoder = described(model)}};
  if (task.noise().is_any()) panels.push_back(error_by_noise(task, batch.inputs, split));
  return panels;
}

onnx::Models vae_graphs(VaeTask& task) {
  return {encoder_graph(task.model()), decoder_graph(task.model())};
}

}  // namespace tapestry
