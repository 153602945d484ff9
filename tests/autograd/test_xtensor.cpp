#include <doctest/doctest.h>

#include <xtensor/xbroadcast.hpp>
#include <xtensor/xmanipulation.hpp>
#include <xtensor/xmath.hpp>
#include <xtensor/xvectorize.hpp>
#include <xtensor/xview.hpp>

#include "autograd/ops.hpp"
#include "autograd/tape.hpp"
#include "autograd/xtensor.hpp"

namespace tapestry {
namespace {

template <class T>
std::vector<T> listed(const Array& array) {
  const auto values = array.values<T>();
  return {values.begin(), values.end()};
}

Array counted() { return Array::of<float>({0, 1, 2, 3, 4, 5}, {2, 3}); }

static_assert(std::same_as<decltype(xtensor_view<float>(std::declval<const Array&>())),
                           XtensorView<const float>>);
static_assert(std::same_as<decltype(xtensor_view<float>(counted())), XtensorView<const float>>);
static_assert(is_array_element<std::int32_t>);
static_assert(!is_array_element<std::int64_t> && !is_array_element<bool>);

TEST_SUITE_BEGIN("xtensor");

TEST_CASE("xtensor: a view shares the array's memory, with dynamic or fixed rank") {
  Array array = counted();
  const Array handle = array;
  auto view = xtensor_view<float>(array);
  auto matrix = xtensor_view<float, 2>(array);
  CHECK(view.data() == array.values<float>().data());
  CHECK(matrix.data() == view.data());
  CHECK(xtensor_view<float>(handle).data() == view.data());
  CHECK(std::ranges::equal(view.shape(), array.shape()));
  CHECK(std::ranges::equal(matrix.shape(), array.shape()));

  view(0, 1) = 7;
  matrix(1, 2) *= 2;
  xt::col(matrix, 0) += 1;
  CHECK(listed<float>(handle) == std::vector<float>{1, 7, 2, 4, 4, 10});
  view = view / 2.0f;  // xtensor evaluates it first
  CHECK(listed<float>(handle) == std::vector<float>{0.5, 3.5, 1, 2, 2, 5});
  CHECK(view.data() == array.values<float>().data());
}

TEST_CASE("xtensor: a view keeps the memory alive, also within an expression") {
  const auto doubled = [] {
    const Array array = counted();
    return xtensor_view<float>(array) * 2.0f;
  }();
  const Array others = Array::full({2, 3}, 9);  // takes the memory if it was freed
  CHECK(listed<float>(array_of(doubled)) == std::vector<float>{0, 2, 4, 6, 8, 10});
}

TEST_CASE("xtensor: one view is copied into another with noalias") {
  Array from = counted(), to = Array::zeros({2, 3});
  const auto source = xtensor_view<float>(from);
  auto view = xtensor_view<float>(to);
  xt::noalias(view) = source;
  CHECK(listed<float>(to) == listed<float>(from));
  CHECK(view.data() == to.values<float>().data());
}

TEST_CASE("xtensor: a view of another type, another rank or nothing is refused") {
  Array array = counted();
  CHECK_THROWS_WITH_AS(xtensor_view<double>(array),
                       doctest::Contains("array: dtype float32; expected float64"),
                       std::invalid_argument);
  CHECK_THROWS_WITH_AS(xtensor_view<std::int32_t>(std::as_const(array)),
                       doctest::Contains("array: dtype float32; expected int32"),
                       std::invalid_argument);
  CHECK_THROWS_WITH_AS((xtensor_view<float, 3>(array)),
                       doctest::Contains("xtensor_view: shape (2, 3); expected 3"),
                       std::invalid_argument);
  CHECK_THROWS_WITH_AS(xtensor_view<float>(Array()),
                       doctest::Contains("xtensor_view: the array is empty"),
                       std::invalid_argument);
}

TEST_CASE("xtensor: an expression becomes an array of its shape and type") {
  const Array array = counted();
  const auto x = xtensor_view<float>(array);
  const Array shifted = array_of(x + 1.0f);
  CHECK(shifted.dtype() == DType::float32);
  CHECK(shifted.shape() == Shape{2, 3});
  CHECK(listed<float>(shifted) == std::vector<float>{1, 2, 3, 4, 5, 6});

  const xt::xtensor<double, 1> container = {1, 2};
  CHECK(array_of(container).dtype() == DType::float64);
  CHECK(listed<double>(array_of(container * 0.5)) == std::vector<double>{0.5, 1});

  const Array bits = array_of(xt::cast<std::int32_t>(x > 2.0f));
  CHECK(bits.dtype() == DType::int32);
  CHECK(listed<std::int32_t>(bits) == std::vector<std::int32_t>{0, 0, 0, 1, 1, 1});
  CHECK(xt::sum(xtensor_view<std::int32_t>(bits))() == 3);
}

TEST_CASE("xtensor: an array is row-major for any memory order of the expression") {
  const xt::xarray<float, xt::layout_type::column_major> columns = {{0, 1, 2}, {3, 4, 5}};
  CHECK(listed<float>(array_of(columns)) == listed<float>(counted()));
  const Array array = counted();
  const auto x = xtensor_view<float, 2>(array);
  const Array transposed = array_of(xt::transpose(x));
  CHECK(transposed.shape() == Shape{3, 2});
  CHECK(listed<float>(transposed) == std::vector<float>{0, 3, 1, 4, 2, 5});
  CHECK(listed<float>(array_of(xt::view(x, xt::all(), xt::range(2, 0, -1)))) ==
        std::vector<float>{2, 1, 5, 4});
}

TEST_CASE("xtensor: expressions broadcast") {
  const Array array = counted();
  const xt::xtensor<float, 2> column = {{10}, {20}};
  const Array sum = array_of(xtensor_view<float>(array) + column);
  CHECK(listed<float>(sum) == std::vector<float>{10, 11, 12, 23, 24, 25});
  const Array wide = array_of(xt::broadcast(column, {2, 2}));
  CHECK(listed<float>(wide) == std::vector<float>{10, 10, 20, 20});
}

TEST_CASE("xtensor: scalars and empty arrays are converted") {
  Array scalar = Array::full({}, 3);
  xtensor_view<float>(scalar)() += 1;
  xtensor_view<float, 0>(scalar)() += 1;
  CHECK(listed<float>(scalar) == std::vector<float>{5});
  const Array array = counted();
  const Array sum = array_of(xt::sum(xtensor_view<float>(array)));
  CHECK(sum.shape() == Shape{});
  CHECK(listed<float>(sum) == std::vector<float>{15});

  Array none({0, 3});
  CHECK(xtensor_view<float>(none).size() == 0);
  CHECK(xtensor_view<float, 2>(none).shape(1) == 3);
  CHECK(array_of(xtensor_view<float>(none) * 2.0f).shape() == Shape{0, 3});
  CHECK_FALSE(array_of(xt::xtensor<double, 1>::from_shape({0})).empty());
}

TEST_CASE("xtensor: each value is computed once") {
  int computed = 0;
  const auto counting = xt::vectorize([&](float value) {
    ++computed;
    return value;
  });
  const Array array = counted();
  const auto x = xtensor_view<float>(array);
  CHECK(listed<float>(array_of(counting(x))) == listed<float>(array));
  CHECK(computed == 6);
}

TEST_CASE("xtensor: another number of axes, shape or type is refused") {
  const auto seven = xt::xarray<float>::from_shape(xt::svector<std::size_t>(7, 1));
  CHECK_THROWS_WITH_AS(array_of(seven),
                       doctest::Contains("shape: too many axes; expected at most 6"),
                       std::invalid_argument);
  Array array = counted();
  const xt::xtensor<double, 1> row = {1, 2, 3};
  CHECK_THROWS_WITH_AS(array.copy_from(array_of(row)),
                       doctest::Contains("float64 (3,) into float32 (2, 3)"),
                       std::invalid_argument);
  auto view = xtensor_view<float>(array);
  CHECK_THROWS(view = row);  // xtensor itself refuses to resize memory that it does not own
  CHECK(listed<float>(array) == listed<float>(counted()));
}

TEST_CASE("xtensor: ops accept arrays made of expressions") {
  const xt::xtensor<float, 2> weights = {{1}, {2}, {3}};
  const Array x = array_of(xtensor_view<float>(counted()) - 2.0f);
  const Tensor w = Tensor::variable(array_of(weights));
  Tape tape;
  const Tensor y = mean(matmul(x, w));
  CHECK(y.item() == doctest::Approx(5));
  const Gradients gradients = tape.backward(y);
  CHECK(
      xt::allclose(xtensor_view<float>(gradients[w]), xt::xtensor<float, 2>{{-0.5}, {0.5}, {1.5}}));
}

TEST_SUITE_END();

}  // namespace
}  // namespace tapestry
