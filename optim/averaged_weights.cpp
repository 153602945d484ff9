#include "optim/averaged_weights.hpp"

#include <algorithm>

#include "autograd/kernels/simd.hpp"

namespace tapestry {

AveragedWeights::AveragedWeights(std::vector<Parameter*> parameters, double decay)
    : parameters_(distinct_parameters(std::move(parameters))), decay_(decay) {
  std::erase_if(parameters_, [](const Parameter* p) { return p->role == Role::fixed; });
  for (const Parameter* parameter : parameters_)
    arrays_.emplace_back("weights." + parameter->name, parameter->value().clone());
}

void AveragedWeights::follow(std::int64_t step) {
  const double t = static_cast<double>(step);
  add(1 - std::min(decay_, (1 + t) / (10 + t)));
}

void AveragedWeights::add(double share) {
  std::vector<std::int64_t> sizes;
  for (const auto& [name, array] : arrays_) sizes.push_back(array.size());
  for_each_fragment(sizes, [&](const Fragment& piece) {
    Array weights = parameters_[piece.array]->value(), average = arrays_[piece.array].second;
    dispatch(weights.dtype(), [&]<class T>() {
      const T* w = weights.values<T>().data() + piece.begin;
      T* a = average.mutable_values<T>().data() + piece.begin;
      map_span(piece.size(), {a, w}, a, [newest = T(share)](auto before, auto weight) {
        return before + newest * (weight - before);
      });
    });
  });
}

// Allocates nothing while no tape has entries, because destructors call exchange().
void AveragedWeights::exchange() {
  Tape::require_unused("AveragedWeights::exchange", parameters_);
  for (std::size_t i = 0; i < parameters_.size(); ++i) {
    Array weights = parameters_[i]->value(), values = arrays_[i].second;
    dispatch(weights.dtype(), [&]<class T>() {
      std::ranges::swap_ranges(weights.mutable_values<T>(), values.mutable_values<T>());
    });
  }
}

}  // namespace tapestry
