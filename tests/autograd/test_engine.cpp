#include <doctest/doctest.h>
#include <fmt/core.h>

#include <cmath>
#include <cstdint>
#include <memory>
#include <new>
#include <string>
#include <vector>

#include "autograd/buffer_pool.hpp"
#include "autograd/check.hpp"
#include "autograd/kernels/broadcast.hpp"
#include "autograd/kernels/limits.hpp"
#include "autograd/kernels/strided.hpp"
#include "autograd/ops.hpp"
#include "autograd/random.hpp"
#include "autograd/sanitizer.hpp"
#include "autograd/tape.hpp"
#include "autograd/variant.hpp"
#include "tests/support/arrays.hpp"

namespace tapestry {
namespace {

TEST_SUITE_BEGIN("engine");

// --- arrays and shapes ---

TEST_CASE("array: a copy shares memory, clone() copies it, and a conversion keeps values") {
  Array a = row({1, 2.5, -3, 4});
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
  CHECK_THROWS_WITH_AS(a.values<float>(),
                       doctest::Contains("array: dtype float64; expected float32"),
                       std::invalid_argument);
  CHECK_THROWS_WITH_AS(a.reshaped({3}), doctest::Contains("reshape: (4,) to (3,)"),
                       std::invalid_argument);
  CHECK_THROWS_AS(Array::of(std::vector{1.0}, {2}), std::invalid_argument);
  CHECK_THROWS_AS(a.copy_from(row({1})), std::invalid_argument);
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
  CHECK_THROWS_WITH_AS(broadcast("op", {2, 3}, {2}),
                       doctest::Contains("op: shapes (2, 3) and (2,) do not broadcast"),
                       std::invalid_argument);
  CHECK_THROWS_AS((Shape{1, 1, 1, 1, 1, 1, 1}), std::invalid_argument);
  CHECK_THROWS_AS((Shape{-1}), std::invalid_argument);
}

// --- the tape ---

TEST_CASE("tape: gradients of several uses add up") {
  const Tensor x = Tensor::variable(row({1, 2, 3})), y = Tensor::variable(row({4, 5, 6}));
  Tape tape;
  const Tensor z = x * y + x * x + x + x;
  const Gradients grads = tape.backward(sum(z * 2.0));
  CHECK(doubles(grads[x]) == std::vector<double>{16, 22, 28});  // 2 (y + 2 x + 2)
  CHECK(doubles(grads[y]) == std::vector<double>{2, 4, 6});
  CHECK(tape.size() == 0);
}

TEST_CASE("tape: `grads +=` adds, and does not change its right operand") {
  const Tensor x = Tensor::variable(row({1, 2})), y = Tensor::variable(row({3, 4}));
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
  const Tensor x = Tensor::variable(row({1})), y = Tensor::variable(row({2}));
  Tape tape;
  const Tensor z = x + y;  // passes one array to both
  const Gradients grads = tape.backward(sum(z + x));
  CHECK(doubles(grads[x]) == std::vector<double>{2});
  CHECK(doubles(grads[y]) == std::vector<double>{1});
}

TEST_CASE("tape: without a tape, and from constants, nothing is recorded") {
  const Tensor x = Tensor::variable(row({1, 2}));
  CHECK((x * x).id() == 0);
  Tape tape;
  CHECK((x.value() + Tensor(row({1, 1}))).id() == 0);
  CHECK(tape.size() == 0);
  const Tensor y = x * x;
  CHECK(y.id() != 0);
  CHECK(tape.size() == 1);
  const Gradients grads = tape.backward(sum(Tensor(y.value())));  // detached
  CHECK(grads.find(x) == nullptr);
}

TEST_CASE("tape: ops in pullbacks are not recorded") {
  const Tensor x = Tensor::variable(row({0.5, 2}));
  Tape tape;
  tape.backward(sum(gelu(x) / x));
  CHECK(tape.size() == 0);
}

TEST_CASE("tape: the innermost of nested tapes records") {
  const Tensor x = Tensor::variable(row({3}));
  Tape outer;
  const Tensor y = x * x;
  {
    Tape inner;
    const Tensor cut(y.value());
    const Tensor z = cut * x;
    CHECK((outer.size() == 1 && inner.size() == 1));
    CHECK(doubles(inner.backward(z)[x]) == std::vector<double>{9});
  }
  CHECK(doubles(outer.backward(sum(y * 1.0))[x]) == std::vector<double>{6});
  CHECK(outer.size() == 0);
}

TEST_CASE("tape: a tape can be used again, with new values or detached ones") {
  const Tensor x = Tensor::variable(row({3}));
  Tape tape;
  const Tensor y = x * x;
  CHECK(doubles(tape.backward(sum(y * y))[x]) == std::vector<double>{108});
  const Tensor anew = x * x;
  CHECK(doubles(tape.backward(sum(anew * anew))[x]) == std::vector<double>{108});
  // Truncated backpropagation: y is a constant from here on.
  const Tensor cut(y.value());
  CHECK(doubles(tape.backward(sum(cut * x))[x]) == std::vector<double>{9});
}

TEST_CASE("tape: backward() starts at a variable, a constant or an output with a given gradient") {
  const Tensor x = Tensor::variable(row({3}));
  Tape tape;
  CHECK(doubles(tape.backward(x, 2)[x]) == std::vector<double>{2});
  CHECK(tape.backward(Tensor(row({3}))).find(x) == nullptr);
  const Tensor y = Tensor::variable(row({1, 2}));
  CHECK(doubles(tape.backward(y * y, row({1, 10}))[y]) == std::vector<double>{2, 40});
  CHECK_THROWS_AS(tape.backward(y * y), std::invalid_argument);
  CHECK_THROWS_AS(tape.backward(y * y, row({1})), std::invalid_argument);
  CHECK_THROWS_AS(y.item(), std::invalid_argument);
}

TEST_CASE("bug: backward took a gradient of another dtype") {
  const Tensor x = Tensor::variable(row({1, 2}));
  Tape tape;
  CHECK_THROWS_AS(tape.backward(x + x, Array::full({2}, 1, f32)), std::invalid_argument);
}

TEST_CASE("tape: backward() frees each entry, and the tape frees the rest") {
  const Tensor x = Tensor::variable(normal({64, 64}, f32));
  const auto loss = [&] {
    Tensor y = x;
    for (int i = 0; i < 10; ++i) y = tanh(matmul(y, x));
    return mean(y);
  };
  {
    Tape tape;
    tape.backward(loss());  // a thread keeps packed panels of its products
  }
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

#if !TAPESTRY_ADDRESS_SANITIZER  // below this size blocks are not reused
TEST_CASE("memory: after the first steps, a step allocates nothing from the system") {
  const Tensor weight = Tensor::variable(normal({48, 48}, f32)),
               table = Tensor::variable(normal({50, 48}, f32));
  const Tensor gain = Tensor::variable(normal({48}, f32)),
               bias = Tensor::variable(normal({48}, f32));
  const Tensor qkv = Tensor::variable(normal({144, 48}, f32));
  const auto step = [&] {
    Tape tape;
    Tensor x = reshape(embedding(table, random_tokens({80}, 50)), {4, 20, 48});
    x = x + packed_self_attention(linear(x, qkv), {.heads = 4, .causal = true});
    x = layer_norm(gelu(linear(x, weight, bias)), gain, bias);
    const Tensor logits = reshape(linear(x, table), {80, 50});
    Gradients grads = tape.backward(cross_entropy(logits, random_tokens({80}, 50)));
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

// Turns the check on for a scope, and returns the error of `run`.
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

TEST_CASE(
    "check_finite: names the first op that is not finite, its scope and the ranges of its inputs") {
  const std::string path = "blocks.0.attention";
  const Tensor x = Tensor::variable(row({-1, 0.5, 4}));
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
  CHECK(non_finite([] {
          mean(Tensor(Array::zeros({0, 3})), {0});
        }) ==
        "the output of mean in the loss is not finite: (3,) of NaN alone; "
        "from (0, 3) without elements");
}

TEST_CASE("check_finite: an inner scope ends with its block") {
  const std::string outer = "outer", inner = "outer.inner";
  const std::string message = non_finite([&] {
    const Scope scope(outer);
    { const Scope nested(inner); }
    log(Tensor(row({-1})));
  });
  CHECK(message.starts_with("the output of log in outer is not finite"));
}

TEST_CASE("check_finite: accepts the -inf of a mask, forward and backward") {
  const Tensor x = Tensor::variable(row({1, 2, 3}));
  const Tensor mask = row({0, -infinity, -infinity});
  CHECK(non_finite([&] {
          Tape tape;
          tape.backward(sum(softmax(x + mask)));
        }) == "finite");
  CHECK(non_finite([&] {
          softmax(x + Tensor(row({0, infinity, 0})));
        }).starts_with("the output of"));
  CHECK(non_finite([&] { (x + mask) - (x + mask); }).starts_with("the output of subtract"));
  const Tensor q = Tensor::variable(normal({1, 2, 4}, f32));
  const Array hidden = Array::full({2, 2}, -infinity, f32);
  CHECK(non_finite([&] {
          Tape tape;
          tape.backward(sum(scaled_dot_product_attention(q, q, q, {.mask = hidden})));
        }) == "finite");
}

TEST_CASE("check_finite: names the op whose gradient is not finite") {
  const std::string path = "encoder.1";
  const Tensor x = Tensor::variable(row({0, 4}));
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

TEST_CASE("check_finite: checks nothing while it is off") {
  CHECK(std::isnan(log(Tensor(row({-1}))).item()));
}

// --- gradients in place ---

TEST_CASE("tape: pullbacks overwrite only gradients that nothing else holds") {
  const Tensor x = Tensor::variable(normal({40}, f64));
  const auto backward = [&](const std::function<Tensor()>& f, const Array& gradient) {
    Tape tape;
    return doubles(tape.backward(f(), gradient)[x]);
  };
  const Array given = normal({40}, f64);
  const std::vector<double> before = doubles(given);
  const std::vector<double> once = backward([&] { return tanh(x); }, given);
  CHECK(doubles(given) == before);  // owned by the caller
  // Both terms of a sum receive one array, and each has the gradient that it has alone.
  const std::vector<double> twice = backward([&] { return tanh(x) + tanh(x); }, given);
  for (std::size_t i = 0; i < once.size(); ++i) CHECK(twice[i] == once[i] + once[i]);

  const Tensor weight = Tensor::variable(normal({7, 5}, f32));
  Tape tape;
  const Tensor logits = matmul(normal({6, 7}, f32), weight);
  const std::vector<double> held = doubles(logits.value());
  tape.backward(cross_entropy(logits, Array::of<std::int32_t>({0, 1, 2, 3, 4, 0}, {6})));
  CHECK(doubles(logits.value()) == held);  // the gradient of the loss has its own memory
}

TEST_CASE("linear: a weight's gradient is added in place to the earlier ones") {
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

// Records lines such as "forward exp in layer: 1".
class Notes final : public Observer {
 public:
  void forward(const ObservedOp& op, const std::vector<Tensor>& inputs) override {
    note("forward", op);
    read.push_back(inputs.at(0).value().values<float>()[0]);
    outputs.push_back(op.output);
  }
  void backward(const ObservedOp& op) override {
    note("backward", op);
    reached.push_back(op.output);
  }

  std::vector<std::string> lines;
  std::vector<float> read;
  std::vector<std::uint64_t> outputs, reached;

 private:
  void note(const char* pass, const ObservedOp& op) {
    lines.push_back(
        fmt::format("{} {} in {:?}: {}", pass, op.op, op.scope, op.array.values<float>()[0]));
  }
};

TEST_CASE("observer: receives outputs, then their gradients, with their modules") {
  const Tensor x = Tensor::variable(Array::of<float>({2}, {1}));
  Tape tape;
  const std::string layer = "layer";
  const Notes notes;
  const auto squared = [&] {
    const Scope scope(layer);
    return x * x;
  }();
  tape.backward(sum(relu(squared)), 3);
  CHECK(notes.lines ==
        std::vector<std::string>{"forward multiply in \"layer\": 4", "forward relu in \"\": 4",
                                 "forward sum in \"\": 4", "backward sum in \"\": 3",
                                 "backward relu in \"\": 3", "backward multiply in \"layer\": 3"});
  CHECK(notes.read == std::vector<float>{2, 4, 4});
  CHECK(std::vector(notes.outputs.rbegin(), notes.outputs.rend()) == notes.reached);
}

TEST_CASE(
    "observer: without a tape entries have no number; outside its scope it receives nothing") {
  const Tensor x = Array::of<float>({2}, {1});
  CHECK(Observer::current() == nullptr);
  const Notes outer;
  exp(x);
  {
    const Notes inner;
    exp(x);
    CHECK(inner.outputs == std::vector<std::uint64_t>{0});
  }
  CHECK(Observer::current() == &outer);
  CHECK(outer.outputs.size() == 1);
}

TEST_SUITE_END();

// Fails as std::allocator does when memory runs out.
template <class T>
struct NoMemory : std::allocator<T> {
  template <class Other>
  struct rebind {
    using other = NoMemory<Other>;
  };
  static inline bool fails = false;
  T* allocate(std::size_t count) {
    if (fails) throw std::bad_alloc();
    return std::allocator<T>::allocate(count);
  }
};

TEST_CASE("bug: a copy of a config value ended the process when memory ran out") {
  using List = std::vector<std::int64_t, NoMemory<std::int64_t>>;
  using Value = Variant<bool, std::int64_t, double, std::string, std::vector<std::string>, List>;
  const Value list = List{1, 2};
  Value other = "text";
  NoMemory<std::int64_t>::fails = true;
  CHECK_THROWS_AS(Value{list}, std::bad_alloc);
  CHECK_THROWS_AS(other = list, std::bad_alloc);
  NoMemory<std::int64_t>::fails = false;
  CHECK(other == Value("text"));
  other = list;
  CHECK(other == list);
}

// Compares loops over strides with the element at each index.

TEST_SUITE_BEGIN("strided");

TEST_CASE("walk: contiguous axes are merged") {
  const auto merged_shape = [](const Shape& shape, const Strides& a, const Strides& b) {
    return merged(Walk<2>{shape, {a, b}}).shape;
  };
  CHECK(merged_shape({2, 3, 4}, {12, 4, 1}, {12, 4, 1}) == Shape{24});
  CHECK(merged_shape({2, 3, 4}, {12, 4, 1}, {0, 4, 1}) == Shape{2, 12});
  CHECK(merged_shape({2, 3, 4}, {12, 4, 1}, {3, 1, 0}) == Shape{6, 4});
  CHECK(merged_shape({1, 1}, {1, 1}, {0, 0}) == Shape{1});
  CHECK(merged_shape({}, {}, {}) == Shape{1});
}

TEST_CASE("array: a part shares the memory of its elements") {
  Array x = row({0, 1, 2, 3, 4, 5}).reshaped({2, 3});
  Array middle = x.part(2, 5);
  CHECK(doubles(middle) == std::vector<double>{2, 3, 4});
  middle.mutable_values<double>()[0] = 7;
  CHECK(x.values<double>()[2] == 7);
  CHECK(x.part(6, 6).size() == 0);
  CHECK_THROWS_AS(x.part(3, 7), std::invalid_argument);
}

TEST_SUITE_END();

TEST_SUITE_BEGIN("machine limits");

TEST_CASE("machine limits: turn_signs flips every sign as often as requested") {
  Array x({5, limit_columns});
  Random random(1, Stream::data);
  random.fill_normal(x, 0, 1);
  const Array before = x.clone();
  for (const std::int64_t times : {0, 1, 6}) {  // unchanged, flipped, and flipped six more times
    turn_signs(x, times);
    const float sign = times == 0 ? 1.0f : -1.0f;
    for (std::int64_t i = 0; i < x.size(); ++i)
      REQUIRE(x.values<float>()[i] == sign * before.values<float>()[i]);
  }
}

TEST_SUITE_END();

}  // namespace
}  // namespace tapestry
