#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <ranges>

#include "data/json.hpp"
#include "train/commands/command.hpp"
#include "train/commands/inspector_arguments.hpp"
#include "train/commands/output.hpp"
#include "train/inspect/report_panels.hpp"
#include "train/measure/machine.hpp"
#include "train/plot/render.hpp"
#include "train/run/run.hpp"
#include "train/run/terminal.hpp"
#include "train/trainer/compared_data.hpp"
#include "train/trainer/trainer.hpp"

namespace tapestry {
namespace {

// Returns the first number in a path: "1" of "decoder.1.cross_attention"; "" if there is none.
std::string number_of(const std::string& path) {
  const std::size_t begin = std::min(path.find_first_of("0123456789"), path.size());
  return path.substr(begin, path.find_first_not_of("0123456789", begin) - begin);
}

// Returns whether no query with several visible keys gives one of them more than 1.5 times the
// weight that all have in a uniform distribution: weights (1, queries, keys).
bool is_nearly_uniform(const Array& weights) {
  const auto all = weights.values<float>();
  bool has_choice = false;
  for (std::size_t first = 0, keys = weights.dim(2); first < all.size(); first += keys) {
    const auto row = all.subspan(first, keys);
    const auto visible = std::ranges::count_if(row, [](float weight) { return weight > 0; });
    has_choice |= visible > 1;
    if (visible > 1 && std::ranges::max(row) * static_cast<float>(visible) > 1.5f) return false;
  }
  return has_choice;
}

// Returns the map of a head: a row for each query, a column for each key, or the patches of an
// image. Colors are √w with `is_absolute`, else √(w / max).
HeatMap map_of(const AttentionMap& attention, std::int64_t head, bool is_absolute) {
  const Array weights = attention.weights.select({head});
  const float most = std::ranges::max(weights.values<float>());
  Array colors = attention_colors(weights).reshaped({weights.dim(1), weights.dim(2)});
  if (is_absolute)
    for (float& color : colors.mutable_values<float>()) color *= std::sqrt(std::max(0.0f, most));
  HeatMap map{.title = fmt::format("{}, head {}, max {:.2g}{}", attention.path, head, most,
                                   is_nearly_uniform(weights) ? ", nearly uniform" : ""),
              .values = colors,
              .row_labels = attention.queries,
              .column_labels = attention.keys};
  if (attention.image.empty()) map.row_axis = "Query", map.column_axis = "Key";
  return map;
}

// Returns {"path": …, "queries": […], "keys": […], "weights": …} with the weights by head, query
// and key, of all heads or of one.
JsonValue json_of(const AttentionMap& attention, std::int64_t only_head) {
  const float* weight = attention.weights.values<float>().data();
  const std::int64_t queries = attention.weights.dim(1), keys = attention.weights.dim(2);
  JsonValue heads = JsonValue::array();
  for (std::int64_t head = 0; head < attention.weights.dim(0); ++head) {
    JsonValue rows = JsonValue::array();
    for (std::int64_t query = 0; query < queries; ++query, weight += keys)
      rows.push_back(std::vector<float>(weight, weight + keys));
    if (only_head < 0 || head == only_head) heads.push_back(std::move(rows));
  }
  return {{"path", attention.path},
          {"queries", attention.queries},
          {"keys", attention.keys},
          {"weights", std::move(heads)}};
}

class ShowAttention final : public Command {
 public:
  void declare(Arguments& arguments) override {
    arguments.run(run_);
    declare_options(arguments, &TaskSpec::attention, typed_);
    arguments.option("--layer", layer_,
                     "layer to draw, such as 1 or decoder.1.cross_attention (default: all)");
    arguments.option("--head", head_, "head to draw (default: all)", {.low = 0, .high = 1024});
    arguments.flag("--absolute", is_absolute_,
                   "one scale for all maps, from 0 to a weight of 1 (default: each map's own, up "
                   "to its largest weight)");
    arguments.overrides(overrides_);
    arguments.option(
        "--out", out_,
        "file to write: NAME.png, NAME.svg, or NAME for both (default: RUN/attention)");
    arguments.flag("--json", json_, "print the weights as one JSON object, and write no figure");
  }

  int run() override {
    expect_input(!json_ || out_.empty(), "--out: is not used with --json; leave out one of them");
    const TrainedModel trained = load_trained(run_, overrides_, false);
    use_machine_as(trained.config);
    const AttentionMaps all = spec_of(trained.config).attention.show(*trained.task, typed_);
    HeatMaps figure{.scale = {"0", "¼", is_absolute_ ? "1" : "each map's max"}};
    if (std::ranges::any_of(all, &AttentionMap::describes_image)) figure.scale.clear();
    JsonValue maps = JsonValue::array();
    for (const AttentionMap& attention : all)
      if (is_wanted(attention)) {
        figure.rows.push_back(row_of(attention));
        if (json_) maps.push_back(json_of(attention, head_));
      }
    expect_input(!figure.rows.empty(),
                 "--layer {}: expected the number of a layer with attention, or one of {}", layer_,
                 fmt::join(all | std::views::transform(&AttentionMap::path), ", "));
    const ComparedData compared = compare_shown(trained, typed_, overrides_);
    if (json_) {
      JsonValue object{{"maps", std::move(maps)}};
      object.update(compared.json());
      print_json(object);
    } else {
      write_figure(out_.empty() ? in_run(run_, "attention") : out_, figure);
      say("{}", compared.text());
    }
    return 0;
  }

 private:
  bool is_wanted(const AttentionMap& attention) const {
    return layer_.empty() || layer_ == attention.path || layer_ == number_of(attention.path);
  }

  std::vector<HeatMap> row_of(const AttentionMap& attention) const {
    const std::int64_t H = attention.weights.dim(0);
    if (attention.describes_image()) {
      expect_input(head_ < 0, "--head: the maps of {} are means of its heads; leave out --head",
                   attention.path);
      return attention_of_words(attention.path, attention.image, attention.queries,
                                attention.weights);
    }
    expect_input(head_ < H, "--head {}: {} has heads 0 to {}; give one of these", head_,
                 attention.path, H - 1);
    std::vector<HeatMap> row;
    if (!attention.image.empty()) row.push_back({.title = "the image", .values = attention.image});
    for (std::int64_t head = 0; head < H; ++head)
      if (head_ < 0 || head == head_) row.push_back(map_of(attention, head, is_absolute_));
    return row;
  }

  std::string run_, layer_, out_;
  bool json_ = false, is_absolute_ = false;
  std::int64_t head_ = -1;  // -1: all heads
  TypedOptions typed_;
  std::vector<std::string> overrides_;
};

const RegisterCommand<ShowAttention> attention_command(
    "attention", "draw the attention of a trained transformer");

}  // namespace
}  // namespace tapestry
