#include "data/sampler.hpp"

#include <algorithm>
#include <bit>
#include <utility>

#include "autograd/check.hpp"
#include "data/dataset.hpp"
#include "data/validation_split.hpp"

namespace tapestry {
namespace {

// Returns the generator of a step. Data sets use step i of the same stream for example i, so the
// sampler's steps begin above them.
Random random_for(std::uint64_t seed, std::int64_t step) {
  return Random(seed, Stream::data, (std::uint64_t{1} << 48) + static_cast<std::uint64_t>(step));
}

}  // namespace

Sampler::Sampler(std::int64_t size, Order order, std::uint64_t seed, SimilarLengths similar)
    : size_(size), order_(order), seed_(seed), similar_(std::move(similar)), epoch_size_(size) {
  require(size >= 1, "Sampler: {} examples; expected at least 1", size);
  if (order != Order::similar_lengths) return;
  const std::int64_t batch = similar_.batch;
  require(batch >= 1 && similar_.pool >= 1 && std::ssize(similar_.lengths) == size,
          "Sampler: batch size {}, pool {} and {} lengths of {} examples; expected positive "
          "numbers, and one length per example",
          batch, similar_.pool, similar_.lengths.size(), size);
  if (size > batch) epoch_size_ = size / batch * batch;
}

std::vector<std::int64_t> Sampler::next(std::int64_t count) {
  require(count >= 0, "Sampler: next({}); expected 0 or more", count);
  std::vector<std::int64_t> examples(count);
  for (std::int64_t& example : examples) example = at(position_++);
  return examples;
}

void Sampler::seek(std::int64_t position) {
  require(position >= 0, "Sampler: seek({}); expected 0 or more", position);
  position_ = position;
}

std::int64_t Sampler::at(std::int64_t position) {
  if (order_ == Order::sequential) return position % size_;
  if (order_ == Order::with_replacement) return random_for(seed_, position).below(size_);
  if (epoch_ != position / epoch_size_) shuffle(position / epoch_size_);
  const std::int64_t place = position % epoch_size_;
  return computed_ ? (*computed_)[place] : permutation_[place];
}

void Sampler::shuffle(std::int64_t epoch) {
  epoch_ = epoch;
  Random random = random_for(seed_, epoch);
  if (order_ == Order::shuffled && size_ > most_indexed) {
    computed_.emplace(size_, random);
    return;
  }
  permutation_ = indices(0, size_);
  random.shuffle(permutation_);
  if (order_ == Order::similar_lengths) group_by_length(random);
}

void Sampler::group_by_length(Random& random) {
  const auto length_of = [this](std::int64_t example) {
    return std::pair(similar_.lengths[example], example);
  };
  for (std::int64_t begin = 0; begin < epoch_size_; begin += similar_.batch * similar_.pool) {
    const std::int64_t end = std::min(epoch_size_, begin + similar_.batch * similar_.pool);
    std::ranges::sort(permutation_.begin() + begin, permutation_.begin() + end, {}, length_of);
  }
  std::vector<std::int64_t> batches = indices(0, epoch_size_ / similar_.batch);
  random.shuffle(batches);
  const std::vector<std::int64_t> grouped = permutation_;
  auto to = permutation_.begin();
  for (const std::int64_t batch : batches)
    to = std::copy_n(grouped.begin() + batch * similar_.batch, similar_.batch, to);
}

Permutation::Permutation(std::int64_t size, Random& random) : size_(size) {
  require(size >= 1 && size <= std::int64_t{1} << 62, "Permutation: size {}; expected 1 to 2^62",
          size);
  const auto bits = static_cast<int>(std::bit_width(static_cast<std::uint64_t>(size - 1)));
  half_bits_ = std::max(1, (bits + 1) / 2);
  for (std::uint64_t& key : keys_) {
    const std::uint64_t upper = random.bits();
    key = upper << 32 | random.bits();
  }
}

std::int64_t Permutation::operator[](std::int64_t place) const {
  require(place >= 0 && place < size_, "Permutation: index {}; expected 0 to {}", place, size_ - 1);
  std::uint64_t number = encrypt(static_cast<std::uint64_t>(place));
  while (number >= static_cast<std::uint64_t>(size_)) number = encrypt(number);
  return static_cast<std::int64_t>(number);
}

// Returns the encrypted number. Each round is invertible, whatever `mix` returns for the right
// half, so no number occurs twice.
std::uint64_t Permutation::encrypt(std::uint64_t number) const {
  const std::uint64_t mask = (std::uint64_t{1} << half_bits_) - 1;
  std::uint64_t left = number >> half_bits_, right = number & mask;
  for (const std::uint64_t key : keys_) {
    const std::uint64_t mixed = left ^ (mix(right ^ key) & mask);
    left = right;
    right = mixed;
  }
  return left << half_bits_ | right;
}

}  // namespace tapestry
