#include <doctest/doctest.h>

#include <cctype>
#include <map>
#include <regex>
#include <set>

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

// Tests the pages of train/guide/learn/: they quote the tree, are short, and are linked in order.

const fs::path guide = fs::path(paths::source) / "train/guide";

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

// Tests that the figures of the pages are those of tests/bench/results.json.

struct TextPage {
  std::string path, text;
};

// Returns README.md, and the pages and configs of the six folders.
std::vector<TextPage> pages() {
  const fs::path root = paths::source;
  std::vector<TextPage> found = {{"README.md", read_bytes((root / "README.md").string())}};
  for (const char* folder : {"autograd", "layers", "optim", "data", "train", "tests"})
    for (const auto& entry : fs::recursive_directory_iterator(root / folder))
      if (entry.path().extension() == ".md" ||
          (entry.path().extension() == ".toml" && contains(entry.path().string(), "/configs/")))
        found.push_back(
            {fs::relative(entry.path(), root).string(), read_bytes(entry.path().string())});
  return found;
}

// Returns the lines outside of tables of results that give a time, such as "12 s" or "3 min".
Strings lines_with_times(const std::string& text) {
  static const std::regex time(
      "\\d ?(?:µs|ms|s|min|minutes|seconds)\\b"
      "|\\b(?:two|three|four|five|six|seven|eight|nine|ten) minutes\\b"
      "|\\b(?:a|one) minute\\b");
  Strings found;
  bool is_made = false;
  for (const std::string& line : lines_of(text)) {
    if (line.starts_with("<!-- results: ")) is_made = true;
    if (!is_made && std::regex_search(line, time)) found.push_back(line);
    if (line == "<!-- end -->") is_made = false;
  }
  return found;
}

struct Exception {
  std::string page, line;  // how the path begins, and a part of the line; "" allows all lines
};

// Times that are not of trainings, and settings.
const std::vector<Exception> exceptions = {
    {"README.md", "init notes.txt --minutes"},
    // seconds of a compilation
    {"train/tasks/README.md", "folder of its own is compiled"},
    // an assumption of an estimate
    {"train/distributed/README.md", "micro-batch of 1024 tokens"},
    // limits and speed of tools
    {"train/guide/tokenizers-and-shards.md", "1 shard of uint16"},
    {"train/tools/doctor/README.md", "Where a step takes above"},
    {"train/tools/plan/README.md", "GPT-2 is planned in"},
    {"train/guide/several-processes.md", "writes a checkpoint five minutes before"},
    {"train/guide/training-and-configs.md", "train.time_limit"},
    {"train/configs/README.md", "train.time_limit"},
    // what output looks like
    {"train/guide/training-and-configs.md", "ms a step over 15 steps"},
    {"train/guide/training-and-configs.md", "ms/step ("},
    {"train/guide/training-and-configs.md", "memory  first step after"},
    {"train/guide/resuming-and-checking.md", "ok    "},
    // commands, calls and tests
    {"train/guide/python-and-c.md", ""},
    {"train/guide/cpp-programs.md", ""},
    {"train/guide/install.md", ""},
    {"train/guide/promises.md", ""},
    {"tests/interop/README.md", ""},
    {"tests/fuzz/README.md", ""},
    // limits of init, and trainings of its choices
    {"train/guide/own-data.md", ""},
    // transcripts of the course, each with the time of its trainings
    {"train/guide/learn/", ""},
};

TEST_SUITE_BEGIN("repository" * not_sanitized("it reads pages, and runs a script"));

TEST_CASE("repository: the tables of the pages are those of tests/bench/results.json") {
  if (run_program({"sh", "-c", "command -v python3"}).status != 0)
    return left_out("python3 is not installed");
  const Finished checked = run_program({"python3", source_path("tests/bench/results"), "--check"});
  CHECK_MESSAGE(checked.status == 0, checked.err);
}

TEST_CASE("repository: times of trainings stand in tables of results alone") {
  CHECK(lines_with_times("It takes 12 s.\nIt takes 3 steps.\n10 µs a step\ntwo minutes\n") ==
        Strings{"It takes 12 s.", "10 µs a step", "two minutes"});
  CHECK(lines_with_times("<!-- results: a -->\n| 1 s |\n<!-- end -->\n2 min\n") ==
        Strings{"2 min"});
  std::set<const Exception*> used;
  for (const TextPage& page : pages())
    for (const std::string& line : lines_with_times(page.text)) {
      const auto allowed = std::ranges::find_if(exceptions, [&](const Exception& one) {
        return page.path.starts_with(one.page) && contains(line, one.line);
      });
      CHECK_MESSAGE(allowed != exceptions.end(), page.path, ": ", line,
                    "\nmake a table of results of it (tests/bench/README.md), or name it among the "
                    "exceptions");
      if (allowed != exceptions.end()) used.insert(&*allowed);
    }
  for (const Exception& one : exceptions)
    CHECK_MESSAGE(used.contains(&one), one.page, ": no line needs the exception ", one.line);
}

TEST_SUITE_END();

}  // namespace
}  // namespace tapestry
