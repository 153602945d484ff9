#include <doctest/doctest.h>

#include "autograd/gradcheck.hpp"
#include "autograd/ops.hpp"
#include "layers/adapters.hpp"
#include "layers/linear.hpp"
#include "layers/mlp.hpp"
#include "optim/averaged_weights.hpp"
#include "optim/clip.hpp"
#include "optim/sgd.hpp"
#include "tests/support/modules.hpp"
#include "tests/support/process.hpp"

// Tests shared parameters, and parameters that change between forward and backward pass.
namespace tapestry {
namespace {

Parameter named(const std::string& name, const Array& value) {
  Parameter parameter(value, Role::weight);
  parameter.name = name;
  return parameter;
}

TEST_CASE("bug: a parameter updated between forward pass and backward() had a wrong gradient") {
  for (const auto& [name, type] : optimizer_registry()) {
    CAPTURE(name);
    Parameter w = named("w", row({3})), other = named("other", row({1}));
    const auto optimizer = type.make({&w}, {}), of_other = type.make({&other}, {});
    Gradients gradients;
    gradients.set(w, row({1}));
    gradients.set(other, row({1}));
    Tape tape;
    const Tensor loss = sum(w * w * w);
    const std::string message = misuse_of([&] { optimizer->step(gradients, 0.5); });
    CHECK(
        message.starts_with("optimizer: step(): a tape of this thread holds multiply of "
                            "parameter w (1,), whose gradient needs the values"));
    CHECK(message.size() <= 240);
    CHECK(optimizer->steps() == 0);
    of_other->step(gradients, 0.5);  // the tape does not need it
    {
      const Tape inner;
      CHECK(misuse_of([&] { optimizer->step(gradients, 0.5); }) == message);
    }
    CHECK(doubles(tape.backward(loss)[w]) == std::vector<double>{27});
    optimizer->step(gradients, 0.5);
    CHECK(doubles(w.value())[0] < 3);
  }
}

TEST_CASE("bug: convert(), fix() and others changed parameters that a tape needed") {
  Parameter w = named("w", row({3}));
  AveragedWeights average({&w}, 0.5);
  const auto check = [&](const std::string& function, const std::function<void()>& call) {
    const std::string message = misuse_of(call);
    CAPTURE(message);
    CHECK(message.starts_with(function + ": a tape of this thread holds multiply of parameter w"));
  };
  {
    Tape tape;
    const Tensor loss = sum(w * w);
    check("Parameter::convert", [&] { w.convert(f32); });
    check("Parameter::fix", [&] { w.fix(); });
    check("AveragedWeights::exchange", [&] { average.exchange(); });
    CHECK((w.role == Role::weight && w.tensor.dtype() == f64 && w.tensor.id() != 0));
    tape.backward(loss);
    w.convert(f32);
    CHECK(w.tensor.dtype() == f32);
  }
  {
    const Tape tape;
    sum(w * w);
  }
  w.fix();
  CHECK(w.tensor.id() == 0);
}

TEST_CASE("bug: a parameter could be updated before recompute() read it again") {
  Parameter w = named("w", row({3}));
  Sgd sgd({&w}, {});
  Gradients gradients;
  gradients.set(w, row({1}));
  const Tensor x = Tensor::variable(row({2}));
  Tape tape;
  const Tensor loss = recompute(x, nullptr, [&](const Tensor& in, Random*) { return in * w * w; });
  CHECK(misuse_of([&] {
          sgd.step(gradients, 1);
        }).starts_with("optimizer: step(): a tape of this thread holds recompute"));
  CHECK(doubles(tape.backward(loss)[w]) == std::vector<double>{12});
}

TEST_CASE("tape: a parameter may be updated as soon as its gradient is complete") {
  Parameter first = named("first", row({3})), last = named("last", row({2}));
  Sgd sgd_first({&first}, {}), sgd_last({&last}, {});
  Tape tape;
  const Tensor h = first * first;
  const Tensor loss = sum(h * last);
  Strings order;
  tape.backward(loss, 1, [&](std::uint64_t variable, Array gradient) {
    const bool is_last = variable == last.tensor.id();
    Gradients one;
    one.set(is_last ? last : first, gradient);
    order.push_back((is_last ? last : first).name);
    if (is_last) CHECK_THROWS_AS(sgd_first.step(one, 1), std::invalid_argument);
    (is_last ? sgd_last : sgd_first).step(one, 1);
  });
  CHECK(order == Strings{"last", "first"});
  CHECK(doubles(last.value()) == std::vector<double>{2 - 9});
  CHECK(doubles(first.value()) == std::vector<double>{3 - 2 * 3 * 2});
}

// --- shared parameters ---

// A model with shared parameters: y = b(a(x)), where b is a.
struct Shared final : Module {
  Linear a, b;
  Parameter scale;
  explicit Shared(Random& random)
      : a(3, 3, random), b(3, 3, random), scale(Array::full({3}, 2), Role::weight) {
    b.weight = a.weight;  // a copy, which shares memory and gradient
  }
  Tensor forward(const Tensor& x) const { return b.forward(a.forward(x)) * scale; }
  void fields(FieldVisitor& visit) override {
    visit("a", a);
    visit("b", b);
    visit("again", a);
    visit("scale", scale);
    visit("factor", scale);
    visit("self", *this);
  }
};

TEST_CASE("bug: a shared parameter or module was updated twice") {
  Random random = init();
  Shared model(random);
  CHECK(names(model) == Strings{"a.weight", "a.bias", "b.bias", "scale"});
  CHECK(model.a.path() == "a");
  CHECK(modules_of<Linear>(model) == std::vector<Linear*>{&model.a, &model.b});
  model.convert(f64);
  CHECK(model.a.weight.tensor.id() == model.b.weight.tensor.id());
  CHECK(model.a.weight.tensor.dtype() == f64);
  CHECK(names(model).size() == 4);

  std::vector<Parameter*> twice = model.parameters();
  twice.push_back(&model.scale);
  twice.push_back(&model.b.weight);
  for (const auto& [name, type] : optimizer_registry()) {
    CAPTURE(name);
    const auto optimizer = type.make(twice, {{"weight_decay", 0.5}});
    CHECK(optimizer->parameters() == model.parameters());
  }
  const Array before = model.scale.value().clone(), weights = model.a.weight.value().clone();
  Sgd sgd(twice, {.weight_decay = 0.5});
  Gradients gradients;
  double squares = 0;
  for (const Parameter* parameter : model.parameters()) {
    gradients.set(*parameter, Array::full(parameter->tensor.shape(), 1, f64));
    squares += static_cast<double>(parameter->tensor.size());
  }
  CHECK(clip(gradients, twice, 0).norm == doctest::Approx(std::sqrt(squares)));
  AveragedWeights average(twice, 0.5);
  CHECK(average.arrays().size() == 4);
  sgd.step(gradients, 0.1);
  check_close(model.scale.value(), Array::full({3}, 2 * 0.95 - 0.1, f64));
  for (std::size_t i = 0; i < 9; ++i)
    CHECK(doubles(model.b.weight.value())[i] ==
          doctest::Approx(doubles(weights)[i] * 0.95 - 0.1).epsilon(1e-12));
  average.exchange();
  check_close(model.scale.value(), before);
  average.exchange();
  const Array x = normal({2, 3}, f64);
  const auto loss = [&] { return sum(model.forward(x)); };
  CHECK(gradcheck_together(loss, twice).passed);
  CHECK(gradcheck_parameters(loss, twice).size() == 4);

  model.a.weight.fix();  // the copy is no parameter of its own
  CHECK(names(model).size() == 4);
  CHECK(Sgd(twice, {}).parameters().size() == 3);
}

TEST_CASE("bug: adapters of a shared linear layer were added twice") {
  struct Twice final : Module {
    TransformerBlock block;
    explicit Twice(Random& random) : block(tiny.block, random) {}
    void fields(FieldVisitor& visit) override {
      visit("first", block);
      visit("second", block);
    }
  };
  Random random = init();
  Twice model(random);
  add_adapters(model, {.rank = 2, .targets = {"query"}}, random);
  CHECK(adapted_linears(model).size() == 1);
  CHECK(model.block.attention.query_key_value.adapters.size() == 1);
  merge_adapters(model);
  CHECK_FALSE(has_adapters(model));
}

TEST_CASE("optim: parameters that share memory but no gradient are refused") {
  Parameter a = named("a", row({1, 2}));
  Parameter b = named("b", a.value());
  CHECK(misuse_of([&] {
          Sgd({&a, &b}, {});
        }).starts_with("parameters: a (2,) and b share memory but not a gradient"));
  b.fix();
  CHECK(Sgd({&a, &b}, {}).parameters() == std::vector<Parameter*>{&a});
}

TEST_CASE("bug: a parameter whose size changed after the first step was read out of bounds") {
  for (const auto& [name, type] : optimizer_registry()) {
    CAPTURE(name);
    Parameter w = named("w", normal({4, 4}, f64));
    const auto optimizer = type.make({&w}, {});
    const auto step = [&] {
      Gradients gradients;
      gradients.set(w, Array::full(w.tensor.shape(), 1, w.tensor.dtype()));
      optimizer->step(gradients, 0.1);
    };
    step();
    const Array before = w.value().clone();
    const Tensor kept = w.tensor;
    w.tensor = Tensor::variable(row({1, 2}));
    CHECK(misuse_of(step).starts_with("optimizer: parameter w float64 (2,) has another size"));
    w.tensor = kept;
    w.convert(f32);
    CHECK(misuse_of(step).starts_with("optimizer: parameter w float32 (4, 4) has another size"));
    CHECK(same_bits(w.value(), before.to(f32)));
    CHECK(optimizer->steps() == 1);
  }
}

}  // namespace
}  // namespace tapestry
