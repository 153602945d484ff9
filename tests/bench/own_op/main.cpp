#include <fmt/core.h>

#include <algorithm>
#include <chrono>
#include <tapestry/elementwise.hpp>
#include <tapestry/ops.hpp>
#include <vector>

using namespace tapestry;

// Built-in ops beside the same ones from lambdas of this program: the median time of forward and
// backward pass, interleaved. train/guide/own-ops.md has the results. To build and run it:
//
//   cmake --install build/release --prefix /tmp/prefix
//   L=/tmp/prefix/lib/x86_64-linux-gnu; export PKG_CONFIG_PATH=$L/pkgconfig
//   c++ -std=c++20 -O3 $(pkg-config --variable=march_v3 tapestry) -o own_op
//     tests/bench/own_op/main.cpp $(pkg-config --cflags --libs tapestry) -Wl,-rpath,$L

Tensor own_leaky_relu(const Tensor& x) {
  const auto bent = [](auto v, auto where_positive) {
    using V = decltype(v);
    return select(where_positive > V(0), v, v * V(Scalar<V>(0.01)));
  };
  return unary<Saves::output>(
      "own", x, [bent](auto v) { return bent(v, v); }, bent);
}

Tensor own_tanh(const Tensor& x) {
  return unary<Saves::output>(
      "own", x, [](auto v) { return tanh(v); }, [](auto g, auto y) { return g - g * y * y; });
}

Tensor own_squared_error(const Tensor& a, const Tensor& b) {
  return binary(
      "own", a, b, [](auto v, auto w) { return (v - w) * (v - w); },
      [](auto g, auto v, auto w) { return (g + g) * (v - w); },
      [](auto g, auto v, auto w) { return (g + g) * (w - v); });
}

// Returns the seconds of a forward and a backward pass.
template <class Op>
double seconds_of(const Op& op, const Tensor& x, const Array& gradient) {
  const auto start = std::chrono::steady_clock::now();
  Tape tape;
  tape.backward(op(x), gradient);
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

template <class BuiltIn, class Own>
void compare(const char* name, const Tensor& x, const BuiltIn& built_in, const Own& own) {
  const Array gradient = Array::full(x.shape(), 0.5);
  std::vector<double> theirs, ours;
  for (int round = 0; round < 301; ++round) {
    theirs.push_back(seconds_of(built_in, x, gradient));
    ours.push_back(seconds_of(own, x, gradient));
  }
  for (auto* times : {&theirs, &ours}) std::ranges::sort(*times);
  fmt::print("{:14} {:9} elements: built-in {:8.1f} us, own {:8.1f} us, {:.3f}\n", name, x.size(),
             theirs[150] * 1e6, ours[150] * 1e6, ours[150] / theirs[150]);
}

int main() {
  set_num_threads(1);
  for (const std::int64_t size : {1 << 14, 1 << 20}) {
    Array values({size});
    Random(1, Stream::data).fill_normal(values, 0, 1);
    const Tensor x = Tensor::variable(values), target = values.clone();
    compare("tanh", x, tapestry::tanh, own_tanh);
    compare(
        "leaky_relu", x, [](const Tensor& v) { return leaky_relu(v); }, own_leaky_relu);
    compare(
        "squared_error", x, [&](const Tensor& v) { return squared_error(v, target); },
        [&](const Tensor& v) { return own_squared_error(v, target); });
  }
}
