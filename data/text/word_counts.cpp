#include "data/text/word_counts.hpp"

#include "autograd/check.hpp"
#include "data/input_file.hpp"
#include "data/text/unicode.hpp"

namespace tapestry {

void WordCounts::add(std::string_view part) {
  unprepared_ += part;
  const std::size_t settled =
      options_.compose ? settled_composition_bytes(unprepared_) : unprepared_.size();
  rest_ += prepared(std::string_view(unprepared_).substr(0, settled), options_);
  unprepared_.erase(0, settled);
  count_pieces(false);
}

void WordCounts::end_text() {
  rest_ += prepared(unprepared_, options_);
  unprepared_.clear();
  count_pieces(true);
}

// Counts the pieces that further text cannot change, and all at the end of a text.
void WordCounts::count_pieces(bool at_end) {
  std::string_view rest = rest_;
  while (!rest.empty()) {
    const std::string_view start = rest.substr(0, whole_characters(rest, max_piece_bytes));
    const Piece piece = first_piece(start, options_.pattern);
    if (!at_end && !piece.settled && start.size() == rest.size()) break;
    count(start.substr(0, piece.bytes));
    rest.remove_prefix(piece.bytes);
  }
  rest_.erase(0, rest_.size() - rest.size());
}

void WordCounts::count(std::string_view piece) {
  auto known = counts_.find(piece);
  if (known == counts_.end()) {
    bytes_ += std::ssize(piece);
    expect_input(bytes_ <= limit_,
                 "the texts have more than {} bytes of distinct words, the limit of byte-pair "
                 "training; give fewer texts",
                 limit_);
    known = counts_.emplace(piece, 0).first;
  }
  ++known->second;
}

}  // namespace tapestry
