#include "train/tools/report/recorded_run.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <limits>
#include <numeric>

#include "data/file.hpp"
#include "train/config/keys.hpp"
#include "train/inspect/inspector.hpp"
#include "train/measure/machine.hpp"
#include "train/run/line_reader.hpp"
#include "train/run/metrics_line.hpp"
#include "train/trainer/trainer.hpp"

namespace tapestry {
namespace {

namespace fs = std::filesystem;
using Json = JsonValue;

constexpr std::int64_t most_read = std::int64_t{1} << 20;  // bytes of a config or a profile,
constexpr std::size_t most_shown = 100'000;                // and of those that are shown

bool is_there(const std::string& path) {
  std::error_code unseen;
  return fs::exists(path, unseen);
}

double loss_of(const Json& line) {
  const bool known = line.contains("loss") && line["loss"].is_number();
  return known ? line["loss"].get<double>() : std::numeric_limits<double>::infinity();
}

void read_metrics(const Run& run, RunStory& story) {
  if (!is_there(run.metrics())) return;
  require_file(run.metrics());
  CurveReader curves;
  std::int64_t damaged = 0;
  for (LineReader line(run.metrics()); line.next();) {
    const auto entry = parse_metrics_line(line.text());
    if (!entry) {
      ++damaged;
      continue;
    }
    curves.read(*entry);
    story.last_step = std::max(story.last_step, (*entry)["step"].get<std::int64_t>());
    story.elapsed_s = std::max(story.elapsed_s, (*entry)["elapsed_s"].get<double>());
    if ((*entry)["split"] == "val") {
      story.validation = *entry;
      if (story.best_validation.is_null() || loss_of(*entry) < loss_of(story.best_validation))
        story.best_validation = *entry;
    }
    if ((*entry)["split"] == "test") story.test = *entry;
  }
  if (damaged > 0)
    story.notes.push_back(fmt::format("{}: damaged lines: {}", run.metrics(), damaged));
  if (curves.left_some_out())
    story.notes.push_back(fmt::format("{}: has more curves than a page holds", run.metrics()));
  story.curves = curves.take();
}

std::string as_shown(const std::string& text) {
  return text.size() > most_shown ? text.substr(0, most_shown) + "\n…" : text;
}

void read_config(const Run& run, RunStory& story) {
  if (!is_there(run.config())) return;
  const std::string text = read_file(run.config(), most_read);
  story.config_text = as_shown(text);
  story.settings = resolved_config(text, run.config(), {}).settings();
}

void read_model(const Run& run, RunStory& story) {
  if (!is_there(run.best()) && !is_there(run.checkpoint())) return;
  const Checkpoint head = trained_head(run.folder());
  story.state = head.state;
  story.engines = head.engines;
  if (story.settings.empty())
    story.settings = resolved_config(head.config, head.path, {}).settings();
  if (story.config_text.empty()) story.config_text = as_shown(head.config);
  for (const SafetensorsEntry& entry : head.reader->entries())
    if (!entry.name.starts_with("optimizer."))
      story.parameters.push_back({entry.name, to_string(entry.shape), entry.shape.elements()});
}

// What an attention view shows, where the task has no examples of its own; a model may have none.
void add_attention(const Config& config, Task& task, Exhibits& exhibits) try {
  exhibits.emplace_back(ReadExamples{
      .caption =
          "What it looks at in one example, by the names of what it read: items, or the steps "
          "of a window at which its patches begin, 0 being the last that it saw.",
      .examples = {{.title = "an example", .maps = look_at<AttentionMaps>(config, task, {})}}});
} catch (const InputError&) {
  return;
}

bool shows_attention(const Exhibits& exhibits) {
  return std::ranges::any_of(exhibits, [](const Exhibit& exhibit) {
    return std::holds_alternative<ReadExamples>(exhibit) ||
           std::holds_alternative<Translations>(exhibit);
  });
}

// Texts that it writes, and pictures: what else there is to show has a part of its own.
bool is_made_up(const Sample& sample) {
  return sample.stream || (sample.figure && std::holds_alternative<PictureGrid>(*sample.figure));
}

}  // namespace

std::int64_t RunStory::count_parameters() const {
  return std::transform_reduce(parameters.begin(), parameters.end(), std::int64_t{0}, std::plus(),
                               [](const Tensor& tensor) { return tensor.size; });
}

std::int64_t RunStory::steps() const {
  const auto found = settings.find(key::steps.name);
  return found == settings.end() ? 0 : std::stoll(found->second);
}

RunStory read_story(const std::string& folder) {
  const Run run(folder);
  std::error_code unseen;
  expect_input(fs::is_directory(folder, unseen), "{}: no run; give the folder of one, as runs/sort",
               folder);
  expect_input(is_there(run.metrics()) || is_there(run.checkpoint()) || is_there(run.best()),
               "{}: not a run: it holds neither metrics.jsonl nor a checkpoint", folder);
  RunStory story{.name = folder, .folder = folder, .is_trained = is_trained_into(run)};
  read_metrics(run, story);
  if_possible(story, [&] { read_config(run, story); });
  if_possible(story, [&] { read_model(run, story); });
  story.sessions = read_sessions(run);
  if (is_there(run.profile()))
    if_possible(story, [&] { story.profile = as_shown(read_file(run.profile(), most_read)); });
  return story;
}

ModelStory look_into(RunStory& story) {
  constexpr std::size_t most_sample = 4000;
  ModelStory shown;
  for (KeptSample& kept : read_samples(Run(story.folder)))
    shown.samples.emplace_back(kept.step, Sample{.text = std::move(kept.text)});
  if (story.parameters.empty()) return shown;
  std::optional<TrainedModel> trained;
  if_possible(story, [&] {
    trained.emplace(load_trained(story.folder, {}, true));
    use_machine_as(trained->config);
  });
  if (!trained) return shown;
  const auto& [config, task, state] = *trained;
  const std::string name = config[key::task];
  if (views<Exhibits>().contains(name))
    if_possible(story, [&] { shown.exhibits = look_at<Exhibits>(config, *task, {}); });
  if (views<AttentionMaps>().contains(name) && !shows_attention(shown.exhibits))
    add_attention(config, *task, shown.exhibits);
  if (views<Sample>().contains(name))
    if_possible(story, [&] {
      Sample sample = sample_now(config, *task, most_sample);
      if (shown.samples.empty() && !shown.exhibits.empty() && !is_made_up(sample)) return;
      std::erase_if(shown.samples, [&](const auto& kept) { return kept.first == state.step; });
      shown.samples.emplace_back(state.step, std::move(sample));
      std::ranges::stable_sort(shown.samples, {}, &std::pair<std::int64_t, Sample>::first);
    });
  return shown;
}

RunStory joined(std::vector<RunStory> seeds) {
  RunStory story = seeds.front();
  std::vector<std::vector<Curve>> curves;
  story.notes.clear();
  story.elapsed_s = 0;
  for (RunStory& seed : seeds) {
    curves.push_back(std::move(seed.curves));
    story.notes.insert(story.notes.end(), seed.notes.begin(), seed.notes.end());
    story.elapsed_s += seed.elapsed_s;
  }
  story.curves = joined(std::move(curves));
  story.seeds = std::move(seeds);
  return story;
}

}  // namespace tapestry
