#include <doctest/doctest.h>

#include <algorithm>
#include <atomic>
#include <cmath>
#include <cstring>
#include <filesystem>
#include <limits>
#include <numeric>
#include <thread>

#include "autograd/buffer_pool.hpp"
#include "autograd/check.hpp"
#include "autograd/kernels/bfloat16.hpp"
#include "autograd/kernels/broadcast.hpp"
#include "autograd/kernels/matmul.hpp"
#include "autograd/ops.hpp"
#include "autograd/parallel.hpp"
#include "autograd/random.hpp"
#include "autograd/tape.hpp"

namespace tapestry {
namespace {

using In = const std::vector<Tensor>&;
using Function = std::function<Tensor(In)>;

constexpr DType f32 = DType::float32, f64 = DType::float64, i32 = DType::int32;
constexpr double infinity = std::numeric_limits<double>::infinity();

Array normal(const Shape& shape, DType dtype = f32) {
  static std::uint64_t step = 0;
  Array array(shape, dtype);
  Random(1, Stream::data, ++step).fill_normal(array, 0, 1);
  return array;
}

Array of(const std::vector<double>& values) { return Array::of(values, {std::ssize(values)}); }

std::vector<double> doubles(const Array& array) {
  const Array wide = array.to(f64);
  return {wide.values<double>().begin(), wide.values<double>().end()};
}

bool same_bits(const Array& a, const Array& b) {
  return a.shape() == b.shape() && a.dtype() == b.dtype() &&
         std::equal(a.raw(), a.raw() + a.bytes(), b.raw());
}

Array ints(std::int64_t n, std::int64_t bound) {
  Array array(Shape{n}, i32);
  Random random(2, Stream::data);
  for (std::int32_t& value : array.mutable_values<std::int32_t>())
    value = static_cast<std::int32_t>(random.below(bound));
  return array;
}

// --- arrays and shapes ---

TEST_CASE("array: a handle shares, a clone copies, a conversion keeps values") {
  Array a = of({1, 2.5, -3, 4});
  Array handle = a;
  const Array copy = a.clone();
  CHECK_FALSE(a.unique());
  CHECK(copy.unique());
  handle.mutable_values<double>()[0] = 9;
  CHECK(a.values<double>()[0] == 9);
  CHECK(copy.values<double>()[0] == 1);
  CHECK(a.reshaped({2, 2}).raw() == a.raw());
  CHECK(a.to(f64).raw() == a.raw());
  CHECK(doubles(copy.to(f32)) == std::vector<double>{1, 2.5, -3, 4});
  CHECK(doubles(copy.to(i32)) == std::vector<double>{1, 2, -3, 4});
  CHECK(Array().empty());
  CHECK_FALSE(Array(Shape{0}).empty());
  CHECK(doubles(Array::full({2}, 7, i32)) == std::vector<double>{7, 7});
  CHECK(reinterpret_cast<std::uintptr_t>(a.raw()) % 64 == 0);
  CHECK_THROWS_WITH_AS(a.values<float>(), "array: holds float64, read as float32",
                       std::invalid_argument);
  CHECK_THROWS_WITH_AS(a.reshaped({3}), "reshape: (4,) to (3,)", std::invalid_argument);
  CHECK_THROWS_AS(Array::of(std::vector{1.0}, {2}), std::invalid_argument);
  CHECK_THROWS_AS(a.copy_from(of({1})), std::invalid_argument);
}

TEST_CASE("shape: text, size, axes and broadcasting") {
  CHECK(to_string(Shape{}) == "()");
  CHECK(to_string(Shape{3}) == "(3,)");
  CHECK(to_string(Shape{2, 3}) == "(2, 3)");
  CHECK(Shape{}.elements() == 1);
  CHECK(Shape{2, 0, 3}.elements() == 0);
  CHECK((Shape{2, 3}[-1] == 3 && Shape{2, 3}[-2] == 2));
  CHECK_FALSE(Shape{2} == Shape{2, 1});
  CHECK(broadcast("op", {2, 1, 4}, {3, 1}) == Shape{2, 3, 4});
  CHECK(broadcast("op", {1}, {0}) == Shape{0});
  CHECK(broadcast("op", {}, {2}) == Shape{2});
  CHECK((broadcasts({2, 1}, {3}) && !broadcasts({2}, {3}) && broadcasts({}, {2, 3})));
  CHECK_THROWS_WITH_AS(broadcast("op", {2, 3}, {2}), "op: shapes (2, 3) and (2,) do not broadcast",
                       std::invalid_argument);
  CHECK_THROWS_AS((Shape{1, 1, 1, 1, 1, 1, 1}), std::invalid_argument);
  CHECK_THROWS_AS((Shape{-1}), std::invalid_argument);
}

// --- the tape ---

TEST_CASE("tape: gradients of several uses add up") {
  const Tensor x = Tensor::variable(of({1, 2, 3})), y = Tensor::variable(of({4, 5, 6}));
  Tape tape;
  const Tensor z = x * y + x * x + x + x;
  const Gradients grads = tape.backward(sum(z * 2.0));
  CHECK(doubles(grads[x]) == std::vector<double>{16, 22, 28});  // 2 (y + 2 x + 2)
  CHECK(doubles(grads[y]) == std::vector<double>{2, 4, 6});
  CHECK(tape.size() == 0);
}

TEST_CASE("tape: `grads +=` adds, and leaves what was added alone") {
  const Tensor x = Tensor::variable(of({1, 2})), y = Tensor::variable(of({3, 4}));
  Gradients total;
  std::vector<Gradients> parts;
  for (int micro_batch = 1; micro_batch <= 3; ++micro_batch) {
    Tape tape;
    const Tensor used = micro_batch == 2 ? x * y : x * 1.0;
    parts.push_back(tape.backward(sum(used), micro_batch));
    total += parts.back();
  }
  CHECK(doubles(total[x]) == std::vector<double>{1 + 2 * 3 + 3, 1 + 2 * 4 + 3});
  CHECK(doubles(total[y]) == std::vector<double>{2, 4});
  CHECK(doubles(parts[0][x]) == std::vector<double>{1, 1});
  CHECK(parts[0].find(y) == nullptr);
  CHECK_THROWS_AS(parts[0][y], std::out_of_range);
}

TEST_CASE("tape: one gradient array given to two inputs is not summed into") {
  const Tensor x = Tensor::variable(of({1})), y = Tensor::variable(of({2}));
  Tape tape;
  const Tensor z = x + y;  // hands one array to both
  const Gradients grads = tape.backward(sum(z + x));
  CHECK(doubles(grads[x]) == std::vector<double>{2});
  CHECK(doubles(grads[y]) == std::vector<double>{1});
}

TEST_CASE("tape: nothing is recorded without a tape, or of constants") {
  const Tensor x = Tensor::variable(of({1, 2}));
  CHECK((x * x).id() == 0);
  Tape tape;
  CHECK((x.value() + Tensor(of({1, 1}))).id() == 0);
  CHECK(tape.size() == 0);
  const Tensor y = x * x;
  CHECK(y.id() != 0);
  CHECK(tape.size() == 1);
  const Gradients grads = tape.backward(sum(Tensor(y.value())));  // cut off
  CHECK(grads.find(x) == nullptr);
}

TEST_CASE("tape: what pullbacks compute is not recorded") {
  const Tensor x = Tensor::variable(of({0.5, 2}));
  Tape tape;
  tape.backward(sum(gelu(x) / x));
  CHECK(tape.size() == 0);
}

TEST_CASE("tape: the innermost of nested tapes records") {
  const Tensor x = Tensor::variable(of({3}));
  Tape outer;
  const Tensor y = x * x;
  {
    Tape inner;
    const Tensor z = y * y;
    CHECK((outer.size() == 1 && inner.size() == 1));
    const Gradients grads = inner.backward(z);
    CHECK(doubles(grads[y]) == std::vector<double>{18});
    CHECK(grads.find(x) == nullptr);
  }
  CHECK(doubles(outer.backward(sum(y * 1.0))[x]) == std::vector<double>{6});
  CHECK(outer.size() == 0);
}

TEST_CASE("tape: a tape is used again, on values that were made before") {
  const Tensor x = Tensor::variable(of({3}));
  Tape tape;
  const Tensor y = x * x;
  CHECK(doubles(tape.backward(sum(y * y))[x]) == std::vector<double>{108});
  // The way from x to y has been walked and freed; y is now where the gradient ends.
  const Gradients again = tape.backward(sum(y * y));
  CHECK(doubles(again[y]) == std::vector<double>{18});
  CHECK(again.find(x) == nullptr);
  const Tensor anew = x * x;
  CHECK(doubles(tape.backward(sum(anew * anew))[x]) == std::vector<double>{108});
}

TEST_CASE("tape: backward from a variable, a constant, an output with a gradient of its own") {
  const Tensor x = Tensor::variable(of({3}));
  Tape tape;
  CHECK(doubles(tape.backward(x, 2)[x]) == std::vector<double>{2});
  CHECK(tape.backward(Tensor(of({3}))).find(x) == nullptr);
  const Tensor y = Tensor::variable(of({1, 2}));
  CHECK(doubles(tape.backward(y * y, of({1, 10}))[y]) == std::vector<double>{2, 40});
  CHECK_THROWS_AS(tape.backward(y * y), std::invalid_argument);
  CHECK_THROWS_AS(tape.backward(y * y, of({1})), std::invalid_argument);
  CHECK_THROWS_AS(y.item(), std::invalid_argument);
}

TEST_CASE("bug: backward took a gradient of another dtype") {
  const Tensor x = Tensor::variable(of({1, 2}));
  Tape tape;
  CHECK_THROWS_AS(tape.backward(x + x, Array::full({2}, 1, f32)), std::invalid_argument);
}

TEST_CASE("tape: entries are freed as they are walked, and with the tape") {
  const Tensor x = Tensor::variable(normal({64, 64}));
  const auto loss = [&] {
    Tensor y = x;
    for (int i = 0; i < 10; ++i) y = tanh(matmul(y, x));
    return mean(y);
  };
  const std::int64_t before = memory_use().bytes_in_use;
  {
    Tape tape;
    const Tensor value = loss();
    CHECK(memory_use().bytes_in_use > before + 10 * 64 * 64 * 4);
    reset_peak_memory();
    const std::int64_t forward = memory_use().bytes_in_use;
    const Gradients grads = tape.backward(value);
    CHECK(memory_use().peak_bytes_in_use < forward + 6 * 64 * 64 * 4);
    CHECK(memory_use().bytes_in_use < before + 3 * 64 * 64 * 4);
  }
  CHECK(memory_use().bytes_in_use == before);
  {
    const Tape tape;
    loss();
    CHECK(memory_use().bytes_in_use > before);
  }
  CHECK(memory_use().bytes_in_use == before);
}

#ifndef __SANITIZE_ADDRESS__  // under which blocks are not recycled
TEST_CASE("memory: after the first steps, a step asks the system for nothing") {
  const Tensor weight = Tensor::variable(normal({48, 48})),
               table = Tensor::variable(normal({50, 48}));
  const Tensor gain = Tensor::variable(normal({48})), bias = Tensor::variable(normal({48}));
  const Tensor qkv = Tensor::variable(normal({144, 48}));
  const auto step = [&] {
    Tape tape;
    Tensor x = reshape(embedding(table, ints(80, 50)), {4, 20, 48});
    x = x + packed_self_attention(linear(x, qkv), {.heads = 4, .causal = true});
    x = layer_norm(gelu(linear(x, weight, bias)), gain, bias);
    const Tensor logits = reshape(linear(x, table), {80, 50});
    Gradients grads = tape.backward(cross_entropy(logits, ints(80, 50)));
    grads += grads;
  };
  step();
  step();
  const std::int64_t warm = memory_use().system_allocations;
  for (int i = 0; i < 5; ++i) step();
  CHECK(memory_use().system_allocations == warm);
}
#endif

// --- the check for values that are not finite ---

// Turns the check on for a scope; says what the error of `run` was.
std::string non_finite(const std::function<void()>& run) {
  set_check_finite(true);
  std::string message = "finite";
  try {
    run();
  } catch (const NonFiniteError& error) {
    message = error.what();
  }
  set_check_finite(false);
  return message;
}

TEST_CASE("check_finite: names the first bad op, its scope and its inputs' ranges") {
  const std::string path = "blocks.0.attention";
  const Tensor x = Tensor::variable(of({-1, 0.5, 4}));
  const auto scoped = [&](const std::function<void()>& run) {
    return non_finite([&] {
      const Scope scope(path);
      run();
    });
  };
  CHECK(scoped([&] { exp(log(x)); }) ==
        "the output of log in blocks.0.attention is not finite: (3,) in [-0.6931, 1.386] with NaN; "
        "from (3,) in [-1, 4]");
  CHECK(non_finite([&] { log(x); }).starts_with("the output of log in the loss is not finite"));
  CHECK(scoped([&] { exp(x * 1000.0); }).starts_with("the output of exp in blocks.0.attention"));
  CHECK(scoped([&] { log(x * 0.0); }).find("(3,) in [-inf, -inf]") != std::string::npos);
  CHECK(scoped([&] { exp(log(x) * 0.0 + x); }).starts_with("the output of log"));
  CHECK(non_finite([&] { exp(x); }) == "finite");
}

TEST_CASE("check_finite: an inner scope ends with its block") {
  const std::string outer = "outer", inner = "outer.inner";
  const std::string message = non_finite([&] {
    const Scope scope(outer);
    { const Scope nested(inner); }
    log(Tensor(of({-1})));
  });
  CHECK(message.starts_with("the output of log in outer is not finite"));
}

TEST_CASE("check_finite: the -inf of a mask passes, forward and backward") {
  const Tensor x = Tensor::variable(of({1, 2, 3}));
  const Tensor mask = of({0, -infinity, -infinity});
  CHECK(non_finite([&] {
          Tape tape;
          tape.backward(sum(softmax(x + mask)));
          tape.backward(logsumexp(concat({x + mask, x}, 0)));
        }) == "finite");
  CHECK(non_finite([&] {
          softmax(x + Tensor(of({0, infinity, 0})));
        }).starts_with("the output of"));
  CHECK(non_finite([&] { (x + mask) - (x + mask); }).starts_with("the output of subtract"));
  const Tensor q = Tensor::variable(normal({1, 2, 4}));
  const Array hidden = Array::full({2, 2}, -infinity, f32);
  CHECK(non_finite([&] {
          Tape tape;
          tape.backward(sum(scaled_dot_product_attention(q, q, q, {.mask = hidden})));
        }) == "finite");
}

TEST_CASE("check_finite: names the op whose gradient is not finite") {
  const std::string path = "encoder.1";
  const Tensor x = Tensor::variable(of({0, 4}));
  const std::string message = non_finite([&] {
    Tape tape;
    Tensor y;
    {
      const Scope scope(path);
      y = sqrt(x * 1.0);
    }
    tape.backward(sum(y * 3.0));
  });
  CHECK(
      message ==
      "the gradient of sqrt in encoder.1 is not finite: (2,) in [0.75, inf]; from (2,) in [3, 3]");
}

TEST_CASE("check_finite: off, nothing is checked") {
  CHECK(std::isnan(log(Tensor(of({-1}))).item()));
}

// --- randomness ---

TEST_CASE("random: Philox4x32-10 gives its authors' known answers") {
  Random zero(0, Stream::init, 0);
  for (const std::uint32_t word : {0x6627e8d5u, 0xe169c58du, 0xbc57ac4cu, 0x9b00dbd8u})
    CHECK(zero.bits() == word);
}

TEST_CASE("random: moments of uniform and normal numbers") {
  constexpr int n = 1000000;
  const auto moments = [](const std::vector<double>& x) {
    std::array<double, 4> m{};
    for (const double v : x)
      for (int power = 0; power < 4; ++power) m[power] += std::pow(v, power + 1) / n;
    return m;
  };
  for (const bool filled : {false, true})
    for (const DType dtype : {f32, f64}) {
      Random random(7, Stream::data);
      Array uniform(Shape{n}, dtype), gauss(Shape{n}, dtype);
      if (filled) {
        random.fill_uniform(uniform, 0, 1);
        random.fill_normal(gauss, 0, 1);
      } else {
        std::vector<double> u(n), g(n);
        std::ranges::generate(u, [&] { return random.uniform(); });
        std::ranges::generate(g, [&] { return random.normal(); });
        uniform = of(u).to(dtype), gauss = of(g).to(dtype);
      }
      const auto u = moments(doubles(uniform)), g = moments(doubles(gauss));
      for (std::size_t i = 0; i < 4; ++i)
        CHECK(std::abs(u[i] - 1.0 / static_cast<double>(i + 2)) < 0.002);  // 5 standard errors
      CHECK(std::abs(g[0]) < 0.005);
      CHECK(std::abs(g[1] - 1) < 0.01);
      CHECK(std::abs(g[2]) < 0.02);
      CHECK(std::abs(g[3] - 3) < 0.05);
    }
  Array shifted(Shape{n}, f32);
  Random(7, Stream::data).fill_normal(shifted, 3, 0.5);
  const auto m = moments(doubles(shifted));
  CHECK(m[0] == doctest::Approx(3).epsilon(0.001));
  CHECK(m[1] - m[0] * m[0] == doctest::Approx(0.25).epsilon(0.01));
}

TEST_CASE("random: seeds, streams and steps are independent, and repeat") {
  std::vector<std::vector<double>> drawn;
  for (const std::uint64_t seed : {0ull, 1ull, 1ull << 32})
    for (const Stream stream :
         {Stream::init, Stream::data, Stream::dropout, Stream::eval, Stream::sample})
      for (const std::uint64_t step : {0ull, 1ull, 1ull << 32, (1ull << 56) - 1}) {
        Array array(Shape{1000}, f64);
        Random(seed, stream, step).fill_normal(array, 0, 1);
        drawn.push_back(doubles(array));
        Random(seed, stream, step).fill_normal(array, 0, 1);
        CHECK(doubles(array) == drawn.back());
      }
  for (std::size_t i = 0; i < drawn.size(); ++i)
    for (std::size_t j = 0; j < i; ++j) {
      const double correlation =
          std::inner_product(drawn[i].begin(), drawn[i].end(), drawn[j].begin(), 0.0) / 1000;
      CHECK(std::abs(correlation) < 0.17);  // 5 standard errors
    }
  CHECK_THROWS_AS(Random(0, Stream::init, 1ull << 56), std::invalid_argument);
}

TEST_CASE("random: draws of one generator do not repeat themselves") {
  Random random(0, Stream::data);
  Array first(Shape{7}, f64), second(Shape{7}, f64);
  const std::uint32_t before = random.bits();
  random.fill_uniform(first, 0, 1);
  random.fill_uniform(second, 0, 1);
  CHECK(doubles(first) != doubles(second));
  CHECK(random.bits() != before);
}

TEST_CASE("random: masks hide the share they are asked to, each element on its own word") {
  for (const std::int64_t n : {1, 63, 64, 65, 100003})
    for (const DType dtype : {f32, f64}) {
      Array mask(Shape{n}, dtype);
      Random random(3, Stream::dropout, 9), words(3, Stream::dropout, 9);
      random.fill_mask(mask, 0.25, 2);
      std::vector<std::uint32_t> bits((n + 63) / 64 * 64);
      for (std::uint32_t& word : bits) word = words.bits();
      const std::vector<double> values = doubles(mask);
      for (std::size_t i = 0; i < values.size(); ++i) {
        const std::size_t block = i / 64 * 16 + i % 16, word = i % 64 / 16;
        if (values[i] != (bits[4 * block + word] < 0x40000000u ? 0 : 2))
          FAIL_CHECK("element " << i);
      }
      CHECK(random.bits() == words.bits());  // both stand after the same blocks
    }
  Array mask(Shape{3}, f32);
  Random random(3, Stream::dropout);
  CHECK_THROWS_AS(random.fill_mask(mask, 1, 2), std::invalid_argument);
}

TEST_CASE("random: below is in range and even") {
  Random random(5, Stream::sample);
  for (const std::int64_t bound : {1ll, 2ll, 3ll, 10ll, 1ll << 40}) {
    std::vector<int> count(10);
    for (int i = 0; i < 10000; ++i) {
      const std::int64_t drawn = random.below(bound);
      REQUIRE((drawn >= 0 && drawn < bound));
      if (bound <= 10) ++count[drawn];
    }
    for (std::int64_t i = 0; bound <= 10 && i < bound; ++i)
      CHECK(std::abs(count[i] - 10000 / bound) < 500);
  }
  CHECK_THROWS_AS(random.below(0), std::invalid_argument);
}

// --- threads ---

// Runs with each of several thread counts and puts the count back.
void with_threads(const std::vector<int>& counts, const std::function<void(int)>& run) {
  const int before = num_threads();
  for (const int count : counts) {
    set_num_threads(count);
    run(count);
  }
  set_num_threads(before);
}

TEST_CASE("parallel_for: each index once, in pieces that depend on the grain alone") {
  CHECK(physical_cores() >= 1);
  CHECK(num_threads() >= 1);
  with_threads({1, 2, 3, 8}, [](int) {
    for (const std::int64_t n : {0, 1, 7, 64, 1000})
      for (const std::int64_t grain : {1, 3, 64, 5000}) {
        std::vector<std::atomic<int>> seen(n);
        std::atomic<bool> aligned = true;
        parallel_for(n, grain, [&](std::int64_t begin, std::int64_t end) {
          if (begin % grain != 0 || end != std::min(n, begin + grain)) aligned = false;
          for (std::int64_t i = begin; i < end; ++i) ++seen[i];
        });
        CHECK(aligned);
        CHECK(std::ranges::all_of(seen, [](const auto& count) { return count == 1; }));
      }
  });
  CHECK_THROWS_AS(set_num_threads(0), std::invalid_argument);
  CHECK_THROWS_AS(parallel_for(1, 0, [](auto, auto) {}), std::invalid_argument);
}

TEST_CASE("parallel_for: an exception is thrown again, and a call from inside runs in place") {
  with_threads({1, 3}, [](int) {
    const auto fails = [](std::int64_t begin, std::int64_t) {
      if (begin == 5) throw InputError("piece 5");
    };
    CHECK_THROWS_WITH_AS(parallel_for(10, 1, fails), "piece 5", InputError);
    std::atomic<int> sum = 0;
    parallel_for(10, 1, [&](std::int64_t i, std::int64_t) {
      parallel_for(10, 1,
                   [&](std::int64_t j, std::int64_t) { sum += static_cast<int>(10 * i + j); });
    });
    CHECK(sum == 4950);
  });
}

struct Sized {
  std::string name;
  Function f;
  std::vector<Array> inputs;
};

// Every kind of kernel, at sizes that are cut into many pieces, even and odd.
std::vector<Sized> sized_rows() {
  std::vector<Sized> rows;
  for (const auto& [m, k, n] : std::vector<std::array<std::int64_t, 3>>{{256, 256, 256},
                                                                        {257, 129, 65},
                                                                        {1, 1000, 999},
                                                                        {1000, 3, 1},
                                                                        {16, 2708, 7},
                                                                        {31, 4000, 33}})
    for (const bool ta : {false, true})
      for (const bool tb : {false, true})
        rows.push_back(
            {fmt::format("matmul {} {} {} {} {}", m, k, n, ta, tb),
             [=](In x) {
               return matmul(x[0], x[1], {ta, tb});
             },
             {normal(ta ? Shape{k, m} : Shape{m, k}), normal(tb ? Shape{n, k} : Shape{k, n})}});
  rows.push_back({"batched matmul",
                  [](In x) { return matmul(x[0], x[1]); },
                  {normal({48, 33, 20}), normal({48, 20, 35})}});
  rows.push_back({"broadcast matmul",
                  [](In x) { return matmul(x[0], x[1]); },
                  {normal({9, 65, 64}), normal({64, 67})}});
  for (const auto& [m, k, n] : std::vector<std::array<std::int64_t, 3>>{
           {768, 128, 512}, {1000, 65, 33}, {4000, 31, 7}, {3, 500, 999}})
    rows.push_back({fmt::format("linear {} {} {}", m, k, n),
                    [](In x) { return linear(x[0], x[1], x[2]); },
                    {normal({m, k}), normal({n, k}), normal({n})}});
  const Array large = normal({300, 401}), row = normal({401}), column = normal({300, 1});
  rows.push_back({"layer_norm",
                  [](In x) { return layer_norm(x[0], x[1], x[2]); },
                  {large, normal({401}), normal({401})}});
  rows.push_back({"layer_norm, narrow",
                  [](In x) { return layer_norm(x[0], x[1], x[2]); },
                  {normal({5000, 5}), normal({5}), normal({5})}});
  using Unary = Tensor (*)(const Tensor&);
  for (const auto& [name, op] :
       std::vector<std::pair<const char*, Unary>>{{"exp", exp},
                                                  {"tanh", tanh},
                                                  {"sigmoid", sigmoid},
                                                  {"relu", relu},
                                                  {"softplus", softplus},
                                                  {"gelu", gelu},
                                                  {"gelu_tanh", gelu_tanh},
                                                  {"softmax", softmax},
                                                  {"log_softmax", log_softmax},
                                                  {"logsumexp", logsumexp}})
    rows.push_back({name, [op = op](In x) { return op(x[0]); }, {large}});
  using Binary = Tensor (*)(const Tensor&, const Tensor&);
  for (const auto& [name, op] : std::vector<std::pair<const char*, Binary>>{
           {"add", add}, {"subtract", subtract}, {"multiply", multiply}, {"divide", divide}})
    for (const Array& other : {large, row, column, normal({})})
      rows.push_back({fmt::format("{} {}", name, to_string(other.shape())),
                      [op = op](In x) { return op(x[0], x[1]); },
                      {large, other}});
  const Array cube = normal({30, 50, 41});
  for (const std::vector<int>& axes :
       std::vector<std::vector<int>>{{}, {0}, {1}, {2}, {0, 1}, {0, 2}, {1, 2}}) {
    rows.push_back({"sum", [=](In x) { return sum(x[0], axes); }, {cube}});
    rows.push_back({"mean", [=](In x) { return mean(x[0], axes); }, {cube}});
    rows.push_back({"max", [=](In x) { return max(x[0], axes); }, {cube}});
  }
  rows.push_back({"long sum", [](In x) { return sum(x[0], {0}); }, {normal({40000, 3})}});
  rows.push_back({"permute", [](In x) { return permute(x[0], {2, 0, 1}); }, {cube}});
  rows.push_back({"slice", [](In x) { return slice(x[0], 1, 3, 44); }, {cube}});
  rows.push_back({"concat", [](In x) { return concat({x[0], x[0]}, 1); }, {cube}});
  rows.push_back({"dropout",
                  [](In x) {
                    Random random(0, Stream::dropout);
                    return dropout(x[0], 0.3, random);
                  },
                  {large}});
  for (const std::int64_t C : {16, 401})
    rows.push_back({"embedding",
                    [tokens = ints(3000, 20)](In x) { return embedding(x[0], tokens); },
                    {normal({20, C})}});
  for (const bool causal : {false, true})
    rows.push_back({"attention",
                    [=](In x) {
                      return scaled_dot_product_attention(x[0], x[1], x[2],
                                                          {.heads = 3, .causal = causal});
                    },
                    {normal({4, 150, 60}), normal({4, 130, 60}), normal({4, 130, 60})}});
  rows.push_back({"packed_self_attention",
                  [](In x) { return packed_self_attention(x[0], {.heads = 2, .causal = true}); },
                  {normal({3, 100, 96})}});
  for (const std::int64_t C : {3, 130}) {
    const Array x = normal({33, 40, C});
    rows.push_back({"linear_recurrence",
                    [](In v) { return linear_recurrence(sigmoid(v[0]), v[1]); },
                    {normal({33, 40, C}), x}});
    rows.push_back({"linear_recurrence, a gate a column",
                    [](In v) { return linear_recurrence(sigmoid(v[0]), v[1]); },
                    {normal({C}), x}});
    rows.push_back({"tanh_recurrence",
                    [](In v) { return tanh_recurrence(v[0], scale(v[1], 0.1), v[2]); },
                    {x, normal({C, C}), normal({33, C})}});
  }
  rows.push_back({"cross_entropy",
                  [targets = ints(2000, 65)](In x) {
                    return cross_entropy(x[0], targets, {.label_smoothing = 0.1});
                  },
                  {normal({2000, 65})}});
  for (const auto& [name, op] :
       std::vector<std::pair<const char*, Binary>>{{"binary_cross_entropy", binary_cross_entropy},
                                                   {"squared_error", squared_error},
                                                   {"gaussian_kl", gaussian_kl}})
    rows.push_back({name, [op = op](In x) { return op(x[0], x[1]); }, {large, normal({300, 401})}});
  return rows;
}

// The value and every gradient.
std::vector<Array> outcome(const Sized& row, DType dtype) {
  std::vector<Tensor> variables;
  for (const Array& input : row.inputs) variables.push_back(Tensor::variable(input.to(dtype)));
  Tape tape;
  const Tensor y = row.f(variables);
  Array g(y.shape(), dtype);
  Random(9, Stream::data).fill_normal(g, 0, 1);
  const Gradients grads = tape.backward(y, g);
  std::vector<Array> result{y.value()};
  for (const Tensor& variable : variables) result.push_back(grads[variable]);
  return result;
}

TEST_CASE("threads: every op gives the same bits on 1, 2, 3 and 8 threads") {
  for (const Sized& row : sized_rows())
    for (const DType dtype : {f32, f64}) {
      CAPTURE(row.name);
      INFO(std::string(to_string(dtype)));
      std::vector<Array> first;
      with_threads({1, 2, 3, 8}, [&](int threads) {
        CAPTURE(threads);
        const std::vector<Array> result = outcome(row, dtype);
        if (first.empty()) first = result;
        bool same = true;
        for (std::size_t i = 0; i < result.size(); ++i) same &= same_bits(first[i], result[i]);
        CHECK(same);
      });
    }
}

TEST_CASE("threads: random arrays and sums have the same bits on 1, 2, 3 and 8 threads") {
  Array uniform, gauss;
  double total = 0, squares = 0;
  with_threads({1, 2, 3, 8}, [&](int threads) {
    Array u(Shape{100001}, f32), g(Shape{100001}, f64);
    Random random(0, Stream::init);
    random.fill_uniform(u, -1, 1);
    random.fill_normal(g, 0, 1);
    if (threads == 1) uniform = u, gauss = g, total = sum_all(u), squares = sum_of_squares(g);
    CHECK(same_bits(u, uniform));
    CHECK(same_bits(g, gauss));
    CHECK(sum_all(u) == total);
    CHECK(sum_of_squares(g) == squares);
  });
}

TEST_CASE("matmul: oneDNN and OpenBLAS agree, and with float64") {
  for (const Sized& row : sized_rows()) {
    if (row.name.find("matmul") == std::string::npos && row.name.find("linear") != 0) continue;
    CAPTURE(row.name);
    const std::vector<Array> by_default = outcome(row, f32), exact = outcome(row, f64);
    set_use_onednn(false);
    const std::vector<Array> by_openblas = outcome(row, f32);
    set_use_onednn(true);
    for (std::size_t i = 0; i < exact.size(); ++i) {
      const std::vector<double> a = doubles(by_default[i]), b = doubles(by_openblas[i]);
      const std::vector<double> wanted = doubles(exact[i]);
      double size = 0, apart = 0, wrong = 0;
      for (std::size_t j = 0; j < wanted.size(); ++j) {
        size = std::max(size, std::abs(wanted[j]));
        apart = std::max(apart, std::abs(a[j] - b[j]));
        wrong = std::max(wrong, std::abs(a[j] - wanted[j]));
      }
      CHECK(apart <= 1e-5 * size);
      CHECK((i == 0 || wrong <= 1e-5 * size));
    }
  }
  CHECK_FALSE(matrix_engine_names().empty());
}

// Clang's OpenMP is another library than the one under oneDNN and OpenBLAS. A thread that has not
// computed before would have to start a team of its own.
TEST_CASE("matmul: with one thread, no engine starts others") {
  const auto count_threads = [] {
    return std::distance(std::filesystem::directory_iterator("/proc/self/task"), {});
  };
  const int before = num_threads();
  set_num_threads(1);
  for (const DType dtype : {f32, f64})
    for (const bool onednn : {true, false}) {
      set_use_onednn(onednn);
      const Array a = normal({400, 700}, dtype), b = normal({700, 600}, dtype);
      std::ptrdiff_t alone = 0, after = 0;
      std::thread([&] {
        alone = count_threads();
        matmul(a, b);
        after = count_threads();
      }).join();
      CHECK(after == alone);
    }
  set_use_onednn(true);
  set_num_threads(before);
}

TEST_CASE("matmul: bfloat16 operands are those of float32 rounded to even") {
  const auto rounded = [](float x) { return std::bit_cast<float>(round_to_bfloat16(x)); };
  CHECK(rounded(1.0f) == 1.0f);
  CHECK(rounded(1.0f + 0x1p-8f) == 1.0f);            // a tie goes to the even neighbour
  CHECK(rounded(1.0f + 0x3p-8f) == 1.0f + 0x4p-8f);  // this one's is above
  CHECK(rounded(1.0f + 0x1.1p-8f) == 1.0f + 0x2p-8f);
  CHECK(rounded(-3.14159265f) == -3.140625f);
  CHECK(rounded(std::numeric_limits<float>::max()) == std::numeric_limits<float>::infinity());
  CHECK(rounded(-std::numeric_limits<float>::infinity()) ==
        -std::numeric_limits<float>::infinity());
  CHECK(std::isnan(rounded(std::bit_cast<float>(0x7fffffffu))));
  CHECK(std::isnan(rounded(std::bit_cast<float>(0x7f800001u))));

  // Sums are float32: against float64 products of the rounded operands.
  for (const bool ta : {false, true})
    for (const bool tb : {false, true}) {
      const Array a = normal(ta ? Shape{300, 70} : Shape{70, 300});
      const Array b = normal(tb ? Shape{90, 300} : Shape{300, 90});
      const auto round_all = [&](Array x) {
        x = x.clone();
        for (float& v : x.mutable_values<float>()) v = rounded(v);
        return x.to(f64);
      };
      const auto exact = doubles(matmul(round_all(a), round_all(b), {ta, tb}).value());
      set_matmul_precision(MatmulPrecision::bfloat16);
      const auto products = doubles(matmul(a, b, {ta, tb}).value());
      set_use_onednn(false);  // as if it refused: the same operands, multiplied in float32
      const auto refused = doubles(matmul(a, b, {ta, tb}).value());
      set_use_onednn(true);
      set_matmul_precision(MatmulPrecision::float32);
      const auto unrounded = doubles(matmul(a, b, {ta, tb}).value());
      double wrong = 0, moved = 0;
      for (std::size_t i = 0; i < exact.size(); ++i) {
        wrong =
            std::max({wrong, std::abs(products[i] - exact[i]), std::abs(refused[i] - exact[i])});
        moved = std::max(moved, std::abs(unrounded[i] - exact[i]));
      }
      CHECK(wrong < 1e-4);
      CHECK(moved > 1e-2);
    }
}

TEST_CASE("tape: pullbacks write over gradients that nobody else holds, and no others") {
  const Tensor x = Tensor::variable(normal({40}, f64));
  const auto backward = [&](const std::function<Tensor()>& f, const Array& gradient) {
    Tape tape;
    return doubles(tape.backward(f(), gradient)[x]);
  };
  const Array given = normal({40}, f64);
  const std::vector<double> before = doubles(given);
  const std::vector<double> once = backward([&] { return tanh(x); }, given);
  CHECK(doubles(given) == before);  // the caller's
  // Both terms of a sum receive one array: each is what it is alone.
  const std::vector<double> twice = backward([&] { return tanh(x) + tanh(x); }, given);
  for (std::size_t i = 0; i < once.size(); ++i) CHECK(twice[i] == once[i] + once[i]);

  const Tensor weight = Tensor::variable(normal({7, 5}));
  Tape tape;
  const Tensor logits = matmul(normal({6, 7}), weight);
  const std::vector<double> held = doubles(logits.value());
  tape.backward(cross_entropy(logits, Array::of<std::int32_t>({0, 1, 2, 3, 4, 0}, {6})));
  CHECK(doubles(logits.value()) == held);  // the loss's gradient has its own place
}

TEST_CASE("linear: a gradient adds in place to what a weight has received") {
  for (const DType dtype : {f32, f64}) {
    const Tensor weight = Tensor::variable(normal({4, 4}, dtype));
    const Tensor x = normal({3, 4}, dtype), y = normal({5, 4}, dtype);
    const auto gradient = [&](const std::function<Tensor()>& loss) {
      Tape tape;
      return doubles(tape.backward(loss())[weight]);
    };
    const auto both = gradient([&] { return sum(linear(x, weight)) + sum(linear(y, weight)); });
    const auto one = gradient([&] { return sum(linear(x, weight)); });
    const auto other = gradient([&] { return sum(linear(y, weight)); });
    for (std::size_t i = 0; i < both.size(); ++i)
      CHECK(both[i] == doctest::Approx(one[i] + other[i]).epsilon(1e-5));
  }
}

}  // namespace
}  // namespace tapestry
