#include "train/model.hpp"

#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "autograd/fair_lock.hpp"
#include "autograd/kernels/matmul.hpp"
#include "autograd/ops/arithmetic.hpp"
#include "autograd/ops/shaping.hpp"
#include "autograd/ops/softmax.hpp"
#include "train/config/keys.hpp"
#include "train/run/program_message.hpp"
#include "train/run/run.hpp"
#include "train/task_spec.hpp"
#include "train/tasks/images/image_classification.hpp"
#include "train/tasks/images/vae.hpp"
#include "train/tasks/language/text_classification.hpp"
#include "train/tasks/language/text_generator.hpp"
#include "train/tasks/language/translation.hpp"
#include "train/tasks/series/forecast.hpp"
#include "train/tools/predict/predict.hpp"

namespace tapestry {
namespace {

// Returns a tensor (..., columns) as rows.
Matrix matrix_of(const Tensor& tensor) {
  const Array numbers = tensor.value().to(DType::float32);
  const auto values = numbers.values<float>();
  const std::int64_t columns = tensor.dim(tensor.rank() - 1);
  return {.rows = tensor.size() / columns,
          .columns = columns,
          .values = {values.begin(), values.end()}};
}

// Returns N · columns numbers as (N, columns). Throws std::invalid_argument if there are none, or
// if the last row is incomplete.
Array rows_of(const char* method, std::span<const float> numbers, std::int64_t columns,
              const std::string& what) {
  const std::int64_t n = std::ssize(numbers);
  require(n > 0 && n % columns == 0, "{}: {} numbers; expected {} for each of one or more {}",
          method, n, columns, what);
  return Array::of(std::vector<float>(numbers.begin(), numbers.end()), {n / columns, columns});
}

// Throws std::invalid_argument, which names the row, for a number that is not as expected.
void require_all(const char* method, const char* row, const Array& rows, bool (*is_expected)(float),
                 const char* expected) {
  const auto numbers = rows.values<float>();
  const auto wrong = std::ranges::find_if_not(numbers, is_expected) - numbers.begin();
  require(wrong == rows.size(), "{}: {} {} (from 0): a value is {}; expected {}", method, row,
          wrong / rows.dim(1), wrong == rows.size() ? 0 : numbers[wrong], expected);
}

Array images_of(const char* method, std::span<const float> numbers, const ImageData& data) {
  const Array images = rows_of(method, numbers, data.size().values(),
                               fmt::format("images of {} x {} x {}", data.size().channels,
                                           data.size().height, data.size().width));
  require_all(
      method, "image", images, [](float value) { return value >= 0 && value <= 1; }, "0 to 1");
  return images;
}

void require_tokens(const char* method, std::span<const std::int32_t> tokens, std::int64_t below) {
  for (const std::int32_t token : tokens)
    require(token >= 0 && token < below, "{}: token {}; expected 0 to {}", method, token,
            below - 1);
}

void require_range(const char* name, double value, double low, double high) {
  require(value >= low && value <= high, "generate: {} = {}; expected {} to {}", name, value, low,
          high);
}

WritingOptions writing_options(const GenerationOptions& options) {
  constexpr std::int64_t most = 10'000'000;
  require_range("tokens", static_cast<double>(options.tokens), 0, most);
  require_range("temperature", options.temperature, 0, 100);
  require_range("top_k", static_cast<double>(options.top_k), 0, most);
  require_range("top_p", options.top_p, 0, 1);
  require_range("min_p", options.min_p, 0, 1);
  require_range("repetition_penalty", options.repetition_penalty, 0.01, 100);
  return {.sampling = {.temperature = options.temperature,
                       .top_k = options.top_k,
                       .top_p = options.top_p,
                       .min_p = options.min_p,
                       .repetition_penalty = options.repetition_penalty},
          .seed = options.seed,
          .tokens = options.tokens,
          .stops = options.stop};
}

// Throws std::invalid_argument for an infinite number of a window (T, M).
void require_finite(std::span<const float> window, const std::vector<std::string>& names) {
  const auto wrong = std::ranges::find_if(window, [](float x) { return std::isinf(x); });
  if (wrong == window.end()) return;
  const std::size_t place = wrong - window.begin(), M = names.size();
  require(false, "forecast: row {} (from 0), series {}: {}; expected a number, or NaN", place / M,
          names[place % M], *wrong);
}

// Returns whether a number of series m of a window (T, M) is not NaN.
bool is_measured(std::span<const float> window, std::int64_t m, std::int64_t M) {
  for (std::size_t at = m; at < window.size(); at += M)
    if (!std::isnan(window[at])) return true;
  return false;
}

// Throws InputError if Model has no methods for the task of a config.
void expect_usable(const Config& config, const std::string& where) {
  std::vector<std::string> usable;
  for (const auto& [name, spec] : task_registry())
    if (spec.predictor) usable.push_back(name);
  expect_input(bool(spec_of(config).predictor),
               "{}: its task is {}; expected one of {}, which have methods of Model", where,
               config[key::task], fmt::join(usable, ", "));
}

// Loads a model without its data. Throws InputError as expect_usable() and load_trained() do.
TrainedModel load_usable(const std::string& run) {
  const Checkpoint checkpoint = load_trained_metadata(run);
  const Config config = config_of(checkpoint);
  expect_usable(config, checkpoint.path);
  return load_trained(checkpoint, config, false);
}

// A guard of a method's call: the precision of matrix products, and that the weights do not change.
struct WeightsInUse {
  UseMatmulPrecision precision;
  FairLock::Read read;
};

// Such a guard, and the task.
template <class OwnTask>
struct TaskCall {
  OwnTask& task;
  WeightsInUse weights;
};

}  // namespace

struct Model::Loaded {
  explicit Loaded(const std::string& path) : Loaded(load_usable(path)) { run = path; }
  explicit Loaded(TrainedModel trained)
      : config(std::move(trained.config)), task(std::move(trained.task)) {}
  Loaded(const Config& of_training, std::shared_ptr<Task> shared, std::shared_ptr<FairLock> with)
      : config(of_training), task(std::move(shared)), lock(std::move(with)) {}

