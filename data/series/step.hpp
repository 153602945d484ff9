#pragma once

#include <cstdint>
#include <span>
#include <string>

#include "data/table/times.hpp"

namespace tapestry {

// The interval between the rows of a series, in which its rows are counted.
struct TimeStep {
  enum class Unit {
    none,          // the times follow no step
    microseconds,  // `count` of them
    months,        // `count` months, at the same day, or the last one of the month
    business_days  // Monday to Friday
  };
  Unit unit = Unit::none;
  std::int64_t count = 0;
  bool is_last_of_month = false;

  bool operator==(const TimeStep&) const = default;
  explicit operator bool() const { return unit != Unit::none; }

  // Returns the number of steps from one time to a later one, in microseconds, rounded.
  std::int64_t between(std::int64_t from_us, std::int64_t to_us) const;
  // Returns the time that many steps after another, which may be before it.
  std::int64_t after(std::int64_t from_us, std::int64_t steps) const;
  // Returns the length of a step in seconds, of a month 1/12 of 365.25 days; 0 without a step.
  double seconds() const;
};

// Returns the step of ascending times on the clock on the wall: if the times of day agree, months
// or business days (of at least ten rows), else the median distance. No step, if less than 90 % of
// the rows are within a tenth of a step of a whole number of steps after the row before.
TimeStep step_of(std::span<const std::int64_t> times_us);

// Returns "15 minutes", "1 month" or "a day from Monday to Friday".
std::string step_text(const TimeStep& step);

// Returns the share of the rows that follow the one before at one step; 0 unless the times ascend
// or descend.
double regularity(std::span<const std::int64_t> times_us);

// Returns the number of rows of a season: a day of rows that follow each other within one, a week
// of days (of business days: 5 rows), a year of months or of 28 to 31 days; 0 if it is unknown or
// longer than `context` rows.
std::int64_t season_of(const TimeStep& step, std::int64_t context);

}  // namespace tapestry
