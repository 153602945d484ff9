#include "train/tools/convert/tensor_names.hpp"

#include <algorithm>
#include <optional>

#include "autograd/check.hpp"

namespace tapestry {
namespace {

// A module of ours and the modules of other programs that have its rows. "*" is the index of a
// block.
struct ModuleNames {
  std::string_view ours;
  std::vector<std::string_view> huggingface, gguf;
  bool transposed = false;  // weights are transposed in Hugging Face's files
};

const std::vector<ModuleNames>& gpt2_modules() {
  static const std::vector<ModuleNames> modules = {
      {"token_embedding", {"transformer.wte"}, {"token_embd"}},
      {"position_embedding", {"transformer.wpe"}, {"position_embd"}},
      {"blocks.*.attention_norm", {"transformer.h.*.ln_1"}, {"blk.*.attn_norm"}},
      {"blocks.*.attention.query_key_value",
       {"transformer.h.*.attn.c_attn"},
       {"blk.*.attn_qkv"},
       true},
      {"blocks.*.attention.output", {"transformer.h.*.attn.c_proj"}, {"blk.*.attn_output"}, true},
      {"blocks.*.feed_forward_norm", {"transformer.h.*.ln_2"}, {"blk.*.ffn_norm"}},
      {"blocks.*.feed_forward.expand", {"transformer.h.*.mlp.c_fc"}, {"blk.*.ffn_up"}, true},
      {"blocks.*.feed_forward.contract", {"transformer.h.*.mlp.c_proj"}, {"blk.*.ffn_down"}, true},
      {"final_norm", {"transformer.ln_f"}, {"output_norm"}},
      {"head", {"lm_head"}, {"output"}},
  };
  return modules;
}

const std::vector<ModuleNames>& llama_modules() {
  static const std::vector<ModuleNames> modules = {
      {"token_embedding", {"model.embed_tokens"}, {"token_embd"}},
      {"blocks.*.attention_norm", {"model.layers.*.input_layernorm"}, {"blk.*.attn_norm"}},
      {"blocks.*.attention.query_key_value",
       {"model.layers.*.self_attn.q_proj", "model.layers.*.self_attn.k_proj",
        "model.layers.*.self_attn.v_proj"},
       {"blk.*.attn_q", "blk.*.attn_k", "blk.*.attn_v"}},
      {"blocks.*.attention.query_norm", {"model.layers.*.self_attn.q_norm"}, {"blk.*.attn_q_norm"}},
      {"blocks.*.attention.key_norm", {"model.layers.*.self_attn.k_norm"}, {"blk.*.attn_k_norm"}},
      {"blocks.*.attention.output", {"model.layers.*.self_attn.o_proj"}, {"blk.*.attn_output"}},
      {"blocks.*.feed_forward_norm",
       {"model.layers.*.post_attention_layernorm"},
       {"blk.*.ffn_norm"}},
      {"blocks.*.feed_forward.expand",
       {"model.layers.*.mlp.gate_proj", "model.layers.*.mlp.up_proj"},
       {"blk.*.ffn_gate", "blk.*.ffn_up"}},
      {"blocks.*.feed_forward.contract", {"model.layers.*.mlp.down_proj"}, {"blk.*.ffn_down"}},
      {"final_norm", {"model.norm"}, {"output_norm"}},
      {"head", {"lm_head"}, {"output"}},
  };
  return modules;
}

// Returns the number at "*" of the pattern in a name; "" if the pattern has no "*", and nothing if
// the name does not match.
std::optional<std::string> number_in(std::string_view name, std::string_view pattern) {
  const std::size_t star = pattern.find('*');
  if (star == pattern.npos) return name == pattern ? std::optional<std::string>("") : std::nullopt;
  const std::string_view before = pattern.substr(0, star), after = pattern.substr(star + 1);
  if (name.size() <= before.size() + after.size() || !name.starts_with(before) ||
      !name.ends_with(after))
    return std::nullopt;
  const std::string_view number =
      name.substr(before.size(), name.size() - before.size() - after.size());
  const bool is_number = number.find_first_not_of("0123456789") == number.npos;
  return is_number ? std::optional<std::string>(number) : std::nullopt;
}

// The modules of other programs for a module of ours, with the index of its block.
struct FoundModules {
  std::vector<std::string> names{};
  bool transposed = false;
};

FoundModules find_modules(const TensorNames& names, std::string_view module) {
  const bool is_huggingface = names.format == TensorFormat::huggingface;
  for (const ModuleNames& row :
       names.architecture == Architecture::gpt2 ? gpt2_modules() : llama_modules()) {
    const std::optional<std::string> number = number_in(module, row.ours);
    if (!number) continue;
    FoundModules found{.transposed = row.transposed && is_huggingface};
    for (const std::string_view pattern : is_huggingface ? row.huggingface : row.gguf) {
      std::string& name = found.names.emplace_back(pattern);
      if (const std::size_t star = name.find('*'); star != name.npos)
        name.replace(star, 1, *number);
    }
    return found;
  }
  throw InputError(fmt::format("{} has no module {}; leave out the --set that adds this module",
                               names_of(names.architecture).class_name, module));
}

// Returns the number of heads that rotary positions rotate in a part of the module. A norm has one
// head.
std::int64_t turned_heads(std::string_view module, std::size_t part,
                          const TransformerGiven& model) {
  if (module.ends_with("query_norm") || module.ends_with("key_norm")) return 1;
  if (!module.ends_with("query_key_value") || part == 2) return 0;
  return part == 0 ? model.block.attention.heads : key_value_heads_of(model);
}

// Returns the row in our tensor for row `row` of theirs, relative to the first row of the place.
std::int64_t row_of_ours(const TensorPlace& place, std::int64_t row) {
  if (place.reordered_heads == 0) return row;
  const std::int64_t D = place.rows / place.reordered_heads, half = D / 2;
  const std::int64_t head = row / D, i = row % D;
  if (place.halves_here) return head * D + i / 2 + (i % 2 == 0 ? 0 : half);
  return head * D + (i < half ? 2 * i : 2 * (i - half) + 1);
}

// Calls visit(element of ours, element of theirs) for all elements.
template <class Visit>
void for_each_element(const TensorPlace& place, const Shape& ours, Visit visit) {
  const std::int64_t columns = ours.rank() == 2 ? ours[1] : 1;
  for (std::int64_t row = 0; row < place.rows; ++row) {
    const std::int64_t row_here = place.first_row + row_of_ours(place, row);
    for (std::int64_t column = 0; column < columns; ++column)
      visit(row_here * columns + column,
            place.transposed ? column * place.rows + row : row * columns + column);
  }
}

}  // namespace

Shape TensorPlace::shape(const Shape& ours) const {
  if (ours.rank() == 1) return {rows};
  return transposed ? Shape{ours[1], rows} : Shape{rows, ours[1]};
}

std::vector<TensorPlace> places_of(const TensorNames& names, const TransformerGiven& model,
                                   const std::string& parameter, const Shape& shape) {
  const std::size_t dot = parameter.rfind('.');
  const std::string module = parameter.substr(0, dot), field = parameter.substr(dot);  // ".weight"
  const FoundModules found = find_modules(names, module);
  const bool halves_here = model.block.attention.positions != Positions::rotary ||
                           model.block.attention.rotary.pairs == RotaryPairs::halves,
             halves_there =
                 names.format != TensorFormat::gguf || names.architecture != Architecture::llama,
             is_reordered = names.architecture != Architecture::gpt2 && halves_here != halves_there;
  const std::size_t parts = found.names.size();
  const std::int64_t heads = model.block.attention.heads, shared = key_value_heads_of(model);
  std::vector<TensorPlace> places;
  std::int64_t first_row = 0;
  for (std::size_t part = 0; part < parts; ++part) {
    const std::int64_t rows = parts == 3
                                  ? shape[0] / (heads + 2 * shared) * (part == 0 ? heads : shared)
                                  : shape[0] / static_cast<std::int64_t>(parts);
    places.push_back({.theirs = found.names[part] + field,
                      .first_row = first_row,
                      .rows = rows,
                      .transposed = found.transposed && field == ".weight",
                      .reordered_heads = is_reordered ? turned_heads(module, part, model) : 0,
                      .halves_here = halves_here});
    first_row += rows;
  }
  return places;
}

std::string tensor_name(const TensorNames& names, const std::string& parameter) {
  const std::size_t dot = parameter.rfind('.');
  return find_modules(names, parameter.substr(0, dot)).names.front() + parameter.substr(dot);
}

bool is_constant(const TensorNames& names, const TransformerGiven& model,
                 const std::string& tensor) {
  if (names.format == TensorFormat::gguf)
    return tensor == rotary_factors_name && model.rotary_scaling != RotaryScalingKind::none;
  if (names.architecture != Architecture::gpt2) return tensor.ends_with(".rotary_emb.inv_freq");
  return number_in(tensor, "transformer.h.*.attn.bias") ||
         number_in(tensor, "transformer.h.*.attn.masked_bias");
}

Array to_published(const TensorPlace& place, const Array& ours) {
  Array theirs(place.shape(ours.shape()));
  const auto from = ours.values<float>();
  const auto to = theirs.mutable_values<float>();
  for_each_element(place, ours.shape(),
                   [&](std::int64_t here, std::int64_t there) { to[there] = from[here]; });
  return theirs;
}

void from_published(const TensorPlace& place, const Array& theirs, Array ours) {
  require(theirs.shape() == place.shape(ours.shape()),
          "{}: shape {} for rows of {}; expected that of TensorPlace::shape()", place.theirs,
          to_string(theirs.shape()), to_string(ours.shape()));
  const auto from = theirs.values<float>();
  const auto to = ours.mutable_values<float>();
  for_each_element(place, ours.shape(),
                   [&](std::int64_t here, std::int64_t there) { to[here] = from[there]; });
}

}  // namespace tapestry
