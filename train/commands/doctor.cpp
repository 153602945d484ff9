#include <fmt/ranges.h>
#include <unistd.h>

#include "autograd/clock.hpp"
#include "data/json.hpp"
#include "data/text/printable.hpp"
#include "train/commands/command.hpp"
#include "train/commands/output.hpp"
#include "train/commands/training_config.hpp"
#include "train/measure/machine.hpp"
#include "train/plot/render.hpp"
#include "train/run/atomic_file.hpp"
#include "train/run/terminal.hpp"
#include "train/tools/doctor/check.hpp"
#include "train/trainer/begin_task.hpp"
#include "train/trainer/trainer.hpp"

namespace tapestry {
namespace {

// A check, its result, and its time in seconds.
struct Examined {
  const DoctorCheck& check;
  CheckResult result;
  double seconds;

  struct Word {
    const char *shown, *json;
  };
  Word word() const {
    if (result.fault) return {"FAIL", "fault"};
    if (result.skipped) return {"skip", "skipped"};
    if (!result.warnings.empty()) return {"warn", "warning"};
    return {"ok", "ok"};
  }
};

// Prints a line that continues a check.
void print_detail(const std::string& name, const std::string& text) {
  say("      {:<16}         {}\n", name, text);
}

void print(const Examined& examined) {
  const CheckResult& result = examined.result;
  say("{:<5} {:<16} {:>5.1f} s  {}\n", examined.word().shown, examined.check.name, examined.seconds,
      result.fault ? result.fault->found : result.said);
  for (const std::string& warning : result.warnings) print_detail("", warning);
  if (result.fault) {
    print_detail("likely cause", result.fault->cause);
    print_detail("what to do", result.fault->advice);
  }
  std::fflush(stdout);  // the next check may take a minute
}

JsonValue json_of(const Examined& examined) {
  const CheckResult& result = examined.result;
  JsonValue json{{"gate", examined.check.name},
                 {"verdict", examined.word().json},
                 {"seconds", examined.seconds}};
  if (!result.said.empty()) json["said"] = result.said;
  if (!result.warnings.empty()) json["warnings"] = result.warnings;
  if (result.fault)
    json.update({{"found", result.fault->found},
                 {"cause", result.fault->cause},
                 {"advice", result.fault->advice}});
  return json;
}

class Doctor final : public Command {
 public:
  void declare(Arguments& arguments) override {
    given_.declare(arguments);
    arguments.option("--out", out_,
                     "folder for a figure of the learning-rate range test (default: none)");
    arguments.option(
        "--skip", skipped_, "CHECK",
        fmt::format("skip a check: one of {} (default: none)", fmt::join(check_names(), ", ")));
    arguments.flag("--json", json_, "print one JSON object");
  }

  int run() override try {
    for (std::string& name : skipped_) {
      expect_check(name);
      name = current_name(name);
    }
    const ConfigWith config_with = [this](const std::vector<std::string>& changes) {
      return given_.read(changes);
    };
    const Config config = config_with({});
    check_training_keys(config);
    if (!out_.empty()) expect_folder(out_);
    use_machine_as(config);
    const double start_s = now_s();
    const Admitted admission = is_skipped("plan")
                                   ? Admitted{std::make_unique<TrainingUnderTest>(config_with)}
                                   : admit(config_with);
    if (admission.under_test)
      run_checks(*admission.under_test);
    else
      report({*std::ranges::find(doctor_checks(), "plan", &DoctorCheck::name), admission.refused,
              now_s() - start_s});
    if (json_) print_json(result(admission.under_test ? admission.under_test->remark() : ""));
    return passed_ ? 0 : failed_status;
  } catch (const Interrupted&) {
    return interrupted_status;
  }

 private:
  // Returns the name of a check that is written with hyphens: "one batch" for "one-batch"; or with
  // the spelling of an earlier version.
  static std::string current_name(std::string name) {
    std::ranges::replace(name, '-', ' ');
    return name == "neighbours" ? "neighbors" : name;
  }

  // Returns the names with hyphens, as --skip expects them.
  static std::vector<std::string> check_names() {
    std::vector<std::string> names;
    for (const DoctorCheck& check : doctor_checks()) {
      names.push_back(check.name);
      std::ranges::replace(names.back(), ' ', '-');
    }
    return names;
  }

  static void expect_check(const std::string& name) {
    const std::vector<std::string> known = check_names();
    expect_input(name.find(',') == std::string::npos,
                 "--skip {}: expected the name of one check; repeat --skip for each", name);
    expect_input(std::ranges::count(doctor_checks(), current_name(name), &DoctorCheck::name) > 0,
                 "--skip {}: no such check{}; expected one of {}", name, did_you_mean(name, known),
                 fmt::join(known, ", "));
  }

  // Throws InputError if the folder cannot be written to, before the checks take minutes.
  static void expect_folder(const std::string& path) try {
    make_folder(path);
    expect_input(::access(path.c_str(), W_OK) == 0,
                 "--out {}: the folder is not writable; give another folder", path);
  } catch (const FileError& error) {
    throw InputError(fmt::format("--out {}", error.what()));
  }

  bool is_skipped(const std::string& check) const {
    return std::ranges::count(skipped_, check) > 0;
  }

  // Runs the checks up to the first fault.
  void run_checks(TrainingUnderTest& under_test) {
    if (!json_ && !under_test.remark().empty())
      say("steps are slow on this machine: the checks use {}\n", under_test.remark());
    for (const DoctorCheck& check : doctor_checks()) {
      if (is_skipped(check.name)) continue;
      const double start_s = now_s();
      CheckResult result = examine(check, under_test);
      report({check, std::move(result), now_s() - start_s});
      if (!passed_) return;
    }
  }

  void report(const Examined& examined) {
    passed_ = !examined.result.fault;
    json_ ? lines_.push_back(json_of(examined)) : print(examined);
    if (examined.result.figure && !out_.empty()) draw(examined.check, *examined.result.figure);
  }

  JsonValue result(const std::string& remark) const {
    JsonValue all{{"passed", passed_}, {"examined_with", remark}};
    if (!skipped_.empty()) all["skipped"] = skipped_;
    all["gates"] = lines_;
    return all;
  }

  // Writes a check's figure, as DIR/learning-rate.png.
  void draw(const DoctorCheck& check, const Figure& figure) const {
    std::string name = check.name;
    std::ranges::replace(name, ' ', '-');
    for (const Format format : formats_of(figure)) {
      const std::string path = fmt::format("{}/{}{}", out_, name, ending_of(format));
      write_bytes(path, render(figure, format));
      if (!json_) print_detail("figure", printable(path));
    }
  }

  TrainingArguments given_;
  std::string out_;
  std::vector<std::string> skipped_;
  bool json_ = false, passed_ = true;
  JsonValue lines_ = JsonValue::array();
};

const RegisterCommand<Doctor> doctor_command("doctor",
                                             "check data, model and machine before a training");

}  // namespace
}  // namespace tapestry
