#pragma once

#include <functional>
#include <optional>
#include <string_view>

#include "train/config/options.hpp"
#include "train/inspect/report_panels.hpp"
#include "train/plot/figure.hpp"
#include "train/task.hpp"

// What shows a trained model. Each task has some of the views; the source file of a view
// registers it for its task, with the options that it takes.
namespace tapestry {

// Takes a text piece by piece, each of whole characters.
using TextSink = std::function<void(std::string_view piece)>;

// Something that a model made: a text, or a figure, beside which the text is its numbers as CSV.
struct Sample {
  std::string text{};
  // Instead of the text: writes it while the model makes it. The task outlives it.
  std::function<void(const TextSink& write)> stream{};
  std::optional<Figure> figure{};
  std::string name = "samples";  // of the file, where none is given
};

// Where a model puts the examples of a split: z (N, Z) float32, and their classes.
struct LatentSplit {
  std::string name;
  Array z;
  std::vector<std::int32_t> classes;
};
struct LatentCodes {
  std::vector<LatentSplit> splits{};
  std::vector<std::string> class_names{};
};

// InputError where a model that diverged made these: there is nothing to see.
void expect_finite(const Array& outputs);

// Reads tokens of a batch's inputs as the text that they stand for, of any number of them.
struct TokenReader {
  std::function<std::string(std::span<const std::int32_t> tokens)> read{};
};

// What became of a message that was answered.
struct Answer {
  std::int64_t forgotten = 0;  // so many of the oldest exchanges, for want of room
  bool is_cut = false;         // for want of room, too
};

// A model to talk with, which remembers what was said. The task outlives it.
struct ChatSession {
  // Gives the model's answer on as it comes, while `continues` holds. InputError where the message
  // cannot be read: it is as if it had not been said.
  std::function<Answer(const std::string& message, const TextSink& sink,
                       const std::function<bool()>& continues)>
      answer{};
};

template <class Shown>
struct Inspector {
  std::vector<KeyInfo> options;
  std::function<Shown(Task& task, const Options& options)> show;
};

// The views of one kind, Sample, Talk, TokenReader, AttentionMaps, LatentCodes, Exhibits or
// onnx::Models, by the name of their task.
template <class Shown>
std::map<std::string, Inspector<Shown>>& inspectors();

// `show` is a function of the task's own class and of options.
template <class Shown, class OwnTask>
struct RegisterInspector {
  RegisterInspector(const std::string& task, const std::vector<KeyInfo>& options,
                    Shown (*show)(OwnTask&, const Options&)) {
    inspectors<Shown>()[task] = {options, [show](Task& any, const Options& given) {
                                   return show(dynamic_cast<OwnTask&>(any), given);
                                 }};
  }
};

using TypedOptions = std::vector<std::pair<std::string, std::string>>;  // a name and its text

// Shows the model of a config's task, with what was typed for the view's options.
// InputError where the task has no such view, or an option is not the view's.
template <class Shown>
Shown inspect(const Config& config, Task& task, const TypedOptions& typed);

}  // namespace tapestry
