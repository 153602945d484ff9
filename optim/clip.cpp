#include "optim/clip.hpp"

#include <cmath>

#include "autograd/kernels/broadcast.hpp"
#include "autograd/profile.hpp"
#include "optim/parts.hpp"

namespace tapestry {

Clip clip(const Gradients& gradients, const std::vector<Parameter*>& parameters, double limit) {
  std::vector<const Array*> arrays;
  std::vector<std::int64_t> sizes;
  arrays.reserve(parameters.size());
  sizes.reserve(parameters.size());
  std::int64_t elements = 0;
  double bytes = 0;
  for (const Parameter* parameter : parameters)
    if (const Array* gradient = gradients.find(*parameter)) {
      arrays.push_back(gradient);
      sizes.push_back(gradient->size());
      elements += gradient->size();
      bytes += gradient->bytes();
    }
  std::vector<double> sums(elements / elements_a_piece + 1);
  for_each_part(sizes, [&](auto piece, auto array, std::int64_t begin, std::int64_t end) {
    sums[piece] += sum_of_squares(arrays[array]->part(begin, end));
  });
  const double squares = std::accumulate(sums.begin(), sums.end(), 0.0);
  profile::mark(profile::Phase::step, "clip", nullptr, bytes);
  const double norm = std::sqrt(squares);
  return {norm, limit > 0 && norm > limit ? limit / norm : 1.0};
}

}  // namespace tapestry
