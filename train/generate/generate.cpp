#include "train/generate/generate.hpp"

#include <algorithm>
#include <cmath>
#include <iterator>
#include <limits>
#include <numeric>
#include <utility>

#include "autograd/array.hpp"
#include "autograd/check.hpp"
#include "autograd/kernels/matmul.hpp"
#include "autograd/ops/shaping.hpp"

namespace tapestry {
namespace {

using Tokens = std::vector<std::int32_t>;
using Rows = std::vector<std::int64_t>;

// Maximum number of rows that are generated together: with up to few_rows rows, matrix products
// have the same bits for each row as with that row alone.
constexpr std::size_t most_together = few_rows;

// Returns the logits (V), float32, of the last token of each row of (B, T, V).
std::vector<Array> last_of_each(const Tensor& logits) {
  const Array wide = logits.value().to(DType::float32);
  const std::int64_t B = wide.dim(0), T = wide.dim(1), V = wide.dim(2);
  std::vector<Array> rows;
  for (std::int64_t b = 0; b < B; ++b)
    rows.push_back(wide.part(((b + 1) * T - 1) * V, (b + 1) * T * V));
  return rows;
}

}  // namespace

Tokens largest(std::span<const float> values, std::int64_t count) {
  Tokens order(values.size());
  std::iota(order.begin(), order.end(), 0);
  const auto is_before = [&](std::int32_t a, std::int32_t b) {
    return values[a] > values[b] || (values[a] == values[b] && a < b);
  };
  if (count < std::ssize(order)) {
    std::ranges::partial_sort(order, order.begin() + count, is_before);
    order.resize(count);
  } else {
    std::ranges::sort(order, is_before);
  }
  return order;
}

std::int32_t choose_token(const Array& logits, const SamplingOptions& options, Random& random) {
  const auto all = logits.values<float>();
  const auto values = options.tokens > 0 ? all.first(options.tokens) : all;
  const auto likeliest = static_cast<std::int32_t>(argmax(values));
  if (options.temperature == 0) return likeliest;
  Tokens tokens;
  if (options.top_k > 0 && options.top_k < std::ssize(values)) {
    tokens = largest(values, options.top_k);
  } else if (options.top_p < 1) {
    tokens = largest(values, std::ssize(values));
  } else {
    tokens.resize(values.size());
    std::iota(tokens.begin(), tokens.end(), 0);
  }
  const double best = values[likeliest];
  std::vector<double> weights;
  for (std::int32_t token : tokens)
    weights.push_back(std::exp((values[token] - best) / options.temperature));
  const double total = std::accumulate(weights.begin(), weights.end(), 0.0);
  double kept = 0;  // the sum of the kept tokens' weights
  std::size_t count = 0;
  while (count < weights.size() && (count == 0 || kept < options.top_p * total))
    kept += weights[count++];
  if (options.min_p > 0) {
    std::size_t likely = 0;
    kept = 0;
    for (std::size_t i = 0; i < count; ++i)
      if (weights[i] >= options.min_p) {  // the largest weight is 1
        kept += weights[likely] = weights[i];
        tokens[likely++] = tokens[i];
      }
    count = likely;
  }
  double left = random.uniform() * kept;
  std::size_t chosen = 0;
  while (chosen + 1 < count && left >= weights[chosen]) left -= weights[chosen++];
  return tokens[chosen];
}

void TokenChooser::read(std::span<const std::int32_t> tokens) {
  if (options_.repetition_penalty != 1) seen_.insert(tokens.begin(), tokens.end());
}

std::int32_t TokenChooser::choose(Array logits, Random& random) {
  const auto values = logits.mutable_values<float>();
  const auto penalty = static_cast<float>(options_.repetition_penalty);
  for (const std::int32_t token : seen_)
    values[token] = values[token] < 0 ? values[token] * penalty : values[token] / penalty;
  const std::int32_t token = choose_token(logits, options_, random);
  read({&token, 1});
  return token;
}

// --- the decoding state ---

std::int64_t DecodingState::Memory::rows() const {
  return caches.empty() ? states.front().dim(0) : std::ssize(caches.front()->lengths());
}

void DecodingState::Memory::append(std::span<const Memory> others) {
  for (std::size_t layer = 0; layer < caches.size(); ++layer) {
    std::vector<const AttentionCache*> more;
    for (const Memory& other : others) more.push_back(other.caches[layer].get());
    caches[layer]->append(more);
  }
  for (std::size_t layer = 0; layer < states.size(); ++layer) {
    std::vector<Tensor> all = {states[layer]};
    for (const Memory& other : others) all.push_back(other.states[layer]);
    states[layer] = concat(all, 0);
  }
}

void DecodingState::Memory::select(const Rows& rows) {
  for (const auto& cache : caches) cache->select(rows);
  for (Tensor& state : states) state = state.value().select(rows);
}

DecodingState::DecodingState(const Transformer& model)
    : transformer_(&model), memory_(make_memory(0)) {}

DecodingState::DecodingState(const RecurrentNetwork& model)
    : recurrent_(&model), memory_(make_memory(0)) {}

DecodingState::Memory DecodingState::make_memory(std::int64_t rows) const {
  if (transformer_) return {.caches = transformer_->make_caches(rows)};
  return {.states = recurrent_->make_states(rows)};
}

Tensor DecodingState::forward(const Array& tokens, Memory& memory) const {
  return transformer_ ? transformer_->forward(tokens, memory.caches)
                      : recurrent_->forward(tokens, memory.states);
}

// Returns whether `tokens` more tokens fit the context of a row.
bool DecodingState::has_room(std::int64_t row, std::int64_t tokens) const {
  if (!transformer_) return true;
  return memory_.caches.front()->lengths()[row] + tokens <= transformer_->options.context;
}

// Reads the last tokens of these texts, each separately, as new last rows. Returns the logits of
// each row.
std::vector<Array> DecodingState::read_ends(std::span<const std::int64_t> rows,
                                            std::int64_t most_tokens) {
  std::vector<Memory> read;
  std::vector<Array> logits;
  for (const std::int64_t row : rows) {
    const Tokens& text = texts_[row];
    const std::int64_t tokens = std::min(std::ssize(text), most_tokens);
    read.push_back(make_memory(1));
    const Tensor own = forward(one_row({text.end() - tokens, text.end()}), read.back());
    logits.push_back(last_of_each(own).front());
  }
  std::span<const Memory> rest = read;
  if (memory_.rows() == 0 && !read.empty()) {
    memory_ = std::move(read.front());  // without a copy
    rest = rest.subspan(1);
  }
  if (!rest.empty()) memory_.append(rest);
  return logits;
}

std::vector<Array> DecodingState::begin(const std::vector<Tokens>& prompts) {
  Rows rows;
  for (const Tokens& prompt : prompts) {
    rows.push_back(std::ssize(texts_));
    texts_.push_back(prompt);
  }
  return read_ends(rows, transformer_ ? transformer_->options.context
                                      : std::numeric_limits<std::int64_t>::max());
}

std::vector<Array> DecodingState::read(const Array& tokens) {
  const std::int64_t B = std::ssize(texts_), T = tokens.dim(1);
  require(tokens.dim(0) == B, "decoding: tokens {} for {} texts; expected (B, T), one row per text",
          to_string(tokens.shape()), B);
  const auto values = tokens.values<std::int32_t>();
  bool have_room = true;
  for (std::int64_t b = 0; b < B; ++b) {
    const auto added = values.subspan(b * T, T);
    texts_[b].insert(texts_[b].end(), added.begin(), added.end());
    have_room = have_room && has_room(b, T);
  }
  return have_room ? last_of_each(forward(tokens, memory_)) : read_past_context(tokens);
}

// Reads tokens when some contexts are full. Each of these rows reads the second half of its text
// separately, as the last row; then the order of all rows is restored.
std::vector<Array> DecodingState::read_past_context(const Array& tokens) {
  Rows order, full;
  for (std::int64_t b = 0; b < tokens.dim(0); ++b)
    (has_room(b, tokens.dim(1)) ? order : full).push_back(b);
  memory_.select(order);
  std::vector<Array> logits;
  if (!order.empty()) logits = last_of_each(forward(tokens.select(order), memory_));
  std::ranges::move(read_ends(full, (transformer_->options.context + 1) / 2),
                    std::back_inserter(logits));
  order.insert(order.end(), full.begin(), full.end());
  if (full.size() == order.size()) return logits;  // the order is unchanged
  Rows places(order.size());
  std::vector<Array> ordered(order.size());
  for (std::size_t i = 0; i < order.size(); ++i) {
    places[order[i]] = static_cast<std::int64_t>(i);
    ordered[order[i]] = logits[i];
  }
  memory_.select(places);
  return ordered;
}

void DecodingState::keep(const Rows& rows) {
  memory_.select(rows);
  std::vector<Tokens> kept;
  for (const std::int64_t row : rows) kept.push_back(std::move(texts_[row]));
  texts_ = std::move(kept);
}

// --- generation ---

std::vector<Tokens> generate(DecodingState state, std::vector<Request> requests,
                             const SamplingOptions& options, const KeepsGoing& continues) {
  for (const Request& request : requests)
    require(!request.prompt.empty(), "generate: a prompt is empty; expected at least one token");
  std::vector<Tokens> texts(requests.size());
  std::vector<TokenChooser> choosers(requests.size(), TokenChooser(options));
  std::vector<std::size_t> active;  // the request of each row
  std::vector<Array> logits;
  for (std::size_t next = 0; next < requests.size() || !active.empty();) {
    std::vector<Tokens> prompts;
    for (; active.size() < most_together && next < requests.size(); ++next) {
      if (requests[next].tokens <= 0) continue;
      choosers[next].read(requests[next].prompt);
      prompts.push_back(requests[next].prompt);
      active.push_back(next);
    }
    std::ranges::move(state.begin(prompts), std::back_inserter(logits));
    Rows rows;
    Tokens chosen;
    std::vector<std::size_t> kept;
    for (std::size_t row = 0; row < active.size(); ++row) {
      const std::size_t i = active[row];
      const std::int32_t token = choosers[i].choose(logits[row], requests[i].random);
      texts[i].push_back(token);
      const bool ends = continues && !continues(i, token);
      if (ends || std::ssize(texts[i]) == requests[i].tokens) continue;
      rows.push_back(static_cast<std::int64_t>(row));
      chosen.push_back(token);
      kept.push_back(i);
    }
    if (kept.size() < active.size()) state.keep(rows);
    active = std::move(kept);
    logits.clear();
    if (!active.empty()) logits = state.read(Array::of(chosen, {std::ssize(chosen), 1}));
  }
  return texts;
}

Tokens generate(DecodingState state, const Tokens& prompt, std::int64_t tokens,
                const SamplingOptions& options, const Random& random) {
  return generate(std::move(state), {{prompt, tokens, random}}, options).front();
}

}  // namespace tapestry
