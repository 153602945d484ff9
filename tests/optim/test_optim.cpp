#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <deque>
#include <numbers>

#include "autograd/check.hpp"
#include "autograd/kernels/broadcast.hpp"
#include "autograd/ops.hpp"
#include "autograd/random.hpp"
#include "autograd/tape.hpp"
#include "layers/models/transformer.hpp"
#include "optim/adam.hpp"
#include "optim/averaged_weights.hpp"
#include "optim/clip.hpp"
#include "optim/muon.hpp"
#include "optim/schedule.hpp"
#include "optim/schedule_free.hpp"
#include "optim/sgd.hpp"
#include "tests/support/arrays.hpp"
#include "tests/support/golden.hpp"
#include "tests/support/run_fixture.hpp"
#include "tests/support/tensor_files.hpp"

namespace tapestry {
namespace {

// Parameters "0", "1", … with the given values, at fixed addresses.
struct Parameters {
  std::deque<Parameter> all;
  std::vector<Parameter*> pointers;

  Parameter& add(const Array& value, Role role = Role::weight) {
    all.emplace_back(value.clone(), role).name = std::to_string(pointers.size());
    pointers.push_back(&all.back());
    return all.back();
  }
};

// Returns the given gradients, one per parameter.
Gradients gradients_of(const std::vector<Parameter*>& parameters,
                       const std::vector<Array>& values) {
  Gradients gradients;
  for (std::size_t i = 0; i < values.size(); ++i)
    gradients += Tape().backward(parameters[i]->tensor, values[i]);
  return gradients;
}

TEST_CASE("optim: a fixed parameter is not updated, and has no state") {
  for (const auto& [name, type] : optimizer_registry()) {
    CAPTURE(name);
    Parameters parameters;
    parameters.add(row({1, 2}));
    const Parameter& fixed = parameters.add(row({3, 4}), Role::fixed);
    const auto optimizer = type.make(parameters.pointers, {{"momentum", 0.9}, {"decay_all", true}});
    Tape tape;
    const Tensor loss = sum(parameters.all[0].tensor * fixed.tensor);
    const Gradients gradients = tape.backward(loss);
    CHECK(gradients.find(fixed) == nullptr);
    optimizer->step(gradients, 0.1);
    CHECK(doubles(fixed.value()) == std::vector<double>{3, 4});
    CHECK(doubles(parameters.all[0].value()) != std::vector<double>{1, 2});
    for (const Optimizer::Slot& slot : optimizer->state()) CHECK(slot.name.ends_with(".0"));
    parameters.all[1].convert(f32);
    CHECK((fixed.tensor.id() == 0 && fixed.tensor.dtype() == f32));
  }
}

TEST_CASE("threads: every registered optimizer has the same bits on 1, 2, 3 and 8 threads") {
  const std::vector<Shape> shapes{{3}, {0}, {100003}, {1}, {130, 127}, {16384}, {5, 5}};
  for (const auto& [name, type] : optimizer_registry())
    for (const DType dtype : {f32, f64}) {
      CAPTURE(name);
      std::vector<Array> first;
      with_threads({1, 2, 3, 8}, [&](int threads) {
        CAPTURE(threads);
        Parameters p;
        std::vector<Array> values, result;
        double squares = 0;
        for (std::size_t i = 0; i < shapes.size(); ++i) {
          p.add(normal(shapes[i], 2 * i, dtype));
          values.push_back(normal(shapes[i], 2 * i + 1, dtype));
          for (const double g : doubles(values[i])) squares += g * g;
        }
        const auto optimizer = type.make(p.pointers, {{"momentum", 0.9}, {"weight_decay", 0.1}});
        const Gradients gradients = gradients_of(p.pointers, values);
        const Clip clipped = clip(gradients, p.pointers, 1);
        CHECK(clipped.norm == doctest::Approx(std::sqrt(squares)).epsilon(1e-12));
        for (int step = 0; step < 3; ++step) optimizer->step(gradients, 0.1, clipped.scale);
        for (const Parameter& parameter : p.all) result.push_back(parameter.value());
        for (const auto& [key, array] : whole_state(*optimizer)) result.push_back(array);
        if (first.empty()) first = result;
        CHECK(std::ranges::equal(result, first, same_bits));
      });
    }
}

// --- schedules ---

TEST_CASE("schedule: learning rates have values computed by hand") {
  const auto check = [](const Schedule& schedule,
                        const std::vector<std::pair<std::int64_t, double>>& rates) {
    for (const auto& [step, rate] : rates) {
      CAPTURE(step);
      CHECK(schedule.at(step) == doctest::Approx(rate).epsilon(1e-12));
    }
  };
  const Schedule constant{.peak = 0.5, .warmup = 4, .steps = 14};
  const Schedule linear{.decay = Decay::linear, .peak = 1, .floor = 0.1, .warmup = 4, .steps = 15};
  const Schedule cosine{.decay = Decay::cosine, .peak = 1, .floor = 0.1, .warmup = 4, .steps = 17};
  const Schedule plain{.decay = Decay::cosine, .peak = 2, .steps = 9};
  const Schedule short_run{.decay = Decay::linear, .peak = 1, .warmup = 9, .steps = 5};
  const Schedule stable{.decay = Decay::stable_linear,
                        .peak = 1,
                        .floor = 0.2,
                        .warmup = 4,
                        .steps = 20,
                        .cooldown = 8};
  const Schedule cooled{
      .decay = Decay::stable_linear, .peak = 1, .warmup = 2, .steps = 6, .cooldown = 100};
  const Schedule inverse{.decay = Decay::inverse_sqrt, .peak = 2, .warmup = 3};
  const Schedule falling{
      .decay = Decay::exponential, .peak = 1, .floor = 0.01, .warmup = 4, .steps = 15};
  const Schedule one{.decay = Decay::cosine, .peak = 3};
  const double root = std::numbers::sqrt2 / 2;
  check(constant, {{0, 0.1}, {3, 0.4}, {4, 0.5}, {13, 0.5}, {1000, 0.5}});
  check(linear, {{0, 0.2}, {3, 0.8}, {4, 1}, {9, 0.55}, {13, 0.19}});
  check(linear, {{14, 0.1}, {1000, 0.1}});  // from the last step on
  check(cosine, {{3, 0.8}, {4, 1}, {10, 0.55}, {12, 0.325}, {16, 0.1}, {17, 0.1}});
  check(cosine, {{7, 0.1 + 0.9 * (1 + root) / 2}, {13, 0.1 + 0.9 * (1 - root) / 2}});
  check(cosine, {{8, 0.775}});                    // cos 60° = 1/2
  check(plain, {{0, 2}, {4, 1}, {8, 0}});         // no warm-up starts at the peak
  check(short_run, {{4, 0.5}, {9, 1}, {10, 0}});  // a warm-up longer than the run
  check(one, {{0, 3}});
  check(falling, {{3, 0.8}, {4, 1}, {9, 0.1}, {14, 0.01}, {1000, 0.01}});
  check(stable, {{3, 0.8}, {4, 1}, {11, 1}, {12, 0.9}, {15, 0.6}});  // step 12 begins the decay
  check(stable, {{19, 0.2}, {1000, 0.2}});                           // from the last step on
  check(cooled, {{1, 2.0 / 3}, {2, 0.75}, {5, 0}});  // the decay begins after the warm-up
  check(inverse, {{2, 1.5}, {3, 2}, {15, 1}, {63, 0.5}});
}

TEST_CASE("schedule: the rate rises in the warm-up, and never after it") {
  for (const Decay decay :
       {Decay::constant, Decay::linear, Decay::cosine, Decay::stable_linear, Decay::inverse_sqrt}) {
    const Schedule schedule{
        .decay = decay, .peak = 1, .floor = 0.2, .warmup = 10, .steps = 60, .cooldown = 20};
    for (std::int64_t step = 1; step < 70; ++step) {
      const double before = schedule.at(step - 1), now = schedule.at(step);
      CAPTURE(step);
      CHECK((step <= 10 ? now > before : now <= before));
      CHECK(now <= 1);
      CHECK((step < 10 || now >= 0.2));
    }
  }
}

// --- clipping ---

TEST_CASE("clip: the norm over all parameters, and the factor down to the limit") {
  for (const DType dtype : {f32, f64}) {
    Parameters p;
    p.add(Array::zeros({2}, dtype));
    p.add(Array::zeros({1}, dtype));
    p.add(Array::zeros({3}, dtype));  // has no gradient
    const Gradients gradients =
        gradients_of(p.pointers, {row({3, -4}).to(dtype), row({12}).to(dtype)});
    for (const auto& [limit, wanted] : std::vector<std::pair<double, double>>{
             {6.5, 0.5}, {1, 1 / 13.0}, {13, 1}, {20, 1}, {0, 1}}) {
      CAPTURE(limit);
      const Clip result = clip(gradients, p.pointers, limit);
      CHECK(result.norm == 13);
      CHECK(result.scale == wanted);
    }
    CHECK(doubles(gradients[*p.pointers[0]]) == std::vector<double>{3, -4});  // measured only
    CHECK(clip(gradients, {}, 1).norm == 0);
  }
}

TEST_CASE("clip: a float32 norm is summed in float64") {
  Parameters p;
  p.add(Array::zeros({3}));
  const Clip result = clip(gradients_of(p.pointers, {row({3e30, 0, 4e30}).to(f32)}), p.pointers, 1);
  CHECK(result.norm == doctest::Approx(5e30).epsilon(1e-6));
}

TEST_CASE("clip: every optimizer applies the factor to the gradients") {
  for (const auto& [name, type] : optimizer_registry())
    for (const DType dtype : {f32, f64}) {
      CAPTURE(name);
      std::vector<Array> after;
      for (const double scale : {0.25, 1.0}) {
        Parameters p;
        p.add(normal({37}, 1, dtype));
        const auto optimizer = type.make(p.pointers, {{"momentum", 0.9}});
        for (std::uint64_t step = 2; step < 5; ++step) {
          const Tensor gradient = normal({37}, step, dtype);
          const Array given = (gradient * (0.25 / scale)).value();
          optimizer->step(gradients_of(p.pointers, {given}), 0.1, scale);
        }
        after.push_back(p.all[0].value());
      }
      CHECK(same_bits(after[0], after[1]));
    }
}

// --- optimizers ---

// With gradients of 0, only decay changes a parameter: by the factor 1 - η λ.
TEST_CASE("optimizer: biases, norms and embeddings decay only with decay_all") {
  CHECK_FALSE(optimizer_registry().at("adam").has("weight_decay"));
  CHECK(optimizer_registry().at("adamw").has("weight_decay"));
  for (const std::string name : {"adam", "adamw", "muon", "schedule_free_adamw", "sgd"})
    for (const bool all : {false, true}) {
      CAPTURE(name);
      CAPTURE(all);
      Parameters p;
      for (const Role role : {Role::weight, Role::head, Role::bias, Role::norm, Role::embedding})
        p.add(row({2}), role);
      optimizer_registry()
          .at(name)
          .make(p.pointers, {{"weight_decay", 0.5}, {"decay_all", all}})
          ->step(gradients_of(p.pointers, std::vector<Array>(5, row({0}))), 0.1);
      for (const Parameter& parameter : p.all) {
        const bool decays = name != "adam" && (all || is_weight(parameter.role));
        CHECK(parameter.value().values<double>()[0] == doctest::Approx(decays ? 1.9 : 2));
      }
    }
}

TEST_CASE("optimizer: settings with the same name agree, and have the options' defaults") {
  std::map<std::string, OptimizerSetting> met;
  for (const auto& [name, type] : optimizer_registry())
    for (const OptimizerSetting& setting : type.settings) {
      CAPTURE(name);
      CAPTURE(setting.name);
      const OptimizerSetting& first = met.try_emplace(setting.name, setting).first->second;
      CHECK((first.fallback == setting.fallback));
      CHECK(first.help == setting.help);
      CHECK(first.range.low == setting.range.low);
      CHECK(first.range.high == setting.range.high);
    }
  CHECK((met.at("beta2").fallback == OptimizerValue(AdamOptions().beta2)));
  CHECK((met.at("decay_all").fallback == OptimizerValue(false)));
}

TEST_CASE("optimizer: the weights of a transformer's Linears decay") {
  Random init(0, Stream::init);
  Transformer model({.vocabulary = 5,
                     .context = 4,
                     .layers = 1,
                     .block = {.width = 4, .attention = {.heads = 2}},
                     .tied_embeddings = false},
                    init);
  const std::vector<Parameter*> parameters = model.parameters();
  std::vector<Array> zeros;
  for (const Parameter* parameter : parameters) {
    parameter->value().copy_from(Array::full(parameter->tensor.shape(), 1));
    zeros.push_back(Array::zeros(parameter->tensor.shape()));
  }
  AdamW(parameters, {.weight_decay = 0.5}).step(gradients_of(parameters, zeros), 0.5);
  Strings decayed;
  for (const Parameter* parameter : parameters)
    if (doubles(parameter->value())[0] != 1) decayed.push_back(parameter->name);
  CHECK(decayed == Strings{"blocks.0.attention.query_key_value.weight",
                           "blocks.0.attention.output.weight",
                           "blocks.0.feed_forward.expand.weight",
                           "blocks.0.feed_forward.contract.weight", "head.weight"});
}

TEST_CASE("optimizer: a parameter without a gradient is named, and no parameter is updated") {
  for (const auto& [name, type] : optimizer_registry()) {
    CAPTURE(name);
    Parameters p;
    p.add(row({1, 2}));
    p.add(row({3})).name = "decoder.0.bias";
    const auto optimizer = type.make(p.pointers, {});
    const Gradients gradients = gradients_of({p.pointers[0]}, {row({1, 1})});
    CHECK_THROWS_WITH_AS(optimizer->step(gradients, 0.1),
                         doctest::Contains("parameter decoder.0.bias (1,) has no gradient"),
                         std::invalid_argument);
    CHECK(doubles(p.all[0].value()) == std::vector<double>{1, 2});
    CHECK(optimizer->steps() == 0);
  }
}

TEST_CASE("bug: a step after the model was moved, or with a rate of NaN, was not refused") {
  Random random(1, Stream::init);
  Linear model(2, 1, random);
  AdamW optimizer(model.parameters(), {});
  const auto step = [&](Linear& of, double rate, double scale) {
    return misuse_of([&] {
      Tape tape;
      optimizer.step(tape.backward(sum(of.forward(Array::full({1, 2}, 1)))), rate, scale);
    });
  };
  CHECK(contains(step(model, std::nan(""), 1), "learning rate nan"));
  CHECK(contains(step(model, 1e-3, std::nan("")), "scale nan"));
  CHECK(step(model, 1e-3, 1) == "no std::invalid_argument");
  Linear moved = std::move(model);
  CHECK(contains(step(moved, 1e-3, 1), "has no values: its model was moved"));
}

TEST_CASE("optimizer: the state has names for checkpoints, and is zero before the first step") {
  const std::map<std::string, Strings> wanted = {
      {"adam", {"first_moment.0", "second_moment.0", "first_moment.1", "second_moment.1"}},
      {"adamw", {"first_moment.0", "second_moment.0", "first_moment.1", "second_moment.1"}},
      {"muon", {"momentum.0", "first_moment.1", "second_moment.1"}},
      {"schedule_free_adamw",
       {"offset.0", "second_moment.0", "offset.1", "second_moment.1", "learning_rates"}},
      {"sgd", {"velocity.0", "velocity.1"}}};
  for (const auto& [name, type] : optimizer_registry()) {
    CAPTURE(name);
    Parameters p;
    p.add(normal({2, 3}, 1));
    p.add(normal({4}, 2, f32));
    Strings names;
    for (const auto& [key, array] : whole_state(*type.make(p.pointers, {}))) {
      names.push_back(key);
      const Parameter& owner = *p.pointers[key.ends_with("1")];
      const bool is_slot = key.ends_with(".0") || key.ends_with(".1");
      CHECK((!is_slot || array.shape() == owner.tensor.shape()));
      CHECK((!is_slot || array.dtype() == owner.tensor.dtype()));
      CHECK(std::ranges::all_of(doubles(array), [](double v) { return v == 0; }));
    }
    CHECK_FALSE(names.empty());
    if (wanted.contains(name)) CHECK(names == wanted.at(name));
  }
}

TEST_CASE("optimizer: continues as another one whose state it loads") {
  for (const auto& [name, type] : optimizer_registry())
    for (const DType dtype : {f32, f64}) {
      CAPTURE(name);
      const OptimizerValues options{{"momentum", 0.9}, {"weight_decay", 0.1}};
      const auto step = [&](Optimizer& optimizer, const Parameters& p, std::uint64_t index) {
        optimizer.step(gradients_of(p.pointers, {normal({5}, 10 + index, dtype),
                                                 normal({2, 3}, 20 + index, dtype)}),
                       0.1, 0.7);
      };
      Parameters p, q;
      p.add(normal({5}, 1, dtype));
      p.add(normal({2, 3}, 2, dtype), Role::bias);
      const auto original = type.make(p.pointers, options);
      for (std::uint64_t i = 0; i < 3; ++i) step(*original, p, i);

      for (const Parameter& parameter : p.all) q.add(parameter.value(), parameter.role);
      const auto resumed = type.make(q.pointers, options),
                 forgetful = type.make(q.pointers, options);
      OptimizerState state = whole_state(*resumed);
      const OptimizerState saved = whole_state(*original);
      REQUIRE(state.size() == saved.size());
      for (std::size_t i = 0; i < state.size(); ++i) {
        CHECK(state[i].first == saved[i].first);
        state[i].second.copy_from(saved[i].second);
      }
      resumed->set_steps(original->steps());
      CHECK(resumed->steps() == 3);
      for (std::uint64_t i = 3; i < 6; ++i) {
        step(*original, p, i);
        step(*resumed, q, i);
        for (std::size_t j = 0; j < 2; ++j) CHECK(same_bits(p.all[j].value(), q.all[j].value()));
      }
      step(*original, p, 6);
      step(*forgetful, q, 6);
      CHECK_FALSE(same_bits(p.all[0].value(), q.all[0].value()));
    }
}

// ½ Σ a (θ - c)² with curvatures a from 0.5 to 2.
TEST_CASE("optimizer: every registered optimizer minimizes a quadratic") {
  for (const auto& [name, type] : optimizer_registry())
    for (const DType dtype : {f32, f64}) {
      CAPTURE(name);
      Parameters p;
      const Parameter& theta = p.add(normal({6}, 1, dtype));
      const Tensor center = normal({6}, 2, dtype), a = row({0.5, 0.8, 1, 1.2, 1.6, 2}).to(dtype);
      const auto optimizer = type.make(p.pointers, {{"momentum", 0.8}});
      const Schedule schedule{.decay = Decay::linear, .peak = 0.1, .steps = 200};
      const auto loss = [&] { return 0.5 * sum(a * squared_error(theta, center)); };
      const double before = loss().item();
      for (std::int64_t step = 0; step < schedule.steps; ++step) {
        Tape tape;
        const Gradients gradients = tape.backward(loss());
        optimizer->step(gradients, schedule.at(step));
      }
      CHECK(before > 1);
      CHECK(loss().item() < (optimizer->averages() ? 1e-3 : 1e-5) * before);  // averages are slow
    }
}

// The paper's x is the average of the trained weights.
TEST_CASE("golden: schedule-free AdamW computes the paper's three sequences") {
  const Golden golden("schedule_free");
  const auto number = [&](const std::string& key) { return golden[key].values<double>()[0]; };
  for (const DType dtype : {f32, f64}) {
    INFO(std::string(to_string(dtype)));
    Parameter y(golden["initial"].to(dtype).clone(), Role::weight);
    ScheduleFreeAdamW optimizer({&y}, {.beta1 = number("beta1"),
                                       .beta2 = number("beta2"),
                                       .epsilon = number("epsilon"),
                                       .weight_decay = number("weight_decay")});
    AveragedWeights x({&y}, 0);
    const Array gradients = golden["gradients"], rates = golden["rates"];
    for (std::int64_t step = 0; step < gradients.dim(0); ++step) {
      CAPTURE(step);
      const auto row = [&](const Array& rows) {
        return rows.part(10 * step, 10 * step + 10).to(dtype);
      };
      optimizer.step(Tape().backward(y.tensor, row(gradients)), rates.values<double>()[step]);
      x.add(optimizer.average_share());
      const double tolerance = dtype == f32 ? 1e-5 : 1e-10;
      CHECK(distance(y.value(), row(golden["y"])) <= tolerance);
      CHECK(distance(x.arrays()[0].second, row(golden["x"])) <= tolerance);
    }
  }
}

const Words free_of_schedules = "optim.name=schedule_free_adamw train.steps=24 train.eval_every=6";

TEST_CASE_FIXTURE(RunFixture,
                  "schedule-free: a resumed run has the same bits, and can be verified") {
  must_train("toy", "whole", free_of_schedules);
  must_train("toy", "run", free_of_schedules + "train.steps=12");
  must_train("toy", "run", free_of_schedules + "--resume");
  check_same_run(*this, "whole", "run");
  check_prints(tapestry_run("verify {}", path("run")), {"bitwise identical"});
  CHECK(find_tensor(read_safetensors(checkpoint("run")), "optimizer.learning_rates"));
}

TEST_CASE_FIXTURE(RunFixture,
                  "schedule-free: a decaying schedule and averaged weights are refused") {
  for (const std::string setting :
       {"optim.schedule=cosine", "optim.schedule=wsd", "train.average_decay=0.9"}) {
    CAPTURE(setting);
    check_fails(train_here("toy", "run", free_of_schedules + Words(setting)),
                {"is not used with optim.name = \"schedule_free_adamw\""});
  }
}

TEST_CASE("averaged weights: have values computed by hand, and are exchanged") {
  Parameter parameter(Array::of(std::vector<double>{1, -2}, {2}), Role::weight);
  parameter.name = "w";
  AveragedWeights average({&parameter}, 0.5);
  const auto set = [&](double x, double y) {
    Array value = parameter.value();
    value.copy_from(Array::of(std::vector<double>{x, y}, {2}));
  };
  set(2, 0);
  average.follow(1);  // keeps (1 + 1) / (10 + 1)
  const double kept = 2.0 / 11;
  const std::vector<double> first = {kept * 1 + (1 - kept) * 2, kept * -2};
  check_close(average.arrays()[0].second, Array::of(first, {2}), 1e-15);
  set(4, 4);
  average.follow(1000);  // keeps 0.5
  const std::vector<double> second = {0.5 * first[0] + 2, 0.5 * first[1] + 2};
  check_close(average.arrays()[0].second, Array::of(second, {2}), 1e-15);

  average.exchange();
  check_close(parameter.value(), Array::of(second, {2}), 1e-15);
  CHECK(doubles(average.arrays()[0].second) == std::vector<double>{4, 4});
  average.exchange();
  CHECK(doubles(parameter.value()) == std::vector<double>{4, 4});
  CHECK(average.arrays()[0].first == "weights.w");
}

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
