#include "data/json.hpp"
#include "data/text/printable.hpp"
#include "train/commands/command.hpp"
#include "train/commands/output.hpp"
#include "train/run/terminal.hpp"
#include "train/tools/report/page.hpp"
#include "train/tools/search/experiment_report.hpp"

namespace tapestry {
namespace {

class Report final : public Command {
 public:
  void declare(Arguments& arguments) override {
    arguments.places("RUN", runs_,
                     "folders of runs, or of runs with several seeds, or of one search");
    arguments.option("--out", out_,
                     "page to write (default: report.html in the folder of the first run)");
    arguments.flag("--json", json_, "print one JSON object");
  }

  int run() override {
    const std::string out = out_.empty() ? in_run(runs_.front(), "report.html") : out_;
    expect_not_of_a_run(out);
    for (const std::string& run : runs_)
      expect_input(
          runs_.size() == 1 || !is_experiment(run),
          "{}: is the folder of a search; give it alone, or give folders of its candidates", run);
    std::map<std::string, ComparedData> compared;
    const std::string page = is_experiment(runs_.front()) ? report_of_experiment(runs_.front())
                                                          : report_of(runs_, &compared);
    write_bytes(out, page);
    JsonValue data = JsonValue::object();
    for (const auto& [run, one] : compared) {
      data[run] = one.json()["data"];
      if (const std::string text = one.text(); !json_ && !text.empty())
        say("{}: {}", printable(run), text);
    }
    if (json_)
      print_json({{"out", out}, {"bytes", page.size()}, {"data", data}});
    else
      say("{}: {:.2f} MB; open it with a browser\n", printable(out),
          static_cast<double>(page.size()) / 1e6);
    return 0;
  }

 private:
  std::vector<std::string> runs_;
  std::string out_;
  bool json_ = false;
};

const RegisterCommand<Report> report_command(
    "report", "write an interactive web page about runs and their models");

}  // namespace
}  // namespace tapestry
