#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <numeric>
#include <random>

#include "data/series/series.hpp"
#include "tests/support/process.hpp"

// Writes random tables whose truth is known, and checks that it is read, in whatever order the rows
// and columns stand.
namespace tapestry {
namespace {

// A way to write times, and their distance.
struct Times {
  const char* name;
  std::int64_t step_us;
  std::string (*text)(const std::string& iso);
};
std::string dates(const std::string& iso) { return iso.substr(0, 10); }
std::string minutes(const std::string& iso) { return iso.substr(0, 16); }
std::string german(const std::string& iso) {
  return iso.substr(8, 2) + "." + iso.substr(5, 2) + "." + iso.substr(0, 4) + iso.substr(10, 6);
}
std::string slashes(const std::string& iso) {
  return iso.substr(5, 2) + "/" + iso.substr(8, 2) + "/" + iso.substr(0, 4);
}
std::string with_t(const std::string& iso) {
  return iso.substr(0, 10) + "T" + iso.substr(11) + "Z";
}
constexpr Times all_times[] = {{"dates", day_us, dates},
                               {"minutes", hour_us / 4, minutes},
                               {"german", hour_us, german},
                               {"slashes", day_us, slashes},
                               {"utc", 60 * second_us, with_t}};

// A table of one or several series at regular times, of which some rows and cells are missing.
struct Truth {
  Strings names{};
  std::int64_t rows = 0;
  std::vector<double> values{};  // (rows, M); -99: not measured
};

// How a table is written.
struct Form {
  char delimiter = ',', decimal = '.', thousands = no_mark;
  bool is_long = false, has_index = false, has_note = false;
  std::string end = "\n", missing{};
};

std::string number_text(double value, const Form& form) {
  std::string whole = fmt::format("{}", static_cast<std::int64_t>(value));
  const std::string fraction = fmt::format("{:.2f}", value).substr(whole.size() + 1);
  for (std::ptrdiff_t i = std::ssize(whole) - 3; form.thousands != no_mark && i > 0; i -= 3)
    whole.insert(whole.begin() + i, form.thousands);
  return csv_quoted(whole + form.decimal + fraction, form.delimiter);
}

class RandomTable {
 public:
  explicit RandomTable(unsigned seed) : random_(seed) {
    times_ = all_times[draw(std::size(all_times))];
    form_.delimiter = ",;\t|"[draw(4)];
    form_.decimal = form_.delimiter == ';' && draw(2) ? ',' : '.';
    if (draw(3) == 0) form_.thousands = form_.decimal == ',' ? '.' : ',';
    form_.is_long = draw(2);
    form_.has_index = !form_.is_long && draw(3) == 0;
    form_.has_note = draw(3) == 0;
    form_.end = draw(2) ? "\n" : "\r\n";
    form_.missing = std::array{"", "NA", "nan", "-"}[draw(4)];
    make_truth();
    make_rows();
  }

  const Truth& truth() const { return truth_; }
  void shuffle_rows() { std::ranges::shuffle(rows_, random_); }
  void shuffle_columns() {
    std::vector<std::size_t> order(header_.size());
    std::iota(order.begin(), order.end(), std::size_t{0});
    std::ranges::shuffle(order, random_);
    const auto reordered = [&](const Strings& cells) {
      Strings moved;
      for (const std::size_t from : order) moved.push_back(cells[from]);
      return moved;
    };
    header_ = reordered(header_);
    for (Strings& row : rows_) row = reordered(row);
  }
  std::string text() const {
    std::string all = line(header_);
    for (const Strings& row : rows_) all += line(row);
    return all;
  }

 private:
  std::size_t draw(std::size_t below) { return random_() % below; }

