#include "train/tasks/language/initial_embeddings.hpp"

#include <algorithm>
#include <unordered_map>

#include "data/input_file.hpp"
#include "data/text/printable.hpp"
#include "data/text/unicode.hpp"
#include "data/text/word_vectors.hpp"
#include "layers/embedding.hpp"

namespace tapestry {

std::string set_initial_embeddings(const Config& config, const Tokenizer& tokenizer,
                                   Module& model) {
  const std::string& path = config[key::initial_embeddings];
  if (path.empty()) return "";
  const WordVectors read = read_word_vectors(path);
  Array table = modules_of<Embedding>(model).front()->weight.value();
  const std::int64_t C = table.dim(1);
  config.expect(read.vectors.dim(1) == C, key::initial_embeddings,
                "has vectors of {} numbers; expected {}, as model.width", read.vectors.dim(1), C);
  std::unordered_map<std::string_view, std::int64_t> rows;
  for (const std::string& word : read.words) rows.emplace(word, std::ssize(rows));
  std::int64_t found = 0;
  for (std::int32_t token = 0; token < tokenizer.size(); ++token) {
    const std::string_view bytes = tokenizer.bytes_of(token);
    if (utf8_bytes(bytes) != bytes.size()) continue;  // a part of a character
    const auto row = rows.find(lower_case(std::string(trimmed(bytes))));
    if (row == rows.end()) continue;
    std::ranges::copy(read.vectors.values<float>().subspan(row->second * C, C),
                      table.mutable_values<float>().begin() + token * C);
    ++found;
  }
  config.expect(found > 0, key::initial_embeddings,
                "has no word that is a token; expected words of the same language");
  return fmt::format("{} of {} tokens begin with vectors of {}", found, tokenizer.size(),
                     printable(path));
}

}  // namespace tapestry
