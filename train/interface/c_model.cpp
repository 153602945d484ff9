#include <fmt/core.h>

#include <algorithm>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "train/interface/calls.hpp"
#include "train/run/lines.hpp"
#include "train/run/program_message.hpp"
#include "train/run/run.hpp"
#include "train/run/version.hpp"

namespace tapestry {
namespace {

// The message of this thread's last failed call, and the text that its last call returned.
thread_local std::string error_text;
thread_local std::string returned_text;

}  // namespace

tapestry_code record_error(tapestry_code code, const char* message) noexcept try {
  error_text = message_for_program(message);
  return code;
} catch (const std::bad_alloc&) {
  error_text = "out of memory";  // takes no memory
  return TAPESTRY_OUT_OF_MEMORY;
}

void give_text(std::string value, const char** text, std::size_t* bytes) {
  returned_text = std::move(value);
  if (text) *text = returned_text.c_str();
  if (bytes) *bytes = returned_text.size();
}

namespace {

void require_size(const char* function, std::size_t size, const Matrix& matrix) {
  require(size == matrix.values.size(), "{}: an array of {} numbers; expected {} x {}", function,
          size, matrix.rows, matrix.columns);
}

// Writes a matrix to a caller's array. Throws std::invalid_argument if it has another size.
void copy_to(const char* function, const Matrix& matrix, float* values, std::size_t size) {
  require_given(function, values);
  require_size(function, size, matrix);
  std::ranges::copy(matrix.values, values);
}

GenerationOptions options_of(const tapestry_generation* options) {
  if (!options) return {};
  require(options->struct_size == sizeof(tapestry_generation),
          "generate: struct_size = {}; expected {}; begin options as TAPESTRY_GENERATION",
          options->struct_size, sizeof(tapestry_generation));
  return {.tokens = options->tokens,
          .temperature = options->temperature,
          .top_k = options->top_k,
          .top_p = options->top_p,
          .min_p = options->min_p,
          .repetition_penalty = options->repetition_penalty,
          .seed = options->seed,
          .stop = texts_of("generate", options->stop, options->stop_count)};
}

std::vector<std::string> names_of(const Model& model, int property) {
  switch (property) {
    case TAPESTRY_TASK:
      return {model.task()};
    case TAPESTRY_CLASSES:
      return model.class_names();
    case TAPESTRY_SERIES:
      return model.series();
    case TAPESTRY_TARGETS:
      return model.targets();
    case TAPESTRY_PREDICTION_COLUMNS:
      return model.prediction_columns();
    case TAPESTRY_EXAMPLE_FIELDS:
      return model.example_fields();
    default:
      throw std::invalid_argument(fmt::format(
          "name: property {}; expected TAPESTRY_TASK to TAPESTRY_EXAMPLE_FIELDS", property));
  }
}

std::int64_t size_of(const Model& model, int property) {
  switch (property) {
    case TAPESTRY_VOCABULARY:
      return model.vocabulary();
    case TAPESTRY_CONTEXT:
      return model.context();
    case TAPESTRY_CHANNELS:
      return model.channels();
    case TAPESTRY_HEIGHT:
      return model.height();
    case TAPESTRY_WIDTH:
      return model.width();
    case TAPESTRY_LATENT_DIMENSIONS:
      return model.latent_dimensions();
    case TAPESTRY_VARIATIONAL:
      return model.is_variational();
    case TAPESTRY_HORIZON:
      return model.horizon();
    default:
      return std::ssize(names_of(model, property));
  }
}

// Returns pointers to the texts, which are valid as long as these.
std::vector<const char*> pointers_to(const std::vector<std::string>& texts) {
  std::vector<const char*> all;
  for (const std::string& text : texts) all.push_back(text.c_str());
  return all;
}

// Passes an example to a function of a C program.
bool pass(const PredictedExample& example, tapestry_take_example take, void* user) {
  const std::vector<const char*> cells = pointers_to(example.cells),
                                 prediction = pointers_to(example.prediction);
  const tapestry_example passed{.place = example.place.c_str(),
                                .cells = cells.data(),
                                .cell_count = cells.size(),
                                .prediction = prediction.data(),
                                .prediction_count = prediction.size(),
                                .flaw = example.flaw.c_str()};
  return take(user, &passed) != 0;
}

}  // namespace
}  // namespace tapestry

