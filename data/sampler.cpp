#include "data/sampler.hpp"

#include <numeric>
#include <utility>

#include "autograd/check.hpp"
#include "autograd/random.hpp"

namespace tapestry {
namespace {

// Datasets draw example i with step i of the same stream: the sampler's steps start above them.
Random random_for(std::uint64_t seed, std::int64_t step) {
  return Random(seed, Stream::data, (std::uint64_t{1} << 48) + static_cast<std::uint64_t>(step));
}

}  // namespace

Sampler::Sampler(std::int64_t size, Order order, std::uint64_t seed)
    : size_(size), order_(order), seed_(seed) {
  require(size >= 1, "Sampler: {} examples", size);
}

std::vector<std::int64_t> Sampler::next(std::int64_t count) {
  require(count >= 0, "Sampler: next({})", count);
  std::vector<std::int64_t> examples(static_cast<std::size_t>(count));
  for (std::int64_t& example : examples) example = at(position_++);
  return examples;
}

void Sampler::seek(std::int64_t position) {
  require(position >= 0, "Sampler: seek({})", position);
  position_ = position;
}

std::int64_t Sampler::at(std::int64_t position) {
  if (order_ == Order::sequential) return position % size_;
  if (order_ == Order::with_replacement) return random_for(seed_, position).below(size_);
  if (epoch_ != position / size_) shuffle(position / size_);
  return permutation_[static_cast<std::size_t>(position % size_)];
}

// Fisher and Yates's shuffle (Knuth, TAOCP 2, algorithm 3.4.2P).
void Sampler::shuffle(std::int64_t epoch) {
  permutation_.resize(static_cast<std::size_t>(size_));
  std::iota(permutation_.begin(), permutation_.end(), 0);
  Random random = random_for(seed_, epoch);
  for (std::size_t left = permutation_.size(); left > 1; --left) {
    const std::int64_t chosen = random.below(static_cast<std::int64_t>(left));
    std::swap(permutation_[left - 1], permutation_[static_cast<std::size_t>(chosen)]);
  }
  epoch_ = epoch;
}

}  // namespace tapestry
