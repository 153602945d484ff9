#include "data/toys/dates.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cctype>

#include "autograd/random.hpp"
#include "data/toys/synthetic.hpp"

namespace tapestry {
namespace {

using std::chrono::days;
using std::chrono::sys_days;
using namespace std::chrono_literals;

constexpr sys_days first_day{1900y / 1 / 1};
constexpr sys_days last_day{2099y / 12 / 31};

constexpr std::array<const char*, 12> months = {"January",   "February", "March",    "April",
                                                "May",       "June",     "July",     "August",
                                                "September", "October",  "November", "December"};
constexpr std::array<const char*, 7> weekdays = {"Sunday",   "Monday", "Tuesday", "Wednesday",
                                                 "Thursday", "Friday", "Saturday"};
constexpr std::array<const char*, 31> ordinals = {
    "first",        "second",         "third",         "fourth",        "fifth",
    "sixth",        "seventh",        "eighth",        "ninth",         "tenth",
    "eleventh",     "twelfth",        "thirteenth",    "fourteenth",    "fifteenth",
    "sixteenth",    "seventeenth",    "eighteenth",    "nineteenth",    "twentieth",
    "twenty-first", "twenty-second",  "twenty-third",  "twenty-fourth", "twenty-fifth",
    "twenty-sixth", "twenty-seventh", "twenty-eighth", "twenty-ninth",  "thirtieth",
    "thirty-first"};

// The fields are {d} 3, {dd} 03, {nd} 3rd, {third} third, {m} 3, {mm} 03, {month} March, {mon}
// Mar, {y} 1998, {yy} 98, {weekday} Tuesday, {day} Tue.
constexpr const char* formats[] = {
    "{d} {month} {y}",
    "{month} {d}, {y}",
    "{month} {nd}, {y}",
    "{nd} of {month} {y}",
    "{nd} {mon} {y}",
    "the {third} of {month}, {y}",
    "{month} the {third}, {y}",
    "{d} {mon} {y}",
    "{mon} {d} {y}",
    "{d}-{mon}-{y}",
    "{y}, {month} {d}",
    "{y} {mon} {dd}",
    "{weekday}, {month} {d}, {y}",
    "{weekday} the {nd} of {month} {y}",
    "{day}, {dd} {mon} {y}",
    "{day} {d}/{m}/{y}",
    "{dd}/{mm}/{y}",
    "{d}.{m}.{y}",
    "{y}.{m}.{d}",
    "{y}/{mm}/{dd}",
    "{y}{mm}{dd}",
    "{d} {mon} '{yy}",
    "{day} {d} {mon} {yy}",
    "{dd}/{mm}/{yy}",
};
static_assert(std::ssize(formats) == num_date_formats);

const char* suffix_of(unsigned day) {
  if (day / 10 == 1) return "th";
  return day % 10 == 1 ? "st" : day % 10 == 2 ? "nd" : day % 10 == 3 ? "rd" : "th";
}

// Returns the date in a format; empty if two digits do not determine its year.
std::string write(const Date& date, const char* format) {
  const int year = static_cast<int>(date.year());
  const unsigned month = static_cast<unsigned>(date.month()),
                 day = static_cast<unsigned>(date.day());
  const bool two_digits = std::string_view(format).find("{yy}") != std::string_view::npos;
  if (two_digits && (year < 1969 || year > 2068)) return "";
  const std::string_view month_name = months[month - 1];
  const std::string_view weekday = weekdays[std::chrono::weekday(date).c_encoding()];
  using fmt::arg;
  return fmt::format(fmt::runtime(format), arg("d", day), arg("dd", fmt::format("{:02}", day)),
                     arg("nd", fmt::format("{}{}", day, suffix_of(day))),
                     arg("third", ordinals[day - 1]), arg("m", month),
                     arg("mm", fmt::format("{:02}", month)), arg("month", month_name),
                     arg("mon", month_name.substr(0, 3)), arg("y", year),
                     arg("yy", fmt::format("{:02}", year % 100)), arg("weekday", weekday),
                     arg("day", weekday.substr(0, 3)));
}

sys_days draw_day(Random& random, Split split) {
  sys_days day;
  do {
    day = first_day + days(random.below((last_day - first_day).count() + 1));
  } while (split_of(static_cast<std::uint64_t>(day.time_since_epoch().count())) != split);
  return day;
}

// Returns the date in a random format, a quarter each in upper case and in lower case.
std::string draw_text(Random& random, const Date& date) {
  std::string text;
  while (text.empty()) text = write_date(date, random.below(num_date_formats));
  const std::int64_t letters = random.below(4);
  if (letters == 0) std::ranges::transform(text, text.begin(), ::toupper);
  if (letters == 1) std::ranges::transform(text, text.begin(), ::tolower);
  return text;
}

}  // namespace

DateDataset::DateDataset(const DateOptions& options)
    : options_(options),
      characters_(CharVocabulary::of_text(
          " ',-./0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz")) {
  expect_examples(options_.examples);
}

DateDataset::Example DateDataset::draw(std::int64_t example) const {
  require_example("DateDataset", example);
  Random random(options_.seed, Stream::data, static_cast<std::uint64_t>(example));
  const Date date = draw_day(random, options_.split);
  return {.source = draw_text(random, date), .target = iso_date(date)};
}

std::string DateDataset::source(std::int64_t example) const { return draw(example).source; }
std::string DateDataset::target(std::int64_t example) const { return draw(example).target; }

std::int64_t DateDataset::vocabulary_size() const {
  return std::ssize(special_tokens) + characters_.size();
}

std::vector<std::int32_t> DateDataset::encode(std::string_view text) const {
  std::vector<std::int32_t> tokens = characters_.encode(text);
  for (std::int32_t& token : tokens) token += static_cast<std::int32_t>(special_tokens.size());
  return tokens;
}

std::string DateDataset::decode(std::span<const std::int32_t> tokens) const {
  constexpr auto first_character = static_cast<std::int32_t>(special_tokens.size());
  std::vector<std::int32_t> symbols;
  for (const std::int32_t token : tokens)
    if (token >= first_character) symbols.push_back(token - first_character);
  return characters_.decode(symbols);
}

Batch DateDataset::batch(std::span<const std::int64_t> examples) const {
  std::vector<TokenPair> pairs;
  LongestPair longest;
  for (const std::int64_t example : examples_to_make(examples)) {
    const Example drawn = draw(example);
    pairs.push_back({.source = encode(drawn.source),
                     .target = encode(drawn.target),
                     .reference = drawn.target});
    longest.include(pairs.back());
  }
  return is_dry_run() ? with_all_counted(padded_batch(std::ssize(examples), longest))
                      : pair_batch(pairs);
}

std::string write_date(const Date& date, std::int64_t format) {
  return write(date, formats[format]);
}

std::string iso_date(const Date& date) { return write(date, "{y}-{mm}-{dd}"); }

}  // namespace tapestry
