#pragma once

#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "train/generate/generate.hpp"
#include "train/tasks/inspectors.hpp"
#include "train/tasks/language/language_model.hpp"

namespace tapestry {

// The options of `sample` and `chat` that determine how the next token is chosen.
namespace sampling {

inline const Key<double> temperature =
    temperature_option("temperature of sampling; 0: always the most probable token");
inline const Key<std::int64_t> top_k{"top-k",
                                     0,
                                     "sample from the k most probable tokens (default: all)",
                                     {.low = 1, .high = 10000000}};
inline const Key<double> top_p{
    "top-p",
    1,
    "sample from the fewest tokens whose probabilities sum to p (default: 1)",
    {.low = 0, .high = 1}};
inline const Key<double> min_p{"min-p",
                               0,
                               "sample from tokens that are at least p times as probable as the "
                               "most probable one (default: 0)",
                               {.low = 0, .high = 1}};
inline const Key<double> repetition_penalty{
    "repetition-penalty",
    1,
    "divides positive and multiplies negative logits of earlier tokens; default 1: no change",
    {.low = 0.01, .high = 100}};

inline const Key<std::string> dtype{
    "dtype",
    "float32",
    "type of the weights; q8_0, with 9 bits per weight, is faster (default: float32)",
    {.choices = {"float32", "q8_0"}}};

SamplingOptions chosen(const Options& options, const LanguageModel& task);
// Converts the model's weights to the chosen type. Throws InputError if it has none that could be
// converted to q8_0.
void convert_weights(const Options& options, LanguageModel& task);

}  // namespace sampling

// Returns a decoding state of the task's model without texts. The task must outlive the state.
DecodingState begin_decoding(const LanguageModel& task);

struct WritingOptions {
  SamplingOptions sampling{};
  std::uint64_t seed = 1;
  std::int64_t tokens = 0;  // maximum number; 0: 500, or for a name the length of the context
  std::vector<std::string> stops{};  // a text ends before any of these; "" has no effect
};

// A generator of texts with the model of a task, which must outlive the generator. Equal seeds and
// indices of texts give equal texts.
class TextGenerator final {
 public:
  // Functions that receive generated text, and return whether the text continues.
  using TakeText = std::function<bool(std::string_view piece)>;
  using TakeToken = std::function<bool(std::int32_t token)>;

  TextGenerator(const LanguageModel& task, WritingOptions options);

  // Returns the tokens of the beginning of a text or name. Throws as Tokenizer::encode does.
  std::vector<std::int32_t> first_tokens(const std::string& begin) const;

  // Generates the text after these tokens, with the random numbers of text i, in pieces of whole
  // characters.
  void write(const std::vector<std::int32_t>& first, std::int64_t i, const TakeText& take) const;

  // Generates the text as tokens, without a token that ends a text, and ignores stop texts.
  void write_tokens(const std::vector<std::int32_t>& first, std::int64_t i,
                    const TakeToken& take) const;

  // Returns `each` continuations of each of the beginnings. All texts are generated together, and
  // each is the one that write() generates.
  std::vector<std::string> continued(const std::vector<std::string>& begins,
                                     std::int64_t each) const;

 private:
  Request request(const std::vector<std::int32_t>& first, std::int64_t i) const;

  const LanguageModel& task_;
  WritingOptions options_;
};

}  // namespace tapestry
