#include <doctest/doctest.h>
#include <fmt/ranges.h>

#include <fstream>

#include "data/text/byte_pair.hpp"
#include "tests/support/labels.hpp"
#include "tests/support/process.hpp"
#include "tests/support/small.hpp"
#include "tests/support/small_data.hpp"
#include "tests/support/tensor_files.hpp"
#include "train/config/config_document.hpp"
#include "train/config/keys.hpp"
#include "train/measure/step_speed.hpp"
#include "train/run/checkpoint.hpp"
#include "train/task_spec.hpp"

namespace tapestry {
namespace {

// A folder with a tiny run.
class SmallFixture : public CommandFolder {
 public:
  SmallFixture() {
    write("story.txt", story());
    write("text.toml", "task = \"language-model\"\ndata.path = \"story.txt\"\n");
    run("train text.toml --out run model.layers=1 model.heads=1 model.width=4 model.context=8 "
        "train.steps=3 train.batch_size=2");
  }
};

TEST_SUITE_BEGIN("command line");

TEST_CASE_FIXTURE(SmallFixture, "command line: errors are one line on stderr, with status 2") {
  write("notes.txt", "no checkpoint");
  fs::create_directories(path("empty"));
  write("unfinished/metrics.jsonl", "");
  write("latin.txt", "caf\xe9");
  const auto write_pair = [&](const std::string& name, const char* de, const char* en) {
    write(name + "/train.de", de);
    write(name + "/train.en", en);
  };
  write_pair("uneven", "eins\nzwei\n", "one\n");
  write_pair("gap", "eins\nzwei\n", "\ntwo\n");
  write_pair("latin", "zw\xf6lf\n", "twelve\n");
  write("endless/metrics.jsonl", std::string((1 << 14) + 1, ' ') + "\n");
  write("scratched/metrics.jsonl", R"({"step":1,"split":"val","elapsed_s":2})"
                                   "\n\x01\n");
  write("timeless/metrics.jsonl", R"({"step":1,"split":"val","loss":2})"
                                  "\n");
  const std::string good = read("run/checkpoint.safetensors");
  write("damaged/checkpoint.safetensors", good.substr(0, good.size() / 2));
  const Refusal rows[] = {
      {{""},
       {"COMMAND is required", "attention, bench, chat, compare, config, doctor, draw, eval"}},
      {"smaple run", {"did you mean sample?"}},
      {"--versoin", {"--versoin", "did you mean --version?"}},
      {"eval", {"RUN is required"}},
      {"config", {"CONFIG is required"}},
      {"train sort --resum", {"did you mean --resume?"}},
      {"train sort reverse", {"unexpected reverse"}},
      {"config none.toml", {"none.toml: no such file"}},
      {"train sort --set", {"--set"}},
      {"train sort --set train.steps", {"--set train.steps: expected key=value"}},
      {"train sort train.stesp=3", {"--set: unknown key train.stesp", "train.steps?"}},
      {"train sort task=vea", {"\"vea\"", "did you mean \"vae\"?"}},
      {"train sort train.micro_batches=3", {"must divide train.batch_size = 64"}},
      {"train sort optim.name=adma", {"did you mean \"adam\"?"}},
      {"train sort --out", {"--out"}},
      {{"train", "sort", "--out", ""}, {"--out", "expected a name"}},
      {"train sort --out notes.txt", {"notes.txt is a file, not a folder"}},
      {"train sort --out notes.txt/run", {"notes.txt is a file, not a folder"}},
      {"train sort --resume", {"runs/sort: there is no run to resume; leave out --resume"}},
      {"train runs/none --resume", {"runs/none: no such run"}},
      {"train sort task=vae", {"is a config of the task \"toy-sequence\"", "tapestry list"}},
      {"train text.toml --out run", {"run: already holds a run; give another --out"}},
      {"train text.toml --out unfinished", {"unfinished: already holds an unfinished run"}},
      {"train text.toml --out new data.path=none.txt", {"none.txt", "no such file"}},
      {"train shakespeare-char --out new", {"there is no text", "karpathy/char-rnn"}},
      {"eval none", {"none: no such run"}},
      {"eval empty", {"empty: is not a run", "checkpoint.safetensors"}},
      {"eval notes.txt", {"notes.txt: is not a safetensors file"}},
      {"eval damaged", {"damaged/checkpoint.safetensors: ", "truncated"}},
      {"sample damaged", {"damaged/checkpoint.safetensors: ", "truncated"}},
      {"train text.toml --out damaged --resume", {"truncated"}},
      {"eval run model.width=8", {"best.safetensors: tensor ", "the config expects"}},
      {"eval run train.eval_batch_size=0", {"train.eval_batch_size = 0"}},
      {"sample run --prompt été", {"'é' (U+00E9)", "not in the vocabulary"}},
      {{"sample", "run", "--prompt", "\xff"}, {"not UTF-8"}},
      {"sample run --top-p 2", {"--top-p"}},
      {"sample run --count 0", {"--count"}},
      {"sample run --temperature nan", {"--temperature"}},
      {{"attention", "run", "--prompt", "green bottles"}, {"13 tokens", "1 to 8"}},
      {"attention run --prompt wall --layer 3", {"--layer 3", "blocks.0.attention"}},
      {"attention run --prompt wall --head 1", {"--head 1", "heads 0 to 0"}},
      {"tokenizer", {"COMMAND is required", "train"}},
      {"tokenizer train", {"FILE is required"}},
      {"tokenizer train none.txt", {"none.txt", "No such file"}},
      {"tokenizer train latin.txt", {"latin.txt", "byte 3", "UTF-8"}},
      {"tokenizer train story.txt --vocabulary 10", {"--vocabulary"}},
      {"train multi30k --out new", {"no folder of sentence pairs", "train.de", "Multi30k"}},
      {"train multi30k --out new data.path=uneven", {"train.de: line 2", "no translation"}},
      {"train multi30k --out new data.path=gap", {"train.en: line 1", "empty line"}},
      {"train multi30k --out new data.path=latin", {"train.de: ", "line 1", "UTF-8"}},
      {"train multi30k --out new data.path=uneven data.target_language=fr",
       {"train.fr", "train.de, train.en"}},
      {"compare", {"RUN is required"}},
      {"compare run none", {"none: no such run"}},
      {"compare empty", {"empty: is not a run, because it has no metrics.jsonl"}},
      {"report latin.txt", {"latin.txt: is a file; expected the folder of a run"}},
      {"report run/config.toml",
       {"config.toml: is a file; expected the folder of a run, such as "}},
      {"doctor sort --out latin.txt",
       {"--out latin.txt: cannot create the folder: a file has this name; give another name"}},
      {"compare unfinished", {"unfinished: has not been evaluated yet"}},
      {"compare scratched", {"scratched/metrics.jsonl:2: not a line of metrics"}},
      {"compare timeless", {"timeless/metrics.jsonl:1: not a line", "elapsed_s"}},
      {"compare endless", {"endless/metrics.jsonl:1: not a line", "at most 16384 bytes"}},
      {"bench gpt-char", {"gpt-char: ", "no shipped config", "tapestry-bench"}},
      {"bench karat", {"no shipped config", "did you mean karate?"}},
      {"bench cora", {"data.path", "there is no"}},
      {"bench --time-to-loss cora --data .",
       {"--time-to-loss: ", "tapestry-bench", "tests/bench/README.md"}},
      {"bench --list", {"--list: ", "tapestry-bench"}}};
  for (const Refusal& row : rows) check_refused(here(row.words), row.parts);
  CHECK(!has("new"));
  CHECK(!has("runs"));
}

TEST_CASE_FIXTURE(SmallFixture, "command line: --resume with other settings names both values") {
  const Words same =
      "train text.toml --out run --resume model.layers=1 model.heads=1 model.width=4 "
      "model.context=8 train.batch_size=2";
  const auto with = [&](const Words& more) { return run(same + more); };
  const std::string before = read("run/checkpoint.safetensors");
  const Finished changed = with("train.steps=6 model.width=16 optim.learning_rate=0.5");
  check_fails(changed,
              {"run: ", "model.width (4, now 16)", "optim.learning_rate (0.001, now 0.5)"});
  CHECK(!contains(changed.err, "train.steps"));
  CHECK(with("task=vae model.layers=1").status == 2);
  CHECK(read("run/checkpoint.safetensors") == before);
  must(with("train.steps=6 train.threads=2 train.eval_every=2"));
  CHECK(load_checkpoint(path("run/checkpoint.safetensors")).state.step == 6);
}

TEST_CASE_FIXTURE(SmallFixture, "command line: an unwritable disk or folder fails with status 1") {
  check_fails(run("train sort --out /proc/run train.steps=1"), {"tapestry: "}, 1);
  check_fails(run("sample run --out no/such/folder/text"),
              {"tapestry: no/such/folder/text: cannot open: there is no folder no/such/folder"}, 1);
  // If a checkpoint cannot be written, the earlier one stays.
  const std::string path = this->path("run/checkpoint.safetensors");
  const std::string before = read_bytes(path);
  fs::create_directory(path + ".tmp");
  check_fails(run("train text.toml --out run --resume model.layers=1 model.heads=1 "
                  "model.width=4 model.context=8 train.steps=5 train.batch_size=2"),
              {path.substr(path.rfind("run/")), "cannot open: File exists"}, 1);
  CHECK(read_bytes(path) == before);
}

TEST_CASE("bug: the program did not start without /proc, as in a container" *
          not_sanitized("a preloaded library stands before the sanitizer's")) {
  check_says(
      must(run_program({"env", "TAPESTRY_NO_PROC=1",
                        fmt::format("LD_PRELOAD={}/tests/libtapestry-failing-new.so", paths::build),
                        paths::program, "--version"}))
          .out,
      {"tapestry 0."});
}

TEST_CASE_FIXTURE(TemporaryFolder,
                  "bug: messages were written into a run's file if streams were closed") {
  for (const std::string closed : {"<&- >&-", "<&- >&- 2>&-", ">&- 2>&-"}) {
    CAPTURE(closed);
    const std::string run = path("run" + std::to_string(closed.size()));
    const std::string command =
        fmt::format("exec {} {} train karate --set train.steps=20 --out {} {}", paths::emulator,
                    paths::program, run, closed);
    run_program({"sh", "-c", command});
    for (const std::string& line : lines_of(read_bytes(run + "/metrics.jsonl")))
      CHECK(line.starts_with("{\"step\":"));
  }
}

TEST_CASE("command line: --help and --version print all commands, with status 0") {
  const std::pair<Words, Words> rows[] = {
      {"", "train eval sample gradcheck config bench --version"},
      {"train", "CONFIG --set KEY=VALUE --out --resume --threads --quiet --seeds"},
      {"eval", "RUN --set --json"},
      {"sample",
       "RUN --prompt --prompt-file --count --tokens --stop --temperature --top-k --top-p --min-p "
       "--repetition-penalty --seed --out"},
      {"tokens", "FILE --tokenizer --out --documents --end-of-text --verify --threads"},
      {"gradcheck", "CONFIG --set --json"},
      {"doctor", "CONFIG --set --out --skip --threads --json"},
      {"config", "CONFIG --set"},
      {"bench", "CONFIG --set --json --threads"}};
  for (const auto& [command, parts] : rows) {
    const Finished finished = tapestry_run(command + "--help");
    check_prints(finished, parts);
    CHECK(finished.err.empty());
  }
  CHECK(must_run("--version").starts_with("tapestry 0."));
}

TEST_CASE_FIXTURE(TemporaryFolder, "command line: config prints the resolved config") {
  const Finished printed = must(tapestry_run("config sort model.layers=3"));
  check_says(printed.out, {"layers = 3 ", "# --set: ", "# sort:", "# default: "});
  const Finished again = must(tapestry_run({"config", write("again.toml", printed.out)}));
  const auto values = [](const std::string& text) {
    Strings lines = lines_of(text);
    for (std::string& line : lines) line = line.substr(0, line.find(" # "));
    for (std::string& line : lines) line.erase(line.find_last_not_of(' ') + 1);
    return lines;
  };
  CHECK(values(again.out) == values(printed.out));
}

TEST_CASE_FIXTURE(SmallFixture,
                  "command line: new runs get new folders, and --resume takes the last") {
  const auto train = [&](const Words& more) {
    Words words = "train copy train.steps=2" + small("toy-sequence") + more;
    return this->run(words).status;
  };
  const auto step_of = [&](const std::string& run) {
    return load_checkpoint(path("runs/" + run + "/checkpoint.safetensors")).state.step;
  };
  CHECK(train({}) == 0);
  CHECK(train({}) == 0);
  CHECK(train("--resume train.steps=4 optim.decay_steps=4") == 0);
  CHECK(train("name=mine") == 0);
  CHECK(step_of("copy") == 2);
  CHECK(step_of("copy-2") == 4);
  CHECK(step_of("mine") == 2);
  const Config kept = load_config(path("runs/mine/config.toml"), {});
  CHECK(kept[key::steps] == 2);
  CHECK(kept[key::name] == "mine");
}

TEST_CASE_FIXTURE(SmallFixture, "sample: obeys its options") {
  const auto sample = [&](const Words& more) {
    return must(run("sample run --tokens 30" + more)).out;
  };
  CHECK(sample("--prompt green").size() == 5 + 30 + 1);
  CHECK(sample("--prompt green").starts_with("green"));
  CHECK(sample({}) == sample("--seed 1"));
  CHECK(sample({}) != sample("--seed 2"));
  CHECK(sample("--temperature 0 --seed 1") == sample("--temperature 0 --seed 2"));
  CHECK(sample("--temperature 0") == sample("--top-k 1"));
  CHECK(sample("--temperature 0") == sample("--top-p 0"));
  CHECK(sample("--top-k 1000") == sample({}));
  const std::string three = sample("--count 3");
  CHECK(three.size() == 3 * 30 + 2 * 5 + 1);
  CHECK(three.starts_with(sample({}).substr(0, 30)));
  CHECK(sample("--out text").empty());
  CHECK(read("text") == sample({}));
}

TEST_CASE_FIXTURE(SmallFixture, "attention: draws all or chosen maps of a run as PNG and SVG") {
  run("train sort --out toy model.layers=2 model.heads=2 model.width=8 data.held_back=8 "
      "train.steps=2");
  Finished finished = run("attention toy --prompt 31415926");
  INFO(finished.err);
  CHECK(finished.status == 0);
  CHECK(finished.out == "toy/attention.png\ntoy/attention.svg\n");
  CHECK(read("toy/attention.png").starts_with("\x89PNG\r\n\x1a\n"));
  const std::string all = read("toy/attention.svg");
  check_says(all, {"blocks.0.attention, head 0", "blocks.1.attention, head 1", "Query", "Key",
                   ", max 1", "¼", "each map&#39;s max"});

  finished = run("attention toy --layer 1 --head 0 --out one");
  CHECK(finished.out == "one.png\none.svg\n");
  const std::string one = read("one.svg");
  check_says(one, {"blocks.1.attention, head 0"});
  CHECK(!contains(one, "blocks.0.attention"));
  CHECK(!contains(one, "head 1"));
}

TEST_CASE_FIXTURE(SmallFixture,
                  "attention: titles tell nearly uniform maps, and one scale is absolute") {
  run("train sort --out toy model.layers=1 model.heads=2 model.width=8 data.held_back=8 "
      "train.steps=1 optim.learning_rate=1e-9");
  must(run("attention toy --prompt 31415926 --absolute --out map.svg"));
  check_says(read("map.svg"), {"nearly uniform", "¼", ">1<"});  // initial weights are small
  CHECK(!contains(read("map.svg"), "each map"));
}

TEST_CASE_FIXTURE(SmallFixture,
                  "draw: writes positions, masks and features, and prints their errors") {
  must(run("draw positions --tokens 9 --width 6 --out p.svg"));
  check_says(read("p.svg"), {"sinusoidal encodings", "rotary", "Position"});
  must(run("draw masks --tokens 5 --window 2 --padding 1 --out m.svg"));
  check_says(read("m.svg"), {"no mask", "causal, window 2", "padding: last 1"});
  const Finished drawn = must(run("draw features --seeds 2 --out f.svg"));
  check_says(drawn.out, {"2 seeds", "positive", "1024 features", "trigonometric"});
  check_says(read("f.svg"), {"positive: exact", "256 features"});
  check_fails(run("draw nothing"),
              {"nothing: unknown figure; expected positions, masks or features"});
  check_fails(run("draw positions --width 3"), {"--width 3: expected an even number"});
  check_fails(run("draw masks --width 4"), {"--width: is not used by draw masks"});
  check_fails(run("draw positions --seeds 2"), {"--seeds: is not used by draw positions"});
}

TEST_CASE_FIXTURE(SmallFixture, "tokenizer: is trained on files and used for translation") {
  CHECK(must(run("tokenizer train story.txt --vocabulary 280 --out bottles.json")).out ==
        "bottles.json: 280 tokens\n");
  const auto tokenizer = BytePairTokenizer::load(path("bottles.json"));
  CHECK(tokenizer.decode(tokenizer.encode("green bottles")) == "green bottles");
  CHECK(tokenizer.encode("green bottles").size() < 7);  // of 13 bytes
  for (const char* name : {"train.de", "train.en", "val.de", "val.en", "test.de", "test.en"})
    write(name, story());
  must(
      run("train multi30k --out pairs data.path=. data.tokenizer=bottles.json "
          "model.layers=1 model.width=16 model.heads=2 train.steps=2 train.batch_size=2"));
  CHECK(load_checkpoint(path("pairs/checkpoint.safetensors")).metadata.at("tokenizer") ==
        tokenizer.to_json());
  // bug: the help promised validation sentences, which a checkpoint does not have.
  check_says(run("sample pairs").err, {"--prompt: expected a sentence to translate, found none"});
  check_says(must(run("sample --help")).out,
             {"translation: a sentence to translate (required for sentence pairs; default: "
              "validation dates)"});
}

TEST_CASE("list: prints every shipped config and its expected result") {
  const std::string listed = tapestry_run("list").out;
  for (const auto& [name, text] : shipped_configs()) {
    CAPTURE(name);
    CHECK(text.starts_with("# "));
    const Config config = parse_config(text, name, {});
    const std::string teaches = text.substr(2, text.find('\n') - 2);
    CHECK(teaches.size() > 30);
    CHECK(is_preset(config) == teaches.ends_with(", as a base for own configs."));
    check_says(listed, {name + " ", teaches, config[key::expected_metric]});
  }
}

TEST_CASE_FIXTURE(SmallFixture, "compare: prints the last evaluations of runs side by side") {
  Words words =
      "train memory-query-key --out recall train.steps=4 train.eval_every=2" + small("recall");
  REQUIRE(this->run(words).status == 0);
  std::ofstream(path("run/metrics.jsonl"), std::ios::app) << "{\"step\":9";  // a crash
  Strings lines = lines_of(must(this->run("compare recall/ run")).out);
  REQUIRE(lines.size() > 3);
  CHECK(contains(lines[3], "baseline"));
  lines.resize(3);
  check_says(lines[0], {"run ", "parameters", "steps", "seconds", "loss  accuracy  accuracy_early",
                        "attended  bits_per_byte  bits_per_char"});
  CHECK(lines[1].starts_with("recall "));
  CHECK(lines[1].ends_with(" -"));  // no bits_per_char
  CHECK(lines[2].starts_with("run "));
  for (const std::string& line : lines) CHECK(line.size() == lines[0].size());
  const Strings objects = lines_of(this->run("compare run recall --json").out);
  REQUIRE(objects.size() == 2);
  const Json run = Json::parse(objects[0]), recall = Json::parse(objects[1]);
  CHECK(run["run"] == "run");
  CHECK(run["step"] == 3);
  CHECK(run["bits_per_char"].get<double>() > 0);
  CHECK(recall["step"] == 4);
  CHECK(recall["loss"] == Json::parse(lines_of(read("recall/metrics.jsonl")).back())["loss"]);
  std::int64_t parameters = 0;
  const LoadedCheckpoint checkpoint = load_checkpoint(path("recall/checkpoint.safetensors"));
  for (const auto& [name, array] : checkpoint.file.tensors)
    if (!name.starts_with("optimizer.")) parameters += array.size();
  CHECK(recall["parameters"] == parameters);
}

TEST_CASE("command line: gradcheck prints the parameters that it checked") {
  const Json result =
      Json::parse(must_run("gradcheck sort --json model.layers=1 model.heads=2 model.width=4"));
  CHECK(result["passed"] == true);
  CHECK(result["parameters"].size() > 10);
  for (const Json& parameter : result["parameters"]) {
    CHECK(parameter["passed"] == true);
    CHECK(parameter["error"].get<double>() < 1e-6);
    CHECK(!parameter["parameter"].get<std::string>().empty());
  }
}

TEST_CASE("bug: gradcheck refused correct gradients where a step crosses a kink") {
  const Strings command =
      with_sets({"gradcheck", "addition", "model.layers=1", "model.activation=relu"});
  const Finished finished = must(tapestry_run(command));
  CHECK(contains(finished.out, "held: inputs of relu or max"));
  CHECK(contains(finished.out, "all gradients agree"));
}

TEST_CASE_FIXTURE(SmallFixture,
                  "command line: bench times the steps of configs" *
                      not_sanitized("the peaks that it measures take minutes there")) {
  const Strings lines = lines_of(must(run("bench karate clothes-vae --json")).out);
  REQUIRE(lines.size() == 2);
  const Json karate = Json::parse(lines[0]), vae = Json::parse(lines[1]);
  CHECK(karate["name"] == "karate");
  CHECK(karate["first_step_s"].get<double>() > 0);
  CHECK(karate["examples_per_s"].get<double>() > 0);
  CHECK(vae["name"] == "clothes-vae");
  CHECK(!vae.contains("first_step_s"));  // the CPU time of the process
  for (const std::string& field :
       Words("threads step_s fastest_s slowest_s examples_per_s gflops peak_gflops "
             "peak_before_gflops peak_after_gflops best_product_gflops share_of_peak peak_bytes"))
    CHECK_MESSAGE(vae[field].get<double>() > 0, field);
  for (const char* field : {"peak_before_gflops", "peak_after_gflops"})
    CHECK(vae[field] <= vae["peak_gflops"]);
  CHECK(!has("runs"));  // nothing is kept
  StepSpeed speed{.units = 2, .unit = "tokens", .flops = 3e9};
  speed.times.median_s = 0.1;
  check_says(show("text.toml", speed),
             {"text.toml ", " 100.00 ms/step (", " 20 tokens/s", " 30.0 GFLOP/s, ", " MB memory"});
}

TEST_CASE_FIXTURE(SmallFixture, "bug: eval had no --threads") {
  CHECK(must(run("eval run --threads 1")).out == run("eval run --threads 2").out);
}

TEST_SUITE_END();

}  // namespace
}  // namespace tapestry
