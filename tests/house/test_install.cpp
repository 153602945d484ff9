#include <doctest/doctest.h>

#include "tests/support/process.hpp"

namespace tapestry {
namespace {

TEST_SUITE_BEGIN("install");

TEST_CASE("install: another program finds the library with CMake, and learns the sine") {
  const TemporaryFolder folder(std::filesystem::temp_directory_path().string());
  const std::string prefix = folder.path("prefix"), build = folder.path("build");
  const auto must_run = [&](const std::vector<std::string>& command) {
    const Finished finished = run_program(command);
    INFO(finished.out, finished.err);
    REQUIRE(finished.status == 0);
    return finished.out;
  };
  must_run({"cmake", "--install", TAPESTRY_BINARY_DIR, "--prefix", prefix});
  must_run({"cmake", "-S", TAPESTRY_SOURCE_DIR "/tests/example", "-B", build, "-G", "Ninja",
            "-DCMAKE_BUILD_TYPE=Release", "-DCMAKE_PREFIX_PATH=" + prefix});
  check_says(read_bytes(build + "/CMakeCache.txt"), {"tapestry_DIR:PATH=" + prefix});
  must_run({"cmake", "--build", build});

  const auto lines = lines_of(must_run({build + "/example"}));
  REQUIRE(lines.size() == 11);
  CHECK(lines.back().starts_with("step 1000  loss "));
  CHECK(std::stod(lines.front().substr(16)) > 0.1);
  CHECK(std::stod(lines.back().substr(16)) < 0.001);

  // The installed binary runs from where it is.
  check_says(must_run({prefix + "/bin/tapestry", "--version"}), {"tapestry 0."});
}

TEST_SUITE_END();

}  // namespace
}  // namespace tapestry
