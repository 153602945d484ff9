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

// Conversions between arrays and xtensor. Include this header only in sources that use xtensor: it
// takes long to compile. Programs link tapestry::xtensor.
namespace tapestry {

inline constexpr std::size_t any_rank = -1;

// The types are written out because xtensor's defaults depend on its macros (XTENSOR_USE_XSIMD, …),
// which a program may define differently than this library.
template <class T>
using XtensorBuffer =
    xt::xbuffer_adaptor<T*, xt::smart_ownership, std::shared_ptr<const std::byte[]>>;
template <class T, std::size_t rank = any_rank>
using XtensorView = std::conditional_t<
    rank == any_rank,
    xt::xarray_adaptor<XtensorBuffer<T>, xt::layout_type::row_major, xt::svector<std::size_t, 4>>,
    xt::xtensor_adaptor<XtensorBuffer<T>, rank, xt::layout_type::row_major>>;

// Returns a view of the array's memory, which the view keeps alive; a rank known to the compiler is
// faster. Throws std::invalid_argument for another dtype or rank, or an empty array.
template <class T, std::size_t rank = any_rank>
XtensorView<const T, rank> xtensor_view(const Array& array);

// Returns a view that can be written; all handles share the memory. Throws std::invalid_argument
// likewise. Between two views, `=` rebinds the left one, as in xtensor: use xt::noalias(left) =
// right to copy.
template <class T, std::size_t rank = any_rank>
XtensorView<T, rank> xtensor_view(Array& array);

// Returns a new array with the values of the expression: float, double or std::int32_t. Throws
// std::invalid_argument for more axes than Shape::max_rank.
template <class E>
Array array_of(const xt::xexpression<E>& expression);

// --- implementation of the templates ---

template <class T>
inline constexpr bool is_array_element =
    std::same_as<T, float> || std::same_as<T, double> || std::same_as<T, std::int32_t>;

template <class T, std::size_t rank>
XtensorView<T, rank> xtensor_view_of(const Array& array, T* values) {
  require(!array.empty(), "xtensor_view: the array is empty; expected one made with a shape");
  typename XtensorView<T, rank>::shape_type shape;
  if constexpr (rank == any_rank)
    shape.resize(array.rank());
  else
    require(std::cmp_equal(array.rank(), rank), "xtensor_view: shape {}; expected {} axes",
            array.shape(), rank);
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
                "an Array holds float, double or std::int32_t: use xt::cast<float>(expression)");
  const E& values = expression.derived_cast();
  Shape shape;
  for (const std::size_t extent : values.shape()) shape.push_back(extent);
  Array array(shape, dtype_of<T>);
  auto view = xtensor_view<T>(array);
  xt::noalias(view) = values;
  return array;
}

}  // namespace tapestry
