#include <doctest/doctest.h>

#include "layers/models/decoder_classifier.hpp"
#include "layers/models/forecaster.hpp"
#include "layers/models/text_classifier.hpp"
#include "layers/models/vision_transformer.hpp"
#include "tests/support/layer_table.hpp"

namespace tapestry {
// Rows of the table of layers: encoders of sequences and patches.
std::vector<LayerRow> encoder_layers() {
  Random r = init();
  const TransformerBlockOptions block{
      .width = 4, .attention = {.heads = 2}, .feed_forward = {.hidden = 6}, .dropout = 0.2};
  TransformerBlockOptions post = block;
  post.norm = NormPlacement::post;
  const auto noisy = [](const auto& model, In in) {
    Random noise(1, Stream::dropout);
    return model.forward(in[0], &noise);
  };
  const auto padded = [](const Encoder& encoder, In in) {
    return encoder.forward(in[0], {.attention = {.key_padding = ints({0, 0, 1, 0, 0, 0}, {2, 3})}});
  };
  const auto cyclic = [](const Forecaster& model, In in) {
    Random noise(1, Stream::dropout);
    return model.forward(in[0], &noise, ints({3, 0}, {2}));
  };
  const Array x = normal({2, 3, 4}), patches = normal({2, 3, 5}), images = pixels({2, 24}),
              series = normal({2, 6, 3});
  std::vector<LayerRow> rows = {
      make_row("Encoder", Encoder(2, block, r), padded, {x}),
      make_row("PatchEncoder: learned",
               PatchEncoder({.patches = 3, .values = 5, .layers = 1, .block = block}, r), noisy,
               {patches}),
  };
  TransformerBlockOptions modern = block;
  modern.feed_forward.gated = true;
  modern.norms.kind = NormKind::rms;
  rows.push_back(
      make_row("PatchEncoder: gated, root mean square",
               PatchEncoder({.patches = 3, .values = 5, .layers = 1, .block = modern}, r), noisy,
               {patches}));
  TransformerBlockOptions bare = block;
  bare.feed_forward.hidden = -1;
  bare.norms.kind = NormKind::none;
  rows.push_back(
      make_row("Encoder: no norms and no feed-forward", Encoder(2, bare, r), padded, {x}));
  for (const auto& [positions, name] : {std::pair{Positions::sinusoidal, "sinusoidal"},
                                        {Positions::rotary, "rotary"},
                                        {Positions::none, "no positions"}}) {
    post.attention.positions = positions;
    rows.push_back(make_row(
        fmt::format("PatchEncoder: {}, class token, post-norm", name),
        PatchEncoder({.patches = 3, .values = 5, .layers = 1, .block = post, .class_token = true},
                     r),
        noisy, {patches}));
  }
  VisionTransformerOptions vision{.height = 4, .width = 6, .patch = 2, .classes = 3, .layers = 1};
  vision.block = block;
  VisionTransformerOptions color = vision;
  color.channels_in = 2;
  for (const auto& [readout, name] :
       {std::pair{Readout::class_token, "class token"}, {Readout::mean, "mean"}}) {
    vision.readout = readout;
    rows.push_back(make_row(fmt::format("VisionTransformer: {}", name),
                            VisionTransformer(vision, r), noisy, {images}));
  }
  // The second text is padded.
  for (const auto& [layers, readout, name] : {std::tuple(1, Readout::mean, "mean"),
                                              {1, Readout::class_token, "class token"},
                                              {0, Readout::mean, "embeddings"}})
    rows.push_back(
        make_row(fmt::format("TextClassifier: {}", name),
                 TextClassifier({.tokens = 5,
                                 .context = 4,
                                 .classes = 3,
                                 .layers = layers,
                                 .block = block,
                                 .readout = readout},
                                r),
                 [](const TextClassifier& model, In) {
                   Random noise(1, Stream::dropout);
                   const std::int32_t first = model.first_token().value_or(3);
                   return model.forward(ints({first, 0, 4, 1, first, 2, 5, 5}, {2, 4}), &noise);
                 },
                 {}));
  rows.push_back(make_row(
      "DecoderClassifier",
      DecoderClassifier({.vocabulary = 5, .context = 4, .layers = 1, .block = block}, 3, r),
      [](const DecoderClassifier& model, In) {
        Random noise(1, Stream::dropout);
        return model.forward(ints({3, 0, 4, 1, 2, 0, 5, 5}, {2, 4}), &noise);
      },
      {}));
  rows.push_back(
      make_row("VisionTransformer: color", VisionTransformer(color, r), noisy, {pixels({2, 48})}));
  for (const auto& [norm, name] :
       {std::pair{WindowNorm::instance, "instance"}, {WindowNorm::last, "last"}})
    for (const std::int64_t layers : {0, 1})
      for (const std::vector<std::int64_t>& targets : {std::vector<std::int64_t>(), {2, 0}}) {
        const ForecasterOptions options{.context = 6,
                                        .horizon = 2,
                                        .patch = 4,
                                        .stride = 2,
                                        .layers = layers,
                                        .block = block,
                                        .norm = norm,
                                        .series = 3,
                                        .targets = targets};
        ForecasterOptions with_cycle = options;
        with_cycle.cycle = 4;
        const std::string row = fmt::format("Forecaster: {} layers, less its {}, {} targets",
                                            layers, name, targets.size());
        rows.push_back(make_row(row + ", a cycle", Forecaster(with_cycle, r), cyclic, {series}));
        rows.push_back(make_row(row, Forecaster(options, r), noisy, {series}));
      }
  return rows;
}

}  // namespace tapestry
