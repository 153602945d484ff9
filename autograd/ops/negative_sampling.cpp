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
template <class T>
struct SkipGrams {
  const std::int32_t *contexts, *targets;
  std::int64_t W, K, C;  // K: with the predicted word
  const T *vectors, *outputs;

  // Writes σ(z) to `slopes` (W, K), where z is the score of a negative word or minus that of the
  // predicted one, and returns Σ log(1 + e^z).
  T row(std::int64_t n, T* slopes) const {
    std::fill_n(slopes, W * K, -std::numeric_limits<T>::infinity());
    for (std::int64_t w = 0; w < W; ++w) {
      const std::int32_t word = contexts[n * W + w];
      if (word == no_word || targets[n * K] == no_word) continue;
      for (std::int64_t k = 0; k < K; ++k)
        if (const std::int32_t target = targets[n * K + k]; target != no_word) {
          const T score = dot_span(C, vectors + word * C, outputs + target * C);
          slopes[w * K + k] = k == 0 ? -score : score;
        }
    }
    const auto add = [](auto sum, auto z) {
      return sum + max(z, decltype(z)(T(0))) + log1p(exp(-abs(z)));
    };
    const T loss = sum_lanes(sum_terms(W * K, {slopes}, -std::numeric_limits<T>::infinity(), add));
    map_span(W * K, {slopes}, slopes, [](auto z) { return logistic(z); });
    return loss;
  }
};

void add_scaled(std::int64_t n, auto factor, const auto* x, auto* sum) {
  map_span(n, {sum, x}, sum, [factor](auto s, auto v) { return fma(v, decltype(v)(factor), s); });
}

// Adds to each row of `table` (V, C) what add(place, sum) adds for its places in a list of words.
template <class T, class Add>
void add_by_word(const Array& words, Array& table, std::int64_t terms, const Add& add) {
  const std::int64_t V = table.dim(0), C = table.dim(1);
  std::vector<std::int64_t> list(words.size());
  std::ranges::transform(words.values<std::int32_t>(), list.begin(),
                         [V](std::int32_t word) { return word == no_word ? V : word; });
  const RowPlaces places(std::span<const std::int64_t>(list), V + 1);
  T* to = table.mutable_values<T>().data();
  for_each_row(std::ssize(places.rows), terms * C, [&](std::int64_t i) {
    if (places.rows[i] == V) return;
    add_rows(places.offsets[i], places.offsets[i + 1], C, to + places.rows[i] * C,
             [&](std::int64_t at, T* sum) { add(places.places[at], sum); });
  });
}

// Passes the gradients of both tables on: dv_c = Σ_k ±σ(z) u_k, du_k = Σ_c ±σ(z) v_c.
template <class T>
void add_gradients(const SkipGrams<T>& grams, const Array& contexts, const Array& targets,
                   const Array& slopes, T factor, InputGradients& into) {
  const auto [context, target, W, K, C, vectors, outputs] = grams;
  const T* slope = slopes.values<T>().data();
  const auto sign = [=](std::int64_t k) { return k == 0 ? -factor : factor; };
  const auto fill = [](Array& table, bool accumulate) {
    if (!accumulate)
      map(table.size(), {table.values<T>().data()}, table.mutable_values<T>().data(),
          [](auto x) { return decltype(x)(T(0)); });
  };
  into.accumulate(0, [&](Array& table, bool accumulate) {
    if (is_dry_run()) return;
    fill(table, accumulate);
    add_by_word<T>(
        contexts, table, 2 * K,
        [=, W = W, K = K, C = C, outputs = outputs, target = target](std::int64_t place, T* sum) {
          for (std::int64_t k = 0; k < K; ++k)
            if (const std::int32_t word = target[place / W * K + k]; word != no_word)
              add_scaled(C, sign(k) * slope[place * K + k], outputs + word * C, sum);
        });
  });
  into.accumulate(1, [&](Array& table, bool accumulate) {
    if (is_dry_run()) return;
    fill(table, accumulate);
    add_by_word<T>(
        targets, table, 2 * W,
        [=, W = W, K = K, C = C, vectors = vectors, context = context](std::int64_t place, T* sum) {
          const std::int64_t n = place / K, k = place % K;
          for (std::int64_t w = 0; w < W; ++w)
            if (const std::int32_t word = context[n * W + w]; word != no_word)
              add_scaled(C, sign(k) * slope[(n * W + w) * K + k], vectors + word * C, sum);
        });
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
  const std::int64_t N = contexts.dim(0), W = contexts.dim(1), K = targets.dim(1);
  Array slopes({N, W, K}, vectors.dtype()), losses({N}, vectors.dtype());
  const auto grams_of = [contexts, targets, W, K]<class T>(const Array& v, const Array& u, T) {
    return SkipGrams<T>{contexts.values<std::int32_t>().data(),
                        targets.values<std::int32_t>().data(),
                        W,
                        K,
                        v.dim(1),
                        v.values<T>().data(),
                        u.values<T>().data()};
  };
  dispatch(vectors.dtype(), [&]<class T>() {
    const SkipGrams<T> grams = grams_of(vectors.value(), outputs.value(), T());
    T *slope = slopes.mutable_values<T>().data(), *loss = losses.mutable_values<T>().data();
    for_each_row(N, W * K * grams.C,
                 [=](std::int64_t n) { loss[n] = grams.row(n, slope + n * W * K); });
  });
  const Array total = Array::full({}, sum_all(losses), vectors.dtype());
  return record("negative_sampling", total, {vectors, outputs},
                [v = vectors.value(), u = outputs.value(), contexts, targets, slopes, grams_of](
                    const Array& gradient, InputGradients& into) {
                  dispatch(v.dtype(), [&]<class T>() {
                    add_gradients<T>(grams_of(v, u, T()), contexts, targets, slopes,
                                     is_dry_run() ? T(1) : gradient.values<T>()[0], into);
                  });
                });
}

}  // namespace tapestry
