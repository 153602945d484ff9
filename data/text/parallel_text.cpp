#include "data/text/parallel_text.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <set>
#include <string_view>

#include "autograd/check.hpp"
#include "data/input_file.hpp"
#include "data/option_error.hpp"
#include "data/text/unicode.hpp"

namespace tapestry {
namespace {

namespace fs = std::filesystem;

bool is_blank(std::string_view line) {
  for (std::size_t offset = 0; offset < line.size();) {
    const CodePoint point = code_point_at(line, offset);
    if (kind_of(point.value) != CharacterKind::space) return false;
    offset += point.bytes;
  }
  return true;
}

std::vector<std::string> read_sentences(const std::string& path, const std::string& partner) {
  const std::string text = read_text(path);
  std::vector<std::string> sentences;
  sentences.reserve(std::ranges::count(text, '\n') + 1);
  std::string_view rest = text;
  while (const auto line = next_line(rest)) {
    expect_input(!is_blank(*line),
                 "{}: line {}: expected a sentence, found an empty line; remove that line here and "
                 "in {}",
                 path, sentences.size() + 1, partner);
    sentences.emplace_back(*line);
  }
  expect_input(!sentences.empty(), "{}: line 1: the file is empty; give one sentence a line", path);
  return sentences;
}

// The files' names up to the language, such as "test_2016_flickr".
std::string stem_for(const std::string& folder, const std::vector<std::string>& names,
                     const ParallelFiles& files) {
  const std::string& language = files.source;
  std::set<std::string> stems;
  for (std::string name : names) {
    if (name.ends_with(".gz")) name.resize(name.size() - 3);
    if (name.starts_with(files.split) && name.ends_with("." + language))
      stems.insert(name.substr(0, name.size() - language.size() - 1));
  }
  if (stems.contains(files.split)) return files.split;
  expect_option(
      !stems.empty(), "split",
      "{}: expected a file {}*.{} or {}*.{}.gz, found {}; check the folder, the languages "
      "and the split",
      folder, files.split, language, files.split, language, list_briefly(names));
  expect_option(stems.size() == 1, "split",
                "{}: expected one file {}*.{}, found several: {}; give more of the split's name",
                folder, files.split, language, list_briefly({stems.begin(), stems.end()}));
  return *stems.begin();
}

// The plain file, or the gzip file where there is no plain one.
std::string path_of(const std::string& folder, const std::vector<std::string>& names,
                    const std::string& stem, const std::string& language) {
  const std::string name = fmt::format("{}.{}", stem, language);
  const bool plain = std::ranges::binary_search(names, name);
  expect_input(plain || std::ranges::binary_search(names, name + ".gz"),
               "{}: expected {} or {}.gz, found {}; put the translations beside each other, with "
               "names that differ in the language alone",
               folder, name, name, list_briefly(names));
  return (fs::path(folder) / (plain ? name : name + ".gz")).string();
}

}  // namespace

ParallelText load_parallel_text(const std::string& source_path, const std::string& target_path) {
  ParallelText text{.source_path = source_path,
                    .target_path = target_path,
                    .sources = read_sentences(source_path, target_path),
                    .targets = read_sentences(target_path, source_path)};
  const std::size_t sources = text.sources.size(), targets = text.targets.size();
  expect_input(sources == targets,
               "{}: line {}: has no partner: {} has {} lines, {} has {}; give files whose lines "
               "translate each other",
               sources > targets ? source_path : target_path, std::min(sources, targets) + 1,
               source_path, sources, target_path, targets);
  return text;
}

ParallelText load_parallel_text(const std::string& folder, const ParallelFiles& files) {
  const std::vector<std::string> names = file_names(folder);
  const std::string stem = stem_for(folder, names, files);
  return load_parallel_text(path_of(folder, names, stem, files.source),
                            path_of(folder, names, stem, files.target));
}

}  // namespace tapestry
