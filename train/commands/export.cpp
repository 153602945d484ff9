#include "train/tools/convert/export.hpp"

#include <fmt/ranges.h>

#include <algorithm>
#include <filesystem>

#include "autograd/counted.hpp"
#include "data/json.hpp"
#include "data/text/printable.hpp"
#include "layers/adapters.hpp"
#include "train/commands/command.hpp"
#include "train/config/keys.hpp"
#include "train/run/terminal.hpp"
#include "train/task_spec.hpp"
#include "train/tools/convert/import.hpp"

namespace tapestry {
namespace {

StoredFloats stored_as(const std::string& dtype) {
  return dtype == "bfloat16" ? StoredFloats::bfloat16 : StoredFloats::as_they_are;
}

void write_huggingface(const TrainedModel& trained, const std::string& out,
                       const std::string& dtype) {
  const ModelExport made = export_published(trained, out, stored_as(dtype));
  say("{}: {}, in {}\n", printable(out), made.architecture, dtype);
  for (const std::string& note : made.notes) complain(note);
}

void write_peft(const TrainedModel& trained, const std::string& out, const std::string& dtype) {
  export_adapter(trained, out, stored_as(dtype));
  say("{}: the adapters, in {}\n", printable(out), dtype);
}

void write_gguf(const TrainedModel& trained, const std::string& out, const std::string& dtype) {
  const GgufType type = dtype == "float16" ? GgufType::f16
                        : dtype == "q8_0"  ? GgufType::q8_0
                                           : GgufType::f32;
  const ModelExport made = export_gguf(trained, out, type);
  say("{}: {}, in {}\n", printable(out), made.architecture, dtype);
  for (const std::string& note : made.notes) say("{}\n", note);
}

void write_onnx(const TrainedModel& trained, const std::string& out, const std::string&) {
  for (const std::string& file : export_onnx(trained, out))
    say("{}: a model, in ONNX of opset 17\n", printable(file));
}

void write_word2vec(const TrainedModel& trained, const std::string& out, const std::string&) {
  say("{}: {}, in the text format of word2vec\n", printable(out),
      counted(export_word_vectors(trained, out), "word"));
}

void write_weights(const TrainedModel& trained, const std::string& out, const std::string& dtype) {
  export_weights(trained, out, stored_as(dtype));
  say("{}: the weights, in {}\n", printable(out), dtype);
}

struct ExportFormat {
  std::string name, place;          // name of the format, and what --out is: a file or a folder
  std::vector<std::string> dtypes;  // number formats of the weights
  std::string task;                 // exists only for this task; empty: for all
  bool keeps_adapters;              // writes adapters separately from the weights
  void (*write)(const TrainedModel& trained, const std::string& out, const std::string& dtype);
};

const std::vector<ExportFormat>& formats() {
  static const std::vector<ExportFormat> all = {
      {"huggingface",
       "folder",
       {"float32", "bfloat16"},
       "language-model",
       false,
       write_huggingface},
      {"peft", "folder", {"float32", "bfloat16"}, "language-model", true, write_peft},
      {"gguf", "file", {"float32", "float16", "q8_0"}, "language-model", false, write_gguf},
      {"onnx", "file or folder", {"float32"}, "", false, write_onnx},
      {"word2vec", "file", {"float32"}, "word-vectors", false, write_word2vec},
      {"safetensors", "file", {"float32", "bfloat16"}, "", false, write_weights}};
  return all;
}

class Export final : public Command {
 public:
  void declare(Arguments& arguments) override {
    arguments.run(run_);
    arguments.option(
        "--format", format_,
        "format: huggingface (default; a folder), gguf (a file for llama.cpp), onnx "
        "(a file, or a folder for an encoder-decoder), peft (a folder with only the "
        "adapters), word2vec (a text file of word vectors) or safetensors (a file with only "
        "the weights)");
    arguments.option("--dtype", dtype_,
                     "data type of the weights: float32 (default) or bfloat16; with gguf float32, "
                     "float16 or q8_0; with onnx float32");
    arguments.adapter(adapter_);
    arguments.flag("--merge", merges_, "add the adapters to the weights before the export");
    arguments.option("--out", out_, "folder or file to write (required)");
    arguments.flag("--json", json_, "print one JSON object, and everything else to standard error");
  }

  int run() override {
    if (json_) leave_output_to_json();
    const ExportFormat& format = chosen();
    TrainedModel trained = load_trained_with(adapter_, run_, {}, false);
    Module& model = trained.task->model();
    expect_input(has_adapters(model) || !merges_, "--merge: {} has no adapters; leave out --merge",
                 printable(run_));
    if (merges_) {
      merge_adapters(model);
      trained.config = resolved_config(trained.config.toml(), run_,
                                       {fmt::format("{}=0", key::adapter_rank.name)});
    }
    expect_input(!has_adapters(model) || format.keeps_adapters,
                 "--format {}: {} has adapters; --merge adds the adapters to the weights{}",
                 format.name, printable(run_),
                 trained.config[key::task] == "language-model"
                     ? ", --format peft writes only the adapters"
                     : "");
    format.write(trained, out_, dtype_);
    if (json_) print_json({{"out", out_}, {"format", format.name}, {"dtype", dtype_}});
    return 0;
  }

 private:
  const ExportFormat& chosen() const {
    const auto format = std::ranges::find(formats(), format_, &ExportFormat::name);
    if (format == formats().end()) refuse_format();
    expect_input(std::ranges::count(format->dtypes, dtype_) > 0,
                 "--dtype {}: expected {}{} with --format {}", printable(dtype_),
                 format->dtypes.size() > 1 ? "one of " : "", fmt::join(format->dtypes, ", "),
                 format->name);
    expect_input(!merges_ || !format->keeps_adapters,
                 "--merge: cannot be combined with --format {}, which writes only adapters; leave "
                 "out --merge",
                 format->name);
    expect_input(!out_.empty(), "--out is required: the {} to write", format->place);
    for (const std::filesystem::path file : Run("").files())
      expect_input(std::filesystem::path(out_).filename() != file.filename(),
                   "--out {}: is the name of a file of a run; give another name", printable(out_));
    return *format;
  }

  // Throws InputError with the formats of the run's task.
  [[noreturn]] void refuse_format() const {
    const std::string task = config_of(load_trained_metadata(run_))[key::task];
    std::vector<std::string> names;
    for (const ExportFormat& each : formats())
      if (each.task.empty() || each.task == task) names.push_back(each.name);
    throw InputError(
        fmt::format("--format {}: expected one of {}", printable(format_), fmt::join(names, ", ")));
  }

  bool merges_ = false, json_ = false;
  std::string run_, adapter_, format_ = "huggingface", dtype_ = "float32", out_;
};

const RegisterCommand<Export> export_command("export", "write a trained model for other programs");

}  // namespace
}  // namespace tapestry
