#pragma once

#include <cstdint>

namespace tapestry {

// Linear algebra of xtensor-blas and OpenBLAS. It is in a plug-in, because OpenBLAS takes much
// address space when it is loaded; packages for all systems lack it. All numbers are float64;
// matrices are stored row by row.
struct LinearAlgebra {
  // Writes the eigenvalues (n) of a symmetric matrix (n, n), in ascending order, and its
  // eigenvectors (n, n), one per row.
  void (*eigenvectors)(const double* matrix, std::int64_t n, double* values, double* vectors);
};

// The name of the plug-in, and of the LinearAlgebra object that it exports.
inline constexpr const char *linear_algebra_plugin = "linear_algebra",
                            *linear_algebra_name = "tapestry_linear_algebra";

// Returns the plug-in's functions, and loads it at the first call; where it is not installed,
// jacobi_eigenvectors(). Throws std::runtime_error if it cannot be loaded, or if the address space
// that it needs is not available.
const LinearAlgebra& linear_algebra();

// LinearAlgebra::eigenvectors by cyclic Jacobi rotations (Golub and Van Loan, Matrix Computations,
// section 8.5), in a second for n = 256. Throws std::runtime_error for a larger n.
void jacobi_eigenvectors(const double* matrix, std::int64_t n, double* values, double* vectors);

}  // namespace tapestry
