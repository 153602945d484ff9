#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "data/table/table.hpp"

namespace tapestry {

inline constexpr const char* no_times = "none";

// The columns of a table that give the time of a row.
struct Clock {
  enum class Form {
    none,           // there is no time: rows are numbered
    times,          // one column
    date_and_time,  // a date, and a time of day or its hour
    parts           // year, month[, day[, hour]], a column each
  };
  Form form = Form::none;
  std::vector<std::int64_t> columns{};
  std::optional<TimeFormat> format{};  // of times and dates

  bool reads(std::int64_t column) const;
  // Returns the columns as a name: "date", "Date + Time" or no_times.
  std::string name(const Table& table) const;
  // Returns the time of a row. Throws OptionError of "time_column" if it is none.
  Moment time(const Table& table, std::int64_t row) const;
};

struct ClockOptions {
  std::string time_column{};  // a name as Clock::name() returns; empty: found by the contents
  std::string time_format = "auto";  // that of a TimeFormat; auto: found
};

// Finds the clock of a table by its contents: (1) texts that are times in one format; (2) a date
// and a time of day, or a column named hour; (3) year, month[, day[, hour]], so named; (4) only
// without these, whole numbers that strictly ascend or descend with one step and are times from
// 1800 to 2200: unix seconds, their thousandths and so on, 20200131[12[59[59]]], 202001, and in the
// first column years and Excel's days. `series` are columns that name the series of a row. Throws
// OptionError of "time_column" if there are several, or the first column may be times without a
// step, and of "time_format" if a format is not decided; InputError for times of several formats.
Clock find_clock(const Table& table, const ClockOptions& options,
                 const std::vector<std::int64_t>& series);

}  // namespace tapestry
