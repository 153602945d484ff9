#include <cmath>

#include "autograd/ops/arithmetic.hpp"
#include "autograd/ops/reduce.hpp"
#include "autograd/ops/shaping.hpp"
#include "train/inspect/inspector.hpp"
#include "train/tasks/classification.hpp"
#include "train/tasks/images/image_classification.hpp"
#include "train/tasks/inspector_options.hpp"

namespace tapestry {
namespace {

const Key<std::int64_t> index_of_first = index_option("the validation image to look at");
const Key<std::int64_t> count = count_option(10);

// softmax(logits)[chosen]
double probability(std::span<const float> logits, std::int32_t chosen) {
  const double chosen_logit = logits[chosen];
  double total = 0;
  for (const float logit : logits) total += std::exp(static_cast<double>(logit) - chosen_logit);
  return 1 / total;
}

// "image 3: trousers 0.98  right", of the images from --index on.
Sample sample(ImageClassification& task, const Options& options) {
  const std::int64_t first = options[index_of_first];
  const Batch batch = task.data().validation(first, options[count]);
  const Array logits = task.model().forward(batch.inputs).value();
  const std::vector<std::int32_t> given = likeliest(logits);
  const auto right = batch.targets.values<std::int32_t>();
  const std::vector<std::string>& names = task.data().class_names();
  const std::int64_t V = logits.dim(1);
  std::string text;
  for (std::int64_t i = 0; i < std::ssize(given); ++i)
    text += fmt::format("image {}: {} {:.2f}  {}\n", first + i, names[given[i]],
                        probability(logits.values<float>().subspan(i * V, V), given[i]),
                        given[i] == right[i] ? "right" : "wrong, expected " + names[right[i]]);
  return {.text = text};
}

// weights (1, H, T, T) -> (H, rows, columns), laid out as the patches are: of what is read out, the
// class token's or all tokens' mean ones.
Array looked_at(const VisionTransformer& model, const Tensor& weights) {
  const std::int64_t H = weights.dim(1), T = weights.dim(2), side = model.options.patch;
  const bool first = model.options.readout == Readout::class_token;
  const Tensor asked = first ? slice(slice(weights, 2, 0, 1), 3, 1, T) : mean(weights, {2});
  return reshape(asked, {H, model.options.height / side, model.options.width / side}).value();
}

// The image, and what each head of each layer looks at in it.
AttentionMaps attention(ImageClassification& task, const Options& options) {
  const Batch batch = task.data().validation(options[index_of_first], 1);
  AttentionRecorder recorder;
  task.model().forward(batch.inputs);
  const Tensor image =
      Tensor(Array::full({1, 1}, 1)) -
      reshape(batch.inputs, {task.data().height(), task.data().width()});  // 0 is white
  AttentionMaps maps;
  for (const auto& [path, weights] : recorder.entries)
    maps.push_back(
        {.path = path, .weights = looked_at(task.model(), weights), .image = image.value()});
  return maps;
}

const RegisterInspector samples("image-classification", {index_of_first, count}, &sample);
const RegisterInspector attentions("image-classification", {index_of_first}, &attention);

}  // namespace
}  // namespace tapestry
