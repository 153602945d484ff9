#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string_view>
#include <unordered_map>
#include <vector>

namespace tapestry {

// Finds the names of tokens in a text: the one that begins first, of several the longest.
class NameFinder final {
 public:
  void add(std::string_view name, std::int32_t token);  // not empty; replaces a known name's token

  struct Match {
    std::size_t begin, end;
    std::int32_t token;
  };
  std::optional<Match> find(std::string_view text, std::size_t from) const;

  // Returns whether these two bytes follow each other in a name.
  bool joins(char left, char right) const;

 private:
  using Node = std::uint32_t;  // of a trie: a prefix of names; 0: the empty one
  static std::uint64_t edge(Node node, char byte);

  std::unordered_map<std::uint64_t, Node> next_{};          // by node and byte
  std::vector<std::int32_t> tokens_{-1};                    // by node; -1: not a whole name
  std::array<bool, 256> begins_{};                          // by byte
  std::vector<bool> joins_ = std::vector<bool>(256 * 256);  // by both bytes
};

}  // namespace tapestry
