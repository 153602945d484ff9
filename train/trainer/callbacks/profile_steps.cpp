#include <fmt/core.h>

#include <algorithm>
#include <map>

#include "autograd/profile.hpp"
#include "data/json.hpp"
#include "data/text/printable.hpp"
#include "train/measure/machine.hpp"
#include "train/trainer/callbacks/callbacks.hpp"

namespace tapestry {
namespace {

using profile::Event;
using profile::Phase;

// The first steps still allocate buffers.
constexpr std::int64_t skipped_steps = 5, profiled_steps = 20;

struct Row {
  std::string name;
  Phase phase = Phase::step;
  double calls = 0, seconds = 0, flops = 0, bytes = 0;
};

std::vector<Row> rows_of(const std::vector<Event>& events) {
  std::map<std::pair<std::string, Phase>, Row> by_name;
  for (const Event& event : events) {
    Row& row = by_name[{event.name, event.phase}];
    row.name = event.name;
    row.phase = event.phase;
    row.calls += 1;
    row.seconds += event.duration_s;
    row.flops += event.flops;
    row.bytes += event.bytes;
  }
  std::vector<Row> rows;
  for (const auto& [key, row] : by_name) rows.push_back(row);
  std::ranges::sort(rows, std::greater(), &Row::seconds);
  return rows;
}

std::string rate(double amount, double seconds, double peak) {
  if (amount == 0) return fmt::format("{:>8} {:>6}", "", "");
  const double giga = amount / seconds / 1e9;
  return fmt::format("{:>8.1f} {:>4.0f} %", giga, 100 * giga / peak);
}

// Returns a line for each op and phase, the slowest first: time per step, fraction of the step,
// GFLOP/s and GB/s with their fractions of the peaks, which it measures.
std::string profile_table(const std::vector<Event>& events, std::int64_t steps) {
  const double arithmetic_peak = measure_arithmetic_peak(), memory_peak = measure_memory_peak();
  const std::vector<Row> rows = rows_of(events);
  double total = 0;
  for (const Row& row : rows) total += row.seconds;
  const auto count = static_cast<double>(std::max<std::int64_t>(1, steps));
  std::string table = fmt::format(
      "{:.2f} ms a step over {} steps; peaks: {:.0f} GFLOP/s (matrix product: {:.0f}), {:.0f} "
      "GB/s\n"
      "{:<30} {:<8} {:>6} {:>9} {:>6} {:>15} {:>15}\n",
      total / count * 1e3, steps, arithmetic_peak, measure_best_product(), memory_peak, "op",
      "phase", "calls", "ms", "share", "GFLOP/s", "GB/s");
  for (const Row& row : rows)
    table +=
        fmt::format("{:<30} {:<8} {:>6.0f} {:>9.3f} {:>4.1f} % {} {}\n", row.name,
                    profile::to_string(row.phase), row.calls / count, row.seconds / count * 1e3,
                    100 * row.seconds / total, rate(row.flops, row.seconds, arithmetic_peak),
                    rate(row.bytes, row.seconds, memory_peak));
  return table + "More than 100 %: products in bfloat16, or operands in the caches.\n";
}

// Returns the events in the Trace Event Format, which chrome://tracing and Perfetto open.
std::string profile_trace(const std::vector<Event>& events) {
  auto list = JsonValue::array();
  for (const Event& event : events)
    list.push_back({{"name", event.name},
                    {"cat", profile::to_string(event.phase)},
                    {"ph", "X"},
                    {"ts", event.start_s * 1e6},
                    {"dur", event.duration_s * 1e6},
                    {"pid", 1},
                    {"tid", 1},
                    {"args",
                     {{"scope", event.scope},
                      {"gflop", event.flops / 1e9},
                      {"megabytes", event.bytes / 1e6}}}});
  return JsonValue{{"displayTimeUnit", "ms"}, {"traceEvents", list}}.dump() + "\n";
}

class Profile final : public Callback {
 public:
  Profile(RunLock& lock, const Ranks& ranks, const GradientSum& sum, Log log)
      : lock_(lock), ranks_(ranks), sum_(sum), log_(std::move(log)) {}

  void on_step_begin() override {
    if (++steps_ > skipped_steps && !is_reported_) profile::start();
  }
  void on_step_end(const ComputedStep&, bool) override {
    if (steps_ <= skipped_steps || is_reported_) return;
    const std::vector<Event> events = profile::stop();
    events_.insert(events_.end(), events.begin(), events.end());
    if (steps_ == skipped_steps + profiled_steps) report();
  }
  void on_end() override {
    if (!is_reported_) report();
  }

 private:
  void report() {
    is_reported_ = true;
    const std::int64_t steps = steps_ - skipped_steps;
    if (steps <= 0)
      return log_(fmt::format("no profile: the first {} steps are not measured; train more steps\n",
                              skipped_steps));
    const std::string table = profile_table(events_, steps);
    lock_.replace(lock_.run().trace(), {profile_trace(events_)});
    lock_.replace(lock_.run().profile(), {table});
    log_(fmt::format("{}{}: open it with https://ui.perfetto.dev or chrome://tracing\n", table,
                     printable(lock_.run().trace())));
    if (!ranks_.alone())
      log_(fmt::format(
          "{}: per step {:.2f} MB sent, {:.2f} ms of messages and of waiting for other ranks\n",
          ranks_.name(ranks_.rank()), ranks_.bytes_sent() / 1e6 / steps_,
          sum_.seconds_waited() * 1e3 / steps_));
  }

  RunLock& lock_;
  const Ranks& ranks_;
  const GradientSum& sum_;
  Log log_;
  std::int64_t steps_ = 0;  // number of steps of this process
  bool is_reported_ = false;
  std::vector<Event> events_;
};

}  // namespace

std::unique_ptr<Callback> profile_steps(RunLock& lock, const Ranks& ranks, const GradientSum& sum,
                                        Log log) {
  return std::make_unique<Profile>(lock, ranks, sum, std::move(log));
}

}  // namespace tapestry
