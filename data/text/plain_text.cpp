#include <glob.h>

#include <algorithm>
#include <filesystem>
#include <iterator>
#include <memory>

#include "autograd/check.hpp"
#include "data/input_file.hpp"
#include "data/text/text.hpp"

namespace tapestry {
namespace {

namespace fs = std::filesystem;

std::vector<std::string> texts_in(const std::string& folder) {
  std::vector<std::string> texts;
  const std::vector<std::string> names = file_names(folder);
  for (const std::string& name : names)
    if (name.ends_with(".txt")) texts.push_back((fs::path(folder) / name).string());
  expect_input(!texts.empty(), "{}: expected .txt files, found {}; give the path of a text file",
               folder, list_briefly(names));
  return texts;
}

std::vector<std::string> matches_of(const std::string& pattern) {
  glob_t found = {};
  const std::unique_ptr<glob_t, decltype(&::globfree)> freed(&found, ::globfree);
  ::glob(pattern.c_str(), GLOB_NOSORT, nullptr, &found);
  std::vector<std::string> files(found.gl_pathv, found.gl_pathv + found.gl_pathc);
  std::erase_if(files, is_folder);
  std::ranges::sort(files);
  expect_input(!files.empty(), "{}: no file matches; check the pattern", pattern);
  return files;
}

std::string only_text_file(const std::string& path) {
  const std::vector<std::string> texts = is_folder(path) ? texts_in(path) : std::vector{path};
  expect_input(texts.size() == 1,
               "{}: expected one .txt file, found {}: {}; give the path of one of them", path,
               texts.size(), list_briefly(texts));
  return texts.front();
}

void expect_text(bool found, const std::string& path) {
  expect_input(found, "{}: byte 0: the file is empty; expected a text", path);
}

}  // namespace

Text load_text(const std::string& path) {
  Text text{only_text_file(path), {}};
  text.content = read_text(text.path);
  expect_text(!text.content.empty(), text.path);
  return text;
}

bool is_pattern(const std::string& path) {
  return path.find_first_of("*?[") != std::string::npos && !is_there(path);
}

std::vector<std::string> text_files(const std::string& path) {
  if (is_pattern(path)) return matches_of(path);
  return is_folder(path) ? texts_in(path) : std::vector{path};
}

void read_plain_text(const std::string& path,
                     const std::function<void(std::string_view part)>& take) {
  const std::string file = only_text_file(path);
  bool found = false;
  read_text_parts(file, [&](std::string_view part) {
    found = found || !part.empty();
    take(part);
  });
  expect_text(found, file);
}

}  // namespace tapestry
