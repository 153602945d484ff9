#pragma once

#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "train/generate/generate.hpp"
#include "train/tasks/language/language_model.hpp"

namespace tapestry {

struct WritingOptions {
  SamplingOptions sampling{};
  std::uint64_t seed = 1;
  std::int64_t tokens = 0;           // at most; 0: 500, or of a name as many as the context holds
  std::vector<std::string> stops{};  // texts that it ends before; empty ones stop nothing
};

// Writes with a trained model, which outlives it. The same seed and number give the same text.
class TextGenerator final {
 public:
  // Gets what was written, and says whether it shall go on.
  using TakeText = std::function<bool(std::string_view piece)>;
  using TakeToken = std::function<bool(std::int32_t token)>;

  TextGenerator(const LanguageModel& task, WritingOptions options);

  // What the model reads of the beginning of a text or name; InputError as of Tokenizer::encode.
  std::vector<std::int32_t> first_tokens(const std::string& begin) const;

  // What follows these, the i-th of such texts, in pieces of whole characters.
  void write(const std::vector<std::int32_t>& first, std::int64_t i, const TakeText& take) const;

  // The same as tokens, without the one that ends the text. No text stops them.
  void write_tokens(const std::vector<std::int32_t>& first, std::int64_t i,
                    const TakeToken& take) const;

  // What follows each of the beginnings, `each` times, all together: as write() gives it alone.
  std::vector<std::string> continued(const std::vector<std::string>& begins,
                                     std::int64_t each) const;

 private:
  const LanguageModel& task_;
  WritingOptions options_;
};

}  // namespace tapestry
