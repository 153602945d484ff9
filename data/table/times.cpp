#include "data/table/times.hpp"

#include <algorithm>
#include <array>
#include <cctype>
#include <charconv>
#include <chrono>
#include <cmath>
#include <set>

#include "autograd/check.hpp"
#include "data/input_file.hpp"

namespace tapestry {
namespace {

constexpr std::string_view months[] = {"january",   "february", "march",    "april",
                                       "may",       "june",     "july",     "august",
                                       "september", "october",  "november", "december"};

// Names of formats, the patterns that they stand for, or the unit of their numbers.
struct Named {
  const char* name;
  const char* pattern;
  double unit_us;
  const char* example;
};
constexpr Named named_formats[] = {
    {"iso", "%Y-%m-%d %H:%M:%S%f%z", 0, "2016-07-31 or 2016-07-31 12:00:00"},
    {"day-first", "%d.%m.%Y %H:%M:%S%f%z", 0, "31.07.2016 or 31.07.2016 12:00"},
    {"unix", "", 1e6, "1469966400"},
    {"unix-ms", "", 1e3, "1469966400000"},
    {"unix-us", "", 1, "1469966400000000"},
    {"unix-ns", "", 1e-3, "1469966400000000000"},
    {"excel", "", 86400e6, "42582"}};

// What a pattern found in a cell.
struct Fields {
  int year = 0, month = 1, day = 1, day_of_year = 0, hour = 0, minute = 0, second = 0;
  std::int64_t fraction_us = 0;
  std::optional<bool> is_afternoon{};
  bool has_twelve_hours = false;
  std::optional<std::int32_t> offset_s{};
};

// The rest of a cell, from whose beginning fields are taken.
class Cell {
 public:
  explicit Cell(std::string_view rest) : rest_(rest) {}
  bool is_empty() const { return rest_.empty(); }
  bool take(char character) {
    if (rest_.empty() || rest_.front() != character) return false;
    rest_.remove_prefix(1);
    return true;
  }
  char next() const { return rest_.empty() ? '\0' : rest_.front(); }

  // Takes a number of `least` to `most` digits, of `low` to `high`.
  bool take_number(int& value, std::size_t least, std::size_t most, int low, int high) {
    std::size_t digits = 0;
    value = 0;
    while (digits < std::min(most, rest_.size()) && is_digit(rest_[digits]))
      value = 10 * value + (rest_[digits++] - '0');
    if (digits < least || value < low || value > high) return false;
    rest_.remove_prefix(digits);
    return true;
  }

  // Takes ".250" as microseconds; further digits are cut off.
  bool take_fraction(std::int64_t& us) {
    if (!(next() == '.' || next() == ',') || rest_.size() < 2 || !is_digit(rest_[1])) return false;
    rest_.remove_prefix(1);
    us = 0;
    for (std::int64_t unit = 100'000; is_digit(next()); unit /= 10) {
      us += unit * (next() - '0');
      rest_.remove_prefix(1);
    }
    return true;
  }

  bool take_word(std::string_view word) {
    if (rest_.size() < word.size()) return false;
    for (std::size_t i = 0; i < word.size(); ++i)
      if (std::tolower(static_cast<unsigned char>(rest_[i])) != word[i]) return false;
    rest_.remove_prefix(word.size());
    return true;
  }

  // Takes the name of a month, or its first three letters (and "sept"), with a point behind it.
  bool take_month(int& month, bool is_whole) {
    for (int i = 0; i < 12; ++i) {
      const bool found = is_whole
                             ? take_word(months[i])
                             : (i == 8 && take_word("sept")) || take_word(months[i].substr(0, 3));
      if (!found) continue;
      if (!is_whole) take('.');
      month = i + 1;
      return true;
    }
    return false;
  }

