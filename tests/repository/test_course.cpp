#include <doctest/doctest.h>

#include <regex>

#include "tests/support/labels.hpp"
#include "tests/support/process.hpp"

// Tests the pages of train/guide/learn/: they quote the tree, are short, and are linked in order.
namespace tapestry {
namespace {

const fs::path guide = fs::path(paths::source) / "train/guide";

TEST_SUITE_BEGIN("repository" * not_sanitized("it reads the sources"));

std::vector<fs::path> pages_of_course() {
  std::vector<fs::path> pages;
  for (const fs::directory_entry& entry : fs::directory_iterator(guide / "learn"))
    pages.push_back(entry.path());
  return pages;
}

// A block of C++ in a page: the parts between its lines "…", and the file that the last link before
// it leads to.
struct Quotation {
  fs::path file{};
  Strings parts{};
};

std::vector<Quotation> quotations_of(const fs::path& page) {
  static const std::regex link("\\]\\(([^) ]*\\.(?:cpp|hpp))\\)");
  std::vector<Quotation> quotations;
  std::string last;
  bool is_quoted = false, is_code = false;
  for (const std::string& line : lines_of(read_bytes(page.string()))) {
    if (line.starts_with("```")) {
      is_code = !is_code;
      is_quoted = line == "```cpp";
      if (is_quoted) quotations.push_back({page.parent_path() / last, {""}});
    } else if (is_quoted && line.find_first_not_of(' ') == line.find("…")) {
      quotations.back().parts.emplace_back();
    } else if (is_quoted) {
      quotations.back().parts.back() += line + "\n";
    } else if (!is_code) {
      for (auto match = std::sregex_iterator(line.begin(), line.end(), link);
           match != std::sregex_iterator(); ++match)
        last = (*match)[1].str();
    }
  }
  return quotations;
}

TEST_CASE("repository: the code in the course is that of the files it names") {
  std::size_t quoted = 0;
  for (const fs::path& page : pages_of_course())
    for (const auto& [file, parts] : quotations_of(page)) {
      REQUIRE_MESSAGE(fs::is_regular_file(file), page.string(), " quotes ", file.string());
      const std::string text = read_bytes(file.string());
      std::size_t at = 0;
      for (const std::string& part : parts) {
        const std::size_t found = text.find(part, at);
        REQUIRE_MESSAGE(found != text.npos, file.string(), " has not, in this order:\n", part);
        at = found + part.size();
      }
      ++quoted;
    }
  CHECK(quoted >= pages_of_course().size());
}

TEST_CASE(
    "repository: a page of the course has at most 700 words outside of code, and a link from the "
    "guide") {
  const std::string contents = read_bytes((guide / "README.md").string());
  for (const fs::path& page : pages_of_course()) {
    std::size_t words = 0;
    bool is_code = false;
    for (const std::string& line : lines_of(read_bytes(page.string()))) {
      if (line.starts_with("```")) is_code = !is_code;
      if (!is_code) words += Words(line).size();
    }
    CHECK_MESSAGE(words <= 700, page.string(), " has ", words);
    CHECK_MESSAGE(contains(contents, "(learn/" + page.filename().string() + ")"), page.string());
  }
}

TEST_SUITE_END();

}  // namespace
}  // namespace tapestry
