#include "train/trainer/callbacks/tensorboard.hpp"

#include <algorithm>

#include "train/config/keys.hpp"
#include "train/plot/png.hpp"
#include "train/task.hpp"

namespace tapestry {
namespace {

constexpr std::size_t most_text = 10'000;  // bytes of a sample

// An attention's heads (H, T, S) as pictures beside each other, each as dark as its largest weight.
PictureGrid heads_as_pictures(const Array& weights) {
  Array images = weights.clone();
  const std::int64_t H = images.dim(0), size = images.size() / H;
  const auto values = images.mutable_values<float>();
  for (std::int64_t h = 0; h < H; ++h) {
    const auto head = values.subspan(h * size, size);
    const float darkest = std::max(std::ranges::max(head), 1e-12f);
    for (float& value : head) value = 1 - value / darkest;
  }
  return {.images = images, .columns = H};
}

// A model says by an exception that it has nothing to show; one that diverges may fail in any way.
// Neither ends a training.
template <class Show>
void if_possible(const Show& show) {
  try {
    show();
  } catch (const FileError&) {  // of the disk, not of the model
    throw;
  } catch (const std::exception&) {
    return;
  }
}

}  // namespace

void TensorBoardRecorder::resume_at(std::int64_t step, bool) {
  file_.emplace(lock_, step + 1);
  file_->add_text(step, "config", config_.toml());
}

void TensorBoardRecorder::write(const MetricsLine& line) {
  for (const auto& [name, value] : line.values)
    file_->add_scalar(line.step, name + "/" + line.split, value);
}

void TensorBoardRecorder::look(std::int64_t step, const Gradients* gradients) {
  if (!budget_.allows_one()) return;
  budget_.spend_on([&] {
    show_weights(step, gradients);
    if_possible([&] { show_samples(step); });
    if_possible([&] { show_attention(step); });
  });
}

void TensorBoardRecorder::show_weights(std::int64_t step, const Gradients* gradients) {
  const auto show = [&](const std::string& tag, const Array& array) {
    dispatch(array.dtype(), [&]<class T>() {
      file_->add_histogram(step, tag, std::span<const T>(array.values<T>()));
    });
  };
  for (const Parameter* parameter : task_.model().parameters()) {
    show("weights/" + parameter->name, parameter->value());
    const Array* gradient = gradients ? gradients->find(*parameter) : nullptr;
    if (gradient) show("gradients/" + parameter->name, *gradient);
  }
}

void TensorBoardRecorder::show_samples(std::int64_t step) {
  if (!spec_of(config_).samples) return;
  const Sample sample = sample_now(config_, task_, most_text);
  if (const auto* grid = sample.figure ? std::get_if<PictureGrid>(&*sample.figure) : nullptr)
    file_->add_png(step, sample.name, to_png(*grid));
  else if (!sample.text.empty())
    file_->add_text(step, sample.name, sample.text);
}

void TensorBoardRecorder::show_attention(std::int64_t step) {
  const Inspector<AttentionMaps>& attention = spec_of(config_).attention;
  if (!attention) return;
  for (const AttentionMap& map : attention.show(task_))
    file_->add_png(step, "attention/" + map.path, to_png(heads_as_pictures(map.weights)));
}

}  // namespace tapestry
