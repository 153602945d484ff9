#include <fmt/format.h>

#include <algorithm>

#include "autograd/parallel.hpp"
#include "data/text/printable.hpp"
#include "train/config/keys.hpp"
#include "train/run/version.hpp"
#include "train/tools/reproduce/verify.hpp"

namespace tapestry {

Session this_process() {
  return {.version = version(),
          .backends = backends(),
          .processor = processor(),
          .threads = num_threads(),
          .ranks = 1};
}

std::vector<std::string> other_makers(const std::vector<Session>& sessions,
                                      const VerifyResult& result, const Config& config) {
  std::vector<std::string> reasons;
  const Session& own = result.computed_by;
  const auto add = [&](const std::string& reason) {
    if (std::ranges::find(reasons, reason) == reasons.end()) reasons.push_back(reason);
  };
  for (const Session& session : result.recorded_by) {
    if (session.backends != own.backends)
      add(fmt::format("the run was computed by {}, here by {}",
                      printable_beginning(session.backends), own.backends));
    if (session.version != own.version)
      add(fmt::format("the run was computed by tapestry {}, here by {}",
                      printable_beginning(session.version), own.version));
    if (session.processor != own.processor)
      add(fmt::format("the run was computed on {}, here on {}",
                      printable_beginning(session.processor), own.processor));
  }
  if (!knows_settings(sessions))
    add(fmt::format(
        "the run was trained in {} sessions with different settings, of which an earlier version "
        "recorded only the last",
        sessions.size()));
  for (const Session& session : result.recorded_by)
    for (const ChangedSetting& one : session.changed.value_or(std::vector<ChangedSetting>{}))
      if (one.key != key::steps.name && one.key != key::decay_steps.name &&
          one.key != key::cooldown_steps.name)
        add(fmt::format("{1} was {2} up to step {0}, but has the value of config.toml here",
                        session.from_step, printable_beginning(one.key),
                        one.before.empty() ? "unused" : printable_beginning(one.before)));
  if (!config[key::from].empty() && result.first_step == 1)
    add(fmt::format(
        "the run started from the weights of {}, which may have been trained further since",
        printable_beginning(config[key::from])));
  return reasons;
}

}  // namespace tapestry
