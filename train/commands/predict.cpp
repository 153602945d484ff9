#include "train/tools/predict/predict.hpp"

#include <fmt/ranges.h>

#include "autograd/counted.hpp"
#include "data/json.hpp"
#include "data/text/printable.hpp"
#include "train/commands/command.hpp"
#include "train/commands/inspector_arguments.hpp"
#include "train/commands/output.hpp"
#include "train/config/keys.hpp"
#include "train/measure/machine.hpp"
#include "train/run/atomic_file.hpp"
#include "train/run/terminal.hpp"
#include "train/tools/convert/import.hpp"

namespace tapestry {
namespace {

// Returns "2 examples not predicted: line 3: …; line 7: …".
std::string flaws_of(const PredictedCount& count) {
  return fmt::format("{} not predicted: {}{}", counted(count.flawed, "example"),
                     fmt::join(count.flaws, "; "),
                     count.flawed > std::ssize(count.flaws) ? "; ..." : "");
}

class Predict final : public Command {
 public:
  void declare(Arguments& arguments) override {
    arguments.run(run_);
    arguments.place("DATA", data_,
                    "a file or a folder of examples like those of the training, with answers or "
                    "without; \"-\" is the standard input");
    arguments.adapter(adapter_);
    declare_options(arguments, &TaskSpec::predictor, typed_);
    arguments.overrides(overrides_);
    arguments.threads(threads_);
    arguments.option("--out", out_,
                     "file to write, NAME.csv or NAME.jsonl (default: print, in the form of DATA)");
  }

  int run() override {
    if (threads_ > 0) overrides_.push_back(fmt::format("{}={}", key::threads.name, threads_));
    expect_input(!data_.empty(),
                 "DATA: is empty; give a file or folder, or - for the standard input");
    const bool is_csv = out_.ends_with(".csv") || out_.ends_with(".tsv");
    const bool is_objects = out_.ends_with(".jsonl");
    expect_input(out_.empty() || is_csv || is_objects,
                 "--out {}: expected the name of a .csv or .jsonl file", out_);
    expect_not_of_a_run(out_);
    expect_not_an_input(out_, {data_});
    const TrainedModel trained = load();
    use_machine_as(trained.config);
    const Predictor predictor = spec_of(trained.config).predictor.show(*trained.task, typed_);
    const bool as_objects =
        is_objects || (out_.empty() && predictor.input.kind == PredictorInput::Kind::objects);
    PredictedCount count;
    const auto predict = [&](std::function<bool(std::string_view)> write) {
      count = predict_all(predictor, trained.config[key::task], data_,
                          *prediction_writer(predictor.columns, as_objects, std::move(write)));
      expect_input(count.flawed == 0 || count.flawed < count.examples, "{}", flaws_of(count));
    };
    if (out_.empty())
      predict([](std::string_view bytes) { return print_bytes(bytes); });
    else
      stream_file_atomically(out_, [&](File& file) {
        predict([&](std::string_view bytes) { return file.write(bytes), true; });
      });
    if (!out_.empty()) say("{}: {}\n", printable(out_), counted(count.examples, "prediction"));
    if (count.flawed > 0) complain(flaws_of(count));
    return 0;
  }

 private:
  // Returns the model, with the data for a task that predicts only all of them together.
  TrainedModel load() const {
    const bool is_whole = spec_of(config_of(load_trained_metadata(run_))).predicts_whole_data;
    expect_input(!is_whole || data_ != "-",
                 "DATA: this model reads a folder or file as a whole, not the standard input");
    std::vector<std::string> overrides = overrides_;
    if (is_whole)
      overrides.push_back(fmt::format("{}={}", key::data_path.name, to_toml(Value(data_))));
    return load_trained_with(adapter_, run_, overrides, is_whole, is_whole);
  }

  std::string run_, data_, adapter_, out_;
  TypedOptions typed_;
  std::vector<std::string> overrides_;
  std::int64_t threads_ = 0;
};

const RegisterCommand<Predict> predict_command(
    "predict", "predict examples of a file that may have no answer");

}  // namespace
}  // namespace tapestry
