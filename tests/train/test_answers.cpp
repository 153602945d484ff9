#include <doctest/doctest.h>
#include <sys/stat.h>

#include "autograd/sanitizer.hpp"
#include "data/text/printable.hpp"
#include "tests/support/process.hpp"
#include "train/config/config.hpp"

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

TEST_SUITE_END();

}  // namespace
}  // namespace tapestry
