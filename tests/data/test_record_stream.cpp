#include <doctest/doctest.h>

#include "data/table/record_stream.hpp"
#include "data/table/records.hpp"
#include "tests/support/gzip.hpp"
#include "tests/support/process.hpp"

// Tests that a stream has the records that Records reads as a whole.
namespace tapestry {
namespace {

std::vector<StreamedRecord> all_of(const std::string& path, char delimiter) {
  RecordStream stream(path, delimiter);
  std::vector<StreamedRecord> records(1);
  while (stream.next(records.back())) records.emplace_back();
  records.pop_back();
  return records;
}

TEST_SUITE_BEGIN("record stream");

TEST_CASE_FIXTURE(TemporaryFolder, "record stream: has the cells and lines of the whole table") {
  for (const char* end : {"\n", "\r\n", "\r"})
    for (const char delimiter : {',', ';', '\t'}) {
      std::string text;
      const auto cell = [&](const std::string& one) {
        text += csv_quoted(one, delimiter) + (text.size() % 3 == 0 ? " " : "");
      };
      // More than a piece of 1 MiB, so that records and quotes lie across its end.
      for (int row = 0; text.size() < 2'500'000; ++row) {
        cell(fmt::format("row {}", row));
        text += delimiter;
        cell(delimiter == '\t' ? "plain" : std::string(row % 7000, 'x') + "\n\"quoted\"");
        text += end;
        if (row % 5 == 0) text += end;
      }
      const std::string path = write("a.csv", text);
      const Records whole(path, delimiter);
      const auto streamed = all_of(path, delimiter);
      REQUIRE(std::ssize(streamed) == whole.size());
      for (std::int64_t row = 0; row < whole.size(); row += 37) {
        CHECK(streamed[row].cells == Strings{whole.text(row, 0), whole.text(row, 1)});
        CHECK(streamed[row].line == whole.line(row).number);
        CHECK(contains(streamed[row].raw, fmt::format("row {}", row)));
      }
    }
}

TEST_CASE_FIXTURE(TemporaryFolder,
                  "record stream: lines are read with the last one's end or without") {
  for (const std::string text : {"a\n\n b \nc", "a\r\n\r\n b \r\nc\r\n",
                                 "\xEF\xBB\xBF"
                                 "a\n\n b \nc\n"}) {
    const auto lines = all_of(write("a.txt", text), no_delimiter);
    REQUIRE(lines.size() == 4);
    CHECK(lines[0].raw == "a");
    CHECK(lines[1].raw.empty());
    CHECK(lines[2].raw == " b ");
    CHECK(lines[2].cells == Strings{"b"});
    CHECK(lines[3].line == 4);
  }
  CHECK(all_of(write("empty.txt", ""), no_delimiter).empty());
}

TEST_CASE_FIXTURE(TemporaryFolder, "record stream: what is no text is refused with its line") {
  CHECK_ERROR(all_of(write("a.csv", "x,y\n1,caf\xE9\n"), ','), "line 2", "0xe9", "iconv");
  CHECK_ERROR(all_of(write("b.csv", "x,y\n1,\"open\n"), ','), "line 2", "closing quote");
  CHECK_ERROR(all_of(write("c.csv", std::string("\xFF\xFEx\0", 4)), ','), "UTF-16", "iconv");
  // A character across the end of a piece.
  const std::string text = std::string((1 << 20) - 1, 'a') + "\u00e9\n";
  CHECK(all_of(write("d.txt", text), no_delimiter).front().raw + "\n" == text);
}

TEST_SUITE_END();

}  // namespace
}  // namespace tapestry
