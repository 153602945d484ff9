#pragma once

#include "train/generate/generate.hpp"
#include "train/tasks/inspector_options.hpp"
#include "train/tasks/language/language_model.hpp"

// How a language model's next token is chosen, as `sample` and `chat` are told it.
namespace tapestry::sampling {

inline const Key<double> temperature = temperature_option("0: always the likeliest");
inline const Key<std::int64_t> top_k{
    "top-k", 0, "choose among the k likeliest tokens", {.low = 1, .high = 10000000}};
inline const Key<double> top_p{
    "top-p", 1, "among the likeliest that share p", {.low = 0, .high = 1}};
inline const Key<double> min_p{
    "min-p", 0, "among those at least p times as likely as the likeliest", {.low = 0, .high = 1}};
inline const Key<double> repetition_penalty{
    "repetition-penalty",
    1,
    "above 1: what was read or written comes less often again",
    {.low = 0.01, .high = 100}};

inline SamplingOptions chosen(const Options& options, const LanguageModel& task) {
  return {.temperature = options[temperature],
          .top_k = options[top_k],
          .top_p = options[top_p],
          .min_p = options[min_p],
          .repetition_penalty = options[repetition_penalty],
          .tokens = task.tokenizer().size()};
}

}  // namespace tapestry::sampling
