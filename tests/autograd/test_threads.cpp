#include <doctest/doctest.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <bit>
#include <cmath>
#include <limits>
#include <thread>

#include "autograd/check.hpp"
#include "autograd/cores.hpp"
#include "autograd/float16.hpp"
#include "autograd/kernels/broadcast.hpp"
#include "autograd/kernels/matmul.hpp"
#include "autograd/ops.hpp"
#include "autograd/parallel.hpp"
#include "autograd/profile.hpp"
#include "tests/support/arrays.hpp"
#include "tests/support/graphs.hpp"
#include "tests/support/labels.hpp"
#include "tests/support/process.hpp"

// Tests that threads change no bits.
namespace tapestry {
namespace {

TEST_SUITE_BEGIN("threads");

TEST_CASE("bug: the number of threads ignored the quota of a control group") {
  const TemporaryFolder root;
  const auto write = [&](const std::string& file, const std::string& text) {
    fs::create_directories(fs::path(root.path(file)).parent_path());
    root.write(file, text);
  };
  CHECK(cpu_quota(root.path()) == infinity);  // no control groups
  write("proc/self/cgroup", "0::/user/session\n");
  CHECK(cpu_quota(root.path()) == infinity);
  write("sys/fs/cgroup/user/session/cpu.max", "max 100000\n");
  CHECK(cpu_quota(root.path()) == infinity);
  write("sys/fs/cgroup/user/cpu.max", "250000 100000\n");
  CHECK(cpu_quota(root.path()) == 2.5);
  write("sys/fs/cgroup/user/session/cpu.max", "50000 100000\n");
  CHECK(cpu_quota(root.path()) == 0.5);
  write("proc/self/cgroup", "0::/../../elsewhere\n");  // outside of a container
  CHECK(cpu_quota(root.path()) == infinity);
  write("sys/fs/cgroup/cpu.max", "300000 100000\n");
  CHECK(cpu_quota(root.path()) == 3);

  for (const char* controller : {"cpu", "cpu,cpuacct", "cpuacct,cpu"}) {
    write("proc/self/cgroup", fmt::format("5:memory:/a/b\n4:{}:/a/b\n", controller));
    const std::string folder = fmt::format("sys/fs/cgroup/{}/a", controller);
    write(folder + "/cpu.cfs_quota_us", "150000\n");
    write(folder + "/cpu.cfs_period_us", "100000\n");
    write(folder + "/b/cpu.cfs_quota_us", "-1\n");
    write(folder + "/b/cpu.cfs_period_us", "100000\n");
    CHECK(cpu_quota(root.path()) == 1.5);
    fs::remove_all(root.path("sys"));
    CHECK(cpu_quota(root.path()) == infinity);
  }
  write("proc/self/cgroup", "nonsense\n4:cpu");
  CHECK(cpu_quota(root.path()) == infinity);
  CHECK(usable_cores() >= 1);
  CHECK(usable_cores() <= physical_cores());
  CHECK(physical_cores() <= machine_cores());
}

TEST_CASE("parallel_for: visits each index once, in pieces that depend on the grain alone") {
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

TEST_CASE("parallel_for: rethrows exceptions, and nested calls run on the calling thread") {
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

// Every kind of kernel, with even and odd sizes that are cut into many pieces.
std::vector<Sized> sized_rows() {
  std::vector<Sized> rows;
  const auto sized = [&](const std::string& name, const Function& f,
                         const std::vector<Array>& inputs) {
    rows.push_back({name, f, inputs});
  };
  for (const auto& [m, k, n] : std::vector<std::array<std::int64_t, 3>>{{256, 256, 256},
                                                                        {257, 129, 65},
                                                                        {1, 1000, 999},
                                                                        {1000, 3, 1},
                                                                        {16, 2708, 7},
                                                                        {31, 4000, 33}})
    for (const bool ta : {false, true})
      for (const bool tb : {false, true})
        sized(fmt::format("matmul {} {} {} {} {}", m, k, n, ta, tb),
              [=](In x) {
                return matmul(x[0], x[1], {ta, tb});
              },
              {normal(ta ? Shape{k, m} : Shape{m, k}), normal(tb ? Shape{n, k} : Shape{k, n})});
  sized("batched matmul", [](In x) { return matmul(x[0], x[1]); },
        {normal({48, 33, 20}), normal({48, 20, 35})});
  sized("broadcast matmul", [](In x) { return matmul(x[0], x[1]); },
        {normal({9, 65, 64}), normal({64, 67})});
  for (const auto& [m, k, n] : std::vector<std::array<std::int64_t, 3>>{
           {768, 128, 512}, {1000, 65, 33}, {4000, 31, 7}, {3, 500, 999}})
    sized(fmt::format("linear {} {} {}", m, k, n), [](In x) { return linear(x[0], x[1], x[2]); },
          {normal({m, k}), normal({n, k}), normal({n})});
  const Array large = normal({300, 401}), row = normal({401}), column = normal({300, 1});
  sized("layer_norm", [](In x) { return layer_norm(x[0], x[1], x[2]); },
        {large, normal({401}), normal({401})});
  sized("rms_norm", [](In x) { return rms_norm(x[0], x[1]); }, {large, normal({401})});
  sized("rms_norm, heads", [](In x) { return rms_norm(x[0], x[1], {.first = 7, .columns = 390}); },
        {normal({1000, 401}), normal({13})});
  sized("swiglu", [](In x) { return swiglu(x[0]); }, {normal({300, 402})});
  sized("attention by shared heads",
        [](In x) { return packed_self_attention(x[0], {.heads = 6, .key_value_heads = 2}); },
        {normal({2, 300, 200})});
  sized("layer_norm, narrow", [](In x) { return layer_norm(x[0], x[1], x[2]); },
        {normal({5000, 5}), normal({5}), normal({5})});
  using Unary = Tensor (*)(const Tensor&);
  const std::pair<const char*, Unary> unary[] = {
      {"exp", exp},   {"tanh", tanh},       {"sigmoid", sigmoid},
      {"relu", relu}, {"gelu", gelu},       {"gelu_tanh", gelu_tanh},
      {"silu", silu}, {"softmax", softmax}, {"log_softmax", log_softmax}};
  for (const auto& [name, op] : unary) sized(name, [op = op](In x) { return op(x[0]); }, {large});
  using Binary = Tensor (*)(const Tensor&, const Tensor&);
  const std::pair<const char*, Binary> arithmetic[] = {
      {"add", add}, {"subtract", subtract}, {"multiply", multiply}, {"divide", divide}};
  for (const auto& [name, op] : arithmetic)
    for (const Array& other : {large, row, column, normal({})})
      sized(fmt::format("{} {}", name, to_string(other.shape())),
            [op = op](In x) { return op(x[0], x[1]); }, {large, other});
  const Array cube = normal({30, 50, 41});
  for (const std::vector<int>& axes :
       std::vector<std::vector<int>>{{}, {0}, {1}, {2}, {0, 1}, {0, 2}, {1, 2}}) {
    sized("sum", [=](In x) { return sum(x[0], axes); }, {cube});
    sized("mean", [=](In x) { return mean(x[0], axes); }, {cube});
    sized("max", [=](In x) { return max(x[0], axes); }, {cube});
  }
  sized("long sum", [](In x) { return sum(x[0], {0}); }, {normal({40000, 3})});
  for (const Shape& other : {Shape{50, 41}, Shape{50, 1}, Shape{30, 1, 41}, Shape{30, 1, 1}})
    for (const auto& [name, op] :
         std::vector<std::pair<const char*, Binary>>{{"add", add}, {"divide", divide}})
      sized(fmt::format("{} {} to a cube", name, to_string(other)),
            [op = op](In x) { return op(x[0], x[1]); }, {cube, normal(other)});
  sized("unfold", [](In x) { return unfold(x[0], {.width = 5, .stride = 2}); }, {cube});
  const Array few = ints({0, 500, 500, 2900, 3000}, {5});
  using Segmented = Tensor (*)(const Tensor&, const Array&);
  const std::pair<const char*, Segmented> by_segment[] = {{"segment_sum", segment_sum},
                                                          {"segment_mean", segment_mean},
                                                          {"segment_max", segment_max},
                                                          {"segment_softmax", segment_softmax}};
  for (const auto& [name, op] : by_segment)
    sized(name, [=, op = op](In x) { return op(x[0], few); }, {normal({3000, 150})});
  const Adjacency threads_graph = random_graph(1500, 20000, 7);
  sized("edge_softmax", [=](In x) { return edge_softmax(threads_graph, x[0], x[1], 0.2); },
        {normal({1500, 9}), normal({1500, 9})});
  sized("elu", [](In x) { return elu(x[0]); }, {large});
  sized("permute", [](In x) { return permute(x[0], {2, 0, 1}); }, {cube});
  sized("slice", [](In x) { return slice(x[0], 1, 3, 44); }, {cube});
  sized("slice of one column", [](In x) { return slice(x[0], 2, 7, 8); }, {cube});
  sized("concat", [](In x) { return concat({x[0], x[0]}, 1); }, {cube});
  sized("dropout",
        [](In x) {
          Random random(0, Stream::dropout);
          return dropout(x[0], 0.3, random);
        },
        {large});
  for (const std::int64_t C : {16, 401})
    sized("embedding",
          [tokens = random_tokens({3000}, 20)](In x) { return embedding(x[0], tokens); },
          {normal({20, C})});
  sized("leaky_relu", [](In x) { return leaky_relu(x[0], 0.2); }, {large});
  sized("stack", [](In x) { return stack({x[0], x[0]}, 1); }, {cube});
  const Array edges = random_tokens({3000}, 20), one_each = random_tokens({300, 900}, 401);
  sized("gather", [=](In x) { return gather(x[0], 1, one_each); }, {large});
  sized("gather, slices", [=](In x) { return gather(x[0], 0, edges); }, {normal({20, 130})});
  sized("scatter_add", [=](In x) { return scatter_add(x[0], 1, one_each, x[1]); },
        {large, normal({300, 900})});
  sized("scatter_add, slices", [=](In x) { return scatter_add(x[0], 0, edges, x[1]); },
        {normal({20, 130}), normal({3000, 130})});
  sized("where", [c = random_tokens({300, 1}, 2)](In x) { return where(c, x[0], x[1]); },
        {large, row});
  for (const bool causal : {false, true})
    sized("attention",
          [=](In x) {
            return scaled_dot_product_attention(x[0], x[1], x[2], {.heads = 3, .causal = causal});
          },
          {normal({4, 150, 60}), normal({4, 130, 60}), normal({4, 130, 60})});
  sized("packed_self_attention",
        [](In x) { return packed_self_attention(x[0], {.heads = 2, .causal = true}); },
        {normal({3, 100, 96})});
  for (const std::int64_t C : {3, 130}) {
    const Array x = normal({33, 40, C});
    sized("linear_recurrence", [](In v) { return linear_recurrence(sigmoid(v[0]), v[1]); },
          {normal({33, 40, C}), x});
    sized("linear_recurrence, a gate a column",
          [](In v) { return linear_recurrence(sigmoid(v[0]), v[1]); }, {normal({C}), x});
    sized("tanh_recurrence", [](In v) { return tanh_recurrence(v[0], scale(v[1], 0.1), v[2]); },
          {x, normal({C, C}), normal({33, C})});
  }
  sized("convolution2d",
        [](In x) { return convolution2d(x[0], x[1], {.stride = 2, .padding = 1}, x[2]); },
        {normal({100, 8, 14, 14}), normal({8, 8, 3, 3}), normal({8})});
  sized("transposed_convolution2d",
        [](In x) {
          return transposed_convolution2d(
              x[0], x[1], {.stride = 2, .padding = 1, .height = 14, .width = 14}, x[2]);
        },
        {normal({100, 8, 7, 7}), normal({8, 8, 3, 3}), normal({8})});
  sized("max_pool2d", [](In x) { return max_pool2d(x[0]); }, {normal({100, 8, 14, 14})});
  sized("average_pool2d",
        [](In x) { return average_pool2d(x[0], {.kernel = 3, .stride = 2, .padding = 1}); },
        {normal({100, 8, 14, 14})});
  sized("group_norm", [](In x) { return group_norm(x[0], x[1], x[2], {.groups = 4}); },
        {normal({100, 8, 14, 14}), normal({8}), normal({8})});
  sized("cross_entropy",
        [targets = random_tokens({2000}, 65)](In x) {
          return cross_entropy(x[0], targets, {.label_smoothing = 0.1});
        },
        {normal({2000, 65})});
  const std::pair<const char*, Binary> losses[] = {{"binary_cross_entropy", binary_cross_entropy},
                                                   {"squared_error", squared_error},
                                                   {"gaussian_kl", gaussian_kl}};
  for (const auto& [name, op] : losses)
    sized(name, [op = op](In x) { return op(x[0], x[1]); }, {large, normal({300, 401})});
  return rows;
}

// Returns the value and all gradients.
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

std::vector<Array> outcome_on(int threads, const Sized& row, DType dtype) {
  std::vector<Array> result;
  with_threads({threads}, [&](int) { result = outcome(row, dtype); });
  return result;
}

bool are_same(const std::vector<Array>& a, const std::vector<Array>& b) {
  return std::ranges::equal(a, b, same_bits);
}

// Precisions of each op; bfloat16 applies to products of float32 arrays.
struct Precision {
  const char* name;
  DType dtype;
  MatmulPrecision products = MatmulPrecision::float32;
};

// With bfloat16, the products of a convolution on other threads were once computed in float32.
TEST_CASE("threads: every op gives the same bits on 1, 2, 3 and 8 threads" *
          not_sanitized("a minute there; the table of ops runs each op under it")) {
  for (const Sized& row : sized_rows()) {
    std::vector<Array> in_float32;  // bfloat16 has the same bits: there is no product
    for (const Precision& precision : {Precision{"float32", f32}, Precision{"float64", f64},
                                       Precision{"bfloat16", f32, MatmulPrecision::bfloat16}}) {
      CAPTURE(row.name);
      INFO(std::string(precision.name));
      const UseMatmulPrecision products(precision.products);
      const std::vector<Array> first = outcome_on(1, row, precision.dtype);
      if (precision.products == MatmulPrecision::bfloat16 && are_same(first, in_float32)) continue;
      if (precision.dtype == f32) in_float32 = first;
      for (const int threads : {2, 3, 8}) {
        CAPTURE(threads);
        CHECK(are_same(outcome_on(threads, row, precision.dtype), first));
      }
    }
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

TEST_CASE("threads: copies of arrays have the same bits on 1, 2, 3 and 8 threads") {
  const Array x = normal({1000, 70}, f32);
  const std::vector<std::int64_t> chosen{999, 0, 500, 500, 7};
  with_threads({1, 2, 3, 8}, [&](int) {
    CHECK(same_bits(x.clone(), x));
    const Array rows = x.select(chosen);
    bool right = true;
    for (std::size_t i = 0; i < chosen.size(); ++i)
      right &= std::ranges::equal(rows.values<float>().subspan(i * 70, 70),
                                  x.values<float>().subspan(chosen[i] * 70, 70));
    CHECK(right);
    const auto is = [](float value) { return [value](float v) { return v == value; }; };
    CHECK(std::ranges::all_of(Array::zeros(x.shape(), f32).values<float>(), is(0)));
    CHECK(std::ranges::all_of(Array::full(x.shape(), 1.5, f32).values<float>(), is(1.5)));
  });
}

TEST_CASE("matmul: starts no other thread if one is set") {
  const auto count_threads = [] {
    return std::distance(fs::directory_iterator("/proc/self/task"), {});
  };
  const int before = num_threads();
  set_num_threads(1);
  for (const MatmulPrecision precision : {MatmulPrecision::float32, MatmulPrecision::bfloat16}) {
    set_matmul_precision(precision);
    const Array a = normal({400, 700}, f32), b = normal({700, 600}, f32);
    std::ptrdiff_t alone = 0, after = 0;
    std::thread([&] {
      alone = count_threads();
      matmul(a, b);
      after = count_threads();
    }).join();
    CHECK(after == alone);
  }
  set_matmul_precision(MatmulPrecision::float32);
  set_num_threads(before);
}

TEST_CASE("matmul: bfloat16 operands are rounded to nearest, ties to even") {
  const auto rounded = [](float x) { return std::bit_cast<float>(round_to_bfloat16(x)); };
  CHECK(rounded(1.0f) == 1.0f);
  CHECK(rounded(1.0f + 0x1p-8f) == 1.0f);            // a tie goes to the even neighbor
  CHECK(rounded(1.0f + 0x3p-8f) == 1.0f + 0x4p-8f);  // its even neighbor is above
  CHECK(rounded(1.0f + 0x1.1p-8f) == 1.0f + 0x2p-8f);
  CHECK(rounded(-3.14159265f) == -3.140625f);
  CHECK(rounded(std::numeric_limits<float>::max()) == std::numeric_limits<float>::infinity());
  CHECK(rounded(-std::numeric_limits<float>::infinity()) ==
        -std::numeric_limits<float>::infinity());
  CHECK(std::isnan(rounded(std::bit_cast<float>(0x7fffffffu))));
  CHECK(std::isnan(rounded(std::bit_cast<float>(0x7f800001u))));

  // Sums are float32: compared with float64 products of the rounded operands.
  for (const bool ta : {false, true})
    for (const bool tb : {false, true}) {
      const Array a = normal(ta ? Shape{300, 70} : Shape{70, 300}, f32);
      const Array b = normal(tb ? Shape{90, 300} : Shape{300, 90}, f32);
      const auto round_all = [&](Array x) {
        x = x.clone();
        for (float& v : x.mutable_values<float>()) v = rounded(v);
        return x.to(f64);
      };
      const auto exact = doubles(matmul(round_all(a), round_all(b), {ta, tb}).value());
      set_matmul_precision(MatmulPrecision::bfloat16);
      const auto products = doubles(matmul(a, b, {ta, tb}).value());
      set_matmul_precision(MatmulPrecision::float32);
      const auto unrounded = doubles(matmul(a, b, {ta, tb}).value());
      double wrong = 0, moved = 0;
      for (std::size_t i = 0; i < exact.size(); ++i) {
        wrong = std::max(wrong, std::abs(products[i] - exact[i]));
        moved = std::max(moved, std::abs(unrounded[i] - exact[i]));
      }
      CHECK(wrong < 1e-4);
      CHECK(moved > 1e-2);
    }
}

TEST_CASE("bug: profile: ops of threads that prepare batches were recorded, too") {
  const Tensor x(Array::full({4}, 2, f32));
  const auto events = profile::events_of([&] {
    relu(x);
    std::jthread([&] { sqrt(x); }).join();
  });
  REQUIRE(events.size() == 1);
  CHECK(events[0].name == "relu");
  CHECK_THROWS(profile::events_of([] { throw std::runtime_error("in a step"); }));
  CHECK(!profile::is_on());
}

TEST_SUITE_END();

}  // namespace
}  // namespace tapestry
