#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <unordered_map>

#include "data/text/pieces.hpp"

namespace tapestry {

// How often each distinct piece of texts (data/text/pieces.hpp) occurs: what byte pairs are learnt
// from. Texts are read part by part and not kept, so that memory is taken by distinct pieces alone.
class WordCounts final {
 public:
  // A longer piece counts as several, of whole characters and at most this long.
  static constexpr std::size_t max_piece_bytes = 1 << 20;
  // Of all distinct pieces together, at most.
  static constexpr std::int64_t default_limit = std::int64_t{256} << 20;

  explicit WordCounts(const PieceOptions& options, std::int64_t limit = default_limit)
      : options_(options), limit_(limit) {}

  // The next part of a text: whole characters in UTF-8. InputError where there are too many
  // distinct pieces.
  void add(std::string_view part);
  // What is added from here on is another text: no piece reaches over its beginning.
  void end_text();

  using Counts = std::unordered_map<std::string, std::int64_t, TextHash, std::equal_to<>>;
  const Counts& counts() const { return counts_; }  // of the texts that have ended
  std::int64_t bytes() const { return bytes_; }     // of all distinct pieces together

 private:
  void count_pieces(bool at_end);
  void count(std::string_view piece);

  PieceOptions options_;
  std::int64_t limit_;
  std::string unprepared_;  // of the text so far: what follows may go into its last character
  std::string rest_;        // of what is prepared: it may begin a longer piece
  Counts counts_;
  std::int64_t bytes_ = 0;
};

}  // namespace tapestry
