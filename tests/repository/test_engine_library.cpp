#include <dlfcn.h>
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

Finished run_at(const std::string& level, const Words& arguments) {
  return run_program(Words("env TAPESTRY_LEVEL={} {}", level, paths::program) +
                     with_sets(arguments));
}

// Returns the levels that are built and that this processor supports.
Strings levels_here() {
  Strings levels;
  for (const std::string level : {"v2", "v3", "v4"})
    if (run_at(level, {"--version"}).status == 0) levels.push_back(level);
  return levels;
}

TEST_SUITE_BEGIN("levels");

TEST_CASE("levels: --version prints version, commit, level, backends and threads") {
  const std::string version = tapestry_run("--version").out;
  check_says(version, {"tapestry 0.", " tiles, ", " thread"});
  for (const std::string& level : levels_here()) {
    check_says(run_at(level, {"--version"}).out, {"x86-64-" + level + ", "});
    if (level == "v2") check_says(run_at(level, {"--version"}).out, {", 6x8 tiles, "});
    if (level == "v3") check_says(run_at(level, {"--version"}).out, {", 6x16 tiles, "});
    // Without AVX-512, bfloat16 products are computed with rounded float32.
    if (level != "v4")
      CHECK(run_at(level, {"--version"}).out.find("bfloat16") == std::string::npos);
    CHECK(run_at("x86-64-" + level, {"--version"}).out == run_at(level, {"--version"}).out);
  }
}

TEST_CASE("levels: a level that is not built is refused in one line") {
  for (const std::string level : {"v1", "v5", "x86-64-v33", "avx2", " v3", "3", "|id"}) {
    check_fails(run_at(level, {"list"}), {"TAPESTRY_LEVEL=" + level + ": unknown level"});
  }
  for (const std::string level : {"v2", "v3", "v4"}) {
    const Finished finished = run_at(level, {"list"});
    if (finished.status == 0) continue;  // it exists
    check_fails(finished, {"TAPESTRY_LEVEL=" + level + ": "});
  }
  check_says(run_at("v\n3\033[2J", {"list"}).err, {"TAPESTRY_LEVEL=v?3?[2J: unknown level"});
  CHECK(run_at("", {"list"}).status == 0);
}

// qemu's processors have the instructions of the real ones; an unknown instruction ends a program
// with SIGILL.
TEST_CASE("levels: older processors load their level, or print one line" *
          not_sanitized("an emulated processor is too slow for it")) {
  const auto run_on = [](const std::string& processor, const std::string& level,
                         const Words& arguments) {
    Finished finished = run_program(Words("env TAPESTRY_LEVEL={} qemu-x86_64-static -cpu {} {}",
                                          level, processor, paths::program) +
                                    with_sets(arguments));
    std::string own;  // without qemu's warnings
    for (const std::string& line : lines_of(finished.err))
      if (!line.starts_with("qemu-x86_64")) own += line + "\n";
    finished.err = own;
    return finished;
  };
  if (run_on("max", "", {"--help"}).status == 127 || *paths::emulator) {
    left_out("qemu-x86_64-static is not installed");
    return;
  }
  const auto check_refused = [](const Finished& refused, const std::string& part) {
    check_fails(refused, {part});
  };
  const Strings levels = levels_here();
  check_refused(run_on("qemu64", "", {"--version"}), "lacks SSE4.2");
  for (const auto& [processor, has, lacks] : {std::array<std::string, 3>{"qemu64", "", "v2"},
                                              {"Nehalem", "v2", "v3"},
                                              {"Haswell", "v3", "v4"}}) {
    CAPTURE(processor);
    check_refused(run_on(processor, lacks, {"--version"}),
                  "TAPESTRY_LEVEL=" + lacks + ": this processor lacks the instructions");
    if (has.empty()) continue;
    if (std::ranges::count(levels, has) == 0) {
      check_refused(run_on(processor, has, {"--version"}), "TAPESTRY_LEVEL=" + has + ": not built");
      continue;
    }
    const TemporaryFolder folder;
    check_prints(
        run_on(processor, "", {"train", "karate", "train.steps=2", "--out", folder.path("run")}),
        {"x86-64-" + has + ", ", "step 2/2"});
  }
}

