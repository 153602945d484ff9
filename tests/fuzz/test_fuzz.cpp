#include <doctest/doctest.h>

#include "autograd/check.hpp"
#include "data/graphs/node_graph.hpp"
#include "data/images/images.hpp"
#include "data/series/series.hpp"
#include "data/text/pairs.hpp"
#include "tests/fuzz/target.hpp"
#include "tests/support/process.hpp"

namespace tapestry {
namespace {

const fs::path inputs = source_path("tests/fuzz/inputs");

TEST_SUITE_BEGIN("fuzz");

TEST_CASE("fuzz: every seed and every input that once failed passes") {
  for (const auto& [name, target] : fuzz_targets()) {
    int read = 0;
    for (const auto& entry : fs::directory_iterator(inputs / name)) {
      CAPTURE(entry.path());
      CHECK_NOTHROW(feed(target, read_bytes(entry.path().string())));
      ++read;
    }
    CHECK_MESSAGE(read > 0, name, " has no inputs");
  }
  for (const auto& entry : fs::directory_iterator(inputs))
    CHECK_MESSAGE(fuzz_targets().contains(entry.path().filename().string()), entry.path());
}

TEST_CASE("fuzz: crashes and undocumented exceptions are findings") {
  const auto finds = [](const FuzzTarget& target) {
    try {
      feed(target, "");
    } catch (const std::exception&) {
      return true;
    }
    return false;
  };
  CHECK(!finds([](std::string_view) {}));
  CHECK(!finds([](std::string_view) { throw InputError("line 3: not a number"); }));
  CHECK(finds([](std::string_view) { throw InputError(""); }));
  CHECK(finds([](std::string_view) { throw InputError(std::string(20'000, 'x')); }));
  CHECK(finds([](std::string_view) { throw std::runtime_error("of another type"); }));
}

TEST_CASE("fuzz: every file format of data/ is a target") {
  for (const char* format : {"idx", "picture", "exif", "plain", "lines", "csv", "captions",
                             "citations", "node-tables", "labeled", "rows", "stream"})
    CHECK_MESSAGE(fuzz_targets().contains(format), "the format ", format, " has no fuzz target");
}

TEST_SUITE_END();

}  // namespace
}  // namespace tapestry
