#include "tests/bench/scaling.hpp"

#include <fmt/core.h>

#include <algorithm>
#include <map>
#include <numeric>

#include "autograd/check.hpp"
#include "autograd/parallel.hpp"
#include "autograd/restore.hpp"

namespace tapestry {
namespace {

using profile::Event;

constexpr const char* between_steps = "between steps";  // the mark before each step

double sum(const std::vector<double>& seconds) {
  return std::accumulate(seconds.begin(), seconds.end(), 0.0);
}

Part part_of(Event event) {
  double serial = event.duration_s;
  for (const std::vector<double>& loop : event.loops) serial -= sum(loop);
  return {std::move(event.name), event.phase, std::max(0.0, serial), std::move(event.loops)};
}

bool same_loops(const Part& a, const Part& b) {
  const auto pieces = [](const std::vector<double>& loop) { return loop.size(); };
  return std::ranges::equal(a.loops, b.loops, {}, pieces, pieces);
}

// Keeps the shorter time of two steps, piece by piece: interruptions do not count.
void keep_the_least(std::vector<Part>& step, const std::vector<Part>& other) {
  if (!std::ranges::equal(step, other, same_loops)) return;
  const auto lesser = [](double a, double b) { return std::min(a, b); };
  for (std::size_t i = 0; i < step.size(); ++i) {
    step[i].serial_s = lesser(step[i].serial_s, other[i].serial_s);
    for (std::size_t loop = 0; loop < step[i].loops.size(); ++loop)
      std::ranges::transform(step[i].loops[loop], other[i].loops[loop], step[i].loops[loop].begin(),
                             lesser);
  }
}

// One op in one phase.
struct Row {
  std::string name;
  double one_s = 0, many_s = 0, serial_s = 0, longest_piece_s = 0;
  std::size_t loops = 0, pieces = 0;

  void add(const Part& part, int threads) {
    one_s += seconds_of(part, 1);
    many_s += seconds_of(part, threads);
    serial_s += part.serial_s;
    loops += part.loops.size();
    for (const std::vector<double>& loop : part.loops) {
      pieces += loop.size();
      longest_piece_s = std::max(longest_piece_s, std::ranges::max(loop));
    }
  }
};

std::vector<Row> rows_of(const std::vector<Part>& step, int threads) {
  std::map<std::string, Row> by_name;
  for (const Part& part : step) {
    const std::string name = fmt::format("{} {}", part.name, profile::to_string(part.phase));
    Row& row = by_name[name];
    row.name = name;
    row.add(part, threads);
  }
  std::vector<Row> rows;
  for (const auto& [name, row] : by_name) rows.push_back(row);
  std::ranges::sort(rows, std::greater(), &Row::many_s);
  return rows;
}

}  // namespace

double longest_thread(const std::vector<double>& pieces, int threads) {
  const auto n = std::ssize(pieces);
  const int team = static_cast<int>(std::min<std::ptrdiff_t>(n, threads));
  std::vector<std::ptrdiff_t> next, end;
  for (int thread = 0; thread < team; ++thread) {
    next.push_back(thread * n / team);
    end.push_back((thread + 1) * n / team);
  }
  std::vector<double> busy_until(team);
  for (std::ptrdiff_t taken = 0; taken < n; ++taken) {
    const auto thread = std::ranges::min_element(busy_until) - busy_until.begin();
    auto share = thread;
    while (next[share] == end[share]) share = (share + 1) % team;
    busy_until[thread] += pieces[next[share]++];
  }
  return n == 0 ? 0 : std::ranges::max(busy_until);
}

double seconds_of(const Part& part, int threads) {
  double seconds = part.serial_s;
  for (const std::vector<double>& loop : part.loops) seconds += longest_thread(loop, threads);
  return seconds;
}

StepSpeed measure_steps(const std::function<void()>& step, const TimingOptions& options) {
  if (!profile::keeps_loops()) return step_speed(step, options);
  const auto marked_step = [&] {
    profile::mark(profile::Phase::step, between_steps, nullptr, 0);
    step();
  };
  return {.times = time_steps(marked_step, options)};
}

std::vector<Part> parts_of_step(int threads, const std::function<void()>& measure) {
  const RestoreSetting use_threads(set_num_threads, threads, num_threads());
  profile::start(profile::Keep::loops);
  measure();
  std::vector<Event> events = profile::stop();

  std::vector<std::vector<Part>> steps;
  for (Event& event : events)
    if (event.name == between_steps)
      steps.emplace_back();
    else if (!steps.empty())
      steps.back().push_back(part_of(std::move(event)));
  require(!steps.empty(), "scaling: nothing was measured");
  std::vector<Part> least = steps.back();  // the first one also allocates
  for (const std::vector<Part>& step : steps) keep_the_least(least, step);
  return least;
}

std::string scaling_table(const std::function<std::vector<Part>(int threads)>& step_for) {
  constexpr int most = 64;
  constexpr std::size_t most_ops = 20;
  const auto seconds = [](const std::vector<Part>& step, int threads) {
    double total = 0;
    for (const Part& part : step) total += seconds_of(part, threads);
    return total;
  };
  std::string table = fmt::format("{:<8} {:>10} {:>14} {:>14} {:>16}\n", "threads", "ms a step",
                                  "times as fast", "outside loops", "the same on 1");
  std::vector<Part> step;
  double alone = 0;
  for (int threads = 1; threads <= most; threads *= 2) {
    step = step_for(threads);
    if (threads == 1) alone = seconds(step, 1);
    double serial = 0;
    for (const Part& part : step) serial += part.serial_s;
    const double together = seconds(step, threads);
    table +=
        fmt::format("{:<8} {:>10.3f} {:>14.2f} {:>12.1f} % {:>13.3f} ms\n", threads, together * 1e3,
                    alone / together, 100 * serial / together, seconds(step, 1) * 1e3);
  }
  table +=
      fmt::format("\n{:<34} {:>10} {:>10} {:>14} {:>6} {:>7} {:>13}\n", "op", "ms on 1",
                  fmt::format("on {}", most), "outside loops", "loops", "pieces", "longest piece");
  std::vector<Row> rows = rows_of(step, most);
  rows.resize(std::min(rows.size(), most_ops));
  for (const Row& row : rows)
    table += fmt::format("{:<34} {:>10.3f} {:>10.3f} {:>14.3f} {:>6} {:>7} {:>13.3f}\n", row.name,
                         row.one_s * 1e3, row.many_s * 1e3, row.serial_s * 1e3, row.loops,
                         row.pieces, row.longest_piece_s * 1e3);
  return table;
}

}  // namespace tapestry
