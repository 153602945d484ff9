#include "train/exchange/export.hpp"

#include "train/commands/command.hpp"
#include "train/exchange/onnx.hpp"
#include "train/run/terminal.hpp"

namespace tapestry {
namespace {

class Export final : public Command {
 public:
  void declare(Arguments& arguments) override {
    arguments.run(run_);
    arguments.option(
        "--format", format_,
        "huggingface, a folder; onnx, a file, or a folder where a model has two parts; "
        "or safetensors, a file of the weights alone");
    arguments.option("--dtype", dtype_, "of the weights: float32 or bfloat16");
    arguments.option("--out", out_, "the folder or file to write");
  }

  int run() override {
    const bool is_folder = format_ == "huggingface";
    expect_input(is_folder || format_ == "onnx" || format_ == "safetensors",
                 "--format: {}: expected huggingface, onnx or safetensors", format_);
    expect_input(dtype_ == "float32" || dtype_ == "bfloat16",
                 "--dtype: {}: expected float32 or bfloat16", dtype_);
    expect_input(!out_.empty(), "--out: name the {} to write", is_folder ? "folder" : "file");
    if (format_ == "onnx") return run_onnx();
    const StoredFloats stored =
        dtype_ == "bfloat16" ? StoredFloats::bfloat16 : StoredFloats::as_they_are;
    const TrainedModel trained = load_trained(run_, {}, false);
    if (is_folder) {
      const std::string architecture = export_published(trained, out_, stored);
      say("{}: {}, in {}\n", out_, architecture, dtype_);
    } else {
      export_weights(trained, out_, stored);
      say("{}: the weights, in {}\n", out_, dtype_);
    }
    return 0;
  }

 private:
  int run_onnx() {
    expect_input(dtype_ == "float32", "--dtype: {}: --format onnx writes float32", dtype_);
    for (const std::string& file : export_onnx(load_trained(run_, {}, false), out_))
      say("{}: a model, in ONNX of opset 17\n", file);
    return 0;
  }

  std::string run_, format_ = "huggingface", dtype_ = "float32", out_;
};

const RegisterCommand<Export> export_command("export", "take a trained model to where others work");

}  // namespace
}  // namespace tapestry
