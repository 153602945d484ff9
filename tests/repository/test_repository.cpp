#include <doctest/doctest.h>

#include <cctype>
#include <map>
#include <regex>
#include <set>
#include <sstream>

#include "tests/support/labels.hpp"
#include "tests/support/process.hpp"

// Tests rules of the repository by reading its files.
namespace tapestry {
namespace {

const fs::path root = paths::source;
const Words top_folders = "autograd layers optim data train tests";

struct Source {
  std::string path, top_folder, text;
};

// Returns every .hpp and .cpp file of the six folders.
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
  for (const Source& source : sources())  // headers of the repository are in quotes
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
    {"plugin", {}},
    {"fine_tuning", {"config"}},
    {"inspect", {"config", "plot"}},
    {"task", {}},
    {"task_spec", {"config", "fine_tuning", "inspect", "plugin", "task"}},
    {"run", {"config", "plugin", "task", "task_spec"}},
    {"tasks", {"config", "generate", "inspect", "measure", "plot", "run", "task", "task_spec"}},
    {"tools/predict", {"inspect"}},
    {"model", {"config", "run", "task_spec", "tasks", "tools/predict"}},
    {"trainer",
     {"config", "distributed", "inspect", "measure", "plot", "run", "task", "task_spec"}},
    {"training", {"config", "model", "run", "task_spec", "trainer"}},
    {"tools/plan", {"config", "measure", "run", "tasks", "trainer"}},
    {"tools/doctor",
     {"config", "measure", "plot", "run", "task", "task_spec", "tools/plan", "trainer"}},
    {"tools/init", {"config", "inspect", "measure", "run", "task_spec", "tools/plan", "trainer"}},
    {"tools/convert", {"config", "fine_tuning", "inspect", "run", "task_spec", "tasks"}},
    {"tools/reproduce", {"config", "measure", "run", "task_spec", "trainer"}},
    {"tools/report",
     {"config", "inspect", "measure", "plot", "run", "task", "task_spec", "trainer"}},
    {"tools/search", {"config", "measure", "run", "task_spec", "tools/report", "trainer"}},
    {"commands",
     {"config", "distributed", "inspect", "measure", "plot", "plugin", "run", "task", "task_spec",
      "tasks", "tools", "trainer"}},
    {"interface", {"commands", "config", "model", "run", "trainer", "training"}},
    {"public", {"commands", "config", "inspect", "run", "task_spec", "tasks"}},
    {"templates", {}}};

// "train/tools/plan/plan.hpp" -> "tools/plan", "train/run/run.hpp" -> "run", "train/task.hpp" ->
// "task"
std::string folder_in_train(const std::string& path) {
  const Strings found = matches(path, "^train/(tools/[^/.]*|[^/.]*)[/.].*");
  return found.empty() ? "" : found.front();
}

TEST_CASE("repository: a folder of train/ includes those that the table allows, and no other") {
  std::map<std::string, std::set<std::string>> allowed;
  for (const auto& [folder, others] : train_dependencies) {
    for (const std::string& other : others)  // a table in this order has no cycle
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
  for (const auto& [folder, others] : allowed)  // no row allows unused dependencies
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

TEST_CASE("repository: data/ includes arrays, but no tensor") {
  const std::set<std::string> allowed = {"adjacency", "array",    "check",         "checksum",
                                         "counted",   "parallel", "random",        "dry_run",
                                         "xtensor",   "restore",  "memory_account"};
  for (const Source& source : sources())
    if (source.top_folder == "data")
      for (const std::string& header :
           matches(source.text, "^#include \"autograd/([^\"]*)[.]hpp\""))
        CHECK_MESSAGE(allowed.contains(header), source.path, " includes autograd/", header);
}

TEST_CASE("repository: messages of data/ name no config key and no option") {
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

TEST_CASE("repository: headers start with #pragma once, and only one includes xtensor") {
  int headers = 0;
  for (const Source& source : sources()) {
    if (!source.path.ends_with(".hpp")) continue;
    ++headers;
    CHECK_MESSAGE(source.text.starts_with("#pragma once\n"), source.path);
    if (source.top_folder == "tests" || source.path.starts_with("autograd/kernels/")) continue;
    if (source.path == "autograd/xtensor.hpp") continue;  // for sources and users of the library
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

TEST_CASE("repository: train/ prints through terminal.cpp alone") {
  for (const Source& source : sources())
    if (source.top_folder == "train" && source.path != "train/main.cpp" &&
        source.path != "train/run/terminal.cpp")
      for (const std::string& call :
           matches(source.text, "\\b(fmt::print|printf|fputs|puts|std::cout|std::cerr) *[(<]"))
        CHECK_MESSAGE(false, source.path, " calls ", call);
}

TEST_CASE("repository: sources have no marks of unfinished work") {
  const std::string words = std::string("\\b(TO") + "DO|FIX" + "ME|XX" + "X|HA" + "CK)\\b";
  for (const Source& source : sources())
    CHECK_MESSAGE(matches(source.text, words).empty(), source.path);
  for (const std::string name : {"README.md", "CMakeLists.txt", "tapestry"})
    CHECK_MESSAGE(matches(read_bytes((root / name).string()), words).empty(), name);
}

// Returns a program's output; "" if it is not installed or fails.
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
  // Checks tracked files alone; others, such as runs, are allowed.
  const Strings tracked = lines_of(output_of({"git", "-C", root.string(), "ls-files"}));
  if (tracked.empty()) MESSAGE("not checked: git is not installed, or the tree is no clone");
  for (const std::string& path : tracked) {
    const std::string name = path.substr(0, path.find('/'));
    CHECK_MESSAGE((allowed.contains(name) || name.starts_with('.')), path);
  }
}

// Returns the number of lines that are neither empty nor a comment nor an #include.
std::int64_t code_lines(const std::string& text) {
  return std::ranges::count_if(lines_of(text), [](std::string line) {
    line.erase(0, std::min(line.find_first_not_of(" \t"), line.size()));
    return !line.empty() && !line.starts_with("//") && !line.starts_with("#include");
  });
}

std::vector<Source> scripts() {
  std::vector<Source> all;
  for (const auto& entry : fs::recursive_directory_iterator(root / "train"))
    if (entry.path().extension() == ".js")
      all.push_back(
          {fs::relative(entry.path(), root).string(), "train", read_bytes(entry.path().string())});
  return all;
}

TEST_CASE("repository: sizes.txt has the numbers of lines") {
  CHECK(code_lines("#include <a>\n\n  // b\nint c;  // d\n}\n") == 2);
  std::map<std::string, std::int64_t> counts;
  for (const Source& source : sources())
    if (source.top_folder == "tests")
      counts["tests"] += std::ranges::count(source.text, '\n');
    else
      counts["product"] += code_lines(source.text);
  for (const Source& script : scripts()) counts["javascript"] += code_lines(script.text);
  std::string current;
  for (const auto& [name, count] : counts) current += fmt::format("{} {}\n", name, count);
  constexpr std::int64_t slack = 100;  // a number is at most so much above its count
  std::istringstream recorded(read_bytes((root / "tests/repository/sizes.txt").string()));
  std::string name;
  for (std::int64_t limit = 0; recorded >> name >> limit; counts.erase(name)) {
    REQUIRE(counts.contains(name));
    CHECK_MESSAGE((counts[name] <= limit && limit <= counts[name] + slack), name, ": ", limit,
                  " in sizes.txt; write there, and say in the commit message what a rise is for:\n",
                  current);
  }
  CHECK(counts.empty());
}

// Returns the functions that are longer than 60 lines: those of JavaScript, and those of C++ that
// begin in the first column.
Strings long_functions(const Source& source) {
  static const std::regex script(
      "^ *(?!(?:[}] )?(?:if|for|while|switch|else|do|try|catch|class)\\b)"
      ".*(?:\\bfunction\\b.*|=>|[)]) [{]$"),
      product("^(?!namespace|struct|class|enum|union|using|template)\\w[^;]*[(][^;]*[^;}]$");
  const bool is_script = source.path.ends_with(".js");
  const Strings lines = lines_of(source.text);
  Strings found;
  for (std::size_t begin = 0; begin < lines.size(); ++begin) {
    if (!std::regex_search(lines[begin], is_script ? script : product)) continue;
    std::size_t last = begin;
    while (last < lines.size() && !lines[last].ends_with('{') && !lines[last].ends_with(';'))
      ++last;
    if (last == lines.size() || lines[last].ends_with(';')) continue;  // a declaration
    const std::string end = lines[begin].substr(0, lines[begin].find_first_not_of(' ')) + "}";
    while (last < lines.size() && !lines[last].starts_with(end)) ++last;
    if (last - begin >= 60)
      found.push_back(fmt::format("{}:{}: {} lines", source.path, begin + 1, last - begin + 1));
  }
  return found;
}

// Returns the text repeated `count` times.
std::string times(int count, const std::string& text) {
  std::string all;
  for (int i = 0; i < count; ++i) all += text;
  return all;
}

TEST_CASE("repository: no function is longer than 60 lines") {
  const std::string body = times(59, "    b();\n");
  CHECK(long_functions({"a.js", "", "class A {\n  f(a) {\n" + body + "  }\n}\n"}) ==
        Strings{"a.js:2: 61 lines"});
  CHECK(long_functions({"a.cpp", "", "int f(int a,\n      int b) {\n" + body + "}\n"}) ==
        Strings{"a.cpp:1: 62 lines"});
  std::vector<Source> all = scripts();
  std::ranges::copy_if(sources(), std::back_inserter(all),
                       [](const Source& source) { return source.top_folder != "tests"; });
  for (const Source& source : all)
    for (const std::string& function : long_functions(source)) CHECK_MESSAGE(false, function);
}

// Returns "name: count" for each function of a header with more than five parameters.
Strings many_parameters(const Source& header) {
  static const std::regex list("(\\w+)[(]((?:const )?[\\w:]+[^(){};,]*(?:,[^(){};,]*){5,})[)]"),
      one("^\\s*(?:const )?[\\w:]+(?:<.*>)?(?: const)?[ &*]+\\w+(?: = .*)?$");
  Strings found;
  for (auto match = std::sregex_iterator(header.text.begin(), header.text.end(), list);
       match != std::sregex_iterator(); ++match) {
    int depth = 0;
    Strings parameters = {""};
    for (const char c : (*match)[2].str()) {
      depth += (c == '<') - (c == '>');
      if (c == ',' && depth == 0)
        parameters.emplace_back();
      else
        parameters.back() += c == '\n' ? ' ' : c;
    }
    if (parameters.size() > 5 && std::ranges::all_of(parameters, [&](const std::string& text) {
          return std::regex_match(text, one);
        }))
      found.push_back(fmt::format("{}: {}", (*match)[1].str(), parameters.size()));
  }
  return found;
}

TEST_CASE("repository: functions with more than five parameters take an options struct") {
  CHECK(many_parameters({"a.hpp", "", "f(int a, B<C, D> b, const E& e, int* g, H h = 1, I i);"}) ==
        Strings{"f: 6"});
  const std::set<std::string> exceptions = {"Trainer: 7", "expect_finite: 6",
                                            "load_trained_with: 6"};
  std::set<std::string> found;
  for (const Source& source : sources())  // kernels take plain numbers and pointers
    if (source.path.ends_with(".hpp") && source.top_folder != "tests" &&
        source.top_folder != "autograd")
      for (const std::string& one : many_parameters(source)) found.insert(one);
  CHECK(found == exceptions);
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
  // Other versions break lines differently.
  if (output_of({"clang-format", "--version"}).find("version 14.") == std::string::npos) {
    left_out("clang-format 14 is not installed");
    return;
  }
  const Finished finished = run_program(command);
  const std::string complaints = finished.err.substr(0, 2000);
  CHECK_MESSAGE(finished.status == 0, complaints);
}

TEST_CASE("repository: the C++ example of README.md is tested") {
  const std::string example = read_bytes((root / "tests/example/main.cpp").string());
  const std::string readme = read_bytes((root / "README.md").string());
  CHECK(readme.find("```cpp\n" + example + "```\n") != std::string::npos);
}

TEST_CASE("repository: the layer in layers/README.md is tested") {
  const std::string page = read_bytes((root / "layers/README.md").string());
  const std::size_t begin = page.find("```cpp\n") + 7;
  const std::string layer = page.substr(begin, page.find("```\n", begin) - begin);
  const std::string test = read_bytes((root / "tests/layers/test_example_layer.cpp").string());
  CHECK(layer.starts_with("// A gated residual layer"));
  CHECK(test.find(layer) != std::string::npos);
}

TEST_CASE("repository: the C++ programs of the guide are tested") {
  for (const auto& [name, example] :
       {std::pair{"cpp-programs.md", "example_model"}, {"own-ops.md", "example_op"}}) {
    const std::string page = read_bytes((root / "train/guide" / name).string());
    for (const auto& [language, file] : {std::pair{"cmake", "CMakeLists.txt"}, {"cpp", "main.cpp"}})
      CHECK_MESSAGE(
          page.find(fmt::format("```{}\n{}```\n", language,
                                read_bytes((root / "tests" / example / file).string()))) !=
              std::string::npos,
          name, " lacks ", file);
  }
}

TEST_CASE("repository: the Python session and the C program of the guide are tested") {
  const std::string page = read_bytes((root / "train/guide/python-and-c.md").string());
  for (const auto& [language, file] :
       {std::pair{"python", "example_python/session.py"}, {"c", "example_c/main.c"}})
    CHECK_MESSAGE(contains(page, fmt::format("```{}\n{}```\n", language,
                                             read_bytes((root / "tests" / file).string()))),
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
