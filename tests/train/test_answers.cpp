#include <doctest/doctest.h>
#include <fcntl.h>
#include <sys/stat.h>

#include <algorithm>
#include <cstdlib>
#include <iterator>
#include <set>
#include <sstream>

#include "autograd/sanitizer.hpp"
#include "data/text/printable.hpp"
#include "tests/support/process.hpp"
#include "tests/support/run_fixture.hpp"
#include "train/commands/output.hpp"
#include "train/config/config.hpp"
#include "train/run/atomic_file.hpp"

// Tests messages for odd input, and how texts of users are printed on a terminal.
namespace tapestry {
namespace {

// A folder with a tiny run of sort and one of an autoencoder.
class AnswerDesk : public CommandFolder {
 public:
  AnswerDesk() {
    run("train sort --out toy model.layers=1 model.width=4 data.held_back=8 train.steps=1");
    run("train clothes-vae --out vae data.training_images=8 data.test_images=4 train.steps=1");
  }
};

// Emulators and the address sanitizer reserve more memory than such a limit leaves.
const bool can_limit_memory = *paths::emulator == '\0' && !TAPESTRY_ADDRESS_SANITIZER;

// Runs with a limit of the process's memory in KiB.
Finished run_within(std::int64_t memory, const TemporaryFolder& folder, const std::string& words) {
  return run_program(
      {"sh", "-c", fmt::format("ulimit -v {}; exec {} {}", memory, paths::program, words)},
      {.folder = folder.path()});
}

TEST_SUITE_BEGIN("answers");

TEST_CASE_FIXTURE(CommandFolder, "answers: a run named without its folder is suggested") {
  fs::create_directories(path("runs/known"));
  check_fails(here("eval known"), {"known: no such run; did you mean runs/known?"});
}

TEST_CASE_FIXTURE(AnswerDesk,
                  "bug: odd values were accepted, read in part, or refused without advice") {
  REQUIRE(mkfifo(path("pipe").c_str(), 0600) == 0);
  REQUIRE(mkfifo(path("pipe.toml").c_str(), 0600) == 0);
  write("number.toml", "\ntask = 5\n");
  write("list.toml", "task = [\"vae\"]\n");
  write("on_pipe.toml", "base = \"pipe\"\n");
  write("seed.toml", "task = \"vae\"\nseed = 9223372036854775808\n");
  fs::create_directory(path("folder"));
  write("lines.txt", "to be or not\n");
  const Refusal rows[] = {
      {"train sort optim.epsilon=0", {"optim.epsilon = 0.0: expected between 1e-30 and 1"}},
      {"train sort expected.value=nan", {"expected.value = nan: expected a finite number"}},
      {"train sort expected.value=inf", {"expected.value = inf: expected a finite number"}},
      {"train sort optim.clip_norm=inf", {"optim.clip_norm = inf: expected at least 0, fi"}},
      {"config sort seed=9223372036854775808", {"seed = ", "expected an integer of 64 bits"}},
      {"config seed.toml", {"seed.toml:2:", "not representable in 64 bits"}},
      {"config number.toml", {"number.toml:2:1: task = 5: expected a string"}},
      {"config list.toml", {"list.toml:1:1: task = […]: expected a string"}},
      {"config pipe", {"pipe: is a folder, a pipe or a device; give a TOML file"}},
      {"train pipe.toml", {"pipe.toml: is a folder, a pipe or a device"}},
      {"config folder", {"folder: is a folder, a pipe or a device", "`tapestry init` writes"}},
      {"train lines.txt", {"lines.txt:1:", "`tapestry init FILE` writes"}},
      {"train sort --set train.steps 20",
       {"expected key=value without spaces, such as train.steps=20"}},
      {"train sort --set train.steps = 20", {"such as train.steps=20"}},
      {"train sort --steps 5",
       {"unexpected --steps; set the key of the config with --set train.steps=VALUE"}},
      {"config on_pipe.toml", {"on_pipe.toml:1:1: base = \"pipe\": no such file"}},
      {{"config", "sort", "seed=4\nname=\"x\""},
       {"seed = \"4\\nname=\\\"x\\\"\": expected an int"}},
      {{"config", "sort", "seed=4 # or 5"}, {"seed = \"4 # or 5\": expected an integer"}},
      {{"config", "clothes-vae", "model.hidden=[8]\n# more"}, {"expected a list of integers"}},
      {"sample toy --count -1", {"--count -1: expected between 1 and"}},
      {"sample vae --seed -1", {"--seed -1: expected at least 0"}},
      {"attention toy --out map.pdf",
       {"--out map.pdf: .pdf is not a supported format; expected a n"}},
      {"latent vae --out map.jpg",
       {".jpg is not a supported format; expected a name that ends in .csv or .png or .svg"}},
      {"sample vae --out map.svg",
       {".svg is not a supported format; expected a name that ends in .png, or"}},
      {"eval .", {".: is not a run", "such as ./toy"}},
      {"eval folder",
       {"folder: is not a run, because it has no best.safetensors or checkpoint.safetensors"}},
      {{"train", ""}, {"CONFIG: expected a name, found nothing"}},
      {{"eval", ""}, {"RUN: expected a name, found nothing"}},
      {{"compare", "toy", ""}, {"RUN: expected a name, found nothing"}},
      {{"sample", "toy", "--out", ""}, {"--out: expected a name, found nothing"}},
      {{"config", "sort", "name=\"a\\u0000b\""}, {"\\u0000b\": expected no character U+0000"}},
      {"sample toy --out folder", {"--out folder: is a folder; give the name of a file"}},
      {"attention toy --out folder/", {"--out folder/: is a folder; give the name of a"}},
      {"attention toy --out .", {"--out .: is a folder; give the name of a file"}},
      {"tokenizer train seed.toml --out toy/best.safetensors",
       {"--out toy/best.safetensors: is the name of a file of a run; give another name"}},
      {"tokenizer trian", {"unknown command tokenizer trian; did you mean tokenizer train?"}},
      {"train sort model.layers=1000 model.width=65536",
       {"the configured model is too large", "float32 (", "GB requested in addition to",
        "the machine has", "lower model.width"}}};
  for (const Refusal& row : rows) check_refused(here(row.words), row.parts);
  CHECK(!has("runs"));
  const std::string program = std::string(paths::emulator) + " " + paths::program;
  CHECK(run_program({"sh", "-c", program + " config none 2>&-"}).status == 2);
  CHECK(!contains(run("frobnicate").err, "did you mean"));
  CHECK(run("attention toy --out maps-0.5").out == "maps-0.5.png\nmaps-0.5.svg\n");
  check_says(run({"config", "sort", "name=two\nlines"}).out, {"\nname = \"two\\nlines\""});
}

TEST_CASE_FIXTURE(TemporaryFolder,
                  "bug: a model too large for the memory ended with std::bad_alloc" *
                      doctest::skip(!can_limit_memory)) {
  const std::string recall =
      "train memory-sum --out run --set data.length=512 --set data.pairs=8 --set model.width=1024 "
      "--set train.steps=1 --set data.held_back=10 ";
  check_fails(run_within(4'000'000, *this, recall + "--set train.batch_size=4000"),
              {"--set: train.batch_size = 4000: step 1: float32 (", "GB requested",
               "; lower train.batch_size, or raise train.micro_batches"});
  CHECK(!has("run"));  // bug: a folder without a checkpoint was left
  check_fails(run_within(4'000'000, *this, "train sort --set model.width=16384"),
              {"the configured model is too large: float32 ("});
}

TEST_CASE_FIXTURE(TemporaryFolder, "bug: a candidate too large for the memory ended the search" *
                                       doctest::skip(!can_limit_memory)) {
  const std::string command =
      "search memory-sum --out found --vary=train.batch_size=4000 --seeds 2 --quiet --set "
      "data.length=512 --set data.pairs=8 --set model.width=1024 --set train.steps=1 --set "
      "data.held_back=10 --set train.batch_size=";
  const Finished found = run_within(4'000'000, *this, command + "2");
  CHECK(found.status == 0);
  check_says(found.out, {"failed: ", "train.batch_size = 4000: step 1: float32 (", "GB requested",
                         "the config of base"});
  const Finished none = run_within(
      4'000'000, *this, replaced(replaced(command, "4000", "3999"), "found", "none") + "4000");
  CHECK(none.status == 1);
  check_says(none.out, {"no candidate is left: the base and every candidate failed"});
}

TEST_CASE("bug: names that differ by an invisible character were shown alike") {
  CHECK(printable("cat\u200b") == "cat\\u200b");
  CHECK(printable("c\u00ada\u2060t\u200d") == "c\\u00ada\\u2060t\\u200d");
  CHECK(printable("\ufeffcat\ufe0f") == "\\ufeffcat\\ufe0f");
  for (const std::string shown : {"می\u200cخواهم", "क्\u200dष", "👩\u200d🔬", "❤\ufe0f"})
    CHECK(printable(shown) == shown);  // joiners and variants with an effect
  CHECK(printable_lines("cat\u200b\n") == "cat\\u200b\n");
  // Both are valid names of classes.
  for (const char* name : {"cat", "cat\u200b", "می\u200cخواهم"}) CHECK(is_printable(name));
  for (const char* name : {"c\nt", "c\u202et", "caf\xe9"}) CHECK_FALSE(is_printable(name));
}

TEST_CASE("bug: escapes in names and paths reached the terminal") {
  CHECK(printable("a\x1b[31mb\n\x7f") == "a\\x1b[31mb\\x0a\\u007f");
  CHECK(printable("\u009b2J \u202egnp.\u2066") == "\\u009b2J \\u202egnp.\\u2066");
  CHECK(printable("caf\xe9 \x9b \xed\xa0\x80") == "caf\\xe9 \\x9b \\xed\\xa0\\x80");
  CHECK(printable("naïve β 日本 🙂") == "naïve β 日本 🙂");
  CHECK(printable_lines("a\tb\r\nc\n\rd\x1b") == "a\tb\r\nc\n\\x0dd\\x1b");

  const AnswerDesk fixture;
  const std::string evil = "\x1b]0;owned\x07\u009b31m\u202e";
  const std::string shown = "\\x1b]0;owned\\x07\\u009b31m\\u202e";
  fixture.write("evil.toml", "task = \"vae\"\n[expected]\nsource = \"\u009b31m\"\n");
  fs::copy(fixture.path("toy"), fixture.path(evil));
  fixture.write("evil.content", evil + " 1 0 x\nb 0 1 y\nc 1 0 x\nd 0 1 y\n");
  fixture.write("evil.cites", evil + " c\nb d\n");
  REQUIRE(fixture
              .run("train cora --out graph data.path=. data.training_nodes=2 "
                   "data.validation_nodes=1 data.test_nodes=1 train.steps=1")
              .status == 0);
  const std::pair<Words, std::string> rows[] = {
      {{"eval", evil + "none"}, shown + "none: no such run"},
      {{evil}, "unknown command " + shown},
      {{"train", "sort", "--" + evil}, "unexpected --" + shown},
      {{"config", "sort", "--set", evil + "=1"}, "unknown key " + shown},
      {{"sample", "toy", "--prompt", evil}, shown},
      {{"sample", "graph", "--prompt", evil}, shown + "  "},
      {"config evil.toml", "\\u009b31m"},
      {{"compare", evil}, shown},
      {{"compare", evil, "--json"}, "\\u009b31m\\u202e"},
      {{"attention", "toy", "--out", evil}, shown + ".png"}};
  for (const auto& [words, part] : rows) {
    CAPTURE(printable(words.front()));
    const Finished finished = fixture.run(words);
    const std::string said = finished.out + finished.err;
    check_says(said, {part});
    for (const char* raw : {"\x1b", "\x07", "\u009b", "\u202e"}) CHECK(!contains(said, raw));
  }
  CHECK(fixture.has(evil + ".svg"));
}

TEST_CASE_FIXTURE(AnswerDesk, "bug: escapes in labels broke the SVG") {
  must(run({"latent", "vae", "--out", "cloud", "data.class_names=a\x1b[31m,b,c,d,e,f,g,h,i,j"}));
  const std::string svg = read("cloud.svg");
  check_says(svg, {"a\\x1b[31m"});
  CHECK(svg.find('\x1b') == std::string::npos);
  CHECK(read("cloud.csv").find("a\x1b[31m") != std::string::npos);
}

// Tests that commands write only the given files, and none that they read.

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

std::set<std::string> words_in(const std::string& text) {
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
    for (const std::string& field : words_in(session))
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
    const std::set<std::string> found = fields_of(lines), expected = words_in(fields);
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
