#include <doctest/doctest.h>

#include <map>
#include <regex>
#include <set>

#include "tests/support/process.hpp"

// The house's rules, as far as they can be read off the files.
namespace tapestry {
namespace {

namespace fs = std::filesystem;

const fs::path root = TAPESTRY_SOURCE_DIR;
const std::vector<std::string> rooms = {"autograd", "layers", "optim", "data", "train", "tests"};

struct Source {
  std::string path, room, text;
};

// Every .hpp and .cpp file of the six rooms.
const std::vector<Source>& sources() {
  static const std::vector<Source> found = [] {
    std::vector<Source> all;
    for (const std::string& room : rooms)
      for (const auto& entry : fs::recursive_directory_iterator(root / room))
        if (entry.path().extension() == ".hpp" || entry.path().extension() == ".cpp")
          all.push_back(
              {fs::relative(entry.path(), root).string(), room, read_bytes(entry.path().string())});
    std::ranges::sort(all, {}, &Source::path);
    return all;
  }();
  return found;
}

std::vector<std::string> matches(const std::string& text, const std::string& pattern) {
  std::vector<std::string> found;
  const std::regex expression(pattern, std::regex::multiline);
  for (auto match = std::sregex_iterator(text.begin(), text.end(), expression);
       match != std::sregex_iterator(); ++match)
    found.push_back((*match)[1].str());
  return found;
}

TEST_SUITE_BEGIN("house");

TEST_CASE("house: autograd <- {layers, optim, data} <- train <- tests, and no other arrow") {
  const std::map<std::string, std::set<std::string>> allowed = {
      {"autograd", {"autograd"}},
      {"layers", {"autograd", "layers"}},
      {"optim", {"autograd", "optim"}},
      {"data", {"autograd", "data"}},
      {"train", {"autograd", "layers", "optim", "data", "train"}},
      {"tests", {rooms.begin(), rooms.end()}}};
  int arrows = 0;
  for (const Source& source : sources())
    for (const std::string& included : matches(source.text, "^ *# *include +\"([^\"]*)\"")) {
      CAPTURE(source.path);
      CAPTURE(included);
      CHECK(allowed.at(source.room).contains(included.substr(0, included.find('/'))));
      CHECK(fs::exists(root / included));
      ++arrows;
    }
  CHECK(arrows > 100);
  for (const Source& source : sources())  // ours are in quotes, so that the rule can be read
    for (const std::string& included : matches(source.text, "^ *# *include +<([^>]*)>"))
      CHECK_MESSAGE(std::ranges::count(rooms, included.substr(0, included.find('/'))) == 0,
                    source.path, " includes ", included);
}

TEST_CASE("house: inside train/ the arrows run from commands down") {
  const std::vector<std::string> order = {
      "main",        "commands", "doctor", "plan",   "report", "proof",    "loop",
      "exchange",    "model",    "tasks",  "run",    "view",   "exhibits", "task",
      "fine_tuning", "onnx",     "bench",  "decode", "draw",   "settings", "ranks"};
  // "train/loop/trainer.hpp" -> the place of "loop"
  const auto place = [&](const std::string& path) {
    return std::ranges::find(order, path.substr(6, path.find_first_of("/.", 6) - 6));
  };
  for (const Source& source : sources())
    if (source.room == "train")
      for (const std::string& included : matches(source.text, "^#include \"(train/[^\"]*)\"")) {
        REQUIRE_MESSAGE(place(included) != order.end(), included);
        CHECK_MESSAGE(place(source.path) <= place(included), source.path, " includes ", included);
      }
}

TEST_CASE("house: no family of tasks includes another") {
  for (const Source& source : sources())
    for (const std::string& family : matches(source.path, "^train/tasks/([^/]*)/"))
      for (const std::string& other :
           matches(source.text, "^#include \"train/tasks/([^/\"]*)/[^\"]*\""))
        CHECK_MESSAGE(other == family, source.path, " includes tasks/", other);
}

TEST_CASE("house: data knows arrays, but no tensor") {
  const std::set<std::string> allowed = {"adjacency", "array",  "check", "checksum",
                                         "parallel",  "random", "shape"};
  for (const Source& source : sources())
    if (source.room == "data")
      for (const std::string& header :
           matches(source.text, "^#include \"autograd/([^\"]*)[.]hpp\""))
        CHECK_MESSAGE(allowed.contains(header), source.path, " includes autograd/", header);
}

TEST_CASE("house: data states facts, without a config's keys and the command line's flags") {
  const std::string literal = "(\"(?:[^\"\\\\\n]|\\\\.)*\")";
  const std::string named = "(\\b(?:data|model|train|optim)[.][a-z]|--[a-z])";
  const auto speaks = [&](const std::string& text) { return !matches(text, named).empty(); };
  CHECK(speaks("\"lower model.context\""));
  CHECK(speaks("\"allow gaps with --set\""));
  CHECK(!speaks("\"found nothing -- or train.\""));
  int literals = 0;
  for (const Source& source : sources()) {
    if (source.room != "data") continue;
    const std::string code = std::regex_replace(
        source.text, std::regex("^ *(?:#include|//).*", std::regex::multiline), "");
    for (const std::string& text : matches(code, literal)) {
      CHECK_MESSAGE(!speaks(text), source.path, " says ", text);
      ++literals;
    }
  }
  CHECK(literals > 300);
}

TEST_CASE("house: headers start with #pragma once, and one alone brings xtensor along") {
  int headers = 0;
  for (const Source& source : sources()) {
    if (!source.path.ends_with(".hpp")) continue;
    ++headers;
    CHECK_MESSAGE(source.text.starts_with("#pragma once\n"), source.path);
    if (source.room == "tests" || source.path.starts_with("autograd/kernels/")) continue;
    if (source.path == "autograd/xtensor.hpp") continue;  // for sources, and the library's users
    CHECK_MESSAGE(
        matches(source.text, "^#include [<\"]((xtensor|xsimd|dnnl|autograd/xtensor.hpp)[^>\"]*)")
            .empty(),
        source.path);
  }
  CHECK(headers > 20);
}

TEST_CASE("house: one #pragma omp") {
  std::vector<std::string> found;
  for (const Source& source : sources())
    if (source.room != "tests")
      for (const std::string& pragma : matches(source.text, "^ *(# *pragma +omp)"))
        found.push_back(source.path + pragma);
  CHECK(found == std::vector<std::string>{"autograd/parallel.cpp#pragma omp"});
}

TEST_CASE("house: nothing below train/ prints or ends the program") {
  for (const Source& source : sources())
    if (source.room != "train" && source.room != "tests")
      for (const std::string& call :
           matches(source.text, "\\b(fmt::print|printf|std::cout|std::cerr|exit|abort) *[(<]"))
        CHECK_MESSAGE(false, source.path, " calls ", call);
  CHECK(matches("x = abort();", "\\b(abort) *[(<]").size() == 1);
}

TEST_CASE("house: what train/ prints goes through one place, which knows what terminals obey") {
  for (const Source& source : sources())
    if (source.room == "train" && source.path != "train/main.cpp" &&
        source.path != "train/run/terminal.cpp")
      for (const std::string& call :
           matches(source.text, "\\b(fmt::print|printf|fputs|puts|std::cout|std::cerr) *[(<]"))
        CHECK_MESSAGE(false, source.path, " calls ", call);
}

TEST_CASE("house: nothing is left to do") {
  const std::string words = std::string("\\b(TO") + "DO|FIX" + "ME|XX" + "X|HA" + "CK)\\b";
  for (const Source& source : sources())
    CHECK_MESSAGE(matches(source.text, words).empty(), source.path);
  for (const std::string name : {"README.md", "CMakeLists.txt", "tapestry"})
    CHECK_MESSAGE(matches(read_bytes((root / name).string()), words).empty(), name);
}

TEST_CASE("house: the top level holds the six rooms and little else") {
  std::set<std::string> allowed(rooms.begin(), rooms.end());
  allowed.insert({"CMakeLists.txt", "CMakePresets.json", "README.md", "LICENSE", "tapestry"});
  const std::string ignored = read_bytes((root / ".gitignore").string());  // "/build/", "/runs/"
  for (const auto& entry : fs::directory_iterator(root)) {
    const std::string name = entry.path().filename().string();
    const bool untracked = ignored.find("/" + name + "/") != std::string::npos;
    CHECK_MESSAGE((allowed.contains(name) || name.starts_with('.') || untracked), name);
  }
  for (const std::string& name : allowed) CHECK_MESSAGE(fs::exists(root / name), name);
  for (const char* name : {"common", "util", "utils"})
    for (const std::string& room : rooms) CHECK(!fs::exists(root / room / name));
}

TEST_CASE("house: no test file is longer than 600 lines") {
  for (const Source& source : sources())
    if (source.room == "tests")
      CHECK_MESSAGE(std::ranges::count(source.text, '\n') <= 600, source.path);
}

TEST_CASE("house: every file is clang-formatted") {
  std::vector<std::string> command = {"clang-format", "--dry-run", "-Werror"};
  for (const Source& source : sources()) command.push_back((root / source.path).string());
  REQUIRE(command.size() > 50);
  std::string version;
  try {
    version = run_program({"clang-format", "--version"}).out;
  } catch (const std::invalid_argument&) {
  }
  if (version.find("version 14.") ==
      std::string::npos) {  // Debian 12's; others break lines elsewhere
    MESSAGE("not checked: clang-format 14 is not installed");
    return;
  }
  const Finished finished = run_program(command);
  const std::string complaints = finished.err.substr(0, 2000);
  CHECK_MESSAGE(finished.status == 0, complaints);
}

TEST_CASE("house: the README's C++ example is the one that the install test builds") {
  const std::string example = read_bytes((root / "tests/example/main.cpp").string());
  const std::string readme = read_bytes((root / "README.md").string());
  CHECK(readme.find("```cpp\n" + example + "```\n") != std::string::npos);
}

TEST_CASE("house: train/README.md's C++ program is the one that the install test builds") {
  const std::string page = read_bytes((root / "train/README.md").string());
  for (const auto& [language, file] : {std::pair{"cmake", "CMakeLists.txt"}, {"cpp", "main.cpp"}})
    CHECK_MESSAGE(
        page.find(fmt::format("```{}\n{}```\n", language,
                              read_bytes((root / "tests/example_model" / file).string()))) !=
            std::string::npos,
        file);
}

TEST_CASE("house: every room has a README, and the first page is short") {
  std::vector<std::string> with_readme = rooms;
  with_readme.insert(with_readme.end(), {"train/tasks", "train/configs", "tests/bench"});
  for (const std::string& room : with_readme)
    CHECK_MESSAGE(fs::exists(root / room / "README.md"), room);
  CHECK(lines_of(read_bytes((root / "README.md").string())).size() <= 150);
}

TEST_CASE("house: what READMEs link to is there") {
  std::vector<fs::path> readmes = {root / "README.md"};
  for (const std::string& room : rooms)
    for (const auto& entry : fs::recursive_directory_iterator(root / room))
      if (entry.path().filename() == "README.md") readmes.push_back(entry.path());
  int links = 0;
  for (const fs::path& readme : readmes) {
    const std::string page =
        std::regex_replace(read_bytes(readme.string()), std::regex("```[^`]*```"), "");  // no code
    for (const std::string& link : matches(page, "\\]\\(([^)# ]*)[^) ]*\\)")) {
      if (link.starts_with("http")) continue;
      CHECK_MESSAGE(fs::exists(readme.parent_path() / link), readme.string(), " links to ", link);
      ++links;
    }
  }
  CHECK(links > 100);
}

TEST_SUITE_END();

}  // namespace
}  // namespace tapestry
