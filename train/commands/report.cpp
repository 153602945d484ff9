#include "data/text/printable.hpp"
#include "train/commands/command.hpp"
#include "train/commands/output.hpp"
#include "train/run/terminal.hpp"
#include "train/tools/report/page.hpp"

namespace tapestry {
namespace {

class Report final : public Command {
 public:
  void declare(Arguments& arguments) override {
    arguments.places("RUN", runs_, "folders of runs, or of runs with several seeds");
    arguments.option("--out", out_,
                     "page to write (default: report.html in the folder of the first run)");
  }

  int run() override {
    const std::string out = out_.empty() ? in_run(runs_.front(), "report.html") : out_;
    expect_not_of_a_run(out);
    const std::string page = report_of(runs_);
    write_bytes(out, page);
    say("{}: {:.2f} MB; open it with a browser\n", printable(out),
        static_cast<double>(page.size()) / 1e6);
    return 0;
  }

 private:
  std::vector<std::string> runs_;
  std::string out_;
};

const RegisterCommand<Report> report_command(
    "report", "write an interactive web page about runs and their models");

}  // namespace
}  // namespace tapestry
