#include <cmath>

#include "autograd/ops/arithmetic.hpp"
#include "autograd/ops/losses.hpp"
#include "autograd/ops/reduce.hpp"
#include "autograd/ops/shaping.hpp"
#include "layers/models/vision_transformer.hpp"
#include "train/settings/keys.hpp"
#include "train/tasks/classification.hpp"
#include "train/tasks/images/image_data.hpp"
#include "train/tasks/language/transformer_keys.hpp"

namespace tapestry {
namespace {

const Key<std::int64_t> patch{
    "model.patch", 4, "a side of a patch in pixels; divides the images'", {.low = 1, .high = 1024}};
const Key<std::string> pooling{"model.pooling",
                               "class",
                               "what is read out: a class token, or the patches' mean",
                               {.choices = {"class", "mean"}}};

std::vector<KeyInfo> keys() {
  std::vector<KeyInfo> all = block_keys();
  all.insert(all.end(), {patch, pooling});
  for (KeyInfo& key : image_keys()) all.push_back(std::move(key));
  return all;
}

VisionTransformer make_model(const Config& config, const ImageData& images) {
  const std::int64_t side = config[patch];
  config.expect(images.height() % side == 0 && images.width() % side == 0, patch,
                "does not divide images of {} × {} pixels", images.height(), images.width());
  Random init(static_cast<std::uint64_t>(config[key::seed]), Stream::init);
  return VisionTransformer(
      {.height = images.height(),
       .width = images.width(),
       .patch = side,
       .classes = std::ssize(images.class_names()),
       .layers = config[key::layers],
       .block = block_options(config),
       .positions = positions_of(config),
       .readout = config[pooling] == "class" ? Readout::class_token : Readout::mean},
      init);
}

// softmax(logits)[chosen]
double probability(std::span<const float> logits, std::int32_t chosen) {
  const double chosen_logit = logits[chosen];
  double total = 0;
  for (const float logit : logits) total += std::exp(static_cast<double>(logit) - chosen_logit);
  return 1 / total;
}

class ImageClassification final : public Task {
 public:
  explicit ImageClassification(const TaskSetup& setup)
      : config_(setup.config), data_(setup), model_(make_model(config_, data_)) {}

  Module& model() override { return model_; }
  const Dataset& training_data() override { return data_.splits().train; }
  const Dataset& validation_data() override { return data_.splits().test; }

  Loss loss(const Batch& batch, const Pass& pass) override {
    const Tensor logits = model_.forward(batch.inputs, pass.training ? pass.noise : nullptr);
    const Tensor total = cross_entropy(logits, batch.targets, {.mean = false});
    return {total,
            {{"loss", {total.item(), batch.count}},
             {"accuracy", accuracy(logits.value(), batch.targets)}}};
  }

  // "image 3: trousers 0.98  right", of the images from --index on.
  Sample sample(const SampleOptions& options) override {
    const Batch batch = data_.validation(options.index, options.count > 0 ? options.count : 10);
    const Array logits = model_.forward(batch.inputs).value();
    const std::vector<std::int32_t> given = likeliest(logits);
    const auto right = batch.targets.values<std::int32_t>();
    const auto V = logits.dim(1);
    std::string text;
    for (std::size_t i = 0; i < given.size(); ++i)
      text += fmt::format("image {}: {} {:.2f}  {}\n", options.index + static_cast<std::int64_t>(i),
                          name(given[i]),
                          probability(logits.values<float>().subspan(i * V, V), given[i]),
                          given[i] == right[i] ? "right" : "wrong, expected " + name(right[i]));
    return {text};
  }

  // The image --index, and what each head of each layer looks at in it.
  std::vector<AttentionMaps> attention(const SampleOptions& options) override {
    const Batch batch = data_.validation(options.index, 1);
    AttentionRecorder recorder;
    model_.forward(batch.inputs);
    const Tensor image = Tensor(Array::full({1, 1}, 1)) -
                         reshape(batch.inputs, {data_.height(), data_.width()});  // 0 is white
    std::vector<AttentionMaps> maps;
    for (const auto& [path, weights] : recorder.entries)
      maps.push_back({.path = path, .weights = looked_at(weights), .image = image.value()});
    return maps;
  }

  std::map<std::string, std::string> metadata() const override { return data_.metadata(); }

 private:
  // weights (1, H, T, T) -> (H, rows, columns), laid out as the patches are: of what is read out,
  // the class token's or all tokens' mean ones.
  Array looked_at(const Tensor& weights) const {
    const std::int64_t H = weights.dim(1), T = weights.dim(2), side = config_[patch];
    const bool first = model_.options.readout == Readout::class_token;
    const Tensor asked = first ? slice(slice(weights, 2, 0, 1), 3, 1, T) : mean(weights, {2});
    return reshape(asked, {H, data_.height() / side, data_.width() / side}).value();
  }

  const std::string& name(std::int32_t label) const { return data_.class_names()[label]; }

  Config config_;
  ImageData data_;
  VisionTransformer model_;
};

const RegisterTask registered("image-classification",
                              {"a vision transformer that tells what an image shows", keys(),
                               [](const TaskSetup& setup) -> std::unique_ptr<Task> {
                                 return std::make_unique<ImageClassification>(setup);
                               }});

}  // namespace
}  // namespace tapestry
