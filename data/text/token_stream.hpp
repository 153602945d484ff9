#pragma once

#include <algorithm>
#include <cstdint>
#include <span>
#include <utility>
#include <vector>

#include "autograd/check.hpp"
#include "autograd/checksum.hpp"

namespace tapestry {

// A long text as tokens, which need not be in memory. Several threads may read at a time.
class TokenStream {
 public:
  virtual ~TokenStream() = default;
  virtual std::int64_t size() const = 0;  // tokens
  // Tokens [begin, begin + into.size()), all within the stream.
  virtual void read(std::int64_t begin, std::span<std::int32_t> into) const = 0;
  // Adds what tells tokens [begin, end) from others.
  virtual void add_to(Checksum& sum, std::int64_t begin, std::int64_t end) const = 0;
};

class TokensInMemory final : public TokenStream {
 public:
  explicit TokensInMemory(std::vector<std::int32_t> tokens) : tokens_(std::move(tokens)) {}

  std::int64_t size() const override { return std::ssize(tokens_); }
  void read(std::int64_t begin, std::span<std::int32_t> into) const override {
    std::ranges::copy(range(begin, begin + std::ssize(into)), into.begin());
  }
  void add_to(Checksum& sum, std::int64_t begin, std::int64_t end) const override {
    sum.add(std::as_bytes(range(begin, end)));
  }

 private:
  std::span<const std::int32_t> range(std::int64_t begin, std::int64_t end) const {
    require(0 <= begin && begin <= end && end <= size(), "TokensInMemory: [{}, {}) of {}", begin,
            end, size());
    return std::span(tokens_).subspan(begin, end - begin);
  }

  std::vector<std::int32_t> tokens_;
};

}  // namespace tapestry
