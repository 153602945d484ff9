#pragma once

#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "autograd/adjacency.hpp"
#include "autograd/array.hpp"
#include "train/inspect/inspected.hpp"

// The contents of a report on a trained model, as values that do not depend on the page.
namespace tapestry {

// The attention of one layer to an example: weights (H, T, S), a row for each query and a column
// for each key, and the labels of their tokens. For an image: weights (H, rows, columns) in the
// layout of its patches, without labels; or (words, rows, columns) of its description, whose words
// are the queries, the mean of the heads.
struct AttentionMap {
  std::string path{};  // name of the layer
  Array weights{};
  std::vector<std::string> queries{}, keys{};
  // (height, width), 0 white and 1 black; described: (C, height, width), 0 black; or empty.
  Array image{};

  bool describes_image() const { return image.rank() == 3; }
};

// An example that a transformer read, with its attention and its next-token probabilities.
struct ReadExample {
  std::string title{};
  AttentionMaps maps{};
  using Prediction = std::pair<std::string, double>;  // a token and its probability
  struct Expectation {
    std::string after{}, actual{};          // the last token that was read, and the next one
    std::vector<Prediction> predictions{};  // the most probable first
  };
  std::vector<Expectation> expectations{};
  // For an image: weights are (H, T, T), of `extra_tokens`, then of the patches, row by row.
  Array image{};  // (C, height, width) float32, 0 black and 1 white; C: 1 gray, 3 color
  std::int64_t patch_rows = 0, patch_columns = 0, extra_tokens = 0;
};
struct ReadExamples {
  // Meaning of the labels; empty if they are tokens or patches of data that were not trained on.
  std::string caption{};
  std::vector<ReadExample> examples{};
};

// A layer of a decoder, with which a page can compute images = output(layers(z)).
struct DecoderLayer {
  std::string kind{};                     // "linear" or "transposed_convolution"
  Array weight{}, bias{};                 // (out, in) or (in, out, K, K); (out)
  std::int64_t stride = 0, padding = 0;   // of a transposed convolution
  std::vector<std::int64_t> in{}, out{};  // its channels, height and width
  std::string activation{};               // activation after the layer, by its name in a config
};
struct Decoder {
  std::vector<DecoderLayer> layers{};
  bool sigmoid = false;  // whether a sigmoid follows the last layer
};

// The codes of an autoencoder's images, their reconstructions, and its decoder.
struct LatentSpace {
  std::string split{};  // split of the images
  std::vector<std::string> class_names{};
  std::vector<std::int32_t> classes{};  // N
  Array codes{};                        // (N, Z) float32
  Array images{}, reconstructions{};    // (M, C, height, width) of the first M, 0 black, 1 white
  Decoder decoder{};
};

struct TranslatedPair {
  // Tokens; the last token of the prediction is "end", unless it fills the context.
  std::vector<std::string> source{}, prediction{};
  std::string source_text{}, prediction_text{}, reference{};
  double score = 0;    // in [0, 1]
  Array alignments{};  // (L, T, S): per layer of the decoder, the mean of its heads
};
// The best and the worst translations, each group sorted by descending score.
struct Translations {
  std::string split{}, score_name{};
  std::int64_t of = 0;  // number of translated sentences
  std::vector<TranslatedPair> best{}, worst{};
};

// Forecasts from K rows of a split.
struct ForecastWindows {
  std::vector<std::string> names{};     // M
  std::int64_t season = 0;              // rows of a season; 0: unknown
  std::int64_t context = 0;             // number of input rows of each forecast
  std::int64_t of_series = 0;           // number of forecast series; the first M are shown
  Array values{};                       // (rows, M) float32; NaN where nothing was measured
  std::vector<std::int32_t> origins{};  // K: first rows of forecasts, ascending
  std::vector<std::string> times{};     // of these rows
  Array forecasts{};                    // (K, horizon, M) float32
};

// A graph with node positions in the plane. Its nodes are classified, or the graph is.
struct PlacedGraph {
  std::string title{};
  std::vector<std::string> names{};                // N, or empty
  std::vector<std::int32_t> truth{}, predicted{};  // N each, or empty
  std::vector<std::string> split{};                // N: "train", "val", "test" or ""; or empty
  std::vector<Edge> edges{};                       // each edge once
  std::vector<float> weights{};                    // weights of the edges in [0, 1], or empty
  Array places{};                                  // (N, 2) float32 in [0, 1]
};
struct PlacedGraphs {
  std::vector<std::string> class_names{};
  std::vector<PlacedGraph> graphs{};
  std::string title{}, caption{};  // if the nodes have no classes
};

// The fraction of right answers by the number of items since the answer: 0, 1, …
struct RecallByAge {
  std::vector<double> shares{};
  std::vector<std::int64_t> asked{};  // number of questions by age
  double chance = 0;
};

// A table of texts whose first row has the names of the columns, for tasks without a panel of their
// own.
struct TablePanel {
  std::string title{}, caption{};
  std::vector<std::vector<std::string>> rows{};
  // Values of the first cells of each row in [0, 1], which determine their color; or empty.
  std::vector<std::vector<double>> shares{};
};

// Images (N, C, height, width) float32 in [0, 1], each with a label below it.
struct LabeledPictures {
  std::string title{}, caption{};
  Array images{};
  std::vector<std::string> labels{};  // N
};

}  // namespace tapestry
