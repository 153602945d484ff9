#include <doctest/doctest.h>

#include <set>

#include "tests/support/installed.hpp"
#include "tests/support/labels.hpp"

// Tests the headers that are installed as <tapestry/NAME.hpp>, and own ops that are built on them.
namespace tapestry {
namespace {

bool is_installed(const std::string& program) {
  try {
    return run_program({program, "--version"}).status == 0;
  } catch (const std::invalid_argument&) {
    return false;
  }
}

// Returns the compilers that are installed, of which the first built the tests' other programs.
Strings compilers() {
  Strings found = {"g++"};
  for (const char* clang : {"clang++-16", "clang++-19", "clang++"})
    if (found.size() == 1 && is_installed(clang)) found.push_back(clang);
  if (found.size() == 1) left_out("Clang is not installed");
  return found;
}

// Returns whether programs can be built by pkg-config; if not, a test says so.
bool has_pkg_config() {
  const bool is_here = is_installed("pkg-config");
  if (!is_here) left_out("pkg-config is not installed");
  return is_here;
}

// Returns the level of the engine that the loader chooses for a program, "v3".
std::string level_of_programs(const Installed& package) {
  const std::string version = must(run_program({"env", "-u", "TAPESTRY_LEVEL",
                                                package.prefix() + "/bin/tapestry", "--version"}))
                                  .out;
  return version.substr(version.find("x86-64-") + 7, 2);
}

TEST_SUITE_BEGIN("install");

TEST_CASE("public headers: each compiles alone, by each compiler" *
          not_sanitized("the headers are the same")) {
  const Installed package;
  std::set<std::string> names;
  for (const auto& entry : fs::directory_iterator(package.prefix() + "/include/tapestry"))
    if (entry.path().extension() == ".hpp") names.insert(entry.path().filename().string());
  for (const char* stable :
       {"elementwise.hpp", "layers.hpp", "model.hpp", "ops.hpp", "optim.hpp", "task.hpp"})
    CHECK(names.contains(stable));
  const std::string include = package.prefix() + "/include";
  for (const std::string& compiler : compilers())
    for (const std::string& name : names) {
      CAPTURE(compiler);
      CAPTURE(name);
      const std::string source = package.write(
          "alone.cpp", fmt::format("#include <tapestry/{0}>\n#include <tapestry/{0}>\n", name));
      const Finished compiled =
          run_program({compiler, "-std=c++20", "-fsyntax-only", "-Wall", "-Wextra", "-Wpedantic",
                       "-Werror", "-I" + include, "-I" + include + "/tapestry", source});
      CHECK_MESSAGE(compiled.status == 0, compiled.err.substr(0, 2000));
    }
}

TEST_CASE("public headers: layers.hpp and optim.hpp include all headers of their folders") {
  for (const std::string folder : {"layers", "optim"}) {
    const std::string text = read_bytes(source_path("train/public/" + folder + ".hpp"));
    for (const auto& entry : fs::recursive_directory_iterator(source_path(folder)))
      if (entry.path().extension() == ".hpp") {
        const std::string header = fs::relative(entry.path(), paths::source).string();
        CHECK_MESSAGE(contains(text, "#include \"" + header + "\"\n"), header);
      }
  }
}

TEST_CASE("install: the examples of the minor version's first release compile, and train" *
          not_sanitized("the other programs are built without")) {
  const Installed package;
  const std::string programs = package.build("tests/example_0.1", {"-DCMAKE_BUILD_TYPE=Debug"});
  const std::string losses = must(run_program({programs + "/training"})).out;
  CHECK(std::stod(lines_of(losses).back().substr(16)) < 0.001);
  CHECK(std::stod(lines_of(must(run_program({programs + "/ranks"})).out).back().substr(16)) <
        0.001);
  check_fails(run_program({programs + "/model", package.path("nowhere")}), {"nowhere: no such run"},
              1);
}

TEST_CASE("own ops: the example is checked and trains, by CMake and by pkg-config" *
          not_sanitized("the other programs are built without")) {
  const Installed package;
  const std::string program =
      package.build("tests/example_op", {"-DCMAKE_BUILD_TYPE=Release"}) + "/example_op";
  const std::string printed = must(run_program({program})).out;
  check_says(printed, {"basis.centers: right", "out.weight: right", "out.bias: right"});
  CHECK(std::stod(lines_of(printed).back().substr(16)) < 0.01);

  if (!has_pkg_config()) return;
  check_says(tapestry_run("--version").out,
             {"tapestry " + package.pkg_config("--modversion").front() + " "});
  const std::string other =
      package.compile(compilers().back(), "v2", source_path("tests/example_op/main.cpp"));
  CHECK(must(run_program({other})).out == printed);
}

// Prints, for each op, whether this program's own one has the bits of the built-in one, in its
// value and its gradient.
constexpr const char* bits = R"(
#include <fmt/core.h>

#include <algorithm>
#include <tapestry/elementwise.hpp>
#include <tapestry/ops.hpp>

using namespace tapestry;

template <class Op>
std::pair<Array, Array> outcome(const Op& op, const Tensor& x, const Array& gradient) {
  Tape tape;
  const Tensor y = op(x);
  return {y.value(), tape.backward(y, gradient)[x]};
}

bool same(const Array& a, const Array& b) {
  return std::equal(a.raw(), a.raw() + a.bytes(), b.raw());
}

template <class BuiltIn, class Own>
void compare(const char* name, const BuiltIn& built_in, const Own& own) {
  for (const DType dtype : {DType::float32, DType::float64}) {
    Array values({10007}), other({10007});
    Random random(1, Stream::data);
    random.fill_normal(values, 0, 2);
    random.fill_normal(other, 0, 2);
    const Tensor x = Tensor::variable(values.to(dtype));
    const auto theirs = outcome(built_in, x, other.to(dtype));
    const auto ours = outcome(own, x, other.to(dtype));
    const bool are_same = same(theirs.first, ours.first) && same(theirs.second, ours.second);
    fmt::print("{} of {} {}\n", name, theirs.first, are_same ? "same" : "differs");
  }
}

int main() {
  const auto bent = [](auto v, auto where_positive) {
    using V = decltype(v);
    return select(where_positive > V(0), v, v * V(Scalar<V>(0.01)));
  };
  compare("leaky_relu", [](const Tensor& x) { return leaky_relu(x); }, [=](const Tensor& x) {
    return unary<Saves::output>("own", x, [=](auto v) { return bent(v, v); }, bent);
  });
  compare("sqrt", [](const Tensor& x) { return tapestry::sqrt(x * x); }, [](const Tensor& x) {
    return unary<Saves::output>("own", x * x, [](auto v) { return sqrt(v); },
                                [](auto g, auto y) { return g / (y + y); });
  });
  compare("squared_error", [](const Tensor& x) { return squared_error(x, x * 0.5); },
          [](const Tensor& x) {
    return binary("own", x, x * 0.5, [](auto v, auto w) { return (v - w) * (v - w); },
                  [](auto g, auto v, auto w) { return (g + g) * (v - w); },
                  [](auto g, auto v, auto w) { return (g + g) * (w - v); });
  });
  compare("tanh", [](const Tensor& x) { return tapestry::tanh(x); }, [](const Tensor& x) {
    return unary<Saves::output>("own", x, [](auto v) { return tanh(v); },
                                [](auto g, auto y) { return g - g * y * y; });
  });
  compare("sigmoid", [](const Tensor& x) { return sigmoid(x); }, [](const Tensor& x) {
    return unary<Saves::output>("own", x, [](auto v) { return logistic(v); }, [](auto g, auto y) {
      return g * y * (Scalar<decltype(y)>(1) - y);
    });
  });
}
)";

TEST_CASE("own ops: they have the built-in ops' bits, by each compiler" *
          not_sanitized("the other programs are built without")) {
  if (!has_pkg_config()) return;
  const Installed package;
  const std::string source = package.write("bits.cpp", bits), level = level_of_programs(package);
  for (const std::string& compiler : compilers()) {
    CAPTURE(compiler);
    const Strings lines =
        lines_of(must(run_program({package.compile(compiler, level, source)})).out);
    CHECK(lines.size() == 10);
    for (const std::string& line : lines) CHECK_MESSAGE(line.ends_with(" same"), line);
  }
  // At a lower level than the engine's they have them without exp and the like, which use fma.
  const Strings lines = lines_of(must(run_program({package.compile("g++", "v2", source)})).out);
  int exact = 0;
  for (const std::string& line : lines) {
    if (line.starts_with("tanh") || line.starts_with("sigmoid")) continue;
    CHECK_MESSAGE(line.ends_with(" same"), line);
    ++exact;
  }
  CHECK(exact == 6);
}

TEST_CASE("own ops: tapestry_LEVEL chooses the flags, and an unknown level is refused") {
  const Installed package;
  const auto configured = [&](const std::string& level) {
    return run_program({"cmake", "-S", source_path("tests/example_op"), "-B",
                        package.path("level-" + level), "-G", "Ninja",
                        "-DCMAKE_EXPORT_COMPILE_COMMANDS=ON",
                        "-DCMAKE_PREFIX_PATH=" + package.prefix(), "-Dtapestry_LEVEL=" + level});
  };
  must(configured("v2"));
  check_says(read_bytes(package.path("level-v2/compile_commands.json")),
             {"-march=x86-64-v2 -ffp-contract=off"});
  const Finished refused = configured("v9");
  CHECK(refused.status != 0);
  check_says(refused.err, {"tapestry_LEVEL=v9: no such level", "v2;v3;v4"});
}

TEST_SUITE_END();

}  // namespace
}  // namespace tapestry
