#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace tapestry {

inline constexpr std::int64_t second_us = 1'000'000, hour_us = 3600 * second_us,
                              day_us = 24 * hour_us;

// A time in microseconds since 1970-01-01 on the clock that it was written by. `offset_s`: that of
// this clock from UTC, if it was written.
struct Moment {
  std::int64_t us = 0;
  std::optional<std::int32_t> offset_s{};

  std::int64_t utc_us() const { return us - offset_s.value_or(0) * second_us; }
  bool operator==(const Moment&) const = default;
};

// A format of times: one of the names
//   iso           2016-07-31, 2016-07-31 12:00[:00[.000]], 2016-07-31T12:00:00Z or +02:00
//   day-first     31.07.2016, 31.07.2016 12:00[:00]
//   unix          seconds since 1970-01-01, UTC; unix-ms, unix-us, unix-ns: parts of them
//   excel         days since 1899-12-30
// or a pattern in which these stand for numbers and names, and all other characters for themselves:
//   %Y year   %y its last two digits (69 to 99: 19..)   %m month   %q quarter   %d day
//   %j day of the year   %b Jan   %B January   %H hour   %I hour of 12   %p AM, PM
//   %M minute   %S second   %f its fraction   %z +02:00, +0200, +02, Z, UTC or GMT
// A time of day at the end of a pattern may be missing in a cell, which is then midnight; so may
// its seconds and their fraction. 24:00 is the midnight after the day.
class TimeFormat {
 public:
  // Throws std::invalid_argument for an unknown name or letter, a letter that stands twice, and a
  // pattern without a year.
  explicit TimeFormat(const std::string& text);

  const std::string& text() const { return text_; }
  // Returns the time; nothing if the cell is not a time in this format, or its year is not from 1
  // to 9999.
  std::optional<Moment> parse(std::string_view cell) const;
  // Returns a time in this format, for a message.
  std::string example() const;
  bool is_named() const;
  bool is_number() const { return unit_us_ != 0; }  // unix, unix-ms, …, excel
  bool has_day() const;
  bool has_time_of_day() const;

 private:
  std::string text_, pattern_;
  double unit_us_ = 0;  // of a number; 0: a pattern
};

// Returns the formats in which the text of a cell is a time.
std::vector<TimeFormat> time_formats_of(std::string_view cell);

// Returns the time of day in microseconds of "12:30", "12:30:15[.250]", "12.30.15" or "1:30 PM".
std::optional<std::int64_t> time_of_day(std::string_view cell);

// Returns a time as in "2016-07-01 12:00:00", with its fraction of a second and its offset, if it
// has them.
std::string time_text(const Moment& time);

}  // namespace tapestry
