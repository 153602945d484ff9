#include "train/exchange/export.hpp"

#include <map>

#include "data/text/text.hpp"
#include "train/commands/command.hpp"
#include "train/exchange/gguf_export.hpp"
#include "train/run/terminal.hpp"

namespace tapestry {
namespace {

class Export final : public Command {
 public:
  void declare(Arguments& arguments) override {
    arguments.run(run_);
    arguments.option("--format", format_,
                     "huggingface, a folder; gguf, a file for llama.cpp; or safetensors, a file "
                     "of the weights alone");
    arguments.option("--dtype", dtype_,
                     "of the weights: float32 or bfloat16; for gguf float32, float16 or q8_0");
    arguments.option("--out", out_, "the folder or file to write");
  }

  int run() override {
    if (format_ == "gguf") return write_gguf_file();
    const bool is_folder = format_ == "huggingface";
    expect_input(is_folder || format_ == "safetensors",
                 "--format: {}: expected huggingface, gguf or safetensors", format_);
    expect_input(dtype_ == "float32" || dtype_ == "bfloat16",
                 "--dtype: {}: expected float32 or bfloat16 with --format {}", dtype_, format_);
    expect_input(!out_.empty(), "--out: name the {} to write", is_folder ? "folder" : "file");
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
  int write_gguf_file() const {
    static const std::map<std::string, GgufType> types = {
        {"float32", GgufType::f32}, {"float16", GgufType::f16}, {"q8_0", GgufType::q8_0}};
    const auto type = types.find(dtype_);
    expect_input(type != types.end(),
                 "--dtype: {}: expected float32, float16 or q8_0 with --format gguf", dtype_);
    expect_input(!out_.empty(), "--out: name the file to write");
    const GgufExport made = export_gguf(load_trained(run_, {}, false), out_, type->second);
    say("{}: {}, in {}\n", printable(out_), made.architecture, dtype_);
    for (const std::string& note : made.notes) say("{}\n", note);
    return 0;
  }

  std::string run_, format_ = "huggingface", dtype_ = "float32", out_;
};

const RegisterCommand<Export> export_command("export", "take a trained model to where others work");

}  // namespace
}  // namespace tapestry
