#pragma once

#include "layers/models/memory_network.hpp"
#include "train/config/settings.hpp"

namespace tapestry {

// Returns the settings of a memory, which is a member of a task's options.
template <class S>
std::vector<Bound<S>> memory_settings(MemoryOptions S::*memory) {
  using Row = Bound<S>;
  const Condition is_forgetting = key_is("model.memory", "forgetting");
  const auto decay = within(memory, &MemoryOptions::decay);
  return {Row("model.memory", within(memory, &MemoryOptions::kind), "kind of memory",
              {{"sum", MemoryKind::sum},
               {"forgetting", MemoryKind::forgetting},
               {"recurrent", MemoryKind::recurrent},
               {"gated", MemoryKind::gated},
               {"sigmoid-attention", MemoryKind::sigmoid_attention},
               {"softmax-attention", MemoryKind::softmax_attention},
               {"linear-attention", MemoryKind::linear_attention},
               {"query-key", MemoryKind::query_key},
               {"multi-head", MemoryKind::multi_head}}),
          Row("model.width", within(memory, &MemoryOptions::width),
              "width of an item and of the memory", {.low = 1, .high = 65536}),
          Row("model.heads", within(memory, &MemoryOptions::heads),
              "heads of multi-head; must divide model.width",
              {.low = 1, .high = 1024, .used_if = {key_is("model.memory", "multi-head")}}),
          Row("model.gamma", within(decay, &ExponentialForgetting::Options::gamma),
              "γ of forgetting: the share of the memory that remains after a step",
              {.low = 1e-3, .high = 0.999, .used_if = {is_forgetting}}),
          Row("model.learn_gamma", within(decay, &ExponentialForgetting::Options::learn),
              "learn one γ per column", {.used_if = {is_forgetting}})};
}

// Returns the synthetic data of a split, whose options the settings contain.
template <class Data, class Options, class S>
Data synthetic_data(const SettingsOf<S>& settings, const Config& config, Split split) {
  const Given<S> given = settings.of(config);
  given.expect_no_path();
  Options options = given;
  options.split = split;
  if (split != Split::train) options.examples = given.held_back;
  return given.checked([&] { return Data(options); });
}

}  // namespace tapestry
