#include "data/table/scanner.hpp"

#include <algorithm>

#include "data/table/records.hpp"

namespace tapestry {

std::size_t after_line_end(std::string_view text, std::size_t at) {
  return at + (text.substr(at).starts_with("\r\n") ? 2 : 1);
}

std::int64_t line_number(std::string_view text, std::size_t at) {
  const std::string_view before = text.substr(0, at);
  std::int64_t number = 1 + std::ranges::count(before, '\n');
  for (std::size_t i = before.find('\r'); i != before.npos; i = before.find('\r', i + 1))
    number += !text.substr(i + 1).starts_with('\n');
  return number;
}

std::string_view bare_cell(std::string_view cell, char delimiter) {
  const auto is_space = [&](char c) { return c == ' ' || (c == '\t' && delimiter != '\t'); };
  while (!cell.empty() && is_space(cell.front())) cell.remove_prefix(1);
  while (!cell.empty() && is_space(cell.back())) cell.remove_suffix(1);
  if (cell.size() < 2 || cell.front() != '"' || cell.back() != '"') return cell;
  const std::string_view inner = cell.substr(1, cell.size() - 2);
  if (delimiter == '\t')  // a quote alone within is that of a text
    for (std::size_t i = inner.find('"'); i != inner.npos; i = inner.find('"', i + 2))
      if (!inner.substr(i).starts_with("\"\"")) return cell;
  return inner;
}

std::string without_doubled_quotes(std::string_view cell) {
  std::string text;
  for (std::size_t i = 0; i < cell.size(); ++i) {
    text += cell[i];
    if (cell.substr(i).starts_with("\"\"")) ++i;
  }
  return text;
}

bool Scanner::find_record() {
  std::size_t next = at;
  while (next < text_.size() && is_blank(text_[next]))
    if (ends_line(text_[next++])) at = next;
  return next < text_.size();
}

// Goes behind the closing quote, or nowhere if the quotes are text.
void Scanner::skip_quotes(std::size_t begin) {
  const bool may_be_text = delimiter_ == '\t';
  std::size_t end = at + 1;
  for (;; ++end) {
    if (end == text_.size() || (may_be_text && ends_line(text_[end]))) {
      if (may_be_text) return;
      fail(begin, "the closing quote is missing; add it");
    }
    if (text_[end] == '"' && !text_.substr(++end).starts_with('"')) break;
  }
  const std::size_t closed = end;
  while (end < text_.size() && text_[end] == ' ') ++end;
  if (end == text_.size() || text_[end] == delimiter_ || ends_line(text_[end])) {
    at = end;
  } else if (!may_be_text) {
    fail(begin,
         fmt::format("the cell continues after its closing quote; expected a {}", delimiter_),
         closed);
  }
}

void Scanner::fail(std::size_t begin, const std::string& problem, std::size_t end) const {
  const std::string_view cell = text_.substr(at, end == text_.npos ? end : end - at);
  FileLine{path_, first_line_ - 1 + line_number(text_, begin)}.fail(shown(cell) + ": " + problem);
}

}  // namespace tapestry
