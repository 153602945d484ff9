#include "data/table/numbers.hpp"

#include <algorithm>
#include <array>
#include <cctype>
#include <charconv>
#include <cmath>

#include "data/option_error.hpp"

namespace tapestry {
namespace {

constexpr std::string_view units[] = {"%", "$", "€", "£", "¥", "₹", "₽", "₩", "₺", "₴", "¢"};
// Spaces between groups: the usual one, no-break space and narrow no-break space.
constexpr std::string_view group_spaces[] = {" ", "\u00A0", "\u202F"};
constexpr std::string_view apostrophes[] = {"'", "\u2019"};

bool is_digit(char c) { return c >= '0' && c <= '9'; }

std::string_view take_spaces(std::string_view text) {
  for (bool found = true; found;) {
    found = false;
    text = trimmed(text);
    for (const std::string_view space : group_spaces) {
      if (text.starts_with(space)) text.remove_prefix(space.size()), found = true;
      if (text.ends_with(space)) text.remove_suffix(space.size()), found = true;
    }
  }
  return text;
}

// A cell without what stands around a number.
struct Bare {
  std::string_view digits{};  // marks and exponent with them
  std::string_view unit{};
  bool is_negative = false;
};

// Returns nothing if the rest begins with no digit or mark.
std::optional<Bare> bare(std::string_view cell) {
  Bare found;
  if (cell.starts_with('(') && cell.ends_with(')') && cell.size() > 2) {
    found.is_negative = true;
    cell = take_spaces(cell.substr(1, cell.size() - 2));
    if (!cell.empty() && (cell.front() == '-' || cell.front() == '+')) return std::nullopt;
  }
  const auto take_sign = [&] {
    constexpr std::string_view minus = "\u2212";
    if (cell.starts_with('-') || cell.starts_with('+')) {
      found.is_negative |= cell.front() == '-';
      cell.remove_prefix(1);
    } else if (cell.starts_with(minus)) {
      found.is_negative = true;
      cell.remove_prefix(minus.size());
    } else {
      return false;
    }
    return true;
  };
  const bool has_sign = take_sign();
  if (cell.empty()) return std::nullopt;
  if (!is_digit(cell.front()) || !is_digit(cell.back()))
    for (const std::string_view unit : units) {
      if (cell.starts_with(unit))
        cell = take_spaces(cell.substr(unit.size()));
      else if (cell.ends_with(unit))
        cell = take_spaces(cell.substr(0, cell.size() - unit.size()));
      else
        continue;
      found.unit = unit;
      if (!has_sign) take_sign();
      break;
    }
  if (cell.empty() || !(is_digit(cell.front()) || cell.front() == '.' || cell.front() == ','))
    return std::nullopt;
  found.digits = cell;
  return found;
}

// The marks of a number: of each kind, how many there are, and whether all divide groups of three.
struct Marks {
  int commas = 0, points = 0, spaces = 0, apostrophes = 0;
  char last = 0;  // the last comma or point
  bool has_exponent = false;
  bool is_grouped = true;  // the first group has 1 to 3 digits and no 0 in front, others have 3
};

// Returns the length of a mark at the beginning of the text, and counts it.
std::size_t take_mark(std::string_view text, Marks& marks) {
  if (text.front() == ',' || text.front() == '.') {
    ++(text.front() == ',' ? marks.commas : marks.points);
    marks.last = text.front();
    return 1;
  }
  for (const std::string_view space : group_spaces)
    if (text.starts_with(space)) return ++marks.spaces, space.size();
  for (const std::string_view apostrophe : apostrophes)
    if (text.starts_with(apostrophe)) return ++marks.apostrophes, apostrophe.size();
  return 0;
}

// Returns nothing unless the text has digits, marks and at its end an exponent alone.
std::optional<Marks> marks_of(std::string_view text) {
  Marks marks;
  std::size_t i = 0, digits = 0, group = 0;
  bool is_first = true;
  const auto end_group = [&] {
    marks.is_grouped &= is_first ? group >= 1 && group <= 3 : group == 3;
    is_first = false;
    group = 0;
  };
  while (i < text.size()) {
    if (is_digit(text[i])) {
      ++digits, ++group, ++i;
      continue;
    }
    if (text[i] == 'e' || text[i] == 'E') break;
    const std::size_t length = take_mark(text.substr(i), marks);
    if (length == 0) return std::nullopt;
    end_group();
    i += length;
  }
  if (digits == 0) return std::nullopt;
  end_group();
  marks.is_grouped &= text.front() != '0';
  if (i == text.size()) return marks;
  marks.has_exponent = true;
  ++i;
  if (i < text.size() && (text[i] == '-' || text[i] == '+')) ++i;
  if (i == text.size() || !std::ranges::all_of(text.substr(i), is_digit)) return std::nullopt;
  return marks;
}

// Returns whether the groups before the decimal mark have the sizes that thousands have: three
// digits, but for the first; or two but for the first and the last (India).
bool are_groups(std::string_view whole, char mark) {
  std::vector<std::size_t> sizes{0};
  for (std::size_t i = 0; i < whole.size(); ++i) {
    Marks one;
    if (is_digit(whole[i])) {
      ++sizes.back();
      continue;
    }
    const std::size_t length = take_mark(whole.substr(i), one);
    const bool is_mark = mark == ' '    ? one.spaces > 0
                         : mark == '\'' ? one.apostrophes > 0
                                        : length == 1 && whole[i] == mark;
    if (!is_mark) return false;
    sizes.push_back(0);
    i += length - 1;
  }
  if (sizes.size() == 1) return true;
  const std::size_t inner = sizes.size() == 2 ? 3 : sizes[1];
  return sizes.front() >= 1 && sizes.front() <= inner && (inner == 3 || inner == 2) &&
         sizes.back() == 3 &&
         std::all_of(sizes.begin() + 1, sizes.end() - 1, [&](auto size) { return size == inner; });
}

// Returns whether what stands before the decimal mark is one number, whichever mark that is.
bool has_groups(std::string_view digits, const Marks& marks) {
  const int of_last = marks.last == ',' ? marks.commas : marks.points,
            of_other = marks.commas + marks.points - of_last;
  const bool has_blanks = marks.spaces > 0 || marks.apostrophes > 0;
  if (of_last + of_other <= 1 && !has_blanks) return true;
  if ((of_last > 1 && of_other > 0) || (has_blanks && of_last + of_other > 1)) return false;
  const std::size_t end = std::min(digits.find_first_of("eE"), digits.size());
  const bool has_decimal = of_last == 1 && (of_other > 0 || has_blanks);
  const std::string_view whole =
      digits.substr(0, has_decimal ? digits.find_last_of(",.", end - 1) : end);
  const char last_mark = marks.last == ',' ? ',' : '.', other_mark = marks.last == ',' ? '.' : ',';
  const char mark = marks.spaces > 0        ? ' '
                    : marks.apostrophes > 0 ? '\''
                    : of_other > 0          ? other_mark
                                            : last_mark;
  return digits.front() != '0' && are_groups(whole, mark);
}

template <class T>
std::optional<double> finite(std::string_view digits) {
  T value{};
  const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), value);
  if (end != digits.data() + digits.size() || !std::isfinite(value)) return std::nullopt;
  if (error == std::errc::result_out_of_range) {  // too small or too large
    const auto exponent = digits.find_first_of("eE");
    return exponent != digits.npos && digits.substr(exponent + 1).starts_with('-')
               ? std::optional(0.0)
               : std::nullopt;
  }
  return error == std::errc() ? std::optional<double>(value) : std::nullopt;
}

