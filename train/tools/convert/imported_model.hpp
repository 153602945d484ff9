#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "train/tools/convert/architectures.hpp"
#include "train/tools/convert/import.hpp"
#include "train/tools/convert/published_files.hpp"

// What is the same for every kind of file that a model comes in.
namespace tapestry {

// What a model's tokens are to a language model: what its checkpoint keeps of them, and its keys.
struct ImportedTokens {
  Metadata metadata{};
  std::int64_t size = 0;
  std::map<std::string, std::string> settings{};
};

struct ImportSource {
  std::string config_path;   // of the file that says what the model is, for messages
  std::string weights_path;  // of its weights
  std::int64_t numbers = 0;  // that those are
  std::string name;          // of the model
};

// The model that the config says, its weights still to be filled in. InputError where it would be
// larger than the weights that there are: that is known before it is built.
ImportedModel model_to_fill(const ImportSource& source, const PublishedConfig& published,
                            const ImportedTokens& tokens,
                            const std::vector<std::string>& overrides);

// InputError for numbers of `tensor` that are not finite.
void expect_finite(const Array& numbers, const std::string& path, const std::string& tensor);

}  // namespace tapestry
