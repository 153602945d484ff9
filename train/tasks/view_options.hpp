#pragma once

#include "train/settings/options.hpp"

// Options that the views of several tasks take.
namespace tapestry {

inline Key<std::string> prompt_option(const std::string& help) { return {"prompt", "", help}; }

// `otherwise`: how many where none is given; 0 where that depends on more.
inline Key<std::int64_t> count_option(std::int64_t otherwise) {
  return {"count", otherwise, "how many", {.low = 1, .high = 100000}};
}

inline Key<std::int64_t> index_option(const std::string& help) {
  return {"index", 0, help, {.low = 0, .high = 1000000000}};
}

inline Key<std::int64_t> seed_option() {
  return {"seed", 1, "another seed, another sample", {.low = 0}};
}

inline Key<double> temperature_option(const std::string& help) {
  return {"temperature", 1, help, {.low = 0, .high = 100}};
}

}  // namespace tapestry