TEST_CASE("levels: trainings agree within 1e-4, and a resumed run names the change") {
  const Strings levels = levels_here();
  const TemporaryFolder folder;
  const auto train = [&](const std::string& level, const std::string& run, const std::string& steps,
                         const Words& more = {}) {
    const Finished finished = must(run_at(
        level,
        Words(
            "train sort --out {} --threads 2 train.steps={} optim.decay_steps=20 train.log_every=1",
            folder.path(run), steps) +
            more));
    return finished.out;
  };
  const auto losses = [&](const std::string& run) {
    std::vector<double> found;
    for (const std::string& line : lines_of(read_bytes(folder.path(run) + "/metrics.jsonl")))
      found.push_back(Json::parse(line)["loss"]);
    return found;
  };
  for (const std::string& level : levels)
    check_says(lines_of(train(level, level, "20")).front(), {"x86-64-" + level + ", "});
  for (const std::string& level : levels) {
    const std::vector<double> here = losses(level), there = losses(levels.front());
    REQUIRE(here.size() == 21);  // and the evaluation
    for (std::size_t i = 0; i < here.size(); ++i)
      CHECK(here[i] == doctest::Approx(there[i]).epsilon(1e-4));
  }
  if (levels.size() < 2) {
    MESSAGE("one level is built and supported: none to compare it with");
    return;
  }
  const std::string resumed = train(levels.back(), levels.front(), "25", "--resume");
  check_says(resumed, {"was trained with \"x86-64-" + levels.front(),
                       "resumes with \"x86-64-" + levels.back()});
  const std::string again = train(levels.back(), levels.front(), "26", "--resume");
  CHECK(!contains(again, "was trained with"));
}

TEST_SUITE_END();

// Tests the program with little address space (ulimit -v).

// Runs with a limit of address space in KiB. A program that waits forever is killed, with status
// 124.
Finished run_within(std::int64_t limit, const TemporaryFolder& folder, const std::string& words) {
  return run_program(
      {"sh", "-c",
       fmt::format("ulimit -v {}; exec timeout 300 {} {}", limit, paths::program, words)},
      {.folder = folder.path()});
}

TEST_SUITE_BEGIN("address space");

TEST_CASE_FIXTURE(TemporaryFolder,
                  "bug: every command waited forever if OpenBLAS found too little address space" *
                      doctest::skip(*paths::emulator != '\0') *  // it reserves more, too
                      not_sanitized("the sanitizers reserve more than such a limit leaves")) {
  for (const std::int64_t limit : {50'000, 100'000, 150'000, 200'000, 250'000, 300'000, 400'000}) {
    CAPTURE(limit);
    const std::string run = fmt::format("run-{}", limit);
    for (const std::string& words :
         {std::string("list"), std::string("plan sort --seconds 0"),
          "train sort --threads 1 --quiet --set train.steps=2 --out " + run}) {
      CAPTURE(words);
      const Finished finished = run_within(limit, *this, words);
      INFO(finished.err);
      CHECK(finished.status <= 2);
      CHECK(lines_of(finished.err).size() == (finished.status == 0 ? 0 : 1));
      if (limit >= 300'000) CHECK(finished.status == 0);
    }
  }
}

TEST_CASE("address space: commands that need OpenBLAS say how much it takes, and draw with enough" *
          doctest::skip(*paths::emulator != '\0') *
          not_sanitized("the sanitizers reserve more than such a limit leaves")) {
  const TemporaryFolder folder;
  must(
      tapestry_run("train clothes-vae --out vae model.latent=5 train.steps=1 "
                   "data.training_images=20 data.test_images=5",
                   {.folder = folder.path()}));
  check_fails(
      run_within(300'000, folder, "latent vae"),
      {"OpenBLAS, which computes principal components, needs 352 MB of address space", "ulimit -v"},
      1);
  check_prints(tapestry_run("latent vae", {.folder = folder.path()}), {".png"});
}

TEST_CASE("address space: no command loads OpenBLAS with the program" *
          doctest::skip(*paths::emulator != '\0')) {  // ldd works for this machine's libraries only
  // libtapestry.so.0 needs the engine, so both are listed with what they need.
  const std::string library = fs::path(paths::plugins).parent_path() / "libtapestry.so.0";
  const std::string needed = run_program({"ldd", library}).out;
  check_says(needed, {"libtapestry-engine.so.0", "libfmt.so", "libstdc++.so"});
  for (const char* other : {"openblas", "libblas", "liblapack", "gfortran"})
    CHECK_MESSAGE(!contains(needed, other), other);
  check_says(run_program({"ldd", plugin_path("linear_algebra")}).out, {"blas"});
}

TEST_SUITE_END();

}  // namespace
}  // namespace tapestry
