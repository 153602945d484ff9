#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

// Trained models in other C++ programs, which include <tapestry/model.hpp> and link to
// tapestry::tapestry. This header includes only the standard library. Its interface is stable: a
// program runs with every libtapestry.so.0 of the minor version that it was compiled for, and
// compiles with later ones, whose options may have additional fields at the end. The other
// installed headers are not stable.
//
// Functions throw std::runtime_error if a run cannot be loaded or a text has characters that are
// not in the vocabulary; std::invalid_argument for a value out of its range, a wrong number of
// elements, or a method that the model's task does not have; and std::bad_alloc if memory runs out.
// The messages have one line.
namespace tapestry {

class Config;
class FairLock;
class Task;

// A matrix, row by row.
struct Matrix {
  std::int64_t rows = 0, columns = 0;
  std::vector<float> values{};

  std::span<const float> row(std::int64_t i) const {
    return std::span(values).subspan(i * columns, columns);
  }
};

// The options of generation, as of `tapestry sample`.
struct GenerationOptions {
  std::int64_t tokens = 0;  // maximum number of tokens; 0: 500, or a whole name
  double temperature = 1;   // 0 to 100; 0: greedy
  std::int64_t top_k = 0;   // sample from the k most probable tokens; 0: from all
  double top_p = 1;         // sample from the fewest tokens with this total probability, 0 to 1
  double min_p = 0;  // sample from tokens with at least this fraction of the largest probability
  double repetition_penalty = 1;    // above 1: makes tokens of the text so far less probable
  std::uint64_t seed = 1;           // equal seeds give equal texts
  std::vector<std::string> stop{};  // generation ends before any of these texts
};

// Functions that receive a text in pieces of whole characters, or tokens, while these are
// generated, and return whether to continue.
using TakeText = std::function<bool(std::string_view piece)>;
using TakeToken = std::function<bool(std::int32_t token)>;

// The latent codes of N images: a normal distribution in Z dimensions for each.
struct Latents {
  Matrix means{};          // (N, Z)
  Matrix log_variances{};  // (N, Z); without rows for a plain autoencoder
};

// An example that was predicted.
struct PredictedExample {
  std::string place{};                    // "line 7", or the path of a file
  std::vector<std::string> cells{};       // its cells, as its file has them
  std::vector<std::string> prediction{};  // a cell for each of prediction_columns()
  std::string flaw{};                     // why it has no prediction; else ""
};
// A function that receives examples in their order and returns whether to continue.
using TakeExample = std::function<bool(const PredictedExample& example)>;

// A trained model. Several threads may call its methods at once, with the same results as one after
// the other; only one of them at a time uses further cores (see set_num_threads). An object that
// was moved from throws std::invalid_argument.
class Model final {
 public:
  // Loads a checkpoint, or the best model of a run's folder. Throws std::runtime_error if it
  // cannot be read.
  explicit Model(const std::string& run);
  ~Model();
  Model(Model&&) noexcept;
  Model& operator=(Model&&) noexcept;

  // Returns "language-model", "text-classification", "translation", "vae", "image-classification",
  // "captioning", "forecast", "graph" or "table".
  const std::string& task() const;

  // --- all tasks: what `tapestry predict` writes ---

  // Returns the names of the columns of a prediction: "prediction", "p:CLASS", ..., "unusual". For
  // a graph, reads the data of the training, and throws std::runtime_error if it cannot.
  std::vector<std::string> prediction_columns() const;
  // Predicts the examples of a file or folder, in constant memory but for graphs and series. Throws
  // std::runtime_error if it cannot be read, or lacks a column that the model reads.
  void predict(const std::string& data, const TakeExample& take) const;

  // Returns the names of what an example consists of: columns of a table, or the column of a text.
  // Throws as prediction_columns() does.
  std::vector<std::string> example_fields() const;
  // Predicts examples that have the cells of example_fields(). Throws std::invalid_argument for
  // another number of cells, and for a graph or series, which are predicted as a whole.
  std::vector<PredictedExample> predict(std::span<const std::vector<std::string>> examples) const;

  // --- language-model ---

  // Return the tokens of a text, after the begin-of-text token if the model was trained with one
  // (data.begin_of_text), and the text of tokens. Throw std::runtime_error for a character without
  // a token, and std::invalid_argument for tokens outside [0, V).
  std::vector<std::int32_t> tokenize(std::string_view text) const;
  std::string detokenize(std::span<const std::int32_t> tokens) const;
  std::int64_t vocabulary() const;  // returns V, the number of tokens
  std::int64_t context() const;  // returns T, the context length; of a forecaster its input steps

