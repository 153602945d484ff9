#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "data/table/records.hpp"

namespace tapestry {

inline constexpr char no_mark = '-';  // no thousands mark

// How the numbers of a table are written.
struct NumberFormat {
  char decimal = detected;                   // '.' or ','
  char thousands = detected;                 // ',', '.', ' ', '\'' or no_mark
  std::vector<std::string> missing_words{};  // stand for a missing number, beside the usual ones
};

// Returns whether a cell has no value: it is empty or, in any case, a word for that: na, n/a, #n/a,
// nan, <na>, null, none, nil, -, --, ? or missing; or it is one of `words`.
bool is_missing(std::string_view cell, const std::vector<std::string>& words = {});

// Returns the finite number in a cell, or nothing. A sign of a currency or % is left out, and
// "(12.5)" is -12.5. With `single`, it is rounded to float32 from the text; too large a number is
// none.
std::optional<double> number_in(std::string_view cell, const NumberFormat& format,
                                bool single = false);

// What the cells of a column are, counted over all rows before the marks are known.
struct NumberCounts {
  static constexpr std::int64_t none = -1;

  std::int64_t missing = 0, numbers = 0, texts = 0;
  std::int64_t first_text = none;  // its record; so below
  // Numbers with one mark, "." or ",", once: as "1.234", whose mark may be either, or otherwise.
  struct OfMark {
    std::int64_t groups = 0, first_group = none, first_decimal = none;
    std::int64_t first_thousands = none;  // which can be nothing else: "1,234,567", "1,234.5"
  };
  OfMark comma{}, point{};
  std::int64_t small = 0, first_large = none;  // integers without mark, below 1000 and from there
  std::int64_t first_space = none, first_apostrophe = none;  // "1 234", "1'234"
  std::string unit{};                                        // sign of a currency, or %
  std::int64_t with_unit = 0, first_without_unit = none, first_with_other_unit = none;
  std::int64_t first_padded = none;  // an integer with a zero in front, such as "02139"
  std::int64_t first_code = none;    // one that may be a code, such as "1E5"
  bool are_integers = true;

  void add(std::string_view cell, std::int64_t record, const std::vector<std::string>& words);
  bool is_numeric() const { return numbers > 0 && numbers * 20 >= (numbers + texts) * 19; }
};

// Sets the marks that `format` leaves open. Throws InputError with both lines if the numbers
// contradict each other, and OptionError of "thousands" if they may be read in two ways.
void choose_marks(NumberFormat& format, const Records& records,
                  const std::vector<NumberCounts>& columns, const std::vector<std::string>& names);

}  // namespace tapestry
