#include <omp.h>

#include <algorithm>
#include <vector>
#include <xtensor-blas/xlinalg.hpp>
#include <xtensor/xadapt.hpp>

#include "autograd/restore.hpp"
#include "train/plot/linear_algebra.hpp"

// A separate library, which linear_algebra() loads.
namespace tapestry {
namespace {

// Computes on the calling thread only: OpenBLAS takes a buffer of address space for each thread
// that OpenMP offers, and its sums depend on their number.
void eigenvectors(const double* matrix, std::int64_t n, double* values, double* vectors) {
  const RestoreSetting one_thread(omp_set_num_threads, 1, omp_get_max_threads());
  const auto size = static_cast<std::size_t>(n);
  const std::vector<std::size_t> square = {size, size};
  const auto [found_values, found_vectors] =
      xt::linalg::eigh(xt::adapt(matrix, size * size, xt::no_ownership(), square));
  std::ranges::copy(found_values, values);
  xt::adapt(vectors, size * size, xt::no_ownership(), square) = xt::transpose(found_vectors);
}

}  // namespace
}  // namespace tapestry

extern "C" const tapestry::LinearAlgebra tapestry_linear_algebra{.eigenvectors =
                                                                     tapestry::eigenvectors};
