#pragma once

#include <map>
#include <string>
#include <utility>
#include <vector>

#include "train/run/lines.hpp"

namespace tapestry {

struct CurvePoint {
  double x = 0, low = 0, y = 0, high = 0;  // low and high are equal to y unless the curve is a band
};

// A metric of a split over the steps of a run. A point of several seeds has the mean, the lowest
// and the highest value.
struct Curve {
  std::string metric{}, split{};
  std::string run{};
  std::int64_t seeds = 1;
  std::int64_t rows_a_point = 1;  // number of lines of metrics.jsonl that a point averages
  std::vector<CurvePoint> points{};
};

// A reader of curves from lines of metrics, in bounded memory. The points of a long curve are means
// of neighbors, except for the last point, which stays unchanged.
class CurveReader {
 public:
  void read(const MetricsLine& line);
  std::vector<Curve> take();  // returns the curves; must be the last call
  // Returns whether the lines had more than 300 curves, of which only the first are kept.
  bool left_some_out() const { return left_some_out_; }

 private:
  struct Rows {
    std::vector<CurvePoint> points{};
    std::int64_t rows_a_point = 1;
    std::int64_t rows = 0;  // number of rows in the sums of the next point
    double steps = 0, values = 0;
    CurvePoint last{};
  };
  using Name = std::pair<std::string, std::string>;  // metric and split

  void add(const Name& name, double step, double value);

  std::map<Name, Rows> curves_;
  bool left_some_out_ = false;
};

// Returns the curves of several seeds as bands. A step is included if every seed that reached the
// step has a point there. The evaluations of the test split, one per seed, become one point.
std::vector<Curve> joined(std::vector<std::vector<Curve>> seeds);

// Reduces a curve to at most `most` >= 2 points and keeps its last point unchanged.
void thin_out(Curve& curve, std::size_t most);

// Sorts the loss first, then the task's metrics, then those of every training (rates and speeds).
void sort_by_interest(std::vector<Curve>& curves);

}  // namespace tapestry
