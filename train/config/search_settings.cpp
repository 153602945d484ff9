#include "train/config/search_settings.hpp"

namespace tapestry {
namespace {

using Row = Bound<SearchOptions>;

std::vector<Row> of_search() {
  std::vector<Row> all{
      Row("search.vary", &SearchOptions::vary,
          "settings that a search varies: \"KEY=A,B,C\" or \"KEY=log:LOW:HIGH\"; \"seed\": an "
          "A/A test; empty: no search"),
      Row("search.method", &SearchOptions::method,
          "which combinations of the values are tried, and for how long",
          {{"grid", SearchMethod::grid},
           {"random", SearchMethod::random},
           {"halving", SearchMethod::halving}}),
      Row("search.trials", &SearchOptions::trials,
          "number of randomly drawn candidates, or of A/A tests; 0: all combinations of a grid, or "
          "else 16",
          {.low = 0, .high = 1000}),
      Row("search.seeds", &SearchOptions::seeds,
          "largest number of seeds per candidate, and number of new seeds of the final test",
          {.low = 2, .high = 1000}),
      Row("search.steps", &SearchOptions::steps, "steps of each run; 0: train.steps",
          {.low = 0, .high = 1e12}),
      Row("search.minutes", &SearchOptions::minutes,
          "minutes after which a run ends with its next evaluation; 0: no limit",
          {.low = 0, .high = 1e6}),
      Row("search.total_steps", &SearchOptions::total_steps,
          "steps of all runs of a search; 0: no limit", {.low = 0, .high = 1e15}),
      Row("search.total_minutes", &SearchOptions::total_minutes,
          "minutes of all runs after which a search adds no seeds; 0: no limit",
          {.low = 0, .high = 1e6})};
  const Condition searched{all.front().name, {all.front().fallback}, true};
  for (Row& setting : all) {
    setting.limits.does_not_affect_result = true;
    if (setting.name != searched.key) setting.limits.used_if = {searched};
  }
  return all;
}

}  // namespace

const SettingsOf<SearchOptions> search_settings = of_search();

}  // namespace tapestry
