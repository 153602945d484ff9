#include <stdexcept>

#include "data/text/byte_pair.hpp"
#include "tests/fuzz/target.hpp"

namespace tapestry {
namespace {

// A tokenizer that was read gives every text back, and is written as what it is.
const RegisterFuzzTarget registered("tokenizer", [](std::string_view bytes) {
  const auto tokenizer = BytePairTokenizer::from_json(bytes, "tokenizer.json");
  const std::string text = "to be, or not to be: 42 \xC3\xA9\n";
  if (tokenizer.decode(tokenizer.encode(text)) != text)
    throw std::logic_error("tokenizer: another text came back");
  const std::string written = tokenizer.to_json();
  if (BytePairTokenizer::from_json(written, "written").to_json() != written)
    throw std::logic_error("tokenizer: another tokenizer came back");
});

}  // namespace
}  // namespace tapestry
