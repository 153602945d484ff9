#pragma once

#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string_view>
#include <unordered_map>
#include <vector>

// Tables in which a tokenizer searches texts and pairs of tokens.
namespace tapestry {

// A table that finds the names of tokens in a text: the one that begins first; of several the
// longest.
class NameFinder final {
 public:
  // Adds a name; a known one gets the new token. Throws std::invalid_argument for an empty one.
  void add(std::string_view name, std::int32_t token);

  struct Match {
    std::size_t begin, end;
    std::int32_t token;
  };
  // Returns the first match from byte `from` on; nothing if there is none.
  std::optional<Match> find(std::string_view text, std::size_t from) const;

  // Returns whether these two bytes follow each other in a name.
  bool joins(char left, char right) const;

 private:
  using Node = std::uint32_t;  // a node of a trie, which is a prefix of names; 0: the empty prefix
  static std::uint64_t edge(Node node, char byte);

  std::unordered_map<std::uint64_t, Node> next_{};          // keyed by node and byte
  std::vector<std::int32_t> tokens_{-1};                    // indexed by node; -1: not a whole name
  std::array<bool, 256> begins_{};                          // indexed by byte
  std::vector<bool> joins_ = std::vector<bool>(256 * 256);  // indexed by both bytes
};

// A table of the results of merging pairs of tokens. Encoding searches this table for each pair of
// neighbors, so it is a hash table with open addressing in one block of memory, at most half full.
class MergeTable final {
 public:
  struct Step {
    std::int32_t rank = 0;    // the lowest is merged first
    std::int32_t result = 0;  // the token
  };

  MergeTable() : MergeTable(0) {}
  explicit MergeTable(std::size_t pairs) : slots_(std::bit_ceil(2 * pairs + 2)) {}

  // Adds or replaces the step of a pair. The number of pairs must not exceed that of the
  // constructor.
  void set(std::int32_t left, std::int32_t right, const Step& step) {
    const std::uint64_t key = key_of(left, right);
    std::size_t place = place_of(key);
    while (slots_[place].key != key && slots_[place].key != none) place = after(place);
    slots_[place] = {key, step};
  }

  // Returns the step of a pair; null if there is none.
  const Step* find(std::int32_t left, std::int32_t right) const {
    const std::uint64_t key = key_of(left, right);
    for (std::size_t place = place_of(key); slots_[place].key != none; place = after(place))
      if (slots_[place].key == key) return &slots_[place].step;
    return nullptr;
  }

 private:
  static constexpr std::uint64_t none = ~std::uint64_t{0};  // the key of no pair
  struct Slot {
    std::uint64_t key = none;
    Step step{};
  };

  static std::uint64_t key_of(std::int32_t left, std::int32_t right) {
    return static_cast<std::uint64_t>(left) << 32 | static_cast<std::uint32_t>(right);
  }
  std::size_t place_of(std::uint64_t key) const {
    constexpr std::uint64_t golden_ratio = 0x9E3779B97F4A7C15;  // Knuth 1973, 6.4
    return static_cast<std::size_t>(key * golden_ratio >> 32) & (slots_.size() - 1);
  }
  std::size_t after(std::size_t place) const { return (place + 1) & (slots_.size() - 1); }

  std::vector<Slot> slots_;
};

}  // namespace tapestry
