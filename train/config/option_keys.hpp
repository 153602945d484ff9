#pragma once

#include <string>
#include <vector>

#include "data/option_error.hpp"
#include "train/config/config.hpp"

namespace tapestry {

// The key that an option of data/ is taken from, and what to do where its value does not suit.
struct OptionKey {
  std::string option;  // the field's name: "gaps"
  const KeyInfo& key;
  std::string advice{};
};

// From within a handler of `error`: throws it again with the key, the key's value and where that
// comes from before the fact, and the advice after it.
[[noreturn]] void rethrow_with_key(const Config& config, const std::vector<OptionKey>& keys,
                                   const OptionError& error);

// What `read` returns. data/ states facts and names its options; here they become keys.
template <class Read>
auto with_keys(const Config& config, const std::vector<OptionKey>& keys, Read read) {
  try {
    return read();
  } catch (const OptionError& error) {
    rethrow_with_key(config, keys, error);
  }
}

}  // namespace tapestry
