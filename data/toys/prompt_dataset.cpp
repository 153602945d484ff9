#include "data/toys/prompt_dataset.hpp"

#include <algorithm>

#include "data/input_file.hpp"
#include "data/option_error.hpp"
#include "data/text/unicode.hpp"

namespace tapestry {
namespace {

std::vector<std::string> symbols_of(std::int64_t alphabet, std::string_view separators) {
  constexpr std::string_view ascii =
      "0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ";
  constexpr std::int64_t plain = std::ssize(ascii), letters = 256;
  std::vector<std::string> symbols(alphabet);
  for (std::int64_t i = 0; i < alphabet; ++i)
    append_utf8(symbols[i], i < plain     ? ascii[i]
                            : i < letters ? static_cast<char32_t>(0x100 + i - plain)
                                          : static_cast<char32_t>(0x4E00 + i - letters));
  for (const char separator : separators) symbols.emplace_back(1, separator);
  return symbols;
}

}  // namespace

PromptDataset::PromptDataset(const ToyOptions& options, std::string_view separators)
    : options_(options), vocabulary_(symbols_of(options.alphabet, separators)) {}

PromptDataset::Tokens PromptDataset::known_tokens(std::string_view text) const {
  Tokens tokens;
  for (std::size_t at = 0, bytes = 0; at < text.size(); at += bytes) {
    bytes = std::max(1, code_point_at(text, at).bytes);
    const auto found = std::ranges::find(vocabulary_.symbols(), text.substr(at, bytes));
    if (found != vocabulary_.symbols().end())
      tokens.push_back(static_cast<std::int32_t>(found - vocabulary_.symbols().begin()));
  }
  return tokens;
}

void expect_inputs(double inputs, const ToyOptions& options) {
  constexpr double fewest = 64;
  expect_option(inputs >= fewest, "length",
                "only {} different inputs of length {} and {} symbols exist; expected at least {}, "
                "so that some are left for validation",
                inputs, options.length, options.alphabet, fewest);
}

}  // namespace tapestry