using namespace tapestry;

const char* tapestry_version() try {
  static const std::string text = version();
  return text.c_str();
} catch (const std::bad_alloc&) {
  return "";
}

const char* tapestry_error() { return error_text.c_str(); }

tapestry_code tapestry_set_threads(int count) {
  return guarded([&] { set_num_threads(count); });
}

tapestry_code tapestry_load(const char* run, tapestry_model** model) {
  return guarded([&] {
    require_given("load", run, model);
    require_engine_of_this_build();
    *model = new tapestry_model{Model(run)};
  });
}

void tapestry_free(tapestry_model* model) { delete model; }

tapestry_code tapestry_size(const tapestry_model* model, int property, int64_t* size) {
  return guarded([&] {
    require_given("size", model, size);
    *size = size_of(model->model, property);
  });
}

tapestry_code tapestry_name(const tapestry_model* model, int property, int64_t index,
                            const char** name) {
  return guarded([&] {
    require_given("name", model, name);
    std::vector<std::string> names = names_of(model->model, property);
    require(index >= 0 && index < std::ssize(names), "name: index {}; expected 0 to {}", index,
            std::ssize(names) - 1);
    give_text(std::move(names[index]), name);
  });
}

// --- language-model ---

tapestry_code tapestry_tokenize(const tapestry_model* model, const char* text, int32_t* tokens,
                                size_t capacity, size_t* count) {
  return guarded([&] {
    require_given("tokenize", model, text, count);
    const std::vector<std::int32_t> all = model->model.tokenize(text);
    require(!tokens || all.size() <= capacity, "tokenize: an array of {} tokens; expected {}",
            capacity, all.size());
    if (tokens) std::ranges::copy(all, tokens);
    *count = all.size();
  });
}

tapestry_code tapestry_detokenize(const tapestry_model* model, const int32_t* tokens, size_t count,
                                  const char** text, size_t* bytes) {
  return guarded([&] {
    require_given("detokenize", model, text);
    give_text(model->model.detokenize(span_of("detokenize", tokens, count)), text, bytes);
  });
}

tapestry_code tapestry_logits(const tapestry_model* model, const int32_t* tokens, size_t count,
                              float* logits, size_t size) {
  return guarded([&] {
    require_given("logits", model);
    require(count <= size,
            "logits: {} tokens and an array of {} numbers; expected V for each token", count, size);
    copy_to("logits", model->model.logits(span_of("logits", tokens, count)), logits, size);
  });
}

tapestry_code tapestry_generate(const tapestry_model* model, const char* prompt,
                                const tapestry_generation* options, tapestry_take_text take,
                                void* user, const char** text, size_t* bytes) {
  return guarded([&] {
    require_given("generate", model, prompt);
    TakeText pass_on;
    if (take)
      pass_on = [&](std::string_view piece) {
        return take(user, std::string(piece).c_str(), piece.size()) != 0;
      };
    give_text(model->model.generate(std::string_view(prompt), options_of(options), pass_on), text,
              bytes);
  });
}

tapestry_code tapestry_generate_tokens(const tapestry_model* model, const int32_t* prompt,
                                       size_t prompt_count, const tapestry_generation* options,
                                       int32_t* tokens, size_t capacity, size_t* count) {
  return guarded([&] {
    require_given("generate", model, tokens, count);
    require(capacity > 0, "generate: an array of 0 tokens; expected at least 1");
    std::size_t taken = 0;
    const std::vector<std::int32_t> all =
        model->model.generate(span_of("generate", prompt, prompt_count), options_of(options),
                              TakeToken([&](std::int32_t) { return ++taken < capacity; }));
    std::ranges::copy(all, tokens);
    *count = all.size();
  });
}

// --- text-classification, translation ---

tapestry_code tapestry_classify_texts(const tapestry_model* model, const char* const* texts,
                                      size_t count, float* probabilities, size_t size) {
  return guarded([&] {
    require_given("classify_texts", model);
    copy_to("classify_texts", model->model.classify_texts(texts_of("classify_texts", texts, count)),
            probabilities, size);
  });
}

