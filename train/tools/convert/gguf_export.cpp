#include "train/tools/convert/gguf_export.hpp"

#include <fmt/ranges.h>

#include <algorithm>
#include <filesystem>

#include "train/config/keys.hpp"
#include "train/run/new_folder.hpp"
#include "train/tasks/transformer_keys.hpp"
#include "train/tools/convert/architectures.hpp"
#include "train/tools/convert/gguf_file.hpp"
#include "train/tools/convert/gguf_rotary.hpp"
#include "train/tools/convert/gguf_tokens.hpp"
#include "train/tools/convert/tensor_names.hpp"

namespace tapestry {
namespace {

// llama.cpp's numbers of how most of a file's tensors are stored.
std::uint32_t file_type(GgufType type) {
  switch (type) {
    case GgufType::f32:
      return 0;
    case GgufType::f16:
      return 1;
    case GgufType::q8_0:
      return 7;
  }
  throw_unhandled("GgufType");
}

std::vector<GgufField> general_fields(const Config& config, Architecture architecture,
                                      GgufType stored) {
  constexpr std::uint32_t quantization_version = 2;
  return {{"general.architecture", model_type_of(architecture)},
          {"general.type", std::string("model")},
          {"general.name", config[key::name]},
          {"general.file_type", file_type(stored)},
          {"general.quantization_version", quantization_version}};
}

std::vector<GgufField> model_fields(const Config& config, Architecture architecture,
                                    std::int64_t vocabulary) {
  const std::string prefix = model_type_of(architecture) + ".";
  std::vector<GgufField> fields;
  const auto number = [&](const char* name, std::int64_t value) {
    fields.push_back({prefix + name, static_cast<std::uint32_t>(value)});
  };
  const auto real = [&](const char* name, double value) {
    fields.push_back({prefix + name, static_cast<float>(value)});
  };
  const HeadCounts counts = head_counts(config);
  const std::int64_t hidden = config[key::feed_forward];
  number("vocab_size", vocabulary);
  number("context_length", config[key::context]);
  number("embedding_length", config[key::width]);
  number("block_count", config[key::layers]);
  number("feed_forward_length", hidden > 0 ? hidden : 4 * config[key::width]);
  number("attention.head_count", counts.heads);
  if (architecture == Architecture::gpt2) {
    real("attention.layer_norm_epsilon", config[key::norm_epsilon]);
    return fields;
  }
  number("attention.head_count_kv", counts.key_value_heads);
  number("attention.key_length", counts.head_width);
  number("attention.value_length", counts.head_width);
  real("attention.layer_norm_rms_epsilon", config[key::norm_epsilon]);
  number("rope.dimension_count", counts.head_width);
  real("rope.freq_base", config[key::rotary_base]);
  return fields;
}

// How its positions turn.
RotaryForm rotary_of(const Config& config) {
  return transformer_options(config, 1, config[key::context]).block.attention.rotary;
}

// As llama.cpp's own converter stores them.
GgufType type_of(const std::string& name, const Shape& shape, GgufType stored) {
  if (shape.rank() == 1 || name == "position_embd.weight") return GgufType::f32;
  return stored == GgufType::q8_0 && shape[-1] % gguf_block != 0 ? GgufType::f16 : stored;
}

// The tensors of a file, and what each is made of when it is written.
struct GgufContents {
  struct Source {
    TensorPlace place{};
    const Parameter* parameter = nullptr;  // null: `array` is it
    Array array{};
  };
  std::vector<GgufTensor> tensors{};
  std::vector<Source> sources{};
  std::vector<std::string> unquantised{};  // stored in float16 where the others are in q8_0

  Array operator()(std::size_t tensor) const {
    const Source& source = sources[tensor];
    return source.parameter ? to_published(source.place, source.parameter->value()) : source.array;
  }
};

GgufContents contents_of(const Config& config, Module& model, Architecture architecture,
                         GgufType stored) {
  GgufContents contents;
  const RotaryForm rotary = rotary_of(config);
  if (rotary.scaling) {
    const Array factors = rotary_factors(head_counts(config).head_width, rotary);
    contents.tensors.push_back({rotary_factors_name, GgufType::f32, factors.shape()});
    contents.sources.push_back({.array = factors});
  }
  for (const Parameter* parameter : model.parameters()) {
    const Shape ours = parameter->value().shape();
    const std::vector<TensorPlace> places = gguf_places_of(
        architecture, parameter->name, ours, head_counts(config), turns_neighbours(config));
    require(!places.empty(), "export: {} has no parameter {}", to_string(architecture),
            parameter->name);
    for (const TensorPlace& place : places) {
      const Shape shape = place.shape(ours);
      const GgufType type = type_of(place.theirs, shape, stored);
      if (stored == GgufType::q8_0 && type == GgufType::f16)
        contents.unquantised.push_back(place.theirs);
      contents.tensors.push_back({place.theirs, type, shape});
      contents.sources.push_back({.place = place, .parameter = parameter});
    }
  }
  return contents;
}

const LanguageModel& transformer_of(const TrainedModel& trained) {
  const auto* task = language_model_of(*trained.task);
  expect_input(task != nullptr,
               "--format gguf: {} = \"{}\": llama.cpp runs only a language-model; --format "
               "safetensors takes the weights out of any model",
               key::task.name, trained.config[key::task]);
  expect_input(std::holds_alternative<Transformer>(task->network()),
               "--format gguf: model.kind = \"recurrent\": expected \"transformer\"; --format "
               "safetensors takes the weights out of any model");
  return *task;
}

}  // namespace

GgufExport export_gguf(const TrainedModel& trained, const std::string& path, GgufType stored) {
  expect_new_file(path);
  const Config& config = trained.config;
  const LanguageModel& task = transformer_of(trained);
  const Architecture architecture = gguf_architecture_of(config);
  GgufTokens tokens = gguf_tokens(task);
  std::vector<GgufField> fields = general_fields(config, architecture, stored);
  const auto add = [&](const std::vector<GgufField>& more) {
    fields.insert(fields.end(), more.begin(), more.end());
  };
  add(model_fields(config, architecture, task.vocabulary()));
  if (const auto scaling = rotary_of(config).scaling) add(rotary_scaling_fields(*scaling));
  add(tokens.fields);
  const GgufContents contents = contents_of(config, trained.task->model(), architecture, stored);
  write_gguf(path, fields, contents.tensors, contents);
  GgufExport made{to_string(architecture), std::move(tokens.notes)};
  if (!contents.unquantised.empty())
    made.notes.push_back(fmt::format("in float16, for their rows are no whole blocks of {}: {}",
                                     gguf_block, fmt::join(contents.unquantised, ", ")));
  return made;
}

}  // namespace tapestry
