#include "train/config/keys.hpp"
#include "train/inspect/report_panels.hpp"
#include "train/inspect/values.hpp"
#include "train/plot/render.hpp"
#include "train/run/event_file.hpp"
#include "train/task_spec.hpp"
#include "train/trainer/callbacks/callbacks.hpp"

namespace tapestry {
namespace {

constexpr std::size_t most_text = 10'000;  // maximum size of a sample in bytes

// Returns the heads (H, T, S) of an attention as pictures beside each other, in the colors of
// `tapestry attention`; the largest weight of each head is black.
PictureGrid heads_as_pictures(const Array& weights) {
  Array images = attention_colors(weights);
  for (float& value : images.mutable_values<float>()) value = 1 - value;
  return {.images = images, .columns = weights.dim(0)};
}

// Calls `show`, whose exceptions do not end the training, except errors of the disk: a model may
// have nothing to show, and a model that diverges may fail in any way.
template <class Show>
void if_possible(const Show& show) {
  try {
    show();
  } catch (const FileError&) {  // an error of the disk, not of the model
    throw;
  } catch (const std::exception&) {
    return;
  }
}

// A callback that writes every metric as "loss/train" and so on, the config, and at evaluations the
// output of inspectors (samples, attention) and histograms of weights and gradients, within the
// time of InspectionBudget.
class TensorBoard final : public Callback {
 public:
  TensorBoard(RunLock& lock, Task& task, const Config& config)
      : lock_(lock), task_(task), config_(config) {}

  void on_begin(std::int64_t step, bool) override {
    file_.emplace(lock_, step + 1);
    file_->add_text(step, "config", config_.toml());
  }
  void on_step_end(const ComputedStep& computed, bool moved) override {
    const bool is_shown = moved && is_evaluated(computed.inputs.step + 1, config_);
    gradients_ =
        is_shown && computed.has_all_gradients ? std::optional(computed.gradients) : std::nullopt;
  }
  void on_metrics(const MetricsLine& line) override {
    for (const auto& [name, value] : line.values)
      file_->add_scalar(line.step, name + "/" + line.split, value);
  }
  void before_evaluation(std::int64_t step) override {
    if (budget_.allows_one())
      budget_.spend_on([&] {
        show_weights(step);
        if_possible([&] { show_samples(step); });
        if_possible([&] { show_attention(step); });
      });
    gradients_.reset();
  }
  void on_checkpoint() override { file_->sync(); }

 private:
  void show_weights(std::int64_t step) {
    for (const Parameter* parameter : task_.model().parameters()) {
      file_->add_histogram(step, "weights/" + parameter->name, parameter->value());
      const Array* gradient = gradients_ ? gradients_->find(*parameter) : nullptr;
      if (gradient) file_->add_histogram(step, "gradients/" + parameter->name, *gradient);
    }
  }
  void show_samples(std::int64_t step) {
    if (!spec_of(config_).samples) return;
    const Sample sample = sample_now(config_, task_, most_text);
    if (const auto* grid = sample.figure ? std::get_if<PictureGrid>(&*sample.figure) : nullptr)
      file_->add_png(step, sample.name, to_png(*grid));
    else if (!sample.text.empty())
      file_->add_text(step, sample.name, sample.text);
  }

  void show_attention(std::int64_t step) {
    const Inspector<AttentionMaps>& attention = spec_of(config_).attention;
    if (!attention) return;
    for (const AttentionMap& map : attention.show(task_))
      file_->add_png(step, "attention/" + map.path, to_png(heads_as_pictures(map.weights)));
  }

  RunLock& lock_;
  Task& task_;
  const Config& config_;
  std::optional<EventFile> file_;
  std::optional<Gradients> gradients_;  // gradients of the step that is evaluated next
  InspectionBudget budget_;
};

}  // namespace

std::unique_ptr<Callback> record_for_tensorboard(RunLock& lock, Task& task, const Config& config) {
  return std::make_unique<TensorBoard>(lock, task, config);
}

}  // namespace tapestry
