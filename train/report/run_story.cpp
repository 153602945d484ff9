#include "train/report/run_story.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <filesystem>
#include <numeric>

#include "data/file.hpp"
#include "train/loop/trainer.hpp"
#include "train/run/line_reader.hpp"
#include "train/run/metrics_line.hpp"
#include "train/settings/keys.hpp"
#include "train/view.hpp"

namespace tapestry {
namespace {

namespace fs = std::filesystem;
using Json = nlohmann::ordered_json;

constexpr std::int64_t most_text = std::int64_t{1} << 20;  // bytes of a config or a profile
constexpr std::size_t most_points = 1000, most_curves = 300;

// Neighbours become one: the mean of what they measured, at the mean of their steps.
void halve(std::vector<PlotPoint>& points) {
  const auto middle = [](double a, double b) { return (a + b) / 2; };
  std::size_t kept = 0;
  for (std::size_t i = 0; i < points.size(); i += 2) {
    const PlotPoint one = points[i], other = points[std::min(i + 1, points.size() - 1)];
    points[kept++] = {middle(one.x, other.x), std::min(one.low, other.low), middle(one.y, other.y),
                      std::max(one.high, other.high)};
  }
  points.resize(kept);
}

// Adds what lines of metrics say to curves whose number of points is bounded while it is read.
class CurveReader {
 public:
  void read(const Json& line) {
    const auto step = line["step"].get<double>();
    const auto split = line["split"].get<std::string>();
    for (const auto& [name, value] : line.items())
      if (value.is_number() && name != "step" && name != "elapsed_s")
        add({split, name}, step, value.get<double>());
  }

  std::vector<Curve> take() {
    std::vector<Curve> curves;
    for (auto& [key, points] : points_)
      curves.push_back(
          {.metric = key.second, .split = key.first, .points = std::move(points.kept)});
    std::ranges::stable_sort(curves, {}, [](const Curve& curve) {
      return std::pair(curve.metric != "loss", curve.metric);
    });
    return curves;
  }

 private:
  struct Points {
    std::vector<PlotPoint> kept{};
    std::vector<PlotPoint> next{};  // which together will be one of them
    std::size_t together = 1;
  };

  void add(const std::pair<std::string, std::string>& key, double step, double value) {
    if (points_.size() >= most_curves && !points_.contains(key)) return;
    auto& [kept, next, together] = points_[key];
    next.push_back({step, value, value, value});
    if (next.size() < together) return;
    PlotPoint mean = next.front();
    for (std::size_t i = 1; i < next.size(); ++i) {
      mean.x += next[i].x;
      mean.y += next[i].y;
    }
    const auto count = static_cast<double>(next.size());
    const double y = mean.y / count;
    kept.push_back({mean.x / count, y, y, y});
    next.clear();
    if (kept.size() < 2 * most_points) return;
    halve(kept);
    for (PlotPoint& point : kept) point.low = point.high = point.y;
    together *= 2;
  }

