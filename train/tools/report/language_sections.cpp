#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "autograd/ops/shaping.hpp"
#include "data/text/printable.hpp"
#include "train/plot/render.hpp"
#include "train/tools/report/html.hpp"
#include "train/tools/report/page.hpp"

namespace tapestry {
namespace {

using Json = JsonValue;

Json data_of(const AttentionMap& map) {
  return {{"path", map.path},
          {"weights", as_bytes(map.weights)},
          {"queries", as_labels(map.queries)},
          {"keys", as_labels(map.keys)}};
}

Json data_of(const ReadExample& example) {
  Json data = {{"title", printable(example.title)}, {"maps", Json::array()}};
  for (const AttentionMap& map : example.maps) data["maps"].push_back(data_of(map));
  for (const auto& [after, actual, predictions] : example.expectations) {
    Json list = Json::array();
    for (const auto& [token, probability] : predictions)
      list.push_back({printable(token), std::round(probability * 1e4) / 1e4});
    data["predictions"].push_back(list);
    data["predicted_after"].push_back(printable(after));
    data["actual"].push_back(printable(actual));
  }
  if (example.image.empty()) return data;
  data["image"] = as_bytes(example.image);
  data["patch_rows"] = example.patch_rows;
  data["patch_columns"] = example.patch_columns;
  data["extra_tokens"] = example.extra_tokens;
  return data;
}

std::string table_of(const std::vector<ReadExample::Expectation>& expectations) {
  std::vector<std::vector<std::string>> rows = {{"Token", "Next-token probabilities", "Target"}};
  for (const auto& [after, actual, predictions] : expectations) {
    std::string expected;
    for (const auto& [token, probability] : predictions)
      expected += fmt::format("{}“{}” {:.2f}", expected.empty() ? "" : ", ", token, probability);
    rows.push_back({"“" + after + "”", expected, actual});
  }
  return html_table(rows);
}

// Returns as many of the pictures as fit into a page.
PictureGrid fitting(const PictureGrid& grid) {
  constexpr std::int64_t most_pixels = 100'000;
  const std::int64_t pixels = grid.images.size() / grid.images.dim(0);
  const std::int64_t fitting =
      std::min(grid.images.dim(0), std::max<std::int64_t>(1, most_pixels / pixels));
  return {.images = slice(grid.images, 0, 0, fitting).value(),
          .columns = std::min(grid.columns, fitting)};
}

std::string fallback_of(const ReadExample& example) {
  std::string html = fmt::format("<p>{}</p>\n", html_text(example.title));
  if (!example.expectations.empty())
    html += html_details("Next-token probabilities", table_of(example.expectations));
  return html;
}

// Returns as many examples as fit into a page, but at least one, whose first layers are omitted if
// necessary.
std::vector<ReadExample> fitting(const std::vector<ReadExample>& examples) {
  constexpr std::int64_t most_weights = 1'500'000;
  std::vector<ReadExample> kept;
  std::int64_t weights = 0;
  for (const ReadExample& example : examples) {
    std::int64_t own = 0;
    for (const AttentionMap& map : example.maps) own += map.weights.size();
    if (weights + own > most_weights && !kept.empty()) break;
    kept.push_back(example);
    weights += own;
  }
  AttentionMaps& maps = kept.front().maps;
  for (; weights > most_weights && maps.size() > 1; maps.erase(maps.begin()))
    weights -= maps.front().weights.size();
  return kept;
}

Json data_of(const TranslatedPair& pair, const char* group) {
  return {{"group", group},
          {"source", as_labels(pair.source)},
          {"prediction", as_labels(pair.prediction)},
          {"source_text", printable(pair.source_text)},
          {"reference", printable(pair.reference)},
          {"prediction_text", printable(pair.prediction_text)},
          {"score", std::round(pair.score * 1000) / 1000},
          {"alignments", as_bytes(pair.alignments)}};
}

}  // namespace

ReportSection section_of(const ReadExamples& read) {
  const bool expects = !read.examples.front().expectations.empty();
  ReportSection section{
      .script = "attention",
      .title = "Attention",
      .caption = fmt::format("Examples that the model was not trained on. Point at a {} to see its "
                             "attention in each layer and head{}.",
                             read.examples.front().image.empty() ? "token" : "patch",
                             expects ? ", and its next-token probabilities" : "")};
  if (!read.caption.empty()) section.caption = read.caption;
  section.data["examples"] = Json::array();
  for (const ReadExample& example : fitting(read.examples)) {
    section.data["examples"].push_back(data_of(example));
    section.fallback += fallback_of(example);
  }
  return section;
}

ReportSection section_of(const Translations& pairs) {
  ReportSection section{
      .script = "translation",
      .title = "Translations",
      .caption = fmt::format(
          "The best and the worst of the first {} pairs of the {} split, and the attention of each "
          "token to the source.",
          pairs.of, pairs.split)};
  if ((pairs.worst.empty() ? pairs.best : pairs.worst).back().score == 1)
    section.caption += " All of them are right.";
  section.data = {{"score_name", pairs.score_name}, {"pairs", Json::array()}};
  std::vector<std::vector<std::string>> rows = {
      {"", "Source", "Prediction", "Reference", pairs.score_name}};
  for (const auto& [group, some] :
       {std::pair{"best", &pairs.best}, std::pair{"worst", &pairs.worst}})
    for (const TranslatedPair& pair : *some) {
      section.data["pairs"].push_back(data_of(pair, group));
      rows.push_back({group, pair.source_text, pair.prediction_text, pair.reference,
                      fmt::format("{:.2f}", pair.score)});
    }
  section.fallback = html_table(rows);
  return section;
}

ReportSection section_of(const SamplesByStep& samples, std::int64_t steps) {
  const auto pictures_of = [](const Sample& sample) {
    return sample.figure ? std::get_if<PictureGrid>(&*sample.figure) : nullptr;
  };
  ReportSection section{
      .script = "samples",
      .title = "Samples",
      .caption = samples.size() > 1                    ? "Samples during the training, by step."
                 : pictures_of(samples.front().second) ? "New images, decoded from random codes."
                                                       : "A generated text.",
      .data = {{"name", "samples"}, {"steps", steps}, {"samples", Json::array()}}};
  for (const auto& [number, sample] : samples) {
    if (const PictureGrid* pictures = pictures_of(sample)) {
      const PictureGrid shown = fitting(*pictures);
      section.data["samples"].push_back(
          {{"step", number}, {"png", "data:image/png;base64," + base64(to_png(shown))}});
      continue;
    }
    section.data["samples"].push_back({{"step", number}, {"text", printable_lines(sample.text)}});
    section.fallback =  // the last one
        fmt::format("<p>step {}</p><pre>{}</pre>\n", number, html_text(sample.text));
  }
  return section;
}

}  // namespace tapestry
