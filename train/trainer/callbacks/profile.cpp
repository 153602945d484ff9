#include "train/trainer/callbacks/profile.hpp"

#include <fmt/core.h>

#include <algorithm>
#include <map>

#include "data/json.hpp"
#include "train/measure/machine.hpp"

namespace tapestry {
namespace {

using profile::Event;
using profile::Phase;

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

}  // namespace

std::string profile_table(const std::vector<Event>& events, std::int64_t steps) {
  const double arithmetic_peak = measure_arithmetic_peak(), memory_peak = measure_memory_peak();
  const std::vector<Row> rows = rows_of(events);
  double total = 0;
  for (const Row& row : rows) total += row.seconds;
  const auto count = static_cast<double>(std::max<std::int64_t>(1, steps));
  std::string table = fmt::format(
      "{:.2f} ms a step over {} steps; peaks: {:.0f} GFLOP/s (best product {:.0f}), {:.0f} GB/s\n"
      "{:<30} {:<8} {:>6} {:>9} {:>6} {:>15} {:>15}\n",
      total / count * 1e3, steps, arithmetic_peak, measure_best_product(), memory_peak, "op",
      "phase", "calls", "ms", "share", "GFLOP/s", "GB/s");
  for (const Row& row : rows)
    table +=
        fmt::format("{:<30} {:<8} {:>6.0f} {:>9.3f} {:>4.1f} % {} {}\n", row.name,
                    profile::to_string(row.phase), row.calls / count, row.seconds / count * 1e3,
                    100 * row.seconds / total, rate(row.flops, row.seconds, arithmetic_peak),
                    rate(row.bytes, row.seconds, memory_peak));
  return table + "Above 100 %: products of bfloat16, or bytes that stayed in the caches.\n";
}

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

}  // namespace tapestry
