#pragma once

#include <string>

#include "tests/support/process.hpp"

// The package, installed into a folder of its own, and programs that are built on it.
namespace tapestry {

class Installed : public TemporaryFolder {
 public:
  Installed() : TemporaryFolder(fs::temp_directory_path().string()) {
    must(run_program({"cmake", "--install", paths::build, "--prefix", prefix()}));
    for (const auto& entry : fs::recursive_directory_iterator(prefix()))
      if (entry.path().filename() == "tapestry.pc") packages_ = entry.path().parent_path();
  }

  std::string prefix() const { return path("prefix"); }

  // Builds a folder of the sources by CMake, and returns the folder of its programs.
  std::string build(const std::string& folder, const Words& options = {}) const {
    const std::string programs = path("build-" + fs::path(folder).filename().string());
    must(run_program(Words{"cmake", "-S", source_path(folder), "-B", programs, "-G", "Ninja",
                           "-DCMAKE_PREFIX_PATH=" + prefix()} +
                     options));
    must(run_program({"cmake", "--build", programs}));
    return programs;
  }

  // Returns what pkg-config prints about the package, in words.
  Words pkg_config(const Words& questions) const {
    return must(run_program(Words{"env", "PKG_CONFIG_PATH=" + packages_.string(), "pkg-config"} +
                            questions + Words("tapestry")))
        .out;
  }

  // Compiles a source by pkg-config, with the flags of a level for own ops; returns the program.
  std::string compile(const std::string& compiler, const std::string& level,
                      const std::string& source) const {
    const std::string program = path(fmt::format("{}-{}", compiler, level));
    const Words libraries = pkg_config("--variable=libdir");
    must(run_program(Words{compiler, "-std=c++20", "-O2", "-o", program} +
                     pkg_config("--variable=march_" + level) + Words{source} +
                     pkg_config("--cflags --libs") + Words{"-Wl,-rpath," + libraries.front()}));
    return program;
  }

 private:
  fs::path packages_;
};

}  // namespace tapestry
