#include <doctest/doctest.h>

#include <memory>
#include <thread>
#include <type_traits>

#include "autograd/ops.hpp"
#include "autograd/parallel.hpp"
#include "layers/module.hpp"
#include "tests/support/arrays.hpp"
#include "tests/support/folder.hpp"
#include "tests/support/held.hpp"
#include "tests/support/process.hpp"

// Tests what the tape refuses because a gradient is partial or wrong.
namespace tapestry {
namespace {

TEST_SUITE_BEGIN("engine");

// Checks that `call` throws std::invalid_argument with each of the parts.
void check_misuse(const std::function<void()>& call, const Strings& parts) {
  const std::string message = misuse_of(call);
  CAPTURE(message);
  CHECK(message.size() > 0);
  CHECK(message.size() <= 240);
  for (const std::string& part : parts) CHECK(contains(message, part));
}

const Strings cut = {"Tensor(x.value())", "truncated backpropagation"};

void check_partial(const std::function<void()>& call, const std::string& op,
                   const std::string& reason) {
  check_misuse(call, {op + ": ", reason, cut[0], cut[1]});
}

TEST_CASE("bug: gradients stopped at results whose entries backward() had consumed") {
  const Tensor w = Tensor::variable(row({2}));
  const Tensor x = row({1});
  {
    Tape tape;  // two losses that share h: d(h² + h² w)/dw needs both paths
    const Tensor h = w * w;
    CHECK(doubles(tape.backward(sum(h * x))[w]) == std::vector<double>{4});
    check_partial([&] { h* w; }, "multiply", "from before an earlier backward() of this tape");
    check_partial([&] { concat({x, h}, 0); }, "concat", "from before an earlier backward()");
    CHECK(tape.size() == 0);
    CHECK((Tensor(h.value()) * w).id() != 0);
    const NoTape no_tape;
    CHECK(doubles((h * w).value()) == std::vector<double>{8});  // a value needs no entry
  }
  Tape tape;
  const Tensor h = w * w;
  const Tensor loss = sum(h);
  tape.backward(loss);
  check_partial([&] { tape.backward(loss); }, "backward", "from before an earlier backward()");
  check_partial([&] { tape.backward(h, row({1})); }, "backward", "from before");
}

TEST_CASE("bug: gradients stopped at results of another tape") {
  const Tensor w = Tensor::variable(row({2}));
  Tape outer;
  const Tensor h = w * w;
  {
    Tape inner;
    check_partial([&] { h* w; }, "multiply", "of another tape of this thread");
    check_partial([&] { inner.backward(h); }, "backward", "of another tape of this thread");
  }
  CHECK(doubles(outer.backward(h * w)[w]) == std::vector<double>{12});

  Tensor stale, of_thread;
  {
    const Tape tape;
    stale = w * w;
  }
  check_partial([&] { stale* w; }, "multiply", "of a tape that was destroyed");
  check_partial([&] { outer.backward(stale); }, "backward", "of a tape that was destroyed");
  std::string message;
  const Tensor here = w * w;
  std::thread([&] {
    const Tape tape;
    of_thread = w * w;
    message = misuse_of([&] { here* w; });
  }).join();
  CHECK(contains(message, "multiply: float64 (1,) is a result of a tape that was destroyed or is"));
  check_partial([&] { of_thread* w; }, "multiply", "of a tape that was destroyed");
  CHECK(doubles(outer.backward(here * w)[w]) == std::vector<double>{12});
}

TEST_CASE("tape: recompute accepts only results of the tape of its op") {
  const Tensor w = Tensor::variable(row({2}));
  Tensor stale;
  {
    const Tape tape;
    stale = w * w;
  }
  const auto loss = [&](const Tensor& h) {
    return recompute(w * 1.0, nullptr, [&h](const Tensor& x, Random*) { return x * h; });
  };
  Tape tape;
  const Tensor h = w * w;
  const auto nested = [&](const Tensor& x, Random*) {
    return recompute(x * x, nullptr, [&](const Tensor& y, Random*) { return y * h; });
  };
  CHECK(doubles(tape.backward(recompute(w, nullptr, nested))[w]) == std::vector<double>{32});
  const Tensor again = w * w;
  CHECK(doubles(tape.backward(loss(again))[w]) == std::vector<double>{12});
  const Tensor recomputed = loss(stale);
  check_partial([&] { tape.backward(recomputed); }, "multiply", "of a tape that was destroyed");
  CHECK(tape.size() == 0);
  Tensor later;  // the backward pass would read it
  const Tensor before = recompute(w, nullptr, [&later](const Tensor& x, Random*) {
    return later.value().empty() ? x * x : x * later;
  });
  later = w * w;
  check_partial([&] { tape.backward(before); }, "multiply", "of another tape of this thread");
  Gradients constant =
      tape.backward(recompute(w, nullptr, [](const Tensor&, Random*) { return Tensor(row({1})); }));
  CHECK(constant.find(w) == nullptr);
}

TEST_CASE("bug: tapes destroyed in another order than innermost first left a dangling pointer") {
  const Tensor w = Tensor::variable(row({2}));
  auto first = std::make_unique<Tape>();
  const Tensor h = w * w;
  auto second = std::make_unique<Tape>(), third = std::make_unique<Tape>();
  second.reset();
  const Tensor of_third = w * w;
  CHECK((first->size() == 1 && third->size() == 1));
  CHECK(doubles(third->backward(of_third)[w]) == std::vector<double>{4});
  third.reset();
  CHECK(doubles(first->backward(h * w)[w]) == std::vector<double>{12});
  auto paused = std::make_unique<NoTape>();
  CHECK((w * w).id() == 0);
  first.reset();
  auto fourth = std::make_unique<Tape>();
  paused.reset();
  CHECK(doubles(fourth->backward(w * w)[w]) == std::vector<double>{4});
  fourth.reset();
  CHECK((w * w).id() == 0);
}

TEST_CASE("tape: after an error in backward() the tape is empty, and can be used again") {
  const Tensor w = Tensor::variable(row({2}));
  Tape tape;
  const Tensor h = record("fails", row({1}), {w * w}, [](const Array&, InputGradients&) {
    throw std::runtime_error("in a test");
  });
  CHECK_THROWS_AS(tape.backward(h * w), std::runtime_error);
  CHECK(tape.size() == 0);
  check_partial([&] { h* w; }, "multiply", "from before an earlier backward()");
  CHECK(doubles(tape.backward(w * w)[w]) == std::vector<double>{4});
}

TEST_CASE("bug: a pullback could return a gradient of another shape or dtype") {
  const Tensor w = Tensor::variable(row({2, 3})), v = Tensor::variable(row({1}));
  const auto run = [&](const Tensor& x, const std::function<void(InputGradients&)>& pullback) {
    Tape tape;
    const Tensor y = record("custom", row({1}), {x},
                            [&](const Array&, InputGradients& into) { pullback(into); });
    return tape.backward(y);
  };
  const auto gives = [&](const Tensor& x, const Array& gradient) {
    return run(x, [&](InputGradients& into) { into.add(0, gradient); });
  };
  check_misuse(
      [&] {
        gives(w, row({1, 2, 3}));
      },
      {"custom: the pullback", "float64 (3,) for input 0, which is float64 (2,)"});
  check_misuse([&] { gives(w, Array::full({2}, 1, f32)); }, {"custom: ", "float32 (2,)"});
  check_misuse([&] { gives(w, row({1})); }, {"custom: ", "float64 (1,)"});
  check_misuse([&] { gives(w, Array()); }, {"custom: "});
  check_misuse([&] { gives(v, Array::full({}, 1, f64)); }, {"custom: ", "float64 ()"});
  check_misuse(
      [&] {
        run(w, [](InputGradients& into) {
          into.accumulate(0, [](Array& sum, bool) { sum = Array::full({2}, 1, f32); });
        });
      },
      {"custom: ", "float32 (2,)"});
  CHECK_THROWS_AS(run(w,
                      [](InputGradients& into) {
                        into.add(1, row({1, 2}));
                      }),
                  std::out_of_range);
  CHECK(doubles(gives(w, row({5, 6}))[w]) == std::vector<double>{5, 6});
  const Array wide = Array::full({3, 2}, 1, f64);
  CHECK(doubles(gives(w, wide)[w]) == std::vector<double>{3, 3});  // of a broadcast input
}

TEST_CASE("bug: a pullback's wrong input and a missing gradient were unnamed errors") {
  static_assert(!std::is_constructible_v<Scope, std::string>);  // the guard would outlive it
  const auto error_of = [](const auto& call) -> std::string {
    try {
      call();
    } catch (const std::out_of_range& error) {
      return error.what();
    }
    return "";
  };
  Tape tape;
  const Tensor w = Tensor::variable(row({2})), unused = Tensor::variable(row({1, 3}));
  const Tensor y = record("mine", row({2}), {w}, [](const Array& gradient, InputGradients& into) {
    into.add(3, gradient);
  });
  CHECK(error_of([&] { tape.backward(y); }) ==
        "mine: the pullback names input 3 of 1; they count from 0");
  check_misuse([&] { record("mine", row({2}), {w}, nullptr); }, {"mine: ", "without a pullback"});
  const Gradients gradients = tape.backward(sum(w));
  CHECK(error_of([&] { gradients[unused]; }) ==
        "gradients: none for variable float64 (2,); expected a variable that the loss depends on");
  CHECK(contains(error_of([&] { gradients[row({1})]; }), "none for constant"));
}

TEST_CASE("bug: an array had extents of axes beyond its rank, and elements of any type") {
  const Array x({2, 3});
  CHECK(x.dim(1) == 3);
  CHECK(x.dim(-2) == 2);
  CHECK(Array().values<float>().empty());
  for (const int axis : {2, 5, -3})
    check_misuse([&] { x.dim(axis); }, {"dim: ", fmt::format("axis {}", axis)});
  static_assert(Element<float> && Element<double> && Element<std::int32_t>);
  static_assert(!Element<std::int64_t> && !Element<std::uint32_t> && !Element<unsigned char>);
}

TEST_CASE("bug: backward() and item() of an empty Tensor returned or crashed") {
  const Tensor w = Tensor::variable(row({2})), empty = Tensor::variable(Array());
  Tape tape;
  for (const Tensor& x : {Tensor(), empty}) {
    check_misuse([&] { tape.backward(x); }, {"backward: ", "expected one element"});
    check_misuse([&] { tape.backward(x, Array()); }, {"backward: ", "empty"});
    check_misuse([&] { x.item(); }, {"item: ", "empty"});
  }
  Gradients gradients;
  check_misuse([&] { gradients.set(w, Array()); }, {"Gradients::set: "});
  check_misuse([&] { gradients.set(w, row({1, 2})); }, {"Gradients::set: ", "(2,)", "(1,)"});
  check_misuse([&] { gradients.set(w, Array::full({1}, 1, f32)); }, {"float32 (1,)"});
  check_misuse([&] { gradients.set(row({2}), row({1})); }, {"constant"});
  gradients.set(w, row({7}));
  CHECK(doubles(gradients[w]) == std::vector<double>{7});
}

// --- arrays and shapes ---

TEST_CASE("bug: the number of elements of a shape overflowed") {
  constexpr std::int64_t half = std::int64_t{1} << 32, most = std::int64_t{1} << 60;
  for (const Shape& shape : {Shape{half, half}, Shape{half, half, 3}, Shape{most}, Shape{3, most},
                             Shape{half / 2, half, 4}, Shape{half, half, 0}, Shape{0, most}})
    check_misuse([&] { Array array(shape); }, {"shape: ", to_string(shape), "2^60"});
  Shape negative{2, 3};
  negative[0] = -2;
  check_misuse([&] { Array array(negative); }, {"shape: (-2, 3)"});
  negative[1] = 0;
  check_misuse([&] { Array array(negative); }, {"shape: (-2, 0)"});
  CHECK(Shape{half, 0, half / 16 - 1}.elements() == 0);
  CHECK(Shape{half, half / 16 - 1}.elements() == half * (half / 16 - 1));
  CHECK(Array(Shape{half, 0, 3}).size() == 0);
}

TEST_CASE("bug: reshape chose an ambiguous extent, and its product overflowed") {
  constexpr std::int64_t half = std::int64_t{1} << 32;
  const Tensor none = Array::zeros({0, 3}), some = Array::zeros({2, 3});
  check_misuse([&] { reshape(none, {0, -1}); }, {"reshape: (0, 3)", "-1"});
  check_misuse([&] { reshape(none, {-1, 2, 0}); }, {"reshape: (0, 3)"});
  check_misuse([&] { reshape(some, {half, half, -1}); }, {"shape: "});
  check_misuse([&] { reshape(some, {-2, -3}); }, {"reshape: (2, 3)", "-2"});
  CHECK(reshape(none, {-1, 3}).shape() == Shape{0, 3});
  CHECK(reshape(none, {0, 7}).shape() == Shape{0, 7});
}

TEST_CASE("bug: copies of an empty array read out of bounds") {
  const Array empty;
  Array one = Array::zeros({});
  check_misuse([&] { (void)empty.clone(); }, {"copy_from: ", "empty"});
  check_misuse([&] { one.copy_from(empty); }, {"copy_from: "});
  check_misuse([&] { Array(empty).copy_from(one); }, {"copy_from: "});
  check_misuse([&] { (void)empty.to(f64); }, {"to: "});
  check_misuse([&] { (void)empty.part(0, 1); }, {"part: "});
  check_misuse([&] { (void)empty.select({0}); }, {"select: "});
  check_misuse([&] { (void)one.select({0}); }, {"select: "});
  CHECK(empty.to(f32).empty());
}

TEST_SUITE_END();

TEST_SUITE_BEGIN("dry run");

TEST_CASE("dry run: until it ends, loops of this thread compute nothing") {
  int pieces = 0;
  const auto loop = [&] { parallel_for(1, 1, [&](auto, auto) { ++pieces; }); };
  {
    const DryRun dry_run;
    CHECK(is_dry_run());
    loop();
    {
      const DryRun none(false);
      loop();
    }
    loop();
  }
  CHECK(pieces == 1);
  CHECK_FALSE(is_dry_run());
}

TEST_CASE("dry run: a model larger than the machine's memory gives its shapes") {
  const MachineMemory machine = machine_memory();
  const std::int64_t rows = (machine.memory + machine.swap) / (1 << 20) + 1;  // each of 1 MB
  const auto half = [&] {
    Random init(1, Stream::init);
    const InitialDryRun shapes_only;
    return initial_normal({rows, 1 << 17}, 1, init);
  };
  const Array one = half(), other = half();
  CHECK(one.bytes() + other.bytes() > static_cast<std::size_t>(machine.memory + machine.swap));
  CHECK_THROWS_AS(Array({rows, 1 << 18}), OutOfMemory);
}

TEST_CASE("dry run: the memory that it reserved is released") {
  forget_reserved_memory();
  const std::int64_t before = memory_use().bytes_held;
  {
    const DryRun dry_run;
    const Array array({1 << 20});
    CHECK(memory_use().bytes_held == before + (4 << 20));
  }
  CHECK(memory_use().bytes_held == before + (4 << 20));  // for the next one
  forget_reserved_memory();
  CHECK(memory_use().bytes_held == before);
}

TEST_CASE("bug: dry run: a conversion to another dtype wrote the converted elements") {
  const Array ones = Array::full({1000}, 1);
  forget_reserved_memory();
  {
    const DryRun dry_run;
    const Array converted = ones.to(DType::float64);
    CHECK(converted.shape() == ones.shape());
    for (const double x : converted.values<double>())
      CHECK(x == 0);  // pages that were never written
  }
  forget_reserved_memory();
}

TEST_CASE("bug: batches of changing lengths left memory blocks of every size behind") {
  const auto train = [] {
    for (std::int64_t step = 0; step < 200; ++step) {
      std::vector<Array> step_arrays;
      for (std::int64_t i = 0; i < 10; ++i)
        step_arrays.emplace_back(Shape{(1 << 18) + (7919 * (10 * step + i)) % 4096 * 2048});
    }
  };
  const DryRun dry_run;
  forget_reserved_memory();
  const std::int64_t before = memory_use().bytes_held, most = bytes_held_by(train);
  CHECK(memory_use().bytes_held - before <= most + most / 2 + (64 << 20));
  forget_reserved_memory();
}

TEST_CASE("bug: the memory limit of a control group was ignored") {
  const TemporaryFolder root;
  const auto write = [&](const std::string& file, const std::string& text) {
    fs::create_directories(fs::path(root.path(file)).parent_path());
    root.write(file, text);
  };
  const std::int64_t all = machine_memory(root.path()).memory;
  CHECK(all > 1 << 20);
  write("proc/self/cgroup", "0::/user/session\n");
  write("sys/fs/cgroup/user/session/memory.max", "max\n");
  CHECK(machine_memory(root.path()).memory == all);
  write("sys/fs/cgroup/user/memory.max", "2097152\n");
  CHECK(machine_memory(root.path()).memory == 2097152);
  write("proc/self/cgroup", "4:memory:/a\n");
  CHECK(machine_memory(root.path()).memory == all);
  write("sys/fs/cgroup/memory/a/memory.limit_in_bytes", "1048576\n");
  CHECK(machine_memory(root.path()).memory == 1048576);
}

TEST_SUITE_END();

}  // namespace
}  // namespace tapestry
