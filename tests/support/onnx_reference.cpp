#include "tests/support/onnx_reference.hpp"

#include <algorithm>

#include "autograd/ops/arithmetic.hpp"
#include "autograd/ops/shaping.hpp"
#include "data/text/tokenizer.hpp"
#include "train/tasks/graphs/graph_task.hpp"
#include "train/tasks/images/image_classification.hpp"
#include "train/tasks/images/vae.hpp"
#include "train/tasks/language/language_model.hpp"
#include "train/tasks/language/text_classification.hpp"
#include "train/tasks/language/toy_sequence.hpp"
#include "train/tasks/language/translation.hpp"
#include "train/tasks/memory/recall.hpp"
#include "train/tasks/series/forecast.hpp"

namespace tapestry {
namespace {

// Images (B, H, W) -> (B, H · W).
Array flat(const Array& images) {
  return images.reshaped({images.dim(0), images.dim(1) * images.dim(2)});
}

Array translated(const EncoderDecoder& model, const NamedArrays& inputs) {
  const Array& source = inputs.at("source");
  Array padding(source.shape(), DType::int32);
  std::ranges::transform(source.values<std::int32_t>(),
                         padding.mutable_values<std::int32_t>().begin(),
                         [](std::int32_t token) { return token == pad_token; });
  return model.decode(inputs.at("target"), model.encode(source, padding)).value();
}

NamedArrays coded(const Vae& model, const NamedArrays& inputs) {
  NamedArrays outputs;
  if (const auto images = inputs.find("images"); images != inputs.end()) {
    const Vae::Posterior posterior = model.encode(flat(images->second));
    outputs["mean"] = posterior.mean.value();
    if (!posterior.log_sigma.value().empty())
      outputs["log_variance"] = (2.0 * posterior.log_sigma).value();
  }
  if (const auto z = inputs.find("z"); z != inputs.end())
    outputs["images"] = model.expected_image(z->second).value().reshaped(
        {z->second.dim(0), model.options.height, model.options.width});
  return outputs;
}

Array forecast(Forecast& task, const Array& past) {
  const SeriesScale scale = kept_scale(task.metadata());
  return kept_scale(task.metadata(), task.model().options.targets)
      .undo(task.model().forward(scale.apply(past)).value());
}

// One of a batch of dense graphs, of its first n nodes.
Array classes_of(const GraphNetwork& model, const NamedArrays& inputs, std::int64_t b,
                 std::int64_t n) {
  const Array &features = inputs.at("features"), &adjacency = inputs.at("adjacency");
  const std::int64_t N = features.dim(1), F = features.dim(2);
  std::vector<Edge> edges;
  for (std::int32_t to = 0; to < n; ++to)
    for (std::int32_t from = 0; from < n; ++from)
      if (adjacency.values<float>()[(b * N + to) * N + from] != 0) edges.push_back({from, to});
  const Array own = features.part(b * N * F, b * N * F + n * F).reshaped({n, F});
  return model
      .forward(Adjacency(n, edges), Tensor(own),
               Array::of<std::int32_t>({0, static_cast<std::int32_t>(n)}, {2}))
      .value();
}

Array classified(const GraphNetwork& model, const NamedArrays& inputs) {
  const std::int64_t B = inputs.at("features").dim(0), N = inputs.at("features").dim(1);
  std::vector<Tensor> logits;
  for (std::int64_t b = 0; b < B; ++b) {
    std::int64_t n = N;
    if (model.pooling)
      n = std::ranges::count(inputs.at("node_mask").values<std::int32_t>().subspan(b * N, N), 1);
    const Array own = classes_of(model, inputs, b, n);
    Shape shape{1};
    for (const std::int64_t length : model.pooling ? Shape{own.dim(1)} : own.shape())
      shape.push_back(length);
    logits.push_back(own.reshaped(shape));
  }
  return concat(logits, 0).value();
}

}  // namespace

NamedArrays reference_outputs(Task& task, const NamedArrays& inputs) {
  if (auto* language = dynamic_cast<LanguageModel*>(&task))
    return {
        {"logits",
         std::visit([&](const auto& model) { return model.forward(inputs.at("tokens")).value(); },
                    language->network())}};
  if (auto* toy = dynamic_cast<ToySequence*>(&task))
    return {{"logits", toy->model().forward(inputs.at("tokens")).value()}};
  if (auto* translation = dynamic_cast<Translation*>(&task))
    return {{"logits", translated(translation->model(), inputs)}};
  if (auto* texts = dynamic_cast<TextClassification*>(&task))
    return {{"logits", texts->logits(inputs.at("tokens")).value()}};
  if (auto* vae = dynamic_cast<VaeTask*>(&task)) return coded(vae->model(), inputs);
  if (auto* images = dynamic_cast<ImageClassification*>(&task))
    return {{"logits", images->logits(flat(inputs.at("images"))).value()}};
  if (auto* series = dynamic_cast<Forecast*>(&task))
    return {{"forecast", forecast(*series, inputs.at("past"))}};
  if (auto* graphs = dynamic_cast<GraphTask*>(&task))
    return {{"logits", classified(graphs->model(), inputs)}};
  auto& recall = dynamic_cast<RecallTask&>(task);
  return {{"logits", recall.model().forward(inputs.at("symbols")).value()}};
}

}  // namespace tapestry
