#include <doctest/doctest.h>

#include <cmath>
#include <cstdio>
#include <sstream>

#include "tests/support/labels.hpp"
#include "tests/support/run_fixture.hpp"

namespace tapestry {
namespace {

std::string must_execute(const Words& command) { return must(run_program(command)).out; }

// Returns the elements of the RPATH and the RUNPATH of an ELF file.
Strings rpaths_of(const std::string& file) {
  Strings elements;
  for (const std::string& line : lines_of(must_execute({"readelf", "-d", "-W", file}))) {
    if (!contains(line, "(RPATH)") && !contains(line, "(RUNPATH)")) continue;
    const std::size_t begin = line.find('[') + 1;
    std::istringstream list(line.substr(begin, line.rfind(']') - begin) + ":");
    for (std::string element; std::getline(list, element, ':');) elements.push_back(element);
  }
  return elements;
}

bool is_elf(const fs::directory_entry& entry) {
  if (!entry.is_regular_file() || entry.is_symlink() || entry.path().extension() == ".o")
    return false;
  std::string magic(4, ' ');
  std::ifstream(entry.path(), std::ios::binary).read(magic.data(), 4);
  return magic ==
         "\x7f"
         "ELF";
}

// Returns whether the loader's folder does not depend on the current folder: it is absolute or
// relative to the file.
bool is_rpath_safe(const std::string& element, const fs::path& file, const std::string& tree) {
  constexpr std::string_view origin = "$ORIGIN";
  if (!element.starts_with(origin)) return element.starts_with('/');
  const std::string rest = element.substr(origin.size());
  const fs::path folder = fs::path(file.parent_path().string() + rest).lexically_normal();
  return (rest.empty() || rest.starts_with('/')) && folder.string().starts_with(tree + "/");
}

// The levels, and values of GLIBC_TUNABLES that hide higher levels from glibc.
const std::vector<std::pair<std::string, std::string>> levels_by_glibc = {
    {"x86-64-v4", ""},
    {"x86-64-v3", "glibc.cpu.hwcaps=-AVX512F"},
    {"x86-64-v2", "glibc.cpu.hwcaps=-AVX512F,-AVX2"}};

TEST_SUITE_BEGIN("install");

TEST_CASE("bug: a plug-in loaded libraries from the current folder") {
  const TemporaryFolder folder(fs::temp_directory_path().string());
  const std::string prefix = folder.path("prefix"), build = paths::build;
  must_execute(Words("cmake --install {} --prefix {}", build, prefix));
  CHECK(is_rpath_safe("$ORIGIN/../lib", prefix + "/bin/program", prefix));
  for (const std::string unsafe : {"", "lib", "./lib", "$ORIGIN/../../lib", "$ORIGINS"})
    CHECK_FALSE(is_rpath_safe(unsafe, prefix + "/bin/program", prefix));
  int files = 0;
  for (const auto& [tree, within] :
       {std::pair{build, "/bin"}, {build, "/lib"}, {build, "/tests"}, {prefix, ""}})
    for (const auto& entry : fs::recursive_directory_iterator(tree + within)) {
      if (!is_elf(entry)) continue;
      ++files;
      CAPTURE(entry.path().string());
      for (const std::string& element : rpaths_of(entry.path().string()))
        CHECK_MESSAGE(is_rpath_safe(element, entry.path(), tree), "'", element, "'");
    }
  CHECK(files >= 8);  // the programs, a library and a plug-in, built and installed
}

TEST_CASE("install: another program finds the library with CMake, and trains" *
          not_sanitized("the other program is built without")) {
  const TemporaryFolder folder(fs::temp_directory_path().string());
  const std::string prefix = folder.path("prefix"), build = folder.path("build");
  must_execute(Words("cmake --install {} --prefix {}", paths::build, prefix));
  must_execute({"cmake", "-S", source_path("tests/example"), "-B", build, "-G", "Ninja",
                "-DCMAKE_BUILD_TYPE=Release", "-DCMAKE_PREFIX_PATH=" + prefix});
  check_says(read_bytes(build + "/CMakeCache.txt"), {"tapestry_DIR:PATH=" + prefix});
  must_execute("cmake --build " + build);

  const auto lines = lines_of(must_execute({build + "/example"}));
  REQUIRE(lines.size() == 11);
  CHECK(lines.back().starts_with("step 1000  loss "));
  CHECK(std::stod(lines.front().substr(16)) > 0.1);
  CHECK(std::stod(lines.back().substr(16)) < 0.001);

  // The installed program runs in any folder.
  check_says(must_execute({prefix + "/bin/tapestry", "--version"}), {"tapestry 0."});
}

TEST_CASE("install: another program trains from a ring buffer, and serves forecasts meanwhile" *
          not_sanitized("the other program is built without")) {
  const TemporaryFolder folder(fs::temp_directory_path().string());
  const std::string prefix = folder.path("prefix"), build = folder.path("build");
  must_execute(Words("cmake --install {} --prefix {}", paths::build, prefix));
  must_execute({"cmake", "-S", source_path("tests/example_training"), "-B", build, "-G", "Ninja",
                "-DCMAKE_BUILD_TYPE=Release", "-DCMAKE_PREFIX_PATH=" + prefix});
  must_execute("cmake --build " + build);
  const std::string model = folder.path("forecaster.safetensors");
  const Words command{build + "/example_training", model};
  const Strings lines = lines_of(must_execute(command));
  REQUIRE(lines.size() == 4);
  double before = 0, after = 0;
  for (int round = 0; round < 3; ++round) {
    REQUIRE(std::sscanf(lines[round].c_str(), "round %*d: loss %lf, then %lf", &before, &after) ==
            2);
    CHECK(after < before);
  }
  CHECK(lines[3] == "forecasts were served meanwhile");
  CHECK(load_checkpoint(model).state.step == 200);
}

TEST_CASE("install: another program uses a trained model from threads, and encodes images" *
          not_sanitized("the other program is built without")) {
  const TemporaryFolder folder(fs::temp_directory_path().string());
  const std::string prefix = folder.path("prefix"), build = folder.path("build");
  must_execute(Words("cmake --install {} --prefix {}", paths::build, prefix));
  must_execute({"cmake", "-S", source_path("tests/example_model"), "-B", build, "-G", "Ninja",
                "-DCMAKE_BUILD_TYPE=Release", "-DCMAKE_PREFIX_PATH=" + prefix});
  must_execute("cmake --build " + build);

  const RunFixture fixture;
  fixture.must_train("text", "words");
  fixture.must_train("vae", "vae");
  const std::string example = build + "/example_model", words = fixture.path("words");
  std::string expected;
  for (int seed = 1; seed <= 4; ++seed)
    expected +=
        (seed == 1 ? "" : "---\n") +
        must_execute({prefix + "/bin/tapestry", "sample", words, "--prompt", "green b", "--tokens",
                      "60", "--temperature", "0.8", "--seed", fmt::to_string(seed)});
  CHECK(must_execute({example, words, "green b"}) == expected);
  for (const auto& [level, tunables] : levels_by_glibc) {
    CAPTURE(level);
    const std::string engine = prefix + "/lib/glibc-hwcaps/" + level + "/libtapestry-engine.so.0";
    const Words tapestry("env TAPESTRY_LEVEL={} {}/bin/tapestry", level, prefix);
    if (!fs::exists(engine) || run_program(tapestry + Words("list")).status != 0) continue;
    const Finished at_level = run_program(
        {"env", "LD_DEBUG=files", "GLIBC_TUNABLES=" + tunables, example, words, "green b"});
    check_says(at_level.err, {"calling init: " + engine});
    const std::string sampled =
        must_execute(tapestry + Words("sample {} --prompt", words) + Words{"green b"} +
                     Words("--tokens 60 --temperature 0.8 --seed 1"));
    CHECK(at_level.out.starts_with(sampled.substr(0, sampled.find('\n'))));
  }
  const auto numbers = lines_of(must_execute(Words("{} {}", example, fixture.path("vae"))));
  REQUIRE(numbers.size() == 1);
  std::istringstream means(numbers.front());
  int latent = 0;
  for (std::string mean; means >> mean; ++latent) {
    std::size_t read = 0;
    CHECK(std::isfinite(std::stod(mean, &read)));
    CHECK(read == mean.size());
  }
  CHECK(latent == 2);
  check_fails(run_program({example, folder.path("nowhere")}), {"nowhere: no such run"}, 1);
}

TEST_CASE("install: a C++ program trains on several processes with the same losses" *
          not_sanitized("the other program is built without") * doctest::test_suite("mpi")) {
  const TemporaryFolder folder(fs::temp_directory_path().string());
  const std::string prefix = folder.path("prefix"), build = folder.path("build");
  must_execute(Words("cmake --install {} --prefix {}", paths::build, prefix));
  must_execute({"cmake", "-S", source_path("tests/example_ranks"), "-B", build, "-G", "Ninja",
                "-DCMAKE_BUILD_TYPE=Release", "-DCMAKE_PREFIX_PATH=" + prefix});
  must_execute("cmake --build " + build);
  const std::string alone = must_execute({build + "/example_ranks"});
  CHECK(std::stod(lines_of(alone).back().substr(16)) < 0.001);
  for (const char* allowed : {"OMPI_ALLOW_RUN_AS_ROOT", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM"})
    setenv(allowed, "1", 1);
  CHECK(must_execute({"mpirun.openmpi", "--oversubscribe", "-n", "3", build + "/example_ranks"}) ==
        alone);
}

TEST_CASE("install: xtensor is an optional component") {
  const TemporaryFolder folder(fs::temp_directory_path().string());
  const std::string prefix = folder.path("prefix");
  const Strings install = {"cmake", "--install",   paths::build, "--prefix",
                           prefix,  "--component", "development"};
  REQUIRE(run_program(install).status == 0);
  folder.write("CMakeLists.txt", R"(
cmake_minimum_required(VERSION 3.24)
project(finder LANGUAGES CXX)
set(CMAKE_DISABLE_FIND_PACKAGE_xtensor ${without})
find_package(tapestry REQUIRED COMPONENTS ${components})
foreach(name tapestry::tapestry tapestry::xtensor xtensor)
  if(TARGET ${name})
    message(STATUS "found ${name}.")
  endif()
endforeach()
)");
  const auto find = [&](const std::string& components, const std::string& without) {
    return run_program({"cmake", "-S", folder.path(), "-B", folder.path("build"), "-G", "Ninja",
                        "-DCMAKE_PREFIX_PATH=" + prefix, "-Dcomponents=" + components,
                        "-Dwithout=" + without});
  };
  const Finished plain = find("", "OFF");
  check_says(plain.out, {"found tapestry::tapestry."});
  CHECK(!contains(plain.out, "xtensor"));
  CHECK(find("", "ON").status == 0);
  check_says(find("xtensor", "OFF").out,
             {"found tapestry::tapestry.", "found tapestry::xtensor.", "found xtensor."});
  const Finished without = find("xtensor", "ON"), unknown = find("xtenser", "OFF");
  CHECK(without.status != 0);
  check_says(without.err, {"No component xtensor", "libxtensor-dev"});
  CHECK(unknown.status != 0);
  check_says(unknown.err, {"No component xtenser"});
}

TEST_CASE_FIXTURE(TemporaryFolder,
                  "install: another element type does not compile, with a message that says why") {
  const std::string source = write("main.cpp", R"(
#include "autograd/xtensor.hpp"
tapestry::Array array = tapestry::array_of(xt::xtensor<std::int64_t, 1>{1, 2});
)");
  const Finished compiled = run_program(
      {"c++", "-std=c++20", "-fsyntax-only", std::string("-I") + paths::source, source});
  CHECK(compiled.status != 0);
  check_says(compiled.err, {"an Array holds float, double or std::int32_t"});
}

TEST_SUITE_END();

}  // namespace
}  // namespace tapestry