std::optional<double> finite_as(std::string_view digits, bool single) {
  return single ? finite<float>(digits) : finite<double>(digits);
}

}  // namespace

bool is_missing(std::string_view cell, const std::vector<std::string>& words) {
  constexpr std::string_view usual[] = {"na",  "n/a", "#n/a", "nan", "<na>", "null",   "none",
                                        "nil", "\\n", "-",    "--",  "?",    "missing"};
  if (cell.empty()) return true;
  if (cell.size() <= 7) {
    std::array<char, 7> lower{};
    std::ranges::transform(cell, lower.begin(), [](unsigned char c) { return std::tolower(c); });
    if (std::ranges::find(usual, std::string_view(lower.data(), cell.size())) != std::end(usual))
      return true;
  }
  return std::ranges::find(words, cell) != words.end();
}

std::optional<double> number_in(std::string_view cell, const NumberFormat& format, bool single) {
  const auto found = bare(cell);
  if (!found) return std::nullopt;
  const std::string_view digits = found->digits;
  const char decimal = format.decimal == ',' ? ',' : '.';
  auto value = decimal == '.' && format.thousands != '.' ? finite_as(digits, single) : std::nullopt;
  if (!value) {
    if (!marks_of(digits)) return std::nullopt;
    std::string plain;
    const std::size_t end = std::min(digits.find_first_of("eE"), digits.size());
    const std::size_t point = std::min(digits.substr(0, end).find(decimal), end);
    if (!are_groups(digits.substr(0, point), format.thousands)) return std::nullopt;
    for (std::size_t i = 0; i < digits.size(); ++i)
      if (i == point && i < end)
        plain += '.';
      else if (i >= point || is_digit(digits[i]))
        plain += digits[i];
    value = finite_as(plain, single);
  }
  return value && found->is_negative ? -*value : value;
}

