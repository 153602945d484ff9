#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string_view>
#include <unordered_map>
#include <vector>

namespace tapestry {

// Finds the names of tokens in a text: the one that begins first, and of several the longest.
class NameFinder final {
 public:
  void add(std::string_view name, std::int32_t token);  // not empty; a known name's token changes

  struct Match {
    std::size_t begin, end;
    std::int32_t token;
  };
  std::optional<Match> find(std::string_view text, std::size_t from) const;

  // Whether these two bytes follow each other in a name.
  bool joins(char left, char right) const;

 private:
  using Node = std::uint32_t;  // what names begin with; 0: nothing yet
  static std::uint64_t edge(Node node, char byte);

  std::unordered_map<std::uint64_t, Node> next_{};          // by node and byte
  std::vector<std::int32_t> tokens_{-1};                    // by node; -1: no name ends there
  std::array<bool, 256> begins_{};                          // by byte
  std::vector<bool> joins_ = std::vector<bool>(256 * 256);  // by both bytes
};

}  // namespace tapestry
