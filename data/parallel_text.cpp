#include "data/parallel_text.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <set>
#include <string_view>

#include "autograd/check.hpp"
#include "data/file.hpp"
#include "data/unicode.hpp"

namespace tapestry {
namespace {

namespace fs = std::filesystem;

constexpr std::int64_t max_text_bytes = std::int64_t{1} << 30;

bool is_blank(std::string_view line) {
  for (std::size_t offset = 0; offset < line.size();) {
    const CodePoint point = code_point_at(line, offset);
    if (kind_of(point.value) != CharacterKind::space) return false;
    offset += static_cast<std::size_t>(point.bytes);
  }
  return true;
}

std::vector<std::string> read_lines(const std::string& path) {
  constexpr std::string_view byte_order_mark = "\xEF\xBB\xBF";
  const std::string content = read_file(path, max_text_bytes);
  require_utf8(content, path);
  std::string_view rest = content;
  if (rest.starts_with(byte_order_mark)) rest.remove_prefix(byte_order_mark.size());
  std::vector<std::string> lines;
  while (!rest.empty()) {
    const std::size_t end = std::min(rest.find('\n'), rest.size());
    std::string_view line = rest.substr(0, end);
    if (line.ends_with('\r')) line.remove_suffix(1);
    lines.emplace_back(line);
    rest.remove_prefix(std::min(end + 1, rest.size()));
  }
  expect_input(!lines.empty(), "{}: line 1: the file is empty; give one sentence a line", path);
  return lines;
}

void require_sentences(const std::vector<std::string>& lines, const std::string& path,
                       const std::string& partner) {
  const auto blank = std::ranges::find_if(lines, is_blank);
  expect_input(
      blank == lines.end(),
      "{}: line {}: expected a sentence, found an empty line; remove that line here and in "
      "{}",
      path, blank - lines.begin() + 1, partner);
}

std::vector<std::string> file_names(const std::string& folder) {
  std::vector<std::string> names;
  std::error_code error;
  for (fs::directory_iterator entry(folder, error), end; !error && entry != end;
       entry.increment(error))
    names.push_back(entry->path().filename().string());
  expect_input(!error, "{}: cannot be listed: {}; check the path", folder, error.message());
  std::ranges::sort(names);
  return names;
}

template <class Names>
std::string list_briefly(const Names& names) {
  constexpr std::size_t most = 12;
  std::string list = names.empty() ? "nothing" : "";
  std::size_t listed = 0;
  for (const std::string& name : names) {
    if (listed++ == most) return list + ", ...";
    list += (listed == 1 ? "" : ", ") + name;
  }
  return list;
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
  expect_input(!stems.empty(),
               "{}: expected a file {}*.{} or {}*.{}.gz, found {}; check the folder, the languages "
               "and the split",
               folder, files.split, language, files.split, language, list_briefly(names));
  expect_input(stems.size() == 1,
               "{}: expected one file {}*.{}, found several: {}; give more of the split's name",
               folder, files.split, language, list_briefly(stems));
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
                    .sources = read_lines(source_path),
                    .targets = read_lines(target_path)};
  const std::size_t sources = text.sources.size(), targets = text.targets.size();
  expect_input(sources == targets,
               "{}: line {}: has no partner: {} has {} lines, {} has {}; give files whose lines "
               "translate each other",
               sources > targets ? source_path : target_path, std::min(sources, targets) + 1,
               source_path, sources, target_path, targets);
  require_sentences(text.sources, source_path, target_path);
  require_sentences(text.targets, target_path, source_path);
  return text;
}

ParallelText load_parallel_text(const std::string& folder, const ParallelFiles& files) {
  const std::vector<std::string> names = file_names(folder);
  const std::string stem = stem_for(folder, names, files);
  return load_parallel_text(path_of(folder, names, stem, files.source),
                            path_of(folder, names, stem, files.target));
}

}  // namespace tapestry