tapestry_code tapestry_translate(const tapestry_model* model, const char* sentence,
                                 const char** text, size_t* bytes) {
  return guarded([&] {
    require_given("translate", model, sentence, text);
    give_text(model->model.translate(sentence), text, bytes);
  });
}

// --- vae, image-classification ---

tapestry_code tapestry_read_pictures(const tapestry_model* model, const char* const* paths,
                                     size_t files, float* images, size_t size) {
  return guarded([&] {
    require_given("read_pictures", model);
    copy_to("read_pictures", model->model.read_pictures(texts_of("read_pictures", paths, files)),
            images, size);
  });
}

tapestry_code tapestry_classify(const tapestry_model* model, const float* images, size_t count,
                                float* probabilities, size_t size) {
  return guarded([&] {
    require_given("classify", model);
    copy_to("classify", model->model.classify(span_of("classify", images, count)), probabilities,
            size);
  });
}

tapestry_code tapestry_encode(const tapestry_model* model, const float* images, size_t count,
                              float* means, float* log_variances, size_t size) {
  return guarded([&] {
    require_given("encode", model);
    const Latents latents = model->model.encode(span_of("encode", images, count));
    if (log_variances) require_size("encode", size, latents.log_variances);
    copy_to("encode", latents.means, means, size);
    if (log_variances) std::ranges::copy(latents.log_variances.values, log_variances);
  });
}

tapestry_code tapestry_decode(const tapestry_model* model, const float* latents, size_t count,
                              float* images, size_t size) {
  return guarded([&] {
    require_given("decode", model);
    copy_to("decode", model->model.decode(span_of("decode", latents, count)), images, size);
  });
}

tapestry_code tapestry_reconstruct(const tapestry_model* model, const float* images, size_t count,
                                   float* reconstructions) {
  return guarded([&] {
    require_given("reconstruct", model);
    copy_to("reconstruct", model->model.reconstruct(span_of("reconstruct", images, count)),
            reconstructions, count);
  });
}

// --- forecast ---

tapestry_code tapestry_forecast(const tapestry_model* model, const float* window, size_t count,
                                float* forecast, size_t size) {
  return guarded([&] {
    require_given("forecast", model);
    copy_to("forecast", model->model.forecast(span_of("forecast", window, count)), forecast, size);
  });
}

tapestry_code tapestry_forecast_at(const tapestry_model* model, const float* window, size_t count,
                                   int64_t first_step, float* forecast, size_t size) {
  return guarded([&] {
    require_given("forecast_at", model);
    copy_to("forecast_at", model->model.forecast(span_of("forecast_at", window, count), first_step),
            forecast, size);
  });
}

// --- all tasks ---

tapestry_code tapestry_predict_file(const tapestry_model* model, const char* path,
                                    tapestry_take_example take, void* user) {
  return guarded([&] {
    require_given("predict", model, path, take);
    model->model.predict(
        path, [&](const PredictedExample& example) { return pass(example, take, user); });
  });
}

tapestry_code tapestry_predict(const tapestry_model* model, const char* const* cells,
                               size_t cell_count, tapestry_take_example take, void* user) {
  return guarded([&] {
    require_given("predict", model, take);
    const std::size_t fields = std::max<std::size_t>(1, model->model.example_fields().size());
    const std::vector<std::string> all = texts_of("predict", cells, cell_count);
    require(all.size() % fields == 0, "predict: {} cells; expected {} for each example", all.size(),
            fields);
    std::vector<std::vector<std::string>> examples;
    for (auto cell = all.begin(); cell != all.end(); cell += fields)
      examples.emplace_back(cell, cell + fields);
    for (const PredictedExample& example : model->model.predict(examples))
      if (!pass(example, take, user)) return;
  });
}

tapestry_code tapestry_read_metrics(const char* run, tapestry_take_text take, void* user) {
  return guarded([&] {
    require_given("read_metrics", run, take);
    const Run read(run);
    expect_run(read, {read.metrics()});
    LineReader lines(read.metrics());
    while (lines.next()) {
      lines.metrics();  // throws for a damaged line
      if (take(user, lines.text().c_str(), lines.text().size()) == 0) return;
    }
  });
}
