#include <doctest/doctest.h>
#include <fmt/core.h>

#include "autograd/ops.hpp"
#include "autograd/tape.hpp"

namespace tapestry {
namespace {

TEST_SUITE_BEGIN("engine");

// Notes "forward exp in layer: 1" and the like.
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

TEST_CASE("observer: sees outputs, then the gradients that reach them, with their modules") {
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

TEST_CASE("observer: without a tape there is no number, and outside its scope it sees nothing") {
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

}  // namespace
}  // namespace tapestry
