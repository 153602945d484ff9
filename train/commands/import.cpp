#include "train/tools/convert/import.hpp"

#include <fmt/ranges.h>

#include <algorithm>
#include <filesystem>

#include "data/json.hpp"
#include "data/text/printable.hpp"
#include "train/commands/command.hpp"
#include "train/config/keys.hpp"
#include "train/run/run_lock.hpp"
#include "train/run/terminal.hpp"
#include "train/tools/convert/architectures.hpp"
#include "train/trainer/open_run.hpp"

namespace tapestry {
namespace {

class Import final : public Command {
 public:
  void declare(Arguments& arguments) override {
    arguments.place(
        "MODEL", model_,
        "a folder with config.json, model.safetensors and tokenizer.json, or a GGUF file");
    arguments.option(
        "--base", base_,
        "run with the base model, if MODEL is an adapter in peft format (default: none)");
    arguments.overrides(overrides_);
    arguments.option("--ignore", to_ignore_, "FIELD",
                     "import although this field of MODEL is unknown and may change what the model "
                     "computes; may be repeated (default: none)");
    arguments.option("--out", out_, "folder of the new run (default: runs/<name>)");
    arguments.flag("--json", json_, "print one JSON object");
  }

  int run() override {
    const ImportedModel model = read();
    for (const std::string& field : to_ignore_)
      expect_input(std::ranges::count(model.ignored, field) > 0,
                   "--ignore {}: {} has no unknown field of this name; leave out --ignore",
                   printable(field), printable(model_));
    const Run run(out_.empty() ? Run::default_folder(model.config[key::name], false) : out_);
    RunLock lock(run, RunLock::Folder::make);
    open_run(run, model.config, false);  // throws if the folder has a run
    lock.remove_unfinished();
    try {
      lock.replace(run.config(), {model.config.toml()});
      save_weights([&](const auto& parts) { lock.replace(run.best(), parts); }, *model.task,
                   model.config);
    } catch (...) {  // a config without weights is not a run
      lock.remove_placed();
      throw;
    }
    const std::int64_t parameters = count_parameters(model.task->model());
    if (json_) {
      print_json({{"run", run.folder()},
                  {"architecture", model.architecture},
                  {"parameters", parameters},
                  {"ignored", model.ignored}});
      return 0;
    }
    if (!model.ignored.empty())
      say("{}: ignored the unknown fields {}\n", printable(model_), fmt::join(model.ignored, ", "));
    say("{0}: {3}, {4} parameters; {1} sample {2} continues a text, {1} train CONFIG --from "
        "{2} fine-tunes the model\n",
        printable(run.folder()), own_program(), shell_word(run.folder()), model.architecture,
        parameters);
    return 0;
  }

 private:
  ImportedModel read() const {
    if (!base_.empty()) return adapted();
    return std::filesystem::is_regular_file(model_)
               ? import_gguf(model_, overrides_, to_ignore_)
               : import_published(model_, overrides_, to_ignore_);
  }

  // Returns the base with the adapter added; its name and architecture stay.
  ImportedModel adapted() const {
    UnknownFields unknown{.to_ignore = to_ignore_};
    TrainedModel trained = load_trained_with(model_, base_, overrides_, false, false, &unknown);
    return {.architecture =
                names_of(architecture_of(transformer_settings.of(trained.config))).class_name,
            .config = std::move(trained.config),
            .task = std::move(trained.task),
            .ignored = std::move(unknown.ignored)};
  }

  std::string model_, base_, out_;
  bool json_ = false;
  std::vector<std::string> overrides_, to_ignore_;
};

const RegisterCommand<Import> import_command(
    "import", "create a run from a model of Hugging Face's transformers or llama.cpp");

}  // namespace
}  // namespace tapestry
