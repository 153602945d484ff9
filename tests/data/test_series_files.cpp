#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <random>

#include "data/option_error.hpp"
#include "data/series/series.hpp"
#include "tests/support/asked.hpp"
#include "tests/support/process.hpp"

// Tests how series are read from tables: which column is what, clocks, steps, and what is missing.
namespace tapestry {
namespace {

// Returns the values, with -99 where none was measured.
std::vector<double> values_of(const Array& array) {
  std::vector<double> all;
  for (const double x : array.values<double>()) all.push_back(std::isnan(x) ? -99 : x);
  return all;
}

// Returns rows "TIME,VALUE" of times that `text` writes, `step_us` apart.
std::string rows_at(std::int64_t rows, std::int64_t step_us, const auto& text,
                    std::int64_t first_us = 1640995200 * second_us) {  // 2022-01-01
  std::string table = "t,x\n";
  for (std::int64_t row = 0; row < rows; ++row)
    table +=
        fmt::format("{},{}\n", text(time_text({first_us + row * step_us}), row), row % 7 + 0.5);
  return table;
}

SeriesOptions options_with(const auto& set) {
  SeriesOptions options;
  set(options);
  return options;
}

TEST_SUITE_BEGIN("series files");

TEST_CASE_FIXTURE(TemporaryFolder, "series: a table has names, times and values") {
  const SeriesTable table =
      load_series(write("a.csv",
                        "date, load ,oil\r\n2020-02-28 23:00:00,1,2.5\r\n2020-02-29 00:00:00, "
                        "-3e2,4\r\n2020-02-29 01:00,5,6\n\n"));
  CHECK(table.names == Strings{"load", "oil"});
  CHECK(table.step == TimeStep{TimeStep::Unit::microseconds, hour_us});
  CHECK(values_of(table.values) == std::vector<double>{1, 2.5, -300, 4, 5, 6});
  CHECK(row_text(table, 0) == "2020-02-28 23:00:00");
  CHECK(row_text(table, 3) == "2020-02-29 02:00:00");
  CHECK(table.unmeasured() == 0);
}

TEST_CASE_FIXTURE(TemporaryFolder, "series: the clock is found by the contents of columns") {
  const auto first = [&](const std::string& text) {
    const std::string file = write("a.csv", text);
    const SeriesOptions found = detect_format(file);
    const SeriesTable table = load_series(file);
    CHECK(table.names == Strings{"x"});
    return found.time_column + " " + found.time_format + " " + row_text(table, 1);
  };
  const std::int64_t minute_us = 60 * second_us;
  const auto with = [&](std::int64_t step_us, const auto& text) {
    return first(rows_at(40, step_us, text));
  };
  CHECK(with(day_us, [](std::string t, auto) { return t.substr(0, 10); }) ==
        "t iso 2022-01-02 00:00:00");
  CHECK(with(day_us, [](std::string t, auto) {
          return t.substr(5, 2) + "/" + t.substr(8, 2) + "/" + t.substr(0, 4);
        }) == "t %m/%d/%Y 2022-01-02 00:00:00");
  CHECK(with(day_us, [](std::string t, auto) {
          return t.substr(8, 2) + "/" + t.substr(5, 2) + "/" + t.substr(0, 4);
        }) == "t %d/%m/%Y 2022-01-02 00:00:00");
  CHECK(with(day_us, [](std::string t, auto) {
          return t.substr(0, 4) + t.substr(5, 2) + t.substr(8, 2);
        }) == "t %Y%m%d 2022-01-02 00:00:00");
  CHECK(with(hour_us, [](auto, std::int64_t row) {
          return fmt::format("{}", 1640995200 + 3600 * row);
        }) == "t unix 2022-01-01 01:00:00");
  CHECK(with(hour_us, [](auto, std::int64_t row) { return fmt::format("{}", 44562 + row); }) ==
        "t excel 2022-01-02 00:00:00");
  CHECK(with(hour_us, [](auto, std::int64_t row) { return fmt::format("{}", 1900 + row); }) ==
        "t %Y 1901-01-01 00:00:00");
  CHECK(with(hour_us, [](auto, std::int64_t row) { return fmt::format("{}", row); }) ==
        "none auto row 2");
  CHECK(with(minute_us, [](std::string t, auto) { return t.substr(0, 16); }) ==
        "t iso 2022-01-01 00:01:00");
  CHECK(first("Date;Time;x\n13/02/2020;22:00;1,5\n13/02/2020;23:00;2\n14/02/2020;00:00;3,5\n") ==
        "Date + Time %d/%m/%Y 2020-02-13 23:00:00");
  CHECK(first("year,month,x\n2020,11,1.5\n2020,12,2.5\n2021,1,3.5\n") ==
        "year + month auto 2020-12-01 00:00:00");
  // A name decides nothing: deposits, packets and counts contain "ts".
  CHECK(
      detect_format(write("b.csv", "date,deposits\n2020-01-01,1500000000\n2020-01-02,1500050000\n"))
          .time_column == "date");
  CHECK(asked([&] {
          load_series(write("c.csv", "a,b,x\n2020-01-01,2021-01-01,1\n2020-01-02,2021-01-02,2\n"));
        }) == "time_column");
  CHECK(asked([&] {
          load_series(write("d.csv", "t,x\n01/02/2020,1\n05/02/2020,2\n04/07/2020,4\n"));
        }) == "time_format");
  CHECK_ERROR(load_series(write("e.csv", "t,x\n13/02/2020,1\n02/13/2020,2\n14/02/2020,3\n")),
              "line 3", "one format");
}

TEST_CASE_FIXTURE(TemporaryFolder, "series: steps are those of the calendar") {
  const auto read = [&](const Strings& times) {
    std::string text = "t,x\n";
    for (std::size_t i = 0; i < times.size(); ++i) text += fmt::format("{},{}\n", times[i], i % 5);
    return load_series(write("a.csv", text));
  };
  const SeriesTable months = read({"2019-11-01", "2019-12-01", "2020-01-01", "2020-02-01"});
  CHECK(step_text(months.step) == "1 month");
  CHECK(row_text(months, 4) == "2020-03-01 00:00:00");
  CHECK(season_of(months.step, 24) == 12);
  CHECK(row_text(read({"2019-11-30", "2019-12-31", "2020-01-31"}), 3) == "2020-02-29 00:00:00");
  CHECK(row_text(read({"2019-03-31", "2019-06-30", "2019-09-30"}), 3) == "2019-12-31 00:00:00");
  CHECK(row_text(read({"1990-01", "1990-02", "1990-03"}), 3) == "1990-04-01 00:00:00");
  CHECK(row_text(read({"1920Q1", "1920Q2", "1920Q3"}), 3) == "1920-10-01 00:00:00");
  Strings business;
  for (std::int64_t day = 0; business.size() < 12; ++day)  // 2022-01-03 is a Monday
    if (day % 7 < 5)
      business.push_back(time_text({(1641168000 + day * 86400) * second_us}).substr(0, 10));
  const SeriesTable weekdays = read(business);
  CHECK(weekdays.step.unit == TimeStep::Unit::business_days);
  CHECK(weekdays.inserted_rows == 0);
  CHECK(row_text(weekdays, 12) == "2022-01-19 00:00:00");
  CHECK(row_text(weekdays, 15) == "2022-01-24 00:00:00");
  CHECK(season_of(weekdays.step, 20) == 5);
  const SeriesTable irregular = read({"2020-01-01 10:07", "2020-01-17 03:30", "2020-01-18 19:02",
                                      "2020-03-05 11:11", "2020-03-06 20:40"});
  CHECK(irregular.step == TimeStep{});
  CHECK(irregular.rows() == 5);
  CHECK(row_text(irregular, 4) == "2020-03-06 20:40:00");
  CHECK(row_text(irregular, 5) == "row 6");
}

TEST_CASE_FIXTURE(TemporaryFolder,
                  "bug: rows were taken as equidistant; missing ones are inserted, unmeasured") {
  std::string text = "t,x\n", shuffled = text;
  Strings rows;
  for (std::int64_t hour = 0; hour < 60; ++hour)
    if (hour < 20 || hour >= 25)
      rows.push_back(fmt::format("{},{}\n", time_text({hour * hour_us}), hour));
  rows.insert(rows.begin() + 10, "1970-01-01 09:00:07,777\n");  // a repeated reading
  for (const std::string& row : rows) text += row;
  const SeriesTable table = load_series(write("a.csv", text));
  CHECK(table.rows() == 60);
  CHECK(table.inserted_rows == 5);
  CHECK(table.repeated_rows == 1);
  CHECK(table.unmeasured() == 5);
  const std::vector<double> values = values_of(table.values);
  for (std::size_t hour = 0; hour < 60; ++hour)
    CHECK(values[hour] == (hour < 20 || hour >= 25 ? static_cast<double>(hour) : -99));
  CHECK(row_text(table, 22) == "1970-01-01 22:00:00");
  // The order of the rows does not matter.
  std::mt19937 random(1);
  std::ranges::shuffle(rows, random);
  for (const std::string& row : rows) shuffled += row;
  CHECK(values_of(load_series(write("b.csv", shuffled)).values) == values);
  CHECK_ERROR(load_series(write("c.csv",
                                "t,x\n2020-01-01,1\n2020-01-02,2\n2020-01-03,3\n"
                                "2020-01-04,3\n2020-01-05,3\n2020-01-06,3\n2020-01-07,3\n"
                                "2020-01-08,3\n2020-01-09,3\n2020-01-10,3\n2020-01-11,3\n"
                                "2025-01-01,4\n")),
              "are missing");
}

TEST_CASE_FIXTURE(TemporaryFolder, "series: changes of the clock are no gaps and no repetitions") {
  std::string text = "t,x\n";
  std::int64_t rows = 0;
  // Central Europe 2021: an hour is missing on March 28, and stands twice on October 31.
  for (std::int64_t hour = 0; hour < 365 * 24; ++hour) {
    const std::int64_t utc_us = 1609459200 * second_us + hour * hour_us;  // 2021-01-01 in UTC
    const bool is_summer = utc_us >= 1616893200 * second_us && utc_us < 1635642000 * second_us;
    text += fmt::format("{},{}\n", time_text({utc_us + (is_summer ? 2 : 1) * hour_us}), hour % 24);
    ++rows;
  }
  const SeriesTable table = load_series(write("a.csv", text));
  CHECK(table.rows() == rows);
  CHECK(table.inserted_rows == 0);
  CHECK(table.repeated_rows == 0);
  CHECK(table.clock_changes == 2);
  CHECK(table.unmeasured() == 0);
  // Times with their offset need no such rule, and are written with it.
  const SeriesTable with_offsets = load_series(
      write("b.csv",
            "t,x\n2021-03-28 00:00+01:00,1\n2021-03-28 01:00+01:00,2\n2021-03-28 03:00+02:00,3\n"));
  CHECK(with_offsets.rows() == 3);
  CHECK(row_text(with_offsets, 3) == "2021-03-28 04:00:00+02:00");
}

TEST_CASE_FIXTURE(TemporaryFolder, "bug: series: local times among those with an offset were UTC") {
  std::string text = "t,x\n";
  for (int hour = 0; hour < 20; ++hour)
    text += fmt::format("2024-06-10T{:02}:00:00{},{}\n", hour, hour < 12 ? "Z" : "", hour);
  CHECK_ERROR(load_series(write("a.csv", text)),
              "line 14: the time has no offset from UTC, unlike that of line 2");
}

TEST_CASE_FIXTURE(TemporaryFolder, "series: panels in long form, in any order of rows") {
  Strings rows;
  for (const auto& [shop, first, last] : {std::tuple("a", 0, 30), {"c", 0, 12}, {"b", 20, 30}})
    for (int day = first; day < last; ++day)
      rows.push_back(fmt::format("{},{},{},{}\n", time_text({day * day_us}).substr(0, 10), shop,
                                 100 * (shop[0] - 'a') + day, day + 0.5));
  std::mt19937 random(2);
  for (int order = 0; order < 3; ++order) {
    std::string text = "day,shop,load,oil\n";
    for (const std::string& row : rows) text += row;
    const std::string file = write("a.csv", text);
    CHECK(detect_format(file).series_column == "shop");
    const SeriesTable table = load_series(file);
    CHECK(table.names == Strings{"a: load", "a: oil", "b: load", "b: oil", "c: load", "c: oil"});
    CHECK(table.rows() == 30);
    CHECK(table.unmeasured() == 2 * (20 + 18));
    CHECK(values_of(table.values)[25 * 6 + 2] == 125);
    std::ranges::shuffle(rows, random);
  }
  // Numbers name series, too, and two columns together.
  std::string items = "day,store,item,sales\n";
  for (int day = 0; day < 12; ++day)
    for (int store = 1; store <= 2; ++store)
      for (int item = 5; item <= 6; ++item)
        items += fmt::format("{},{},{},{}\n", time_text({day * day_us}).substr(0, 10), store, item,
                             day * store * item + 0.5);
  const SeriesTable panel = load_series(write("b.csv", items));
  CHECK(panel.names == Strings{"1 / 5", "1 / 6", "2 / 5", "2 / 6"});
}

TEST_CASE_FIXTURE(TemporaryFolder, "series: row numbers and texts are no series") {
  const auto names = [&](const std::string& text) {
    return load_series(write("a.csv", text)).names;
  };
  CHECK(names(",day,a\n0,2020-01-01,1\n1,2020-01-02,2\n") == Strings{"a"});
  CHECK(names("Unnamed: 0,day,a\n5,2020-01-01,1\n9,2020-01-02,2\n") == Strings{"a"});
  std::string numbered = "day,n,a\n";
  for (int day = 1; day < 20; ++day)
    numbered += fmt::format("2020-01-{:02},{},{}\n", day, day, day % 3);
  CHECK(names(numbered) == Strings{"a"});
  CHECK(names(",a\n2020-01-01,1\n2020-01-02,2\n") == Strings{"a"});
  CHECK(names("day,note,a\n2020-01-01,dry,1\n2020-01-02,wet,2\n") == Strings{"a"});
  const std::string mixed =
      write("b.csv", "day,load,oil\n2020-01-01,1,2\n2020-01-02,2,2\n2020-01-03,3,4\n");
  CHECK(load_series(mixed, options_with([](auto& o) { o.columns = {"oil"}; })).names ==
        Strings{"oil"});
  // bug: its series was scaled by infinity
  CHECK_ERROR(
      load_series(write("large.csv", "t,x\n2020-01-01,1\n2020-01-02,1e300\n2020-01-03,3\n")),
      "large.csv: line 3: column x", "1e+300; expected a number of float32");
  CHECK_ERROR(load_series(mixed, options_with([](auto& o) { o.columns = {"lod"}; })),
              "no column is named lod", "day, load, oil");
  CHECK_ERROR(load_series(mixed, options_with([](auto& o) { o.time_column = "date"; })),
              "no column is named date");
}

TEST_CASE_FIXTURE(TemporaryFolder,
                  "series: missing values are refused if asked, else not measured") {
  const std::string path = write("a.csv",
                                 "t,a,b\n2020-01-01,NA,5\n2020-01-02,1,\n2020-01-03,,null\n"
                                 "2020-01-04,4,8\n2020-01-05,-,9\n");
  CHECK(values_of(load_series(path).values) ==
        std::vector<double>{-99, 5, 1, -99, -99, -99, 4, 8, -99, 9});
  CHECK_ERROR(load_series(path, options_with([](auto& o) { o.missing = MissingValues::refuse; })),
              "a has no value at 2020-01-01");
  // By rules 1 they are filled.
  const auto filled = [&](MissingValues missing) {
    return values_of(load_series(path, options_with([&](auto& o) {
                                   o.missing = missing;
                                   o.rules = 1;
                                 }))
                         .values);
  };
  CHECK(filled(MissingValues::previous) == std::vector<double>{1, 5, 1, 5, 1, 5, 4, 8, 4, 9});
  CHECK(filled(MissingValues::interpolate) == std::vector<double>{1, 5, 1, 6, 2.5, 7, 4, 8, 4, 9});
}

TEST_CASE("bug: windows counted values that nobody had measured") {
  const float no = std::numeric_limits<float>::quiet_NaN();
  // Series a begins late and has a gap; b ends early.
  const Array values =
      Array::of(std::vector<float>{no, 1, no, 2, 3, 3, no, 4, 5, 5, 6, no, no, no, 8, no}, {8, 2});
  const SeriesDataset data(values, {3, 8}, {3, 2});
  CHECK(data.size() + data.left_out() == 4);
  const Batch first = data.batch(std::vector<std::int64_t>{0});
  const auto inputs = first.inputs.values<float>(), targets = first.targets.values<float>();
  CHECK(std::vector<float>(inputs.begin(), inputs.end()) == std::vector<float>{0, 1, 0, 2, 3, 3});
  CHECK(std::isnan(targets[0]));
  CHECK(first.count == 3);
  // Between two measured values of a window lies a line; after the last one it is held.
  const Array before_5 = SeriesDataset::inputs_before(values, 5, {3, 2});
  CHECK(before_5.values<float>()[0] == 3);
  CHECK(before_5.values<float>()[2] == 4);
  CHECK(before_5.values<float>()[4] == 5);
  const Array before_8 = SeriesDataset::inputs_before(values, 8, {3, 2});
  CHECK(before_8.values<float>()[2] == 7);
  CHECK(before_8.values<float>()[5] == 5);
  const Array at_gap = SeriesDataset::inputs_before(values, 4, {3, 2});
  CHECK(at_gap.values<float>()[4] == 3);  // no look at the 5 that follows
}

TEST_CASE_FIXTURE(TemporaryFolder, "bug: series: forecasts of a drifting clock began in the past") {
  std::string drifting = "t,x\n";
  for (std::int64_t row = 0; row < 600; ++row)  // 60 or 61 seconds apart
    drifting += fmt::format("{},{}\n",
                            time_text({1640995200 * second_us + (row * 121 / 2) * second_us}), row);
  const SeriesTable table = load_series(write("a.csv", drifting));
  CHECK(row_text(table, 599) == "2022-01-01 10:03:59");
  CHECK(row_text(table, 600) >= "2022-01-01 10:04:59");
  CHECK(row_text(table, 600) <= "2022-01-01 10:05:00");
}

TEST_CASE_FIXTURE(TemporaryFolder, "bug: series: shops one below the other were one series") {
  std::string text = "shop,date,sales\n";
  for (const char* shop : {"a", "b"})
    for (int day = 0; day < 40; ++day)
      text += fmt::format("{},{},{}\n", shop,
                          time_text({(day + (*shop == 'a' ? 50 : 0)) * day_us}).substr(0, 10), day);
  CHECK(load_series(write("a.csv", text)).names == Strings{"a", "b"});
}

TEST_CASE_FIXTURE(TemporaryFolder, "bug: series: hours beside a date were names of series") {
  std::string hours = "Date,Hour,Load\n", dotted = "Date;Time;Load\n", joined = "t,x\n";
  for (int row = 0; row < 96; ++row) {
    hours += fmt::format("2022-01-{:02},{},{}\n", 1 + row / 24, row % 24, row * 3 % 7);
    dotted += fmt::format("{:02}/01/2022;{:02}.00.00;{}\n", 13 + row / 24, row % 24, row * 3 % 7);
    joined += fmt::format("202201{:02}{:02},{}\n", 1 + row / 24, row % 24, row * 3 % 7);
  }
  for (const std::string& text : {hours, dotted, joined}) {
    const SeriesTable table = load_series(write("a.csv", text));
    CHECK(table.names.size() == 1);
    CHECK(table.step == TimeStep{TimeStep::Unit::microseconds, hour_us});
    CHECK(row_text(table, 25).ends_with(" 01:00:00"));
  }
}

TEST_CASE_FIXTURE(TemporaryFolder, "bug: series: ragged unix times were forecast as values") {
  std::string unix = "t,x\n", days = "day,time,x\n";
  for (int row = 0; row < 100; ++row) {
    unix +=
        fmt::format("{},{}\n", 1640995200 + 300 * row + (row % 10 == 0 ? 7 : 0) + row * row, row);
    days += fmt::format("{},{},{}\n", 20220101 + row / 24, 100 * (row % 24), row % 5);
  }
  for (const std::string& text : {unix, days}) {
    const std::string file = write("a.csv", text);
    CHECK(asked([&] { load_series(file); }) == "time_column");
    CHECK(load_series(file, options_with([](auto& o) { o.time_column = "none"; })).rows() == 100);
  }
}

TEST_CASE_FIXTURE(TemporaryFolder, "bug: series: times that begin at midnight were refused") {
  std::string text = "t,x\n";
  for (int row = 0; row < 72; ++row)
    text += fmt::format("{:02}/01/2022{},{}\n", 13 + row / 24,
                        row % 24 == 0 ? "" : fmt::format(" {:02}:00:00", row % 24), row % 5);
  CHECK(row_text(load_series(write("a.csv", text)), 25) == "2022-01-14 01:00:00");
}

TEST_CASE_FIXTURE(TemporaryFolder, "bug: series: clocks that change on a Friday had gaps") {
  // In Jerusalem clocks went forth on Friday, 25 March 2022, and back on Sunday, 30 October.
  std::string text = "t,x\n";
  for (std::int64_t hour = 0; hour < 24 * 320; ++hour) {
    const std::int64_t utc_us = 1640995200 * second_us + hour * hour_us;
    const bool is_summer = utc_us >= 1648166400 * second_us && utc_us < 1667084400 * second_us;
    text += fmt::format("{},{}\n", time_text({utc_us + (is_summer ? 3 : 2) * hour_us}), hour % 24);
  }
  const SeriesTable table = load_series(write("a.csv", text));
  CHECK(table.clock_changes == 2);
  CHECK(table.inserted_rows == 0);
  CHECK(table.repeated_rows == 0);
}

TEST_CASE_FIXTURE(TemporaryFolder, "bug: series: a row of units or a sum was called no time") {
  const std::string rows = "2022-01-01,1\n2022-01-02,2\n2022-01-03,4\n";
  for (const auto& [text, part] :
       {std::pair("t,x\nd,mm\n" + rows, "line 2: column t: \"d\" is no time as those below it"),
        std::pair("t,x\n" + rows + "Total,7\n", "line 5: \"Total\" is a row about the others")})
    check_says(message_of([&, file = write("a.csv", text)] { detect_format(file); }), {part});
}

TEST_CASE_FIXTURE(TemporaryFolder, "bug: series: times beside the first column were values") {
  std::string years, days, seconds = "x,timestamp\n", minutes = "yr,mo,dy,HH,Minute,x\n";
  for (int i = 0; i < 60; ++i) {
    years += fmt::format("{},{},{}\n", i < 30 ? "a" : "b", 1990 + i % 30, i % 7);
    days += fmt::format("{},{},{}\n", 1 + i / 30, 20240101 + i % 30, i % 7);
    seconds += fmt::format("{},{}.5\n", i % 7, 1704067200 + 300 * i + i * i % 7);
    minutes += fmt::format("2024,1,{},{},{},{}\n", 1 + i / 48, i / 2 % 24, i % 2 * 30, i % 7);
  }
  for (const std::string& text : {"Entity,Year,x\n" + years, "store,date,x\n" + days}) {
    const SeriesTable table = load_series(write("a.csv", text));
    CHECK(table.names.size() == 2);
    CHECK(table.rows() == 30);
  }
  CHECK(load_series(write("a.csv", seconds)).names == Strings{"x"});
  const SeriesTable table = load_series(write("a.csv", minutes));
  CHECK(table.names == Strings{"x"});
  CHECK(row_text(table, 59) == "2024-01-02 05:30:00");
  const std::string ending = fmt::format("Date,HE,x\n{}", [] {
    std::string rows;
    for (int i = 0; i < 72; ++i)
      rows += fmt::format("2024-01-{:02},{},1\n", 1 + i / 24, i % 24 + 1);
    return rows;
  }());
  CHECK(row_text(load_series(write("a.csv", ending)), 0) == "2024-01-01 01:00:00");
}

TEST_CASE_FIXTURE(TemporaryFolder, "bug: series: a year and a label were the time of series") {
  std::string cars = "year,km,target\n";
  for (int i = 0; i < 60; ++i) cars += fmt::format("{},{},{}\n", 2000 + i * 7 % 20, i * i, i % 2);
  CHECK(!load_series(write("a.csv", cars)).has_times);
}

TEST_CASE_FIXTURE(TemporaryFolder, "bug: series: times of unknown formats were left out") {
  for (const std::string form : {"Date,x\n\"Mon, {:02} Jan 2024\",{}\n", "a,x\n2024-W{:02},{}\n",
                                 "Time,x\nJan {} EST 2024,{}\n", "a,x\n19{:02} AD,{}\n"}) {
    const std::size_t begin = form.find('\n') + 1;
    std::string text = form.substr(0, begin);
    for (int i = 1; i <= 31; ++i) text += fmt::format(fmt::runtime(form.substr(begin)), i, i % 7);
    CAPTURE(text);
    CHECK(asked([&] { load_series(write("a.csv", text)); }) == "time_column");
    const auto none = options_with([](auto& o) { o.time_column = "none"; });
    CHECK(load_series(path("a.csv"), none).rows() == 31);
  }
}

TEST_CASE_FIXTURE(TemporaryFolder, "bug: series: columns that are times were series") {
  for (const std::string header :
       {"name,1990,1991,1992,x", "name,1/22/20,1/23/20,1/24/20,x", "Year,Jan,Feb,March,x"}) {
    std::string text = header + "\n";
    for (int i = 0; i < 40; ++i) text += fmt::format("{},{},2.5,3.5,4.5\n", 1960 + i, i % 7 + 0.5);
    try {
      load_series(write("a.csv", text), options_with([](auto& o) { o.header = Header::present; }));
      FAIL("accepted");
    } catch (const InputError& error) {
      check_says(error.what(), {"columns are times, such as ", "transpose the table"});
    }
  }
}

TEST_CASE_FIXTURE(TemporaryFolder, "bug: series: parts of a day were names of series") {
  std::string text = "date,period,x\n";
  for (int i = 0; i < 48 * 4; ++i)
    text += fmt::format("2024-01-{:02},{},{}\n", 1 + i / 48, 1 + i % 48, i % 7);
  CHECK(asked([&] { load_series(write("a.csv", text)); }) == "series_column");
}

TEST_CASE_FIXTURE(TemporaryFolder, "bug: series: what hinders times was not said") {
  std::string totals = "Month,x\n", zones = "when,x\n", wide = "name,a,b,c,d,e,f,g,h,i,j\n";
  for (int i = 0; i < 40; ++i) {
    totals += i % 13 == 12 ? "Total 2018,900\n"
                           : fmt::format("20{}-{:02},{}\n", 18 + i / 13, i % 13 + 1, i);
    zones += fmt::format("2024-03-20 {:02}:{:02}:00 CET,{}\n", i / 2, i % 2 * 30, i);
    wide += fmt::format("shop {0},{1},2,{1},3,4,5,{1},7,8,{1}\n", i, i * 5 % 7);
  }
  CHECK_ERROR(load_series(write("a.csv", totals)),
              "line 14: column Month: \"Total 2018\" is not a time, as \"2018-01\" is");
  std::string many = "Month,x\n";
  for (int i = 0; i < 50; ++i)
    many += i == 30 ? "Sum,9\n" : fmt::format("{}-01-01,{}\n", 1950 + i, i);
  CHECK_ERROR(load_series(write("d.csv", many)),
              "line 32: column Month: \"Sum\" is not a time, as \"1950-01-01\" is; correct it");
  CHECK_ERROR(load_series(write("f.csv", "date,x\n2024-01-01,١\n2024-01-02,٢\n")),
              "line 2: column x: \"١\" is read as a text; write numbers alone, with the digits 0");
  std::string logins = "age,last_login,label\n";
  for (int i = 0; i < 40; ++i)
    logins +=
        fmt::format("{},{},{}\n", i * 7 % 31,
                    i % 10 == 9 ? "never" : fmt::format("2020-01-{:02}", i * 7 % 28 + 1), i % 2);
  CHECK(!load_series(write("e.csv", logins)).has_times);
  CHECK_ERROR(load_series(write("b.csv", zones)),
              "\"2024-03-20 00:00:00 CET\" may be a time, in a format that is not known; "
              "write an offset, as +01:00");
  CHECK(series_column_uses(write("c.csv", wide), {}).front().use ==
        "left out: texts, 40 different, one in each row; if the rows are series, transpose the "
        "table");
}

TEST_SUITE_END();

}  // namespace
}  // namespace tapestry
