#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace tapestry {

inline constexpr std::int64_t day_s = 86400;

// The format of the times of a table.
enum class TimeFormat {
  detected,
  iso,               // 2016-07-31, 2016-07-31 12:00[:00[.000]], 2016-07-31T12:00:00Z or +02:00
  day_first,         // 31.07.2016, 31.07.2016 12:00[:00]
  unix_seconds,      // since 1970-01-01, UTC
  unix_milliseconds  // the same in thousandths
};

// Returns a time in seconds since 1970-01-01, without fractions; nothing if the text is not a time
// in this format, if its year is not from 1 to 9999, and for TimeFormat::detected. A time with an
// offset is converted to UTC; others are kept as they are.
std::optional<std::int64_t> parse_time(std::string_view text, TimeFormat format);

// Returns the format in which a text is a time: iso or day_first; or detected, if it is neither.
TimeFormat format_of_time(std::string_view text);

// Returns an example of a format, for a message.
const char* example_of(TimeFormat format);

// Returns a time as in "2016-07-01 12:00:00".
std::string time_text(std::int64_t time_s);

}  // namespace tapestry
