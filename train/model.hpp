#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

// A trained model in another C++ program, which includes <tapestry/model.hpp> and links to
// tapestry::tapestry. This header needs the standard library alone. What it declares is stable: a
// program runs with every libtapestry.so.0 of the minor version that it was compiled for, and
// compiles with later ones, whose options may have more fields at their ends. The other installed
// headers promise neither.
//
// Errors are exceptions with a message of one line. std::runtime_error: a run cannot be loaded, or
// the model's vocabulary lacks something of a text. std::invalid_argument: a value is out of its
// range, numbers are too few or too many, or the model's task has no such method. std::bad_alloc:
// out of memory.
namespace tapestry {

// Numbers in rows, one after the other.
struct Matrix {
  std::int64_t rows = 0, columns = 0;
  std::vector<float> values{};

  std::span<const float> row(std::int64_t i) const {
    return std::span(values).subspan(i * columns, columns);
  }
};

// How a text is continued: as `tapestry sample` does with options of these names.
struct GenerationOptions {
  std::int64_t tokens = 0;          // to write, at most; 0: 500, of a name as many as there may be
  double temperature = 1;           // 0: always the likeliest; up to 100
  std::int64_t top_k = 0;           // choose among the k likeliest; 0: all
  double top_p = 1;                 // among the likeliest that share p, 0 to 1
  double min_p = 0;                 // among those at least p times as likely as the likeliest
  double repetition_penalty = 1;    // above 1: what was read or written comes less often again
  std::uint64_t seed = 1;           // the same seed, the same text
  std::vector<std::string> stop{};  // texts that it ends before
};

// Get what is written as soon as it is, a text in pieces of whole characters, and say whether to go
// on.
using TakeText = std::function<bool(std::string_view piece)>;
using TakeToken = std::function<bool(std::int32_t token)>;

// Where an autoencoder puts N images, in Z dimensions: a normal distribution each.
struct Latents {
  Matrix means{};          // (N, Z)
  Matrix log_variances{};  // (N, Z); without rows where the autoencoder is a plain one
};

// A trained model. Several threads may call its methods at once, and get the bits that each would
// get alone; one of them at a time has the other cores to help it (set_num_threads).
class Model final {
 public:
  // `run` is a run's folder, of which the best model is taken, or a checkpoint.
  explicit Model(const std::string& run);
  ~Model();
  Model(Model&&) noexcept;
  Model& operator=(Model&&) noexcept;

  // "language-model", "translation", "vae", "image-classification" or "forecast"
  const std::string& task() const;

  // --- language-model ---
  std::vector<std::int32_t> tokenize(std::string_view text) const;
  std::string detokenize(std::span<const std::int32_t> tokens) const;
  std::int64_t vocabulary() const;  // V, tokens that the model tells apart
  std::int64_t context() const;     // T, tokens that a transformer sees at once

  // What follows the prompt, which may be empty.
  std::string generate(std::string_view prompt, const GenerationOptions& options = {},
                       const TakeText& take = {}) const;
  // The tokens that follow at least one, without that which ends the text. No text stops them.
  std::vector<std::int32_t> generate(std::span<const std::int32_t> prompt,
                                     const GenerationOptions& options = {},
                                     const TakeToken& take = {}) const;
  // (tokens, V): the scores of what follows each of 1 to T tokens; their softmax is its
  // probability.
  Matrix logits(std::span<const std::int32_t> tokens) const;

  // --- translation ---
  std::string translate(std::string_view sentence) const;

  // --- vae, image-classification: images are N · height · width numbers, row by row, 0 to 1 as in
  // the data, any N at once ---
  std::int64_t height() const;
  std::int64_t width() const;
  const std::vector<std::string>& class_names() const;  // K

  Latents encode(std::span<const float> images) const;
  Matrix decode(std::span<const float> latents) const;  // N · Z numbers -> (N, height · width)
  Matrix reconstruct(std::span<const float> images) const;  // decode() of encode()'s means
  std::int64_t latent_dimensions() const;                   // Z
  Matrix classify(std::span<const float> images) const;     // (N, K): probabilities

  // --- forecast: M series in their own units, a row a step ---
  Matrix forecast(std::span<const float> window) const;  // context() · M -> (horizon, M)
  std::vector<std::string> series() const;               // their M names

 private:
  struct Loaded;
  std::unique_ptr<const Loaded> loaded_;
};

// How many threads a call may use, in all calls from now on; by default as many as there are cores,
// or OMP_NUM_THREADS. The results do not depend on it.
void set_num_threads(int count);

}  // namespace tapestry
