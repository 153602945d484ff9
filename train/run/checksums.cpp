#include "train/run/checksums.hpp"

#include "autograd/checksum.hpp"
#include "autograd/parallel.hpp"

namespace tapestry {

Checksums checksums_of(const OptimizerState& tensors) {
  std::vector<std::string> sums(tensors.size());
  parallel_for(std::ssize(tensors), 1, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t i = begin; i < end; ++i) sums[i] = checksum(tensors[i].second);
  });
  Checksums checksums;
  for (std::size_t i = 0; i < tensors.size(); ++i) checksums[tensors[i].first] = std::move(sums[i]);
  return checksums;
}

std::string combined(const Checksums& checksums) {
  Checksum sum;
  for (const auto& [name, checksum] : checksums) {
    const std::string line = name + " " + checksum + "\n";
    sum.add(std::as_bytes(std::span(line)));
  }
  return sum.hex();
}

}  // namespace tapestry
