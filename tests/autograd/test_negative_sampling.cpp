#include <doctest/doctest.h>

#include "autograd/ops.hpp"
#include "tests/support/op_inputs.hpp"
#include "tests/support/process.hpp"

namespace tapestry {
namespace {

TEST_SUITE_BEGIN("ops");

// Returns ((i · factor) mod modulus - shift) / 4 for the elements of (4, 3).
Array quarters(std::int64_t factor, std::int64_t modulus, std::int64_t shift) {
  Array array({4, 3}, f64);
  for (std::int64_t i = 0; i < 12; ++i)
    array.mutable_values<double>()[i] = static_cast<double>(i * factor % modulus - shift) / 4;
  return array;
}

TEST_CASE("negative_sampling: values and gradients of PyTorch's logsigmoid") {
  const Array contexts = ints({1, 2, -1, 0, 3, 3, 1, -1, -1}, {3, 3}),
              targets = ints({3, 0, -1, 2, 1, 1, -1, 0, 1}, {3, 3});
  for (const DType dtype : {f32, f64}) {
    const Outcome found =
        run([&](In x) { return negative_sampling(x[0], x[1], contexts, targets); },
            {quarters(7, 11, 5), quarters(5, 13, 6)}, dtype, Array::full({}, 1, f64));
    const double tolerance = dtype == f32 ? 1e-6 : 1e-9;
    check_close(found.y, Array::full({}, 4.057051466051037, f64), tolerance);
    check_close(
        found.gradients[0],
        row({-1.2204514979, 0.2022900852, 2.1597101726, -0.0955724914, -0.3836974638, 0.2843762234,
             -0.11378727, -0.419991171, 0.3164741556, 0.0140814444, -0.3396971378, 1.0546435189})
            .reshaped({4, 3}),
        tolerance);
    check_close(
        found.gradients[1],
        row({0.1555019228, 0.0159287486, -0.1236444257, -1.4372421789, 0.5876398704, -0.9699298359,
             -0.1977665534, 0.0522124792, 0.7546117849, -0.688590016, -0.073553743, 0.5414825299})
            .reshaped({4, 3}),
        tolerance);
  }
}

TEST_CASE("negative_sampling: the composition, also of words that occur more than 512 times") {
  constexpr std::int64_t N = 700, W = 4, K = 3, V = 6;
  const Array contexts = random_tokens({N, W}, V), targets = random_tokens({N, K}, V, 3);
  Array labels = Array::zeros({N, W, K}, f64);
  for (std::int64_t i = 0; i < N * W; ++i) labels.mutable_values<double>()[i * K] = 1;
  const auto composed = [&](In x) {
    const Tensor scores =
        matmul(embedding(x[0], contexts), embedding(x[1], targets), {.transpose_b = true});
    return sum(binary_cross_entropy(scores, labels.to(scores.dtype())));
  };
  const auto fused = [&](In x) { return negative_sampling(x[0], x[1], contexts, targets); };
  const std::vector<Array> inputs = {normal({V, 37}), normal({V, 37})};
  for (const DType dtype : {f32, f64}) {
    const Array one = Array::full({}, 0.5, f64);
    const Outcome found = run(fused, inputs, dtype, one),
                  wanted = run(composed, inputs, dtype, one);
    const double tolerance = dtype == f32 ? 1e-4 : 1e-10;
    CHECK(distance(found.y, wanted.y) <= tolerance);
    for (const std::size_t table : {0, 1})
      CHECK(distance(found.gradients[table], wanted.gradients[table]) <= tolerance);
  }
}

TEST_CASE("negative_sampling: refuses other shapes and words") {
  const Tensor table = normal({4, 3});
  const Array words = ints({0, 1}, {1, 2});
  const auto refused = [](const auto& call, const std::string& part) {
    CHECK_THROWS_WITH_AS(call(), doctest::Contains(part.c_str()), std::invalid_argument);
  };
  refused(
      [&] {
        negative_sampling(table, normal({5, 3}), words, words);
      },
      "shapes (4, 3) and (5, 3)");
  refused(
      [&] {
        negative_sampling(table, table, words, ints({0, 1}, {2, 1}));
      },
      "expected (V, C) with int32 (N, W) and (N, 1 + K)");
  refused(
      [&] {
        negative_sampling(table, table, ints({0, 4}, {1, 2}), words);
      },
      "contexts with word 4; expected -1 to 3");
  refused(
      [&] {
        negative_sampling(table, table, words, ints({-2}, {1, 1}));
      },
      "targets with word -2");
}

TEST_SUITE_END();

}  // namespace
}  // namespace tapestry
