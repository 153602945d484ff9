#include "train/tools/report/page_data.hpp"

#include <algorithm>
#include <cmath>

#include "autograd/float16.hpp"
#include "data/text/text.hpp"
#include "train/tools/report/html.hpp"

namespace tapestry {
namespace {

using Json = JsonValue;

// The machine's order of bytes is the page's: little-endian.
template <class T>
Json packed(const char* dtype, const Shape& shape, std::span<const T> values) {
  Json extents = Json::array();
  for (int axis = 0; axis < shape.rank(); ++axis) extents.push_back(shape[axis]);
  const std::string_view bytes(reinterpret_cast<const char*>(values.data()), values.size_bytes());
  return {{"dtype", dtype}, {"shape", extents}, {"base64", base64(bytes)}};
}

template <class T, class Fn>
Json converted(const char* dtype, const Array& array, const Fn& fn) {
  const Array single = array.to(DType::float32);
  std::vector<T> values;
  for (const float value : single.values<float>()) values.push_back(fn(value));
  return packed(dtype, array.shape(), std::span<const T>(values));
}

}  // namespace

Json as_floats(const Array& array) {
  return converted<float>("f32", array, [](float value) { return value; });
}

Json as_halves(const Array& array) { return converted<std::uint16_t>("f16", array, &float16_bits); }

Json as_bytes(const Array& array) {
  return converted<std::uint8_t>("u8", array, [](float value) {
    return static_cast<std::uint8_t>(value > 0 ? std::lround(255 * std::min(value, 1.0F)) : 0);
  });
}

Json as_integers(const std::vector<std::int32_t>& values, const Shape& shape) {
  return packed("i32", shape, std::span<const std::int32_t>(values));
}

Json as_labels(const std::vector<std::string>& texts) {
  Json list = Json::array();
  for (const std::string& text : texts) list.push_back(printable(text));
  return list;
}

}  // namespace tapestry
