#include <doctest/doctest.h>

#include <algorithm>
#include <set>

#include "autograd/check.hpp"
#include "autograd/ops.hpp"
#include "tests/support/held.hpp"
#include "tests/support/op_table.hpp"
#include "tests/support/process.hpp"

// Compares the gradients of all ops with differences, and tests the checker itself.
namespace tapestry {
namespace {

const std::vector<OpRow>& table() {
  static const std::vector<OpRow> rows = [] {
    std::vector<OpRow> all;
    for (const auto& part :
         {unary_ops(), arithmetic_ops(), reduce_ops(), shaping_ops(), indexing_ops(), softmax_ops(),
          matmul_ops(), model_ops(), attention_ops(), rotary_ops(), scan_ops(), gated_ops(),
          linear_attention_ops(), graph_ops(), convolution_ops(), loss_ops()})
      all.insert(all.end(), part.begin(), part.end());
    return all;
  }();
  return rows;
}

TEST_SUITE_BEGIN("gradcheck");

TEST_CASE("gradcheck: every row of the table has the gradient of its function") {
  for (const OpRow& row : table()) {
    CAPTURE(row.name);
    for (const GradcheckResult& result : gradcheck(row.f, row.inputs, row.options)) {
      CAPTURE(result.name);
      CHECK(result.passed);
      CHECK(result.error <= 1e-6);
    }
  }
}

TEST_CASE("gradcheck: a dry run of each row holds as many bytes as the computation") {
  for (const OpRow& row : table()) {
    CAPTURE(row.name);
    std::vector<Tensor> inputs;
    for (const Array& input : row.inputs)
      inputs.push_back(input.dtype() == DType::int32 ? Tensor(input) : Tensor::variable(input));
    const auto run = [&] { differentiate([&] { return row.f(inputs); }); };
    const std::int64_t held = bytes_held_by(run);
    CHECK(held > 0);
    CHECK(bytes_in_dry_run(run) == held);
  }
}

TEST_CASE("bug: an op of an empty Tensor crashed") {
  const std::set<std::string> ops = declared_ops();
  for (const OpRow& row : table())
    for (std::size_t i = 0; i < row.inputs.size(); ++i) {
      CAPTURE(row.name);
      CAPTURE(i);
      std::vector<Tensor> inputs(row.inputs.begin(), row.inputs.end());
      inputs[i] = Tensor();
      const bool is_optional =
          (i == 1 && row.op() == "neighbor_sum") ||
          (i == 2 && (row.op().ends_with("linear") || row.op().ends_with("convolution2d") ||
                      row.op() == "tanh_recurrence" || row.op() == "lstm")) ||
          (i >= 2 && row.op() == "gru") || (i == 3 && row.op() == "linear_attention");
      const std::string message = misuse_of([&] { row.f(inputs); });
      CAPTURE(message);
      if (is_optional && message == "no std::invalid_argument") continue;
      CHECK(ops.contains(message.substr(0, message.find(':'))));  // a row may call other ops first
      CHECK(contains(message, "()"));
    }
}

TEST_CASE("gradcheck: every op of autograd/ops has a row in the table") {
  const std::set<std::string> declared = declared_ops();
  std::set<std::string> tested;
  for (const OpRow& row : table()) tested.insert(row.op());
  CHECK(declared.contains("scaled_dot_product_attention"));
  CHECK(declared.size() >= 33);
  for (const std::string& name : declared) CHECK_MESSAGE(tested.contains(name), name);
  for (const std::string& name : tested) CHECK_MESSAGE(declared.contains(name), name);
}

// --- the checker itself ---

// y = x² for a matrix x with the gradient 2 x dy, which `spoil` may damage.
Function square(const std::function<void(std::span<double>)>& spoil) {
  return [spoil](In in) {
    const Array x = in[0].value();
    Array y(x.shape(), DType::float64);
    std::ranges::transform(x.values<double>(), y.mutable_values<double>().begin(),
                           [](double v) { return v * v; });
    return record("square", y, {in[0]}, [x, spoil](const Array& gradient, InputGradients& into) {
      Array dx(x.shape(), DType::float64);
      std::ranges::transform(x.values<double>(), gradient.values<double>(),
                             dx.mutable_values<double>().begin(),
                             [](double v, double g) { return 2 * v * g; });
      spoil(dx.mutable_values<double>());
      into.add(0, dx);
    });
  };
}

// Returns the same with a gradient that is `factor` times as large.
Function scaled(double factor) {
  return square([factor](auto dx) {
    for (double& g : dx) g *= factor;
  });
}

// Returns f(f(x)), without the gradient by one of the two uses of x.
Tensor forgetful_product(In in) {
  const Array x = in[0].value();
  return record("forgetful", multiply(Tensor(x), Tensor(x)).value(), {in[0]},
                [x](const Array& gradient, InputGradients& into) {
                  into.add(0, multiply(Tensor(gradient), Tensor(x)).value());
                });
}

// Returns a · b for square matrices, with the wrong gradient dA = dC B in place of dC Bᵀ.
Tensor untransposed_matmul(In in) {
  const Array a = in[0].value(), b = in[1].value();
  return record("untransposed", matmul(Tensor(a), Tensor(b)).value(), {in[0], in[1]},
                [a, b](const Array& gradient, InputGradients& into) {
                  into.add(0, matmul(Tensor(gradient), Tensor(b)).value());
                  into.add(1, matmul(Tensor(a), Tensor(gradient), {.transpose_a = true}).value());
                });
}

const GradcheckOptions only_projections{.jacobian_limit = 0};
const GradcheckOptions only_jacobian{.directions = 0};

TEST_CASE("gradcheck: finds wrong gradients, by projections and by the Jacobian alone") {
  const Array x = apart({4, 4});
  const std::vector<OpRow> planted = {
      {"0.05 % too much", scaled(1.0005), {x}},
      {"0.05 % too little", scaled(0.9995), {x}},
      {"0.05 % in the first element", square([](auto dx) { dx[0] *= 1.0005; }), {x}},
      {"0.05 % in a middle element", square([](auto dx) { dx[7] *= 1.0005; }), {x}},
      {"wrong sign", scaled(-1), {x}},
      {"wrong sign of one element", square([](auto dx) { dx[3] = -dx[3]; }), {x}},
      {"no gradient", scaled(0), {x}},
      {"two elements swapped", square([](auto dx) { std::swap(dx[1], dx[2]); }), {x}},
      {"NaN", square([](auto dx) { dx[5] = std::nan(""); }), {x}},
      {"infinity", square([](auto dx) { dx[5] = infinity; }), {x}},
      {"missing term", forgetful_product, {x}},
      {"not recorded", [](In in) { return multiply(in[0], in[0].value()); }, {x}},
      {"transposed", untransposed_matmul, {apart({3, 3}), apart({3, 3})}},
  };
  for (const OpRow& row : planted) {
    CAPTURE(row.name);
    CHECK_FALSE(gradcheck(row.f, row.inputs, only_projections)[0].passed);
    CHECK_FALSE(gradcheck(row.f, row.inputs, only_jacobian)[0].passed);
    CHECK(gradcheck(row.f, row.inputs)[0].error > 1e-6);
  }
  // The other input's gradient is correct, and is not reported.
  CHECK(gradcheck(untransposed_matmul, {apart({3, 3}), apart({3, 3})})[1].passed);
}

TEST_CASE("gradcheck: checks all parameters at once, and names the last wrong one") {
  std::vector<Parameter> chain;
  std::vector<Parameter*> pointers;
  for (int i = 0; i < 5; ++i)
    chain.emplace_back(Array::of(std::vector{0.9, -1.1, 1.2, 0.8}, {4}), Role::weight);
  for (int i = 0; i < 5; ++i) {
    chain[i].name = std::to_string(i);
    pointers.push_back(&chain[i]);
  }
  const auto spoiled = square([](auto dx) { dx[1] *= 1.0005; });
  for (int wrong = -1; wrong < 5; ++wrong) {
    CAPTURE(wrong);
    const auto loss = [&] {
      Tensor x = Array::full({4}, 1, DType::float64);
      for (int i = 0; i < 5; ++i) {
        x = x * chain[i].tensor;
        if (i == wrong) x = spoiled({x});
      }
      return sum(x);
    };
    const std::vector<double> before = doubles(chain[2].value());
    const GradcheckResult result = gradcheck_together(loss, pointers);
    CHECK(result.passed == (wrong < 0));
    CHECK(result.name == (wrong < 0 ? "" : std::to_string(wrong)));
    CHECK(doubles(chain[2].value()) == before);
  }
}

TEST_CASE("gradcheck: finds an error of 0.05 % in a small gradient and in a long one") {
  const Function spoiled = scaled(1.0005);
  const auto small = [&](In in) { return scale(spoiled(in), 1e-3); };
  CHECK_FALSE(gradcheck(small, {apart({4, 4})}, only_projections)[0].passed);
  CHECK_FALSE(gradcheck(small, {apart({4, 4})}, only_jacobian)[0].passed);
  const auto average = [&](In in) { return mean(spoiled(in)); };
  CHECK_FALSE(gradcheck(average, {normal({100, 100})})[0].passed);
  const auto one = square([](auto dx) { dx[17] *= 1.0005; });
  CHECK_FALSE(gradcheck(one, {Array::full({1000}, 1, f64)}, only_projections)[0].passed);
}

TEST_CASE("gradcheck: accepts correct gradients, by projections and by the Jacobian alone") {
  const std::vector<OpRow> right = {
      {"square", square([](auto) {}), {apart({4, 4})}},
      {"small", [](In in) { return scale(in[0] * in[0], 1e-3); }, {apart({4, 4})}},
      {"zero", [](In in) { return scale(in[0], 0); }, {apart({4, 4})}},
      {"unused input", [](In in) { return in[0] * in[0]; }, {apart({4, 4}), apart({2})}},
      {"constant", [](In) { return Tensor(Array::zeros({2}, f64)); }, {apart({4, 4})}},
      {"the input itself", [](In in) { return in[0]; }, {apart({4, 4})}},
  };
  for (const OpRow& row : right)
    for (const GradcheckOptions& options : {only_projections, only_jacobian, GradcheckOptions{}}) {
      CAPTURE(row.name);
      const auto results = gradcheck(row.f, row.inputs, options);
      CHECK(results.size() == row.inputs.size());
      for (const GradcheckResult& result : results) CHECK(result.passed);
    }
}

TEST_CASE("bug: gradcheck refused correct gradients that are small relative to the loss") {
  const auto checked = [](double factor, const GradcheckOptions& options) {
    const auto small = [&](In in) {
      return sum(scale(scaled(factor)(in), 1e-3)) + Array::full({}, 1e5, f64);
    };
    return gradcheck(small, {apart({4, 4})}, options)[0];
  };
  for (const GradcheckOptions& options : {only_projections, only_jacobian}) {
    CHECK(checked(1, options).passed);
    CHECK_FALSE(checked(1.01, options).passed);
  }
}

TEST_CASE("gradcheck: names and checks parameters, and restores them exactly") {
  Parameter weight(apart({3, 4}), Role::weight), bias(apart({3}), Role::bias);
  weight.name = "layer.weight", bias.name = "layer.bias";
  const Array x = apart({2, 4}), before = weight.value().clone();
  const auto loss = [&] { return mean(square([](auto) {})({linear(x, weight, bias)})); };
  const auto results = gradcheck_parameters(loss, {&weight, &bias});
  REQUIRE(results.size() == 2);
  CHECK(results[0].name == "layer.weight");
  CHECK(results[1].name == "layer.bias");
  CHECK((results[0].passed && results[1].passed));
  CHECK(std::ranges::equal(before.values<double>(), weight.value().values<double>()));

  const auto fails = [&]() -> Tensor { throw std::runtime_error("broken"); };
  CHECK_THROWS_AS(gradcheck_parameters(fails, {&weight}), std::runtime_error);
  int calls = 0;
  const auto fails_later = [&] {
    if (++calls == 3) throw std::runtime_error("broken");
    return loss();
  };
  CHECK_THROWS_AS(gradcheck_parameters(fails_later, {&weight}), std::runtime_error);
  CHECK(std::ranges::equal(before.values<double>(), weight.value().values<double>()));

  const auto spoiled = [&] {
    return mean(square([](auto dx) { dx[0] *= 1.0005; })({linear(x, weight, bias)}));
  };
  CHECK_FALSE(gradcheck_parameters(spoiled, {&weight, &bias})[0].passed);
  Parameter fixed(apart({3}), Role::fixed);
  CHECK(gradcheck_parameters([&] { return sum(bias.tensor * fixed.tensor); }, {&bias, &fixed})
            .size() == 1);

  weight.convert(DType::float32);
  CHECK_THROWS_WITH_AS(gradcheck_parameters(loss, {&weight}),
                       doctest::Contains("layer.weight is float32 (3, 4); expected float64"),
                       std::invalid_argument);
}

// --- kinks ---

// A feed-forward network of the size of a translation model's: each step crosses a kink of one of
// its features.
struct WideNetwork {
  Parameter expand{normal({1024, 64}), Role::weight}, bias{normal({1024}), Role::bias};
  Parameter contract{normal({64, 1024}), Role::weight};
  Array x = normal({96, 64}), wanted = normal({96, 64});

