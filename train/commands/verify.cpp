#include "train/tools/reproduce/verify.hpp"

#include <fmt/ranges.h>

#include "autograd/check.hpp"
#include "autograd/clock.hpp"
#include "autograd/counted.hpp"
#include "data/json.hpp"
#include "data/text/printable.hpp"
#include "train/commands/command.hpp"
#include "train/config/keys.hpp"
#include "train/run/terminal.hpp"

namespace tapestry {
namespace {

using Json = JsonValue;

constexpr std::size_t most_named = 8;  // maximum number of named tensors

// Returns the version, backends, processor, threads and ranks of a session.
std::string maker(const Session& session) {
  return fmt::format("tapestry {}, {}, {}, {}, {}", printable_beginning(session.version),
                     printable_beginning(session.backends), printable_beginning(session.processor),
                     counted(session.threads, "thread"), counted(session.ranks, "rank"));
}

// Returns the settings that a resumed session changed, or "".
std::string changed_at(const Session& session) {
  if (!session.changed || session.changed->empty()) return "";
  return fmt::format(", from step {} on with {}", session.from_step,
                     printable_beginning(to_text(*session.changed)));
}

std::string names_of(const std::vector<std::string>& names) {
  std::vector<std::string> shown;
  for (std::size_t i = 0; i < std::min(names.size(), most_named); ++i)
    shown.push_back(printable_beginning(names[i]));
  const std::size_t others = names.size() - shown.size();
  return fmt::format("{}{}", fmt::join(shown, ", "),
                     others > 0 ? fmt::format(" and {} more", others) : "");
}

std::string compared(const VerifyResult& result) {
  std::string text = fmt::format("{}, {}", counted(result.training_lines, "training line"),
                                 counted(result.evaluations, "evaluation"));
  if (result.evaluations > 0) text += " with the checksum of all parameters";
  if (result.tests > 0) text += ", the test metrics";
  if (!result.checkpoints.empty())
    text += fmt::format(", {} of {}", counted(result.tensors, "tensor"),
                        printable(fmt::format("{}", fmt::join(result.checkpoints, " and "))));
  return text;
}

std::string last_same(const VerifyResult& result) {
  if (result.last_same < 0) return "no earlier step was recorded";
  return fmt::format("the recorded step {} is identical", result.last_same);
}

void print(const std::string& run, const VerifyResult& result) {
  if (result.is_same() && result.last_step < result.first_step)
    say("{}: bitwise identical: step {} of {}, evaluated from {}\n", run, result.last_step,
        result.steps_of_run, printable(result.from));
  else if (result.is_same())
    say("{}: bitwise identical: steps {} to {} of {}, trained again from {} ({} recorded)\n", run,
        result.first_step, result.last_step, result.steps_of_run, printable(result.from),
        result.recorded_steps);
  else
    say("{}: step {} differs, trained again from {}; {}: {}\n", run, result.differs_at,
        printable(result.from), last_same(result),
        printable(fmt::format("{}", fmt::join(result.differences, "; "))));
  for (const DifferingTensors& differing : result.tensors_that_differ)
    say("  different:    {} of {} tensors of {} (step {}): {}\n", differing.names.size(),
        differing.all, printable(differing.path), differing.step, names_of(differing.names));
  for (const std::string& reason : result.other_makers)
    if (!result.is_same()) say("  likely cause: {}\n", reason);
  say("  compared:     {}\n", compared(result));
  for (const std::string& what : result.not_compared) say("  not compared: {}\n", printable(what));
  for (const Session& session : result.recorded_by)
    say("  recorded by:  {}{}\n", maker(session), changed_at(session));
  say("  computed by:  {}\n", maker(result.computed_by));
}

Json to_json(const Session& session) {
  Json json{{"version", session.version},     {"engines", session.backends},
            {"processor", session.processor}, {"threads", session.threads},
            {"ranks", session.ranks},         {"from_step", session.from_step}};
  if (session.changed)
    for (const auto& [key, before, after] : *session.changed)
      json["changed"].push_back({{"key", key}, {"before", before}, {"after", after}});
  return json;
}

Json json_of(const std::string& run, const VerifyResult& result) {
  Json tensors = Json::array(), sessions = Json::array();
  for (const DifferingTensors& differing : result.tensors_that_differ)
    tensors.push_back(
        {{"file", differing.path}, {"step", differing.step}, {"tensors", differing.names}});
  for (const Session& session : result.recorded_by) sessions.push_back(to_json(session));
  return {{"run", run},
          {"same", result.is_same()},
          {"from", result.from},
          {"first_step", result.first_step},
          {"last_step", result.last_step},
          {"recorded_steps", result.recorded_steps},
          {"last_same", result.last_same < 0 ? Json() : Json(result.last_same)},
          {"training_lines", result.training_lines},
          {"evaluations", result.evaluations},
          {"tests", result.tests},
          {"checksums", result.evaluations},
          {"tensors", result.tensors},
          {"differs_at", result.is_same() ? Json() : Json(result.differs_at)},
          {"differences", result.differences},
          {"tensors_that_differ", tensors},
          {"other_makers", result.other_makers},
          {"not_compared", result.not_compared},
          {"recorded_by", sessions},
          {"computed_by", to_json(result.computed_by)}};
}

// A line of a terminal that shows the current step; elsewhere it prints nothing.
class StepsShown {
 public:
  ~StepsShown() { clear(); }
  void show(std::int64_t step, std::int64_t last) {
    if (live_columns() == 0 || now_s() - shown_s_ < 0.1) return;
    clear();
    say("step {} of {}", step, last);
    std::fflush(stdout);
    is_shown_ = true;
    shown_s_ = now_s();
  }
  void clear() {
    if (is_shown_) erase_line();
    is_shown_ = false;
  }

 private:
  bool is_shown_ = false;
  double shown_s_ = -1;  // time of the last update
};

class Verify final : public Command {
 public:
  void declare(Arguments& arguments) override {
    arguments.place("RUN", run_, "the folder of a run");
    arguments.option(
        "--from", options_.from,
        "where to begin: start, best, checkpoint, or the path of a checkpoint (default: start)");
    arguments.option("--steps", options_.steps,
                     "number of steps to compare (default: up to the first recorded evaluation)",
                     {.low = 0});
    arguments.flag("--all", options_.all,
                   "compare everything recorded, including the test metrics");
    arguments.overrides(options_.overrides);
    arguments.threads(threads_);
    arguments.flag("--json", json_, "print one JSON object");
  }

  int run() override {
    expect_input(!options_.all || options_.steps < 0,
                 "--all, --steps: cannot be combined; give one of them");
    if (threads_ > 0)
      options_.overrides.push_back(fmt::format("{}={}", key::threads.name, threads_));
    StepsShown steps;
    if (!json_)
      options_.watch = [&](std::int64_t step, std::int64_t last) { steps.show(step, last); };
    const VerifyResult result = verify(Run(run_), options_);
    steps.clear();
    if (json_)
      print_json(json_of(run_, result));
    else
      print(printable(run_), result);
    return result.is_same() ? 0 : failed_status;
  }

 private:
  std::string run_;
  VerifyOptions options_;
  std::int64_t threads_ = 0;
  bool json_ = false;
};

const RegisterCommand<Verify> verify_command(
    "verify", "train steps of a run again and compare them bit for bit");

}  // namespace
}  // namespace tapestry
