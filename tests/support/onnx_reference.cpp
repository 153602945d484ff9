#include "tests/support/onnx_reference.hpp"

#include <algorithm>
#include <cmath>
#include <xtensor/xadapt.hpp>

#include "autograd/check.hpp"
#include "autograd/kernels/broadcast.hpp"
#include "autograd/ops/activations.hpp"
#include "autograd/ops/arithmetic.hpp"
#include "autograd/ops/shaping.hpp"
#include "autograd/xtensor.hpp"
#include "data/text/tokenizer.hpp"
#include "train/tasks/graphs/graph_task.hpp"
#include "train/tasks/images/captioning.hpp"
#include "train/tasks/images/image_classification.hpp"
#include "train/tasks/images/vae.hpp"
#include "train/tasks/language/language_model.hpp"
#include "train/tasks/language/text_classification.hpp"
#include "train/tasks/language/toy_sequence.hpp"
#include "train/tasks/language/translation.hpp"
#include "train/tasks/memory/in_context.hpp"
#include "train/tasks/memory/recall.hpp"
#include "train/tasks/series/forecast.hpp"
#include "train/tasks/tables/table_task.hpp"

namespace tapestry {
namespace {

// Images (B, H, W) or (B, C, H, W) -> (B, F).
Array flat(const Array& images) {
  return images.reshaped({images.dim(0), images.size() / images.dim(0)});
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

Array forecast(Forecast& task, const NamedArrays& inputs) {
  const Array& past = inputs.at("past");
  Array places;
  if (const std::int64_t cycle = task.model().options.cycle; cycle > 0) {
    const auto steps = inputs.at("first_step").values<std::int32_t>();
    std::vector<std::int32_t> first;
    for (const std::int32_t step : steps) first.push_back(static_cast<std::int32_t>(step % cycle));
    places = Array::of(first, {std::ssize(first)});
  }
  const SeriesScale of_past = kept_scale(task.metadata()),
                    of_targets = kept_scale(task.metadata(), task.model().options.targets);
  const Array scaled = array_of((xtensor_view<double>(past) - xt::adapt(of_past.means)) /
                                xt::adapt(of_past.deviations));
  const Array forecast = task.model().forward(scaled, nullptr, places).value();
  return array_of(xtensor_view<double>(forecast) * xt::adapt(of_targets.deviations) +
                  xt::adapt(of_targets.means));
}

// Returns one of a batch of dense graphs with its first n nodes.
Array classes_of(const GraphNetwork& model, const NamedArrays& inputs, std::int64_t b,
                 std::int64_t n) {
  const Array &features = inputs.at("features"), &adjacency = inputs.at("adjacency");
  const std::int64_t N = features.dim(1), F = features.dim(2);
  std::vector<Edge> edges;
  for (std::int32_t to = 0; to < n; ++to)
    for (std::int32_t from = 0; from < n; ++from)
      if (adjacency.values<double>()[(b * N + to) * N + from] != 0) edges.push_back({from, to});
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

// Returns what a table's model predicts of rows with these numbers, NaN where one is missing, and
// categories.
NamedArrays predicted(const TableTask& task, const NamedArrays& inputs) {
  const TableColumns& columns = task.data().columns();
  const RowEncoder encoder = task.data().encoder();
  const auto cell = [&](const std::string& name, std::int64_t row, std::int64_t column) {
    const Array all = inputs.at(name).to(DType::float64);
    return all.values<double>()[row * all.dim(1) + column];
  };
  const std::int64_t B = inputs.begin()->second.dim(0), F = columns.width();
  std::vector<float> encoded(B * F);
  for (std::int64_t b = 0; b < B; ++b) {
    std::int64_t number = 0, category = 0;
    std::vector<std::string> cells;
    for (const InputColumn& column : columns.inputs) {
      if (column.categories) {
        const auto index = static_cast<std::size_t>(cell("categories", b, category++));
        cells.push_back(index == 0 ? "" : column.categories->at(index - 1));
        continue;
      }
      const double value = cell("numbers", b, number++);
      cells.push_back(std::isnan(value) ? "" : fmt::format("{}", value));
    }
    encoder.encode(cells, encoded.data() + b * F);
  }
  const Tensor y = task.predicted(Array::of(encoded, {B, F}).to(DType::float64));
  const TargetColumn& target = task.data().target();
  if (task.data().has_classes()) return {{"probabilities", exp(y).value()}};
  return {{"prediction", (target.deviation * reshape(y, {B}) +
                          Tensor(Array::full({}, target.mean, DType::float64)))
                             .value()}};
}

Array numbers(const Shape& shape, Random& noise) {
  Array drawn(shape);
  noise.fill_uniform(drawn, 0, 1);
  return drawn;
}

Array tokens_below(std::int64_t rows, const Shape& shape, Random& noise) {
  const Array drawn = numbers(shape, noise);
  const std::int64_t first = rows > 4 ? 4 : 0;  // after special tokens
  Array tokens(shape, DType::int32);
  for (std::int64_t i = 0; i < tokens.size(); ++i)
    tokens.mutable_values<std::int32_t>()[i] = static_cast<std::int32_t>(
        first + drawn.values<float>()[i] * static_cast<float>(rows - first));
  return tokens;
}

// Hides one more of the last positions in each row after the first.
void hide_ends(Array& rows, std::int32_t hidden) {
  const std::int64_t T = rows.dim(1);
  for (std::int64_t b = 1; b < rows.dim(0); ++b)
    for (std::int64_t t = std::max<std::int64_t>(0, T - b); t < T; ++t)
      rows.mutable_values<std::int32_t>()[b * T + t] = hidden;
}

// Returns the smallest number of rows of the embeddings.
std::int64_t rows_of_embedding(const OnnxModel& model) {
  std::int64_t rows = 0;
  for (const OnnxInitializer& initializer : model.initializers)
    if (initializer.name.ends_with("embedding.weight") ||
        initializer.name.starts_with("categories."))
      rows = rows == 0 ? initializer.shape[0] : std::min(rows, initializer.shape[0]);
  return rows;
}

// Returns random inputs; axes without a fixed length are B and T.
NamedArrays draw_inputs(const OnnxModel& model, std::int64_t B, std::int64_t T, Random& noise) {
  NamedArrays drawn;
  for (const OnnxInput& input : model.inputs) {
    Shape shape;
    for (const std::string& length : input.shape)
      shape.push_back(length == "batch"                             ? B
                      : length.find_first_not_of("0123456789") == 0 ? T
                                                                    : std::stoll(length));
    constexpr int is_int64 = 7;
    const std::int64_t rows = input.name == "first_step" ? 1000 : rows_of_embedding(model);
    Array array = input.type == is_int64 ? tokens_below(rows, shape, noise) : numbers(shape, noise);
    if (input.name == "source") hide_ends(array, 0);
    if (input.name == "numbers") array.mutable_values<float>()[array.size() / 2] = NAN;
    if (const auto padding = model.metadata.find("padding_token"); padding != model.metadata.end())
      hide_ends(array, std::stoi(padding->second));
    if (input.name == "adjacency")  // the last b nodes of the b-th graph have no edges
      for (std::int64_t i = 0; i < array.size(); ++i) {
        float& edge = array.mutable_values<float>()[i];
        const std::int64_t alone = i / (T * T), from = i % T, to = i / T % T;
        edge = edge < 0.3f && std::max(from, to) < T - alone ? 1.0f : 0.0f;
      }
    if (input.name == "node_mask") {
      array = Array::full(shape, 1, DType::int32);
      hide_ends(array, 0);
    }
    drawn[input.name] = array;
  }
  return drawn;
}

OnnxTensor tensor_of(const Array& array) {
  OnnxTensor tensor{.shape = {array.shape().begin(), array.shape().end()}, .values = {}};
  const Array wide = array.to(DType::float64);
  tensor.values.assign(wide.values<double>().begin(), wide.values<double>().end());
  return tensor;
}

double largest_difference_of(const OnnxTensor& found, const Array& wanted) {
  const OnnxTensor expected = tensor_of(wanted);
  if (found.shape != expected.shape) return INFINITY;
  double largest = 0;
  for (std::size_t i = 0; i < found.values.size(); ++i) {
    const double difference = std::abs(found.values[i] - expected.values[i]);
    largest = std::max(largest, difference / std::max(1.0, std::abs(expected.values[i])));
    if (std::isnan(difference)) return difference;
  }
  return largest;
}

}  // namespace

NamedArrays reference_outputs(Task& task, NamedArrays inputs) {
  task.model().convert(DType::float64);
  for (auto& [name, array] : inputs)
    if (array.dtype() == DType::float32) array = array.to(DType::float64);
  if (auto* language = dynamic_cast<LanguageModel*>(&task))
    return {
        {"logits",
         std::visit([&](const auto& model) { return model.forward(inputs.at("tokens")).value(); },
                    language->network())}};
  if (auto* toy = dynamic_cast<ToySequence*>(&task))
    return {
        {"logits",
         std::visit([&](const auto& model) { return model.forward(inputs.at("tokens")).value(); },
                    toy->network())}};
  if (auto* translation = dynamic_cast<Translation*>(&task))
    return {{"logits", translated(translation->model(), inputs)}};
  if (auto* captions = dynamic_cast<Captioning*>(&task))
    return {{"logits", captions->model()
                           .decode(inputs.at("target"), captions->encode(flat(inputs.at("images"))))
                           .value()}};
  if (auto* texts = dynamic_cast<TextClassification*>(&task))
    return {{"logits", texts->logits(inputs.at("tokens")).value()}};
  if (auto* vae = dynamic_cast<VaeTask*>(&task)) return coded(vae->model(), inputs);
  if (auto* images = dynamic_cast<ImageClassification*>(&task))
    return {{"logits", images->logits(flat(inputs.at("images"))).value()}};
  if (auto* series = dynamic_cast<Forecast*>(&task))
    return {{"forecast", forecast(*series, inputs)}};
  if (auto* graphs = dynamic_cast<GraphTask*>(&task))
    return {{"logits", classified(graphs->model(), inputs)}};
  if (auto* table = dynamic_cast<TableTask*>(&task)) return predicted(*table, inputs);
  if (auto* regression = dynamic_cast<InContextTask*>(&task))
    return {{"answer", regression->model().forward(inputs.at("items")).value()}};
  auto& recall = dynamic_cast<RecallTask&>(task);
  return {{"logits", recall.model().forward(inputs.at("symbols")).value()}};
}

namespace {

std::map<std::string, double> differences_of_shape(const std::vector<OnnxModel>& models, Task& task,
                                                   std::int64_t B, std::int64_t T) {
  Random noise(static_cast<std::uint64_t>(B), Stream::sample, T);
  NamedArrays inputs;
  OnnxTensors known, found;
  for (const OnnxModel& model : models) {
    for (const auto& [name, array] : draw_inputs(model, B, T, noise))
      if (inputs.emplace(name, array).second && !known.contains(name))
        known[name] = tensor_of(array);
    for (const auto& [name, tensor] : evaluate(model, known)) {
      found[name] = tensor;
      if (name == "encoded") known[name] = tensor;
    }
  }
  std::map<std::string, double> differences;
  for (const auto& [name, array] : reference_outputs(task, inputs))
    differences[name] = largest_difference_of(found.at(name), array);
  require(!differences.empty(), "onnx_differences: the task's model knows none of the inputs");
  return differences;
}

}  // namespace

std::map<std::string, double> onnx_differences(const std::vector<OnnxModel>& models, Task& task,
                                               std::int64_t longest) {
  std::map<std::string, double> largest = differences_of_shape(models, task, 1, longest);
  for (const auto& [name, difference] :
       differences_of_shape(models, task, 3, std::min<std::int64_t>(longest, 3)))
    if (!(difference <= largest.at(name))) largest[name] = difference;  // also for NaN
  return largest;
}

void move_parameters(Module& model) {
  Random noise(7, Stream::sample, 0);
  for (Parameter* parameter : model.parameters()) {
    const bool is_adapter = parameter->name.find(".lora.") != std::string::npos;
    if (parameter->value().rank() != 1 && !is_adapter) continue;
    Array value = parameter->value(), move(value.shape());
    noise.fill_normal(move, 0, 0.2);
    add_in_place(value, move);
  }
}

}  // namespace tapestry