  // Returns the text that follows the prompt, which may be empty; of a prompt of more tokens than
  // context(), a transformer reads the last ones. Throws as tokenize() does, and
  // std::invalid_argument for an option out of range.
  std::string generate(std::string_view prompt, const GenerationOptions& options = {},
                       const TakeText& take = {}) const;
  // Returns the tokens that follow the prompt, without the end token. Ignores `stop`. Throws
  // std::invalid_argument for an empty prompt, for tokens outside [0, V), and for an option out of
  // range.
  std::vector<std::int32_t> generate(std::span<const std::int32_t> prompt,
                                     const GenerationOptions& options = {},
                                     const TakeToken& take = {}) const;
  // Returns the logits (tokens, V) of the token after each of 1 to T tokens; a recurrent network
  // takes more than T as well. Throws std::invalid_argument for other numbers of tokens, and for
  // tokens outside [0, V).
  Matrix logits(std::span<const std::int32_t> tokens) const;

  // --- text-classification ---

  // Returns the probabilities (texts, K) of the classes; texts are cut to the model's context.
  // Throws std::invalid_argument for no texts, and std::runtime_error as tokenize() does and for an
  // empty text.
  Matrix classify_texts(std::span<const std::string> texts) const;

  // --- translation ---

  // Returns the translation. Throws std::runtime_error for a character without a token, and
  // std::invalid_argument for an empty sentence, or one of more tokens than the model's context.
  std::string translate(std::string_view sentence) const;

  // --- vae, image-classification: images are N · channels · height · width numbers, each channel
  // row by row, scaled as in the data, 0 to 1 ---
  std::int64_t channels() const;  // returns 1 for gray, 3 for red, green and blue
  std::int64_t height() const;
  std::int64_t width() const;
  // Returns the K names, of a classifier of texts as well.
  const std::vector<std::string>& class_names() const;

  // Reads PNG or JPEG files, one per row, fitted to the size of the model's images: (files,
  // channels · height · width). Throws std::runtime_error for a file that cannot be read as a
  // picture, and std::invalid_argument for no paths.
  Matrix read_pictures(std::span<const std::string> paths) const;

  // Return codes, images and classes. Throw std::invalid_argument unless the numbers are those of
  // one or more whole images, each 0 to 1, or codes, all finite.
  Latents encode(std::span<const float> images) const;
  Matrix decode(std::span<const float> latents) const;      // maps N · Z numbers to N images
  Matrix reconstruct(std::span<const float> images) const;  // decodes the means of encode()
  std::int64_t latent_dimensions() const;                   // returns Z
  bool is_variational() const;                           // returns whether encode() gives variances
  Matrix classify(std::span<const float> images) const;  // returns probabilities (N, K)

  // --- forecast: M series in their own units, one row for each step ---

  // Maps context() · M numbers to (horizon, K), of the K targets. NaN is what was not measured: it
  // is filled as in training, and a target without a measured value has the forecast NaN.
  // `first_step` is for models with model.cycle: the steps of the series from 1970-01-01 00:00 to
  // the window's first row, or the number of this row, from 0, if the data have no times. Others
  // ignore it. Throws std::invalid_argument for another number of values, for infinite ones, and
  // for a model with model.cycle without `first_step`.
  Matrix forecast(std::span<const float> window) const;
  Matrix forecast(std::span<const float> window, std::int64_t first_step) const;
  std::int64_t horizon() const;              // returns the number of steps of a forecast
  std::vector<std::string> series() const;   // returns the names of the M series
  std::vector<std::string> targets() const;  // returns the names of the K series that are forecast

 private:
  friend class Training;  // whose model() shares the weights of a training
  struct Loaded;
  explicit Model(std::unique_ptr<const Loaded> loaded);
  const Loaded& loaded() const;
  void predict_file(const std::string& data, const TakeExample& take) const;
  static Model of(const Config& config, std::shared_ptr<Task> task, std::shared_ptr<FairLock> lock);
  std::unique_ptr<const Loaded> loaded_;
};

// Sets the number of threads of all later calls; by default OMP_NUM_THREADS if it is set, else the
// number of usable cores. Results do not depend on it. Throws std::invalid_argument below 1.
void set_num_threads(int count);

}  // namespace tapestry
