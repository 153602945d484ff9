#include <doctest/doctest.h>

#include <cctype>
#include <numeric>
#include <set>
#include <unordered_map>

#include "data/toys/dates.hpp"
#include "tests/support/process.hpp"

namespace tapestry {
namespace {

using namespace std::chrono_literals;

// Returns the date in every format, unchanged, in upper case and in lower case.
Strings ways_to_write(const Date& date) {
  Strings ways;
  for (std::int64_t format = 0; format < num_date_formats; ++format) {
    const std::string text = write_date(date, format);
    if (text.empty()) continue;
    std::string upper = text, lower = text;
    for (char& letter : upper) letter = static_cast<char>(std::toupper(letter));
    for (char& letter : lower) letter = static_cast<char>(std::tolower(letter));
    ways.insert(ways.end(), {text, upper, lower});
  }
  return ways;
}

TEST_SUITE_BEGIN("dates");

TEST_CASE("ways_to_write: has every format") {
  const Strings ways = ways_to_write(1998y / 3 / 3);
  for (const std::string& way :
       lines_of("3 March 1998\nMarch 3, 1998\nMarch 3rd, 1998\n3rd of March 1998\n3rd Mar 1998\n"
                "the third of March, 1998\nMarch the third, 1998\n3 Mar 1998\nMar 3 1998\n"
                "3-Mar-1998\n1998, March 3\n1998 Mar 03\nTuesday, March 3, 1998\n"
                "Tuesday the 3rd of March 1998\nTue, 03 Mar 1998\nTue 3/3/1998\n03/03/1998\n"
                "3.3.1998\n1998.3.3\n1998/03/03\n19980303\n3 Mar '98\nTue 3 Mar 98\n03/03/98\n"
                "TUE 3 MAR 98\nTHE THIRD OF MARCH, 1998\nmarch 3rd, 1998"))
    CHECK_MESSAGE(std::ranges::count(ways, way) > 0, way);
  CHECK(ways.size() == 24 * 3);
  CHECK(iso_date(1998y / 3 / 3) == "1998-03-03");
}

TEST_CASE("ways_to_write: handles days, leap years, weekdays and years of two digits") {
  const auto writes = [](const Date& date, const char* way) {
    return std::ranges::count(ways_to_write(date), way) > 0;
  };
  CHECK(writes(2000y / 2 / 29, "Tuesday, February 29, 2000"));
  CHECK(writes(1900y / 1 / 1, "Monday, January 1, 1900"));
  CHECK(writes(2099y / 12 / 31, "Thursday the 31st of December 2099"));
  CHECK(writes(1904y / 2 / 29, "Monday, February 29, 1904"));
  CHECK(writes(2024y / 10 / 22, "22/10/24"));
  CHECK(writes(2024y / 10 / 11, "11th of October 2024"));
  CHECK(writes(2024y / 10 / 12, "12th of October 2024"));
  CHECK(writes(2024y / 10 / 13, "13th of October 2024"));
  CHECK(writes(2024y / 10 / 21, "the twenty-first of October, 2024"));
  CHECK(writes(2024y / 10 / 31, "the thirty-first of October, 2024"));
  CHECK(writes(1969y / 1 / 2, "2 Jan '69"));
  CHECK(writes(2068y / 1 / 2, "2 Jan '68"));
  CHECK(!writes(1968y / 1 / 2, "2 Jan '68"));
  CHECK(!writes(2069y / 1 / 2, "2 Jan '69"));
}

TEST_CASE("ways_to_write: no text stands for two dates, and none is too long") {
  std::unordered_map<std::string, std::string> meanings;
  std::size_t longest = 0;
  for (auto day = std::chrono::sys_days(2000y / 1 / 1);
       day <= std::chrono::sys_days(2004y / 12 / 31); day += std::chrono::days(1)) {
    const std::string meaning = iso_date(day);
    for (const std::string& way : ways_to_write(day)) {
      longest = std::max(longest, way.size());
      const std::string& first = meanings.emplace(way, meaning).first->second;
      if (first != meaning) FAIL(way << " means " << first << " and " << meaning);
    }
  }
  CHECK(longest == 37);
  CHECK(longest <= DateDataset::context());
}

TEST_CASE("DateDataset: batches have source and target, and every character is known") {
  const DateDataset dataset({.examples = 400, .seed = 5});
  std::vector<std::int64_t> examples(400);
  std::iota(examples.begin(), examples.end(), 0);
  const Batch batch = dataset.batch(examples);
  CHECK(batch.inputs.shape() == Shape{400, 11});
  CHECK(batch.targets.shape() == Shape{400, 11});
  CHECK(batch.part<SourceTokens>().tokens.dim(1) <= DateDataset::context());
  CHECK(batch.count == 400 * 11);
  CHECK(dataset.vocabulary_size() == 4 + 10 + 52 + 6);
  const auto row = [](const Array& array, std::int64_t example) {
    const std::int64_t width = array.dim(1);
    return array.values<std::int32_t>().subspan(example * width, width);
  };
  std::set<std::string> sources;
  for (std::int64_t example = 0; example < 400; ++example) {
    CHECK(dataset.decode(row(batch.part<SourceTokens>().tokens, example)) ==
          dataset.source(example));
    CHECK(dataset.decode(row(batch.inputs, example)) == dataset.target(example));
    CHECK(batch.part<SourceTokens>().references[example].line == dataset.target(example));
    CHECK(row(batch.inputs, example).front() == bos_token);
    CHECK(row(batch.targets, example).back() == eos_token);
    const auto padding = row(batch.part<SourceTokens>().padding, example);
    CHECK(std::accumulate(padding.begin(), padding.end(), 0) ==
          batch.part<SourceTokens>().tokens.dim(1) - std::ssize(dataset.source(example)));
    sources.insert(dataset.source(example));
  }
  CHECK(sources.size() > 390);
}

TEST_CASE("DateDataset: a source determines its target") {
  const DateDataset dataset({.examples = 2000, .seed = 6});
  int upper = 0, lower = 0;
  for (std::int64_t example = 0; example < dataset.size(); ++example) {
    const std::string source = dataset.source(example), target = dataset.target(example);
    const Date date = std::chrono::year(std::stoi(target.substr(0, 4))) /
                      std::stoi(target.substr(5, 2)) / std::stoi(target.substr(8, 2));
    CHECK(date.ok());
    CHECK(iso_date(date) == target);
    CHECK_MESSAGE(std::ranges::count(ways_to_write(date), source) > 0, source);
    const bool has_upper = std::ranges::any_of(source, [](char c) { return c >= 'A' && c <= 'Z'; });
    const bool has_lower = std::ranges::any_of(source, [](char c) { return c >= 'a' && c <= 'z'; });
    upper += has_upper && !has_lower;
    lower += has_lower && !has_upper;
  }
  CHECK(upper > 250);
  CHECK(lower > 250);
}

TEST_CASE("DateDataset: an example depends on the seed and its index alone") {
  const DateDataset few({.examples = 10, .seed = 3}), many({.examples = 1000, .seed = 3});
  const DateDataset other({.examples = 10, .seed = 4});
  CHECK(few.source(9) == many.source(9));
  CHECK(few.source(9) != many.source(8));
  CHECK(few.source(9) != other.source(9));
  CHECK_THROWS_AS(few.source(10), std::invalid_argument);
}

TEST_CASE("DateDataset: training and validation dates are disjoint; validation has one in eight") {
  const auto dates = [](Split split, std::uint64_t seed) {
    const DateDataset dataset({.examples = 20'000, .seed = seed, .split = split});
    std::set<std::string> all;
    for (std::int64_t example = 0; example < dataset.size(); ++example)
      all.insert(dataset.target(example));
    return all;
  };
  const std::set<std::string> train = dates(Split::train, 1), held = dates(Split::validation, 2);
  for (const std::string& date : held) CHECK(!train.contains(date));
  CHECK(held.size() > 7000);  // of 73,049 / 8 = 9131
  CHECK(held.size() < 9500);
  CHECK(held.begin()->substr(0, 3) == "190");
  CHECK(held.rbegin()->substr(0, 3) == "209");
}

TEST_CASE("DateDataset: texts that it cannot read are refused") {
  const DateDataset dataset({});
  CHECK(dataset.decode(dataset.encode("Tue 3 Mar '98")) == "Tue 3 Mar '98");
  CHECK_ERROR(dataset.encode("3 März 1998"), "byte 3", "U+00E4");
  CHECK_ERROR(DateDataset({.examples = 0}), "0 examples; expected at least 1");
}

TEST_SUITE_END();

}  // namespace
}  // namespace tapestry
