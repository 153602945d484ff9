#pragma once

#include <algorithm>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <type_traits>
#include <utility>
#include <xtensor/xarray.hpp>
#include <xtensor/xbuffer_adaptor.hpp>
#include <xtensor/xnoalias.hpp>
#include <xtensor/xtensor.hpp>

#include "autograd/array.hpp"
#include "autograd/check.hpp"

// Arrays as xtensor's containers, and from its expressions. For sources that use xtensor
// themselves: it is heavy, so no other header includes this one. Programs link tapestry::xtensor.
namespace tapestry {

inline constexpr std::size_t any_rank = -1;

// Spelt out, for xtensor's own defaults depend on its macros (XTENSOR_USE_XSIMD, ...), which a
// program may define otherwise than the library was compiled.
template <class T>
using XtensorBuffer =
    xt::xbuffer_adaptor<T*, xt::smart_ownership, std::shared_ptr<const std::byte[]>>;
template <class T, std::size_t rank = any_rank>
using XtensorView = std::conditional_t<
    rank == any_rank,
    xt::xarray_adaptor<XtensorBuffer<T>, xt::layout_type::row_major, xt::svector<std::size_t, 4>>,
    xt::xtensor_adaptor<XtensorBuffer<T>, rank, xt::layout_type::row_major>>;

// The array's own memory, of T elements: of any rank, or faster of one that the compiler knows. It
// lives as long as the view. Throws std::invalid_argument for another dtype, rank, or no array.
template <class T, std::size_t rank = any_rank>
XtensorView<const T, rank> xtensor_view(const Array& array);

// What is written into this one, every handle of the memory sees. Between two views, `=` makes the
// left one see the right one's memory, as xtensor has it: xt::noalias(left) = right copies.
template <class T, std::size_t rank = any_rank>
XtensorView<T, rank> xtensor_view(Array& array);

// A new array of the expression's values, each computed once. What is not float, double or
// std::int32_t does not compile; std::invalid_argument for more axes than Shape::max_rank.
template <class E>
Array array_of(const xt::xexpression<E>& expression);

// --- implementation of the templates ---

template <class T>
inline constexpr bool is_array_element =
    std::same_as<T, float> || std::same_as<T, double> || std::same_as<T, std::int32_t>;

template <class T, std::size_t rank>
XtensorView<T, rank> xtensor_view_of(const Array& array, T* values) {
  require(!array.empty(), "xtensor_view: the array holds nothing");
  typename XtensorView<T, rank>::shape_type shape;
  if constexpr (rank == any_rank)
    shape.resize(array.rank());
  else
    require(std::cmp_equal(array.rank(), rank), "xtensor_view: shape {}, viewed with {} axes",
            to_string(array.shape()), rank);
  std::ranges::copy(array.shape(), shape.begin());
  return XtensorView<T, rank>(XtensorBuffer<T>(values, array.size(), array.buffer()), shape);
}

template <class T, std::size_t rank>
XtensorView<const T, rank> xtensor_view(const Array& array) {
  static_assert(is_array_element<T>, "an Array holds float, double or std::int32_t");
  return xtensor_view_of<const T, rank>(array, array.values<T>().data());
}

template <class T, std::size_t rank>
XtensorView<T, rank> xtensor_view(Array& array) {
  static_assert(is_array_element<T>, "an Array holds float, double or std::int32_t");
  return xtensor_view_of<T, rank>(array, array.mutable_values<T>().data());
}

template <class E>
Array array_of(const xt::xexpression<E>& expression) {
  using T = typename E::value_type;
  static_assert(is_array_element<T>,
                "an Array holds float, double or std::int32_t: say xt::cast<float>(expression)");
  const E& values = expression.derived_cast();
  Shape shape;
  for (const std::size_t extent : values.shape()) shape.push_back(extent);
  Array array(shape, dtype_of<T>);
  auto view = xtensor_view<T>(array);
  xt::noalias(view) = values;
  return array;
}

}  // namespace tapestry
