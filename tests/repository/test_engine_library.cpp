#include <doctest/doctest.h>

#include <fstream>
#include <map>
#include <set>

#include "autograd/engine.hpp"
#include "tests/support/labels.hpp"
#include "tests/support/process.hpp"

// The engine (autograd/ and optim/, one library for each instruction level) beside the library of
// everything else, which is compiled once.
namespace tapestry {
namespace {

const fs::path libraries = fs::path(paths::plugins).parent_path();

// Returns the built engines by the level's folder name: "x86-64-v3", or "" where levels have none.
std::map<std::string, fs::path> engines() {
  std::map<std::string, fs::path> found;
  for (const auto& entry : fs::recursive_directory_iterator(libraries))
    if (entry.path().filename() == "libtapestry-engine.so.0") {
      const fs::path folder = entry.path().parent_path();
      found[folder == libraries ? "" : folder.filename().string()] = entry.path();
    }
  return found;
}

// Returns the symbols that a library defines as data or as merged by the loader, and all that it
// names, by `nm -D`.
struct Symbols {
  std::set<std::string> data, all;
};

Symbols symbols_of(const fs::path& library) {
  Symbols symbols;
  for (const std::string& line : lines_of(must(run_program({"nm", "-D", library.string()})).out)) {
    const std::size_t type = line.find_first_not_of("0123456789abcdef ");
    if (type == std::string::npos || type + 2 > line.size()) continue;
    const std::string name = line.substr(type + 2);
    symbols.all.insert(name);
    if (std::string("uVBD").find(line[type]) != std::string::npos) symbols.data.insert(name);
  }
  return symbols;
}

// A copy of the built program and its libraries in a separate folder.
struct CopiedProgram : TemporaryFolder {
  CopiedProgram() : TemporaryFolder(fs::temp_directory_path().string()) {
    fs::create_directories(path("bin"));
    fs::copy(paths::program, path("bin"));
    for (const auto& [level, engine] : engines()) copy(engine);
    copy(libraries / "libtapestry.so.0");
  }

  fs::path copy_of(const fs::path& file) const {
    return fs::path(path()) / fs::relative(file, paths::build);
  }

  Finished run(const Strings& environment, const std::string& command) const {
    Strings words = {"env"};
    words.insert(words.end(), environment.begin(), environment.end());
    words.insert(words.end(), {path("bin/tapestry"), command});
    return run_program(words);
  }

 private:
  void copy(const fs::path& file) const {
    fs::create_directories(copy_of(file).parent_path());
    fs::copy(file, copy_of(file));
  }
};

TEST_SUITE_BEGIN("engine library");

TEST_CASE("engine library: it shares no variable with the library, but type information") {
  const Symbols library = symbols_of(libraries / "libtapestry.so.0");
  CHECK(library.all.size() > 1000);
  for (const auto& [level, path] : engines()) {
    CAPTURE(level);
    const Symbols engine = symbols_of(path);
    CHECK(engine.all.size() > 500);
    for (const auto& [one, other] : {std::pair{engine, library}, {library, engine}})
      for (const std::string& name : one.data)
        if (other.all.contains(name))
          CHECK_MESSAGE(
              (name.starts_with("_ZTI") || name.starts_with("_ZTS") || name.starts_with("_ZTV")),
              name);
    for (const std::string& name : engine.data) CHECK_MESSAGE(!name.starts_with("_ZNSt"), name);
  }
}

TEST_CASE("engine library: types have the same layout at each level" *
          doctest::skip(*paths::emulator != '\0')) {
  const TemporaryFolder folder;
  const std::string source = folder.write("layout.cpp", R"(
#include <cstdio>
#include "autograd/gradients.hpp"
#include "autograd/tape.hpp"
#include "optim/optimizer.hpp"
using namespace tapestry;
#define SHOW(T) std::printf(#T " %zu %zu\n", sizeof(T), alignof(T))
int main() {
  SHOW(Array); SHOW(Shape); SHOW(Tensor); SHOW(Tape); SHOW(Gradients); SHOW(Parameter); SHOW(Optimizer);
}
)");
  std::set<std::string> layouts;
  for (const auto& [level, path] : engines()) {
    const std::string program = folder.path("layout");
    Strings command = {"c++",  "-std=c++20", std::string("-I") + paths::source,
                       source, "-o",         program};
    if (!level.empty()) command.push_back("-march=" + level);
    must(run_program(command));
    layouts.insert(must(run_program({program})).out);
  }
  REQUIRE(layouts.size() == 1);
  CHECK(lines_of(*layouts.begin()).size() == 7);
}

TEST_CASE("engine library: libtapestry.so.0 finds it beside itself, as the loader chooses") {
  const std::string dynamic =
      must(run_program({"readelf", "-d", "-W", (libraries / "libtapestry.so.0").string()})).out;
  check_says(dynamic, {"[libtapestry-engine.so.0]", "(RUNPATH)", "[$ORIGIN]"});
  const std::string needed =
      must(run_program({"ldd", (libraries / "libtapestry.so.0").string()})).out;
  // The loader takes the best level, as the program does if no other one is asked for.
  const std::string version =
      must(run_program({"env", "-u", "TAPESTRY_LEVEL", paths::program, "--version"})).out;
  for (const auto& [level, engine] : engines())
    if (contains(version, level.empty() ? "tapestry" : level + ","))
      check_says(needed, {"/" + fs::relative(engine, libraries).string()});
}

TEST_CASE("engine library: the program refuses another one that is loaded already" *
          not_sanitized("the sanitizer's library does not allow for a copied one")) {
  const CopiedProgram program;
  CHECK(program.run({}, "list").status == 0);
  const Finished refused = program.run({"LD_PRELOAD=" + engine_path()}, "list");
  check_fails(refused, {engine_path() + ": this engine is loaded already; expected ", "LD_PRELOAD"},
              1);
}

TEST_CASE("engine library: the library refuses an engine of another commit" *
          not_sanitized("the sanitizer's library does not allow for a copied one")) {
  const std::string commit = engine_commit();
  if (commit.empty()) {
    left_out("the sources are not a Git clone, so no commit is known");
    return;
  }
  const CopiedProgram program;
  const fs::path engine = program.copy_of(engine_path());
  std::string other = commit;
  other.front() = other.front() == 'a' ? 'b' : 'a';
  std::string bytes = read_bytes(engine.string());  // also has it in the name of a symbol
  for (std::size_t at = 0; (at = bytes.find(commit, at)) != bytes.npos; at += commit.size())
    bytes.replace(at, commit.size(), other);
  std::ofstream(engine, std::ios::binary) << bytes;
  check_fails(program.run({}, "list"),
              {"libtapestry-engine.so.0 is of commit ", "libtapestry.so.0 is of commit " + commit,
               "install both from one build"},
              1);
}

TEST_CASE("engine library: an installation removes a library that was installed for each level" *
          not_sanitized("it installs the same files")) {
  const TemporaryFolder folder(fs::temp_directory_path().string());
  const std::string prefix = folder.path("prefix");
  const std::string stale =
      folder.write("prefix/" + fs::relative(libraries, paths::build).string() +
                       "/glibc-hwcaps/x86-64-v2/libtapestry.so.0",
                   "of an earlier version");
  must(run_program({"cmake", "--install", paths::build, "--prefix", prefix}));
  CHECK(!fs::exists(stale));
  check_says(must(run_program({prefix + "/bin/tapestry", "--version"})).out, {"tapestry 0."});
}

TEST_SUITE_END();

}  // namespace
}  // namespace tapestry
