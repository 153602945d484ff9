#include <doctest/doctest.h>
#include <fmt/ranges.h>

#include <map>

#include "autograd/clock.hpp"
#include "tests/support/drawn_config.hpp"
#include "tests/support/process.hpp"
#include "train/config/keys.hpp"
#include "train/task_spec.hpp"

// Runs the doctor on random sound configs, which must pass. The campaign is skipped by default, and
// TAPESTRY_DOCTOR_CONFIGS sets the number of configs: tapestry-tests -ns -tc='campaign: *'
namespace tapestry {
namespace {

TEST_SUITE_BEGIN("doctor");

TEST_CASE("doctor: random sound configs use every key that is not listed as excluded") {
  for (const auto& [task, spec] : task_registry())
    for (const KeyInfo& key : key::with_common_keys(spec.keys)) {
      if (task == "disc" || !is_of_program(key)) continue;
      CAPTURE(key.name);
      const bool has_values =
          !key.limits.choices.empty() || std::holds_alternative<bool>(key.fallback);
      const auto bounds = usual_bounds.find(key.name);
      CHECK((has_values || bounds != usual_bounds.end() || not_drawn.contains(key.name)));
      if (bounds == usual_bounds.end()) continue;
      CHECK(!not_drawn.contains(key.name));
      CHECK(bounds->second.low <= key.limits.high);
      CHECK(bounds->second.high >= key.limits.low);
    }
}

TEST_CASE_FIXTURE(ConfigGenerator,
                  "campaign: the doctor finds no fault in random sound configs" * doctest::skip()) {
  const std::int64_t wanted = from_environment("TAPESTRY_DOCTOR_CONFIGS", 200);
  const double start_s = now_s();
  const std::int64_t first = from_environment("TAPESTRY_DOCTOR_FIRST", 0);
  std::int64_t blind = 0, faults = 0;
  std::map<std::string, int> warnings;
  for (std::int64_t i = first; i < first + wanted; ++i) {
    const DrawnConfig drawn = draw(i);
    Strings command = {"doctor", drawn.name(), "--json", "--skip", "plan"};
    for (const std::string& word : drawn.words()) command.push_back(word);
    const Finished said = tapestry_run(command);
    if (said.status == 2) {
      FAIL_CHECK(i << ": refused: " << fmt::format("{}", fmt::join(command, " ")) << "\n"
                   << said.err);
      continue;
    }
    const auto report = Json::parse(said.out);
    const auto& last = report["gates"].back();
    if (drawn.is_blind() && said.status == 1) {
      ++blind;
      if (last["gate"] != "layers")  // attention to equal nodes has no gradient
        CHECK(last["cause"] == "the model ignores what distinguishes these examples");
    } else {
      faults += said.status != 0;
      CHECK_MESSAGE(said.status == 0, fmt::format("{}: {}", i, fmt::join(command, " ")), "\n",
                    last.dump());
    }
    for (const auto& check : report["gates"])
      if (check["verdict"] == "warning") ++warnings[check["gate"]];
  }
  std::string text;
  for (const auto& [check, count] : warnings) text += fmt::format("\n  {:4} {}", count, check);
  MESSAGE(
      fmt::format("{} configs in {:.0f} s: {} faults, {} graphs that a model cannot see; "
                  "warnings:{}",
                  wanted, now_s() - start_s, faults, blind, text));
}

TEST_SUITE_END();

}  // namespace
}  // namespace tapestry