  WideNetwork() { expand.name = "expand", bias.name = "bias", contract.name = "contract"; }

  std::vector<GradcheckResult> check(const std::function<Tensor(const Tensor&)>& bend) {
    const auto loss = [&] {
      const Tensor y = linear(bend(linear(x, expand, bias)), contract);
      return scale(sum(squared_error(y, wanted)), 1e-3);
    };
    return gradcheck_parameters(loss, {&expand, &bias, &contract},
                                {.directions = 2, .jacobian_limit = 0});
  }
};

TEST_CASE("bug: gradcheck refused correct gradients of a wide network with kinks") {
  WideNetwork network;
  const auto right = network.check(relu);
  for (const GradcheckResult& result : right) {
    CAPTURE(result.name);
    CHECK(result.passed);
  }
  CHECK(right[0].held > 0);   // a step of the first weights moves features across their kink
  CHECK(right[2].held == 0);  // a step of the last weights does not
}

TEST_CASE("gradcheck: finds an error of 0.05 % in a wide network with kinks") {
  // Returns relu with a gradient that is 0.05 % too large, for all features or one in eight.
  const auto spoiled = [](std::int64_t every) {
    return [every](const Tensor& x) {
      const Tensor y = relu(x);
      return record("spoiled", y.value(), {y}, [every](const Array& dy, InputGradients& into) {
        Array dx = dy.clone();
        const auto values = dx.mutable_values<double>();
        for (std::size_t i = 0; i < values.size(); i += every) values[i] *= 1.0005;
        into.add(0, dx);
      });
    };
  };
  for (const std::int64_t every : {1, 8}) {
    const auto results = WideNetwork().check(spoiled(every));
    CHECK_FALSE(results[0].passed);
    CHECK_FALSE(results[1].passed);
    CHECK(results[2].passed);  // its gradient does not pass the wrong one
  }
}

TEST_CASE("gradcheck: each piecewise op keeps the branches of the point") {
  // Elements at the kink, or less than a step from it.
  const Array near = row({-1e-5, 1e-5, 0, 3e-6, -3e-6, 0.5}).reshaped({2, 3});
  const Array offsets = ints({0, 2}, {2});
  const std::vector<OpRow> rows{
      {"relu", [](In in) { return relu(in[0]); }, {near}},
      {"leaky_relu", [](In in) { return leaky_relu(in[0], 0.2); }, {near}},
      {"max of rows", [](In in) { return max(in[0], {1}); }, {near}},
      {"max of columns", [](In in) { return max(in[0], {0}); }, {near}},
      {"edge_softmax",
       [](In in) {
         return edge_softmax(Adjacency(2, {{0, 1}, {1, 1}}), in[0], in[0], 0.2);
       },
       {near}},
      {"segment_max", [=](In in) { return segment_max(in[0], offsets); }, {near}},
      {"a chain", [](In in) { return max(relu(in[0]) * relu(scale(in[0], 2)), {1}); }, {near}},
  };
  for (const OpRow& row : rows)
    for (const GradcheckOptions& options : {only_projections, only_jacobian}) {
      CAPTURE(row.name);
      const auto results = gradcheck(row.f, row.inputs, options);
      CHECK(results[0].passed);
      CHECK(results[0].held > 0);
    }
  // A denominator of linear attention close to its floor.
  const auto floored = [](In in) {
    return linear_attention(in[0], in[1], in[2], {}, {.causal = true, .floor = 1});
  };
  const Array q = row({1.00001, 0.99999}).reshaped({1, 1, 1, 2});
  const auto results =
      gradcheck(floored, {q, Array::full({1, 1, 1, 2}, 1, f64), normal({1, 2, 3})});
  for (const GradcheckResult& result : results) CHECK(result.passed);
  CHECK(results[0].held > 0);
}

TEST_CASE("gradcheck: refuses a function that computes other ops at each call") {
  int calls = 0;
  const Function fickle = [&](In in) { return ++calls > 1 ? relu(relu(in[0])) : relu(in[0]); };
  CHECK_THROWS_AS(gradcheck(fickle, {apart({2})}), std::invalid_argument);
}

TEST_SUITE_END();

}  // namespace
}  // namespace tapestry
