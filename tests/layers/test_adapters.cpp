#include <doctest/doctest.h>

#include "autograd/ops.hpp"
#include "layers/adapters.hpp"
#include "layers/models/encoder_decoder.hpp"
#include "tests/support/layer_table.hpp"

namespace tapestry {
namespace {

const Strings all_of_llama = {"query", "key", "value", "output", "gate", "up", "contract"};

const AdapterOptions two_ranks{.rank = 2, .scale = 1.5, .targets = {"query", "value"}};

// Returns a small Llama with adapters that are not 0.
Transformer adapted(const AdapterOptions& options, DType dtype = f64) {
  Random r = init();
  TransformerOptions llama = tiny;
  llama.block = llama_block;
  Transformer model(llama, r);
  add_adapters(model, options, r);
  randomised(model, dtype);
  return model;
}

const Array tokens = ints({4, 0, 2, 4, 4, 1}, {2, 3}), targets = ints({1, 2, 0, 3, -1, 4}, {2, 3});

void fix_all_but_adapters(Module& model) {
  for (Parameter* parameter : model.parameters())
    if (parameter->name.find(".lora.") == std::string::npos) parameter->fix();
}

}  // namespace

std::vector<LayerRow> adapter_layers() {
  const auto loss = [](const Transformer& model, In) {
    Random noise(1, Stream::dropout);
    return cross_entropy(model.forward(tokens, &noise), targets);
  };
  Random r = init();
  Linear linear(5, 6, r);
  linear.adapters.emplace_back(Adapter::Place{"lora.low", 0, 2, 1}, 5, r);
  linear.adapters.emplace_back(Adapter::Place{"lora.high", 3, 3, 2}, 5, r);
  linear.adapter_scale = 0.5;
  return {
      make_row("Adapter", Adapter({.rows = 3, .rank = 2}, 5, r),
               [](const Adapter& change, In x) {
                 return add_low_rank(x[0], x[1], {{change.a, change.b, change.first_row}}, 1);
               },
               {normal({2, 3}), normal({2, 5})}),
      make_row("Linear: adapters", std::move(linear), forward, {normal({2, 3, 5})}),
      make_row("Transformer: adapters", adapted({.rank = 2, .targets = all_of_llama}), loss, {}),
      make_row("Transformer: adapters with dropout",
               adapted({.rank = 2, .dropout = 0.3, .targets = {"query_key_value", "expand"}}), loss,
               {}),
  };
}

TEST_SUITE_BEGIN("adapters");

TEST_CASE("adapters: the low-rank op equals the composition of ops") {
  const Tensor x = normal({2, 3, 5}), weight = normal({7, 5}), a = normal({2, 5}),
               b = normal({3, 2}), other_a = normal({1, 5}), other_b = normal({2, 1});
  const Tensor changed =
      add_low_rank(linear(x, weight), x, {{a, b, 1}, {other_a, other_b, 5}}, 0.75);
  const Tensor none = Array::zeros({1, 5}, f64), gap = Array::zeros({1, 5}, f64);
  const Tensor whole =
      weight + 0.75 * concat({none, matmul(b, a), gap, matmul(other_b, other_a)}, 0);
  check_close(changed.value(), linear(x, whole).value());
}

TEST_CASE("adapters: memory that y shares is not overwritten") {
  const Tensor y = normal({3, 4});
  const Array before = y.value().clone();
  add_low_rank(y, normal({3, 2}), {{normal({1, 2}), normal({4, 1})}}, 1);
  CHECK(same_bits(y.value(), before));
}

TEST_CASE("adapters: new adapters change no output, and have the rows of their target") {
  Random r = init();
  TransformerOptions llama = tiny;
  llama.block = llama_block;
  Transformer model(llama, r);
  const Array before = model.forward(tokens).value();
  add_adapters(model, {.rank = 2, .targets = {"value", "contract", "up"}}, r);
  check_close(model.forward(tokens).value(), before, 0);
  Strings added;
  for (const Parameter* parameter : model.parameters())
    if (parameter->name.starts_with("blocks.1.") &&
        parameter->name.find("lora") != std::string::npos)
      added.push_back(parameter->name + " " + to_string(parameter->tensor.shape()));
  CHECK(added == Strings{"blocks.1.attention.query_key_value.lora.value.a (2, 4)",
                         "blocks.1.attention.query_key_value.lora.value.b (2, 2)",
                         "blocks.1.feed_forward.expand.lora.up.a (2, 4)",
                         "blocks.1.feed_forward.expand.lora.up.b (6, 2)",
                         "blocks.1.feed_forward.contract.lora.a (2, 6)",
                         "blocks.1.feed_forward.contract.lora.b (4, 2)"});
}

TEST_CASE("adapters: each target adapts the layers of its name") {
  for (const std::string& target : all_of_llama) {
    CAPTURE(target);
    Transformer model = adapted({.rank = 1, .targets = {target}});
    const Array with = model.forward(tokens).value();
    for (Linear* linear : adapted_linears(model)) linear->adapters.clear();
    CHECK(distance(model.forward(tokens).value(), with) > 1e-3);
  }
}

TEST_CASE("adapters: merging keeps the model's outputs") {
  for (const Strings& names :
       {all_of_llama, Strings{"query_key_value", "expand"}, Strings{"query", "value"}}) {
    Transformer model = adapted({.rank = 2, .scale = 0.7, .dropout = 0.5, .targets = names});
    const Array before = model.forward(tokens).value();
    merge_adapters(model);
    CHECK(!has_adapters(model));
    check_close(model.forward(tokens).value(), before, 1e-12);
  }
}

TEST_CASE("adapters: cross-attention of an encoder-decoder has adapters, too") {
  Random r = init();
  EncoderDecoder model({.source_vocabulary = 5,
                        .target_vocabulary = 5,
                        .source_context = 4,
                        .target_context = 3,
                        .encoder_layers = 1,
                        .decoder_layers = 1,
                        .block = {.width = 4, .attention = {.heads = 2}}},
                       r);
  add_adapters(model, two_ranks, r);
  const Strings all = names(model);
  for (const char* name : {"encoder.0.attention.query_key_value.lora.query.a",
                           "decoder.0.attention.query_key_value.lora.value.b",
                           "decoder.0.cross_attention.query.lora.a",
                           "decoder.0.cross_attention.key_value.lora.value.b"})
    CHECK_MESSAGE(std::ranges::count(all, name) == 1, name);
}

TEST_CASE("adapters: fixed weights have no gradient, and those of adapters do not depend on it") {
  Transformer whole = adapted(two_ranks), fixed = adapted(two_ranks);
  fix_all_but_adapters(fixed);
  const auto gradients = [](Transformer& model) {
    Tape tape;
    return tape.backward(cross_entropy(model.forward(tokens), targets));
  };
  const Gradients all = gradients(whole), own = gradients(fixed);
  const std::vector<Parameter*> parameters = fixed.parameters(), others = whole.parameters();
  for (std::size_t i = 0; i < parameters.size(); ++i) {
    CAPTURE(parameters[i]->name);
    const bool adapts = parameters[i]->role != Role::fixed;
    REQUIRE((own.find(*parameters[i]) != nullptr) == adapts);
    if (adapts) CHECK(same_bits(own[*parameters[i]], all[*others[i]]));
  }
}

TEST_CASE("adapters: recomputing blocks keeps the bits") {
  Transformer once = adapted({.rank = 2, .dropout = 0.3, .targets = all_of_llama}, f32),
              again = adapted({.rank = 2, .dropout = 0.3, .targets = all_of_llama}, f32);
  again.options.recompute_blocks = true;
  std::vector<Array> found[2];
  for (Transformer* model : {&once, &again}) {
    fix_all_but_adapters(*model);
    Random noise(1, Stream::dropout);
    Tape tape;
    const Gradients gradients =
        tape.backward(cross_entropy(model->forward(tokens, &noise), targets));
    for (const Parameter* parameter : model->parameters())
      if (parameter->role != Role::fixed) found[model == &again].push_back(gradients[*parameter]);
  }
  REQUIRE(found[0].size() == 28);
  for (std::size_t i = 0; i < found[0].size(); ++i) CHECK(same_bits(found[0][i], found[1][i]));
}

TEST_CASE("adapters: wrong targets and ranks are refused") {
  Random r = init();
  Transformer model(tiny, r);
  CHECK_THROWS_WITH(add_adapters(model, {.targets = {"gate"}}, r),
                    doctest::Contains("unknown target gate"));
  CHECK_THROWS_WITH(add_adapters(model, {.targets = {"query", "query_key_value"}}, r),
                    doctest::Contains("query_key_value shares rows"));
  const Tensor y = normal({2, 4}), x = normal({2, 3});
  CHECK_THROWS_WITH(add_low_rank(y, x, {}, 1), doctest::Contains("0 changes"));
  CHECK_THROWS_WITH(add_low_rank(y, x, {{normal({1, 3}), normal({2, 1}), 3}}, 1),
                    doctest::Contains("at row 3"));
  CHECK_THROWS_WITH(add_low_rank(y, normal({3, 3}), {{normal({1, 3}), normal({2, 1})}}, 1),
                    doctest::Contains("y (2, 4) with x (3, 3)"));
}

TEST_SUITE_END();

}  // namespace tapestry
