#include "layers/models/convolutional_classifier.hpp"

#include "autograd/check.hpp"
#include "autograd/ops/pooling.hpp"
#include "autograd/ops/reduce.hpp"
#include "autograd/ops/shaping.hpp"
#include "autograd/tape.hpp"

namespace tapestry {
namespace {

using Options = ConvolutionalClassifierOptions;

bool is_strided(const Options& options) { return options.downsampling == Downsampling::stride; }

// Returns the options of the convolution of a stage, or of the one before the blocks.
Convolution2dOptions convolution_options(const Options& options, std::size_t stage) {
  return {.kernel = options.kernel,
          .stride = options.blocks == 0 && is_strided(options) ? 2 : 1,
          .padding = options.padding.empty() ? (options.kernel - 1) / 2 : options.padding[stage]};
}

// Returns the options. Throws std::invalid_argument if they do not fit.
const Options& checked(const Options& options) {
  const Planes last = features_of(options);
  require(last.height >= 1 && last.width >= 1,
          "convolutional classifier: images of {} × {} are too small for {} stages with kernel {}; "
          "use fewer stages, a smaller kernel, or larger images",
          options.height, options.width, options.channels.size(), options.kernel);
  return options;
}

std::vector<Convolution2d> make_convolutions(const Options& options, Random& init) {
  std::vector<Convolution2d> convolutions;
  std::int64_t in = options.channels_in;
  for (std::size_t stage = 0; stage < (options.blocks > 0 ? 1 : options.channels.size()); ++stage) {
    convolutions.emplace_back(in, options.channels[stage], init,
                              convolution_options(options, stage));
    in = options.channels[stage];
  }
  return convolutions;
}

std::vector<GroupNorm> make_norms(const Options& options,
                                  const std::vector<Convolution2d>& convolutions) {
  std::vector<GroupNorm> norms;
  if (options.groups > 0)
    for (const Convolution2d& convolution : convolutions)
      norms.emplace_back(convolution.bias.tensor.size(),
                         GroupNormOptions{.groups = options.groups});
  return norms;
}

std::vector<ResidualConvolution> make_blocks(const Options& options, Random& init) {
  std::vector<ResidualConvolution> blocks;
  std::int64_t in = options.channels.front();
  for (std::size_t stage = 0; stage < options.channels.size(); ++stage)
    for (std::int64_t block = 0; block < options.blocks; ++block) {
      const bool halves = stage > 0 && block == 0 && is_strided(options);
      blocks.emplace_back(in, options.channels[stage], init,
                          ResidualConvolutionOptions{.kernel = options.kernel,
                                                     .stride = halves ? 2 : 1,
                                                     .groups = options.groups,
                                                     .activation = options.activation});
      in = options.channels[stage];
    }
  return blocks;
}

// Returns the widths of the linear layers, from the inputs to the classes.
std::vector<std::int64_t> head_widths(const Options& options) {
  const Planes last = features_of(options);
  std::vector<std::int64_t> widths{last.channels *
                                   (options.blocks > 0 ? 1 : last.height * last.width)};
  widths.insert(widths.end(), options.hidden.begin(), options.hidden.end());
  widths.push_back(options.classes);
  return widths;
}

// Returns the pooled planes, of half the height and width; x if convolutions have the stride.
Tensor downsample(Downsampling by, const Tensor& x) {
  switch (by) {
    case Downsampling::max:
      return max_pool2d(x);
    case Downsampling::average:
      return average_pool2d(x);
    case Downsampling::stride:
      return x;
  }
  throw_unhandled("downsampling");
}

}  // namespace

Planes features_of(const ConvolutionalClassifierOptions& options) {
  const std::size_t stages = options.channels.size();
  require(stages > 0, "convolutional classifier: channels is empty; expected one for each stage");
  require(options.padding.empty() || (options.blocks == 0 && options.padding.size() == stages),
          "convolutional classifier: {} paddings; expected one for each of {} stages without "
          "blocks, or none",
          options.padding.size(), stages);
  const auto size_of = [&](std::int64_t pixels) {
    for (std::size_t stage = 0; stage < stages; ++stage) {
      if (options.blocks == 0 || stage == 0) {
        const auto [K, stride, padding] = convolution_options(options, stage);
        pixels = positions_along(pixels, K, stride, padding);
      }
      if (options.blocks > 0 && stage + 1 == stages) continue;  // no stage follows
      if (!is_strided(options))
        pixels /= 2;
      else if (options.blocks > 0)
        pixels = (pixels + 1) / 2;
    }
    return pixels;
  };
  return {.channels = options.channels.back(),
          .height = size_of(options.height),
          .width = size_of(options.width)};
}

ConvolutionalClassifier::ConvolutionalClassifier(const ConvolutionalClassifierOptions& wanted,
                                                 Random& init)
    : options(checked(wanted)),
      convolutions(make_convolutions(options, init)),
      norms(make_norms(options, convolutions)),
      blocks(make_blocks(options, init)),
      dropout(options.dropout),
      head(head_widths(options), init, {.activation = options.activation}) {
  head.layers.back().weight.role = Role::head;
}

Tensor ConvolutionalClassifier::forward(const Tensor& images, Random* noise) const {
  const Scope scope(path());
  const std::int64_t C = options.channels_in, H = options.height, W = options.width;
  require(images.rank() >= 1 && images.size() == images.dim(0) * C * H * W,
          "convolutional classifier: images {}; expected (B, {} · {} · {})", images.shape(), C, H,
          W);
  const std::int64_t B = images.dim(0);
  Tensor x = reshape(images, {B, C, H, W});
  for (std::size_t i = 0; i < convolutions.size(); ++i) {
    x = convolutions[i].forward(x);
    if (!norms.empty()) x = norms[i].forward(x);
    x = activate(options.activation, x);
    if (blocks.empty()) x = downsample(options.downsampling, x);
  }
  for (std::size_t i = 0; i < blocks.size(); ++i) {
    if (i > 0 && i % options.blocks == 0) x = downsample(options.downsampling, x);
    x = blocks[i].forward(x);
  }
  x = blocks.empty() ? reshape(x, {B, x.dim(1) * x.dim(2) * x.dim(3)}) : mean(x, {2, 3});
  return head.forward(dropout.forward(x, noise));
}

TAPESTRY_FIELDS(ConvolutionalClassifier, convolutions, norms, blocks, head)

}  // namespace tapestry
