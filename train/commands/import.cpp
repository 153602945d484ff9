#include "train/exchange/import.hpp"

#include <filesystem>

#include "data/text/text.hpp"
#include "train/commands/command.hpp"
#include "train/exchange/adapter.hpp"
#include "train/exchange/architecture.hpp"
#include "train/loop/training.hpp"
#include "train/run/file.hpp"
#include "train/run/terminal.hpp"
#include "train/settings/keys.hpp"

namespace tapestry {
namespace {

class Import final : public Command {
 public:
  void declare(Arguments& arguments) override {
    arguments.place("FOLDER", folder_, "config.json, model.safetensors and tokenizer.json");
    arguments.option("--base", base_,
                     "of a folder that holds an adapter, as peft keeps one: the run it is for");
    arguments.overrides(overrides_);
    arguments.option("--out", out_, "the run's folder; by default runs/<name>");
  }

  int run() override {
    const ImportedModel model = base_.empty() ? import_published(folder_, overrides_) : adapted();
    const Run run(out_.empty() ? Run::default_folder(model.config[key::name], false) : out_);
    const RunLock lock(run, RunLock::Folder::make);
    open_run(run, model.config, false);  // refuses a folder that holds a run
    write_file_atomically(run.config(), {model.config.toml()});
    save_weights(run.best(), *model.task, model.config);
    const std::string shown = printable(run.folder());
    say("{}: {}, {} parameters; tapestry sample {} continues a text, tapestry train CONFIG --from "
        "{} trains it on\n",
        shown, model.architecture, count_parameters(model.task->model()), shown, shown);
    return 0;
  }

 private:
  // The base's name and its architecture stay.
  ImportedModel adapted() const {
    TrainedModel trained = load_trained_with(folder_, base_, overrides_, false);
    return {.architecture = to_string(architecture_of(trained.config)),
            .config = std::move(trained.config),
            .task = std::move(trained.task)};
  }

  std::string folder_, base_, out_;
  std::vector<std::string> overrides_;
};

const RegisterCommand<Import> import_command(
    "import", "make a run of a model that Hugging Face's library saved");

}  // namespace
}  // namespace tapestry
