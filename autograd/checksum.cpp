#include "autograd/checksum.hpp"

#include <fmt/format.h>
#include <xxhash.h>

#include <new>

namespace tapestry {

Checksum::Checksum() : state_(XXH3_createState()) {
  if (!state_) throw std::bad_alloc();
  XXH3_64bits_reset(state_.get());
}

void Checksum::Free::operator()(XXH3_state_s* state) const { XXH3_freeState(state); }

void Checksum::add(std::span<const std::byte> bytes) {
  XXH3_64bits_update(state_.get(), bytes.data(), bytes.size());
}

void Checksum::add(const Array& array) { add(std::span(array.raw(), array.bytes())); }

std::uint64_t Checksum::value() const { return XXH3_64bits_digest(state_.get()); }

std::string Checksum::hex() const { return fmt::format("{:016x}", value()); }

std::string checksum(const Array& array) {
  Checksum sum;
  sum.add(array);
  return sum.hex();
}

}  // namespace tapestry
