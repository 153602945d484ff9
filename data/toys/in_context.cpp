#include "data/toys/in_context.hpp"

#include <numeric>

#include "autograd/random.hpp"
#include "data/toys/synthetic.hpp"

namespace tapestry {
namespace {

constexpr std::int64_t most = 512;  // of pairs and of dimensions

InContextOptions checked(const InContextOptions& options) {
  expect_range("pairs", options.pairs, 1, most);
  expect_range("dimensions", options.dimensions, 1, most);
  expect_examples(options.examples);
  return options;
}

}  // namespace

InContextRegression::InContextRegression(const InContextOptions& options)
    : options_(checked(options)) {}

Batch InContextRegression::batch(std::span<const std::int64_t> examples) const {
  const std::int64_t B = std::ssize(examples), N = options_.pairs, D = options_.dimensions;
  Batch batch{.inputs = Array({B, N + 1, D + 1}, DType::float32),
              .targets = Array({B}, DType::float32),
              .count = static_cast<double>(B)};
  if (is_dry_run()) return batch;
  auto input = batch.inputs.mutable_values<float>().begin();
  auto target = batch.targets.mutable_values<float>().begin();
  std::vector<double> w(D);
  for (const std::int64_t example : examples) {
    require_example("InContextRegression", example);
    const std::uint64_t first = options_.split == Split::train ? 0 : first_validation_example;
    Random random(options_.seed, Stream::data, first + static_cast<std::uint64_t>(example));
    for (double& weight : w) weight = random.normal();
    for (std::int64_t n = 0; n <= N; ++n) {
      double y = 0;
      for (const double weight : w) {
        const double x = 2 * random.uniform() - 1;
        y += weight * x;
        *input++ = static_cast<float>(x);
      }
      *input++ = n < N ? static_cast<float>(y) : 0.0F;
      if (n == N) *target++ = static_cast<float>(y);
    }
  }
  return batch;
}

// With A = 1/N Σ x xᵀ the error of a question x is w·(ηA - I)x, of which the expected square is
// D/3 (η² a - 2η/3 + 1), a = E[A²]_dd, E[x_d²] = 1/3 and E[x_d⁴] = 1/5.
double InContextRegression::best_rate() const {
  const auto N = static_cast<double>(options_.pairs), D = static_cast<double>(options_.dimensions);
  return (1.0 / 3) / ((N - 1) / (9 * N) + (1.0 / 5 + (D - 1) / 9) / N);
}

std::vector<double> InContextRegression::answers_after_a_step(const Array& inputs) const {
  const std::int64_t N = options_.pairs, D = options_.dimensions;
  require(inputs.rank() == 3 && inputs.dim(1) == N + 1 && inputs.dim(2) == D + 1,
          "InContextRegression: inputs {}; expected (B, {}, {})", inputs.shape(), N + 1, D + 1);
  std::vector<double> answers;
  const float* values = inputs.values<float>().data();
  for (std::int64_t b = 0; b < inputs.dim(0); ++b) {
    const float *pairs = values + b * (N + 1) * (D + 1), *question = pairs + N * (D + 1);
    double sum = 0;
    for (const float* x = pairs; x < question; x += D + 1)
      sum += x[D] * std::inner_product(x, x + D, question, 0.0);
    answers.push_back(best_rate() / static_cast<double>(N) * sum);
  }
  return answers;
}

}  // namespace tapestry
