#include "data/series/step.hpp"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <vector>

#include "autograd/counted.hpp"

namespace tapestry {
namespace {

using namespace std::chrono;

struct Date {
  std::int64_t month = 0;  // since year 0
  unsigned day = 1, last = 31;
  std::int64_t of_day_us = 0;
};

std::int64_t day_number(std::int64_t us) { return us / day_us - (us % day_us < 0); }

unsigned last_day(std::int64_t month) {
  const year_month_day_last last{year(static_cast<int>(month / 12)),
                                 month_day_last(std::chrono::month(month % 12 + 1))};
  return static_cast<unsigned>(last.day());
}

Date date_of(std::int64_t us) {
  const std::int64_t days_count = day_number(us);
  const year_month_day date{sys_days(days(days_count))};
  const std::int64_t month = int{date.year()} * 12 + unsigned{date.month()} - 1;
  return {month, static_cast<unsigned>(date.day()), last_day(month), us - days_count * day_us};
}

std::int64_t time_of(std::int64_t month, unsigned day, std::int64_t of_day_us) {
  const year_month_day date{year(static_cast<int>(month / 12)),
                            std::chrono::month(static_cast<unsigned>(month % 12 + 1)),
                            std::chrono::day(std::min(day, last_day(month)))};
  return sys_days(date).time_since_epoch().count() * day_us + of_day_us;
}

// Returns the number of days since a Monday, and of the business days among them.
std::int64_t weekday_of(std::int64_t day) { return ((day + 3) % 7 + 7) % 7; }  // 0: Monday
std::int64_t business_number(std::int64_t day) {
  const std::int64_t weekday = weekday_of(day);
  return (day - weekday + 3) / 7 * 5 + std::min<std::int64_t>(weekday, 5);
}

std::int64_t median(std::vector<std::int64_t> values) {
  const auto middle = values.begin() + (std::ssize(values) - 1) / 2;
  std::ranges::nth_element(values, middle);
  return *middle;
}

std::vector<std::int64_t> distances(std::span<const std::int64_t> times) {
  std::vector<std::int64_t> all;
  for (std::size_t i = 1; i < times.size(); ++i) all.push_back(times[i] - times[i - 1]);
  return all;
}

bool have_one_time_of_day(std::span<const std::int64_t> times) {
  return std::ranges::all_of(times, [&](std::int64_t us) {
    return date_of(us).of_day_us == date_of(times.front()).of_day_us;
  });
}

// Returns the step of times at one day of the month; none for others.
TimeStep months_of(std::span<const std::int64_t> times) {
  bool are_last = true, are_same = true;
  std::vector<std::int64_t> apart;
  const Date first = date_of(times.front());
  Date before = first;
  for (const std::int64_t us : times) {
    const Date date = date_of(us);
    are_last &= date.day == date.last;
    are_same &= date.day == first.day;
    if (us != times.front()) apart.push_back(date.month - before.month);
    before = date;
  }
  if (apart.empty() || !(are_last || are_same) || median(apart) < 1) return {};
  return {TimeStep::Unit::months, median(apart), !are_same};
}

// Returns a distance as it was meant: readings at 59 min 58 s and 60 min 2 s are an hour apart.
std::int64_t rounded(std::int64_t us) {
  for (const std::int64_t unit : {day_us, hour_us, 60 * second_us, second_us}) {
    const std::int64_t whole =
        std::llround(static_cast<double>(us) / static_cast<double>(unit)) * unit;
    if (whole > 0 && std::abs(us - whole) * 100 <= whole) return whole;
  }
  return us;
}

// Returns whether 90 % of the rows are within a tenth of a step of a whole number of steps after
// the row before.
bool explains(const TimeStep& step, std::span<const std::int64_t> times) {
  std::int64_t explained = 0;
  for (std::size_t i = 1; i < times.size(); ++i) {
    const std::int64_t steps = step.between(times[i - 1], times[i]);
    const std::int64_t off = times[i] - step.after(times[i - 1], steps);
    explained += std::abs(static_cast<double>(off)) <= 0.1e6 * step.seconds();
  }
  return explained * 10 >= std::ssize(times.subspan(1)) * 9;
}

}  // namespace

std::int64_t TimeStep::between(std::int64_t from_us, std::int64_t to_us) const {
  switch (unit) {
    case Unit::none:
      return 1;
    case Unit::microseconds:
      return std::llround(static_cast<double>(to_us - from_us) / static_cast<double>(count));
    case Unit::months:
      return std::llround(static_cast<double>(date_of(to_us).month - date_of(from_us).month) /
                          static_cast<double>(count));
    case Unit::business_days:
      return business_number(day_number(to_us)) - business_number(day_number(from_us));
  }
  return 0;
}

std::int64_t TimeStep::after(std::int64_t from_us, std::int64_t steps) const {
  const Date date = date_of(from_us);
  switch (unit) {
    case Unit::none:
      return from_us;
    case Unit::microseconds:
      return from_us + steps * count;
    case Unit::months:
      return time_of(date.month + steps * count, is_last_of_month ? 31 : date.day, date.of_day_us);
    case Unit::business_days: {
      const std::int64_t number = business_number(day_number(from_us)) + steps;
      const std::int64_t weeks = number / 5 - (number % 5 < 0), rest = number - weeks * 5;
      return (weeks * 7 - 3 + rest) * day_us + date.of_day_us;
    }
  }
  return from_us;
}

double TimeStep::seconds() const {
  constexpr double month_s = 365.25 * 86400 / 12;
  switch (unit) {
    case Unit::none:
      return 0;
    case Unit::microseconds:
      return static_cast<double>(count) / static_cast<double>(second_us);
    case Unit::months:
      return static_cast<double>(count) * month_s;
    case Unit::business_days:
      return 86400;
  }
  return 0;
}

TimeStep step_of(std::span<const std::int64_t> times) {
  if (times.size() < 2) return {};
  const std::vector<std::int64_t> apart = distances(times);
  const std::int64_t usual = median(apart);
  if (usual <= 0) return {};
  TimeStep step{TimeStep::Unit::microseconds, usual};
  if (have_one_time_of_day(times)) {
    constexpr std::size_t least_business_days = 10;
    if (const TimeStep months = months_of(times))
      return explains(months, times) ? months : TimeStep{};
    const bool has_weekends =
        std::ranges::any_of(times, [](std::int64_t us) { return weekday_of(day_number(us)) >= 5; });
    if (!has_weekends && times.size() >= least_business_days && usual == day_us)
      step.unit = TimeStep::Unit::business_days;
  } else if (std::ranges::count(apart, usual) * 2 < std::ssize(apart)) {
    step.count = rounded(usual);
  }
  return explains(step, times) ? step : TimeStep{};
}

std::string step_text(const TimeStep& step) {
  switch (step.unit) {
    case TimeStep::Unit::none:
      return "none: the times are irregular";
    case TimeStep::Unit::business_days:
      return "a day from Monday to Friday";
    case TimeStep::Unit::months:
      return counted(step.count, "month");
    case TimeStep::Unit::microseconds:
      for (const auto& [unit_us, name] : {std::pair(day_us, "day"),
                                          {hour_us, "hour"},
                                          {60 * second_us, "minute"},
                                          {second_us, "second"}})
        if (step.count % unit_us == 0) return counted(step.count / unit_us, name);
  }
  return fmt::format("{:.6g} s", step.seconds());
}

double regularity(std::span<const std::int64_t> times) {
  if (times.size() < 2) return 0;
  std::vector<std::int64_t> ordered(times.begin(), times.end());
  if (ordered.front() > ordered.back()) std::ranges::reverse(ordered);
  if (!std::ranges::is_sorted(ordered)) return 0;
  const TimeStep step = step_of(ordered);
  if (!step) return 0;
  std::int64_t regular = 0;
  for (std::size_t i = 1; i < ordered.size(); ++i)
    regular += step.between(ordered[i - 1], ordered[i]) == 1;
  return static_cast<double>(regular) / static_cast<double>(ordered.size() - 1);
}

std::int64_t season_of(const TimeStep& step, std::int64_t context) {
  const std::int64_t season =
      step.unit == TimeStep::Unit::business_days                    ? 5
      : step.unit == TimeStep::Unit::months && 12 % step.count == 0 ? 12 / step.count
      : step.unit != TimeStep::Unit::microseconds                   ? 0
      : step.count < day_us && day_us % step.count == 0             ? day_us / step.count
      : step.count == day_us                                        ? 7
      : step.count >= 28 * day_us && step.count <= 31 * day_us      ? 12  // by rules 1
                                                                    : 0;
  return season > 1 && season <= context ? season : 0;
}

}  // namespace tapestry
