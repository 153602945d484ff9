#include <doctest/doctest.h>

#include <cmath>
#include <deque>

#include "autograd/kernels/broadcast.hpp"
#include "autograd/ops.hpp"
#include "autograd/tape.hpp"
#include "layers/models/transformer.hpp"
#include "optim/muon.hpp"
#include "tests/support/arrays.hpp"
#include "tests/support/golden.hpp"

namespace tapestry {
namespace {

Array row_of(const Array& rows, std::int64_t index, const Shape& shape) {
  const std::int64_t size = shape.elements();
  return rows.part(index * size, (index + 1) * size).reshaped(shape);
}

double norm_of_difference(const Array& a, const Array& b) {
  return std::sqrt(sum_of_squares((Tensor(a.to(f64)) + -1 * Tensor(b.to(f64))).value()));
}

TEST_CASE("golden: steps of Muon equal NumPy's, and PyTorch's in bfloat16 within 2e-2") {
  const Golden golden("muon");
  const auto number = [&](const std::string& key) { return golden[key].values<double>()[0]; };
  for (const DType dtype : {f32, f64})
    for (const std::string name : {"wide", "tall", "square"})
      for (const std::string rate : {"match_rms_adamw", "original"}) {
        INFO(std::string(to_string(dtype)));
        CAPTURE(name);
        CAPTURE(rate);
        const Array initial = golden[name + ".initial"], wanted = golden[name + "." + rate],
                    torch = golden[name + "." + rate + ".torch"];
        Parameter parameter(initial.to(dtype).clone(), Role::weight);
        const auto muon = optimizer_registry().at("muon").make(
            {&parameter}, {{"muon_momentum", number("momentum")},
                           {"weight_decay", number("weight_decay")},
                           {"match_rms_adamw", rate == "match_rms_adamw"}});
        for (std::int64_t step = 0; step < wanted.dim(0); ++step) {
          CAPTURE(step);
          const Array gradient = row_of(golden[name + ".gradients"], step, initial.shape());
          muon->step(Tape().backward(parameter.tensor, gradient.to(dtype)), number("lr"));
          const Array now = parameter.value();
          CHECK(distance(now, row_of(wanted, step, initial.shape())) <=
                (dtype == f32 ? 1e-5 : 1e-10));
          CHECK(norm_of_difference(now, row_of(torch, step, initial.shape())) <=
                2e-2 * norm_of_difference(now, initial));
        }
      }
}

TEST_CASE("muon: updates hidden matrices; AdamW updates the others, with the same bits") {
  Random init(0, Stream::init), again(0, Stream::init);
  const TransformerOptions options{.vocabulary = 5,
                                   .context = 4,
                                   .layers = 1,
                                   .block = {.width = 4, .attention = {.heads = 2}},
                                   .tied_embeddings = false};
  Transformer model(options, init), other(options, again);
  const std::vector<Parameter*> parameters = model.parameters(), others = other.parameters();
  MuonOptions settings;
  settings.weight_decay = 0.1;
  Muon muon(parameters, settings);
  AdamW adamw(others, settings);
  for (std::uint64_t step = 0; step < 3; ++step) {
    Gradients gradients, same;
    for (std::size_t i = 0; i < parameters.size(); ++i) {
      const Array gradient = normal(parameters[i]->tensor.shape(), 100 * step + i, f32);
      gradients += Tape().backward(parameters[i]->tensor, gradient);
      same += Tape().backward(others[i]->tensor, gradient);
    }
    muon.step(gradients, 0.01, 0.5);
    adamw.step(same, 0.01, 0.5);
  }
  Strings hidden;
  for (std::size_t i = 0; i < parameters.size(); ++i) {
    CAPTURE(parameters[i]->name);
    const bool is_whole = muon.updates_whole(*parameters[i]);
    CHECK(same_bits(parameters[i]->value(), others[i]->value()) != is_whole);
    CHECK(muon.slot_names(*parameters[i]).size() == (is_whole ? 1 : 2));
    if (is_whole) hidden.push_back(parameters[i]->name);
  }
  CHECK(hidden == Strings{"blocks.0.attention.query_key_value.weight",
                          "blocks.0.attention.output.weight", "blocks.0.feed_forward.expand.weight",
                          "blocks.0.feed_forward.contract.weight"});
}

TEST_CASE("muon: AdamW updates rows, columns and kernels of convolutions") {
  const Muon muon({}, {});
  for (const Shape& shape : {Shape{1, 8}, {8, 1}, {8}, {4, 3, 3, 3}})
    CHECK_FALSE(muon.updates_whole(Parameter(Array::zeros(shape), Role::weight)));
  CHECK(muon.updates_whole(Parameter(Array::zeros({2, 2}), Role::weight)));
  CHECK_FALSE(muon.updates_whole(Parameter(Array::zeros({2, 2}), Role::head)));
}

// The iteration maps singular values from 0.01 of the norm on into the range of Jordan's text.
TEST_CASE("muon: an orthogonalized matrix has singular values near 1, and zeros stay zeros") {
  for (const Shape& shape : {Shape{40, 10}, {10, 40}, {16, 16}}) {
    CAPTURE(shape[0]);
    const Tensor x = orthogonalized(normal(shape, 3), 5);
    const bool is_tall = shape[0] > shape[1];
    const Tensor gram = matmul(x, x, {.transpose_a = is_tall, .transpose_b = !is_tall});
    const double trace = sum_of_squares(x.value());  // the sum of the squared singular values
    const auto rank = static_cast<double>(gram.dim(0));
    CHECK(trace / rank > 0.6);
    CHECK(trace / rank < 1.4);
    CHECK(sum_of_squares(gram.value()) / rank < 1.6);
  }
  CHECK(sum_of_squares(orthogonalized(Array::zeros({3, 4}), 5)) == 0);
}

TEST_CASE("muon: a part of a hidden matrix is refused") {
  Parameter matrix(Array::zeros({4, 3}), Role::weight);
  matrix.name = "hidden";
  Muon muon({&matrix}, {});
  CHECK_THROWS_WITH_AS(
      muon.keep_to({{0, 0, 6}}),
      doctest::Contains("[0, 6) of parameter hidden; expected all of its elements"),
      std::invalid_argument);
  muon.keep_to({{0, 0, 12}});
}

TEST_CASE("optimizer: parameter groups change learning rate and decay") {
  for (const auto& [name, type] : optimizer_registry()) {
    CAPTURE(name);
    std::deque<Parameter> all;
    std::vector<Parameter*> parameters;
    for (int i = 0; i < 3; ++i)
      parameters.push_back(&all.emplace_back(normal({3, 4}, 1), Role::weight));
    const auto optimizer = type.make(parameters, {{"momentum", 0.0}});
    optimizer->set_options(all[1], {.rate_factor = 0.5});
    optimizer->set_options(all[2], {.rate_factor = 0});
    Gradients gradients;
    for (const Parameter* parameter : parameters)
      gradients += Tape().backward(parameter->tensor, normal({3, 4}, 2));
    optimizer->step(gradients, 0.1);
    const Array before = normal({3, 4}, 1);
    CHECK(norm_of_difference(all[0].value(), before) ==
          doctest::Approx(2 * norm_of_difference(all[1].value(), before)));
    CHECK(same_bits(all[2].value(), before));
    Parameter other(normal({2}, 1), Role::weight);
    CHECK_THROWS_AS(optimizer->set_options(other, {}), std::invalid_argument);
  }
}

}  // namespace
}  // namespace tapestry
