#pragma once

#include <functional>
#include <utility>

#include "tests/support/run_fixture.hpp"

namespace tapestry {

// Runs tapestry verify RUN WORDS --json, and returns the object and the status.
inline std::pair<Json, int> verified(const RunFixture& fixture, const std::string& run,
                                     const Words& words = {}) {
  const Finished finished = tapestry_run(Words{"verify", fixture.path(run), "--json"} + words);
  INFO(finished.err);
  REQUIRE(finished.err.empty());
  return {Json::parse(finished.out), finished.status};
}

inline Json must_verify(const RunFixture& fixture, const std::string& run,
                        const Words& words = {}) {
  const auto [verdict, status] = verified(fixture, run, words);
  INFO(verdict.dump(1));
  CHECK(status == 0);
  CHECK(verdict["same"] == true);
  CHECK(verdict["differs_at"].is_null());
  return verdict;
}

inline std::string refused_verify(const RunFixture& fixture, const std::string& run,
                                  const Words& words = {}) {
  return refused(run_here(Words{"verify", fixture.path(run)} + words));
}

// Changes the lines of metrics.jsonl.
inline void change_metrics(const RunFixture& fixture, const std::string& run,
                           const std::function<void(Json&)>& change) {
  std::string text;
  for (Json& line : fixture.metrics(run)) {
    change(line);
    text += line.dump() + "\n";
  }
  fixture.write(run + "/metrics.jsonl", text);
}

}  // namespace tapestry
