#include "autograd/ops/negative_sampling.hpp"

#include "autograd/dry_run.hpp"
#include "autograd/kernels/broadcast.hpp"
#include "autograd/kernels/scatter.hpp"
#include "autograd/ops/elementwise.hpp"

namespace tapestry {
namespace {

void check_words(const char* name, const Array& words, std::int64_t V) {
  if (is_dry_run()) return;
  const auto is_wrong = [V](std::int32_t word) { return word < no_word || word >= V; };
  const auto list = words.values<std::int32_t>();
  if (const auto wrong = std::ranges::find_if(list, is_wrong); wrong != list.end())
    require(false, "negative_sampling: {} with word {}; expected -1 to {}", name, *wrong, V - 1);
}

// The words of all rows, and the tables whose rows belong to them.
struct SkipGrams {
  Array contexts, targets, vectors, outputs;
  std::int64_t W = contexts.dim(1), K = targets.dim(1);  // K: with the predicted word

  // Writes σ(z) to `slopes` (W, K), and returns Σ log(1 + e^z), where z is the score of a negative
  // word, minus that of the predicted one, or -∞ without a word.
  template <class T>
  T row(std::int64_t n, T* slopes) const {
    constexpr T none = -std::numeric_limits<T>::infinity();
    const std::int32_t *context = contexts.values<std::int32_t>().data() + n * W,
                       *target = targets.values<std::int32_t>().data() + n * K;
    const T *v = vectors.values<T>().data(), *u = outputs.values<T>().data();
    const std::int64_t C = vectors.dim(1);
    std::fill_n(slopes, W * K, none);
    std::int64_t terms = 0;  // up to the last word
    for (std::int64_t w = 0; w < W && target[0] != no_word; ++w) {
      if (context[w] == no_word) continue;
      terms = (w + 1) * K;
      for (std::int64_t k = 0; k < K; ++k) {
        if (target[k] == no_word) continue;
        const T score = dot_span(C, v + context[w] * C, u + target[k] * C);
        slopes[w * K + k] = k == 0 ? -score : score;
      }
    }
    const T loss = sum_lanes(sum_terms(terms, {slopes}, none, [](auto sum, auto z) {
      return sum + max(z, decltype(z)(T(0))) + log1p(exp(-abs(z)));
    }));
    map_span(terms, {slopes}, slopes, [](auto z) { return logistic(z); });
    std::fill(slopes + terms, slopes + W * K, T(0));
    return loss;
  }
};

// Adds to each row of `table` (V, C) the rows of `others` that add(place, sum) adds for its places
// in a list of words, where sum(factor, word) adds a multiple of a row.
template <class T, class Add>
void add_by_word(const Array& words, const Array& others, Array& table, std::int64_t terms,
                 const Add& add) {
  const std::int64_t V = table.dim(0), C = table.dim(1);
  std::vector<std::int64_t> list(words.size());
  std::ranges::transform(words.values<std::int32_t>(), list.begin(),
                         [V](std::int32_t word) { return word == no_word ? V : word; });
  const RowPlaces places(std::span<const std::int64_t>(list), V + 1);
  const T* other = others.values<T>().data();
  T* to = table.mutable_values<T>().data();
  for_each_row(std::ssize(places.rows), terms * C, [&](std::int64_t i) {
    if (places.rows[i] == V) return;
    const auto add_place = [&](std::int64_t at, T* sum) {
      add(places.places[at], [=](T factor, std::int32_t word) {
        if (word != no_word)
          map_span(C, {sum, other + word * C}, sum,
                   [factor](auto s, auto x) { return fma(x, decltype(x)(factor), s); });
      });
    };
    add_rows(places.offsets[i], places.offsets[i + 1], C, to + places.rows[i] * C, add_place);
  });
}

// Passes the gradients of both tables on: dv_c = Σ_k ±σ(z) u_k, du_k = Σ_c ±σ(z) v_c.
template <class T>
void add_gradients(const SkipGrams& grams, const Array& slopes, T factor, InputGradients& into) {
  const std::int64_t W = grams.W, K = grams.K;
  const auto slope = [=, values = slopes.values<T>().data()](std::int64_t place, std::int64_t k) {
    return (k == 0 ? -factor : factor) * values[place * K + k];
  };
  const auto add_table = [&](std::size_t input, const Array& words, const Array& others,
                             std::int64_t terms, const auto& add) {
    into.accumulate(input, [&](Array& table, bool accumulate) {
      if (is_dry_run()) return;
      T* to = table.mutable_values<T>().data();
      if (!accumulate)
        for_each_row(table.dim(0), table.dim(1),
                     [=, C = table.dim(1)](std::int64_t i) { std::fill_n(to + i * C, C, T(0)); });
      add_by_word<T>(words, others, table, terms, add);
    });
  };
  const std::int32_t *contexts = grams.contexts.values<std::int32_t>().data(),
                     *targets = grams.targets.values<std::int32_t>().data();
  add_table(0, grams.contexts, grams.outputs, K, [=](std::int64_t place, const auto& sum) {
    for (std::int64_t k = 0; k < K; ++k) sum(slope(place, k), targets[place / W * K + k]);
  });
  add_table(1, grams.targets, grams.vectors, W, [=](std::int64_t place, const auto& sum) {
    const std::int64_t first = place / K * W;
    for (std::int64_t w = first; w < first + W; ++w) sum(slope(w, place % K), contexts[w]);
  });
}

}  // namespace

Tensor negative_sampling(const Tensor& vectors, const Tensor& outputs, const Array& contexts,
                         const Array& targets) {
  check_same_shape("negative_sampling", vectors, outputs);
  require(vectors.rank() == 2 && contexts.rank() == 2 && targets.rank() == 2 &&
              contexts.dim(0) == targets.dim(0) && targets.dim(1) > 0 &&
              contexts.dtype() == DType::int32 && targets.dtype() == DType::int32,
          "negative_sampling: vectors {} with contexts {} and targets {}; expected (V, C) with "
          "int32 (N, W) and (N, 1 + K)",
          vectors.shape(), contexts, targets);
  check_words("contexts", contexts, vectors.dim(0));
  check_words("targets", targets, vectors.dim(0));
  const SkipGrams grams{contexts, targets, vectors.value(), outputs.value()};
  const std::int64_t N = contexts.dim(0), W = grams.W, K = grams.K;
  Array slopes({N, W, K}, vectors.dtype()), losses({N}, vectors.dtype());
  dispatch(vectors.dtype(), [&]<class T>() {
    T *slope = slopes.mutable_values<T>().data(), *loss = losses.mutable_values<T>().data();
    for_each_row(N, W * K * vectors.dim(1),
                 [&](std::int64_t n) { loss[n] = grams.row(n, slope + n * W * K); });
  });
  const Array total = Array::full({}, sum_all(losses), vectors.dtype());
  return record("negative_sampling", total, {vectors, outputs},
                [grams, slopes](const Array& gradient, InputGradients& into) {
                  dispatch(slopes.dtype(), [&]<class T>() {
                    add_gradients(grams, slopes, gradient.values<T>()[0], into);
                  });
                });
}

}  // namespace tapestry
