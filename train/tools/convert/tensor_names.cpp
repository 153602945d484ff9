#include "train/tools/convert/tensor_names.hpp"

#include <algorithm>
#include <array>
#include <numeric>
#include <optional>

#include "autograd/check.hpp"

namespace tapestry {
namespace {

// A module of ours and the modules of theirs that its rows are. "*" is the number of a block.
struct ModuleName {
  std::string_view ours;
  std::vector<std::string_view> theirs;
  bool transposed = false;  // their weights
};

const std::vector<ModuleName>& gpt2_names() {
  static const std::vector<ModuleName> names = {
      {"token_embedding", {"transformer.wte"}},
      {"position_embedding", {"transformer.wpe"}},
      {"blocks.*.attention_norm", {"transformer.h.*.ln_1"}},
      {"blocks.*.attention.query_key_value", {"transformer.h.*.attn.c_attn"}, true},
      {"blocks.*.attention.output", {"transformer.h.*.attn.c_proj"}, true},
      {"blocks.*.feed_forward_norm", {"transformer.h.*.ln_2"}},
      {"blocks.*.feed_forward.expand", {"transformer.h.*.mlp.c_fc"}, true},
      {"blocks.*.feed_forward.contract", {"transformer.h.*.mlp.c_proj"}, true},
      {"final_norm", {"transformer.ln_f"}},
      {"head", {"lm_head"}},
  };
  return names;
}

const std::vector<ModuleName>& llama_names() {
  static const std::vector<ModuleName> names = {
      {"token_embedding", {"model.embed_tokens"}},
      {"blocks.*.attention_norm", {"model.layers.*.input_layernorm"}},
      {"blocks.*.attention.query_key_value",
       {"model.layers.*.self_attn.q_proj", "model.layers.*.self_attn.k_proj",
        "model.layers.*.self_attn.v_proj"}},
      {"blocks.*.attention.query_norm", {"model.layers.*.self_attn.q_norm"}},
      {"blocks.*.attention.key_norm", {"model.layers.*.self_attn.k_norm"}},
      {"blocks.*.attention.output", {"model.layers.*.self_attn.o_proj"}},
      {"blocks.*.feed_forward_norm", {"model.layers.*.post_attention_layernorm"}},
      {"blocks.*.feed_forward.expand",
       {"model.layers.*.mlp.gate_proj", "model.layers.*.mlp.up_proj"}},
      {"blocks.*.feed_forward.contract", {"model.layers.*.mlp.down_proj"}},
      {"final_norm", {"model.norm"}},
      {"head", {"lm_head"}},
  };
  return names;
}

const std::vector<ModuleName>& gguf_gpt2_names() {
  static const std::vector<ModuleName> names = {
      {"token_embedding", {"token_embd"}},
      {"position_embedding", {"position_embd"}},
      {"blocks.*.attention_norm", {"blk.*.attn_norm"}},
      {"blocks.*.attention.query_key_value", {"blk.*.attn_qkv"}},
      {"blocks.*.attention.output", {"blk.*.attn_output"}},
      {"blocks.*.feed_forward_norm", {"blk.*.ffn_norm"}},
      {"blocks.*.feed_forward.expand", {"blk.*.ffn_up"}},
      {"blocks.*.feed_forward.contract", {"blk.*.ffn_down"}},
      {"final_norm", {"output_norm"}},
      {"head", {"output"}},
  };
  return names;
}

const std::vector<ModuleName>& gguf_llama_names() {
  static const std::vector<ModuleName> names = {
      {"token_embedding", {"token_embd"}},
      {"blocks.*.attention_norm", {"blk.*.attn_norm"}},
      {"blocks.*.attention.query_key_value", {"blk.*.attn_q", "blk.*.attn_k", "blk.*.attn_v"}},
      {"blocks.*.attention.query_norm", {"blk.*.attn_q_norm"}},
      {"blocks.*.attention.key_norm", {"blk.*.attn_k_norm"}},
      {"blocks.*.attention.output", {"blk.*.attn_output"}},
      {"blocks.*.feed_forward_norm", {"blk.*.ffn_norm"}},
      {"blocks.*.feed_forward.expand", {"blk.*.ffn_gate", "blk.*.ffn_up"}},
      {"blocks.*.feed_forward.contract", {"blk.*.ffn_down"}},
      {"final_norm", {"output_norm"}},
      {"head", {"output"}},
  };
  return names;
}

// What "*" of the pattern stands for in the name, "" where it has none; nothing where they differ.
std::optional<std::string> number_in(std::string_view name, std::string_view pattern) {
  const std::size_t star = pattern.find('*');
  if (star == std::string_view::npos)
    return name == pattern ? std::optional<std::string>("") : std::nullopt;
  const std::string_view before = pattern.substr(0, star), after = pattern.substr(star + 1);
  if (name.size() < before.size() + after.size() || !name.starts_with(before) ||
      !name.ends_with(after))
    return std::nullopt;
  const std::string_view number =
      name.substr(before.size(), name.size() - before.size() - after.size());
  const bool is_number =
      !number.empty() && std::ranges::all_of(number, [](char c) { return c >= '0' && c <= '9'; });
  return is_number ? std::optional<std::string>(number) : std::nullopt;
}

std::string with_number(std::string_view pattern, const std::string& number) {
  std::string name(pattern);
  if (const std::size_t star = name.find('*'); star != std::string::npos)
    name.replace(star, 1, number);
  return name;
}

// How many rows each of a module's parts has.
std::vector<std::int64_t> rows_of_parts(std::size_t parts, std::int64_t rows,
                                        const HeadCounts& counts) {
  if (parts != 3) return std::vector<std::int64_t>(parts, rows / static_cast<std::int64_t>(parts));
  const std::int64_t D = rows / (counts.heads + 2 * counts.key_value_heads);
  return {counts.heads * D, counts.key_value_heads * D, counts.key_value_heads * D};
}

// Heads that turn by their positions: those of queries and keys, and norms are of one.
std::int64_t turned_heads(std::string_view theirs, const HeadCounts& counts) {
  if (theirs.ends_with("q_proj") || theirs.ends_with("attn_q")) return counts.heads;
  if (theirs.ends_with("k_proj") || theirs.ends_with("attn_k")) return counts.key_value_heads;
  return theirs.ends_with("q_norm") || theirs.ends_with("k_norm") ? 1 : 0;
}

// The row of ours that row `row` of theirs is, counted from the place's first.
std::int64_t row_of_ours(const TensorPlace& place, std::int64_t row) {
  const std::int64_t heads = std::max(place.neighbours_of, place.halves_of);
  if (heads == 0) return row;
  const std::int64_t D = place.rows / heads, half = D / 2;
  const std::int64_t head = row / D, i = row % D;
  if (place.halves_of > 0) return head * D + i / 2 + (i % 2 == 0 ? 0 : half);
  return head * D + (i < half ? 2 * i : 2 * (i - half) + 1);
}

// Calls visit(element of ours, element of theirs) for each.
template <class Visit>
void for_each_element(const TensorPlace& place, std::int64_t columns, Visit visit) {
  for (std::int64_t row = 0; row < place.rows; ++row) {
    const std::int64_t ours = place.first_row + row_of_ours(place, row);
    for (std::int64_t column = 0; column < columns; ++column)
      visit(ours * columns + column,
            place.transposed ? column * place.rows + row : row * columns + column);
  }
}

std::int64_t columns_of(const Shape& shape) { return shape.rank() == 2 ? shape[1] : 1; }

// Where the rows of a parameter are, by one of the tables of names.
std::vector<TensorPlace> places_by(const std::vector<ModuleName>& names,
                                   const std::string& parameter, const Shape& shape,
                                   const HeadCounts& counts) {
  const std::size_t dot = parameter.rfind('.');
  const std::string module = parameter.substr(0, dot), field = parameter.substr(dot);  // ".weight"
  for (const ModuleName& name : names) {
    const std::optional<std::string> number = number_in(module, name.ours);
    if (!number) continue;
    std::vector<TensorPlace> places;
    std::int64_t first_row = 0;
    const std::vector<std::int64_t> rows = rows_of_parts(name.theirs.size(), shape[0], counts);
    for (std::size_t i = 0; i < rows.size(); ++i) {
      places.push_back({.theirs = with_number(name.theirs[i], *number) + field,
                        .first_row = first_row,
                        .rows = rows[i],
                        .transposed = name.transposed && field == ".weight"});
      first_row += rows[i];
    }
    return places;
  }
  return {};
}

// The module that a tensor is of: "blk.0.attn_q" of "blk.0.attn_q.weight".
std::string_view module_of(std::string_view tensor) { return tensor.substr(0, tensor.rfind('.')); }

}  // namespace

Shape TensorPlace::shape(const Shape& ours) const {
  if (ours.rank() == 1) return {rows};
  return transposed ? Shape{ours[1], rows} : Shape{rows, ours[1]};
}

std::vector<TensorPlace> places_of(Architecture architecture, const std::string& parameter,
                                   const Shape& shape, const HeadCounts& counts,
                                   bool turns_neighbours) {
  const bool is_gpt2 = architecture == Architecture::gpt2;
  std::vector<TensorPlace> places =
      places_by(is_gpt2 ? gpt2_names() : llama_names(), parameter, shape, counts);
  if (turns_neighbours)
    for (TensorPlace& place : places)
      place.neighbours_of = turned_heads(module_of(place.theirs), counts);
  return places;
}

std::vector<TensorPlace> gguf_places_of(Architecture architecture, const std::string& parameter,
                                        const Shape& shape, const HeadCounts& counts,
                                        bool turns_neighbours) {
  const bool is_gpt2 = architecture == Architecture::gpt2,
             neighbours_there = architecture == Architecture::llama;
  std::vector<TensorPlace> places =
      places_by(is_gpt2 ? gguf_gpt2_names() : gguf_llama_names(), parameter, shape, counts);
  if (!is_gpt2 && turns_neighbours != neighbours_there)
    for (TensorPlace& place : places)
      (turns_neighbours ? place.neighbours_of : place.halves_of) =
          turned_heads(module_of(place.theirs), counts);
  return places;
}

bool is_constant(Architecture architecture, const std::string& tensor) {
  if (architecture != Architecture::gpt2) return tensor.ends_with(".rotary_emb.inv_freq");
  return number_in(tensor, "transformer.h.*.attn.bias").has_value() ||
         number_in(tensor, "transformer.h.*.attn.masked_bias").has_value();
}

Array to_published(const TensorPlace& place, const Array& ours) {
  Array theirs(place.shape(ours.shape()));
  const auto from = ours.values<float>();
  const auto to = theirs.mutable_values<float>();
  for_each_element(place, columns_of(ours.shape()),
                   [&](std::int64_t here, std::int64_t there) { to[there] = from[here]; });
  return theirs;
}

void from_published(const TensorPlace& place, const Array& theirs, Array ours) {
  require(theirs.shape() == place.shape(ours.shape()), "{}: {} for rows of {}", place.theirs,
          to_string(theirs.shape()), to_string(ours.shape()));
  const auto from = theirs.values<float>();
  const auto to = ours.mutable_values<float>();
  for_each_element(place, columns_of(ours.shape()),
                   [&](std::int64_t here, std::int64_t there) { to[here] = from[there]; });
}

}  // namespace tapestry
