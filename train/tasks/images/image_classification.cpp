#include "train/tasks/images/image_classification.hpp"

#include "autograd/ops/losses.hpp"
#include "train/config/keys.hpp"
#include "train/tasks/classification.hpp"
#include "train/tasks/initialized.hpp"
#include "train/tasks/transformer_keys.hpp"

namespace tapestry {
namespace {

const Key<std::int64_t> patch{"model.patch",
                              4,
                              "side of a patch in pixels; must divide the images' height and width",
                              {.low = 1, .high = 1024}};
const Choice<Readout> pooling{
    "model.pooling",
    Readout::class_token,
    "what the classifier reads: the class token, or the mean of the patches",
    {{"class", Readout::class_token}, {"mean", Readout::mean}}};

std::vector<KeyInfo> image_classification_keys() {
  std::vector<KeyInfo> all = block_keys();
  all.insert(all.end(), {patch, pooling});
  for (KeyInfo& key : image_keys()) all.push_back(std::move(key));
  return all;
}

VisionTransformer make_vision_transformer(const Config& config, const ImageData& images) {
  const std::int64_t side = config[patch];
  config.expect(images.height() % side == 0 && images.width() % side == 0, patch,
                "does not divide images of {} × {} pixels", images.height(), images.width());
  const VisionTransformerOptions options{.height = images.height(),
                                         .width = images.width(),
                                         .patch = side,
                                         .classes = std::ssize(images.class_names()),
                                         .layers = config[key::layers],
                                         .block = block_options(config),
                                         .readout = config[pooling]};
  return initialized(config, [&](Random& init) { return VisionTransformer(options, init); });
}

TaskSpec image_classification_spec() {
  return {.name = "image-classification",
          .help = "a vision transformer that classifies images",
          .keys = image_classification_keys(),
          .make = make_task_of<ImageClassification>,
          .metrics = classification_metrics(),
          .samples = image_classification_samples(),
          .attention = image_classification_attention(),
          .panels = image_classification_panels,
          .onnx = image_classification_graphs,
          .is_usable_in_programs = true};
}

const RegisterTask registered_image_classification(image_classification_spec);

}  // namespace

ImageClassification::ImageClassification(const TaskSetup& setup)
    : data_(setup), model_(make_vision_transformer(setup.config, data_)) {}

Loss ImageClassification::loss(const Batch& batch, const Pass& pass) {
  const Tensor logits = model_.forward(batch.inputs, pass.training ? pass.noise : nullptr);
  const Tensor total = cross_entropy(logits, batch.targets, {.mean = false});
  return {total,
          {{"loss", {total.item(), batch.count}},
           {"accuracy", accuracy(logits.value(), batch.targets)}}};
}

}  // namespace tapestry
