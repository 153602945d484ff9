#pragma once

#include <chrono>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "data/dataset.hpp"
#include "data/text/pairs.hpp"
#include "data/text/text.hpp"

namespace tapestry {

struct DateOptions {
  std::int64_t examples = 100'000;
  std::uint64_t seed = 0;
  Split split = Split::train;
};

// A synthetic translation task: a date as people write it, such as "Tue 3 MAR 98" or "the third of
// March, 1998", to ISO 8601, "1998-03-03". Dates are uniform over 1900 to 2099. No text means two
// dates: in numbers the day precedes the month, unless the year comes first; two digits stand for a
// year of 1969 to 2068, as in POSIX. Weekdays are correct. Tokens are special_tokens, then the
// characters. Batches are those of pair_batch(). Example i depends only on the seed and i; the two
// splits share no date, whatever their seeds.
class DateDataset final : public Dataset {
 public:
  explicit DateDataset(const DateOptions& options);  // throws OptionError of "examples" below 1

  std::int64_t size() const override { return options_.examples; }
  Batch batch(std::span<const std::int64_t> examples) const override;

  std::string source(std::int64_t example) const;
  std::string target(std::int64_t example) const;

  const CharVocabulary& characters() const { return characters_; }
  std::int64_t vocabulary_size() const;
  static constexpr std::int64_t context() { return 40; }  // no source has more tokens

  // Returns the tokens. Throws InputError for a character that occurs in no date.
  std::vector<std::int32_t> encode(std::string_view text) const;
  // Returns the text without special tokens.
  std::string decode(std::span<const std::int32_t> tokens) const;

 private:
  struct Example {
    std::string source{}, target{};
  };
  Example draw(std::int64_t example) const;

  DateOptions options_;
  CharVocabulary characters_;
};

using Date = std::chrono::year_month_day;

inline constexpr std::int64_t num_date_formats = 24;
// Returns the date in the format of this number, below num_date_formats; empty if the format has
// two digits for the year, which do not determine this year.
std::string write_date(const Date& date, std::int64_t format);

// Returns the date as in "1998-03-03".
std::string iso_date(const Date& date);

}  // namespace tapestry
