#include "train/tools/report/page.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <map>

#include "train/run/version.hpp"
#include "train/tools/report/html.hpp"

namespace tapestry {
namespace {

// Returns the scripts of each section, in order. Style sheets have the names of scripts.
const std::map<std::string, std::vector<std::string>>& files_of_parts() {
  static const std::map<std::string, std::vector<std::string>> files{
      {"curves", {"dygraph.min.js", "chart.js", "curves.js"}},
      {"chart", {"dygraph.min.js", "chart.js"}},
      {"forecast", {"dygraph.min.js", "chart.js", "forecast.js"}},
      {"latent", {"decoder.js", "latent.js"}},
      {"attention", {"tokens.js", "attention.js"}},
      {"translation", {"tokens.js", "translation.js"}},
      {"samples", {"samples.js"}},
      {"graph", {"dygraph.min.js", "graphs.js"}},
  };
  return files;
}

std::string bytes_of_hex(const std::string& digits) {
  std::string bytes;
  for (std::size_t i = 0; i < digits.size(); i += 2)
    bytes += static_cast<char>(std::stoi(digits.substr(i, 2), nullptr, 16));
  return bytes;
}

}  // namespace

void Page::add(const ReportSection& section) {
  body_ += "<section>\n";
  if (!section.title.empty()) body_ += fmt::format("<h3>{}</h3>\n", html_text(section.title));
  if (!section.caption.empty())
    body_ += fmt::format("<p class=\"faint\">{}</p>\n", html_text(section.caption));
  if (section.script.empty()) {
    body_ += section.fallback + "</section>\n";
    return;
  }
  const std::string id = fmt::format("data-{}", ++parts_);
  for (const std::string& file : files_of_parts().at(section.script))
    if (!std::ranges::count(scripts_, file)) scripts_.push_back(file);
  body_ += fmt::format(
      "<div class=\"exhibit\" data-show=\"{}\" data-of=\"{}\"><div class=\"fallback\">{}</div>"
      "</div>\n{}</section>\n",
      section.script, id, section.fallback, html_data(id, section.data));
}

std::string Page::html() const {
  std::vector<std::string> scripts{"base.js"};
  scripts.insert(scripts.end(), scripts_.begin(), scripts_.end());
  const std::map<std::string, PageAsset>& assets = page_assets();
  std::string hashes, elements, styles = assets.at("page.css").text;
  for (const std::string& name : scripts) {
    const PageAsset& script = assets.at(name);
    hashes += fmt::format(" 'sha256-{}'", base64(bytes_of_hex(script.sha256)));
    elements += fmt::format("<script>{}</script>\n", script.text);
    if (const auto style = assets.find(name.substr(0, name.rfind('.')) + ".css");
        style != assets.end())
      styles += style->second.text;
  }
  return fmt::format(
      R"html(<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta http-equiv="Content-Security-Policy" content="default-src 'none'; script-src{}; style-src 'unsafe-inline'; img-src data:; base-uri 'none'; form-action 'none'">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="color-scheme" content="light dark">
<title>{}</title>
<style>{}</style>
{}</head>
<body>
<noscript><p>The curves and pictures of this page need JavaScript.</p></noscript>
{}<footer class="faint"><h2>About this page</h2>
<p>Written by Tapestry {}. This page is one file, loads nothing and sends nothing.</p>
{}</footer>
</body>
</html>
)html",
      hashes, html_text(title_), styles, elements, body_, html_text(version()),
      html_details("License of dygraphs, which draws the charts",
                   fmt::format("<pre>{}</pre>\n", html_text(assets.at("copyright").text))));
}

}  // namespace tapestry
