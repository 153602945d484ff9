#include "train/config/config_document.hpp"

#include <fmt/ranges.h>

#include <algorithm>
#include <filesystem>

#include "data/input_file.hpp"
#include "train/config/config.hpp"

namespace tapestry {
namespace {
namespace fs = std::filesystem;

constexpr std::int64_t max_config_bytes = 1 << 20;
constexpr std::ptrdiff_t most_bases = 16;

bool is_file(const std::string& path) {
  std::error_code ignored;
  return fs::is_regular_file(path, ignored);
}

// Returns an iterator to the shipped config that has this name, or had it in an earlier version;
// end() if there is none.
auto find_shipped(const std::string& name) {
  return shipped_configs().find(name == "memory-forgetting-learnt" ? "memory-forgetting-learned"
                                                                   : name);
}

std::vector<std::string> shipped_names() {
  std::vector<std::string> names;
  for (const auto& [name, text] : shipped_configs()) names.push_back(name);
  return names;
}

// Returns the names of the bases that a file in this folder can name.
std::vector<std::string> candidates(const fs::path& folder) {
  std::vector<std::string> names = shipped_names();
  std::error_code ignored;
  for (const auto& entry : fs::directory_iterator(folder.empty() ? "." : folder, ignored))
    if (entry.path().extension() == ".toml" && is_file(entry.path().string()))
      names.push_back(entry.path().filename().string());
  return names;
}

bool same(const ConfigDocument& a, const ConfigDocument& b) {
  std::error_code ignored;
  if (a.is_file && b.is_file) return fs::equivalent(a.source, b.source, ignored);
  return a.is_file == b.is_file && a.source == b.source;
}

ConfigDocument read_base(const TomlSetting& base, const ConfigDocument& from) {
  const auto* name = base.value ? std::get_if<std::string>(&*base.value) : nullptr;
  expect_input(name != nullptr, "{}: base = {}: expected a string in quotes", base.origin,
               base.shown());
  expect_input(!name->empty(), "{}: base = \"\": expected a shipped config's name{}", base.origin,
               from.is_file ? ", or a path relative to this file" : "");
  const fs::path folder = fs::path(from.source).parent_path();
  const bool is_printable = std::ranges::none_of(*name, [](unsigned char c) { return c < ' '; });
  const std::string path = (folder / *name).lexically_normal().string();
  if (from.is_file && is_printable && is_file(path))
    return {path, read_file(path, max_config_bytes), true};
  const auto shipped = find_shipped(*name);
  if (shipped != shipped_configs().end()) return {shipped->first, shipped->second};
  throw InputError(fmt::format(
      "{}: base = {}: no {}shipped config of that name{}; tapestry list prints the shipped ones",
      base.origin, base.shown(), from.is_file ? "such file and no " : "",
      did_you_mean(*name, from.is_file ? candidates(folder) : shipped_names(), "\"")));
}

}  // namespace

bool is_shipped(const std::string& name) { return find_shipped(name) != shipped_configs().end(); }

ConfigDocument read_config(const std::string& path_or_name) {
  if (is_file(path_or_name)) return {path_or_name, read_file(path_or_name, max_config_bytes), true};
  const auto shipped = find_shipped(path_or_name);
  if (shipped != shipped_configs().end()) return {shipped->first, shipped->second};
  std::error_code ignored;
  const std::string within = (fs::path(path_or_name) / "config.toml").string();
  const bool is_search = fs::exists(fs::path(path_or_name) / "ledger.jsonl", ignored);
  expect_input(!fs::exists(within, ignored), "{}: is the folder of a {}; give {}", path_or_name,
               is_search ? "search" : "run", within);
  expect_input(!fs::exists(path_or_name, ignored),
               "{}: is a folder, a pipe or a device; give a TOML file, such as `tapestry init` "
               "writes for data, or a shipped config's name",
               path_or_name);
  throw InputError(
      fmt::format("{}: no such file and no shipped config of that name{}; tapestry list prints the "
                  "shipped ones",
                  path_or_name, did_you_mean(path_or_name, shipped_names())));
}

std::vector<ConfigDocument> with_bases(ConfigDocument document) {
  std::vector<ConfigDocument> documents{std::move(document)};
  while (const TomlSetting* base = documents.back().find(base_key)) {
    expect_input(std::ssize(documents) <= most_bases,
                 "{}: base = {}: expected at most {} nested bases", base->origin, base->shown(),
                 most_bases);
    ConfigDocument next = read_base(*base, documents.back());
    const auto met = std::ranges::find_if(
        documents, [&](const ConfigDocument& earlier) { return same(earlier, next); });
    std::string circle;
    for (auto at = met; at != documents.end(); ++at) circle += at->source + " -> ";
    expect_input(circle.empty(), "{}: base = {}: the bases form a circle: {}{}; remove one of them",
                 base->origin, base->shown(), circle, next.source);
    documents.push_back(std::move(next));
  }
  return documents;
}

}  // namespace tapestry
