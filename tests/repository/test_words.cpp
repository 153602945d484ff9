#include <doctest/doctest.h>

#include <cctype>
#include <map>

#include "tests/support/labels.hpp"
#include "tests/support/process.hpp"

// Tests that pages are short.
namespace tapestry {
namespace {

TEST_SUITE_BEGIN("repository" * not_sanitized("it reads the sources"));

// Returns the number of words of a page outside of blocks of code: what has a letter or a digit.
std::int64_t words_outside_code(const std::string& page) {
  std::int64_t count = 0;
  bool is_code = false;
  for (const std::string& line : lines_of(page)) {
    if (line.starts_with("```"))
      is_code = !is_code;
    else if (!is_code)
      count += std::ranges::count_if(Words(line), [](const std::string& word) {
        return std::ranges::any_of(word, [](unsigned char letter) { return std::isalnum(letter); });
      });
  }
  return count;
}

std::int64_t words_in(const fs::path& page) {
  return words_outside_code(read_bytes(page.string()));
}

TEST_CASE("repository: a README has at most 900 words") {
  CHECK(words_outside_code("# A b\n```sh\nc d\n```\n| e-f | 1 |\n|---|---|\n") == 4);
  const std::map<std::string, std::int64_t> exceptions = {{"tests/bench/README.md", 1300},
                                                          {"train/configs/README.md", 2550}};
  const fs::path source = paths::source;
  for (const char* folder : {"autograd", "layers", "optim", "data", "train", "tests"})
    for (const fs::directory_entry& entry : fs::recursive_directory_iterator(source / folder)) {
      if (entry.path().filename() != "README.md") continue;
      const std::string name = fs::relative(entry.path(), source).string();
      const auto found = exceptions.find(name);
      const std::int64_t words = words_in(entry.path());
      CHECK_MESSAGE(words <= (found == exceptions.end() ? 900 : found->second), name, " has ",
                    words);
    }
}

TEST_CASE("repository: all pages have at most 46,000 words together") {
  std::int64_t total = words_in(fs::path(paths::source) / "README.md");
  for (const char* folder : {"autograd", "layers", "optim", "data", "train", "tests"})
    for (const fs::directory_entry& entry :
         fs::recursive_directory_iterator(fs::path(paths::source) / folder))
      if (entry.path().extension() == ".md") total += words_in(entry.path());
  CHECK(total > 0);
  CHECK(total <= 46'000);
}

TEST_CASE("repository: a line of a page has at most 120 characters, but in tables and code") {
  for (const char* folder : {"autograd", "layers", "optim", "data", "train", "tests"})
    for (const fs::directory_entry& entry :
         fs::recursive_directory_iterator(fs::path(paths::source) / folder)) {
      if (entry.path().extension() != ".md") continue;
      bool is_code = false;
      for (const std::string& line : lines_of(read_bytes(entry.path().string()))) {
        if (line.starts_with("```")) is_code = !is_code;
        const auto characters =
            std::ranges::count_if(line, [](char byte) { return (byte & 0xC0) != 0x80; });
        CHECK_MESSAGE((is_code || line.starts_with('|') || characters <= 120), entry.path(), ": ",
                      line);
      }
    }
}

TEST_CASE("repository: the pages on your own data have at most 700 words each, 5000 together") {
  const fs::path guide = fs::path(paths::source) / "train/guide";
  const std::string first = read_bytes((guide / "own-data.md").string());
  std::int64_t total = 0;
  for (const fs::directory_entry& entry : fs::directory_iterator(guide)) {
    const std::string name = entry.path().filename().string();
    if (!name.starts_with("own-data")) continue;
    const std::int64_t words = words_in(entry.path());
    CHECK_MESSAGE(words <= 700, name, " has ", words);
    CHECK_MESSAGE((name == "own-data.md" || contains(first, "(" + name)), name, " has no link");
    total += words;
  }
  CHECK(total > 0);
  CHECK(total <= 5000);
}

TEST_SUITE_END();

}  // namespace
}  // namespace tapestry