  void make_truth() {
    truth_.rows = 40 + static_cast<std::int64_t>(draw(60));
    const std::size_t M = form_.is_long ? 2 + draw(3) : 1 + draw(3);
    for (std::size_t m = 0; m < M; ++m) truth_.names.push_back(fmt::format("series {}", m));
    for (std::int64_t row = 0; row < truth_.rows; ++row) {
      is_missing_.push_back(row > 0 && row + 1 < truth_.rows && draw(20) == 0);
      for (std::size_t m = 0; m < M; ++m) {
        const bool is_measured = !is_missing_.back() && draw(15) != 0;
        // Hundredths, from below ten to above a thousand.
        const auto hundredths = static_cast<double>(draw(draw(2) ? 900 : 900'000) + 1);
        truth_.values.push_back(is_measured ? hundredths / 100 : -99);
      }
    }
    truth_.values[0] = 1234.56;  // shows the marks
    truth_.values.back() = 0.25;
    for (std::size_t m = 0; m < M; ++m) truth_.values[m] = 1234.5 + static_cast<double>(m);
  }

  void make_rows() {
    const std::size_t M = truth_.names.size();
    header_ = {"when"};
    if (form_.is_long) {
      header_.insert(header_.end(), {"who", "value"});
    } else {
      for (const std::string& name : truth_.names) header_.push_back(name);
    }
    if (form_.has_note) header_.emplace_back("note");
    for (std::int64_t row = 0; row < truth_.rows; ++row) {
      if (is_missing_[row]) continue;
      const std::string time =
          times_.text(time_text({1609459200 * second_us + row * times_.step_us}));
      Strings cells{time};
      for (std::size_t m = 0; m < M; ++m) {
        const double value = truth_.values[row * M + m];
        const std::string cell = value == -99 ? form_.missing : number_text(value, form_);
        if (!form_.is_long) {
          cells.push_back(cell);
          continue;
        }
        cells = {time, truth_.names[m], cell};
        add(cells);
      }
      if (!form_.is_long) add(cells);
    }
  }

  void add(Strings cells) {
    if (form_.has_note) cells.emplace_back(draw(2) ? "dry" : "wet, cold");
    if (form_.has_note) cells.back() = csv_quoted(cells.back(), form_.delimiter);
    rows_.push_back(std::move(cells));
  }

  std::string line(const Strings& cells) const {
    std::string text;
    for (std::size_t i = 0; i < cells.size(); ++i)
      text += (i > 0 ? std::string(1, form_.delimiter) : "") + cells[i];
    return text + form_.end;
  }

  std::mt19937 random_;
  Times times_{};
  Form form_{};
  Truth truth_{};
  std::vector<char> is_missing_{};
  Strings header_{};
  std::vector<Strings> rows_{};
};

// Returns the values by the names of the series, which may stand in any order.
std::vector<double> values_of(const SeriesTable& table, const Strings& names) {
  std::vector<double> values;
  const auto M = std::ssize(table.names);
  for (std::int64_t row = 0; row < table.rows(); ++row)
    for (const std::string& name : names) {
      const auto m = std::ranges::find(table.names, name) - table.names.begin();
      const double value = table.values.values<double>()[row * M + m];
      values.push_back(std::isnan(value) ? -99 : value);
    }
  return values;
}

TEST_CASE_FIXTURE(TemporaryFolder, "table: random tables are read as they were meant") {
  for (unsigned seed = 1; seed <= 300; ++seed) {
    RandomTable random(seed);
    const Truth& truth = random.truth();
    const auto check = [&](const SeriesOptions& options) {
      const std::string file = write("a.csv", random.text());
      CAPTURE(seed);
      CAPTURE(random.text().substr(0, 400));
      const SeriesTable table = load_series(file, options);
      REQUIRE(std::ranges::is_permutation(table.names, truth.names));
      CHECK(table.rows() == truth.rows);
      CHECK(values_of(table, truth.names) == truth.values);
      return detect_format(file, options);
    };
    // What is found in the file in order holds for it in any order.
    SeriesOptions found = check({});
    found.columns.clear();
    random.shuffle_columns();
    check({});
    random.shuffle_rows();
    check(found);
  }
}

}  // namespace
}  // namespace tapestry
