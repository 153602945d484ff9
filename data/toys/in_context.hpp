#pragma once

#include <cstdint>
#include <vector>

#include "data/dataset.hpp"

namespace tapestry {

struct InContextOptions {
  std::int64_t pairs = 10;       // N: pairs before the question, 1 to 512
  std::int64_t dimensions = 10;  // D: numbers of an input, 1 to 512
  std::int64_t examples = 1'000'000;
  std::uint64_t seed = 0;
  Split split = Split::train;
};

// In-context linear regression: a sequence shows N pairs of an input x, uniform in [-1, 1)^D, and
// y = w·x, and asks for y of another x. Each sequence has its own w ~ N(0, I) (Garg et al. 2022,
// arXiv 2208.01066; inputs as in von Oswald et al. 2023, arXiv 2212.07677, §3). A batch: inputs
// (B, N + 1, D + 1) of rows (x, y), the last of them (x, 0), and targets (B), float32. Example i
// depends only on the seed, the split and i.
class InContextRegression final : public Dataset {
 public:
  // Throws OptionError of an option out of range.
  explicit InContextRegression(const InContextOptions& options);

  std::int64_t size() const override { return options_.examples; }
  Batch batch(std::span<const std::int64_t> examples) const override;
  bool has_single_examples() const override { return true; }

  // Returns the learning rate of one step of gradient descent on 1/2N Σ (w·x - y)², from w = 0,
  // that gives the smallest expected squared error of the answers.
  double best_rate() const;

  // Returns the answers after this step, for inputs of a batch: (B, N + 1, D + 1) -> B numbers.
  std::vector<double> answers_after_a_step(const Array& inputs) const;

 private:
  InContextOptions options_;
};

}  // namespace tapestry
