#pragma once

#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "train/generate/generate.hpp"
#include "train/tasks/inspectors.hpp"
#include "train/tasks/language/language_model.hpp"

namespace tapestry {

// The options of `sample` and `chat` that say how a language model's next token is chosen.
namespace sampling {

inline const Key<double> temperature =
    temperature_option("temperature of sampling; 0: always the most probable token");
inline const Key<std::int64_t> top_k{
    "top-k", 0, "sample from the k most probable tokens", {.low = 1, .high = 10000000}};
inline const Key<double> top_p{"top-p",
                               1,
                               "sample from the fewest tokens whose probabilities sum to p",
                               {.low = 0, .high = 1}};
inline const Key<double> min_p{
    "min-p",
    0,
    "sample from tokens that are at least p times as probable as the most probable one",
    {.low = 0, .high = 1}};
inline const Key<double> repetition_penalty{
    "repetition-penalty",
    1,
    "above 1, tokens that occurred before become less probable",
    {.low = 0.01, .high = 100}};

SamplingOptions chosen(const Options& options, const LanguageModel& task);

}  // namespace sampling

// Returns the model of the task, which outlives it, in the middle of no text yet.
DecodingState begin_decoding(const LanguageModel& task);

struct WritingOptions {
  SamplingOptions sampling{};
  std::uint64_t seed = 1;
  std::int64_t tokens = 0;           // at most; 0: 500, or of a name as many as the context holds
  std::vector<std::string> stops{};  // a text ends before one of them; "" stops nothing
};

// Generates texts with a trained model, which outlives it. The same seed and number of a text give
// the same text.
class TextGenerator final {
 public:
  // Take what was generated, and return whether the text continues.
  using TakeText = std::function<bool(std::string_view piece)>;
  using TakeToken = std::function<bool(std::int32_t token)>;

  TextGenerator(const LanguageModel& task, WritingOptions options);

  // Returns the tokens of the beginning of a text or name. Throws as Tokenizer::encode.
  std::vector<std::int32_t> first_tokens(const std::string& begin) const;

  // Generates what follows these tokens, the i-th of such texts, in pieces of whole characters.
  void write(const std::vector<std::int32_t>& first, std::int64_t i, const TakeText& take) const;

  // Generates the same as tokens, without the one that ends the text and without regard to stops.
  void write_tokens(const std::vector<std::int32_t>& first, std::int64_t i,
                    const TakeToken& take) const;

  // Returns what follows each of the beginnings, `each` times. All texts are generated together,
  // and each is the one that write() generates.
  std::vector<std::string> continued(const std::vector<std::string>& begins,
                                     std::int64_t each) const;

 private:
  Request request(const std::vector<std::int32_t>& first, std::int64_t i) const;

  const LanguageModel& task_;
  WritingOptions options_;
};

}  // namespace tapestry