void NumberCounts::add(std::string_view cell, std::int64_t record,
                       const std::vector<std::string>& words) {
  const auto first = [&](std::int64_t& place) {
    if (place == none) place = record;
  };
  const bool may_be_missing = cell.empty() || !is_digit(cell.front()) || !words.empty();
  if (may_be_missing && is_missing(cell, words)) {
    ++missing;
    return;
  }
  const auto found = bare(cell);
  const auto marks = found ? marks_of(found->digits) : std::nullopt;
  if (!marks || !has_groups(found->digits, *marks)) {
    ++texts;
    return first(first_text);
  }
  ++numbers;
  if (found->unit.empty()) {
    first(first_without_unit);
  } else {
    if (with_unit++ == 0) unit = found->unit;
    if (unit != found->unit) first(first_with_other_unit);
  }
  const bool is_integer = marks->commas + marks->points == 0 && !marks->has_exponent;
  are_integers &= is_integer;
  if (is_integer && found->digits.front() == '0' && found->digits.size() > 1) first(first_padded);
  if (marks->has_exponent && marks->commas + marks->points == 0 &&
      is_digit(found->digits[found->digits.find_first_of("eE") + 1]) &&
      found->digits.find('E') != found->digits.npos)
    first(first_code);
  if (marks->spaces > 0) first(first_space);
  if (marks->apostrophes > 0) first(first_apostrophe);
  const bool has_other_groups = marks->spaces > 0 || marks->apostrophes > 0;
  if (marks->commas + marks->points == 0) {
    if (has_other_groups) return;
    if (found->digits.size() > 3)
      first(first_large);
    else if (found->digits.front() != '0')
      ++small;
    return;
  }
  OfMark& last = marks->last == ',' ? comma : point;
  OfMark& other = marks->last == ',' ? point : comma;
  const int of_last = marks->last == ',' ? marks->commas : marks->points,
            of_other = marks->commas + marks->points - of_last;
  if (of_last > 1) {
    first(last.first_thousands);
    if (of_other > 0) first(other.first_decimal);
  } else if (of_other > 0) {
    first(other.first_thousands);
    first(last.first_decimal);
  } else if (marks->is_grouped && !has_other_groups && !marks->has_exponent) {
    ++last.groups;
    first(last.first_group);
  } else {
    first(last.first_decimal);
  }
}

