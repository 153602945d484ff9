#include <chrono>
#include <nlohmann/json.hpp>

#include "train/commands/command.hpp"
#include "train/commands/output.hpp"
#include "train/commands/training_config.hpp"
#include "train/doctor/gate.hpp"
#include "train/draw/render.hpp"
#include "train/loop/trainer.hpp"
#include "train/loop/training.hpp"
#include "train/run/terminal.hpp"

namespace tapestry {
namespace {

// A verdict, and the seconds it took.
struct Examined {
  const Gate& gate;
  GateVerdict verdict;
  double seconds;

  const char* word() const {
    if (verdict.fault) return "FAIL";
    if (verdict.skipped) return "-";
    return verdict.warnings.empty() ? "ok" : "warn";
  }
};

void print(const Examined& examined) {
  const GateVerdict& verdict = examined.verdict;
  say("{:<5} {:<16} {}  {:.1f} s\n", examined.word(), examined.gate.name,
      verdict.fault ? verdict.fault->found : verdict.said, examined.seconds);
  for (const std::string& warning : verdict.warnings) say("      {:<16} {}\n", "", warning);
  if (!verdict.fault) return;
  say("      {:<16} {}\n", "likely cause", verdict.fault->cause);
  say("      {:<16} {}\n", "what to do", verdict.fault->advice);
}

nlohmann::ordered_json json_of(const Examined& examined) {
  const GateVerdict& verdict = examined.verdict;
  const char* word = verdict.fault              ? "fault"
                     : verdict.skipped          ? "skipped"
                     : verdict.warnings.empty() ? "ok"
                                                : "warning";
  nlohmann::ordered_json json{
      {"gate", examined.gate.name}, {"verdict", word}, {"seconds", examined.seconds}};
  if (!verdict.said.empty()) json["said"] = verdict.said;
  if (!verdict.warnings.empty()) json["warnings"] = verdict.warnings;
  if (verdict.fault)
    json.update({{"found", verdict.fault->found},
                 {"cause", verdict.fault->cause},
                 {"advice", verdict.fault->advice}});
  return json;
}

class Doctor final : public Command {
 public:
  void declare(Arguments& arguments) override {
    arguments.config(config_);
    arguments.overrides(overrides_);
    arguments.option("--from", from_, "as train would: begin with the weights of this run");
    arguments.option("--out", out_, "a folder for the picture of the learning rates");
    arguments.option("--skip", skipped_, "GATE", "pass a gate by");
    arguments.threads(threads_);
    arguments.flag("--json", json_, "print one JSON object");
  }

  int run() override try {
    for (const std::string& name : skipped_) expect_gate(name);
    const ConfigWith config_with = [this](const std::vector<std::string>& changes) {
      std::vector<std::string> overrides = overrides_;
      if (threads_ > 0) overrides.push_back(fmt::format("train.threads={}", threads_));
      overrides.insert(overrides.end(), changes.begin(), changes.end());
      return training_config(config_, overrides, from_);
    };
    const Config config = config_with({});
    check_training_keys(config);
    use_machine_as(config);
    Patient patient(config_with);
    if (!json_ && !patient.remark().empty())
      say("a step takes long here: examined with {}\n", patient.remark());
    auto lines = nlohmann::ordered_json::array();
    bool passed = true;
    for (const Gate& gate : gates()) {
      if (std::ranges::count(skipped_, gate.name) > 0) continue;
      const Examined examined = timed(gate, patient);
      passed = !examined.verdict.fault;
      json_ ? lines.push_back(json_of(examined)) : print(examined);
      if (examined.verdict.figure && !out_.empty()) draw(gate, *examined.verdict.figure);
      if (!passed) break;
    }
    if (json_)
      say("{}\n",
          nlohmann::ordered_json{
              {"passed", passed}, {"examined_with", patient.remark()}, {"gates", lines}}
              .dump());
    return passed ? 0 : failed_status;
  } catch (const Interrupted&) {
    return interrupted_status;
  }

 private:
  static void expect_gate(const std::string& name) {
    std::vector<std::string> known;
    for (const Gate& gate : gates()) known.push_back(gate.name);
    expect_input(std::ranges::count(known, name) > 0, "--skip {}: no such gate{}", name,
                 did_you_mean(name, known, "\""));
  }

  static Examined timed(const Gate& gate, Patient& patient) {
    const auto start = std::chrono::steady_clock::now();
    GateVerdict verdict = examine(gate, patient);
    const std::chrono::duration<double> took = std::chrono::steady_clock::now() - start;
    return {gate, std::move(verdict), took.count()};
  }

  // DIR/learning-rate.png and its like.
  void draw(const Gate& gate, const Figure& figure) const {
    std::string name = gate.name;
    std::ranges::replace(name, ' ', '-');
    make_folder(out_);
    for (const Format format : formats_of(figure)) {
      const std::string path = fmt::format("{}/{}{}", out_, name, ending_of(format));
      write_bytes(path, render(figure, format));
      if (!json_) say("      {:<16} {}\n", "picture", path);
    }
  }

  std::string config_, from_, out_;
  std::vector<std::string> overrides_, skipped_;
  std::int64_t threads_ = 0;
  bool json_ = false;
};

const RegisterCommand<Doctor> doctor_command("doctor",
                                             "examine a config before it is trained, gate by gate");

}  // namespace
}  // namespace tapestry
