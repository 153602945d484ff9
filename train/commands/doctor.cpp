#include <fmt/ranges.h>
#include <unistd.h>

#include <chrono>

#include "data/json.hpp"
#include "data/text/text.hpp"
#include "train/commands/command.hpp"
#include "train/commands/output.hpp"
#include "train/commands/training_config.hpp"
#include "train/measure/machine.hpp"
#include "train/plot/render.hpp"
#include "train/run/file.hpp"
#include "train/run/terminal.hpp"
#include "train/tools/doctor/check.hpp"
#include "train/trainer/trainer.hpp"
#include "train/trainer/training.hpp"

namespace tapestry {
namespace {

// A verdict, and the seconds it took.
struct Examined {
  const Gate& gate;
  GateVerdict verdict;
  double seconds;

  struct Word {
    const char *shown, *json;
  };
  Word word() const {
    if (verdict.fault) return {"FAIL", "fault"};
    if (verdict.skipped) return {"-", "skipped"};
    if (!verdict.warnings.empty()) return {"warn", "warning"};
    return {"ok", "ok"};
  }
};

void print(const Examined& examined) {
  const GateVerdict& verdict = examined.verdict;
  say("{:<5} {:<16} {}  {:.1f} s\n", examined.word().shown, examined.gate.name,
      verdict.fault ? verdict.fault->found : verdict.said, examined.seconds);
  for (const std::string& warning : verdict.warnings) say("      {:<16} {}\n", "", warning);
  if (verdict.fault) {
    say("      {:<16} {}\n", "likely cause", verdict.fault->cause);
    say("      {:<16} {}\n", "what to do", verdict.fault->advice);
  }
  std::fflush(stdout);  // the next gate may take a minute
}

JsonValue json_of(const Examined& examined) {
  const GateVerdict& verdict = examined.verdict;
  JsonValue json{{"gate", examined.gate.name},
                 {"verdict", examined.word().json},
                 {"seconds", examined.seconds}};
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
    if (!out_.empty()) expect_folder(out_);
    use_machine_as(config);
    const auto start = std::chrono::steady_clock::now();
    const Admission admission =
        is_skipped("plan") ? Admission{std::make_unique<Patient>(config_with)} : admit(config_with);
    if (admission.patient)
      ask_all(*admission.patient);
    else
      tell({gate_of("plan"), admission.refused, seconds_since(start)});
    if (json_) print_json(admission.patient ? admission.patient->remark() : "");
    return passed_ ? 0 : failed_status;
  } catch (const Interrupted&) {
    return interrupted_status;
  }

 private:
  static const Gate& gate_of(const std::string& name) {
    return *std::ranges::find(gates(), name, &Gate::name);
  }

  static void expect_gate(const std::string& name) {
    std::vector<std::string> known;
    for (const Gate& gate : gates()) known.push_back(gate.name);
    expect_input(std::ranges::count(known, name) > 0, "--skip {}: no such gate{}; there are {}",
                 name, did_you_mean(name, known, "\""), fmt::join(known, ", "));
  }

  // Before the gates have taken their minutes.
  static void expect_folder(const std::string& path) try {
    make_folder(path);
    expect_input(::access(path.c_str(), W_OK) == 0, "--out {}: cannot be written to", path);
  } catch (const FileError& error) {
    throw InputError(fmt::format("--out {}", error.what()));
  }

  static double seconds_since(std::chrono::steady_clock::time_point start) {
    return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  }

  bool is_skipped(const std::string& gate) const { return std::ranges::count(skipped_, gate) > 0; }

  // Up to the first fault.
  void ask_all(Patient& patient) {
    if (!json_ && !patient.remark().empty())
      say("a step takes long here: examined with {}\n", patient.remark());
    for (const Gate& gate : gates()) {
      if (is_skipped(gate.name)) continue;
      const auto start = std::chrono::steady_clock::now();
      GateVerdict verdict = examine(gate, patient);
      tell({gate, std::move(verdict), seconds_since(start)});
      if (!passed_) return;
    }
  }

  void tell(const Examined& examined) {
    passed_ = !examined.verdict.fault;
    json_ ? lines_.push_back(json_of(examined)) : print(examined);
    if (examined.verdict.figure && !out_.empty()) draw(examined.gate, *examined.verdict.figure);
  }

  void print_json(const std::string& remark) const {
    JsonValue all{{"passed", passed_}, {"examined_with", remark}};
    if (!skipped_.empty()) all["skipped"] = skipped_;
    all["gates"] = lines_;
    say("{}\n", all.dump());
  }

  // DIR/learning-rate.png and its like.
  void draw(const Gate& gate, const Figure& figure) const {
    std::string name = gate.name;
    std::ranges::replace(name, ' ', '-');
    for (const Format format : formats_of(figure)) {
      const std::string path = fmt::format("{}/{}{}", out_, name, ending_of(format));
      write_bytes(path, render(figure, format));
      if (!json_) say("      {:<16} {}\n", "picture", printable(path));
    }
  }

  std::string config_, from_, out_;
  std::vector<std::string> overrides_, skipped_;
  std::int64_t threads_ = 0;
  bool json_ = false, passed_ = true;
  JsonValue lines_ = JsonValue::array();
};

const RegisterCommand<Doctor> doctor_command("doctor",
                                             "examine a config before it is trained, gate by gate");

}  // namespace
}  // namespace tapestry
