#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <unordered_map>

#include "data/text/pieces.hpp"

namespace tapestry {

// The counts of the distinct pieces of texts (data/text/pieces.hpp), from which byte pairs are
// learned. Texts are added in parts and not stored, so that only distinct pieces take memory.
class WordCounts final {
 public:
  // Maximum length of a piece; a longer one is counted as several pieces of whole characters.
  static constexpr std::size_t max_piece_bytes = 1 << 20;
  // Default limit of the bytes of all distinct pieces.
  static constexpr std::int64_t default_limit = std::int64_t{256} << 20;

  explicit WordCounts(const PieceOptions& options, std::int64_t limit = default_limit)
      : options_(options), limit_(limit) {}

  // Adds the next part of a text, of whole characters in UTF-8. Throws InputError if there are too
  // many distinct pieces.
  void add(std::string_view part);
  // Ends the text, so that no piece extends into the next one. Throws InputError as add() does.
  void end_text();

  using Counts = std::unordered_map<std::string, std::int64_t, TextHash, std::equal_to<>>;
  const Counts& counts() const { return counts_; }  // complete after end_text()
  std::int64_t bytes() const { return bytes_; }     // number of bytes of all distinct pieces

 private:
  void count_pieces(bool at_end);
  void count(std::string_view piece);

  PieceOptions options_;
  std::int64_t limit_;
  std::string unprepared_;  // the end of the text so far, which may compose with what follows
  std::string rest_;        // prepared text that may begin a longer piece
  Counts counts_;
  std::int64_t bytes_ = 0;
};

}  // namespace tapestry
