#include "train/tools/search/experiment_report.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <filesystem>
#include <map>
#include <tuple>

#include "autograd/counted.hpp"
#include "data/input_file.hpp"
#include "data/text/printable.hpp"
#include "train/config/keys.hpp"
#include "train/config/search_settings.hpp"
#include "train/measure/quantities.hpp"
#include "train/run/terminal.hpp"
#include "train/tools/report/html.hpp"
#include "train/tools/report/page.hpp"
#include "train/tools/search/ledger.hpp"

namespace tapestry {
namespace {

using Rows = std::vector<std::vector<std::string>>;

constexpr std::int64_t most_bands = 20;  // number of candidates up to which curves have bands
constexpr std::int64_t most_rows = 12;   // number of values of a key up to which a table shows them

// Returns whether none of the seeds that chose the winner failed.
bool has_mean_loss(const Contestant& one) { return one.chosen_on > 0 && !one.has_lost(); }

std::string title_of(const Candidate& candidate) {
  return fmt::format("{}{}{}", candidate.name, candidate.settings.empty() ? "" : ": ",
                     fmt::join(candidate.settings, " "));
}

// --- the beginning ---

// Returns "has ended: candidate-01 is better than the base", for example.
std::string state_of(const Run& experiment, const SearchResult& result, bool is_running) {
  if (result.has_ended) return "has ended: " + html_text(result.conclusion);
  if (is_running) return "is running";
  return fmt::format("was stopped; <code>{} search {} --resume</code> resumes it",
                     html_text(own_program()), html_text(shell_word(experiment.folder())));
}

SearchOptions options_of(const SearchResult& result) {
  return search_settings.of(result.contestants.front().candidate.config);
}

// Returns "300 steps per run"; "at most …" if runs may end earlier.
std::string budget_of(const SearchResult& result) {
  const Config& base = result.contestants.front().candidate.config;
  const SearchOptions options = options_of(result);
  const double minutes = options.minutes;
  const std::string steps = counted(base[key::steps], "step");
  if (minutes > 0) return fmt::format("at most {} and {:.4g} minutes per run", steps, minutes);
  return (options.method == SearchMethod::halving ? "at most " : "") + steps + " per run";
}

std::string lead_of(const Run& experiment, const SearchResult& result, bool is_running) {
  const SearchCost cost = cost_of(result.contestants);
  const SearchOptions options = options_of(result);
  const std::int64_t candidates = std::ssize(result.contestants) - 1;
  const std::string looks = chosen_after(result);
  return fmt::format(
      "<p>This {}; {} seeds each; {}) {}.{}</p>\n"
      "<p>Trained: {}{}, {}, {}.</p>\n",
      options.is_aa_test()
          ? fmt::format("A/A test ({} of the base against itself",
                        counted(candidates, "search", "searches"))
          : fmt::format("search ({}; {} and the base",
                        options.method == SearchMethod::halving  ? "successive halving"
                        : options.method == SearchMethod::random ? "random search"
                                                                 : "grid search",
                        counted(candidates, "candidate")),
      options.seeds == 2 ? "2" : fmt::format("2 to {}", options.seeds), budget_of(result),
      state_of(experiment, result, is_running),
      looks.empty() ? ""
                    : fmt::format(" The config of {} was {}.",
                                  result.contestants[*result.winner].candidate.name, looks),
      counted(cost.runs, "run"),
      cost.failed > 0 ? fmt::format(" ({} of them failed)", cost.failed) : "",
      counted(cost.completed_steps, "step"), duration_text(cost.elapsed_s));
}

// --- what was tried ---

// Returns a sentence on losses that belong to different budgets; "" if they do not.
std::string budgets_differ(const SearchResult& result) {
  return (options_of(result).method == SearchMethod::halving)
             ? " Candidates that an earlier round dropped were trained for fewer "
               "steps: their losses are not those of the full budget."
             : "";
}

std::string candidates_of(const SearchResult& result) {
  Rows rows = {{"candidate", "settings", "seeds", "mean loss", "difference from base", "95 % CI",
                "outcome", "steps", "seconds"}};
  const Contestant& base = result.contestants.front();
  for (std::size_t i = 0; i < result.contestants.size(); ++i) {
    const Contestant& one = result.contestants[i];
    const SearchCost cost = cost_of({&one, 1});
    const LossDifference difference = i == 0 ? LossDifference{} : difference_from(base, one);
    rows.push_back(
        {one.candidate.name, fmt::format("{}", fmt::join(one.candidate.settings, " ")),
         fmt::format("{}", one.chosen_on),
         has_mean_loss(one) ? fmt::format("{:.4f}", one.mean_loss()) : "-", difference.value(),
         difference.interval(),
         outcome_of(result, i) + (one.tried_before().empty() ? "" : "; " + one.tried_before()),
         fmt::format("{}", cost.steps), fmt::format("{:.1f}", cost.elapsed_s)});
  }
  return "<h2 id=\"candidates\">Candidates</h2>\n" + html_table(rows, {.stacks = true}) +
         "<p class=\"faint\">The mean is that of the lowest validation loss over the seeds that "
         "chose the best candidate. The difference is paired by seed, over all seeds that the "
         "candidate and the base trained with the same budget. Its interval is not corrected for "
         "the number of candidates; the outcome is, by Holm's method, and for the tests after 2, "
         "3, "
         "4, … seeds, by Bonferroni's." +
         budgets_differ(result) + "</p>\n";
}

// --- effects of the keys ---

// Returns a chart of the mean loss of each candidate over a number of it. An axis of positive
// values that differ by more than a factor of 30 is logarithmic.
ReportSection chart_over(const SearchResult& result, const std::string& x_name, const auto& x_of) {
  std::array<std::vector<std::tuple<double, double, std::string>>, 3> points;
  std::vector<double> xs, losses;
  for (std::size_t i = 0; i < result.contestants.size(); ++i) {
    const Contestant& one = result.contestants[i];
    if (!has_mean_loss(one) || !std::isfinite(x_of(one)) || !std::isfinite(one.mean_loss()))
      continue;
    xs.push_back(x_of(one));
    losses.push_back(one.mean_loss());
    const std::size_t line = i == 0 ? 1 : i == result.winner ? 2 : 0;
    points[line].emplace_back(
        xs.back(), losses.back(),
        fmt::format("{}, mean loss {:.4f}", printable(title_of(one.candidate)), losses.back()));
  }
  const auto is_log = [](const std::vector<double>& values) {
    return !values.empty() && std::ranges::min(values) > 0 &&
           std::ranges::max(values) > 30 * std::ranges::min(values);
  };
  JsonValue lines = JsonValue::array();
  const std::array<const char*, 3> names = {"candidate", "base", "winner"};
  for (std::size_t i = 0; i < names.size(); ++i) {
    if (points[i].empty()) continue;
    std::ranges::sort(points[i]);
    JsonValue list = JsonValue::array();
    for (const auto& [x, loss, title] : points[i]) list.push_back({x, loss, title});
    lines.push_back({{"name", names[i]}, {"color", i}, {"marks", true}, {"points", list}});
  }
  return {.script = "chart",
          .data = {{"title", "mean loss"},
                   {"x", printable(x_name)},
                   {"y", "mean loss"},
                   {"logX", is_log(xs)},
                   {"logY", is_log(losses)},
                   {"lines", lines}}};
}

void add_effects(Page& page, const SearchResult& result) {
  if (options_of(result).is_aa_test()) return;
  std::map<std::string, std::vector<KeyEffect>> by_key;
  for (KeyEffect& effect : effects_of(result)) by_key[effect.key].push_back(std::move(effect));
  const bool is_random = options_of(result).method == SearchMethod::random;
  Rows rows = {{"setting", "value", "compared with", "pairs", "seeds", "difference", "95 % CI"}};
  std::vector<std::string> charts;  // keys
  for (const auto& [key, effects] : by_key) {
    const bool are_numbers = std::ranges::all_of(effects, [](const KeyEffect& effect) {
      return std::isfinite(number_of(effect.value)) && std::isfinite(number_of(effect.reference));
    });
    const std::int64_t lone = std::ranges::count_if(
        effects, [](const KeyEffect& effect) { return effect.difference.pairs == 0; });
    const bool lacks_pairs = is_random ? lone > 0 : lone == std::ssize(effects);
    if (are_numbers && (lacks_pairs || std::ssize(effects) > most_rows)) {
      charts.push_back(key);
      continue;
    }
    for (const auto& [name, value, reference, difference] : effects)
      rows.push_back({name, value.empty() ? "unused" : value,
                      reference.empty() ? "unused" : reference, fmt::format("{}", difference.pairs),
                      fmt::format("{}", difference.seeds), difference.value(),
                      difference.interval()});
  }
  page.add("<h2 id=\"effects\">Effect of each setting on the loss</h2>\n");
  if (rows.size() > 1)
    page.add(html_table(rows, {.stacks = true}) +
             "<p class=\"faint\">A pair is two candidates that differ in this setting alone. The "
             "difference is the mean over the pairs; its interval is that of a t-test paired by "
             "seed, over the seeds that all pairs have, and is not corrected for the number of "
             "values.</p>\n");
  for (const std::string& key : charts)
    page.add(chart_over(result, key, [&key](const Contestant& one) {
      return number_of(value_in(one.candidate.config.settings(), key));
    }));
  if (!charts.empty())
    page.add(
        "<p class=\"faint\">A setting with many values, or without enough pairs, is shown by the "
        "mean loss of each candidate: other settings differ, too." +
        budgets_differ(result) + "</p>\n");
}

// --- recorded runs ---

// The curves and groups of the candidates that have recorded runs.
struct RecordedCandidates {
  std::vector<Curve> curves{};  // of the validation loss
  std::vector<RunGroup> groups{};
  std::string notes{};  // HTML list of what cannot be read
};

RecordedCandidates read_candidates(const Run& experiment, const SearchResult& result) {
  RecordedCandidates recorded;
  for (const Contestant& one : result.contestants) {
    if (one.runs.empty()) continue;
    const std::string folder = experiment.folder() + "/" + one.candidate.name;
    try {
      for (Curve& curve : read_recorded_seeds(folder).curves) {
        if (curve.metric != "loss" || curve.split != "val") continue;
        curve.run = title_of(one.candidate);
        if (std::ssize(result.contestants) > most_bands + 1) curve.seeds = 1;  // only the mean
        recorded.curves.push_back(std::move(curve));
      }
      recorded.groups.push_back(read_groups({folder}).front());
    } catch (const InputError& error) {
      recorded.notes += "<li>" + html_text(error.what()) + "</li>\n";
    }
  }
  return recorded;
}

std::string config_details(const std::string& folder, const std::string& name) {
  const std::string path = folder + "/" + name;
  if (!has_file(path)) return "";
  constexpr std::int64_t most = 1 << 20;  // bytes, as for the config of a run
  return html_details(name, "<pre>" + html_text(read_file(path, most)) + "</pre>\n");
}

}  // namespace

bool is_experiment(const std::string& folder) { return is_there(Run(folder).ledger()); }

std::string report_of_experiment(const std::string& path) {
  const Run experiment(different_folders({path}).front());
  const bool is_running = is_trained_into(experiment);  // asked first: it may end meanwhile
  const SearchResult result = recorded_search(experiment);
  RecordedCandidates recorded = read_candidates(experiment, result);
  std::error_code unseen;
  const std::string title =
      std::filesystem::weakly_canonical(experiment.folder(), unseen).filename().string();

  Page page(title + " · Tapestry");
  page.add(fmt::format("<header><h1>{}</h1>\n", html_text(title)) +
           lead_of(experiment, result, is_running));
  page.add("<nav><a href=\"#candidates\">Candidates</a> " +
           std::string(options_of(result).is_aa_test() ? "" : "<a href=\"#effects\">Effects</a> ") +
           "<a href=\"#curves\">Curves</a> <a href=\"#cost\">Cost</a></nav></header>\n<main>\n");
  page.add(candidates_of(result));
  add_effects(page, result);
  page.add("<h2 id=\"curves\">Curves</h2>\n");
  page.add(recorded.curves.empty()
               ? "<p>Nothing was measured yet.</p>\n"
               : "<p class=\"faint\">Each curve is the mean over the seeds of a candidate.</p>\n");
  if (!recorded.curves.empty()) page.add(curves_of(std::move(recorded.curves)));
  page.add("<h2 id=\"cost\">Cost and result</h2>\n");
  page.add(chart_over(result, "mean seconds of a run", [](const Contestant& one) {
    return cost_of({&one, 1}).elapsed_s / static_cast<double>(one.runs.size());
  }));
  if (recorded.groups.size() > 1)
    page.add(html_details("tapestry compare --groups, by the last evaluations",
                          outcomes_of(recorded.groups)));
  page.add("<h2>Configs</h2>\n" + config_details(experiment.folder(), "config.toml") +
           config_details(experiment.folder(), "winner.toml"));
  if (!recorded.notes.empty()) page.add("<h2>Not shown</h2>\n<ul>\n" + recorded.notes + "</ul>\n");
  page.add("</main>\n");
  return page.html();
}

}  // namespace tapestry
