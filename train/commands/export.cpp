#include "train/exchange/export.hpp"

#include "layers/adapters.hpp"
#include "train/commands/command.hpp"
#include "train/exchange/adapter.hpp"
#include "train/run/terminal.hpp"

namespace tapestry {
namespace {

class Export final : public Command {
 public:
  void declare(Arguments& arguments) override {
    arguments.run(run_);
    arguments.option("--format", format_,
                     "huggingface, a folder; peft, a folder of the adapters alone; or safetensors, "
                     "a file of the weights alone");
    arguments.adapter(adapter_);
    arguments.flag("--merge", merges_, "add the adapters to the weights first");
    arguments.option("--dtype", dtype_, "of the weights: float32 or bfloat16");
    arguments.option("--out", out_, "the folder or file to write");
  }

  int run() override {
    const bool is_folder = format_ == "huggingface" || format_ == "peft";
    expect_input(is_folder || format_ == "safetensors",
                 "--format: {}: expected huggingface, peft or safetensors", format_);
    expect_input(dtype_ == "float32" || dtype_ == "bfloat16",
                 "--dtype: {}: expected float32 or bfloat16", dtype_);
    expect_input(!out_.empty(), "--out: name the {} to write", is_folder ? "folder" : "file");
    const StoredFloats stored =
        dtype_ == "bfloat16" ? StoredFloats::bfloat16 : StoredFloats::as_they_are;
    const TrainedModel trained = load();
    if (format_ == "peft") {
      export_adapter(trained, out_, stored);
      say("{}: the adapters, in {}\n", out_, dtype_);
    } else if (is_folder) {
      const std::string architecture = export_published(trained, out_, stored);
      say("{}: {}, in {}\n", out_, architecture, dtype_);
    } else {
      export_weights(trained, out_, stored);
      say("{}: the weights, in {}\n", out_, dtype_);
    }
    return 0;
  }

 private:
  // With its adapters merged, if it has any and the format knows none.
  TrainedModel load() const {
    TrainedModel trained = load_trained_with(adapter_, run_, {}, false);
    Module& model = trained.task->model();
    expect_input(has_adapters(model) || !merges_, "--merge: {} has no adapters", run_);
    if (merges_) merge_adapters(model);
    expect_input(!has_adapters(model) || format_ == "peft" || format_ == "safetensors",
                 "--format {}: {} has adapters: --merge adds them to the weights, --format peft "
                 "writes them alone",
                 format_, run_);
    return trained;
  }

  bool merges_ = false;
  std::string run_, adapter_, format_ = "huggingface", dtype_ = "float32", out_;
};

const RegisterCommand<Export> export_command("export", "take a trained model to where others work");

}  // namespace
}  // namespace tapestry
