#include <doctest/doctest.h>

#include <cctype>

#include "tests/support/aliases.hpp"
#include "tests/support/installed.hpp"
#include "tests/support/labels.hpp"

// Tasks outside of the tree, built on the installed package: tests/example_task/, as a program and
// as a plug-in of the installed program, and what `tapestry new` writes.
namespace tapestry {
namespace {

// The example, compiled once for all tests of this file.
struct Example {
  Installed package;
  std::string programs = package.build("tests/example_task", {"-DCMAKE_BUILD_TYPE=Release"});
  std::string config = source_path("tests/example_task/words.toml"),
              plugin = programs + "/libwords.so";

  Finished own(const Words& words) const {
    return run_program(Words{programs + "/words"} + with_sets(words));
  }
  // The installed program at the best level, as an own program, which knows no TAPESTRY_LEVEL.
  Words program() const { return Words("env -u TAPESTRY_LEVEL {}/bin/tapestry", package.prefix()); }
  Finished installed(const Words& words, const RunOptions& options = {}) const {
    return run_program(program() + with_sets(words), options);
  }
  Finished with_plugin(const Words& words, const RunOptions& options = {}) const {
    return installed(Words("--plugin {}", plugin) + words, options);
  }
};

const Example& example() {
  static const Example built;
  return built;
}

// Copies the plug-in as `name` with `text` replaced, and `more` behind it.
std::string changed_plugin(const TemporaryFolder& folder, const std::string& name,
                           const std::string& text = "", const std::string& by = "",
                           const std::string& more = "") {
  std::string bytes = read_bytes(example().plugin);
  for (std::size_t at = 0; !text.empty() && (at = bytes.find(text, at)) != bytes.npos;)
    bytes.replace(at, text.size(), by);
  return folder.write(name, bytes + more);
}

// Returns "words, 0123456789abcdef" of a run's config.
std::string recorded_plugin(const std::string& run) {
  const std::string config = read_bytes(run + "/config.toml");
  const std::size_t begin = config.find("plugin = \"") + 10;
  return config.substr(begin, config.find('"', begin) - begin);
}

// Returns the checksums of the parameters at each evaluation.
Strings parameters_of(const std::string& run) {
  Strings sums;
  for (const std::string& line : lines_of(read_bytes(run + "/metrics.jsonl")))
    if (contains(line, "parameters_xxh3"))
      sums.push_back(Json::parse(line)["parameters_xxh3"].get<std::string>());
  return sums;
}

TEST_SUITE_BEGIN("own tasks" * not_sanitized("the other programs are built without"));

TEST_CASE_FIXTURE(TemporaryFolder, "own task: a program of one source has every command") {
  const std::string run = path("run"), config = example().config;
  const auto prints = [&](const Words& words, const Strings& parts) {
    check_says(must(example().own(words)).out, parts);
  };
  prints("config " + config, {"width = 16"});
  prints(Words("plan {} --seconds 0", config), {"encoder"});
  prints(Words("gradcheck {}", config), {"all gradients agree"});
  prints(Words("doctor {}", config), {"ok    one batch", "ok    resume"});
  prints(Words("train {} --out {}", config, run),
         {"test_accuracy 1", fmt::format("\n{}/words sample {} prints", example().programs, run)});
  prints(Words("eval {} --test", run), {"accuracy 1"});
  CHECK(lines_of(must(example().own(Words("sample {} --count 3", run))).out).size() == 3);
  prints(Words("verify {}", run), {"bitwise identical"});
  prints(Words("replay {} --step 50", run), {"accuracy"});
  prints(Words("watch {} --once", run), {"300"});
  prints("report " + run, {"report.html"});
  check_says(read_bytes(run + "/report.html"), {"Confusion matrix", "a word"});
  prints(Words("attention {} --index 2 --json", run), {"encoder.0.attention"});
  prints(Words("latent {} --json", run), {"\"dimensions\":16"});
  prints(Words("export {} --format onnx --out {}", run, path("model.onnx")), {"ONNX"});
  CHECK(has("model.onnx"));
  prints(Words("export {} --format safetensors --out {}", run, path("weights")), {"weights"});
  prints(Words("search {} --vary=model.width=8,16 --out {} train.steps=20 train.eval_every=10",
               config, path("search")),
         {"model.width"});
  must(example().own(Words("train {} --out {} --quiet model.width=4", config, path("narrow"))));
  prints(Words("compare {} {}", run, path("narrow")), {"accuracy", "model.width"});
  const std::string data = write("words.txt", "aabbbcd\nxyz\ndddddab\n");
  prints(Words("predict {} {}", run, data), {"aabbbcd,b,", "xyz,,,,,,", "dddddab,d,"});
  check_says(must(run_program({example().programs + "/predict_words", run, "aabbbcd", "xyz"})).out,
             {"aabbbcd: b\n", "xyz: expected 7 letters from a to d\n"});
}

TEST_CASE_FIXTURE(TemporaryFolder, "own task: as a plug-in it gives the program's bits") {
  const std::string program = path("program"), plugin = path("plugin");
  const Words train("train {} --quiet train.steps=60 train.checkpoint_every=5 --out",
                    example().config);
  must(example().own(train + Words{program}));
  // Killed at a checkpoint, and resumed.
  const Finished killed = example().with_plugin(
      train + Words{plugin},
      {.when = [&] { return fs::exists(plugin + "/checkpoint.safetensors"); }});
  CHECK((killed.status == 128 + SIGKILL || killed.status == 0));
  must(example().with_plugin(train + Words{plugin, "--resume"}));
  check_says(must(example().with_plugin("verify " + plugin)).out, {"bitwise identical"});
  CHECK(parameters_of(program) == parameters_of(plugin));
  CHECK(!parameters_of(program).empty());

  const std::string recorded = recorded_plugin(plugin);
  CHECK(recorded.starts_with("words, "));
  CHECK(recorded.size() == 7 + 16);
  CHECK(recorded_plugin(program).empty());
  // Each reads the run of the other.
  must(example().own("eval " + plugin));
  must(example().with_plugin("eval " + program));
}

TEST_CASE_FIXTURE(TemporaryFolder,
                  "own task: ranks load the plug-in, too" * doctest::test_suite("mpi")) {
  const std::string alone = path("alone"), together = path("together");
  const Words train = Words("--plugin {} train {} --quiet", example().plugin, example().config) +
                      with_sets("train.steps=20 train.micro_batches=2");
  must(example().installed(train + Words{"--out", alone}));
  for (const char* allowed : {"OMPI_ALLOW_RUN_AS_ROOT", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM"})
    setenv(allowed, "1", 1);
  must(run_program(Words("mpirun.openmpi --oversubscribe -n 2") + example().program() + train +
                   Words{"--out", together}));
  CHECK(parameters_of(alone) == parameters_of(together));
}

TEST_CASE_FIXTURE(TemporaryFolder, "own task: a file that is no plug-in of this build is refused") {
  const auto refused = [&](const Words& words, const Strings& parts) {
    check_fails(example().installed(words), parts);
  };
  const std::string list = "list";
  refused(Words("--plugin {} list", path("nowhere.so")), {"nowhere.so: cannot be opened"});
  refused(Words("--plugin {} list", path()), {"is a folder"});
  refused(Words("--plugin {} list", write("text.so", "text")), {"text.so: is no plug-in"});
  refused(Words("--plugin {} list", write("a b.so", "text")), {"such as libmine.so"});
  const fs::path libraries = fs::path(paths::plugins).parent_path();
  refused(Words("--plugin {} list", (libraries / "libtapestry.so.0").string()), {"is no plug-in"});
  refused("--plugin", {"--plugin: expected a value"});
  refused(Words("list --plugin {}", example().plugin),
          {"give it before the command: tapestry --plugin FILE list"});
  refused(Words("--plugin {} --plugin {} list", example().plugin, example().plugin),
          {"is loaded under the name"});

  // The same library, of another commit and of another libstdc++.
  const std::string bytes = read_bytes(example().plugin), first = "tapestry_build_";
  const std::size_t begin = bytes.find(first) + first.size();
  const std::string build = bytes.substr(begin, bytes.find('\0', begin) - begin);
  const std::string commit = build.substr(0, build.find("_libstdcxx_"));
  const std::string other(commit.size(), '0');
  refused(
      Words("--plugin {} list", changed_plugin(*this, "libold.so", commit, other)),
      {"libold.so: was compiled for commit " + other, "but this Tapestry is of commit " + commit});
  refused(
      Words("--plugin {} list", changed_plugin(*this, "libnew.so", "_libstdcxx_1", "_libstdcxx_9")),
      {"and libstdc++ 9"});

  // A task that is registered twice, by two plug-ins, or by the program and a plug-in.
  const std::string twin = changed_plugin(*this, "libtwin.so");
  refused(Words("--plugin {} --plugin {} list", example().plugin, twin),
          {"task words: registered by ", "libwords.so and by ", "libtwin.so"});
  check_fails(example().own(Words("--plugin {} list", twin)), {"task words: registered by "});
}

TEST_CASE_FIXTURE(TemporaryFolder, "own task: a run and a config require their plug-in") {
  const std::string run = path("run");
  must(example().with_plugin(
      Words("train {} --quiet --out {} train.steps=10", example().config, run)));
  const std::string recorded = recorded_plugin(run);
  for (const Words& words :
       {Words("eval {}", run), Words("sample {}", run), Words("verify {}", run),
        Words("train {} --resume", run), Words("attention {}", run)})
    check_fails(example().installed(words),
                {"plugin = \"" + recorded + "\": the plug-in words is not loaded; give its file",
                 "tapestry --plugin PATH/libwords.so COMMAND"});
  // What only reads records works without it. A report says why the model is missing.
  check_says(must(example().installed(Words("compare {} {}", run, path("run")))).out, {"accuracy"});
  check_says(must(example().installed(Words("watch {} --once", run))).out, {"10"});
  check_says(must(example().installed("report " + run)).err,
             {"lacks a model", "the plug-in words is not loaded"});
  check_says(read_bytes(run + "/report.html"), {"the plug-in words is not loaded"});
  check_says(must(example().with_plugin("report " + run)).out, {"report.html"});
  check_fails(example().installed("report " + run), {"may show what a new page lacks"});
  // A run of the program names no plug-in.
  must(example().own(
      Words("train {} --quiet --out {} train.steps=10", example().config, path("program"))));
  check_fails(example().installed("eval " + path("program")),
              {"task = \"words\": expected one of", "--plugin FILE before the command"});

  // Another build of the plug-in, which has the same code.
  fs::create_directory(path("other"));
  const std::string rebuilt = changed_plugin(*this, "other/libwords.so", "", "", "more");
  check_fails(example().installed(Words("--plugin {} eval {}", rebuilt, run)),
              {"plugin = \"" + recorded + "\": " + rebuilt + " has the checksum",
               "--rebuilt-plugin in place of --plugin"});
  must(example().installed(Words("--rebuilt-plugin={} eval {}", rebuilt, run)));
  check_says(
      must(example().installed(Words("--rebuilt-plugin {} train {} --resume", rebuilt, run))).out,
      {fmt::format("tapestry --rebuilt-plugin {} sample {} prints", rebuilt, run)});
  for (const char* command : {"eval {}", "verify {}", "train {} --resume --quiet", "sample {}"})
    must(example().installed(Words("--plugin {}", rebuilt) + Words(command, run)));
  must(example().installed(
      Words("--plugin {} train {} --resume --quiet train.steps=20", rebuilt, run)));
  CHECK(recorded_plugin(run).starts_with("words, "));
  CHECK(recorded_plugin(run) != recorded);
  check_says(read_bytes(run + "/sessions.jsonl"), {"\"plugin\"", recorded});

  const auto trained = [&](const std::string& required, const Words& more = {}) {
    write("mine.toml", required + read_bytes(example().config));
    return example().with_plugin(
        Words("train {} --out {} train.steps=2", path("mine.toml"), path("mine")) + more);
  };
  check_fails(trained("plugin = \"other\"\n"), {"mine.toml:1:1: plugin = \"other\": the plug-in "
                                                "other is not loaded"});
  check_fails(trained("plugin = \"words, 0123456789abcdef\"\n"), {"has the checksum"});
  check_fails(trained("plugin = \"build/libwords.so\"\n"), {"expected the name of a plug-in"});
  check_fails(trained("plugin = 3\n"), {"expected a string"});
  check_fails(trained("", Words{"--set", "plugin=other"}), {"--set: plugin = \"other\""});
  check_says(must(trained("plugin = \"words\"\n")).out, {"done"});
  CHECK(recorded_plugin(path("mine")).starts_with("words, "));

  // A base cannot require a plug-in.
  write("mine.toml", "plugin = \"other\"\n" + read_bytes(example().config));
  write("based.toml", "base = \"mine.toml\"\n");
  check_says(must(example().with_plugin(
                      Words("train {} --out {} train.steps=2", path("based.toml"), path("based"))))
                 .out,
             {"plugin = \"other\": ignored; a base cannot require a plug-in"});
}

TEST_CASE("own task: the guide shows parts of the example") {
  const std::string page = read_bytes(source_path("train/guide/own-models.md"));
  const std::string code = read_bytes(source_path("tests/example_task/words.cpp"));
  int blocks = 0;
  for (std::size_t begin = 0; (begin = page.find("```cpp\n", begin)) != page.npos; ++blocks) {
    begin += 7;
    const std::string block = page.substr(begin, page.find("```\n", begin) - begin);
    CHECK_MESSAGE(
        (contains(code, block) ||
         contains(read_bytes(source_path("tests/example_task/main.cpp")), block) ||
         contains(read_bytes(source_path("tests/example_task/predict_words.cpp")), block)),
        block);
  }
  CHECK(blocks >= 6);
}

// Writes a folder by `tapestry new`, builds it, runs its tests, and trains.
void check_template(const std::string& task, const Strings& metrics,
                    const std::string& name = "mine") {
  const TemporaryFolder folder(fs::temp_directory_path().string());
  const Installed& package = example().package;
  must(example().installed(Words("new {} --from {}", name, task), {.folder = folder.path()}));
  const std::string mine = folder.path(name), build = mine + "/build",
                    config = fmt::format("{}/{}.toml", mine, name);
  CHECK(lines_of(read_bytes(fmt::format("{}/{}.cpp", mine, name))).size() <= 125);
  must(run_program({"cmake", "-S", mine, "-B", build, "-G", "Ninja",
                    "-DCMAKE_PREFIX_PATH=" + package.prefix(),
                    "-DCMAKE_CXX_FLAGS=-Wall -Wextra -Werror"}));
  must(run_program({"cmake", "--build", build}));
  const Finished tested = run_program({"ctest", "--test-dir", build, "--output-on-failure"});
  CHECK_MESSAGE(tested.status == 0, tested.out);
  check_says(
      must(run_program({build + "/" + name, "train", config}, {.folder = folder.path()})).out,
      metrics);
  must(run_program({build + "/" + name, "report", "runs/" + name}, {.folder = folder.path()}));
  const auto predicted = [&](const std::string& rows) {
    return run_program(
        {build + "/" + name, "predict", "runs/" + name, folder.write("new.csv", rows)},
        {.folder = folder.path()});
  };
  if (task == "points") {
    check_says(must(predicted("x,y\n0.1,0\n1.2,-1.2\n")).out,
               {"0.1,0,inside,", "1.2,-1.2,outside,"});
    check_fails(predicted("x,y\n0.1,0\nwest,0\n"),
                {"task my-points: TaskSpec::predictor: line 3: stof"});
  }
  must(example().installed(Words("--plugin {}/lib{}.so config {}", build, name, config)));
}

TEST_CASE("own task: a folder of `tapestry new` is built, checked and trained") {
  check_template("points", {"test_accuracy 0.9"}, "my-points");
}

TEST_CASE("own task: every other template is built, checked and trained" *
          doctest::test_suite("templates")) {
  check_template("language-model", {"bits_per_letter 0."});
  check_template("image-classification", {"test_accuracy"});
  check_template("graph", {"accuracy"});
  check_template("table", {"test_rmse"});
}

TEST_SUITE_END();

}  // namespace
}  // namespace tapestry
