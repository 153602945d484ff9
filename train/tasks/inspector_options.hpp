#pragma once

#include "train/config/options.hpp"

// Options that the views of several tasks take.
namespace tapestry {

inline Key<std::string> prompt_option(const std::string& help) { return {"prompt", "", help}; }

// `otherwise`: how many where none is given; 0 where that depends on more.
inline Key<std::int64_t> count_option(std::int64_t otherwise,
                                      const std::vector<Condition>& used_if = {}) {
  return {"count", otherwise, "how many", {.low = 1, .high = 100000, .used_if = used_if}};
}

inline Key<std::int64_t> index_option(const std::string& help,
                                      const std::vector<Condition>& used_if = {}) {
  return {"index", 0, help, {.low = 0, .high = 1000000000, .used_if = used_if}};
}

inline Key<std::int64_t> seed_option(const std::vector<Condition>& used_if = {}) {
  return {"seed", 1, "another seed, another sample", {.low = 0, .used_if = used_if}};
}

inline Key<double> temperature_option(const std::string& help,
                                      const std::vector<Condition>& used_if = {}) {
  return {"temperature", 1, help, {.low = 0, .high = 100, .used_if = used_if}};
}

}  // namespace tapestry
