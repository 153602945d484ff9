#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <map>

#include "autograd/ops.hpp"
#include "autograd/ops/recompute.hpp"
#include "layers/mlp.hpp"
#include "optim/adam.hpp"
#include "tests/support/arrays.hpp"
#include "tests/support/process.hpp"
#include "train/distributed/gradient_sum.hpp"
#include "train/distributed/launch.hpp"
#include "train/distributed/order.hpp"
#include "train/distributed/packed.hpp"
#include "train/distributed/sharding.hpp"

// Tests the parts of trainings by several processes in one process. test_mpi.cpp starts several.
namespace tapestry {
namespace {

TEST_SUITE_BEGIN("ranks");

// --- the order of the additions, with sums as texts: "(0+1)+2" ---

void merge(Strings& stack, int merges) {
  for (; merges > 0; --merges) {
    REQUIRE(stack.size() >= 2);
    const std::string right = stack.back();
    stack.pop_back();
    stack.back() = "(" + stack.back() + "+" + right + ")";
  }
}

// Returns the sum of one rank, and raises `most` to the number of sums that it stores at a time.
std::string alone(std::int64_t micro_batches, std::size_t& most) {
  const std::vector<int> merges = merges_of(micro_batches);
  Strings stack;
  for (std::int64_t part = 0; part < micro_batches; ++part) {
    stack.push_back(std::to_string(part));
    most = std::max(most, stack.size());
    merge(stack, merges[part]);
  }
  REQUIRE(stack.size() == 1);
  return stack.front();
}

// Returns the sums that a rank sends, in this order.
Strings sent_by(const MicroBatchPlan& plan) {
  Strings stack, sent;
  for (std::size_t i = 0; i < plan.steps.size(); ++i) {
    stack.push_back(std::to_string(plan.range.first + static_cast<std::int64_t>(i)));
    merge(stack, plan.steps[i].merges);
    if (!plan.steps[i].sends) continue;
    sent.push_back(stack.back());
    stack.pop_back();
  }
  CHECK(stack.empty());
  return sent;
}

TEST_CASE("ranks: the order of a sum depends on the micro-batches alone") {
  for (std::int64_t micro_batches = 1; micro_batches <= 70; ++micro_batches) {
    std::size_t most = 0;
    const std::string whole = alone(micro_batches, most);
    CHECK(most <= 5);
    for (int ranks = 1; ranks <= micro_batches; ++ranks) {
      CAPTURE(micro_batches);
      CAPTURE(ranks);
      Strings stack;
      std::int64_t next = 0;
      for (int rank = 0; rank < ranks; ++rank) {
        const MicroBatchPlan plan = plan_micro_batches(micro_batches, rank, ranks);
        CHECK(plan.range.first == next);
        CHECK(plan.range.last > plan.range.first);
        next = plan.range.last;
        const Strings sent = sent_by(plan);
        REQUIRE(sent.size() == plan.merges_after.size());
        for (std::size_t sum = 0; sum < sent.size(); ++sum) {
          stack.push_back(sent[sum]);
          merge(stack, plan.merges_after[sum]);
        }
      }
      CHECK(next == micro_batches);
      REQUIRE(stack.size() == 1);
      CHECK(stack.front() == whole);
    }
  }
  std::size_t most = 0;
  CHECK(alone(5, most) == "((0+1)+(2+(3+4)))");
  CHECK(alone(8, most) == "(((0+1)+(2+3))+((4+5)+(6+7)))");
}

TEST_CASE(
    "ranks: powers of two of up to eight ranks, or of one micro-batch each, send one sum each") {
  for (std::int64_t micro_batches = 1; micro_batches <= 64; micro_batches *= 2)
    for (int ranks = 1; ranks <= micro_batches; ranks *= 2) {
      if (ranks > 8 && ranks < micro_batches) continue;
      for (int rank = 0; rank < ranks; ++rank) {
        CAPTURE(micro_batches);
        CAPTURE(ranks);
        CHECK(plan_micro_batches(micro_batches, rank, ranks).merges_after.size() == 1);
      }
    }
}

// --- gradients that are passed on during the backward pass ---

TEST_CASE("tape: each gradient is passed on once, when it is complete") {
  Random r(1, Stream::init);
  const auto drawn = [&](const Shape& shape) {
    Array array(shape, DType::float64);
    r.fill_normal(array, 0, 1);
    return array;
  };
  const Tensor a = Tensor::variable(drawn({3, 3})), b = Tensor::variable(drawn({3, 3})),
               late = Tensor::variable(drawn({3, 3}));
  for (const bool recomputed : {false, true}) {
    CAPTURE(recomputed);
    const auto loss = [&] {
      const auto inner = [&](const Tensor& x, Random*) { return matmul(x, a) * b; };
      Tensor x = matmul(a, b);  // a's first use
      x = recomputed ? recompute(x, nullptr, inner) : inner(x, nullptr);
      return sum(matmul(x, late) * late);
    };
    Tape whole_tape;
    const Gradients whole = whole_tape.backward(loss(), 0.5);
    std::vector<std::uint64_t> order;
    Tape tape;
    tape.backward(loss(), 0.5, [&](std::uint64_t variable, Array gradient) {
      order.push_back(variable);
      // Only entries before its last use remain; a recomputed one may still add to any gradient.
      if (variable == late.id()) CHECK(tape.size() == (recomputed ? 1 : 3));
      for (const Tensor* one : {&a, &b, &late})
        if (one->id() == variable) CHECK(same_bits(gradient, whole[*one]));
    });
    REQUIRE(order.size() == 3);
    CHECK(order.front() == late.id());
    CHECK(std::ranges::count(order, a.id()) == 1);
    CHECK(std::ranges::count(order, b.id()) == 1);
  }
}

// --- sums of gradients in one process ---

struct Regression {
  Random random{3, Stream::init};
  Mlp model{{7, 90, 90, 2}, random};
  std::vector<Parameter*> parameters = model.parameters();
  Array x{{12, 7}}, y{{12, 2}};
  Regression() {
    random.fill_normal(x, 0, 1);
    random.fill_normal(y, 0, 1);
  }
  Tensor loss(std::int64_t begin, std::int64_t end) const {
    const auto rows = [&](const Array& array) {
      const std::int64_t width = array.dim(1);
      return array.part(begin * width, end * width).reshaped({end - begin, width});
    };
    return sum(squared_error(model.forward(rows(x)), rows(y)));
  }
  Gradients gradient(std::int64_t begin, std::int64_t end) const {
    Tape tape;
    return tape.backward(loss(begin, end), 0.25);
  }
};

TEST_CASE("ranks: one rank sums its micro-batches in their order, and clips the sum") {
  Regression task;
  Ranks ranks;
  for (const std::int64_t micro_batches : {1, 2, 4, 12}) {
    CAPTURE(micro_batches);
    const std::int64_t size = 12 / micro_batches;
    GradientSum sum(ranks, task.parameters, {.micro_batches = micro_batches});
    CHECK(sum.first() == 0);
    CHECK(sum.last() == micro_batches);
    for (int step = 0; step < 2; ++step) {
      std::vector<Gradients> stack;
      const std::vector<int> merges = merges_of(micro_batches);
      for (std::int64_t part = 0; part < micro_batches; ++part) {
        Tape tape;
        sum.add(tape, task.loss(part * size, (part + 1) * size), 0.25);
        stack.push_back(task.gradient(part * size, (part + 1) * size));
        for (int i = 0; i < merges[part]; ++i) {
          stack[stack.size() - 2] += stack.back();
          stack.pop_back();
        }
      }
      const Gradients gradients = sum.finish();
      for (const Parameter* parameter : task.parameters)
        CHECK(same_bits(gradients[*parameter], stack.front()[*parameter]));
      const Clip clipped = sum.clip(0.1), wanted = clip(stack.front(), task.parameters, 0.1);
      CHECK(clipped.norm == wanted.norm);
      CHECK(clipped.scale == wanted.scale);
      CHECK(clipped.scale < 1);
    }
  }
}

TEST_CASE("ranks: wrong uses of a sum of gradients are refused") {
  Regression task;
  Ranks ranks;
  CHECK_THROWS_WITH_AS(GradientSum(ranks, task.parameters, {.micro_batches = 0}),
                       "GradientSum: 0 micro-batches for 1 ranks; expected at least one per rank",
                       std::invalid_argument);
  GradientSum sum(ranks, task.parameters, {.micro_batches = 2});
  const auto add = [&] {
    Tape tape;
    sum.add(tape, task.loss(0, 6), 1);
  };
  add();
  CHECK_THROWS_WITH_AS(
      sum.finish(), "GradientSum: 1 of the 2 micro-batches of this rank were added; expected all",
      std::invalid_argument);
  add();
  CHECK_THROWS_WITH_AS(
      add(), "GradientSum: this rank has only 2 micro-batches; expected no more calls of add()",
      std::invalid_argument);
  sum.finish();
}

TEST_CASE("ranks: a parameter has a gradient if any micro-batch reaches it") {
  Parameter reached(Array::full({2}, 1), Role::weight), never(Array::full({2}, 1), Role::weight);
  Ranks ranks;
  GradientSum sum(ranks, {&reached, &never}, {.micro_batches = 2});
  for (const double share : {0.0, 3.0}) {
    const Tensor constant = Tensor::variable(Array::full({2}, 2));
    Tape tape;
    sum.add(tape, share == 0 ? tapestry::sum(constant * 1) : tapestry::sum(reached.tensor * share),
            1);
  }
  const Gradients gradients = sum.finish();
  CHECK(gradients[reached].values<float>()[0] == 3);
  CHECK(gradients.find(never) == nullptr);
}

TEST_CASE("optim: shards of an optimizer update and store the same as a whole one") {
  Regression whole_task, shared_task;
  AdamW whole(whole_task.parameters, {.weight_decay = 0.1});
  std::vector<ArrayPart> low, high;
  for (std::size_t i = 0; i < shared_task.parameters.size(); ++i) {
    const std::int64_t size = shared_task.parameters[i]->tensor.size(), middle = size / 3;
    low.push_back({i, 0, middle});
    high.push_back({i, middle, size});
  }
  std::erase_if(low, [](const ArrayPart& part) { return part.size() == 0; });
  AdamW first(shared_task.parameters, {.weight_decay = 0.1}),
      second(shared_task.parameters, {.weight_decay = 0.1});
  first.keep_to(low);
  second.keep_to(high);
  for (int step = 0; step < 3; ++step) {
    whole.step(whole_task.gradient(0, 12), 0.01, 0.5);
    const Gradients gradients = shared_task.gradient(0, 12);
    first.step(gradients, 0.01, 0.5);
    second.step(gradients, 0.01, 0.5);
  }
  for (std::size_t i = 0; i < whole_task.parameters.size(); ++i)
    CHECK(same_bits(whole_task.parameters[i]->value(), shared_task.parameters[i]->value()));
  const OptimizerState all = whole_state(whole);
  std::size_t kept = 0;
  for (const AdamW* share : {&first, &second})
    for (const Optimizer::Slot& slot : share->state()) {
      const auto same = std::ranges::find(all, slot.name, &std::pair<std::string, Array>::first);
      REQUIRE(same != all.end());
      CHECK(same_bits(same->second.part(slot.part.begin, slot.part.end),
                      slot.values.reshaped({slot.part.size()})));
      kept += slot.values.size();
    }
  std::size_t elements = 0;
  for (const auto& [name, array] : all) elements += array.size();
  CHECK(kept == elements);
  CHECK_THROWS_AS(whole_state(first), std::invalid_argument);
  CHECK_THROWS_AS(first.keep_to(low), std::invalid_argument);
  AdamW wrong(shared_task.parameters, {});
  CHECK_THROWS_AS(wrong.keep_to({{99, 0, 1}}), std::invalid_argument);
  CHECK_THROWS_AS(wrong.keep_to({{0, 5, 1 << 20}}), std::invalid_argument);
}

// --- the rest ---

TEST_CASE("ranks: packed values are unpacked, and no byte after them") {
  Packer packer;
  packer.put(0.1);
  packer.put(std::string("naïve\0text", 11));
  packer.put(std::numeric_limits<double>::quiet_NaN());
  packer.put(true);
  const std::string bytes = packer.take();
  Unpacker packed(bytes);
  CHECK(packed.get<double>() == 0.1);
  CHECK(packed.get<std::string>() == std::string("naïve\0text", 11));
  CHECK(std::isnan(packed.get<double>()));
  CHECK(packed.get<bool>());
  CHECK(packed.at_end());
  CHECK_THROWS_AS(packed.get<char>(), std::invalid_argument);
  CHECK_THROWS_AS(Unpacker(bytes.substr(0, 10)).get<std::string>(), std::invalid_argument);
}

struct Packed {
  std::map<std::string, double> sums{};
  std::vector<Strings> texts{};
  bool last = false;
  static void fields(auto& visit, auto& self) { visit(self.sums, self.texts, self.last); }
  bool operator==(const Packed&) const = default;
};

TEST_CASE("ranks: the fields of a struct are packed, and imagined ranks gather equal values") {
  const Packed own{{{"loss", 0.5}, {"kl", -0.0}}, {{"a", ""}, {}}, true};
  CHECK(Ranks::imagined(1, 3).gather(own, "a test") == std::vector<Packed>{own, own, own});
}

TEST_CASE("ranks: a single rank gathers its own value, and passes exceptions on") {
  Ranks ranks;
  CHECK(ranks.alone());
  CHECK(ranks.gather(std::string("mine"), "a test") == Strings{"mine"});
  std::vector<double> own = {1, 2};
  const double* const memory = own.data();
  CHECK(ranks.gather(std::move(own), "a test").front().data() == memory);
  CHECK_THROWS_WITH_AS(ranks.agree("a test", [] { throw InputError("wrong"); }), "wrong",
                       InputError);
  CHECK(!ranks.is_agreed());
}

TEST_CASE("ranks: a launcher's variables give rank, size and MPI") {
  const Words names =
      "OMPI_COMM_WORLD_RANK OMPI_COMM_WORLD_SIZE PMIX_RANK SLURM_NTASKS PMI_RANK PMI_SIZE";
  const auto launched = [&](const std::map<std::string, std::string>& variables) {
    for (const std::string& name : names) unsetenv(name.c_str());
    for (const auto& [name, value] : variables) setenv(name.c_str(), value.c_str(), 1);
    const Launch launch = read_launch();
    for (const std::string& name : names) unsetenv(name.c_str());
    return fmt::format("{} of {} by {}", launch.rank, launch.size, launch.mpi);
  };
  CHECK(launched({}) == "0 of 1 by ");
  CHECK(launched({{"OMPI_COMM_WORLD_RANK", "2"}, {"OMPI_COMM_WORLD_SIZE", "3"}}) ==
        "2 of 3 by openmpi");
  CHECK(launched({{"PMIX_RANK", "1"}, {"SLURM_NTASKS", "8"}}) == "1 of 8 by openmpi");
  CHECK(launched({{"PMI_RANK", "0"}, {"PMI_SIZE", "2"}}) == "0 of 2 by mpich");
  CHECK(launched({{"PMI_RANK", "0"}}) == "0 of 1 by ");
  CHECK(launched({{"PMI_RANK", "x"}, {"PMI_SIZE", "2"}}) == "0 of 1 by ");
  CHECK(launched({{"PMI_RANK", "2"}, {"PMI_SIZE", "2"}}) == "0 of 1 by ");
  CHECK(launched({{"PMI_RANK", "-1"}, {"PMI_SIZE", "99999999999999"}}) == "0 of 1 by ");
}

TEST_SUITE_END();

}  // namespace
}  // namespace tapestry
