#include "train/tools/doctor/activations.hpp"

#include <algorithm>
#include <cmath>

namespace tapestry {
namespace {

// Whether the element stands at one of the places to compare.
class Places {
 public:
  Places(const Shape& shape, const ComparedPart& part) : part_(part) {
    int axis = 1;
    while (axis < shape.rank() && shape[axis] != part.places) ++axis;
    found_ = part.places == 0 || axis < shape.rank();
    for (int inner = axis + 1; inner < shape.rank(); ++inner) stride_ *= shape[inner];
  }
  bool found() const { return found_; }
  bool holds(std::int64_t element) const {
    return part_.places == 0 || element / stride_ % part_.places <= part_.last;
  }

 private:
  const ComparedPart& part_;
  std::int64_t stride_ = 1;
  bool found_;
};

bool differ(const Array& one, const Array& other, const ComparedPart& part) {
  if (one.dtype() != DType::float64 || other.dtype() != DType::float64) return false;
  if (one.rank() == 0 || other.size() % one.size() != 0) return false;
  const Places places(one.shape(), part);
  if (!places.found()) return false;
  const auto a = one.values<double>(), b = other.values<double>();
  for (std::int64_t i = 0; i < one.size(); ++i)
    if (places.holds(i) && relative_difference(a[i], b[i]) > rounding_in_float64) return true;
  return false;
}

}  // namespace

double relative_difference(double a, double b) {
  const double difference = std::abs(a - b) / std::max({1.0, std::abs(a), std::abs(b)});
  return std::isnan(difference) && !(std::isnan(a) && std::isnan(b)) && a != b ? HUGE_VAL
                                                                               : difference;
}

std::optional<std::string> first_difference(const Activations& one, const Activations& other,
                                            const ComparedPart& part) {
  if (one.outputs.size() != other.outputs.size()) return std::nullopt;
  for (std::size_t i = 0; i < one.outputs.size(); ++i)
    if (differ(one.outputs[i].array, other.outputs[i].array, part)) return one.outputs[i].where();
  return std::nullopt;
}

}  // namespace tapestry
