#include <dlfcn.h>
#include <doctest/doctest.h>

#include "autograd/engine.hpp"
#include "tests/support/labels.hpp"
#include "tests/support/process.hpp"

// Tests the program with little address space (ulimit -v).
namespace tapestry {
namespace {

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
