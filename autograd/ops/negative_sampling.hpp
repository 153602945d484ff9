#pragma once

#include "autograd/tensor.hpp"

namespace tapestry {

// The word that is not there: an entry of `contexts` or `targets` without loss.
inline constexpr std::int32_t no_word = -1;

// Returns the loss of skip-grams with negative sampling (Mikolov et al. 2013, arXiv 1310.4546,
// eq. 4), a scalar in nats: the sum over rows n and over the words c of contexts[n] of
//   -log σ(u₀ · v_c) - Σ_{k>0} log σ(-u_k · v_c)
// where v are rows of `vectors` (V, C), and u rows of `outputs` (V, C), of the words targets[n]:
// the word that is predicted, and K negative ones, which all words of a row share (Ji et al. 2016,
// arXiv 1604.04661). contexts (N, W) and targets (N, 1 + K) are int32, each in [0, V) or no_word.
// Throws std::invalid_argument for other shapes, dtypes and words. Fused, because rows have
// different numbers of words: with 3 of 10, the composition of embedding, matmul and
// binary_cross_entropy takes 2.3 to 3.1 times as long.
Tensor negative_sampling(const Tensor& vectors, const Tensor& outputs, const Array& contexts,
                         const Array& targets);

}  // namespace tapestry
