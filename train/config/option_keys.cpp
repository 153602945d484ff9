#include "train/config/option_keys.hpp"

#include <algorithm>

namespace tapestry {

void rethrow_with_key(const Config& config, const std::vector<OptionKey>& keys,
                      const OptionError& error) {
  const auto found = std::ranges::find(keys, error.option, &OptionKey::option);
  if (found == keys.end()) throw;
  config.fail(found->key, error.what() + (found->advice.empty() ? "" : "; " + found->advice));
}

}  // namespace tapestry
