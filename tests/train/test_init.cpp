#include <doctest/doctest.h>

#include "data/table/times.hpp"
#include "tests/support/idx.hpp"
#include "tests/support/labels.hpp"
#include "tests/support/pictures.hpp"
#include "tests/support/process.hpp"
#include "train/inspect/recognized.hpp"
#include "train/task_spec.hpp"
#include "train/tasks/language/text_classification_data.hpp"
#include "train/tools/init/init.hpp"

// Tests what tests/cli/init.txt cannot: large data, and the memory of a machine.
namespace tapestry {
namespace {

// A text of 1 MB.
std::string long_text() {
  std::string text;
  for (int i = 0; text.size() < 1'000'000; ++i)
    text += fmt::format("Line {} of a long text, with {} words.\n{}", i, i % 7, i % 9 ? "" : "\n");
  return text;
}

// Returns the bytes that this process has read from files; 0 if unknown.
std::int64_t bytes_read() {
  std::ifstream file("/proc/self/io");
  std::string name;
  std::int64_t count = 0;
  file >> name >> count;
  return count;
}

TEST_SUITE_BEGIN("init");

TEST_CASE_FIXTURE(TemporaryFolder, "bug: init: a CSV with other column names was read four times") {
  std::string rows = "id,review,sentiment\n";
  for (int i = 0; rows.size() < 300'000; ++i)
    rows += fmt::format("{},\"A fine soup, or not ({})\",{}\n", i, i, i % 2);
  const std::string file = write("reviews.csv", rows);
  const std::int64_t before = bytes_read();
  const std::vector<Recognized> found = recognize_labeled_texts({file});
  const auto times = static_cast<double>(bytes_read() - before) / static_cast<double>(rows.size());
  REQUIRE(found.size() == 1);
  CHECK(found[0].fit == Recognized::Fit::certain);
  CHECK(times < 3.5);
}

TEST_CASE_FIXTURE(CommandFolder, "init: images are classified, or encoded with --task vae") {
  write_images(*this, "shapes", 6);
  const Json found = Json::parse(must(run("init shapes --minutes 1 --json")).out);
  CHECK(found["task"] == "image-classification");
  CHECK(found["facts"]["training_images"] == 20);
  CHECK(found["facts"]["test_images"] == 6);
  CHECK(found["facts"]["classes"] == 2);
  CHECK(found["also_possible"] == Json{"vae"});
  CHECK(found["seconds"].get<double>() < 60);
  must(run("train mine.toml --quiet --set train.steps=2"));
  check_says(read("mine.toml"), {"channels = [16, 32]"});
  check_says(read("runs/mine/config.toml"), {"class_names = [\"0\", \"1\"]"});
  const Json coded =
      Json::parse(must(run("init shapes --minutes 1 --json --task vae --out vae.toml")).out);
  CHECK(coded["task"] == "vae");
  must(run("train vae.toml --quiet --set train.steps=2"));
}

TEST_CASE_FIXTURE(CommandFolder,
                  "bug: init printed the reasons of all tasks in more than two lines") {
  write("names.csv", "time,value\n2020-01-01," + std::string(300, 'x') + "\n");
  write("broken.jsonl", std::string(2000, '{'));
  write("latin.txt", "caf\xe9\n");
  write("binary", std::string(20, '\xff'));
  write("shapes/train-images-idx3-ubyte", "no images");
  write("folder/binary", "\xff");
  const std::pair<const char*, Strings> rows[] = {
      {"init names.csv", {"names.csv: as time series: no column has numbers"}},
      {"init broken.jsonl",
       {"as conversations (JSONL): line 1: ",
        "; or add --task text to train on these data as text"}},
      {"init latin.txt", {"latin.txt: as text: byte 3 (line 1): 0xe9 is not UTF-8"}},
      {"init binary", {"; found a binary file beginning with ff ff ff ff ff ff ff ff"}},
      {"init shapes",
       {"shapes: as images: shapes/train-images-idx3-ubyte: byte 0: expected "
        "0x00000803"}},
      {"init folder", {"; found a folder of 1 entry (binary)"}},
      {"init folder --task names", {"folder: as names: expected .txt files"}}};
  for (const auto& [command, parts] : rows) {
    const Finished refused = run(command);
    CHECK(refused.status == 2);
    CHECK(refused.err.size() <= 240);
    check_says(refused.err, parts);
  }
}

TEST_CASE_FIXTURE(CommandFolder,
                  "bug: init named the wrong reason, or read labeled texts as a plain text") {
  std::string ends, splits = "text,label,split\n", tweets = "posted,mood,airline,tweet\n";
  for (int i = 0; i < 60; ++i) {
    ends += fmt::format("a film of {} minutes __label__{}\n", i, i % 2 ? "a" : "b");
    splits += fmt::format("a film of {} minutes,{},{}\n", i, i % 2, i == 7 ? "trian" : "train");
    tweets +=
        fmt::format("2020-01-01 00:00:{:02},{},{},a flight of {} hours\n", i, i % 2, i % 3, i);
  }
  write("ends.txt", ends);
  write("splits.csv", splits);
  write("tweets.csv", tweets);
  write("latin.csv", "time,caf\xe9\n2020-01-01,1\n2020-01-02,2\n");
  const std::pair<const char*, Strings> rows[] = {
      {"init ends.txt", {"line 1: the label \"b\" stands behind the text", "; or add --task text"}},
      {"init latin.csv", {"iconv -f WINDOWS-1252 -t UTF-8"}},
      {"init splits.csv", {"as labeled texts: line 9: column split: \"trian\" is no split"}},
      {"init tweets.csv",
       {"several columns may have the labels: mood (2 different values), airline (3)",
        "--label COLUMN", "; or add --task forecast"}}};
  for (const auto& [command, parts] : rows) {
    const Finished refused = run(command);
    CHECK(refused.status == 2);
    check_says(refused.err, parts);
  }
  CHECK(Json::parse(must(run("init tweets.csv --minutes 1 --json --label mood")).out)["task"] ==
        "text-classification");
  CHECK(Json::parse(must(run("init tweets.csv --minutes 1 --json --out other.toml --set "
                             "data.label_field=airline"))
                        .out)["task"] == "text-classification");
}

TEST_CASE_FIXTURE(CommandFolder, "bug: init did not print the columns of tables in a folder") {
  for (const char* split : {"train", "test"}) {
    std::string table = "text,label\n";
    for (int i = 0; i < 20; ++i)
      table += fmt::format("a {} of {},{}\n", split, i, i % 2 ? "x" : "X");
    write(fmt::format("set/{}.csv", split), table);
  }
  const Json found = Json::parse(must(run("init set --minutes 1 --json")).out);
  CHECK(found["facts"]["column_label"] == "label: texts, 2 different");
  check_says(found["problems"].dump(), {"the classes X and x differ only in case"});
}

TEST_CASE_FIXTURE(CommandFolder, "bug: init: --help did not list tables as a kind of data") {
  write("notes.txt", "some notes\n");
  const std::string help = must(run("init --help")).out;
  std::string list = help.substr(help.find("kind of data: ") + 14);
  list.resize(list.find(" ("));
  check_says(help, {"labeled texts, a table, time series"});
  for (const auto& [task, spec] : task_registry())
    for (const Recognized& found :
         spec.recognize ? spec.recognize({path("notes.txt")}) : std::vector<Recognized>())
      CHECK_MESSAGE((", " + list + ",").find(", " + found.name + ",") != help.npos, found.name);
}

TEST_CASE_FIXTURE(CommandFolder,
                  "bug: init counted bytes of earlier files in the place of an error") {
  write("texts/a.txt", "abcdef\n");
  write("texts/b.txt", "ab\x01\n");
  const std::vector<Recognized> found =
      task_registry().at("language-model").recognize({path("texts")});
  check_says(found.front().refusal, {"b.txt: byte 2: control character 0x01"});
}

TEST_CASE_FIXTURE(CommandFolder,
                  "init: a training that does not fit into the memory is changed, "
                  "or no config is written" *
                      not_sanitized("the memory that is measured contains the sanitizer's")) {
  write("long.txt", long_text());
  const auto written = [&](std::int64_t megabytes) {
    return run("init long.txt --minutes 1 --json --memory {}", megabytes);
  };
  const std::int64_t needed = Json::parse(must(written(0)).out)["bytes"];
  fs::rename(path("mine.toml"), path("large.toml"));
  const Finished changed = must(written(needed * 9 / 10 / 1000000));
  CHECK(Json::parse(changed.out)["bytes"] < needed * 9 / 10);
  check_says(read("mine.toml"), {"# fits into the memory of the machine"});
  must(run("train mine.toml --quiet train.steps=2 train.eval_every=0"));
  fs::remove(path("mine.toml"));
  const Finished refused = written(20);
  check_fails(refused, {"long.txt: ", "memory", "the machine has 20 MB"});
  CHECK(!has("mine.toml"));
}

TEST_CASE_FIXTURE(CommandFolder,
                  "bug: init wrote a config of few steps instead of smaller pictures") {
  for (const char* name : {"a", "b"})
    for (int i = 0; i < 40; ++i)
      write(fmt::format("photos/{}/{}.jpg", name, i), jpeg(100, 100, {10, 20, 30}));
  const auto made_with = [&](Strings overrides, double minutes) {
    overrides.insert(overrides.end(), {"train.batch_size=32", "model.channels=[64,128,256]",
                                       "model.kind=convolutional"});
    const FoundData found = recognize_data({path("photos"), overrides}, "image-classification");
    return make_config(found, {.out = path("made.toml"), .minutes = minutes});
  };
  const NewConfig kept = made_with({"data.image_size=64"}, 10);
  check_says(kept.toml, {"image_size = 64"});  // as given
  // In this time 8 steps fit, of the 100 that are enough: the speed is measured twice.
  const double seconds =
      seconds_of({.steps = 8, .evaluations = 1, .checkpoints = 2}, *kept.plan.throughput);
  const NewConfig made = made_with({}, seconds / 60);
  REQUIRE(!made.problems.empty());
  check_says(made.problems[0], {"which is too few; with data.image_size = "});
  check_says(made.toml, {"# pixels; more take too long"});
  CHECK(made.toml.find("image_size = 64") == std::string::npos);
}

TEST_CASE_FIXTURE(CommandFolder,
                  "bug: init refused a cycle, and columns and targets of time series") {
  std::string rows = "time,load,price\n";
  for (int hour = 0; hour < 1000; ++hour)
    rows += fmt::format("2024-01-{:02}T{:02}:00,{},{}\n", hour / 24 % 31 + 1, hour % 24, hour % 24,
                        hour % 7);
  rows.resize(rows.find("2024-01-31T23"));
  write("h.csv", rows);
  for (const auto& [setting, lines] : std::vector<std::pair<std::string, std::vector<std::string>>>{
           {"model.cycle=24", {"cycle = 24", "columns = [\"load\", \"price\"]"}},
           {"data.targets=[\"price\"]", {"targets = [\"price\"]"}},
           {"data.columns=[\"load\"]", {"columns = [\"load\"]"}}}) {
    must(run("init h.csv --out h.toml --set " + setting));
    check_says(read("h.toml"), lines);
    must(run("train h.toml --quiet --set train.steps=1"));
    fs::remove(path("h.toml"));
    fs::remove_all(path("runs"));
  }
}

TEST_CASE_FIXTURE(CommandFolder, "bug: init refused the context that it chose for short series") {
  for (const int rows : {30, 45, 100, 150, 239}) {
    std::string text = "date,x\n";
    for (int row = 0; row < rows; ++row)
      text += fmt::format("{},{}\n", time_text({row * day_us}).substr(0, 10), row * 3 % 7);
    write("short.csv", text);
    const std::string out = fmt::format("{}.toml", rows);
    must(run("init short.csv --minutes 1 --out " + out));
    must(run("train " + out + " --quiet --set train.steps=1"));
  }
}

TEST_CASE_FIXTURE(CommandFolder, "init: a file with the name of the base does not replace it") {
  write("names/names", "");
  std::string list;
  for (int i = 10; i < 99; ++i) list += fmt::format("name{}\n", i);
  write("names/list.txt", list);
  const Finished refused = run("init names/list.txt --out names/mine.toml");
  check_fails(refused, {"--out names/mine.toml", "a file there has this name"});
  CHECK(!has("names/mine.toml"));
}

// Returns texts with two of 20 words that tell the class, among other words.
std::string telling_texts() {
  std::string text = "text,label\n";
  for (int i = 0; i < 600; ++i)
    text += fmt::format("word{} in {} text word{},{}\n", i % 2 + 2 * (i % 10), i % 7,
                        i % 2 + 2 * (i % 9), i % 2 ? "odd" : "even");
  return text;
}

TEST_CASE_FIXTURE(CommandFolder, "init: takes the better of two kinds, with a rate that fits it") {
  write("texts.csv", telling_texts());
  const Words small = Words("--set model.width=8 --set model.layers=1 --set model.heads=1") +
                      Words("--set data.vocabulary=300 --minutes 1 --json");
  const Json found = Json::parse(must(run(Words("init texts.csv") + small)).out);
  REQUIRE(found["tried"].size() == 4);
  const std::vector<Json> tried = found["tried"].get<std::vector<Json>>();
  CHECK(tried[0]["name"] == "majority class");
  CHECK(tried[0]["accuracy"].get<double>() == doctest::Approx(0.5).epsilon(0.1));
  CHECK(tried[1]["name"] == "linear model on words");
  CHECK(tried[1]["accuracy"] == 1);
  CHECK(tried[2]["examples"] == tried[3]["examples"]);
  const bool is_dearer = tried[3]["accuracy"].get<double>() > tried[2]["accuracy"].get<double>();
  CHECK(found["chosen"] == tried[is_dearer ? 3 : 2]["name"]);
  check_says(read("mine.toml"), {is_dearer ? "kind = \"transformer\"" : "kind = \"embeddings\"",
                                 is_dearer ? "learning_rate = 0.002" : "learning_rate = 0.01"});
}

TEST_CASE_FIXTURE(CommandFolder, "init: a kind that is given has its learning rate, untried") {
  write("texts.csv", telling_texts());
  const std::string said =
      must(run("init texts.csv --set model.kind=embeddings --set model.width=8 --minutes 1")).out;
  CHECK(said.find("tried") == said.npos);
  check_says(read("mine.toml"), {"kind = \"embeddings\"", "learning_rate = 0.01"});
  const std::string trained =
      must(run("train match-reports --out run data.kind=text data.path=texts.csv "
               "model.kind=embeddings data.vocabulary=300 train.steps=2"))
          .out;
  check_says(trained, {"optim.learning_rate = 0.002 is that of another kind of model; averaged "
                       "embeddings train well with --set optim.learning_rate=0.01"});
}

TEST_CASE_FIXTURE(TemporaryFolder, "bug: init: tables were read in part, or as another thing") {
  const auto read = [&](const std::string& header, const std::string& form, int rows = 100) {
    std::string text = header + "\n";
    for (int i = 0; i < rows; ++i)
      text += fmt::format(fmt::runtime(form + "\n"), fmt::arg("i", i), fmt::arg("half", i % 2),
                          fmt::arg("x", i * 37 % 101), fmt::arg("five", i % 5),
                          fmt::arg("eighth", i / 8), fmt::arg("odd", i / 8 % 2));
    const Recognized found = task_registry().at("table").recognize({write("a.csv", text)}).front();
    return fmt::format("{}; {}; {}", found.refusal, found.facts.dump(),
                       fmt::join(found.problems, "; "));
  };
  check_says(read("x,x,target", "{i},{x},{half}"), {"two columns are named x; rename one"});
  check_says(read("x,label", "{x},{half}.0"), {"\"classes\":2"});
  check_says(read("x,target", "{x},{five}.0"), {"5 different integers"});
  check_says(read("x,target", "{i},€{x}.5M"), {"may be a class, or a number with a unit"});
  check_says(read("km,y,target", "{x} km,{five},{half}"),
             {"column km: \"0 km\" is read as a text"});
  check_says(read("zip,target", "0{five}139,{x}.5"),
             {"column zip\":\"categories", "\"00139\" begins with 0"});
  check_says(read("x,target", "{half}%,{half}\n0.5,1"), {"has another unit than %"});
  check_says(read("x,target", "{x},{x}.5\n-999,1.5"), {"the value -999 occurs 100 times"});
  check_says(read("x,target", "{x},\"{half} \""), {"\"classes\":2"});
  check_says(read("x,code,class", "{x},{half},c{half}"), {"column code: each value goes with one"});
  check_says(read("x,class", "{x},c{five}", 15), {"class has 5 classes for "});
  check_says(read("id,x,class", "p{eighth},{x},c{odd}"),
             {"column id: each value goes with one class"});
  check_says(read("x,class", "{x},Yes\n{i},yes"), {"the classes Yes and yes differ only in case"});
  check_says(read("x,class", "{x},Yes\n{i},Yes\u200b"),
             {"the classes Yes and Yes\\u200b differ only in how their characters are encoded"});
  check_says(read("x,class", "{x},a\n1,b\n2,a|b\n3,b|a"), {"the class a|b may be several labels"});
  std::string ships = "age,fare,class,name,sank\n";
  for (int i = 0; i < 90; ++i)
    ships += fmt::format("{},{}.5,{},\"Smith, Mr. A{}\",{}\n", i % 50, i, i % 3, i, i % 2);
  CHECK(task_registry().at("table").recognize({write("c.csv", ships), {}, "sank"}).front().fit ==
        Recognized::Fit::certain);  // and so are the names as texts, which makes init ask
  std::string sales = "region,sales,target\n";
  for (int i = 0; i < 40; ++i) sales += fmt::format("{},{},{}.5\n", i % 2 ? "a" : "b", i, i);
  write("b.csv", sales + "Grand Total,780,800\n");
  check_says(task_registry().at("table").recognize({path("b.csv")}).front().refusal,
             {"\"Grand Total\" is a row about the others; remove it"});
}

TEST_CASE_FIXTURE(TemporaryFolder, "bug: init: 1 and 1.0 were two classes of tables and graphs") {
  const auto check_read = [&](const Strings& labels, const Strings& wanted) {
    std::string nodes = "id,x,class\n", edges = "source,target\n";
    for (int i = 0; i < 60; ++i) {
      nodes += fmt::format("n{},{},{}\n", i, i * 37 % 101, labels[i % labels.size()]);
      edges += fmt::format("n{},n{}\n", i, (i + 1) % 60);
    }
    write("edges.csv", edges);
    for (const auto& [task, data] :
         {std::pair("table", write("nodes.csv", nodes)), std::pair("graph", path())}) {
      const Recognized found = task_registry().at(task).recognize({data}).front();
      check_says(fmt::format("{} {}; {}", found.refusal, found.facts["classes"].dump(),
                             fmt::join(found.problems, "; ")),
                 wanted);
    }
  };
  check_read({"1", "1.0", "2", "2.0"}, {" 2; ", "labels 1 and 1.0 are one class"});
  check_read({"a", "A", "b"}, {" 3; ", "the classes A and a differ only in case"});
  check_read({"a", "b", "\"a, b\""}, {" 3; ", "the class a, b may be several labels"});
  check_read({"['a']", "['b']", "\"['a', 'b']\""},
             {" 3; ", "the class ['a', 'b'] may be several labels"});
  std::string train = "x,class\n", test = "x,class\n";
  for (int i = 0; i < 60; ++i) {
    train += fmt::format("{},{}.0\n", i * 37 % 101, i % 2);
    test += fmt::format("{},{}\n", i * 37 % 101, i % 2);
  }
  write("split/train.csv", train);
  write("split/test.csv", test);
  const Recognized found = task_registry().at("table").recognize({path("split")}).front();
  CHECK(found.refusal == "");
  CHECK(found.facts["test rows"] == 60);
}

TEST_CASE_FIXTURE(TemporaryFolder, "bug: init did not name the other files of a graph") {
  std::string nodes = "id,label\n", edges = "source,target\n";
  for (int i = 0; i < 60; ++i) {
    nodes += fmt::format("n{},{}\n", i, i % 2);
    edges += fmt::format("n{},n{}\n", i, (i + 1) % 60);
  }
  for (const char* name : {"nodes.csv", "nodes_test.csv", ".cache"}) write(name, nodes);
  write("edges.csv", edges);
  write("features.csv", "id,x\nn0,1\n");
  const Recognized found = task_registry().at("graph").recognize({path()}).front();
  CHECK(found.problems.back() == "not used of the folder: features.csv, nodes_test.csv");
}

TEST_CASE_FIXTURE(TemporaryFolder, "bug: init encoded pictures whose classes a table has") {
  const auto said = [&](const std::string& folder) {
    return message_of([&] { recognize_data({path(folder)}, ""); });
  };
  std::string rows = "image_id,label\n", texts = "image,caption\n", numbers = "step,loss\n";
  for (int i = 0; i < 20; ++i) {
    const std::string picture = png(4, PNG_FORMAT_RGB, std::vector<std::uint8_t>(4 * 4 * 3, i));
    for (const std::string folder : {"ids/train", "names/all", "plain", "few"})
      write(fmt::format("{}/c{}.png", folder, i), picture);
    rows += fmt::format("c{},{}\n", i, i % 2 ? "cat" : "dog");
    texts += fmt::format("c{}.png,a picture of a red bird that has {} eyes and legs .\n", i, i % 5);
    numbers += fmt::format("{},0.5\n", i);
  }
  write("ids/train.csv", rows);
  check_says(said("ids"), {"ids: train.csv names the pictures, but classes are read from folders"});
  write("names/captions.txt", texts);
  check_says(said("names"),
             {"captions.txt names the pictures", "a table of captions captions.csv"});
  write("plain/log.csv", numbers);
  CHECK(recognize_data({path("plain")}, "").task == "vae");
  for (int i = 0; i < 10; ++i)
    for (const std::string name : {"pets/cat.", "pets/Dog_", "roll/IMG_", "roll/dsc"})
      write(fmt::format("{}{}.png", name, i),
            png(4, PNG_FORMAT_RGB, std::vector<std::uint8_t>(4 * 4 * 3, i)));
  check_says(said("pets"),
             {"pets: the names of the pictures begin with cat, dog, but classes are"});
  CHECK(recognize_data({path("pets")}, "vae").task == "vae");
  CHECK(recognize_data({path("roll")}, "").task == "vae");
  write("few/best.csv", "image,label\nc1.png,cat\nc2.png,dog\n");
  CHECK(recognize_data({path("few")}, "").task == "vae");
  CHECK(recognize_data({path("ids")}, "vae").task == "vae");
}

TEST_CASE_FIXTURE(TemporaryFolder, "bug: init refused a folder with a test.csv to be predicted") {
  std::string train = "x,y,target\n", test = "x,y\n", texts = "id,words,target\n",
              more = "id,words\n";
  for (int i = 0; i < 60; ++i) {
    train += fmt::format("{},{},{}\n", i * 37 % 101, i * 11 % 61, i % 2 ? "yes" : "no");
    test += fmt::format("{},{}\n", i, i);
    texts += fmt::format("{},The soup {} is good,{}\n", i, i, i % 2);
    more += fmt::format("{},The soup is bad\n", i);
  }
  const auto read = [&](const char* task, const std::string& folder) {
    const Recognized found = task_registry().at(task).recognize({path(folder)}).front();
    return fmt::format("{}; {}", found.refusal, fmt::join(found.problems, "; "));
  };
  write("rows/train.csv", train);
  write("rows/test.csv", test);
  check_says(read("table", "rows"), {"test.csv has no column target, and is not the test split"});
  write("texts/train.csv", texts);
  write("texts/test.csv", more);
  check_says(read("text-classification", "texts"),
             {"test.csv has no labels, and is not the test split"});
  write("texts/test.csv",
        texts.substr(0, texts.find('\n')) + "\n1,The soup is bad,\n2,The soup is good,\n");
  check_says(read("text-classification", "texts"),
             {"test.csv has no labels, and is not the test split"});
  write("ids.csv", "image_id,label\nplate1,cat\nplate2,dog\nplate3,cat\nplate4,dog\n");
  check_says(read("text-classification", "ids.csv"),
             {"no column is named text or has several words"});
  write("rows/test.csv", "x,y,target\n1,2,maybe\n");
  check_says(message_of([&] { recognize_data({path("rows")}, ""); }),
             {"\"maybe\" is not one of the classes no, yes"});
}

TEST_CASE_FIXTURE(CommandFolder, "bug: init took columns without commas for prose or names") {
  for (const std::string form : {"{} 1.5 2.5 yes and much more of it 3 4 5 6 7 8 9 10 11 12 13 14",
                                 "Mary,F,{}", "{} 1:0.5 2:0.25", "| {} | a | b |"}) {
    std::string text;
    for (int i = 0; i < 200; ++i) text += fmt::format(fmt::runtime(form + "\n"), i);
    write("data.txt", text);
    check_fails(run("init data.txt"), {"the lines have columns", "add --task "});
  }
  std::string objects;  // the form of Alpaca
  for (int i = 0; i < 60; ++i)
    objects += fmt::format("{} {{\"instruction\": \"Add 1 to {}.\", \"output\": \"{}\"}}",
                           i == 0 ? "[\n" : ",\n", i, i + 1);
  write("all.json", objects + "\n]\n");
  check_fails(run("init all.json"), {"one JSON array; write a line for each object: jq -c '.[]'"});
}

TEST_CASE_FIXTURE(CommandFolder, "bug: init took any numbers without times for time series") {
  std::string fruits = "height,width,kind\n", load = "load\n", cells = "diagnosis,a,b,c\n";
  std::string flowers = "length,width,species\n";
  for (int i = 0; i < 60; ++i) {
    cells += fmt::format("{},{},{},{}\n", i % 3 ? "B" : "M", i + 0.5, i * 1.5, 90.25 - i);
    flowers += fmt::format("{},{},{}\n", i % 9, i % 7, i % 3 ? "rose" : "lily");
    fruits += fmt::format("{}.5,{},{}\n", i * 7 % 13, i * 5 % 11, i % 3);
    load += fmt::format("{}\n", i % 24);
  }
  write("fruits.csv", fruits);
  write("load.csv", load);
  const Finished asked = run("init fruits.csv");
  CHECK(asked.status == 2);
  check_says(asked.err, {"fruits.csv: no column has times", "--label; or add --task forecast"});
  write("cells.csv", cells);
  write("flowers.csv", flowers);
  check_says(run("init flowers.csv").err, {"choose the column to predict with --label; or add"});
  const auto task_of = [&](const std::string& words) {
    return Json::parse(must(run("init " + words + " --minutes 1 --json")).out)["task"];
  };
  CHECK(task_of("cells.csv --out d.toml") == "table");
  CHECK(task_of("fruits.csv --label height --out a.toml") == "table");
  CHECK(task_of("fruits.csv --task forecast --out b.toml") == "forecast");
  CHECK(task_of("load.csv --out c.toml") == "forecast");
}

TEST_CASE_FIXTURE(CommandFolder, "bug: init took the lines of XML for names") {
  std::string graph = "<?xml version=\"1.0\"?>\n<graph>\n";
  for (int i = 0; i < 100; ++i) graph += fmt::format("<node id=\"{}\"/>\n", i);
  write("net.gexf", graph + "</graph>\n");
  check_fails(run("init net.gexf"),
              {"net.gexf: this is XML; write its text", "add --task text to train"});
}

TEST_CASE_FIXTURE(CommandFolder, "bug: init called instructions and answers labeled texts") {
  std::string lines;
  for (int i = 0; i < 60; ++i)
    lines += fmt::format(
        "{{\"instruction\": \"Is it even?\", \"input\": \"{}\", \"output\": "
        "\"{}\"}}\n",
        i,
        i == 7  ? ""
        : i % 2 ? "No."
                : "Yes.");
  write("all.jsonl", lines);
  check_says(must(run("init all.jsonl")).out, {"all.jsonl: conversations", "one answer is empty"});
}

TEST_CASE_FIXTURE(CommandFolder, "bug: init: UTF-16 and ZIP were called Windows-1252") {
  write("a.txt", std::string("\xFF\xFE"
                             "a\0b\0",
                             6));
  write("b.csv", "PK\x03\x04\xff");
  check_fails(run("init a.txt"), {"the content is UTF-16", "iconv -f UTF-16"});
  check_fails(run("init b.csv"), {"the content is a ZIP archive"});
}

TEST_CASE_FIXTURE(CommandFolder, "bug: init took a list of edges for a table") {
  std::string edges = "source,target\n", others = "Source;Target;Type;Id;Label;Weight\n",
              flights = "from,to,price\n";
  for (int i = 0; i < 60; ++i) {
    edges += fmt::format("{},{}\n", i % 20, i * 7 % 17);
    others += fmt::format("{};{};Undirected;{};;1\n", i % 20, i * 7 % 17, i);
    flights += fmt::format("{},{},{}.5\n", i % 5, i * 7 % 5, i);
  }
  write("edges.csv", edges);
  write("others.csv", others);
  write("flights.csv", flights);
  for (const std::string name : {"edges.csv", "others.csv"})
    check_fails(run("init " + name),
                {name + ": has the edges of a graph; to classify its nodes, "
                        "give a folder with nodes.csv and edges.csv; or add "});
  const Words as_number("--set data.target=number --minutes 1");
  must(run(Words("init others.csv --task table --out a.toml") + as_number));
  must(run(Words("init others.csv --label Target --out b.toml") + as_number));
  std::string points = "u,v,label\n", prose = "Start End\n", plain = "1,2\n";
  for (int i = 0; i < 100; ++i) {
    points += fmt::format("{}.5,{}.5,{}\n", i % 7, i % 5, i % 2);
    prose += "It begins here, and it ends there, as all of them do.\n";
    plain += fmt::format("{},{}\n", i % 20, i * 7 % 17);
  }
  write("points.csv", points);
  write("prose.txt", prose);
  write("plain.csv", plain);
  for (const std::string name : {"flights.csv", "points.csv", "prose.txt", "plain.csv"})
    CHECK(run("init --out c.toml " + name).err.find("edges") == std::string::npos);
}

TEST_CASE_FIXTURE(CommandFolder, "bug: init did not tell of a column that may name the splits") {
  std::string rows = "Usage,isTest,last_test,x,label\n", texts = "text,Usage,label\n",
              named = "split,x,label\n";
  for (int i = 0; i < 80; ++i) {
    const char* usage = i % 4 == 0 ? "PublicTest" : "Training";
    rows += fmt::format("{},{},{},{},{}\n", usage, i % 4 == 0, i % 7, i * 37 % 101, i % 2);
    texts += fmt::format("The soup {} is good,{},{}\n", i, usage, i % 2);
    named += fmt::format("{},{},{}\n",
                         i % 8 == 0   ? "extra"
                         : i % 8 == 1 ? "val"
                                      : "train",
                         i * 37 % 101, i % 2);
  }
  write("rows.csv", rows);
  write("texts.csv", texts);
  write("named.csv", named);
  const auto notes = [&](const char* task, const std::string& file) {
    const Recognized found = task_registry().at(task).recognize({path(file)}).front();
    CHECK(found.refusal == "");
    return fmt::format("{}", fmt::join(found.problems, "; "));
  };
  const std::string of_rows = notes("table", "rows.csv");
  check_says(of_rows, {"column Usage may divide the rows into splits, but only one named split",
                       "column isTest may divide"});
  CHECK(of_rows.find("last_test") == std::string::npos);
  check_says(notes("text-classification", "texts.csv"), {"column Usage may divide the rows"});
  CHECK(notes("table", "named.csv") == "10 rows of no split left out");
  const std::string flags = rows.replace(0, rows.find(",x"), "split,is_test,hiv_test");
  CHECK(notes("table", write("flags.csv", flags)).find("may divide") == std::string::npos);
}

TEST_CASE_FIXTURE(CommandFolder, "bug: init took pictures and their masks for two classes") {
  const std::string picture = png(4, PNG_FORMAT_GRAY, std::vector<std::uint8_t>(16, 7));
  const auto init = [&](const std::string& pair, const std::string& options = "") {
    for (const std::string& folder : Words(pair))
      for (int i = 0; i < 20; ++i)
        write(fmt::format("{}/{}/{}.png", Words(pair)[0] + "-", folder, i), picture);
    fs::remove(path("a.toml"));
    return run("init --minutes 1 --out a.toml " + Words(pair)[0] + "- " + options);
  };
  const std::string question =
      "its two folders may be pictures and their masks, which no task learns";
  check_fails(init("images masks"), {question, "add --task image-classification"});
  check_fails(init("train/Img train/labels"), {question});
  must(init("input mask", "--task image-classification"));
  must(init("photos gt", "--task vae"));
  for (const std::string classes : {"photo mask chair", "with_mask without_mask", "mask no_mask"})
    CHECK(init(classes).err.find("may be") == std::string::npos);
}

TEST_SUITE_END();

}  // namespace
}  // namespace tapestry
