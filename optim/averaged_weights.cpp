#include "optim/averaged_weights.hpp"

#include <algorithm>

#include "autograd/kernels/simd.hpp"

namespace tapestry {
namespace {

// Calls f(weights, values) for pieces of each parameter and of its array.
template <class F>
void for_each_piece(const std::vector<Parameter*>& parameters, const OptimizerState& arrays,
                    const F& f) {
  std::vector<std::int64_t> sizes;
  for (const auto& [name, array] : arrays) sizes.push_back(array.size());
  for_each_fragment(sizes, [&](const Fragment& piece) {
    Array weights = parameters[piece.array]->value(), values = arrays[piece.array].second;
    dispatch(weights.dtype(), [&]<class T>() {
      const auto of = [&](Array& array) {
        return array.mutable_values<T>().subspan(piece.begin, piece.size());
      };
      f(of(weights), of(values));
    });
  });
}

}  // namespace

AveragedWeights::AveragedWeights(std::vector<Parameter*> parameters, double decay)
    : parameters_(std::move(parameters)), decay_(decay) {
  std::erase_if(parameters_, [](const Parameter* p) { return p->role == Role::fixed; });
  for (const Parameter* parameter : parameters_)
    arrays_.emplace_back("weights." + parameter->name, parameter->value().clone());
}

void AveragedWeights::follow(std::int64_t step) {
  const double t = static_cast<double>(step), kept = std::min(decay_, (1 + t) / (10 + t));
  for_each_piece(parameters_, arrays_, [&]<class T>(std::span<T> weights, std::span<T> averages) {
    map_span(std::ssize(weights), {averages.data(), weights.data()}, averages.data(),
             [rest = T(1 - kept)](auto average, auto weight) {
               return average + rest * (weight - average);
             });
  });
}

// Allocates nothing: destructors call it.
void AveragedWeights::exchange() {
  for (std::size_t i = 0; i < parameters_.size(); ++i) {
    Array weights = parameters_[i]->value(), values = arrays_[i].second;
    dispatch(weights.dtype(), [&]<class T>() {
      std::ranges::swap_ranges(weights.mutable_values<T>(), values.mutable_values<T>());
    });
  }
}

}  // namespace tapestry
