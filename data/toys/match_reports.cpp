#include "data/toys/match_reports.hpp"

#include <fmt/format.h>

#include <array>

#include "autograd/random.hpp"
#include "data/toys/synthetic.hpp"

namespace tapestry {
namespace {

constexpr std::array teams = {"blue", "green", "red"};
constexpr std::array openings = {"Yesterday",  "On Sunday",    "In the final",       "In the cup",
                                 "At home",    "In the rain",  "After a long break", "As expected",
                                 "Once again", "In extra time"};
// The team that is named first wins with the first verbs and loses with the others.
constexpr std::array verbs = {"beat",    "won against",       "defeated", "overcame",
                              "lost to", "went down against", "fell to",  "gave in to"};
constexpr std::size_t winning_verbs = 4;
constexpr std::array scores = {"1 to 0", "2 to 0", "2 to 1", "3 to 0", "3 to 1",
                               "3 to 2", "4 to 0", "4 to 1", "4 to 2", "5 to 3"};
constexpr std::array endings = {"before a large crowd",    "with ten players",
                                "after a weak start",      "despite many chances",
                                "with two late goals",     "without their coach",
                                "in front of empty seats", "on a muddy field"};

constexpr std::size_t sentences = openings.size() * teams.size() * (teams.size() - 1) *
                                  verbs.size() * scores.size() * endings.size();

// A sentence and its winner.
struct Report {
  std::string text;
  std::int32_t winner;
};

// Returns one of the sentences, by its number.
Report report(std::size_t number) {
  const auto next = [&number](std::size_t choices) {
    const std::size_t choice = number % choices;
    number /= choices;
    return choice;
  };
  const std::size_t verb = next(verbs.size()), first = next(teams.size());
  const std::size_t second = (first + 1 + next(teams.size() - 1)) % teams.size();
  const char* opening = openings[next(openings.size())];
  const char* score = scores[next(scores.size())];
  return {.text = fmt::format("{}, {} {} {} {} {}.", opening, teams[first], verbs[verb],
                              teams[second], score, endings[next(endings.size())]),
          .winner = static_cast<std::int32_t>(verb < winning_verbs ? first : second)};
}

}  // namespace

LabeledTexts make_match_reports(const MatchReportOptions& options) {
  expect_examples(options.examples);
  LabeledTexts reports;
  for (std::int64_t i = 0; i < options.examples; ++i) {
    Report drawn = report(draw_of(options, i, [](Random& random) {
      return static_cast<std::uint64_t>(random.below(sentences));
    }));
    reports.texts.push_back(std::move(drawn.text));
    reports.labels.push_back(drawn.winner);
  }
  return reports;
}

std::vector<std::string> match_report_classes() { return {teams.begin(), teams.end()}; }

}  // namespace tapestry
