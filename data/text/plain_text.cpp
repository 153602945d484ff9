#include <algorithm>
#include <filesystem>
#include <iterator>

#include "autograd/check.hpp"
#include "data/file.hpp"
#include "data/text/text.hpp"

namespace tapestry {
namespace {

namespace fs = std::filesystem;

std::string only_text_file(const std::string& folder) {
  const std::vector<std::string> names = file_names(folder);
  std::vector<std::string> texts;
  std::ranges::copy_if(names, std::back_inserter(texts),
                       [](const std::string& name) { return name.ends_with(".txt"); });
  expect_input(!texts.empty(), "{}: expected one .txt file, found {}; give the path of a text file",
               folder, list_briefly(names));
  expect_input(texts.size() == 1, "{}: expected one .txt file, found {}: {}; give the path of one",
               folder, texts.size(), list_briefly(texts));
  return (fs::path(folder) / texts.front()).string();
}

std::string text_file(const std::string& path) {
  std::error_code ignored;
  return fs::is_directory(path, ignored) ? only_text_file(path) : path;
}

void expect_text(bool found, const std::string& path) {
  expect_input(found, "{}: byte 0: the file is empty; give a text to learn from", path);
}

Text load_plain_text(const std::string& path) {
  Text text{text_file(path), {}};
  text.content = read_text(text.path);
  expect_text(!text.content.empty(), text.path);
  return text;
}

const RegisterFormat registered(text_formats(), "plain",
                                {.help = "a UTF-8 text file", .read = load_plain_text});

}  // namespace

void read_plain_text(const std::string& path,
                     const std::function<void(std::string_view part)>& take) {
  const std::string file = text_file(path);
  bool found = false;
  read_text_parts(file, [&](std::string_view part) {
    found = found || !part.empty();
    take(part);
  });
  expect_text(found, file);
}

}  // namespace tapestry
