#pragma once

#include <algorithm>
#include <cmath>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "autograd/array.hpp"
#include "autograd/check.hpp"
#include "data/json.hpp"
#include "train/inspect/inspected.hpp"
#include "train/plot/figure.hpp"

// Values that tasks return to show a trained model. report_panels.hpp has others.
namespace tapestry {

// Output of a model: a text, or a figure with its values as CSV in `text`.
struct Sample {
  std::string text{};
  // Used instead of `text`: writes the text while the model generates it. The task must outlive the
  // sample.
  std::function<void(const TextSink& write)> stream{};
  std::optional<Figure> figure{};
  std::string name = "samples";  // default file name
  std::string file{};            // file to write `text` to, if an option names one
  JsonValue json{};              // the sample for programs; null: an object with `text`
};

// The result of a message of a chat session.
struct Answer {
  std::int64_t forgotten = 0;  // number of oldest exchanges removed from the context
  bool is_cut = false;         // the answer ends because the context is full
};

// The latent codes of the images of one split: z (N, Z) float32, and the classes of the images.
struct LatentSplit {
  std::string name;
  Array z;
  std::vector<std::int32_t> classes;
};
struct LatentCodes {
  std::vector<LatentSplit> splits{};
  std::vector<std::string> class_names{};
};

// Throws InputError, whose message begins with the name of the task, for codes that cannot be
// shown: no split, codes of another shape or dtype, not one class for each image, a class without a
// name.
void expect_usable(const LatentCodes& latent, const std::string& task);

// Returns CSV with a line per image: its index in its split, the split, its class and z1, z2, …
std::string latent_csv(const LatentCodes& latent);

// Returns the codes in two or three dimensions, one cloud per class. Codes of more dimensions are
// projected onto their first three principal components; codes of one dimension get the class as
// second axis. Shows at most `most` images, chosen at random.
Scatter latent_scatter(const LatentCodes& latent, std::int64_t most = 5000);

// Throws InputError if outputs of a model are not finite, as after a divergence.
inline void expect_finite(const Array& outputs) {
  expect_input(
      std::ranges::all_of(outputs.values<float>(), [](float x) { return std::isfinite(x); }),
      "the model cannot be shown, because its outputs are NaN or infinite; use another checkpoint");
}

}  // namespace tapestry
