#include "train/tools/doctor/token_windows.hpp"

#include <algorithm>

#include "data/validation_split.hpp"

namespace tapestry {
namespace {

constexpr std::int64_t most_tokens = 20'000'000;

Array tokens_of(const Dataset& data, std::int64_t example) {
  return data.batch(std::vector{example}).inputs;
}

bool goes_on_by_one(const Array& one, const Array& next) {
  return one.size() == next.size() &&
         std::ranges::equal(one.values<std::int32_t>().subspan(1),
                            next.values<std::int32_t>().first(next.size() - 1));
}

bool are_windows(const Dataset& data) {
  constexpr std::int64_t looked_at = 16, shortest = 4;
  const Batch first = data.batch(std::vector<std::int64_t>{0});
  if (first.inputs.dtype() != DType::int32 || first.inputs.rank() != 2 ||
      first.inputs.size() < shortest || first.has_auxiliary() || data.size() < looked_at)
    return false;
  for (std::int64_t i = 0; i < looked_at; ++i) {
    const std::int64_t example = i * (data.size() - 1) / looked_at;
    if (!goes_on_by_one(tokens_of(data, example), tokens_of(data, example + 1))) return false;
  }
  return true;
}

}  // namespace

std::optional<std::vector<std::int32_t>> windowed_tokens(const Dataset& data) {
  if (!are_windows(data)) return std::nullopt;
  const std::int64_t T = tokens_of(data, 0).size(), examples = std::min(data.size(), most_tokens);
  std::vector<std::int32_t> tokens;
  tokens.reserve(examples + T);
  while (std::ssize(tokens) < examples + T - 1) {  // the last window begins at the last example
    const std::int64_t example = std::min(std::ssize(tokens), examples - 1);
    const Array window = tokens_of(data, example);
    const auto unread = window.values<std::int32_t>().subspan(std::ssize(tokens) - example);
    tokens.insert(tokens.end(), unread.begin(), unread.end());
  }
  return tokens;
}

void hash_windows(std::span<const std::int32_t> tokens, std::int64_t length,
                  const std::function<void(std::uint64_t)>& show) {
  constexpr std::uint64_t base = 0x9E3779B97F4A7C15;
  const auto number = [](std::int32_t token) { return mix(static_cast<std::uint64_t>(token) + 1); };
  std::uint64_t power = 1, hash = 0;  // base to the power of `length`
  for (std::int64_t i = 0; i < length; ++i) power *= base;
  for (std::int64_t i = 0; i < std::ssize(tokens); ++i) {
    hash = hash * base + number(tokens[i]);
    if (i >= length) hash -= power * number(tokens[i - length]);
    if (i + 1 >= length) show(hash);
  }
}

}  // namespace tapestry
