#include <doctest/doctest.h>

#include <map>
#include <regex>
#include <sstream>

#include "tests/support/labels.hpp"
#include "tests/support/process.hpp"

// Tests the packages for Linux systems other than Debian, and the launcher there.
namespace tapestry {
namespace {

// The build as train/packaging/tree installs it.
class Tree : public TemporaryFolder {
 public:
  Tree() : TemporaryFolder(fs::temp_directory_path().string()) {
    must(run_program({source_path("train/packaging/tree"), paths::build, tree()}));
  }
  std::string tree() const { return path("tree"); }
  std::string program() const { return tree() + "/bin/tapestry"; }
};

// Returns why this machine cannot make packages for others; "" if it can.
std::string lacks() {
  if (run_program({"sh", "-c", "command -v patchelf dpkg"}).status != 0)
    return "patchelf or dpkg is not installed";
  const std::string glibc = run_program({"getconf", "GNU_LIBC_VERSION"}).out;
  return glibc <= "glibc 2.36\n" ? "" : "packages for other systems are made on Debian 12";
}

using Version = std::vector<int>;

// Returns the versions of a prefix that a file needs: {2, 34} for GLIBC_2.34.
std::vector<Version> versions(const std::string& symbols, const std::string& prefix) {
  std::vector<Version> found;
  const std::regex version("\\(" + prefix + "_([0-9.]+)\\)");
  for (auto match = std::sregex_iterator(symbols.begin(), symbols.end(), version);
       match != std::sregex_iterator(); ++match) {
    std::istringstream parts((*match)[1].str());
    found.emplace_back();
    for (std::string part; std::getline(parts, part, '.');) found.back().push_back(std::stoi(part));
  }
  return found;
}

const std::map<std::string, Version> newest_versions = {
    {"GLIBC", {2, 34}}, {"GLIBCXX", {3, 4, 29}}, {"CXXABI", {1, 3, 13}}, {"GCC", {4, 0}}};

// The libraries that every system has; PNG figures need its cairo, if there is one.
const Strings of_the_system = {"libc.so.6",      "libm.so.6",     "ld-linux-x86-64.so.2",
                               "libstdc++.so.6", "libgcc_s.so.1", "libcairo.so.2"};

TEST_SUITE_BEGIN("install");

TEST_CASE("portable: all files need glibc 2.34, the libstdc++ of GCC 11, and what is beside them" *
          doctest::skip(*paths::emulator != '\0') *
          not_sanitized("the sanitizers' own library needs a newer glibc")) {
  if (const std::string why = lacks(); !why.empty()) return left_out(why);
  const Tree tree;
  int files = 0;
  std::int64_t bytes = 0;
  for (const auto& entry : fs::recursive_directory_iterator(tree.tree())) {
    if (!entry.is_regular_file()) continue;
    bytes += static_cast<std::int64_t>(entry.file_size());
    const std::string path = entry.path().string();
    if (!read_bytes(path).starts_with("\x7f"
                                      "ELF"))
      continue;
    ++files;
    CAPTURE(path);
    const std::string symbols = must(run_program({"objdump", "-T", path})).out;
    for (const auto& [prefix, newest] : newest_versions)
      for (const Version& version : versions(symbols, prefix))
        CHECK_MESSAGE(version <= newest, prefix, " ", fmt::format("{}", version));
    const std::string dynamic = must(run_program({"objdump", "-p", path})).out;
    const std::regex needed("NEEDED +([^\n]+)");
    for (auto match = std::sregex_iterator(dynamic.begin(), dynamic.end(), needed);
         match != std::sregex_iterator(); ++match) {
      const std::string name = (*match)[1];
      CHECK_MESSAGE((std::ranges::count(of_the_system, name) == 1 ||
                     name == "libtapestry-engine.so.0" || contains(name, "-tapestry.so.")),
                    name);
    }
  }
  CHECK(files >= 12);
  CHECK(bytes <= 15'000'000);
}

TEST_CASE("portable: the program runs through a link from anywhere, and finds latent codes" *
          doctest::skip(*paths::emulator != '\0') *
          not_sanitized("the sanitizers' own library is not copied")) {
  if (const std::string why = lacks(); !why.empty()) return left_out(why);
  const Tree tree;
  const std::string link = tree.path("here");
  fs::create_symlink(tree.program(), link);
  const auto run = [&](const Words& words) {
    return must(run_program(Words{link} + words, {.folder = tree.path()})).out;
  };
  run("train clothes-vae --quiet --out vae --set train.steps=2 --set data.training_images=50 "
      "--set data.test_images=10");
  run("latent vae --out codes.svg");
  CHECK(tree.read("codes.svg").starts_with("<svg"));
  const std::string mapped = must(run_program({"ldd", fs::canonical(link)})).out;
  CHECK(!contains(mapped, "not found"));
}

TEST_CASE_FIXTURE(TemporaryFolder,
                  "launcher: without apt it names what is missing, or calls CMake") {
  fs::create_directory(path("bin"));
  for (const std::string tool : {"cat", "c++", "dirname", "flock", "grep", "head", "id", "mkdir",
                                 "mktemp", "readlink", "rm", "sed", "sh", "tail", "tr"}) {
    const std::string found = run_program({"sh", "-c", "command -v " + tool}).out;
    fs::create_symlink(found.substr(0, found.find('\n')), path("bin/" + tool));
  }
  fs::copy_file(source_path("tapestry"), path("tapestry"));
  write("headers/fmt/format.h", "");
  const auto launch = [&](const std::string& compiler) {
    return run_program({"env", "-i", "PATH=" + path("bin"), "CXX=" + compiler, path("tapestry")});
  };
  const std::string without = "c++ -nostdinc -I" + path("headers");
  check_fails(launch(without),
              {"apt cannot be used here", "cmake, ninja, xtensor(<0.26), ", "cairo"}, 1);
  CHECK(!contains(launch(without).err, "fmt"));
  for (const std::string tool : {"cmake", "ninja"}) {
    write("bin/" + tool, "#!/bin/sh\necho called with \"$*\"\nexit 1\n");
    fs::permissions(path("bin/" + tool), fs::perms::owner_all);
  }
  check_says(launch("c++").err, {"configuring build/release", "called with -S " + path()});
}

// In the index of Python packages the name tapestry belongs to another project.
TEST_CASE("portable: no page installs the Python package of another project") {
  const std::regex foreign(
      "(pip3?|pipx|uv pip|uvx?) [a-z]*( --?[^ ]*)* ?['\"]?tapestry(?![-_/.\\w])");
  const auto is_foreign = [&](const std::string& text) { return std::regex_search(text, foreign); };
  for (const char* bad : {"pip install tapestry", "pipx install tapestry\n", "uvx tapestry train",
                          "pip install -U 'tapestry'"})
    CHECK_MESSAGE(is_foreign(bad), bad);
  for (const char* good : {"pip install tapestry_train-0.1.0-py3-none-manylinux_2_34_x86_64.whl",
                           "pip install tapestry-train", "pip install ./tapestry/x.whl"})
    CHECK_MESSAGE(!is_foreign(good), good);
  int pages = 0;
  CHECK(!is_foreign(read_bytes(source_path("README.md"))));
  for (const char* folder : {"autograd", "data", "layers", "optim", "tests", "train"})
    for (const auto& entry : fs::recursive_directory_iterator(source_path(folder))) {
      const std::string path = entry.path().string();
      if (!path.ends_with(".md") && !path.ends_with("/tapestry.py")) continue;
      ++pages;
      CHECK_MESSAGE(!is_foreign(read_bytes(path)), path);
    }
  CHECK(pages > 20);
}

TEST_SUITE_END();

}  // namespace
}  // namespace tapestry