  // Returns the task. Throws std::invalid_argument if the method belongs to another task.
  template <class OwnTask>
  TaskCall<OwnTask> call(const char* method, const char* expected) const {
    auto* own = task_as<OwnTask>(*task);
    require(own != nullptr, "{}: the model is of the task {}; expected {}", method,
            config[key::task], expected);
    return {*own, use()};
  }
  auto language(const char* method) const {
    return call<const LanguageModel>(method, "language-model");
  }
  auto vae(const char* method) const { return call<VaeTask>(method, "vae"); }
  auto forecast(const char* method) const { return call<Forecast>(method, "forecast"); }

  const ImageData& images(const char* method) const {
    if (auto* vae = task_as<VaeTask>(*task)) return vae->data();
    return call<ImageClassification>(method, "vae or image-classification").task.data();
  }

  WeightsInUse use() const {
    return {UseMatmulPrecision(config[key::precision]), FairLock::Read(lock.get())};
  }
  const TaskSpec& spec() const { return spec_of(config); }
  Predictor predictor() const { return spec().predictor.show(*task); }

  std::string run{};  // path; empty: a training
  Config config;
  std::shared_ptr<Task> task;
  std::shared_ptr<FairLock> lock{};  // of the weights of a training; null: they do not change
};

const Model::Loaded& Model::loaded() const {
  require(loaded_ != nullptr, "Model: was moved to another object; use that one");
  return *loaded_;
}

Model::Model(std::unique_ptr<const Loaded> loaded) : loaded_(std::move(loaded)) {}

Model Model::of(const Config& config, std::shared_ptr<Task> task, std::shared_ptr<FairLock> lock) {
  expect_usable(config, "model");
  return Model(std::make_unique<const Loaded>(config, std::move(task), std::move(lock)));
}

Model::Model(const std::string& run)
    : loaded_(for_program([&] { return std::make_unique<const Loaded>(run); })) {}
Model::~Model() = default;
Model::Model(Model&&) noexcept = default;
Model& Model::operator=(Model&&) noexcept = default;

const std::string& Model::task() const { return loaded().config[key::task]; }

// --- all tasks ---

namespace {

PredictedExample predicted_example(std::string place, std::vector<std::string> cells,
                                   const Prediction& prediction) {
  return {.place = std::move(place),
          .cells = std::move(cells),
          .prediction = prediction.cells,
          .flaw = prediction.flaw};
}

// Passes predictions on to a function of a program.
class PassOn final : public PredictionSink {
 public:
  explicit PassOn(const TakeExample& take) : take_(take) {}
  void begin(const ExampleForm&) override {}
  bool take(const SourceExample& example, const Prediction& prediction) override {
    return take_(predicted_example(example.place, example.cells, prediction));
  }

