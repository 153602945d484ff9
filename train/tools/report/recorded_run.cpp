#include "train/tools/report/recorded_run.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <limits>

#include "autograd/counted.hpp"
#include "data/input_file.hpp"
#include "train/config/keys.hpp"
#include "train/measure/machine.hpp"
#include "train/measure/quantities.hpp"
#include "train/task_spec.hpp"
#include "train/trainer/callbacks/callbacks.hpp"

namespace tapestry {
namespace {

constexpr std::int64_t most_read = std::int64_t{1} << 20;  // maximum size of a profile in bytes
constexpr std::size_t most_shown = 100'000;  // maximum shown bytes of a config or a profile

double loss_of(const MetricsLine& line) {
  const auto loss = line.values.find("loss");
  return loss == line.values.end() ? std::numeric_limits<double>::infinity() : loss->second;
}

void read_metrics(const Run& run, RecordedRun& recorded) {
  CurveReader curves;
  std::int64_t damaged = 0;
  for (LineReader reader(run.metrics()); reader.next();) {
    const auto entry = parse_metrics_line(reader.text());
    damaged += !entry;
    if (!entry) continue;
    const MetricsLine line = shown_metrics(*entry);
    curves.read(line);
    recorded.last_step = std::max(recorded.last_step, line.step);
    recorded.elapsed_s = std::max(recorded.elapsed_s, line.elapsed_s);
    if (line.split == "test") recorded.test = line;
    if (line.split != "val") continue;
    recorded.validation = line;
    if (!recorded.best_validation || loss_of(line) < loss_of(*recorded.best_validation))
      recorded.best_validation = line;
  }
  if (damaged > 0)
    recorded.notes.push_back(fmt::format("{}: damaged lines: {}", run.metrics(), damaged));
  if (curves.left_some_out())
    recorded.notes.push_back(
        fmt::format("{}: has more curves than a page can show", run.metrics()));
  recorded.curves = curves.take();
}

std::string as_shown(const std::string& text) {
  return text.size() > most_shown ? text.substr(0, most_shown) + "\n…" : text;
}

void read_config(const Run& run, RecordedRun& recorded) {
  if (!has_file(run.config())) return;
  const std::string text = config_text(run);
  recorded.config_text = as_shown(text);
  recorded.settings = config_as_recorded(ConfigDocument(run.config(), text)).settings();
}

// Returns a sentence on the model, without its period.
std::string description_of(const Checkpoint& head) {
  const Config config = config_of(head);
  const TaskSpec& spec = spec_of(config);
  std::string text = spec.describe ? spec.describe(config, head.metadata) : spec.help;
  text.front() = static_cast<char>(std::toupper(static_cast<unsigned char>(text.front())));
  const ConfigSettings used = config.settings();
  const std::string layers = value_in(used, "model.layers"), width = value_in(used, "model.width");
  if (!layers.empty() && !width.empty())
    text += fmt::format(": {} × {}", counted(std::stoll(layers), "layer"), width);
  return fmt::format("{}, {} parameters", text, count_text(count_parameters(head)));
}

void read_model(const Run& run, RecordedRun& recorded) {
  if (!has_file(run.best()) && !has_file(run.checkpoint())) return;
  const Checkpoint head = load_trained_metadata(run.folder());
  recorded.state = head.state;
  recorded.backends = head.backends;
  recorded.parameter_count = count_parameters(head);
  recorded.model = description_of(head);
  if (recorded.settings.empty()) recorded.settings = config_of(head).settings();
  if (recorded.config_text.empty()) recorded.config_text = as_shown(head.config);
  for (const SafetensorsEntry& entry : head.reader->entries())
    if (!entry.name.starts_with("optimizer.")) recorded.parameters.push_back(entry);
}

// Adds the attention maps of the task's inspector if the model has attention, but for those of
// described images, which panels show.
void add_attention(const Config& config, Task& task, ReportPanels& panels) try {
  AttentionMaps maps = spec_of(config).attention.show(task);
  if (std::ranges::any_of(maps, &AttentionMap::describes_image)) return;
  panels.emplace_back(ReadExamples{
      .caption = "Attention in one example between its items, or between the patches of a window, "
                 "which are labeled by their first steps (0: the last step of the window).",
      .examples = {{.title = "an example", .maps = std::move(maps)}}});
} catch (const InputError&) {
  return;
}

bool shows_attention(const ReportPanels& panels) {
  return std::ranges::any_of(panels, [](const ReportPanel& panel) {
    return std::holds_alternative<ReadExamples>(panel) ||
           std::holds_alternative<Translations>(panel);
  });
}

// Returns whether a sample is generated text or pictures; others are shown by panels.
bool is_made_up(const Sample& sample) {
  return sample.stream || (sample.figure && std::holds_alternative<PictureGrid>(*sample.figure));
}

}  // namespace

std::int64_t RecordedRun::steps() const {
  const std::string steps = value_in(settings, key::steps.name);
  return steps.empty() ? 0 : std::stoll(steps);
}

RecordedRun read_recorded_run(const std::string& folder) {
  const Run run(folder);
  expect_run(run, {run.metrics(), run.checkpoint(), run.best()});
  RecordedRun recorded{.name = folder, .folder = folder, .is_trained = is_trained_into(run)};
  read_metrics(run, recorded);
  if_possible(recorded, [&] { read_config(run, recorded); });
  if_possible(recorded, [&] { read_model(run, recorded); });
  recorded.sessions = read_sessions(run);
  recorded.baselines = read_baselines(run);
  if_possible(recorded, [&] {
    if (has_file(run.profile())) recorded.profile = as_shown(read_file(run.profile(), most_read));
  });
  return recorded;
}

ShownModel inspect_model(RecordedRun& recorded) {
  constexpr std::size_t most_sample = 4000;
  ShownModel shown;
  for (KeptSample& kept : read_samples(Run(recorded.folder)))
    shown.samples.emplace_back(kept.step, Sample{.text = std::move(kept.text)});
  if (recorded.parameters.empty()) return shown;
  std::optional<TrainedModel> trained;
  if_possible(recorded, [&] {
    trained.emplace(load_trained(recorded.folder, {}, true));
    use_machine_as(trained->config);
  });
  if (!trained) return shown;
  const auto& [config, task, state] = *trained;
  const TaskSpec& spec = spec_of(config);
  if (spec.panels) if_possible(recorded, [&] { shown.panels = spec.panels.show(*task); });
  if (spec.attention && !shows_attention(shown.panels)) add_attention(config, *task, shown.panels);
  if (spec.samples)
    if_possible(recorded, [&] {
      Sample sample = sample_now(config, *task, most_sample);
      if (shown.samples.empty() && !shown.panels.empty() && !is_made_up(sample)) return;
      std::erase_if(shown.samples, [&](const auto& kept) { return kept.first == state.step; });
      shown.samples.emplace_back(state.step, std::move(sample));
      std::ranges::stable_sort(shown.samples, {}, &std::pair<std::int64_t, Sample>::first);
    });
  if_possible(recorded, [&] {
    const Dataset* test = task->test_data();
    std::vector<const Dataset*> read = {test ? test : &task->validation_data()};
    const Dataset* sampled = spec.samples ? task->shown_data() : nullptr;
    if (sampled != read.front()) read.push_back(sampled);
    recorded.data = compare_data(*trained, read);
  });
  return shown;
}

RecordedRun joined(std::vector<RecordedRun> seeds) {
  RecordedRun recorded = seeds.front();
  std::vector<std::vector<Curve>> curves;
  recorded.notes.clear();
  recorded.elapsed_s = 0;
  for (RecordedRun& seed : seeds) {
    curves.push_back(std::move(seed.curves));
    recorded.notes.insert(recorded.notes.end(), seed.notes.begin(), seed.notes.end());
    recorded.elapsed_s += seed.elapsed_s;
  }
  recorded.curves = joined(std::move(curves));
  recorded.seeds = std::move(seeds);
  return recorded;
}

RecordedRun read_recorded_seeds(const std::string& folder) {
  const std::vector<std::string> seeds = seed_folders(folder);
  if (seeds.empty()) return read_recorded_run(folder);
  std::vector<RecordedRun> runs;
  for (const std::string& seed : seeds) runs.push_back(read_recorded_run(seed));
  return joined(std::move(runs));
}

}  // namespace tapestry
