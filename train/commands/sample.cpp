#include "data/text/printable.hpp"
#include "train/commands/command.hpp"
#include "train/commands/inspector_arguments.hpp"
#include "train/commands/output.hpp"
#include "train/measure/machine.hpp"
#include "train/run/terminal.hpp"
#include "train/tools/convert/import.hpp"
#include "train/trainer/compared_data.hpp"
#include "train/trainer/trainer.hpp"

namespace tapestry {
namespace {

class ShowSamples final : public Command {
 public:
  void declare(Arguments& arguments) override {
    arguments.run(run_);
    arguments.adapter(adapter_);
    declare_options(arguments, &TaskSpec::samples, typed_);
    arguments.overrides(overrides_);
    arguments.option(
        "--out", out_,
        "file to write: a text, or for a figure NAME.png, NAME.svg, NAME.csv, or NAME for all "
        "(default: print a text, and write a figure into RUN)");
    arguments.flag("--json", json_, "print one JSON object, and write no figure");
  }

  int run() override {
    const TrainedModel trained = load_trained_with(adapter_, run_, overrides_, false);
    use_machine_as(trained.config);
    expect_not_of_a_run(out_);
    Sample sample = spec_of(trained.config).samples.show(*trained.task, typed_);
    expect_input(!json_ || out_.empty(),
                 "--json: not used with --out; leave out --out, and redirect the output");
    if (!sample.file.empty()) {
      const std::string option = option_of(sample.file);
      expect_input(out_.empty() && !json_,
                   "--out, --json: not used with {}; leave out --out and --json", option);
      expect_not_of_a_run(sample.file, option);
      write_bytes(sample.file, sample.text, option);
      say("{}\n{}", printable(sample.file), compare_shown(trained, typed_, overrides_).text());
      return 0;
    }
    if (sample.stream && out_.empty() && !json_) {
      show_as_it_comes(sample.stream);
      return 0;
    }
    if (!sample.figure) expect_text_file(out_);
    if (sample.stream) sample.stream([&](std::string_view piece) { sample.text += piece; });
    const ComparedData compared = compare_shown(trained, typed_, overrides_);
    if (json_) {
      JsonValue object = json_of(sample);
      object.update(compared.json());
      print_json(object);
    } else if (sample.figure)
      write(sample.name, sample.text, *sample.figure);
    else if (out_.empty())
      say("{}", sample.text);
    else
      write_bytes(out_, sample.text);
    if (!json_) say("{}", compared.text());
    return 0;
  }

 private:
  // Returns the last option of the task that was given this text: "--csv".
  std::string option_of(const std::string& text) const {
    std::string option = "--out";
    for (const auto& [name, given] : typed_)
      if (given == text) option = "--" + name;
    return option;
  }

  // Returns the sample for programs. The line end after a text is not part of it.
  static JsonValue json_of(const Sample& sample) {
    expect_input(
        !sample.json.is_null() || !sample.figure,
        "--json: these samples are a figure; leave out --json{}",
        sample.text.empty() ? ", or give --image FILE" : "; --out NAME.csv writes the numbers");
    if (!sample.json.is_null()) return sample.json;
    std::string_view text = sample.text;
    if (text.ends_with('\n')) text.remove_suffix(1);
    return {{"text", text}};
  }

  void write(const std::string& name, const std::string& csv, const Figure& figure) const {
    const std::string out = out_.empty() ? in_run(run_, name, figure) : out_;
    csv.empty() ? write_figure(out, figure) : write_table_and_figure(out, csv, figure);
  }

  std::string run_, adapter_, out_;
  TypedOptions typed_;
  std::vector<std::string> overrides_;
  bool json_ = false;
};

const RegisterCommand<ShowSamples> sample_command("sample", "show samples of a trained model");

}  // namespace
}  // namespace tapestry
