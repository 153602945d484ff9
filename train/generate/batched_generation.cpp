#include "train/generate/batched_generation.hpp"

#include <algorithm>

#include "autograd/check.hpp"
#include "autograd/kernels/matmul.hpp"
#include "autograd/ops/shaping.hpp"

namespace tapestry {
namespace {

using Tokens = std::vector<std::int32_t>;
using Rows = std::vector<std::int64_t>;

// The most rows that products give the bits that each has alone.
constexpr std::size_t most_together = few_rows;

// logits (B, T, V) -> of each row those of the last token (V), float32.
std::vector<Array> last_of_each(const Tensor& logits) {
  const Array wide = logits.value().to(DType::float32);
  const std::int64_t B = wide.dim(0), T = wide.dim(1), V = wide.dim(2);
  std::vector<Array> rows;
  for (std::int64_t b = 0; b < B; ++b)
    rows.push_back(wide.part(((b + 1) * T - 1) * V, (b + 1) * T * V));
  return rows;
}

// A model in the middle of several texts, with what it keeps of each.
class DecodingBatch {
 public:
  virtual ~DecodingBatch() = default;
  virtual Array start(const Tokens& prompt) = 0;  // a new last row: the logits (V) that follow
  virtual std::vector<Array> read(const Tokens& tokens) = 0;  // one of each row; the same, of each
  virtual void keep(const Rows& rows) = 0;                    // and forget the others
};

class TransformerBatch final : public DecodingBatch {
 public:
  explicit TransformerBatch(const Transformer& model)
      : model_(model), caches_(model.make_caches(0)) {}

  Array start(const Tokens& prompt) override {
    texts_.push_back(prompt);
    return read_alone(prompt, std::min(std::ssize(prompt), model_.options.context));
  }

  // A row whose context is full reads the later half again, as it does alone, and then stands
  // after the others until all are in order again.
  std::vector<Array> read(const Tokens& tokens) override {
    join();
    Rows order, full;
    Tokens next;
    for (std::int64_t b = 0; b < std::ssize(tokens); ++b) {
      texts_[b].push_back(tokens[b]);
      const bool fits = caches_.front()->lengths()[b] < model_.options.context;
      (fits ? order : full).push_back(b);
      if (fits) next.push_back(tokens[b]);
    }
    if (!full.empty()) select(order);
    std::vector<Array> logits;
    if (!next.empty())
      logits = last_of_each(model_.forward(Array::of(next, {std::ssize(next), 1}), caches_));
    if (full.empty()) return logits;
    for (const std::int64_t b : full) {
      logits.push_back(read_alone(texts_[b], (model_.options.context + 1) / 2));
      order.push_back(b);
    }
    join();
    Rows places(order.size());
    std::vector<Array> ordered(order.size());
    for (std::size_t i = 0; i < order.size(); ++i) {
      places[order[i]] = static_cast<std::int64_t>(i);
      ordered[order[i]] = logits[i];
    }
    select(places);
    return ordered;
  }

  void keep(const Rows& rows) override {
    join();
    select(rows);
    std::vector<Tokens> kept;
    for (const std::int64_t row : rows) kept.push_back(std::move(texts_[row]));
    texts_ = std::move(kept);
  }

 private:
  // The last `count` tokens, in caches that wait to be joined to the others.
  Array read_alone(const Tokens& text, std::int64_t count) {
    AttentionCaches own = model_.make_caches(1);
    const Tensor logits = model_.forward(one_row({text.end() - count, text.end()}), own);
    waiting_.push_back(std::move(own));
    return last_of_each(logits).front();
  }

  void join() {
    for (std::size_t layer = 0; layer < caches_.size() && !waiting_.empty(); ++layer) {
      std::vector<const AttentionCache*> others;
      for (const AttentionCaches& own : waiting_) others.push_back(own[layer].get());
      caches_[layer]->append(others);
    }
    waiting_.clear();
  }

  void select(const Rows& rows) {
    for (const auto& cache : caches_) cache->select(rows);
  }

  const Transformer& model_;
  AttentionCaches caches_;
  std::vector<AttentionCaches> waiting_;
  std::vector<Tokens> texts_;
};

class RecurrentBatch final : public DecodingBatch {
 public:
  explicit RecurrentBatch(const RecurrentNetwork& model)
      : model_(model), states_(model.make_states(0)) {}

  Array start(const Tokens& prompt) override {
    std::vector<Tensor> own = model_.make_states(1);
    const Tensor logits = model_.forward(one_row(prompt), own);
    for (std::size_t i = 0; i < own.size(); ++i) states_[i] = concat({states_[i], own[i]}, 0);
    return last_of_each(logits).front();
  }

  std::vector<Array> read(const Tokens& tokens) override {
    return last_of_each(model_.forward(Array::of(tokens, {std::ssize(tokens), 1}), states_));
  }

  void keep(const Rows& rows) override {
    for (Tensor& state : states_) state = state.value().select(rows);
  }

 private:
  const RecurrentNetwork& model_;
  std::vector<Tensor> states_;
};

std::vector<Tokens> generate(DecodingBatch& batch, std::vector<Request> requests,
                             const SamplingOptions& options, const KeepsGoing& continues) {
  for (const Request& request : requests)
    require(!request.prompt.empty(), "generate: an empty prompt");
  std::vector<Tokens> texts(requests.size());
  std::vector<TokenChooser> choosers(requests.size(), TokenChooser(options));
  std::vector<std::size_t> active;  // which request each row of the batch is
  std::vector<Array> logits;
  for (std::size_t next = 0; next < requests.size() || !active.empty();) {
    for (; active.size() < most_together && next < requests.size(); ++next) {
      if (requests[next].tokens <= 0) continue;
      choosers[next].read(requests[next].prompt);
      logits.push_back(batch.start(requests[next].prompt));
      active.push_back(next);
    }
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
    if (kept.size() < active.size()) batch.keep(rows);
    active = std::move(kept);
    logits = active.empty() ? std::vector<Array>() : batch.read(chosen);
  }
  return texts;
}

}  // namespace

std::vector<Tokens> generate(const Transformer& model, std::vector<Request> requests,
                             const SamplingOptions& options, const KeepsGoing& continues) {
  TransformerBatch batch(model);
  return generate(batch, std::move(requests), options, continues);
}

std::vector<Tokens> generate(const RecurrentNetwork& model, std::vector<Request> requests,
                             const SamplingOptions& options, const KeepsGoing& continues) {
  RecurrentBatch batch(model);
  return generate(batch, std::move(requests), options, continues);
}

}  // namespace tapestry
