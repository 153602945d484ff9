#include "data/series/times.hpp"

#include <fmt/format.h>

#include <array>
#include <chrono>
#include <stdexcept>

#include "data/input_file.hpp"

namespace tapestry {
namespace {

// Returns the seconds since midnight of "12:30", "12:30:15" or "12:30:15.250", without the
// fraction; nothing if the text is not such a time.
std::optional<std::int64_t> time_of_day(std::string_view text) {
  constexpr std::int64_t limits[] = {24, 60, 60}, seconds[] = {3600, 60, 1};
  const std::size_t point = text.find('.');
  if (point != text.npos) {
    const std::string_view fraction = text.substr(point + 1);
    if (fraction.empty() || fraction.find_first_not_of("0123456789") != fraction.npos)
      return std::nullopt;
    text = text.substr(0, point);
  }
  const std::vector<std::string_view> parts = split(text, ':');
  if (parts.size() < 2 || parts.size() > 3 || (point != text.npos && parts.size() == 2))
    return std::nullopt;
  std::int64_t total = 0;
  for (std::size_t i = 0; i < parts.size(); ++i) {
    const auto value = parse_number<std::int64_t>(parts[i]);
    if (!value || *value < 0 || *value >= limits[i]) return std::nullopt;
    total += *value * seconds[i];
  }
  return total;
}

// Returns the seconds of an offset from UTC, "Z", "+02:00" or "-0530", at the end of a time of day,
// and removes the offset from there; 0 without an offset, nothing for one of another form.
std::optional<std::int64_t> take_offset(std::string_view& time) {
  if (time.ends_with('Z')) {
    time.remove_suffix(1);
    return 0;
  }
  const std::size_t sign = time.find_first_of("+-");
  if (sign == time.npos) return 0;
  std::string offset(time.substr(sign + 1));
  if (offset.size() == 4) offset.insert(2, ":");
  const auto seconds = time_of_day(offset);
  const bool is_west = time[sign] == '-';
  time = time.substr(0, sign);
  if (!seconds) return std::nullopt;
  return is_west ? -*seconds : *seconds;
}

// Returns the seconds of a date, whose numbers stand in the order year, month, day or its reverse,
// and of a time of day after it; nothing if the text is no such date.
std::optional<std::int64_t> calendar_time(std::string_view text, char separator, bool day_first) {
  const std::size_t space = text.find_first_of(" T");
  const std::vector<std::string_view> parts = split(text.substr(0, space), separator);
  if (parts.size() != 3) return std::nullopt;
  const auto year = parse_number<int>(parts[day_first ? 2 : 0]);
  const auto month = parse_number<unsigned>(parts[1]);
  const auto day = parse_number<unsigned>(parts[day_first ? 0 : 2]);
  if (!year || !month || !day || *year < 1 || *year > 9999) return std::nullopt;
  const std::chrono::year_month_day date{std::chrono::year(*year), std::chrono::month(*month),
                                         std::chrono::day(*day)};
  if (!date.ok()) return std::nullopt;
  const std::int64_t days = std::chrono::sys_days(date).time_since_epoch().count();
  if (space == text.npos) return days * day_s;
  std::string_view time = text.substr(space + 1);
  const auto offset = take_offset(time);
  const auto seconds = time_of_day(time);
  if (!offset || !seconds) return std::nullopt;
  return days * day_s + *seconds - *offset;
}

std::optional<std::int64_t> unix_time(std::string_view text, double per_second) {
  constexpr double year_10000 = 253'402'300'800;
  const auto number = parse_number<double>(text);
  if (!number || !(*number >= -62'135'596'800 * per_second && *number < year_10000 * per_second))
    return std::nullopt;
  return static_cast<std::int64_t>(*number / per_second);
}

}  // namespace

std::optional<std::int64_t> parse_time(std::string_view text, TimeFormat format) {
  switch (format) {
    case TimeFormat::detected:
      return std::nullopt;
    case TimeFormat::iso:
      return calendar_time(text, '-', false);
    case TimeFormat::day_first:
      return calendar_time(text, '.', true);
    case TimeFormat::unix_seconds:
      return unix_time(text, 1);
    case TimeFormat::unix_milliseconds:
      return unix_time(text, 1000);
  }
  throw std::logic_error("parse_time: unknown format; expected a value of TimeFormat");
}

TimeFormat format_of_time(std::string_view text) {
  for (const TimeFormat format : {TimeFormat::iso, TimeFormat::day_first})
    if (parse_time(text, format)) return format;
  return TimeFormat::detected;
}

const char* example_of(TimeFormat format) {
  constexpr std::array examples{
      "2016-07-31 or 2016-07-31 12:00:00",  // detected
      "2016-07-31 or 2016-07-31 12:00:00",
      "31.07.2016 or 31.07.2016 12:00",
      "1469966400",
      "1469966400000",
  };
  return examples[static_cast<std::size_t>(format)];
}

std::string time_text(std::int64_t time_s) {
  const std::int64_t days = time_s / day_s - (time_s % day_s < 0), seconds = time_s - days * day_s;
  const std::chrono::year_month_day date{std::chrono::sys_days(std::chrono::days(days))};
  return fmt::format("{:04}-{:02}-{:02} {:02}:{:02}:{:02}", static_cast<int>(date.year()),
                     static_cast<unsigned>(date.month()), static_cast<unsigned>(date.day()),
                     seconds / 3600, seconds / 60 % 60, seconds % 60);
}

}  // namespace tapestry
