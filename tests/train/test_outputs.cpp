#include <doctest/doctest.h>
#include <fcntl.h>

#include <algorithm>
#include <cstdlib>
#include <iterator>
#include <set>
#include <sstream>

#include "tests/support/run_fixture.hpp"
#include "train/commands/output.hpp"
#include "train/run/atomic_file.hpp"

// Tests that commands write only the given files, and none that they read.
namespace tapestry {
namespace {

class OutputDesk : public RunFixture {
 public:
  // Checks that the command is refused, and `file` is unchanged.
  void check_refused(const Words& words, const std::string& file,
                     const std::string& says = "is a file that this command reads") const {
    CAPTURE(words.front());
    CAPTURE(words.back());
    const std::string before = read_bytes(path(file));
    check_fails(here(words), {"--out " + words.back(), says, "give another name"});
    CHECK(read_bytes(path(file)) == before);
  }
};

TEST_SUITE_BEGIN("answers");

TEST_CASE_FIXTURE(OutputDesk, "bug: a command overwrote the file that it read") {
  const std::string own = path("own.json");
  REQUIRE(run("tokenizer train story.txt --vocabulary 280 --out own.json").status == 0);
  fs::create_symlink("story.txt", path("link"));
  fs::create_hard_link(path("story.txt"), path("hard"));
  for (const std::string out : {"story.txt", "./story.txt", "link", "hard"}) {
    check_refused({"tokenizer", "train", "story.txt", "--out", out}, "story.txt");
    check_refused({"tokenizer", "encode", "story.txt", "--tokenizer", own, "--out", out},
                  "story.txt");
  }
  CHECK(fs::is_symlink(path("link")));
  check_refused({"tokenizer", "train", "toy.toml", "link", "--out", "story.txt"}, "story.txt");
  check_refused(
      {"tokenizer", "encode", "story.txt", "--tokenizer", "own.json", "--out", "own.json"},
      "own.json");
  REQUIRE(run("tokenizer encode story.txt --tokenizer own.json --out ids").status == 0);
  check_refused({"tokenizer", "decode", "ids", "--tokenizer", own, "--out", "ids"}, "ids");
}

TEST_CASE_FIXTURE(OutputDesk, "bug: figures and reports of a run overwrote its files and data") {
  must_train("text", "run", "train.steps=4");
  check_refused({"report", "run", "--out", "story.txt"}, "story.txt");
  fs::create_hard_link(path("run/metrics.jsonl"), path("page.html"));
  check_refused({"report", "run", "--out", "page.html"}, "run/metrics.jsonl");
  const std::string best = this->best("run"), of_a_run = "is the name of a file of a run";
  check_refused({"sample", "run", "--out", "run/best.safetensors"}, "run/best.safetensors",
                of_a_run);
  check_refused({"report", "run", "--out", "run/metrics.jsonl"}, "run/metrics.jsonl", of_a_run);
  CHECK(run("export run --out run/best.safetensors").status == 2);
  // The same command may be repeated.
  for (int i = 0; i < 2; ++i) {
    CHECK(run("report run --out new.html").status == 0);
    CHECK(run("sample run --tokens 4 --out text").status == 0);
    CHECK(run("attention run --out map").out == "map.png\nmap.svg\n");
  }
}

TEST_CASE_FIXTURE(OutputDesk, "bug: pictures overwrote files that --out did not name") {
  must_train("toy", "run", "train.steps=2");
  must_train("vae", "vae", "train.steps=2");
  for (const char* name : {"pic.svg", "pic.csv", "pic.png.tmp"}) write(name, "mine");
  CHECK(run("attention run --out pic.png").out == "pic.png\n");
  CHECK(run("latent vae --out pic.png").out == "pic.png\n");
  for (const char* name : {"pic.svg", "pic.csv", "pic.png.tmp"}) CHECK(read(name) == "mine");
  CHECK(run("latent vae --out codes.csv").out == "codes.csv\n");
  CHECK(run("attention run --out map.svg").out == "map.svg\n");
  CHECK(!has("map.png"));
  check_says(
      run("attention run --out map.csv").err,
      {"--out map.csv: .csv is not a supported format; expected a name that ends in .png or .svg"});
}

TEST_CASE_FIXTURE(OutputDesk, "outputs: a link's target is written") {
  fs::create_directory(path("sub"));
  fs::create_symlink("../far", path("sub/one"));
  fs::create_symlink("sub/one", path("two"));
  write_bytes(path("two"), "first");  // a link to a link to nothing
  CHECK(read("far") == "first");
  write_bytes(path("two"), "second");
  CHECK(read("far") == "second");
  CHECK(fs::is_symlink(path("two")));
  fs::create_symlink("sub", path("folder"));
  fs::create_symlink("loop", path("loop"));
  CHECK_ERROR(write_bytes(path("folder"), ""), "folder: is a folder");
  CHECK_THROWS_AS(write_bytes(path("loop"), ""), FileError);
  must_train("toy", "run", "train.steps=2");
  for (const char* name : {"best.safetensors", "samples.jsonl"}) {
    const std::string link = path(std::string("to-") + name);
    fs::create_symlink(path("run/") + name, link);
    check_fails(here({"report", path("run"), "--out", link}), {"is the name of a file of a run"});
  }
  fs::create_symlink("../far", path("run/report.html"));
  check_fails(here("report run"), {"run/report.html: is a link in the folder of a run"});
  CHECK(read("far") == "second");
  // Open files are written, not replaced.
  const Finished redirected =
      run_program({"sh", "-c",
                   fmt::format("{} report run --out /dev/stdout --json >out && {} report run --out "
                               "/dev/fd/1 | grep -c '</html>'",
                               paths::program, paths::program)},
                  {.folder = path()});
  CHECK(redirected.out == "1\n");
  CHECK(read("out").find("\"out\"") != std::string::npos);
}

TEST_CASE_FIXTURE(OutputDesk, "bug: --csv wrote escapes of names to a terminal") {
  const int terminal = posix_openpt(O_RDWR | O_NOCTTY);
  if (terminal < 0 || grantpt(terminal) != 0 || unlockpt(terminal) != 0) {
    MESSAGE("not checked: no terminal can be opened here");
    return;
  }
  const std::string name = ptsname(terminal), text = "node,\x1b[31m\u202e\n";
  const int kept = open(name.c_str(), O_RDWR | O_NOCTTY);  // until the text is read
  write_bytes(name, text, "--csv");
  std::string shown(100, ' ');
  shown.resize(std::max<ssize_t>(0, ::read(terminal, shown.data(), shown.size())));
  CHECK(shown == "node,\\x1b[31m\\u202e\r\n");
  close(kept);
  close(terminal);
  write_bytes(path("file.csv"), text, "--csv");
  CHECK(read("file.csv") == text);
}

// --- the fields of JSON ---

// Adds the paths of all fields: "gates[].verdict". The names of modules, metrics and keys are "*".
void add_fields(const Json& value, const std::string& path, std::set<std::string>& fields) {
  if (value.is_object()) {
    const bool by_name = path == "modules" || path == "figures" || path == "settings";
    for (const auto& [name, member] : value.items())
      add_fields(member, path.empty() ? name : path + "." + (by_name ? "*" : name), fields);
  } else if (value.is_array()) {
    for (const Json& element : value) add_fields(element, path + "[]", fields);
    if (value.empty()) fields.insert(path + "[]");
  } else {
    fields.insert(path);
  }
}

std::set<std::string> fields_of(const std::string& lines) {
  std::set<std::string> fields;
  for (const std::string& line : lines_of(lines)) add_fields(Json::parse(line), "", fields);
  return fields;
}

std::set<std::string> words_of(const std::string& text) {
  std::istringstream stream(text);
  return {std::istream_iterator<std::string>(stream), {}};
}

TEST_CASE_FIXTURE(OutputDesk, "json: every --json and every JSONL file has the listed fields") {
  must_train("toy", "run",
             "train.steps=4 train.eval_every=2 train.log_every=1 optim.schedule=constant");
  must_train("toy", "run",
             "train.steps=6 train.eval_every=2 train.log_every=1 optim.schedule=constant --resume");
  REQUIRE(run("train karate --seeds 2 --quiet --out seeds train.steps=4").status == 0);
  REQUIRE(run("train karate --seeds 2 --quiet --out other train.steps=4 optim.learning_rate=0.5")
              .status == 0);
  REQUIRE(run("tokenizer train story.txt --vocabulary 280 --out t.json").status == 0);
  write("talk.jsonl", R"({"prompt": "a", "completion": "b"})"
                      "\n");
  const std::string session =
      "version engines processor threads ranks from_step changed[].key changed[].before "
      "changed[].after";
  const auto session_at = [&](const std::string& path) {
    std::string fields;
    for (const std::string& field : words_of(session))
      if (path != "computed_by." || !field.starts_with("changed")) fields += path + field + " ";
    return fields;
  };
  const auto range_at = [](const std::string& path) {
    std::string fields;
    for (const char* field : {"min", "max", "mean_magnitude", "nan", "infinite"})
      fields += path + field + " ";
    return fields;
  };
  const std::string evaluation = "step split loss exact_match elapsed_s parameters_xxh3";
  const std::pair<Words, std::string> all[] = {
      {{"list", "--json"},
       "name task description expected expected.metric expected.value expected.data "
       "expected.source"},
      {{"config", "toy.toml", "--json"},
       "keys[].key keys[].value keys[].value[] keys[].origin keys[].unused keys[].type "
       "keys[].default keys[].default[] keys[].minimum keys[].maximum keys[].choices[] "
       "keys[].help keys[].aliases[]"},
      {{"eval", "run", "--json"}, evaluation + " examples data.validation"},
      {{"compare", "run", "run/../run/", "--json"}, "run parameters " + evaluation},
      {{"compare", "seeds", "other", "--groups", "--json"},
       "group runs[] seeds[] steps[] left_out[] figures.*.n figures.*.mean figures.*.deviation "
       "figures.*.low figures.*.high figures.*.degrees comparison with figures.*.difference "
       "figures.*.verdict figures.*.test figures.*.p settings.*[]"},
      {{"verify", "run", "--all", "--json"},
       "run same from first_step last_step recorded_steps last_same training_lines evaluations "
       "tests checksums tensors differs_at differences[] tensors_that_differ[] other_makers[] "
       "not_compared[] " +
           session_at("recorded_by[].") + session_at("computed_by.")},
      {{"replay", "run", "--step", "2", "--json"},
       "run step from from_step loss grad_norm lr fault examples[].index examples[].inputs "
       "examples[].text ops[].module ops[].op ops[].calls tape[].module tape[].op tape[].shape[] "
       "tape[].inputs[] tape[].norm tape[].gradient_norm tape[].forward_s tape[].backward_s "
       "parameters[].parameter " +
           range_at("ops[].outputs.") + range_at("ops[].gradients.") +
           range_at("parameters[].values.") + range_at("parameters[].gradients.")},
      {{"doctor", "karate", "--json", "--skip", "learning rate"},
       "passed examined_with skipped[] gates[].gate gates[].verdict gates[].seconds gates[].said"},
      {{"plan", "toy.toml", "--seconds", "1", "--json"},
       "parameters trained modules.* ranks bytes.weights bytes.gradients bytes.optimizer "
       "bytes.average bytes.activations bytes.batches bytes.step bytes.evaluation bytes.tensors "
       "bytes.measured_tensors bytes.process bytes.machine bytes.checkpoint bytes.disk fits "
       "flops_a_step steps seconds.begin seconds.first_step seconds.step seconds.evaluation "
       "seconds.test seconds.checkpoint seconds.in_all"},
      {{"bench", "toy.toml", "--json"},
       "name threads step_s fastest_s slowest_s examples_per_s gflops peak_gflops "
       "peak_before_gflops peak_after_gflops best_product_gflops share_of_peak peak_bytes "
       "first_step_s"},
      {{"gradcheck", "toy.toml", "--json"},
       "passed parameters[].parameter parameters[].error parameters[].held parameters[].passed"},
      {{"tokenizer", "encode", "talk.jsonl", "--tokenizer", "t.json", "--conversations",
        "--chat-template", "{role}: {content}"},
       "tokens[] learnt[]"}};
  const auto check = [](const std::string& what, const std::string& lines,
                        const std::string& fields) {
    CAPTURE(what);
    const std::set<std::string> found = fields_of(lines), expected = words_of(fields);
    for (const std::string& field : found) CHECK_MESSAGE(expected.contains(field), "new: ", field);
    for (const std::string& field : expected) CHECK_MESSAGE(found.contains(field), "lost: ", field);
  };
  for (const auto& [words, fields] : all) {
    const Finished finished = run(words);
    CHECK_MESSAGE(finished.status == 0, finished.err);
    check(words.front(), finished.out, fields);
  }
  check("metrics.jsonl", read("run/metrics.jsonl"), evaluation + " grad_norm lr examples_per_s");
  check("checksums.jsonl", read("run/checksums.jsonl"), "step tensor xxh3");
  check("sessions.jsonl", read("run/sessions.jsonl"),
        session + " began command[] data examples tensor_bytes ended how step");
}

TEST_SUITE_END();

}  // namespace
}  // namespace tapestry
