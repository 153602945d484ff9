#include "data/table/table_columns.hpp"

#include <algorithm>
#include <cmath>

#include "autograd/check.hpp"
#include "data/json.hpp"
#include "data/text/printable.hpp"

namespace tapestry {

bool has_no_category(std::string_view cell, const std::vector<std::string>& words) {
  return is_missing(cell, words) && lower_ascii(cell) != "none";
}

// --- scores ---

namespace {

// Returns x with Φ(x) = p for 0 < p < 1, by Newton's method from 0 within ±6.
double normal_quantile(double p) {
  double x = 0;
  for (int i = 0; i < 100; ++i) {
    const double error = 0.5 * std::erfc(-x / std::sqrt(2.0)) - p;
    const double density = std::exp(-x * x / 2) / std::sqrt(2 * std::acos(-1.0));
    const double step = std::clamp(error / density, -1.0, 1.0);
    x -= step;
    if (std::abs(step) < 1e-12) break;
  }
  return x;
}

}  // namespace

Knots knots_of(std::vector<double> numbers) {
  constexpr std::int64_t most = 1000;
  if (numbers.empty()) return {{0, 0}};
  std::ranges::sort(numbers);
  const std::int64_t count = std::min(most, std::ssize(numbers));
  Knots knots;
  double sum = 0, equal = 0;
  for (std::int64_t i = 0; i < count; ++i) {
    const double number = numbers[count == 1 ? 0 : i * (std::ssize(numbers) - 1) / (count - 1)];
    const double score =
        normal_quantile((static_cast<double>(i) + 0.5) / static_cast<double>(count));
    if (knots.empty() || knots.back().first != number) {
      knots.emplace_back(number, score);
      sum = equal = 0;
    }
    sum += score;
    knots.back().second = sum / ++equal;
  }
  return knots;
}

double scaled(const Knots& knots, double number) {
  const auto above = std::ranges::upper_bound(knots, number, {}, &Knots::value_type::first);
  if (above == knots.begin()) return knots.front().second;
  const auto below = above - 1;
  if (above == knots.end() || below->first == number) return below->second;
  const double share = (number - below->first) / (above->first - below->first);
  return below->second + share * (above->second - below->second);
}

double unscaled(const Knots& knots, double score) {
  const auto above = std::ranges::upper_bound(knots, score, {}, &Knots::value_type::second);
  if (above == knots.begin()) return knots.front().first;
  const auto below = above - 1;
  if (above == knots.end()) return below->first;
  const double share = (score - below->second) / (above->second - below->second);
  return below->first + share * (above->first - below->first);
}

// --- columns ---

std::int64_t TableColumns::numbers() const {
  std::int64_t count = 0;
  for (const InputColumn& column : inputs)
    if (!column.categories) count += 1 + column.has_mask;
  return count;
}

std::int64_t TableColumns::width() const { return numbers() + std::ssize(category_counts()); }

std::vector<std::int64_t> TableColumns::category_counts() const {
  std::vector<std::int64_t> counts;
  for (const InputColumn& column : inputs)
    if (column.categories) counts.push_back(std::ssize(*column.categories) + 1);
  return counts;
}

std::vector<std::vector<double>> TableColumns::edges(std::int64_t bins) const {
  std::vector<std::vector<double>> all;
  for (const InputColumn& column : inputs) {
    if (column.categories) continue;
    std::vector<double> edges;
    const std::int64_t last = std::ssize(column.knots) - 1, count = std::min(bins, last);
    for (std::int64_t i = 0; i <= count && count > 0; ++i)
      edges.push_back(column.knots[i * last / count].second);
    all.push_back(std::move(edges));
    if (column.has_mask) all.emplace_back();
  }
  return all;
}

std::string TableColumns::to_json() const {
  JsonValue list = JsonValue::array();
  for (const InputColumn& column : inputs) {
    JsonValue one{{"name", column.name}};
    if (column.is_time()) one["time"] = column.time_format;
    if (column.has_mask) one["mask"] = true;
    if (column.categories) {
      one["categories"] = *column.categories;
    } else {
      JsonValue knots = JsonValue::array();
      for (const auto& [number, score] : column.knots)
        knots.push_back(JsonValue::array({number, score}));
      one["knots"] = std::move(knots);
    }
    list.push_back(std::move(one));
  }
  const JsonValue of_target{{"name", target.name},
                            {"classes", target.classes},
                            {"mean", target.mean},
                            {"deviation", target.deviation}};
  return JsonValue{{"inputs", list}, {"target", of_target}}.dump();
}

TableColumns TableColumns::from_json(const std::string& json) {
  TableColumns columns;
  const JsonValue all = JsonValue::parse(json);
  for (const JsonValue& one : all["inputs"]) {
    InputColumn column{.name = one["name"].get<std::string>(),
                       .time_format = one.contains("time") ? one["time"].get<std::string>() : "",
                       .has_mask = one.contains("mask")};
    if (one.contains("categories"))
      column.categories = one["categories"].get<std::vector<std::string>>();
    else
      for (const JsonValue& knot : one["knots"])
        column.knots.emplace_back(knot[0].get<double>(), knot[1].get<double>());
    require(column.categories || !column.knots.empty(), "columns: {} has no knots", column.name);
    columns.inputs.push_back(std::move(column));
  }
  const JsonValue& target = all["target"];
  columns.target = {.name = target["name"].get<std::string>(),
                    .classes = target["classes"].get<std::vector<std::string>>(),
                    .mean = target["mean"].get<double>(),
                    .deviation = target["deviation"].get<double>()};
  return columns;
}

// --- encoding ---

RowEncoder::RowEncoder(const TableColumns& columns, const NumberFormat& format)
    : columns_(columns),
      format_(format),
      times_(columns.inputs.size()),
      categories_(columns.inputs.size()) {
  for (std::size_t i = 0; i < columns.inputs.size(); ++i) {
    if (columns.inputs[i].is_time()) times_[i].emplace(columns.inputs[i].time_format);
    if (const auto& names = columns.inputs[i].categories)
      for (const std::string& name : *names)
        categories_[i].emplace(name, static_cast<std::int32_t>(categories_[i].size()) + 1);
  }
}

std::optional<double> days_of_cell(const InputColumn& column, const TimeFormat& format,
                                   std::string_view cell,
                                   const std::vector<std::string>& missing_words) {
  if (is_missing(cell, missing_words)) return std::nullopt;
  const auto time = format.parse(cell);
  expect_input(time.has_value(), "{}: \"{}\" is no time; expected one such as {}", column.name,
               shown(cell), format.example());
  return static_cast<double>(time->utc_us()) / static_cast<double>(day_us);
}

namespace {

std::optional<double> number_of_cell(const InputColumn& column, std::string_view cell,
                                     const NumberFormat& format) {
  if (is_missing(cell, format.missing_words)) return std::nullopt;
  const auto number = number_in(cell, format);
  expect_input(number.has_value(), "{}: \"{}\" is no number", column.name, shown(cell));
  return number;
}

}  // namespace

std::string RowEncoder::encode(std::span<const std::string> cells, float* inputs) const {
  std::string unusual;
  const auto note = [&](const InputColumn& column, const std::string& what) {
    if (unusual.empty()) unusual = fmt::format("{}: {}", column.name, what);
  };
  float* category = inputs + columns_.numbers();
  for (std::size_t i = 0; i < columns_.inputs.size(); ++i) {
    const InputColumn& column = columns_.inputs[i];
    if (column.categories) {
      const auto found = categories_[i].find(cells[i]);
      const bool is_known = found != categories_[i].end();
      if (!is_known && !has_no_category(cells[i], format_.missing_words))
        note(column, fmt::format("unseen category {}", shown(cells[i])));
      *category++ = is_known ? static_cast<float>(found->second) : 0;
      continue;
    }
    const auto number = times_[i]
                            ? days_of_cell(column, *times_[i], cells[i], format_.missing_words)
                            : number_of_cell(column, cells[i], format_);
    *inputs++ = number ? static_cast<float>(scaled(column.knots, *number)) : 0;
    if (column.has_mask)
      *inputs++ = number ? 0 : 1;
    else if (!number)
      note(column, "missing, which it is in no training row");
    const double least = column.knots.front().first, most = column.knots.back().first;
    if (number && (*number < least || *number > most))
      note(column, fmt::format("outside {:.10g} to {:.10g}", least, most));
  }
  return unusual;
}

}  // namespace tapestry