  std::map<std::pair<std::string, std::string>, Points> points_;
};

void read_metrics(const Run& run, RunStory& story) {
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
    if ((*entry)["split"] == "val") story.validation = *entry;
    if ((*entry)["split"] == "test") story.test = *entry;
  }
  if (damaged > 0)
    story.notes.push_back(fmt::format("metrics.jsonl: {} lines are damaged", damaged));
  story.curves = curves.take();
}

// "[model]\nwidth = 128" -> {"model.width", "128"}, of a config as Config::toml() writes it.
std::map<std::string, std::string> settings_of(const std::string& toml) {
  std::map<std::string, std::string> settings;
  std::string section;
  std::string_view rest = toml;
  while (const auto line = next_line(rest)) {
    if (line->starts_with('[')) section = std::string(line->substr(1, line->find(']') - 1)) + ".";
    const std::size_t sign = line->find(" = ");
    if (sign == std::string_view::npos || line->starts_with('#')) continue;
    settings[section + std::string(line->substr(0, sign))] = line->substr(sign + 3);
  }
  return settings;
}

// Reads what may not be there, or be damaged, which is then a note.
template <class Read>
void if_possible(RunStory& story, const Read& read) try {
  read();
} catch (const std::exception& error) {
  story.notes.emplace_back(error.what());
}

void read_config(const Run& run, RunStory& story) {
  if (!fs::exists(run.config())) return;
  story.config_text = read_file(run.config(), most_text);
  story.settings = settings_of(resolved_config(story.config_text, run.config(), {}).toml());
}

void read_model(const Run& run, RunStory& story) {
  if (!fs::exists(run.best()) && !fs::exists(run.checkpoint())) return;
  const std::string path = trained_checkpoint(run.folder());
  const Checkpoint head = load_checkpoint_head(path);
  story.state = head.state;
  story.engines = head.engines;
  if (story.settings.empty())
    story.settings = settings_of(resolved_config(head.config, path, {}).toml());
  if (story.config_text.empty()) story.config_text = head.config;
  const SafetensorsReader file(path);
  for (const SafetensorsEntry& entry : file.entries())
    if (!entry.name.starts_with("optimizer."))
      story.parameters.push_back({entry.name, to_string(entry.shape), entry.shape.elements()});
}

// What an attention view shows, where the task has no examples of its own.
ReadExamples as_examples(const AttentionMaps& maps) {
  return {.examples = {{.title = "an example", .maps = maps}}};
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
  expect_input(fs::is_directory(folder), "{}: no such run; give its folder, as runs/sort", folder);
  expect_input(fs::exists(run.metrics()) || fs::exists(run.checkpoint()) || fs::exists(run.best()),
               "{}: not a run: it holds neither metrics.jsonl nor a checkpoint", folder);
  RunStory story{.name = folder, .is_trained = is_trained_into(run)};
  read_metrics(run, story);
  if_possible(story, [&] { read_config(run, story); });
  if_possible(story, [&] { read_model(run, story); });
  story.sessions = read_sessions(run);
  if (fs::exists(run.profile()))
    if_possible(story, [&] { story.profile = read_file(run.profile(), most_text); });
  return story;
}

ModelStory look_into(RunStory& story) {
  constexpr std::size_t most_sample = 4000;
  ModelStory shown;
  for (KeptSample& kept : read_samples(Run(story.name)))
    shown.samples.emplace_back(kept.step, Sample{.text = std::move(kept.text)});
  if (story.parameters.empty()) return shown;
  std::optional<TrainedModel> trained;
  if_possible(story, [&] {
    trained.emplace(load_trained(story.name, {}, true));
    use_machine_as(trained->config);
  });
  if (!trained) return shown;
  const auto& [config, task, state] = *trained;
  const std::string name = config[key::task];
  if (views<Exhibits>().contains(name))
    if_possible(story, [&] { shown.exhibits = look_at<Exhibits>(config, *task, {}); });
  if (views<AttentionMaps>().contains(name) && !shows_attention(shown.exhibits))
    if_possible(story, [&] {
      shown.exhibits.emplace_back(as_examples(look_at<AttentionMaps>(config, *task, {})));
    });
  if (views<Sample>().contains(name))
    if_possible(story, [&] {
      Sample sample = sample_now(config, *task, most_sample);
      if (shown.samples.empty() && !shown.exhibits.empty() && !is_made_up(sample)) return;
      std::erase_if(shown.samples, [&](const auto& kept) { return kept.first >= state.step; });
      shown.samples.emplace_back(state.step, std::move(sample));
    });
  return shown;
}

RunStory joined(const std::string& name, std::vector<RunStory> seeds) {
  RunStory story = seeds.front();
  story.name = name;
  for (Curve& curve : story.curves) {
    std::map<double, std::vector<double>> measured;
    for (const RunStory& seed : seeds)
      for (const Curve& other : seed.curves)
        if (other.metric == curve.metric && other.split == curve.split)
          for (const PlotPoint& point : other.points) measured[point.x].push_back(point.y);
    curve.seeds = std::ssize(seeds);
    curve.points.clear();
    for (const auto& [step, values] : measured) {
      if (std::ssize(values) != curve.seeds) continue;
      const auto [low, high] = std::ranges::minmax(values);
      const double mean = std::reduce(values.begin(), values.end()) / std::ssize(values);
      curve.points.push_back({step, low, mean, high});
    }
  }
  for (RunStory& seed : seeds)
    for (const std::string& note : seed.notes)
      if (!std::ranges::count(story.notes, note)) story.notes.push_back(note);
  return story;
}

void thin_out(Curve& curve, std::size_t most) {
  while (curve.points.size() > most) {
    const bool is_band = curve.seeds > 1;
    halve(curve.points);
    if (is_band) continue;
    for (PlotPoint& point : curve.points) point.low = point.high = point.y;
  }
}

}  // namespace tapestry