  bool take_offset(std::optional<std::int32_t>& offset_s) {
    Cell after = *this;
    after.take(' ');
    if (after.take_word("utc") || after.take_word("gmt") || after.take_word("z")) {
      offset_s = 0;
    } else {
      const bool is_west = after.next() == '-';
      int hours = 0, minutes = 0;
      if (!(after.take('+') || after.take('-')) || !after.take_number(hours, 2, 2, 0, 14))
        return false;
      after.take(':');
      if (is_digit(after.next()) && !after.take_number(minutes, 2, 2, 0, 59)) return false;
      offset_s = (hours * 3600 + minutes * 60) * (is_west ? -1 : 1);
    }
    *this = after;
    return true;
  }

 private:
  static bool is_digit(char c) { return c >= '0' && c <= '9'; }
  std::string_view rest_;
};

// Takes what the letter of a pattern stands for.
bool take_field(Cell& cell, char letter, Fields& fields) {
  switch (letter) {
    case 'Y':
      return cell.take_number(fields.year, 4, 4, 1, 9999);
    case 'y':
      if (!cell.take_number(fields.year, 2, 2, 0, 99)) return false;
      fields.year += fields.year >= 69 ? 1900 : 2000;
      return true;
    case 'm':
      return cell.take_number(fields.month, 1, 2, 1, 12);
    case 'b':
    case 'B':
      return cell.take_month(fields.month, letter == 'B');
    case 'q':
      if (!cell.take_number(fields.month, 1, 1, 1, 4)) return false;
      fields.month = 3 * fields.month - 2;
      return true;
    case 'd':
      return cell.take_number(fields.day, 1, 2, 1, 31);
    case 'j':
      return cell.take_number(fields.day_of_year, 3, 3, 1, 366);
    case 'H':
      return cell.take_number(fields.hour, 1, 2, 0, 24);
    case 'I':
      fields.has_twelve_hours = true;
      return cell.take_number(fields.hour, 1, 2, 1, 12);
    case 'M':
      return cell.take_number(fields.minute, 2, 2, 0, 59);
    case 'S':
      return cell.take_number(fields.second, 2, 2, 0, 60);
    case 'f':
      cell.take_fraction(fields.fraction_us);
      return true;
    case 'p':
      cell.take(' ');
      if (cell.take_word("am") || cell.take_word("a.m."))
        fields.is_afternoon = false;
      else if (cell.take_word("pm") || cell.take_word("p.m."))
        fields.is_afternoon = true;
      return fields.is_afternoon.has_value();
    case 'z':
      cell.take_offset(fields.offset_s);
      return true;
  }
  return false;
}

std::optional<std::int64_t> microseconds(const Fields& fields) {
  using namespace std::chrono;
  int hour = fields.hour;
  if (fields.has_twelve_hours) {
    if (!fields.is_afternoon) return std::nullopt;
    hour = hour % 12 + (*fields.is_afternoon ? 12 : 0);
  }
  if (hour == 24 && (fields.minute > 0 || fields.second > 0)) return std::nullopt;
  year_month_day date{year(fields.year), month(fields.month), day(fields.day)};
  if (fields.day_of_year > 0) {
    date = sys_days(year(fields.year) / January / 1) + days(fields.day_of_year - 1);
    if (date.year() != year(fields.year)) return std::nullopt;
  }
  if (!date.ok()) return std::nullopt;
  return std::int64_t{sys_days(date).time_since_epoch().count()} * day_us + hour * hour_us +
         (fields.minute * 60 + fields.second) * second_us + fields.fraction_us;
}

// Returns the time of a cell by a pattern. Where the cell ends before a time of day, its seconds or
// their fraction, these are 0.
std::optional<Moment> parse_pattern(std::string_view text, std::string_view pattern) {
  Cell cell(text);
  Fields fields;
  for (std::size_t i = 0; i < pattern.size(); ++i) {
    const std::string_view rest = pattern.substr(i);
    if (rest.starts_with(":%S") && cell.next() != ':') {
      i += 2;
      for (const std::string_view fraction : {"%f", ".%f"})
        if (pattern.substr(i + 1).starts_with(fraction)) i += fraction.size();
      continue;
    }
    if ((rest.starts_with(" %H") || rest.starts_with("T%H") || rest.starts_with(" %I")) &&
        cell.is_empty())
      break;
    if (pattern[i] == '%' && i + 1 < pattern.size()) {
      if (!take_field(cell, pattern[++i], fields)) return std::nullopt;
    } else if (rest.starts_with(".%f")) {
      if (!take_field(cell, 'f', fields)) return std::nullopt;
      i += 2;
    } else if (!cell.take(pattern[i]) && !(rest.starts_with(" %H") && cell.take('T'))) {
      return std::nullopt;
    }
  }
  if (!cell.is_empty()) return std::nullopt;
  const auto us = microseconds(fields);
  if (!us) return std::nullopt;
  return Moment{.us = *us, .offset_s = fields.offset_s};
}

// Returns the patterns of dates, and of what may follow them. They are tried in this order.
std::vector<std::string> date_patterns() {
  std::vector<std::string> all{"iso", "day-first", "%Y-%m-%d", "%d.%m.%Y", "%Y/%m/%d", "%Y.%m.%d"};
  for (const char* year : {"%Y", "%y"})
    for (const char* date :
         {"%d/%m/",  "%m/%d/",  "%d-%m-",  "%m-%d-",  "%d-%b-", "%d %b ", "%d %B ",
          "%d. %b ", "%d. %B ", "%b %d, ", "%B %d, ", "%b-",    "%b ",    "%B ",
          "%d/%b/",  "%m/",     "%m-",     "%m.",     "Q%q ",   "Q%q-"})
      all.push_back(std::string(date) + year);
  for (const char* date : {"%d.%m.%y", "%y-%m-%d", "%y/%m/%d", "%Y-%m", "%Y/%m", "%Y %b", "%Y-%b",
                           "%YQ%q", "%Y-Q%q", "%Y Q%q", "%Y-%b-%d", "%Y %b %d", "%Y-%j", "%YM%m",
                           "%Y%m%dT%H%M%S", "%Y%m%d %H:%M:%S", "%Y%m%d %H%M"})
    all.emplace_back(date);
  return all;
}

const std::vector<TimeFormat>& known_formats() {
  static const std::vector<TimeFormat> all = [] {
    std::vector<TimeFormat> formats;
    for (const std::string& date : date_patterns()) {
      formats.emplace_back(date);
      if (!formats.back().has_day() || formats.back().has_time_of_day()) continue;
      for (const char* separator : {" ", ", "})
        for (const char* time : {"%H:%M:%S%f%z", "%I:%M:%S%f%p%z", "%I%p", "%H"})
          formats.emplace_back(date + separator + time);
    }
    return formats;
  }();
  return all;
}

}  // namespace

TimeFormat::TimeFormat(const std::string& text) : text_(text), pattern_(text) {
  for (const Named& named : named_formats)
    if (text == named.name) {
      pattern_ = named.pattern;
      unit_us_ = named.unit_us;
      return;
    }
  std::set<char> letters;
  for (std::size_t i = 0; i < text.size(); ++i) {
    if (text[i] != '%') continue;
    const char letter = ++i < text.size() ? text[i] : ' ';
    require(std::string_view("YymqdjbBHIpMSfz").find(letter) != std::string_view::npos,
            "time format \"{}\": %{} is unknown; expected %Y %y %m %q %d %j %b %B %H %I %p %M %S "
            "%f %z",
            text, letter);
    require(letters.insert(letter).second, "time format \"{}\": %{} stands twice", text, letter);
  }
  require(
      letters.contains('Y') || letters.contains('y'),
      "time format \"{}\": expected iso, day-first, unix, unix-ms, unix-us, unix-ns, excel or a "
      "pattern with %Y or %y",
      text);
}

std::optional<Moment> TimeFormat::parse(std::string_view cell) const {
  if (!is_number()) return parse_pattern(cell, pattern_);
  constexpr double year_1_us = -62'135'596'800e6, year_10000_us = 253'402'300'800e6;
  constexpr std::int64_t excel_days = 25569;  // from 1899-12-30 to 1970-01-01
  const std::int64_t days = text_ == "excel" ? excel_days : 0;
  if (const auto number = parse_number<std::int64_t>(cell)) {
    const auto us = static_cast<double>(*number - days) * unit_us_;
    if (!(us >= year_1_us && us < year_10000_us)) return std::nullopt;
    return Moment{.us = unit_us_ >= 1 ? (*number - days) * static_cast<std::int64_t>(unit_us_)
                                      : *number / std::llround(1 / unit_us_)};
  }
  const auto number = parse_number<double>(cell);
  if (!number) return std::nullopt;
  const double us = (*number - static_cast<double>(days)) * unit_us_;
  if (!(us >= year_1_us && us < year_10000_us)) return std::nullopt;
  // A day's fraction is of a second: 43831.0416667 is one o'clock.
  return Moment{.us = days > 0 ? std::llround(us / second_us) * second_us : std::llround(us)};
}

std::string TimeFormat::example() const {
  for (const Named& named : named_formats)
    if (text_ == named.name) return named.example;
  std::string shown;
  for (std::size_t i = 0; i < text_.size(); ++i) {
    if (text_[i] != '%') {
      shown += text_[i];
      continue;
    }
    constexpr std::string_view letters = "YymqdjbBHIpMSfz";
    constexpr std::string_view values[] = {"2016", "16", "07", "3",  "31", "213", "Jul", "July",
                                           "12",   "12", "PM", "00", "00", "",    ""};
    shown += values[letters.find(text_[++i])];
  }
  return shown;
}

bool TimeFormat::is_named() const { return text_.find('%') == text_.npos; }

bool TimeFormat::has_day() const {
  return is_number() || pattern_.find("%d") != pattern_.npos ||
         pattern_.find("%j") != pattern_.npos;
}

bool TimeFormat::has_time_of_day() const {
  return is_number() || pattern_.find("%H") != pattern_.npos ||
         pattern_.find("%I") != pattern_.npos;
}

std::vector<TimeFormat> time_formats_of(std::string_view cell) {
  constexpr std::size_t most_bytes = 40;
  std::vector<TimeFormat> found;
  if (cell.size() > most_bytes || cell.size() < 6) return found;
  if (parse_number<double>(cell)) return found;
  for (const TimeFormat& format : known_formats()) {
    // A format with a time of day also reads dates alone.
    const bool is_longer = std::ranges::any_of(found, [&](const TimeFormat& shorter) {
      return shorter.parse(cell) == format.parse(cell) &&
             (shorter.is_named() || format.text().starts_with(shorter.text()));
    });
    if (!is_longer && format.parse(cell)) found.push_back(format);
  }
  return found;
}

std::optional<std::int64_t> time_of_day(std::string_view cell) {
  for (const char* pattern : {"%Y %H:%M:%S%f", "%Y %I:%M:%S%f%p", "%Y %H.%M.%S"}) {
    const auto time = parse_pattern("1970 " + std::string(cell), pattern);
    if (time && !cell.empty()) return time->us;
  }
  return std::nullopt;
}

std::string time_text(const Moment& time) {
  using namespace std::chrono;
  const std::int64_t days_count = time.us / day_us - (time.us % day_us < 0),
                     us = time.us - days_count * day_us, seconds = us / second_us,
                     fraction = us % second_us;
  const year_month_day date{sys_days(days(days_count))};
  std::string text =
      fmt::format("{:04}-{:02}-{:02} {:02}:{:02}:{:02}", int(date.year()), unsigned(date.month()),
                  unsigned(date.day()), seconds / 3600, seconds / 60 % 60, seconds % 60);
  if (fraction != 0) {
    text += fmt::format(".{:06}", fraction);
    while (text.ends_with('0')) text.pop_back();
  }
  if (const auto offset = time.offset_s)
    text += fmt::format("{}{:02}:{:02}", *offset < 0 ? '-' : '+', std::abs(*offset) / 3600,
                        std::abs(*offset) / 60 % 60);
  return text;
}

}  // namespace tapestry
