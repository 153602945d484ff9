#pragma once

#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "autograd/adjacency.hpp"
#include "autograd/array.hpp"

// The contents of a report about a trained model, as values independent of the page.
namespace tapestry {

// The attention of one layer to an example: weights (H, T, S), a row for each query and a column
// for each key, and the tokens that are read there. Of an image, weights (H, rows, columns) as its
// patches lie, without labels.
struct AttentionMap {
  std::string path{};  // name of the layer
  Array weights{};
  std::vector<std::string> queries{}, keys{};
  Array image{};  // (height, width), 0 white and 1 black, or empty
};
using AttentionMaps = std::vector<AttentionMap>;

// An example that a transformer read, what it looked at, and what it expected next.
struct ReadExample {
  std::string title{};
  AttentionMaps maps{};
  using Prediction = std::pair<std::string, double>;  // a token and its probability
  struct Expectation {
    std::string after{}, actual{};          // the token that was read, and the one that came
    std::vector<Prediction> predictions{};  // the likeliest first
  };
  std::vector<Expectation> expectations{};
  // For an image: weights (H, T, T) of `extra_tokens`, then of the patches, row by row.
  Array image{};  // (height, width) float32, 0 black and 1 white
  std::int64_t patch_rows = 0, patch_columns = 0, extra_tokens = 0;
};
struct ReadExamples {
  // Meaning of the labels; empty: tokens or patches that it was not trained on.
  std::string caption{};
  std::vector<ReadExample> examples{};
};

// A decoder as what it computes, so that a page can compute it as well: images = output(layers(z)).
struct DecoderLayer {
  std::string kind{};                     // "linear" or "transposed_convolution"
  Array weight{}, bias{};                 // (out, in) or (in, out, K, K); (out)
  std::int64_t stride = 0, padding = 0;   // stride and padding of a transposed convolution,
  std::vector<std::int64_t> in{}, out{};  // and its channels, height and width
  std::string activation{};               // after it, by the name that a config gives it
};
struct Decoder {
  std::vector<DecoderLayer> layers{};
  bool sigmoid = false;  // at the end
};

// The codes of an autoencoder's images, their reconstructions, and its decoder.
struct LatentSpace {
  std::string split{};  // split of the images
  std::vector<std::string> class_names{};
  std::vector<std::int32_t> classes{};  // N
  Array codes{};                        // (N, Z) float32
  Array images{}, reconstructions{};    // (M, height, width) of the first M, 0 black and 1 white
  Decoder decoder{};
};

struct TranslatedPair {
  std::vector<std::string> source{}, prediction{};  // tokens; the last predicted one is "end"
  std::string source_text{}, prediction_text{}, reference{};
  double score = 0;    // in [0, 1]
  Array alignments{};  // (L, T, S): of each layer of the decoder, the mean of its heads
};
// The best and the worst translations, each group sorted from the best.
struct Translations {
  std::string split{}, score_name{};
  std::int64_t of = 0;  // number of sentences that were translated
  std::vector<TranslatedPair> best{}, worst{};
};

// The forecasts of K rows of a split.
struct ForecastWindows {
  std::vector<std::string> names{};  // M
  // The time of row 0 since 1970-01-01, and the time between two rows.
  std::int64_t start_s = 0, step_s = 0;
  std::int64_t context = 0;             // rows that it saw before each
  std::int64_t of_series = 0;           // total number of series; the first M are shown
  Array values{};                       // (rows, M) float32
  std::vector<std::int32_t> origins{};  // K: first rows of forecasts, ascending
  Array forecasts{};                    // (K, horizon, M) float32
};

// A graph in the plane: of nodes that are classified, with their classes, or one that is
// classified itself.
struct PlacedGraph {
  std::string title{};
  std::vector<std::string> names{};                // N, or none
  std::vector<std::int32_t> truth{}, predicted{};  // N each, or none
  std::vector<std::string> split{};                // N: "train", "val", "test" or "", or none
  std::vector<Edge> edges{};                       // each edge once
  std::vector<float> weights{};                    // weights of the edges in [0, 1], or empty
  Array places{};                                  // (N, 2) float32 in [0, 1]
  std::string truth_class{}, predicted_class{};    // classes of the graph
};
struct PlacedGraphs {
  std::vector<std::string> class_names{};
  std::vector<PlacedGraph> graphs{};
};

// How well something is remembered, by how many items passed since: shares after 0, 1, …
struct RecallByAge {
  std::vector<double> shares{};
  std::vector<std::int64_t> asked{};  // number of questions by age
  double chance = 0;
};

// Texts in rows, the first of which names the columns: for tasks that no other panel fits.
struct TablePanel {
  std::string title{}, caption{};
  std::vector<std::vector<std::string>> rows{};
  // Of the first cells of each row, for their color: from 0 to 1; or none.
  std::vector<std::vector<double>> shares{};
};

using ReportPanel = std::variant<ReadExamples, LatentSpace, Translations, ForecastWindows,
                                 PlacedGraphs, RecallByAge, TablePanel>;
using ReportPanels = std::vector<ReportPanel>;

}  // namespace tapestry
