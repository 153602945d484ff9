#include <doctest/doctest.h>

#include "autograd/ops.hpp"
#include "tests/support/arrays.hpp"
#include "tests/support/process.hpp"

// Tests the errors of ops for wrong arguments.
namespace tapestry {
namespace {

TEST_SUITE_BEGIN("ops");

// Checks that `call` throws std::invalid_argument, whose message begins with the op's name and has
// all `parts`.
void refuses(const std::string& op, const std::function<void()>& call, const Strings& parts) {
  CAPTURE(op);
  const std::string message = misuse_of(call);
  CAPTURE(message);
  CHECK(message.starts_with(op + ":"));
  for (const std::string& part : parts) CHECK(contains(message, part));
}

std::string name_of(const std::string& call) { return call.substr(0, call.find('(')); }
#define REFUSES(call, ...) refuses(name_of(#call), [&] { (void)call; }, {__VA_ARGS__})

TEST_CASE("ops: wrong arguments throw std::invalid_argument with the op and both shapes") {
  const auto t = [](auto... dims) { return Tensor(Array::zeros(Shape{dims...})); };
  const auto t64 = [](auto... dims) { return Tensor(Array::zeros(Shape{dims...}, f64)); };
  const auto i = [](auto... dims) { return Array::zeros(Shape{dims...}, i32); };
  const auto dims = [](auto... extents) { return std::vector<std::int64_t>{extents...}; };
  const auto axes = [](auto... places) { return std::vector<int>{places...}; };
  const auto list = [](auto... tensors) { return std::vector<Tensor>{tensors...}; };
  Random random(0, Stream::dropout);
  const Tensor a = t(2, 3), b = t(4, 3), wide = t64(2, 3), whole = i(2, 3);
  REFUSES(matmul(a, b), "(2, 3) x (4, 3)", "dimensions 3 and 4");
  REFUSES(matmul(a, b, {.transpose_a = true}), "(2, 3) transposed x (4, 3)", "dimensions 2 and 4");
  REFUSES(matmul(t(2, 2, 3), t(3, 3, 4)), "(2, 2, 3) x (3, 3, 4): the leading axes");
  REFUSES(matmul(t(3), b), "(3,)", "(4, 3)");
  REFUSES(matmul(a, t64(3, 4)), "float32 (2, 3)", "float64 (3, 4)");
  REFUSES(linear(a, t(5, 4)), "(2, 3)", "(5, 4)");
  REFUSES(linear(t(), t(5, 4)), "()", "(5, 4)");
  REFUSES(linear(a, t(3)), "(2, 3)", "(3,)");
  REFUSES(linear(a, b, t(3)), "bias", "(3,)", "expected float32 (4,)");
  REFUSES(linear(wide, b), "float64 (2, 3)", "float32 (4, 3)");
  REFUSES(linear(a, b, t64(4)), "bias is float64 (4,)", "expected float32 (4,)");
  REFUSES(convolution2d(a, t(4, 3, 2, 2)), "(2, 3)", "(4, 3, 2, 2)");
  REFUSES(convolution2d(t(1, 2, 5, 5), t(4, 3, 2, 2)), "(1, 2, 5, 5)", "(4, 3, 2, 2)");
  REFUSES(convolution2d(t(1, 3, 5, 5), t(4, 3, 2, 3)), "(1, 3, 5, 5)", "(4, 3, 2, 3)");
  REFUSES(convolution2d(t(1, 3, 1, 5), t(4, 3, 2, 2)), "(1, 3, 1, 5)", "(4, 3, 2, 2)", "padding 0");
  REFUSES(convolution2d(t(1, 3, 5, 5), t(4, 3, 2, 2), {.stride = 0}), "stride 0");
  REFUSES(convolution2d(t(1, 3, 5, 5), t64(4, 3, 2, 2)), "float32 (1, 3, 5, 5)",
          "float64 (4, 3, 2, 2)");
  REFUSES(convolution2d(t(1, 2, 3, 3), t(4, 2, 3, 3), {}, t(3)),
          "bias is float32 (3,); expected float32 (4,)");
  REFUSES(transposed_convolution2d(t(1, 3, 5, 5), t(4, 3, 2, 2)), "(1, 3, 5, 5)", "(4, 3, 2, 2)");
  REFUSES(transposed_convolution2d(t(1, 4, 5, 5), t(4, 3, 2, 2), {.stride = 2, .height = 12}),
          "(1, 4, 5, 5)", "stride 2", "12 × 10");
  REFUSES(transposed_convolution2d(t(1, 4, 5, 5), t(4, 3, 2, 2), {.stride = 2, .height = -1}),
          "-1 × 10");
  REFUSES(max_pool2d(a), "(2, 3)", "expected (B, C, H, W)");
  REFUSES(max_pool2d(t(1, 3, 1, 5)), "(1, 3, 1, 5)", "smaller", "kernel 2");
  REFUSES(max_pool2d(t(1, 3, 5, 5), {.stride = 0}), "stride 0");
  REFUSES(average_pool2d(t(1, 3, 5, 5), {.kernel = 3, .padding = 2}),
          "kernel 3, stride 2 and padding 2");
  REFUSES(group_norm(t(1, 4, 2, 2), t(4), t(4), {.groups = 3}),
          "3 groups do not divide 4 channels");
  REFUSES(group_norm(t(1, 4, 2, 2), t(2), t(4)), "(1, 4, 2, 2)", "(2,)");
  REFUSES(group_norm(a, t(3), t(3)), "(2, 3)", "expected (B, C, H, W)");
  REFUSES(rms_norm(a, t(2)), "3 columns from 0", "(2, 3)", "(2,)");
  REFUSES(rms_norm(a, t(1, 3)), "(2, 3)", "(1, 3)");
  REFUSES(rms_norm(t(), t(1)), "()", "(1,)");
  REFUSES(rms_norm(a, t(0)), "(2, 3)", "(0,)");
  REFUSES(rms_norm(a, t(3), {.first = 1, .columns = 3}), "3 columns from 1");
  REFUSES(rms_norm(a, t(1), {.first = 4}), "-1 columns from 4");
  REFUSES(rms_norm(wide, t(3)), "float64 (2, 3)", "float32 (3,)");
  REFUSES(swiglu(a), "(2, 3)");
  REFUSES(swiglu(t()), "()");
  REFUSES(layer_norm(a, t(2), t(2)), "(2, 3)", "(2,)");
  REFUSES(layer_norm(a, t(3), t(2)), "(2, 3)", "(3,)", "(2,)");
  REFUSES(layer_norm(t(), t(), t()), "()");
  REFUSES(layer_norm(wide, t(3), t(3)), "float64 (2, 3)", "float32 (3,)");
  REFUSES(layer_norm(a, t(3), t64(3)), "float32 (2, 3)", "float64 (3,)");
  REFUSES(softmax(t()));
  REFUSES(log_softmax(t()));
  REFUSES(sum(a, {2}), "axis 2", "(2, 3)");
  REFUSES(mean(a, {-3}), "axis -3", "(2, 3)");
  REFUSES(max(a, axes(1, -1)), "axis -1", "(2, 3)", "twice");
  REFUSES(reshape(a, dims(4, 2)), "(2, 3)", "(4, 2)");
  REFUSES(reshape(a, dims(4, -1)), "(2, 3)", "(4, 1)");
  REFUSES(reshape(a, dims(-1, -1)), "(2, 3)", "-1");
  REFUSES(permute(a, {0}), "1 axes", "(2, 3)");
  REFUSES(permute(a, axes(0, 0)), "axis 0", "(2, 3)", "twice");
  REFUSES(permute(a, axes(0, 2)), "axis 2", "(2, 3)");
  REFUSES(slice(a, 2, 0, 1), "axis 2", "(2, 3)");
  REFUSES(slice(a, 1, 2, 4), "[2, 4)", "(2, 3)");
  REFUSES(slice(a, 1, 2, 1), "[2, 1)", "(2, 3)");
  REFUSES(slice(a, 1, -1, 1), "[-1, 1)", "(2, 3)");
  REFUSES(split(a, dims(1, 1), 1), "(2, 3)", "parts of 1, 1", "sum 3");
  REFUSES(split(a, dims(4, -1), 1), "(2, 3)", "parts of 4, -1");
  REFUSES(split(a, dims(2), 2), "axis 2", "(2, 3)");
  REFUSES(chunk(a, 0, 1), "count = 0");
  REFUSES(concat(list(), 0));
  REFUSES(concat(list(a, b), 1), "(2, 3)", "(4, 3)");
  REFUSES(concat(list(a, t(3)), 0), "(2, 3)", "(3,)");
  REFUSES(concat(list(a, wide), 0), "float32 (2, 3)", "float64 (2, 3)");
  REFUSES(concat(list(a, a), 2), "axis 2", "(2, 3)");
  REFUSES(stack(list(), 0), "no tensors");
  REFUSES(stack(list(a, b), 0), "(2, 3)", "(4, 3)");
  REFUSES(stack(list(a, wide), 0), "float32 (2, 3)", "float64 (2, 3)");
  REFUSES(stack(list(a, a), 3), "axis 3", "(2, 3, 1)");
  REFUSES(gather(a, 2, i(2)), "axis 2", "(2, 3)");
  REFUSES(gather(a, 0, t(2).value()), "index float32 (2,) with x (2, 3)", "int32 of rank 2 or 1");
  REFUSES(gather(t(2, 3, 4), 0, i(2, 3)), "(2, 3)", "(2, 3, 4)", "rank 3 or 1");
  REFUSES(gather(a, 0, i(2, 4)), "(2, 4)", "(2, 3)", "axis 0");
  REFUSES(gather(a, 1, Array::full({2}, 3, i32)), "index 3 along axis 1", "(2, 3)", "0 to 2");
  REFUSES(gather(a, -2, Array::full({2, 3}, -1, i32)), "index -1 along axis 0", "(2, 3)");
  REFUSES(gather(t(0, 3), 0, i(1)), "index 0", "(0, 3)");
  REFUSES(gather(t(), 0, i()), "axis 0", "()");
  REFUSES(gather(whole, 0, i(2)), "int32", "(2, 3)");
  REFUSES(scatter_add(a, 0, i(4), t(4, 2)), "source (4, 2)", "(2, 3)", "expected source (4, 3)");
  REFUSES(scatter_add(a, 0, i(1, 3), b), "source (4, 3)", "expected source (1, 3)");
  REFUSES(scatter_add(a, 0, i(4), t64(4, 3)), "float32 (2, 3)", "float64 (4, 3)");
  REFUSES(scatter_add(a, 0, Array::full({4}, 2, i32), b), "index 2 along axis 0", "0 to 1");
  REFUSES(scatter_add(whole, 0, i(2), whole), "int32", "(2, 3)");
  REFUSES(where(i(2, 3), a, b), "(2, 3)", "(4, 3)");
  REFUSES(where(i(2, 2), a, a), "(2, 2)", "(2, 3)");
  REFUSES(where(t(2, 3).value(), a, a), "condition float32 (2, 3); expected int32");
  REFUSES(where(i(2, 3), a, wide), "float32 (2, 3)", "float64 (2, 3)");
  REFUSES(where(i(2, 3), whole, whole), "int32", "(2, 3)");
  REFUSES(leaky_relu(a, -0.1), "slope = -0.1", "0 or more");
  REFUSES(leaky_relu(a, infinity), "slope = inf");
  REFUSES(leaky_relu(whole), "int32", "(2, 3)");
  REFUSES(embedding(t(3), i(2)), "(3,)", "(2,)");
  REFUSES(embedding(t64(2, 3), t64(4).value()), "float64 (4,); expected table (V, C) and int32");
  REFUSES(cross_entropy(t64(2, 3), t64(2).value()), "targets is float64 (2,); expected int32 (2,)");
  REFUSES(embedding(a, Array::zeros({4}, f32)), "(2, 3)", "float32", "(4,)");
  REFUSES(embedding(a, Array::full({4}, 2, i32)), "token 2", "(2, 3)");
  REFUSES(embedding(a, Array::full({4}, -1, i32)), "token -1", "(2, 3)");
  REFUSES(dropout(a, 1, random), "1", "(2, 3)");
  REFUSES(dropout(a, -0.1, random), "-0.1", "(2, 3)");
  REFUSES(dropout(whole, 0.1, random), "int32", "(2, 3)");
  REFUSES(scale(whole, 2), "int32", "(2, 3)");
  REFUSES(reshape(whole, {6}), "int32", "(2, 3)");
  REFUSES(permute(whole, axes(1, 0)), "int32", "(2, 3)");
  REFUSES(slice(whole, 0, 0, 1), "int32", "(2, 3)");
  REFUSES(split(whole, dims(2), 0), "int32", "(2, 3)");
  REFUSES(chunk(whole, 1, 0), "int32", "(2, 3)");
  REFUSES(concat(list(whole, whole), 0), "int32", "(2, 3)");
  REFUSES(embedding(whole, i(2)), "int32", "(2, 3)");
  REFUSES(cross_entropy(a, i(3)), "(3,)", "expected int32 (2,)");
  REFUSES(cross_entropy(t(3), i()), "(3,)");
  REFUSES(cross_entropy(t(2, 0), i(2)), "(2, 0)", "at least one class");
  REFUSES(cross_entropy(a, Array::zeros({2}, f32)), "float32 (2,)", "expected int32 (2,)");
  REFUSES(cross_entropy(a, Array::full({2}, 3, i32)), "target 3", "(2, 3)");
  REFUSES(cross_entropy(a, Array::full({2}, -2, i32)), "target -2", "(2, 3)");
  REFUSES(cross_entropy(whole, i(2)), "int32", "(2, 3)");
  REFUSES(linear_recurrence(a, a), "(2, 3)");
  REFUSES(linear_recurrence(t(2, 5, 4), t(2, 5, 3)), "(2, 5, 4)", "(2, 5, 3)");
  // it would stretch x
  REFUSES(linear_recurrence(t(2, 5, 3), t(1, 5, 3)), "(2, 5, 3)", "(1, 5, 3)");
  REFUSES(linear_recurrence(wide, t(2, 2, 3)), "float64 (2, 3)", "float32 (2, 2, 3)");
  REFUSES(tanh_recurrence(t(2, 5, 3), t(3, 4)), "(2, 5, 3)", "(3, 4)");
  REFUSES(tanh_recurrence(a, t(3, 3)), "(2, 3)", "(3, 3)");
  REFUSES(tanh_recurrence(t(2, 5, 3), t(3, 3), t(5, 3)), "float32 (5, 3)",
          "expected float32 (2, 3)");
  REFUSES(tanh_recurrence(t(2, 5, 3), t(3, 3), wide), "float64 (2, 3)", "expected float32 (2, 3)");
  REFUSES(lstm(t(2, 5, 3), t(12, 3)), "(2, 5, 3)", "(12, 3)", "(B, T, 4H)");
  REFUSES(lstm(t(2, 5, 12), t(12, 3), t(2, 3)), "float32 (2, 3)", "expected float32 (2, 6)");
  REFUSES(gru(a, t(9, 3)), "(2, 3)", "(9, 3)", "(B, T, 3H)");
  REFUSES(gru(t(2, 5, 9), t(9, 3), t(9)), "float32 (9,)", "expected float32 (3,)");
  REFUSES(gru(t(2, 5, 9), t(9, 3), {}, wide), "float64 (2, 3)", "expected float32 (2, 3)");
  using Binary = Tensor (*)(const Tensor&, const Tensor&);
  const std::pair<const char*, Binary> binary[] = {{"add", add},
                                                   {"subtract", subtract},
                                                   {"multiply", multiply},
                                                   {"divide", divide},
                                                   {"binary_cross_entropy", binary_cross_entropy},
                                                   {"squared_error", squared_error},
                                                   {"gaussian_kl", gaussian_kl}};
  for (const auto& [op, f] : binary) {
    refuses(op, [&, f = f] { f(a, b); }, {"(2, 3)", "(4, 3)"});
    refuses(op, [&, f = f] { f(a, wide); }, {"float32 (2, 3)", "float64 (2, 3)"});
    refuses(op, [&, f = f] { f(whole, whole); }, {"int32", "(2, 3)"});
  }
  using Unary = Tensor (*)(const Tensor&);
  const std::pair<const char*, Unary> unary[] = {{"exp", exp},
                                                 {"log", log},
                                                 {"sqrt", sqrt},
                                                 {"sin", sin},
                                                 {"cos", cos},
                                                 {"tanh", tanh},
                                                 {"relu", relu},
                                                 {"sigmoid", sigmoid},
                                                 {"gelu", gelu},
                                                 {"silu", silu},
                                                 {"swiglu", swiglu},
                                                 {"softmax", softmax},
                                                 {"gelu_tanh", gelu_tanh},
                                                 {"log_softmax", log_softmax}};
  for (const auto& [op, f] : unary) refuses(op, [&, f = f] { f(whole); }, {"int32", "(2, 3)"});
  REFUSES(sum(whole), "int32", "(2, 3)");
  REFUSES(mean(whole), "int32", "(2, 3)");
  REFUSES(max(whole), "int32", "(2, 3)");
  REFUSES(matmul(whole, whole), "int32", "(2, 3)");
  REFUSES(linear(whole, whole), "int32", "(2, 3)");
  REFUSES(layer_norm(whole, whole, whole), "int32", "(2, 3)");
}

TEST_CASE("ops: errors of attention name the op and the shapes") {
  const auto t = [](auto... dims) { return Tensor(Array::zeros(Shape{dims...})); };
  const auto t64 = [](auto... dims) { return Tensor(Array::zeros(Shape{dims...}, f64)); };
  const auto i = [](auto... dims) { return Array::zeros(Shape{dims...}, i32); };
  const Tensor q = t(2, 3, 4), k = t(2, 5, 4), q4 = t(1, 2, 3, 4), k4 = t(1, 2, 5, 4);
  const auto attend = [](const Tensor& queries, const Tensor& keys, const Tensor& values,
                         const AttentionOptions& options, const Strings& parts) {
    const std::string op = "scaled_dot_product_attention";
    refuses(
        op, [&] { scaled_dot_product_attention(queries, keys, values, options); }, parts);
  };
  attend(t(3, 4), t(5, 4), t(5, 4), {}, {"(3, 4)", "(5, 4)"});
  attend(q, k4, k4, {}, {"(2, 3, 4)", "(1, 2, 5, 4)"});
  attend(q, t(3, 5, 4), k, {}, {"(2, 3, 4)", "(3, 5, 4)"});
  attend(q, k, t(2, 6, 4), {}, {"(2, 5, 4)", "(2, 6, 4)"});
  attend(q, t(2, 5, 6), k, {}, {"(2, 3, 4)", "(2, 5, 6)"});
  attend(q, k, t(2, 5, 6), {}, {"(2, 3, 4)", "(2, 5, 6)"});
  attend(q, k, k, {.heads = 3}, {"(2, 3, 4)", "3 heads of queries"});
  attend(q, k, k, {.heads = 0}, {"(2, 3, 4)", "0 heads of queries"});
  attend(q, k, k, {.heads = 4, .key_value_heads = 3},
         {"(2, 3, 4)", "4 heads of queries and 3 of keys"});
  attend(q, k, k, {.heads = 4, .key_value_heads = 2},
         {"(2, 5, 4)", "4 heads of queries and 2 of keys"});
  attend(q4, t(1, 3, 5, 4), t(1, 3, 5, 4), {},
         {"(1, 3, 5, 4)", "2 heads of queries and 3 of keys"});
  attend(q, k, k, {.keys = 6}, {"keys = 6", "(2, 5, 4)"});
  attend(q, k, k, {.window = -1}, {"window = -1"});
  attend(q, k, k, {.key_counts = Array::zeros({3}, i32)}, {"int32 (3,); expected int32 (2,)"});
  attend(q, k, k, {.key_counts = Array::zeros({2}, f32)}, {"float32 (2,); expected int32 (2,)"});
  attend(q, k, k, {.key_counts = Array::of<std::int32_t>({5, 6}, {2})},
         {"key_counts has 6; expected 0 to 5"});
  attend(q, k, k, {.key_padding = Array::zeros({2, 5}, i32), .key_counts = Array::zeros({2}, i32)},
         {"key_counts cannot be combined with"});
  attend(q4, t(1, 4, 5, 2), k4, {}, {"(1, 2, 3, 4)", "(1, 4, 5, 2)"});
  attend(k4, k4, t(1, 4, 5, 2), {}, {"shapes (1, 2, 5, 4), (1, 2, 5, 4), (1, 4, 5, 2)"});
  attend(q4, k4, t(1, 4, 5, 2), {}, {"(1, 2, 3, 4)", "(1, 4, 5, 2)"});
  attend(q, t64(2, 5, 4), k, {}, {"float32 (2, 3, 4)", "float64 (2, 5, 4)"});
  attend(q, k, t64(2, 5, 4), {}, {"float32 (2, 3, 4)", "float64 (2, 5, 4)"});
  attend(q, k, k, {.key_padding = Array::zeros({2, 3}, i32)}, {"(2, 3)", "(2, 5)"});
  attend(q, k, k, {.key_padding = Array::zeros({2, 5}, f32)}, {"float32 (2, 5)"});
  attend(q, k, k, {.mask = Array::zeros({5, 3}, f32)}, {"(5, 3)", "(2, 1, 3, 5)"});
  attend(q, k, k, {.mask = Array::zeros({3, 5}, f64)}, {"float64 (3, 5)", "(2, 1, 3, 5)"});
  attend(q, k, k, {.mask = Array::zeros({1, 2, 1, 3, 5}, f32)},
         {"(1, 2, 1, 3, 5)", "(2, 1, 3, 5)"});
  attend(q, k, k, {.mask = Array::zeros({2, 2, 3, 5}, f32)}, {"(2, 2, 3, 5)", "(2, 1, 3, 5)"});
  REFUSES(packed_self_attention(q), "(2, 3, 4)");
  REFUSES(packed_self_attention(q4), "(1, 2, 3, 4)");
  REFUSES(packed_self_attention(i(2, 3, 6)), "int32", "(2, 3, 6)");
  REFUSES(packed_cross_attention(q, k), "(2, 3, 4)", "(2, 5, 4)");
  REFUSES(packed_cross_attention(q, t64(2, 5, 8)), "float32 (2, 3, 4)", "float64 (2, 5, 8)");
}

TEST_CASE("ops: errors of rotary name the op and the shape") {
  const auto said = [](const Shape& shape, const RotaryOptions& options) {
    return misuse_of([&] { rotary(Array::zeros(shape), options); });
  };
  const auto refuses = [&](const Shape& shape, const RotaryOptions& options,
                           const std::string& part) {
    CHECK_MESSAGE(said(shape, options).starts_with("rotary: " + part), said(shape, options));
  };
  refuses({3, 5}, {}, "x (3, 5) with 5 columns of heads of width 5");
  refuses({2, 3, 4}, {.firsts = {1, 2, 3}}, "3 first positions for x (2, 3, 4)");
  refuses({2, 3, 4}, {.firsts = {}}, "0 first positions for x (2, 3, 4)");
  refuses({3, 4}, {.form = {.base = 0}}, "base = 0");
  refuses({3, 4}, {.form = {.scaling = RotaryScaling{.low_frequency = 4}}},
          "factor 8, low_frequency 4, high_frequency 4");
  refuses({6}, {}, "x (6,) with 0 columns of heads of width 0");
  refuses({2, 3, 8}, {.head_width = 4, .columns = 6},
          "x (2, 3, 8) with 6 columns of heads of width 4");
  refuses({3, 4}, {.head_width = 4, .columns = 8}, "x (3, 4) with 8 columns of heads of width 4");
}

TEST_SUITE_END();

}  // namespace
}  // namespace tapestry
