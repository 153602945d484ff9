#include "data/text/word_counts.hpp"

#include "autograd/check.hpp"
#include "data/text/byte_pair.hpp"
#include "data/text/unicode.hpp"

namespace tapestry {
namespace {

// Of the longest text by which a piece's first characters are told apart: 're.
constexpr std::size_t bytes_looked_ahead = 3;

// The first `bytes` bytes at most, of whole characters.
std::string_view start_of(std::string_view text, std::size_t bytes) {
  if (bytes >= text.size()) return text;
  while ((static_cast<unsigned char>(text[bytes]) & 0xC0) == 0x80) --bytes;
  return text.substr(0, bytes);
}

}  // namespace

void WordCounts::add(std::string_view part) {
  rest_ += lower_case_ ? lower_case(part) : std::string(part);
  count_pieces(false);
}

// Counts all pieces that no more text can change, and at the end of a text all.
void WordCounts::count_pieces(bool at_end) {
  std::string_view rest = rest_;
  while (!rest.empty()) {
    const std::string_view start = start_of(rest, max_piece_bytes);
    const std::size_t piece = first_piece_bytes(start);
    const bool may_go_on = piece == start.size() || start.size() < bytes_looked_ahead;
    if (!at_end && may_go_on && start.size() == rest.size()) break;
    count(start.substr(0, piece));
    rest.remove_prefix(piece);
  }
  rest_.erase(0, rest_.size() - rest.size());
}

void WordCounts::count(std::string_view piece) {
  auto known = counts_.find(piece);
  if (known == counts_.end()) {
    bytes_ += std::ssize(piece);
    expect_input(
        bytes_ <= limit_,
        "the texts have more than {} bytes of distinct words, the most that byte pairs can "
        "be learnt from; give a part of them",
        limit_);
    known = counts_.emplace(piece, 0).first;
  }
  ++known->second;
}

}  // namespace tapestry