 private:
  const TakeExample& take_;
};

}  // namespace

std::vector<std::string> Model::prediction_columns() const {
  std::vector<std::string> names;
  for (const PredictedColumn& column : loaded().predictor().columns) names.push_back(column.name);
  return names;
}

void Model::predict(const std::string& data, const TakeExample& take) const {
  for_program([&] { predict_file(data, take); });
}

void Model::predict_file(const std::string& data, const TakeExample& take) const {
  const WeightsInUse weights = loaded().use();
  PassOn sink(take);
  if (!loaded().spec().predicts_whole_data) {
    predict_all(loaded().predictor(), task(), data, sink);
    return;
  }
  require(!loaded().run.empty(),
          "predict: a model of a training has no run to read {} with; give a saved checkpoint",
          data);
  const std::string path = fmt::format("{}={}", key::data_path.name, to_toml(Value(data)));
  const TrainedModel whole = load_trained(loaded().run, {path}, true, true);
  predict_all(loaded().spec().predictor.show(*whole.task), task(), data, sink);
}

std::vector<std::string> Model::example_fields() const {
  std::vector<std::string> names;
  for (const PredictorField& field : loaded().predictor().input.fields) names.push_back(field.name);
  return names;
}

std::vector<PredictedExample> Model::predict(
    std::span<const std::vector<std::string>> examples) const {
  require(!loaded().spec().predicts_whole_data,
          "predict: a model of the task {} predicts whole data; give a file or folder", task());
  const Predictor predictor = loaded().predictor();
  for (const auto& example : examples)
    require(example.size() == predictor.input.fields.size(),
            "predict: example {} (from 0) has {} cells; expected {}: {}",
            &example - examples.data(), example.size(), predictor.input.fields.size(),
            fmt::join(example_fields(), ", "));
  const WeightsInUse weights = loaded().use();
  std::vector<std::string> places;
  for (std::size_t i = 0; i < examples.size(); ++i) places.push_back(fmt::format("example {}", i));
  const std::vector<Prediction> predictions = predictions_of(predictor, task(), examples, places);
  std::vector<PredictedExample> all;
  for (std::size_t i = 0; i < predictions.size(); ++i)
    all.push_back(predicted_example(places[i], examples[i], predictions[i]));
  return all;
}

// --- language-model ---

std::vector<std::int32_t> Model::tokenize(std::string_view text) const {
  return loaded().language("tokenize").task.tokens_of(text);
}

std::string Model::detokenize(std::span<const std::int32_t> tokens) const {
  const Tokenizer& tokenizer = loaded().language("detokenize").task.tokenizer();
  require_tokens("detokenize", tokens, tokenizer.size());
  return tokenizer.decode(tokens);
}

std::int64_t Model::vocabulary() const { return loaded().language("vocabulary").task.vocabulary(); }

std::int64_t Model::context() const {
  if (task() == "forecast") return loaded().forecast("context").task.model().options.context;
  return loaded().call<const LanguageModel>("context", "language-model or forecast").task.context();
}

std::string Model::generate(std::string_view prompt, const GenerationOptions& options,
                            const TakeText& take) const {
  const auto [task, weights] = loaded().language("generate");
  std::string text;
  const TextGenerator writer(task, writing_options(options));
  writer.write(writer.first_tokens(std::string(prompt)), 0, [&](std::string_view piece) {
    text += piece;
    return !take || take(piece);
  });
  return text;
}

std::vector<std::int32_t> Model::generate(std::span<const std::int32_t> prompt,
                                          const GenerationOptions& options,
                                          const TakeToken& take) const {
  const auto [task, weights] = loaded().language("generate");
  require(!prompt.empty(), "generate: no tokens; expected at least one");
  require_tokens("generate", prompt, task.vocabulary());
  std::vector<std::int32_t> tokens;
  TextGenerator(task, writing_options(options))
      .write_tokens({prompt.begin(), prompt.end()}, 0, [&](std::int32_t token) {
        tokens.push_back(token);
        return !take || take(token);
      });
  return tokens;
}

Matrix Model::logits(std::span<const std::int32_t> tokens) const {
  const auto [task, weights] = loaded().language("logits");
  require(!tokens.empty(), "logits: no tokens; expected at least one");
  require(
      !std::holds_alternative<Transformer>(task.network()) || std::ssize(tokens) <= task.context(),
      "logits: {} tokens; expected at most {}, the model's context", tokens.size(), task.context());
  require_tokens("logits", tokens, task.vocabulary());
  const Array read = one_row({tokens.begin(), tokens.end()});
  return matrix_of(
      std::visit([&](const auto& network) { return network.forward(read); }, task.network()));
}

// --- text-classification ---

Matrix Model::classify_texts(std::span<const std::string> texts) const {
  const auto [task, weights] =
      loaded().call<TextClassification>("classify_texts", "text-classification");
  require(!texts.empty(), "classify_texts: no texts; expected at least one");
  std::vector<Tensor> logits;
  for (const std::string& text : texts)
    logits.push_back(task.logits(one_row(task.data().row(text).tokens)));
  return matrix_of(softmax(concat(logits, 0)));
}

// --- translation ---

std::string Model::translate(std::string_view sentence) const {
  const auto [task, weights] = loaded().call<Translation>("translate", "translation");
  const ParallelCorpus& corpus = task.corpus();
  const std::vector<std::int32_t> source = corpus.encode(sentence);
  require(!source.empty() && std::ssize(source) <= corpus.context,
          "translate: {} tokens; expected 1 to {}, the model's context", source.size(),
          corpus.context);
  return corpus.decode(
      tapestry::translate(task.model(), one_row(source), {}, task.decoding()).front());
}

// --- vae, image-classification ---

std::int64_t Model::channels() const { return loaded().images("channels").size().channels; }
std::int64_t Model::height() const { return loaded().images("height").size().height; }
std::int64_t Model::width() const { return loaded().images("width").size().width; }
const std::vector<std::string>& Model::class_names() const {
  if (auto* texts = task_as<TextClassification>(*loaded().task)) return texts->data().class_names();
  return loaded().images("class_names").class_names();
}

Matrix Model::read_pictures(std::span<const std::string> paths) const {
  const ImageData& data = loaded().images("read_pictures");
  require(!paths.empty(), "read_pictures: no paths; expected at least one");
  return matrix_of(data.pictures({paths.begin(), paths.end()}));
}

Latents Model::encode(std::span<const float> images) const {
  const auto [task, weights] = loaded().vae("encode");
  const Array x = images_of("encode", images, task.data());
  const Vae::Posterior posterior = task.model().encode(x);
  Latents latents{.means = matrix_of(posterior.mean)};
  if (task.variational()) latents.log_variances = matrix_of(2.0 * posterior.log_sigma);
  return latents;
}

Matrix Model::decode(std::span<const float> latents) const {
  const auto [task, weights] = loaded().vae("decode");
  const Vae& model = task.model();
  const std::int64_t Z = model.options.latent;
  const Array z = rows_of("decode", latents, Z, fmt::format("points of {} dimensions", Z));
  require_all(
      "decode", "point", z, [](float value) { return std::isfinite(value); }, "a finite number");
  return matrix_of(model.expected_image(z));
}

Matrix Model::reconstruct(std::span<const float> images) const {
  const auto [task, weights] = loaded().vae("reconstruct");
  const Array x = images_of("reconstruct", images, task.data());
  return matrix_of(task.model().expected_image(task.model().encode(x).mean));
}

std::int64_t Model::latent_dimensions() const {
  return loaded().vae("latent_dimensions").task.model().options.latent;
}

bool Model::is_variational() const { return loaded().vae("is_variational").task.variational(); }

Matrix Model::classify(std::span<const float> images) const {
  const auto [task, weights] =
      loaded().call<ImageClassification>("classify", "image-classification");
  const Array x = images_of("classify", images, task.data());
  return matrix_of(softmax(task.logits(x)));
}

// --- forecast ---

Matrix Model::forecast(std::span<const float> window) const {
  require(loaded().forecast("forecast").task.model().options.cycle == 0,
          "forecast: a model with model.cycle needs the time of the first row; give first_step "
          "(in C by tapestry_forecast_at), or use predict");
  return forecast(window, 0);
}

Matrix Model::forecast(std::span<const float> window, std::int64_t first_step) const {
  const auto [task, weights] = loaded().forecast("forecast");
  const SeriesScale scale = kept_scale(task.metadata());
  const std::int64_t T = task.model().options.context, M = std::ssize(scale.means);
  require(std::ssize(window) == T * M, "forecast: {} numbers; expected {} steps of {} series",
          window.size(), T, M);
  require_finite(window, kept_names(task.metadata()));
  const Array seen = SeriesDataset::inputs_before(
      scale.apply(Array::of(std::vector<double>(window.begin(), window.end()), {T, M})), T,
      {.context = T});
  const std::int64_t cycle = task.model().options.cycle;
  Array place;
  if (cycle > 0)
    place =
        Array::of(std::vector{static_cast<std::int32_t>(place_in_cycle(first_step, cycle))}, {1});
  const Array y = task.model().forward(seen.reshaped({1, T, M}), nullptr, place).value();
  const std::vector<std::int64_t>& targets = task.model().options.targets;
  Matrix forecast = matrix_of(kept_scale(task.metadata(), targets).undo(y));
  for (std::int64_t k = 0; k < forecast.columns; ++k)
    if (!is_measured(window, targets.empty() ? k : targets[k], M))
      for (std::int64_t h = 0; h < forecast.rows; ++h)
        forecast.values[h * forecast.columns + k] = std::numeric_limits<float>::quiet_NaN();
  return forecast;
}

std::int64_t Model::horizon() const {
  return loaded().forecast("horizon").task.model().options.horizon;
}

std::vector<std::string> Model::series() const {
  return kept_names(loaded().forecast("series").task.metadata());
}

std::vector<std::string> Model::targets() const {
  Forecast& task = loaded().forecast("targets").task;
  return kept_names(task.metadata(), task.model().options.targets);
}

}  // namespace tapestry
