#include "optim/muon.hpp"

#include <algorithm>
#include <cmath>

#include "autograd/dry_run.hpp"
#include "autograd/kernels/broadcast.hpp"
#include "autograd/kernels/matmul.hpp"
#include "autograd/kernels/simd.hpp"

namespace tapestry {
namespace {

std::vector<Setting<MuonOptions>> settings() {
  std::vector<Setting<MuonOptions>> settings = adam_settings<MuonOptions>();
  settings.push_back({"muon_momentum",
                      &MuonOptions::muon_momentum,
                      "decay of Muon's momentum",
                      {.low = 0, .high = 0.999999}});
  settings.push_back({"newton_schulz_steps",
                      &MuonOptions::newton_schulz_steps,
                      "steps of the iteration that orthogonalizes Muon's momentum",
                      {.low = 1, .high = 20}});
  settings.push_back({"match_rms_adamw", &MuonOptions::match_rms_adamw,
                      "scale Muon's steps to the size of AdamW's; false: by √(rows / columns), if "
                      "above 1"});
  return settings;
}

const RegisterOptimizer<Muon> muon{"muon", with_weight_decay(settings())};

double rate_factor(const Shape& shape, bool match_rms_adamw) {
  const auto rows = static_cast<double>(shape[0]), columns = static_cast<double>(shape[1]);
  return match_rms_adamw ? 0.2 * std::sqrt(std::max(rows, columns))
                         : std::sqrt(std::max(1.0, rows / columns));
}

// Returns the product of two matrices. Not an op, so that a profile counts its time as the
// optimizer's.
Array product(const Array& a, const Array& b, Matmul matmul = {}) {
  matmul.dtype = a.dtype();
  matmul.m = a.dim(matmul.transpose_a ? 1 : 0);
  matmul.k = a.dim(matmul.transpose_a ? 0 : 1);
  matmul.n = b.dim(matmul.transpose_b ? 0 : 1);
  Array c({matmul.m, matmul.n}, a.dtype());
  multiply_matrices(matmul, {{a.raw(), b.raw(), c.mutable_raw()}});
  return c;
}

// Returns p x + q y.
Array sum(double p, const Array& x, double q, const Array& y) {
  Array result(x.shape(), x.dtype());
  dispatch(x.dtype(), [&]<class T>() {
    map(x.size(), {x.values<T>().data(), y.values<T>().data()}, result.mutable_values<T>().data(),
        [p = T(p), q = T(q)](auto one, auto other) { return one * p + other * q; });
  });
  return result;
}

}  // namespace

Muon::Muon(std::vector<Parameter*> parameters, const Options& options)
    : AdamW(std::move(parameters), options), options_(options) {}

std::vector<std::string> Muon::slot_names(const Parameter& parameter) const {
  return updates_whole(parameter) ? std::vector<std::string>{"momentum"}
                                  : AdamW::slot_names(parameter);
}

bool Muon::updates_whole(const Parameter& parameter) const {
  const Shape& shape = parameter.tensor.shape();
  return parameter.role == Role::weight && shape.rank() == 2 && shape[0] > 1 && shape[1] > 1;
}

void Muon::update_whole(const Update& update) const {
  Array parameter = update.parameter, momentum = update.slots[0];
  Array ahead(parameter.shape(), parameter.dtype());  // Nesterov's: the momentum one step later
  dispatch(parameter.dtype(), [&]<class T>() {
    const T kept = options_.muon_momentum, rest = 1 - options_.muon_momentum, clip = update.scale;
    const T* gradients = update.gradient.values<T>().data();
    T* momenta = momentum.mutable_values<T>().data();
    const auto follow = [=](auto m, auto g) { return fma(m, Simd<T>(kept), g * (clip * rest)); };
    map(parameter.size(), {momenta, gradients}, momenta, follow);
    map(parameter.size(), {momenta, gradients}, ahead.mutable_values<T>().data(), follow);
  });
  const Array direction = orthogonalized(ahead, options_.newton_schulz_steps);
  dispatch(parameter.dtype(), [&]<class T>() {
    const T keep = 1 - update.learning_rate * update.weight_decay;
    const T rate = update.learning_rate * rate_factor(parameter.shape(), options_.match_rms_adamw);
    T* thetas = parameter.mutable_values<T>().data();
    map(parameter.size(), {thetas, direction.values<T>().data()}, thetas,
        [=](auto theta, auto o) { return theta * keep - rate * o; });
  });
}

// Multiplies on the side of the shorter axis, where the products are smaller:
// X = a X + (b X Xᵀ + c (X Xᵀ)²) X, with Jordan's coefficients.
Array orthogonalized(const Array& matrix, std::int64_t steps) {
  constexpr double a = 3.4445, b = -4.7750, c = 2.0315, least_norm = 1e-7;
  const bool is_tall = matrix.dim(0) > matrix.dim(1);
  const double norm = is_dry_run() ? 1 : std::sqrt(sum_of_squares(matrix));
  Array x = sum(1 / std::max(norm, least_norm), matrix, 0, matrix);
  for (std::int64_t step = 0; step < steps; ++step) {
    const Array gram = product(x, x, {.transpose_a = is_tall, .transpose_b = !is_tall});
    const Array change = sum(b, gram, c, product(gram, gram));
    x = sum(a, x, 1, is_tall ? product(x, change) : product(change, x));
  }
  return x;
}

}  // namespace tapestry
