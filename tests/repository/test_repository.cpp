#include <doctest/doctest.h>

#include <cctype>
#include <map>
#include <regex>
#include <set>

#include "tests/support/labels.hpp"
#include "tests/support/process.hpp"

// Rules of the repository that can be checked by reading its files.
namespace tapestry {
namespace {

const fs::path root = TAPESTRY_SOURCE_DIR;
const Words top_folders = "autograd layers optim data train tests";

struct Source {
  std::string path, top_folder, text;
};

// Every .hpp and .cpp file of the six folders.
const std::vector<Source>& sources() {
  static const std::vector<Source> found = [] {
    std::vector<Source> all;
    for (const std::string& folder : top_folders)
      for (const auto& entry : fs::recursive_directory_iterator(root / folder))
        if (entry.path().extension() == ".hpp" || entry.path().extension() == ".cpp")
          all.push_back({fs::relative(entry.path(), root).string(), folder,
                         read_bytes(entry.path().string())});
    std::ranges::sort(all, {}, &Source::path);
    return all;
  }();
  return found;
}

Strings matches(const std::string& text, const std::string& pattern) {
  Strings found;
  const std::regex expression(pattern, std::regex::multiline);
  for (auto match = std::sregex_iterator(text.begin(), text.end(), expression);
       match != std::sregex_iterator(); ++match)
    found.push_back((*match)[1].str());
  return found;
}

TEST_SUITE_BEGIN("repository" *
                 not_sanitized("it reads the sources, with expressions that then take a minute"));

TEST_CASE("repository: autograd <- {layers, optim, data} <- train <- tests, no other dependency") {
  const std::map<std::string, std::set<std::string>> allowed = {
      {"autograd", {"autograd"}},
      {"layers", {"autograd", "layers"}},
      {"optim", {"autograd", "optim"}},
      {"data", {"autograd", "data"}},
      {"train", {"autograd", "layers", "optim", "data", "train"}},
      {"tests", {top_folders.begin(), top_folders.end()}}};
  int dependencies = 0;
  for (const Source& source : sources())
    for (const std::string& included : matches(source.text, "^ *# *include +\"([^\"]*)\"")) {
      CAPTURE(source.path);
      CAPTURE(included);
      CHECK(allowed.at(source.top_folder).contains(included.substr(0, included.find('/'))));
      CHECK(fs::exists(root / included));
      ++dependencies;
    }
  CHECK(dependencies > 100);
  for (const Source& source : sources())  // ours are in quotes, so that the rule can be read
    for (const std::string& included : matches(source.text, "^ *# *include +<([^>]*)>"))
      CHECK_MESSAGE(std::ranges::count(top_folders, included.substr(0, included.find('/'))) == 0,
                    source.path, " includes ", included);
}

// What each folder of train/, and each header that stands in train/ itself, may include of the
// others. train/README.md shows this table.
const std::vector<std::pair<std::string, Strings>> train_dependencies = {
    {"config", {}},
    {"distributed", {}},
    {"generate", {}},
    {"plot", {}},
    {"measure", {"config"}},
    {"fine_tuning", {"config"}},
    {"inspect", {"config", "plot"}},
    {"task", {}},
    {"task_spec", {"config", "fine_tuning", "inspect", "task"}},
    {"run", {"config", "task", "task_spec"}},
    {"tasks", {"config", "generate", "inspect", "plot", "run", "task", "task_spec"}},
    {"model", {"config", "run", "task_spec", "tasks"}},
    {"trainer",
     {"config", "distributed", "inspect", "measure", "plot", "run", "task", "task_spec"}},
    {"tools/plan", {"config", "measure", "run", "tasks", "trainer"}},
    {"tools/doctor",
     {"config", "measure", "plot", "run", "task", "task_spec", "tools/plan", "trainer"}},
    {"tools/init", {"config", "inspect", "measure", "run", "task_spec", "tools/plan"}},
    {"tools/convert", {"config", "fine_tuning", "inspect", "run", "task_spec", "tasks"}},
    {"tools/reproduce", {"config", "measure", "run", "task_spec", "trainer"}},
    {"tools/report",
     {"config", "inspect", "measure", "plot", "run", "task", "task_spec", "trainer"}},
    {"tools/search", {"config", "measure", "run", "task_spec", "tools/report", "trainer"}},
    {"commands",
     {"config", "distributed", "inspect", "measure", "plot", "run", "task", "task_spec", "tasks",
      "tools", "trainer"}}};

// "train/tools/plan/plan.hpp" -> "tools/plan", "train/run/run.hpp" -> "run", "train/task.hpp" ->
// "task"
std::string folder_in_train(const std::string& path) {
  const Strings found = matches(path, "^train/(tools/[^/.]*|[^/.]*)[/.].*");
  return found.empty() ? "" : found.front();
}

TEST_CASE("repository: a folder of train/ includes those that the table allows, and no other") {
  std::map<std::string, std::set<std::string>> allowed;
  for (const auto& [folder, others] : train_dependencies) {
    for (const std::string& other : others)  // a table in this order has no circle
      CHECK_MESSAGE((other == "tools" || allowed.contains(other)), folder, " before ", other);
    allowed[folder] = {others.begin(), others.end()};
  }
  std::map<std::string, std::set<std::string>> included_by;
  for (const Source& source : sources()) {
    const std::string folder = folder_in_train(source.path);
    if (folder.empty() || folder == "main") continue;
    REQUIRE_MESSAGE(allowed.contains(folder), source.path);
    for (const std::string& header : matches(source.text, "^#include \"(train/[^\"]*)\"")) {
      std::string other = folder_in_train(header);
      if (other == folder) continue;
      if (folder == "commands" && other.starts_with("tools/")) other = "tools";
      CHECK_MESSAGE(allowed.at(folder).contains(other), source.path, " includes ", header);
      included_by[folder].insert(other);
    }
  }
  for (const auto& [folder, others] : allowed)  // no row allows what nothing needs
    CHECK_MESSAGE(others == included_by[folder], folder);
}

// A line for each folder: "trainer/            includes config distributed …".
TEST_CASE("repository: train/README.md shows the table of dependencies") {
  std::string table = "```text\n";
  for (const auto& [folder, others] : train_dependencies)
    table += fmt::format("{:<16}{}\n", folder,
                         others.empty() ? "-" : fmt::format("{}", fmt::join(others, ", ")));
  table += "```\n";
  const std::string page = read_bytes((root / "train/README.md").string());
  CHECK_MESSAGE(contains(page, table), "train/README.md lacks:\n", table);
}

TEST_CASE("repository: no family of tasks includes another") {
  for (const Source& source : sources())
    for (const std::string& family : matches(source.path, "^train/tasks/([^/]*)/"))
      for (const std::string& other :
           matches(source.text, "^#include \"train/tasks/([^/\"]*)/[^\"]*\""))
        CHECK_MESSAGE(other == family, source.path, " includes tasks/", other);
}

TEST_CASE("repository: data knows arrays, but no tensor") {
  const std::set<std::string> allowed = {"adjacency", "array",  "check",   "checksum", "counted",
                                         "parallel",  "random", "dry_run", "xtensor"};
  for (const Source& source : sources())
    if (source.top_folder == "data")
      for (const std::string& header :
           matches(source.text, "^#include \"autograd/([^\"]*)[.]hpp\""))
        CHECK_MESSAGE(allowed.contains(header), source.path, " includes autograd/", header);
}

TEST_CASE("repository: data states facts, without a config's keys and the command line's flags") {
  const std::string literal = "(\"(?:[^\"\\\\\n]|\\\\.)*\")";
  const std::string named = "(\\b(?:data|model|train|optim)[.][a-z]|--[a-z])";
  const auto speaks = [&](const std::string& text) { return !matches(text, named).empty(); };
  CHECK(speaks("\"lower model.context\""));
  CHECK(speaks("\"allow gaps with --set\""));
  CHECK(!speaks("\"found nothing -- or train.\""));
  int literals = 0;
  for (const Source& source : sources()) {
    if (source.top_folder != "data") continue;
    const std::string code = std::regex_replace(
        source.text, std::regex("^ *(?:#include|//).*", std::regex::multiline), "");
    for (const std::string& text : matches(code, literal)) {
      CHECK_MESSAGE(!speaks(text), source.path, " says ", text);
      ++literals;
    }
  }
  CHECK(literals > 300);
}

TEST_CASE("repository: headers start with #pragma once, and one alone brings xtensor along") {
  int headers = 0;
  for (const Source& source : sources()) {
    if (!source.path.ends_with(".hpp")) continue;
    ++headers;
    CHECK_MESSAGE(source.text.starts_with("#pragma once\n"), source.path);
    if (source.top_folder == "tests" || source.path.starts_with("autograd/kernels/")) continue;
    if (source.path == "autograd/xtensor.hpp") continue;  // for sources, and the library's users
    CHECK_MESSAGE(
        matches(source.text, "^#include [<\"]((xtensor|xsimd|autograd/xtensor.hpp)[^>\"]*)")
            .empty(),
        source.path);
  }
  CHECK(headers > 20);
}

TEST_CASE("repository: autograd/ and optim/ alone contain vector instructions") {
  std::map<std::string, Strings> included;
  for (const Source& source : sources())
    included[source.path] = matches(source.text, "^ *# *include +[<\"]([^\">]*)[\">]");
  const auto reached = [&](const std::string& path) {
    std::set<std::string> found;
    Strings open = {path};
    while (!open.empty()) {
      const std::string next = open.back();
      open.pop_back();
      if (found.insert(next).second && included.contains(next))
        open.insert(open.end(), included[next].begin(), included[next].end());
    }
    return found;
  };
  const std::set<std::string> compiled_for_each_level = {"tests/autograd/test_kernels.cpp",
                                                         "tests/autograd/test_matmul.cpp"};
  int vectorized = 0;
  for (const Source& source : sources()) {
    if (!source.path.ends_with(".cpp")) continue;
    const std::set<std::string> headers = reached(source.path);
    const bool has_vectors = headers.contains("autograd/kernels/simd.hpp") ||
                             headers.contains("xsimd/xsimd.hpp") ||
                             headers.contains("autograd/ops/elementwise.hpp");
    vectorized += has_vectors;
    CHECK_MESSAGE((!has_vectors || source.top_folder == "autograd" ||
                   source.top_folder == "optim" || compiled_for_each_level.contains(source.path)),
                  source.path);
  }
  CHECK(vectorized > 10);
}

TEST_CASE("repository: one #pragma omp") {
  Strings found;
  for (const Source& source : sources())
    if (source.top_folder != "tests")
      for (const std::string& pragma : matches(source.text, "^ *(# *pragma +omp)"))
        found.push_back(source.path + pragma);
  CHECK(found == Strings{"autograd/parallel.cpp#pragma omp"});
}

TEST_CASE("repository: nothing below train/ prints or ends the program") {
  for (const Source& source : sources())
    if (source.top_folder != "train" && source.top_folder != "tests")
      for (const std::string& call :
           matches(source.text, "\\b(fmt::print|printf|std::cout|std::cerr|exit|abort) *[(<]"))
        CHECK_MESSAGE(false, source.path, " calls ", call);
  CHECK(matches("x = abort();", "\\b(abort) *[(<]").size() == 1);
}

TEST_CASE("repository: train/ prints through one place, which knows what terminals obey") {
  for (const Source& source : sources())
    if (source.top_folder == "train" && source.path != "train/main.cpp" &&
        source.path != "train/run/terminal.cpp")
      for (const std::string& call :
           matches(source.text, "\\b(fmt::print|printf|fputs|puts|std::cout|std::cerr) *[(<]"))
        CHECK_MESSAGE(false, source.path, " calls ", call);
}

TEST_CASE("repository: nothing is left to do") {
  const std::string words = std::string("\\b(TO") + "DO|FIX" + "ME|XX" + "X|HA" + "CK)\\b";
  for (const Source& source : sources())
    CHECK_MESSAGE(matches(source.text, words).empty(), source.path);
  for (const std::string name : {"README.md", "CMakeLists.txt", "tapestry"})
    CHECK_MESSAGE(matches(read_bytes((root / name).string()), words).empty(), name);
}

// What a program prints, or nothing where it is not installed or fails.
std::string output_of(const Words& command) {
  try {
    const Finished finished = run_program(command);
    return finished.status == 0 ? finished.out : "";
  } catch (const std::invalid_argument&) {
    return "";
  }
}

TEST_CASE("repository: the top level holds the six folders and little else") {
  std::set<std::string> allowed(top_folders.begin(), top_folders.end());
  allowed.insert({"CMakeLists.txt", "CMakePresets.json", "README.md", "LICENSE", "tapestry"});
  for (const std::string& name : allowed) CHECK_MESSAGE(fs::exists(root / name), name);
  for (const char* name : {"common", "util", "utils"})
    for (const std::string& folder : top_folders) CHECK(!fs::exists(root / folder / name));
  // Of tracked files alone: what else lies there, such as a run, is its owner's.
  const Strings tracked = lines_of(output_of({"git", "-C", root.string(), "ls-files"}));
  if (tracked.empty()) MESSAGE("not checked: git is not installed, or the tree is no clone");
  for (const std::string& path : tracked) {
    const std::string name = path.substr(0, path.find('/'));
    CHECK_MESSAGE((allowed.contains(name) || name.starts_with('.')), path);
  }
}

TEST_CASE("repository: no test file is longer than 600 lines") {
  for (const Source& source : sources())
    if (source.top_folder == "tests")
      CHECK_MESSAGE(std::ranges::count(source.text, '\n') <= 600, source.path);
}

TEST_CASE("repository: every file is clang-formatted") {
  Strings command = {"clang-format", "--dry-run", "-Werror"};
  for (const Source& source : sources()) command.push_back((root / source.path).string());
  REQUIRE(command.size() > 50);
  // Debian 12's; others break lines elsewhere.
  if (output_of({"clang-format", "--version"}).find("version 14.") == std::string::npos) {
    left_out("clang-format 14 is not installed");
    return;
  }
  const Finished finished = run_program(command);
  const std::string complaints = finished.err.substr(0, 2000);
  CHECK_MESSAGE(finished.status == 0, complaints);
}

TEST_CASE("repository: the README's C++ example is the one that the install test builds") {
  const std::string example = read_bytes((root / "tests/example/main.cpp").string());
  const std::string readme = read_bytes((root / "README.md").string());
  CHECK(readme.find("```cpp\n" + example + "```\n") != std::string::npos);
}

TEST_CASE("repository: the layer in layers/README.md is the one that a test checks") {
  const std::string page = read_bytes((root / "layers/README.md").string());
  const std::size_t begin = page.find("```cpp\n") + 7;
  const std::string layer = page.substr(begin, page.find("```\n", begin) - begin);
  const std::string test = read_bytes((root / "tests/layers/test_example_layer.cpp").string());
  CHECK(layer.starts_with("// A gated residual layer"));
  CHECK(test.find(layer) != std::string::npos);
}

TEST_CASE("repository: the user guide's C++ program is the one that the install test builds") {
  const std::string page = read_bytes((root / "train/guide/cpp-programs.md").string());
  for (const auto& [language, file] : {std::pair{"cmake", "CMakeLists.txt"}, {"cpp", "main.cpp"}})
    CHECK_MESSAGE(
        page.find(fmt::format("```{}\n{}```\n", language,
                              read_bytes((root / "tests/example_model" / file).string()))) !=
            std::string::npos,
        file);
}

TEST_CASE("repository: every top-level folder has a README, and the first page is short") {
  Words with_readme = top_folders + Words{"train/tasks", "train/configs", "tests/bench"};
  for (const std::string& folder : with_readme)
    CHECK_MESSAGE(fs::exists(root / folder / "README.md"), folder);
  CHECK(lines_of(read_bytes((root / "README.md").string())).size() <= 150);
}

// Returns the links of a page outside of code blocks, such as "../README.md#results".
Strings links_of(const std::string& page) {
  Strings links;
  bool code = false;
  for (const std::string& line : lines_of(page))
    if (line.starts_with("```"))
      code = !code;
    else if (!code)
      for (std::string& link : matches(line, "\\]\\(([^) ]*)[^)]*\\)"))
        links.push_back(std::move(link));
  return links;
}

// Returns the sections of a page as links name them: "hugging-face" for "## Hugging Face".
std::set<std::string> sections_of(const std::string& page) {
  std::set<std::string> sections;
  for (const std::string& heading : matches(page, "^#+ (.*)")) {
    std::string section;
    for (const char letter : heading)
      if (letter == ' ')
        section += '-';
      else if (std::isalnum(static_cast<unsigned char>(letter)) || letter == '-' || letter == '_')
        section += static_cast<char>(std::tolower(static_cast<unsigned char>(letter)));
    sections.insert(section);
  }
  for (const std::string& name : matches(page, "<a id=\"([^\"]*)\">")) sections.insert(name);
  return sections;
}

TEST_CASE("repository: the files and sections that pages link to exist") {
  CHECK(sections_of("# A\n## `b`: c_d-E\n<a id=\"f\"></a>") ==
        std::set<std::string>{"a", "b-c_d-e", "f"});
  std::vector<fs::path> pages = {root / "README.md"};
  for (const std::string& folder : top_folders)
    for (const auto& entry : fs::recursive_directory_iterator(root / folder))
      if (entry.path().extension() == ".md") pages.push_back(entry.path());
  int links = 0;
  for (const fs::path& page : pages)
    for (const std::string& link : links_of(read_bytes(page.string()))) {
      if (link.starts_with("http")) continue;
      const std::string path = link.substr(0, link.find('#'));
      const fs::path target = path.empty() ? page : page.parent_path() / path;
      CHECK_MESSAGE(fs::exists(target), page.string(), " links to ", link);
      if (link.find('#') != std::string::npos && fs::exists(target))
        CHECK_MESSAGE(
            sections_of(read_bytes(target.string())).contains(link.substr(link.find('#') + 1)),
            page.string(), " links to ", link);
      ++links;
    }
  CHECK(links > 100);
}

TEST_SUITE_END();

}  // namespace
}  // namespace tapestry
