#pragma once

#include <map>
#include <string>
#include <utility>
#include <vector>

#include "data/json.hpp"
#include "train/tools/report/html.hpp"

namespace tapestry {

// A figure of a split over the steps of a training, or of several that differ in their seed: then
// the points have the mean, the lowest and the highest.
struct Curve {
  std::string metric{}, split{};
  std::string run{};
  std::int64_t seeds = 1;
  std::int64_t rows_a_point = 1;  // of metrics.jsonl, whose mean each point is
  std::vector<PlotPoint> points{};
};

// Reads curves off lines of metrics, in bounded memory however many these are: of a long one each
// point becomes the mean of neighbours, but for the last, which stays as it was recorded.
class CurveReader {
 public:
  void read(const JsonValue& line);
  std::vector<Curve> take();
  bool left_some_out() const { return left_some_out_; }

 private:
  struct Rows {
    std::vector<PlotPoint> points{};
    std::int64_t rows_a_point = 1;
    std::int64_t rows = 0;  // in the sums, of the next point
    double steps = 0, values = 0;
    PlotPoint last{};
  };
  using Name = std::pair<std::string, std::string>;  // metric and split

  void add(const Name& name, double step, double value);

  std::map<Name, Rows> curves_;
  bool left_some_out_ = false;
};

// Curves of runs that differ in their seed, as bands: a list of curves for each seed. A step counts
// where every seed that got so far has it; tests, of which each has one, are joined as they come.
std::vector<Curve> joined(std::vector<std::vector<Curve>> seeds);

// At most so many points, and the last as it is.
void thin_out(Curve& curve, std::size_t most);

// The loss first, then what a task measures, and last what every training has: rates and speeds.
void sort_by_interest(std::vector<Curve>& curves);

}  // namespace tapestry
