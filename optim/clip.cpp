#include "optim/clip.hpp"

#include <cmath>

#include "autograd/kernels/broadcast.hpp"
#include "autograd/profile.hpp"

namespace tapestry {

Clip clip(const Gradients& gradients, const std::vector<Parameter*>& parameters, double limit) {
  std::vector<const Array*> arrays;
  std::vector<std::int64_t> sizes;
  arrays.reserve(parameters.size());
  sizes.reserve(parameters.size());
  double bytes = 0;
  for (const Parameter* parameter : distinct_parameters(parameters))
    if (const Array* gradient = gradients.find(*parameter)) {
      arrays.push_back(gradient);
      sizes.push_back(gradient->size());
      bytes += gradient->bytes();
    }
  const std::vector<Fragment> fragments =
      is_dry_run() ? std::vector<Fragment>() : fragments_of(sizes);
  std::vector<double> squares(fragments.size());
  for_each_fragment(fragments, [&](const Fragment& fragment) {
    squares[&fragment - fragments.data()] =
        sum_of_squares(arrays[fragment.array]->part(fragment.begin, fragment.end));
  });
  profile::mark(profile::Phase::step, "clip", nullptr, bytes);
  return clip_of(fragments, squares, limit);
}

// Adds the squares in the order of the fragments within a piece, then adds the sums of the pieces.
Clip clip_of(const std::vector<Fragment>& fragments, std::span<const double> squares,
             double limit) {
  double sum = 0, piece = 0;
  for (std::size_t i = 0; i < fragments.size(); ++i) {
    if (i > 0 && fragments[i].piece != fragments[i - 1].piece) {
      sum += piece;
      piece = 0;
    }
    piece += squares[i];
  }
  const double norm = std::sqrt(sum + piece);
  return {norm, limit > 0 && norm > limit ? limit / norm : 1.0};
}

}  // namespace tapestry
