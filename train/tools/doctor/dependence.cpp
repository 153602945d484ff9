#include "train/tools/doctor/dependence.hpp"

#include <algorithm>
#include <cmath>
#include <map>
#include <numeric>

#include "autograd/random.hpp"

namespace tapestry {
namespace {

// Takes the mean of each row and column away, of n × n numbers; what is rounding alone becomes 0.
void centre(std::vector<double>& matrix, std::size_t n) {
  std::vector<double> means(n);
  for (std::size_t i = 0; i < n * n; ++i) means[i / n] += matrix[i] / static_cast<double>(n);
  const double mean = std::accumulate(means.begin(), means.end(), 0.0) / static_cast<double>(n);
  for (std::size_t i = 0; i < n * n; ++i) {
    matrix[i] += mean - means[i / n] - means[i % n];
    if (std::abs(matrix[i]) < 1e-12 * std::abs(mean)) matrix[i] = 0;
  }
}

// How often each token occurs, in their order.
using Bag = std::vector<std::pair<std::int32_t, double>>;

Bag bag_of(const Array& tokens) {
  std::map<std::int32_t, double> counts;
  for (const std::int32_t token : tokens.values<std::int32_t>())
    if (token != ignored_target) ++counts[token];
  return {counts.begin(), counts.end()};
}

double product(const Bag& a, const Bag& b) {
  double sum = 0;
  for (auto x = a.begin(), y = b.begin(); x != a.end() && y != b.end();) {
    if (x->first == y->first) sum += x->second * y->second;
    const bool first = x->first <= y->first, second = y->first <= x->first;
    x += first;
    y += second;
  }
  return sum;
}

double product(const std::vector<double>& a, const std::vector<double>& b) {
  return std::inner_product(a.begin(), a.end(), b.begin(), 0.0);
}

template <class Views>
std::vector<double> products(const Views& inspectors) {
  const std::size_t n = inspectors.size();
  std::vector<double> matrix(n * n);
  for (std::size_t i = 0; i < n; ++i)
    for (std::size_t j = 0; j <= i; ++j)
      matrix[i * n + j] = matrix[j * n + i] = product(inspectors[i], inspectors[j]);
  return matrix;
}

// Each place's numbers in deviations from its mean; places that some example lacks are left out.
std::vector<std::vector<double>> standardised(const std::vector<Array>& examples) {
  std::int64_t places = examples.front().size();
  for (const Array& numbers : examples) places = std::min(places, numbers.size());
  std::vector<std::vector<double>> rows(examples.size(), std::vector<double>(places));
  const auto n = static_cast<double>(examples.size());
  for (std::int64_t p = 0; p < places; ++p) {
    double mean = 0, squares = 0;
    for (const Array& numbers : examples) mean += numbers.values<float>()[p] / n;
    for (std::size_t i = 0; i < rows.size(); ++i) {
      rows[i][p] = examples[i].values<float>()[p] - mean;
      squares += rows[i][p] * rows[i][p] / n;
    }
    for (auto& row : rows) row[p] /= squares > 0 ? std::sqrt(squares) : 1;
  }
  return rows;
}

// Of the products of n rows: exp(-d²), d being their distance by the usual one.
void to_gaussian(std::vector<double>& matrix, std::size_t n) {
  std::vector<double> lengths(n);
  for (std::size_t i = 0; i < n; ++i) lengths[i] = matrix[i * n + i];
  double mean = 0;
  for (std::size_t i = 0; i < n * n; ++i) {
    matrix[i] = std::max(0.0, lengths[i / n] + lengths[i % n] - 2 * matrix[i]);
    mean += matrix[i] / static_cast<double>(n * n);
  }
  for (double& squared : matrix) squared = std::exp(mean > 0 ? -squared / mean : 0);
}

// Of each row of one and the same of the other, as they are paired.
double criterion(const std::vector<double>& one, const std::vector<double>& other,
                 const std::vector<std::size_t>& order) {
  const std::size_t n = order.size();
  double sum = 0;
  for (std::size_t i = 0; i < n; ++i)  // both are symmetric: what lies below the diagonal
    for (std::size_t j = 0; j < i; ++j) sum += one[i * n + j] * other[order[i] * n + order[j]];
  return sum;
}

int shift_of(std::size_t i) { return static_cast<int>(i % 2 == 0 ? i / 2 + 1 : -(i / 2 + 1)); }

}  // namespace

std::vector<double> likeness(const std::vector<Array>& examples) {
  if (examples.front().dtype() == DType::int32) {
    std::vector<Bag> bags;
    for (const Array& tokens : examples) bags.push_back(bag_of(tokens));
    return products(bags);
  }
  std::vector<double> matrix = products(standardised(examples));
  to_gaussian(matrix, examples.size());
  return matrix;
}

Fit& Fit::operator+=(const Fit& other) {
  given += other.given;
  variety += other.variety;
  for (std::size_t i = 0; i < shifted.size(); ++i) shifted[i] += other.shifted[i];
  for (std::size_t i = 0; i < random.size(); ++i) random[i] += other.random[i];
  return *this;
}

double Fit::deviations(double value) const {
  double mean = 0, squares = 0;
  for (const double one : random) mean += one / pairings;
  for (const double one : random) squares += (one - mean) * (one - mean) / pairings;
  return squares > 0 ? (value - mean) / std::sqrt(squares) : 0;
}

int Fit::best_shift() const {
  return shift_of(std::ranges::max_element(shifted) - shifted.begin());
}

double Fit::shifted_by(int shift) const {
  return deviations(shifted[2 * (std::abs(shift) - 1) + (shift < 0)]);
}

Fit fit(std::vector<double> inputs, std::vector<double> targets, std::uint64_t seed) {
  const auto n = static_cast<std::int64_t>(std::sqrt(static_cast<double>(inputs.size())) + 0.5);
  centre(inputs, n);
  centre(targets, n);
  std::vector<std::size_t> order(n);
  std::iota(order.begin(), order.end(), std::size_t{0});
  Fit found{.given = criterion(inputs, targets, order)};
  for (std::int64_t i = 0; i < n; ++i) found.variety += targets[i * n + i];
  for (std::size_t s = 0; s < found.shifted.size(); ++s) {
    for (std::int64_t i = 0; i < n; ++i) order[i] = ((i + shift_of(s)) % n + n) % n;
    found.shifted[s] = criterion(inputs, targets, order);
  }
  Random random(seed, Stream::eval);
  for (double& value : found.random) {
    random.shuffle(order);
    value = criterion(inputs, targets, order);
  }
  return found;
}

}  // namespace tapestry
