#include <doctest/doctest.h>

#include "autograd/dry_run.hpp"
#include "data/option_error.hpp"
#include "data/table/table.hpp"
#include "tests/support/asked.hpp"
#include "tests/support/process.hpp"

// Tests the reader of tables: dialects, headers, numbers and times.
namespace tapestry {
namespace {

Strings row_of(const Table& table, std::int64_t row) {
  Strings cells;
  for (std::int64_t column = 0; column < std::ssize(table.columns()); ++column)
    cells.push_back(table.text(row, column));
  return cells;
}

std::vector<double> numbers_of(const Table& table, std::int64_t column) {
  std::vector<double> numbers;
  for (std::int64_t row = 0; row < table.rows(); ++row)
    numbers.push_back(table.number(row, column).value_or(-99));
  return numbers;
}

// Returns a table with one column of text cells, each in quotes, under the name "x".
std::string column_of(const Strings& cells) {
  std::string text = "name,x\n";
  for (std::size_t i = 0; i < cells.size(); ++i)
    text += fmt::format("{},\"{}\"\n", i % 2 == 0 ? "a" : "b", cells[i]);
  return text;
}

TEST_SUITE_BEGIN("table");

TEST_CASE_FIXTURE(TemporaryFolder, "table: each delimiter, line end and encoding gives one table") {
  const Strings header{"name", "a, b", "c"}, first{"x;y", "1.5", "say \"hi\""},
      second{"two\nlines", "-2", ""};
  for (const char delimiter : {',', ';', '\t', '|'})
    for (const std::string end : {"\n", "\r\n", "\r"}) {
      std::string text;
      for (const Strings& cells : {header, first, second}) {
        if (delimiter == '\t' && cells == second) continue;  // no line ends in cells there
        for (std::size_t i = 0; i < cells.size(); ++i)
          text += (i > 0 ? std::string(1, delimiter) : "") + csv_quoted(cells[i], delimiter);
        text += end;
      }
      std::string wide;
      for (const char character : text) wide += {character, '\0'};
      for (const std::string& file : {text, "\xEF\xBB\xBF" + text, "\xFF\xFE" + wide}) {
        CAPTURE(file);
        const Table table(write("a.csv", file));
        CHECK(table.options().delimiter == delimiter);
        CHECK(table.names() == header);
        CHECK(row_of(table, 0) == first);
        if (delimiter != '\t') CHECK(row_of(table, 1) == second);
      }
    }
}

TEST_CASE_FIXTURE(TemporaryFolder, "table: has the same columns in a dry run") {
  const DryRun dry_run;
  const Table table(write("a.csv", "name,x\na,1.5\nb,2\n"));
  CHECK(table.columns()[1].kind == ColumnKind::numbers);
  CHECK(numbers_of(table, 1) == std::vector{1.5, 2.0});
}

TEST_CASE_FIXTURE(TemporaryFolder, "table: other encodings are refused with the command") {
  CHECK_ERROR(Table(write("a.csv", "name,x\nM\xFCller,1\n")), "line 2", "iconv -f WINDOWS-1252");
  CHECK_ERROR(Table(write("b.csv", std::string("n\0a\0", 4))), "line 1", "UTF-16");
}

TEST_CASE_FIXTURE(TemporaryFolder,
                  "table: lines with # before the header are left out and counted") {
  const Table table(write("a.csv", "# station 7\n# made by hand, twice\nname,x\na,1\nb,2\n"));
  CHECK(table.names() == Strings{"name", "x"});
  CHECK(table.remarks() == Strings{"2 lines with # before the header are left out"});
  CHECK(table.line(0).number == 4);
  // A header that begins with #.
  CHECK(Table(write("b.csv", "#,name,x\n1,a,5\n2,b,6\n")).names() == Strings{"#", "name", "x"});
}

TEST_CASE_FIXTURE(TemporaryFolder,
                  "table: the first 1000 fields of JSONL are read, which is said") {
  TableOptions objects;
  objects.has_objects = true;
  for (const int fields : {1000, 1001}) {
    std::string line = "{\"f0000\": 0";
    for (int i = 1; i < fields; ++i) line += fmt::format(", \"f{:04}\": {}", i, i);
    const Table table(write("a.jsonl", line + "}\n{\"f0001\": 7}\n"), objects);
    CHECK(table.columns().size() == 1000);
    CHECK(table.text(0, 999) == "999");
    CHECK(table.text(1, 1) == "7");
    const Strings remarks = table.remarks();
    const bool says = std::ranges::count(remarks, "fields after the first 1000 are left out") == 1;
    CHECK(says == (fields > 1000));
  }
}

TEST_CASE_FIXTURE(TemporaryFolder, "bug: table: first rows that begin with # were left out") {
  const Table tabs(write("a.tsv", "#win it\ta\n#lose it\tb\nno mark\ta\nnone\tb\n"));
  CHECK(tabs.rows() == 4);
  CHECK(tabs.remarks() == Strings{"there is no header: columns are numbered"});
  CHECK(Table(write("a.csv", "#win,a\nlose,b\n#win,b\nlose,a\n")).rows() == 4);
  CHECK(Table(write("b.tsv", "#tag\tlabel\n#win\ta\n#lose\tb\n#win\ta\n")).rows() >= 3);
  CHECK(Table(write("b.csv", "#tag,text\n#a,\"long\nand bad\"\n#b,\"so\nlong\"\n#c,d\n")).rows() ==
        3);
  for (const std::string end : {"\n", "\r", "\r\n"}) {
    const std::string rows = "#tag,label,x" + end + "win,p,r" + end + "#win,n,g" + end;
    CHECK(Table(write("c.csv", rows)).columns().size() == 3);
    const Table below(write(
        "d.csv", "# a, b and c" + end + "#k\tv" + end + "#id,x" + end + "1,2" + end + "3,4" + end));
    CHECK(below.names() == Strings{"#id", "x"});
    CHECK(below.rows() == 2);
    CHECK(Table(write("g.csv", "#name,x" + end + "n0,red" + end + "n1,blue" + end)).names() ==
          Strings{"#name", "x"});
    CHECK(Table(write("f.csv", "# Flowers, 1936" + end + "x1,class" + end + "1,2" + end)).names() ==
          Strings{"x1", "class"});
  }
  for (const std::string comment : {"# key{}\tvalue\n", "# note, {}, with, commas\n", "#; {}\n"}) {
    std::string text;
    for (int i = 0; i < 20'000; ++i) text += fmt::format(fmt::runtime(comment), i);
    const Table table(write("e.csv", text + "a,b\n1,2\n3,4\n"));
    CHECK(table.names() == Strings{"a", "b"});
    CHECK(table.rows() == 2);
  }
}

TEST_CASE_FIXTURE(TemporaryFolder, "bug: table: Excel's first line sep=; was a row") {
  const Table table(write("a.csv", "sep=;\r\nname;x\r\na,b;1\r\n"));
  CHECK(table.names() == Strings{"name", "x"});
  CHECK(row_of(table, 0) == Strings{"a,b", "1"});
  CHECK(table.line(0).number == 3);
  CHECK(Table(write("b.csv", "sep=;\na,b\n1,2\n"), {{}, ','}).names() == Strings{"a", "b"});
}

TEST_CASE_FIXTURE(TemporaryFolder, "table: whether there is a header is judged on all rows") {
  const auto header = [&](const std::string& text) {
    return Table(write("a.csv", text)).options().header;
  };
  CHECK(header("a,b\n1,2\n3,4\n") == Header::present);
  CHECK(header("1,2\n3,4\n5,6\n") == Header::absent);
  CHECK(header("2020-01-01,x\n2020-01-02,y\n") == Header::absent);
  CHECK(header("pos,good\nneg,bad\npos,fine\n") == Header::absent);
  CHECK(header("label,text\nneg,bad\npos,fine\n") == Header::present);
  CHECK(header("label,text\n0,bad\n4,fine\n") == Header::present);
  CHECK(Table(write("b.csv", "0,\"1\",pos\n4,2,neg\n")).names() ==
        Strings{"column 1", "column 2", "column 3"});
  const std::string years = write("c.csv", "land,2001,2002,2003\nx,1,2,3\ny,4,5,6\n");
  CHECK(asked([&] { Table table(years); }) == "header");
  TableOptions options;
  options.header = Header::present;
  CHECK(Table(years, options).names() == Strings{"land", "2001", "2002", "2003"});
  // R writes names of rows without a name for them.
  const Table of_r(write("d.csv", "x,y\nfirst,1,2\nsecond,3,4\n"));
  CHECK(of_r.names() == Strings{"(index)", "x", "y"});
  CHECK(numbers_of(of_r, 1) == std::vector<double>{1, 3});
}

TEST_CASE_FIXTURE(TemporaryFolder, "table: a row of other length is refused with its line") {
  CHECK_ERROR(Table(write("a.csv", "a,b\n1,2\n\"x\ny\",2\n1,2,3\n")),
              "line 5: expected 2 columns as in the first row, found 3");
  CHECK_ERROR(Table(write("b.csv", "a,b\n1,\"2\n")), "line 2", "the closing quote is missing");
  CHECK_ERROR(Table(write("c.csv", "a\n1\n\n2\n")), "line 4: follows an empty line");
  CHECK(Table(write("d.csv", "a,b\n1,2\n\n3,4\n\n")).rows() == 2);
  CHECK_ERROR(Table(write("e.csv", "a,b\n")), "a header alone");
  CHECK_ERROR(Table(write("f.csv", "\n \n")), "empty");
}

TEST_CASE_FIXTURE(TemporaryFolder, "table: marks of numbers") {
  const auto read = [&](const Strings& cells) {
    const Table table(write("a.csv", column_of(cells)));
    return numbers_of(table, 1);
  };
  const auto is_asked = [&](const Strings& cells) { return asked([&] { read(cells); }); };
  CHECK(read({"1,234.5", "7"}) == std::vector<double>{1234.5, 7});
  CHECK(read({"1.234,5", "7"}) == std::vector<double>{1234.5, 7});
  CHECK(read({"1,234,567", "7.5"}) == std::vector<double>{1234567, 7.5});
  CHECK(read({"12,34,567", "7.5"}) == std::vector<double>{1234567, 7.5});
  CHECK(read({"12,5", "1.234"}) == std::vector<double>{12.5, 1234});
  CHECK(read({"0,123", "7"}) == std::vector<double>{0.123, 7});
  CHECK(read({"1 234,5", "7"}) == std::vector<double>{1234.5, 7});
  CHECK(read({"1'234.5", "7"}) == std::vector<double>{1234.5, 7});
  CHECK(read({"1.5e3", "-2E-1"}) == std::vector<double>{1500, -0.2});
  CHECK(read({"$1.50", "-$2", "$ 3"}) == std::vector<double>{1.5, -2, 3});
  CHECK(read({"15 %", "2.5%"}) == std::vector<double>{15, 2.5});
  CHECK(read({"(12.5)", "3"}) == std::vector<double>{-12.5, 3});
  CHECK_ERROR(read({"12,5", "12.5"}), "\"12,5\" in line 2", "\"12.5\" in line 3");
  Strings many(12, "1,234");
  CHECK(is_asked({"1,234", "7"}) == "thousands");  // too few to tell
  many.push_back("7");
  CHECK(read(many)[0] == 1234);  // at least ten, and numbers below 1000 without a mark
  many.push_back("2000");
  CHECK(is_asked(many) == "thousands");         // 2000 has none
  CHECK(read({"1.234", "5.678"})[0] == 1.234);  // . is the usual decimal mark beside ,
}

TEST_CASE_FIXTURE(TemporaryFolder, "table: cells without a number") {
  Strings cells;
  for (const char* word : {"", "NA", "n/a", "#N/A", "NaN", "<NA>", "NULL", "none", "nil", "-", "--",
                           "?", "Missing", "\\N"})
    cells.emplace_back(word);
  const std::size_t missing = cells.size();
  for (int i = 0; i < 400; ++i) cells.push_back(fmt::format("{}", i % 7));
  const Table table(write("a.csv", column_of(cells)));
  CHECK(table.columns()[1].kind == ColumnKind::numbers);
  CHECK(table.columns()[1].missing() == static_cast<std::int64_t>(missing));
  CHECK(!table.number(3, 1));
  // Any other text in a column of numbers is an error with its line; with many it is one of texts.
  cells.emplace_back("broken");
  const std::string broken = write("b.csv", column_of(cells));
  const auto last = static_cast<std::int64_t>(cells.size()) - 1;
  CHECK_ERROR(Table(broken).number(last, 1), fmt::format("line {}: column x", cells.size() + 1),
              "\"broken\" is not a number");
  TableOptions options;
  options.missing_words = {"broken"};
  CHECK(!Table(broken, options).number(last, 1));
  for (int i = 0; i < 40; ++i) cells.emplace_back("text");
  CHECK(Table(write("c.csv", column_of(cells))).columns()[1].kind == ColumnKind::texts);
  // A row of units, and one of sums.
  const Table units(write("d.csv", "t,x\nday,kWh\n2020-01-01,1\n2020-01-02,2\n"));
  CHECK_ERROR(units.number(0, 1), "line 2: column x: \"kWh\"");
  CHECK_ERROR(Table(write("e.csv", "shop,x\na,1\nb,2\nTotal,3\n")).expect_no_totals(), "line 4");
  const Table mixed(write("f.csv", column_of({"$1", "2", "$3"})));
  CHECK_ERROR(mixed.expect_one_unit(1), "line 3", "another unit");
}

TEST_CASE("table: times in their formats") {
  const auto text = [](const char* format, const char* cell) {
    const auto time = TimeFormat(format).parse(cell);
    return time ? time_text(*time) : "";
  };
  CHECK(text("iso", "2016-07-31") == "2016-07-31 00:00:00");
  CHECK(text("iso", "2016-07-31T12:30") == "2016-07-31 12:30:00");
  CHECK(text("iso", "2016-07-31 12:30:15.25") == "2016-07-31 12:30:15.25");
  CHECK(text("iso", "2016-07-31T12:30:15Z") == "2016-07-31 12:30:15+00:00");
  CHECK(text("iso", "2016-07-31 12:30:15 UTC") == "2016-07-31 12:30:15+00:00");
  CHECK(text("iso", "2016-07-31 12:30:15+02") == "2016-07-31 12:30:15+02:00");
  CHECK(text("iso", "2016-07-31 24:00") == "2016-08-01 00:00:00");
  CHECK(text("day-first", "31.07.2016 12:00") == "2016-07-31 12:00:00");
  CHECK(text("%m/%d/%Y %I:%M %p", "7/31/2016 1:05 PM") == "2016-07-31 13:05:00");
  CHECK(text("%m/%d/%Y %I:%M %p", "7/31/2016 12:05 AM") == "2016-07-31 00:05:00");
  CHECK(text("%d-%b-%y", "31-Jul-68") == "2068-07-31 00:00:00");
  CHECK(text("%d-%b-%y", "31-JUL-69") == "1969-07-31 00:00:00");
  CHECK(text("%B %d, %Y", "July 31, 2016") == "2016-07-31 00:00:00");
  CHECK(text("%Y-%m", "1990-01") == "1990-01-01 00:00:00");
  CHECK(text("%YQ%q", "1920Q3") == "1920-07-01 00:00:00");
  CHECK(text("%Y-%j", "2016-213") == "2016-07-31 00:00:00");
  CHECK(text("unix", "1469923200") == "2016-07-31 00:00:00");
  CHECK(text("unix-ms", "1469923200500") == "2016-07-31 00:00:00.5");
  CHECK(text("unix-us", "1469923200000001") == "2016-07-31 00:00:00.000001");
  CHECK(text("unix-ns", "1469923200000001000") == "2016-07-31 00:00:00.000001");
  CHECK(text("excel", "42582") == "2016-07-31 00:00:00");
  CHECK(text("excel", "42582.0416666667") == "2016-07-31 01:00:00");
  for (const char* wrong :
       {"", "2020-01-01 25:00", "2020-01-01 12:00:00.", "2020-01-01T12:00+25:00", "20200101",
        "2020-13-01", "0-1-1", "2020-02-30", "2020-01-01 24:01"})
    CHECK_MESSAGE(text("iso", wrong).empty(), wrong);
  for (const char* wrong : {"2020.01.01", "31.02.2020", "1.1"})
    CHECK_MESSAGE(text("day-first", wrong).empty(), wrong);
  for (const char* wrong : {"", "nan", "1e300", "x"})
    CHECK_MESSAGE(text("unix", wrong).empty(), wrong);
  for (const char* wrong : {"soon", "%Q", "%H:%M", "%Y %Y", "%"})
    CHECK_THROWS_AS(TimeFormat{wrong}, std::invalid_argument);
  for (const char* format : {"unix", "unix-ns", "excel", "%m/%d/%Y %I:%M %p", "%YQ%q", "%d-%b-%y"})
    CHECK_MESSAGE(TimeFormat(format).parse(TimeFormat(format).example()), format);
  CHECK(time_of_day("1:30 PM") == 13 * hour_us + 30 * 60 * second_us);
  CHECK(!time_of_day("25:00"));
}

TEST_CASE_FIXTURE(TemporaryFolder, "bug: table: words in many numbers made a column of texts") {
  const auto kind = [&](int different, const Strings& words) {
    std::string text = "x,y\n";
    for (int i = 0; i < 60; ++i)
      text += fmt::format(
          "{},1\n", i % 5 == 0 ? words[i / 5 % words.size()] : fmt::to_string(i % different + 0.5));
    return Table(write("a.csv", text)).columns()[0].kind;
  };
  for (const std::string word : {":", "..", "unavailable", "<0.01", "inf", "#DIV/0!", "\\N", "—"}) {
    CAPTURE(word);
    CHECK(kind(60, {word}) == ColumnKind::numbers);
  }
  const Table table(path("a.csv"));
  CHECK(asked([&] { table.number(0, 0); }) == "missing_words");
  CHECK(kind(3, {"3+"}) == ColumnKind::texts);  // few numbers are classes
  CHECK(kind(60, {"a", "b", "c", "d"}) == ColumnKind::texts);
}

TEST_CASE_FIXTURE(TemporaryFolder,
                  "bug: table: a second header was a row, and a title the header") {
  CHECK_ERROR(Table(write("a.csv", "name,x\na,1\nb,2\nname,x\n")),
              "a.csv: line 4: repeats the names of the columns");
  CHECK_ERROR(Table(write("a.csv", "Sales of 2024,,\nname,x,y\na,1,2\nb,2,3\n")),
              "a.csv: line 1: has one cell, as a title has; remove the lines above");
  CHECK(Table(write("a.csv", "name,x\na,1\nname,2\n")).rows() == 2);
  CHECK(Table(write("a.csv", ",x\n0,1\n1,2\n")).rows() == 2);  // a series of pandas
}

TEST_CASE_FIXTURE(TemporaryFolder, "bug: table: a narrow space before a unit made numbers texts") {
  const Table table(write("a.csv", "x;y\n4\u202F286,79\u202F€;1\n1\u202F553,36\u00A0€;2\n"));
  CHECK(numbers_of(table, 0) == std::vector<double>{4286.79, 1553.36});
}

TEST_CASE_FIXTURE(TemporaryFolder,
                  "bug: table: numbers that are texts, and the reverse, were not told") {
  std::string rows = "store,sku,exponent,dose,price,full,change,area,sparse\n";
  for (int i = 0; i < 40; ++i) {
    rows += fmt::format("{},{}E1{},1e-05,{},", i % 10 ? "" : fmt::format("shop {}", i), i + 1,
                        i % 4, i % 2 ? "1E5" : "0.5");
    rows += fmt::format("{}٫٥,－{}．７,", i % 2 ? "١٢" : "٣", i % 2 ? "４" : "１９");
    rows += fmt::format("\"1,{:03}.5{}\",{} m2,{}\n", i, i % 3 ? "-" : "", i, i % 17 ? "" : "a");
  }
  const Table table(write("a.csv", rows));
  const Strings remarks = table.remarks();
  REQUIRE(remarks.size() == 2);  // not of the exponents of numbers, and not of sparse texts
  CHECK(remarks[0].starts_with("column store: each text stands above empty cells"));
  CHECK(remarks[1] == "column sku: \"1E10\" is read as a number with an exponent");
  for (const std::int64_t column : {4, 5, 7}) {
    CHECK(table.columns()[column].kind == ColumnKind::texts);
    CHECK(table.first_text_with_number(column) == 0);
  }
  CHECK(table.first_text_with_number(6) == 1);
}

TEST_SUITE_END();

}  // namespace
}  // namespace tapestry
