#include "data/text/token_tables.hpp"

#include "autograd/check.hpp"

namespace tapestry {
namespace {

std::size_t index(char byte) { return static_cast<unsigned char>(byte); }
std::size_t index(char left, char right) { return index(left) << 8 | index(right); }

}  // namespace

std::uint64_t NameFinder::edge(Node node, char byte) {
  return static_cast<std::uint64_t>(node) << 8 | index(byte);
}

void NameFinder::add(std::string_view name, std::int32_t token) {
  require(!name.empty(), "NameFinder: empty name; expected at least one byte");
  begins_[index(name.front())] = true;
  Node node = 0;
  for (const char byte : name) {
    const auto [next, is_new] = next_.try_emplace(edge(node, byte), tokens_.size());
    if (is_new) tokens_.push_back(-1);
    node = next->second;
  }
  tokens_[node] = token;
  for (std::size_t i = 1; i < name.size(); ++i) joins_[index(name[i - 1], name[i])] = true;
}

bool NameFinder::joins(char left, char right) const { return joins_[index(left, right)]; }

std::optional<NameFinder::Match> NameFinder::find(std::string_view text, std::size_t from) const {
  if (next_.empty()) return std::nullopt;
  for (std::size_t begin = from; begin < text.size(); ++begin) {
    if (!begins_[index(text[begin])]) continue;
    std::optional<Match> longest;
    Node node = 0;
    for (std::size_t end = begin; end < text.size();) {
      const auto next = next_.find(edge(node, text[end++]));
      if (next == next_.end()) break;
      node = next->second;
      if (tokens_[node] >= 0) longest = Match{begin, end, tokens_[node]};
    }
    if (longest) return longest;
  }
  return std::nullopt;
}

}  // namespace tapestry
