#include "data/text/pairs.hpp"

#include <algorithm>

#include "autograd/check.hpp"
#include "autograd/dry_run.hpp"
#include "data/option_error.hpp"

namespace tapestry {
namespace {

std::int64_t length_of(const std::vector<std::int32_t>& tokens) { return std::ssize(tokens); }

}  // namespace

void LongestPair::include(const TokenPair& pair) {
  source = std::max(source, length_of(pair.source));
  target = std::max(target, length_of(pair.target));
}

Batch padded_batch(std::int64_t B, const LongestPair& longest) {
  const Shape sources{B, longest.source}, targets{B, longest.target + 1};
  return {.inputs = Array::full(targets, pad_token, DType::int32),
          .targets = Array::full(targets, ignored_target, DType::int32),
          .count = 0,
          .auxiliary = SourceTokens{.tokens = Array::full(sources, pad_token, DType::int32),
                                    .padding = Array::full(sources, 1, DType::int32)}};
}

Batch pair_batch(std::span<const TokenPair> pairs) {
  require(!pairs.empty(), "pair_batch: no pairs");
  LongestPair longest;
  for (const TokenPair& pair : pairs) longest.include(pair);
  Batch batch = padded_batch(std::ssize(pairs), longest);
  auto& read = std::get<SourceTokens>(batch.auxiliary);
  const std::int64_t S = longest.source, T = longest.target + 1;
  auto input = batch.inputs.mutable_values<std::int32_t>().begin();
  auto target = batch.targets.mutable_values<std::int32_t>().begin();
  auto source = read.tokens.mutable_values<std::int32_t>().begin();
  auto padding = read.padding.mutable_values<std::int32_t>().begin();
  for (const TokenPair& pair : pairs) {
    require(!pair.source.empty(), "pair_batch: an empty source");
    std::ranges::copy(pair.source, source);
    std::fill_n(padding, pair.source.size(), 0);
    *input = bos_token;
    std::ranges::copy(pair.target, input + 1);
    *std::ranges::copy(pair.target, target).out = eos_token;
    batch.count += static_cast<double>(pair.target.size() + 1);
    read.references.push_back({pair.reference, pair.source_cut});
    source += S;
    padding += S;
    input += T;
    target += T;
  }
  return batch;
}

PairDataset::PairDataset(std::vector<TokenPair> pairs, const PairOptions& options)
    : pairs_(std::move(pairs)), overlong_(options.overlong) {
  require(!pairs_.empty(), "PairDataset: no pairs");
  require(options.context >= 2, "PairDataset: a context of {}", options.context);
  for (std::size_t i = 0; i < pairs_.size(); ++i) {
    require(!pairs_[i].source.empty(), "PairDataset: the source of pair {} is empty", i);
    const auto place = [&](const std::string& path) {
      return fmt::format("{}: line {}", path, i + 1);
    };
    pairs_[i].source_cut = fit(pairs_[i].source, options.context, place(options.source_path));
    fit(pairs_[i].target, options.context - 1, place(options.target_path));
  }
}

bool PairDataset::fit(std::vector<std::int32_t>& tokens, std::int64_t limit,
                      const std::string& place) {
  if (length_of(tokens) <= limit) return false;
  expect_option(overlong_ == Overlong::cut, "context",
                "{}: the sentence has {} tokens, expected at most {}; shorten it, or let long "
                "sentences be cut",
                place, tokens.size(), limit);
  tokens.resize(limit);
  ++num_cut_;
  return true;
}

void PairDataset::add_to(Checksum& sum) const {
  for (const TokenPair& pair : pairs_) {
    sum.add_list(pair.source);
    sum.add_list(pair.target);
  }
}

Batch PairDataset::batch(std::span<const std::int64_t> examples) const {
  LongestPair longest;
  std::vector<TokenPair> chosen;
  for (const std::int64_t example : examples) {
    require(example >= 0 && example < size(), "PairDataset: example {} of {}", example, size());
    if (is_dry_run())
      longest.include(pairs_[example]);
    else
      chosen.push_back(pairs_[example]);
  }
  return is_dry_run() ? with_all_counted(padded_batch(std::ssize(examples), longest))
                      : pair_batch(chosen);
}

std::vector<std::int64_t> PairDataset::lengths() const {
  std::vector<std::int64_t> all;
  for (const TokenPair& pair : pairs_)
    all.push_back(length_of(pair.target) * (std::int64_t{1} << 32) + length_of(pair.source));
  return all;
}

}  // namespace tapestry
