#include "train/doctor/dependence.hpp"

#include <algorithm>
#include <cmath>
#include <map>
#include <numeric>

#include "autograd/random.hpp"

namespace tapestry {
namespace {

constexpr int pairings = 100;

// Takes the mean of each row and column away, of n × n numbers.
void centre(std::vector<double>& matrix, std::size_t n) {
  std::vector<double> means(n);
  for (std::size_t i = 0; i < n * n; ++i) means[i / n] += matrix[i] / static_cast<double>(n);
  const double mean = std::accumulate(means.begin(), means.end(), 0.0) / static_cast<double>(n);
  for (std::size_t i = 0; i < n * n; ++i) matrix[i] += mean - means[i / n] - means[i % n];
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

double product(std::span<const float> a, std::span<const float> b) {
  return std::inner_product(a.begin(), a.begin() + std::min(a.size(), b.size()), b.begin(), 0.0);
}

template <class Views>
std::vector<double> products(const Views& views) {
  const std::size_t n = views.size();
  std::vector<double> matrix(n * n);
  for (std::size_t i = 0; i < n; ++i)
    for (std::size_t j = 0; j <= i; ++j)
      matrix[i * n + j] = matrix[j * n + i] = product(views[i], views[j]);
  return matrix;
}

}  // namespace

std::vector<double> likeness(const std::vector<Array>& examples) {
  if (examples.front().dtype() == DType::int32) {
    std::vector<Bag> bags;
    for (const Array& tokens : examples) bags.push_back(bag_of(tokens));
    return products(bags);
  }
  std::vector<std::span<const float>> rows;
  for (const Array& numbers : examples) rows.push_back(numbers.values<float>());
  return products(rows);
}

double dependence(std::vector<double> one, std::vector<double> other, std::uint64_t seed) {
  const auto n = static_cast<std::size_t>(std::sqrt(static_cast<double>(one.size())) + 0.5);
  centre(one, n);
  centre(other, n);
  std::vector<std::size_t> order(n);
  std::iota(order.begin(), order.end(), std::size_t{0});
  const auto criterion = [&] {
    double sum = 0;
    for (std::size_t i = 0; i < n; ++i)
      for (std::size_t j = 0; j < n; ++j) sum += one[i * n + j] * other[order[i] * n + order[j]];
    return sum;
  };
  const double found = criterion();
  Random random(seed, Stream::eval);
  double mean = 0, squares = 0;
  for (int i = 0; i < pairings; ++i) {
    random.shuffle(order);
    const double value = criterion();
    mean += value / pairings;
    squares += value * value / pairings;
  }
  const double deviation = std::sqrt(std::max(0.0, squares - mean * mean));
  return deviation > 0 ? (found - mean) / deviation : 0;
}

}  // namespace tapestry