namespace {

struct Place {
  std::int64_t record = NumberCounts::none, column = 0;
  explicit operator bool() const { return record != NumberCounts::none; }
};

// Returns the first record and column in which `member` of a numeric column was seen.
Place first_place(const std::vector<NumberCounts>& columns, const auto& member) {
  for (std::size_t column = 0; column < columns.size(); ++column)
    if (columns[column].is_numeric() && member(columns[column]) != NumberCounts::none)
      return {member(columns[column]), static_cast<std::int64_t>(column)};
  return {};
}

std::string described(const Records& records, const Place& place) {
  return fmt::format("\"{}\" in line {}", shown(records.raw(place.record, place.column)),
                     records.line(place.record).number);
}

// What the numbers of the whole table say about a mark.
struct Evidence {
  Place decimal, thousands;
};

// Decides whether a mark in numbers such as "1.234" is one of thousands. Throws OptionError where
// the numbers do not show it.
bool is_thousands(char mark, const Records& records, const NumberCounts& column,
                  const NumberCounts::OfMark& of_mark, std::int64_t number,
                  const std::vector<std::string>& names) {
  constexpr std::int64_t many = 10;
  const bool is_usual_thousands = records.delimiter() == ';' ? mark == '.' : mark == ',';
  const bool has_small = column.small > 0 && of_mark.groups >= many;
  const bool has_large = column.first_large != NumberCounts::none;
  if (!has_large && is_usual_thousands && has_small) return true;
  if (!has_large && !is_usual_thousands && !has_small) return false;
  throw OptionError("thousands", fmt::format("{}: column {}: {} may be {} or {}", records.path(),
                                             shown(names[number]),
                                             described(records, {of_mark.first_group, number}),
                                             "a number of thousands", "one with a fraction"));
}

}  // namespace

void choose_marks(NumberFormat& format, const Records& records,
                  const std::vector<NumberCounts>& columns, const std::vector<std::string>& names) {
  const auto evidence = [&](auto of_mark) {
    return Evidence{
        first_place(columns, [&](const NumberCounts& c) { return (c.*of_mark).first_decimal; }),
        first_place(columns, [&](const NumberCounts& c) { return (c.*of_mark).first_thousands; })};
  };
  const Evidence comma = evidence(&NumberCounts::comma), point = evidence(&NumberCounts::point);
  const auto refuse = [&](const Place& a, const Place& b) {
    throw InputError(fmt::format("{}: {} and {} have different marks; write all numbers in one way",
                                 records.path(), described(records, a), described(records, b)));
  };
  if (format.decimal == detected && format.thousands == detected) {
    if (comma.decimal && point.decimal) refuse(comma.decimal, point.decimal);
    if (comma.decimal && comma.thousands) refuse(comma.decimal, comma.thousands);
    if (point.decimal && point.thousands) refuse(point.decimal, point.thousands);
    if (comma.thousands && point.thousands) refuse(comma.thousands, point.thousands);
  }
  // Numbers such as "1,234" have a comma as decimal mark if there is no mark of thousands.
  const bool has_fractions =
      format.thousands == no_mark && !point.decimal &&
      first_place(columns, [](const NumberCounts& c) { return c.comma.first_group; });
  if (format.decimal == detected)
    format.decimal = comma.decimal || point.thousands || format.thousands == '.' || has_fractions
                         ? ','
                     : point.decimal || comma.thousands || format.thousands == ',' ? '.'
                                                                                   : detected;
  const bool is_known = format.decimal != detected;
  const auto mark_of_groups = [&]() -> char {
    if (first_place(columns, [](const auto& c) { return c.first_space; })) return ' ';
    if (first_place(columns, [](const auto& c) { return c.first_apostrophe; })) return '\'';
    if (comma.thousands) return ',';
    if (point.thousands) return '.';
    for (std::size_t i = 0; i < columns.size(); ++i)
      for (const auto& [mark, of_mark] :
           {std::pair(',', &columns[i].comma), std::pair('.', &columns[i].point)}) {
        if (!columns[i].is_numeric() || of_mark->groups == 0 || format.decimal == mark) continue;
        if (is_known ||
            is_thousands(mark, records, columns[i], *of_mark, static_cast<std::int64_t>(i), names))
          return mark;
        format.decimal = mark;
      }
    return no_mark;
  };
  if (format.thousands == detected) format.thousands = mark_of_groups();
  if (format.decimal == detected) format.decimal = format.thousands == '.' ? ',' : '.';
}

}  // namespace tapestry
