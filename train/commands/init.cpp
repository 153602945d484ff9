#include "train/tools/init/init.hpp"

#include "data/json.hpp"
#include "data/text/printable.hpp"
#include "train/commands/command.hpp"
#include "train/run/atomic_file.hpp"
#include "train/run/terminal.hpp"

namespace tapestry {
namespace {

class Init final : public Command {
 public:
  void declare(Arguments& arguments) override {
    arguments.place("DATA", data_,
                    "file or folder with text, names, conversations, labeled texts, a table, "
                    "time series, sentence pairs, images, images with captions or a graph");
    arguments.option("--out", out_, "config to write (default: mine.toml)");
    arguments.option("--minutes", minutes_, "time of the training in minutes (default: 10)",
                     {.low = 1, .high = 100000});
    std::string kinds = "text, names, conversations";  // of the task language-model
    for (const auto& [task, spec] : task_registry())
      if (spec.recognize) kinds += ", " + task;
    arguments.option("--task", task_, "kind of data: " + kinds + " (default: found from the data)");
    arguments.option("--label", label_, "column of the labels (default: found from the data)");
    arguments.overrides(overrides_);
    arguments.option("--memory", megabytes_,
                     "memory of the machine in MB (default: 0, that of this machine)",
                     {.low = 0, .high = std::int64_t{1} << 40});
    arguments.flag("--json", json_, "print one JSON object");
  }

  int run() override {
    const FoundData found = recognize_data({data_, overrides_, label_}, task_);
    expect_new_config(out_);
    if (!json_) say("{}", show(found));
    const NewConfig made = make_config(
        found,
        {.out = out_, .minutes = static_cast<double>(minutes_), .machine = megabytes_ * 1000000});
    expect_new_config(out_);  // measuring took seconds
    write_file_atomically(out_, {made.toml});
    if (json_)
      print_json(json_of(found, made, out_));
    else
      say("{}: based on {}\n{}train it with: {} train {}\n", printable(out_), found.data.base,
          show(made), own_program(), shell_word(out_));
    return 0;
  }

 private:
  std::string data_, out_ = "mine.toml", task_, label_;
  std::vector<std::string> overrides_;
  std::int64_t minutes_ = 10, megabytes_ = 0;
  bool json_ = false;
};

const RegisterCommand<Init> init_command(
    "init", "look at data and write a config that trains on them in a given time");

}  // namespace
}  // namespace tapestry
