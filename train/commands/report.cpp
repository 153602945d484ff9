#include <filesystem>
#include <fstream>
#include <iterator>

#include "data/json.hpp"
#include "data/text/printable.hpp"
#include "train/commands/command.hpp"
#include "train/commands/output.hpp"
#include "train/run/terminal.hpp"
#include "train/tools/report/html.hpp"
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
    ReportFindings found;
    const std::string page = is_experiment(runs_.front()) ? report_of_experiment(runs_.front())
                                                          : report_of(runs_, &found);
    expect_no_fuller_page(out, found);
    write_bytes(out, page);
    for (const std::string& missing : found.not_loaded)
      complain(fmt::format("{}: lacks a model: {}", out, missing));
    JsonValue data = JsonValue::object();
    for (const auto& [run, one] : found.compared) {
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
  // Throws InputError if the page, which lacks models, exists, unless that one lacks them as well.
  static void expect_no_fuller_page(const std::string& out, const ReportFindings& found) {
    std::error_code unseen;
    if (found.not_loaded.empty() || !std::filesystem::is_regular_file(out, unseen)) return;
    std::ifstream file(out);  // read_file() would make it an input, which is not overwritten
    const std::string before((std::istreambuf_iterator(file)), std::istreambuf_iterator<char>());
    for (const std::string& missing : found.not_loaded)
      expect_input(before.find(html_text(missing)) != before.npos,
                   "{}: already exists, and may show what a new page lacks: {}; or give another "
                   "--out",
                   printable(out), missing);
  }

  std::vector<std::string> runs_;
  std::string out_;
  bool json_ = false;
};

const RegisterCommand<Report> report_command(
    "report", "write an interactive web page about runs and their models");

}  // namespace
}  // namespace tapestry
