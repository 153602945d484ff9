#include <doctest/doctest.h>

#include "tests/support/papers.hpp"
#include "tests/support/process.hpp"
#include "train/config/settings.hpp"
#include "train/task_spec.hpp"

namespace tapestry {
namespace {

// Writes two IDX files of `count` images of 2 x 2 pixels with the labels 0, 1, 2, …
void write_few_images(const TemporaryFolder& folder, const std::string& split, char count) {
  const std::string counted = {0, 0, 0, count}, side = {0, 0, 0, 2};
  std::string labels;
  for (char label = 0; label < count; ++label) labels += label;
  folder.write(split + "-images-idx3-ubyte",
               std::string({0, 0, 8, 3}) + counted + side + side +
                   std::string(static_cast<std::size_t>(4 * count), 7));
  folder.write(split + "-labels-idx1-ubyte", std::string({0, 0, 8, 1}) + counted + labels);
}

TEST_SUITE_BEGIN("option keys");

TEST_CASE_FIXTURE(TemporaryFolder,
                  "option keys: errors of data/ are printed with key, origin and advice") {
  write("short.txt", "to be or not");
  write("gap.csv", "date,a\n2020-01-01,1\n2020-01-02,1\n2020-01-04,2\n");
  write("small.content", content);
  fs::create_directory(path("tables"));
  write("tables/nodes.csv", "id,note,label\nu,x,a\nv,y,b\n");
  write("tables/edges.csv", "source,target\nu,v\n");
  write("small.cites", cites);
  for (const char* name : {"train.de", "train.en", "val.de", "val.en"}) write(name, "one\ntwo\n");
  write_few_images(*this, "train", 3);
  write_few_images(*this, "t10k", 3);

  const auto check = [](const std::string& task, const Strings& sets, const Strings& parts) {
    CAPTURE(parts.front());
    const Config config = parse_config("task = \"" + task + "\"", "test", sets);
    check_says(message_of([&] { make_task({.config = config}); }), parts);
  };
  check("language-model", {"data.path=" + path("short.txt")},
        {"model.context = 64 (default): ",
         "short.txt: the train split has 11 tokens; expected at least 65",
         "; lower this value or data.validation_fraction"});
  check("language-model",
        {"data.path=" + path("short.txt"), "model.context=4", "data.validation_fraction=0"},
        {"--set: data.validation_fraction = 0.0: ", "short.txt: the validation split has 0 tokens",
         "at least 2", "; raise this value"});
  check("forecast", {"data.kind=csv", "data.path=" + path("gap.csv"), "data.missing=refuse"},
        {"--set: data.missing = \"refuse\": ", "gap.csv: a has no value at 2020-01-03 00:00:00",
         "; set data.missing to \"interpolate\""});
  check("forecast", {"data.split=months", "data.train_months=20"},
        {"--set: data.train_months = 20: waves: 20 + 4 + 4 months",
         "; lower the numbers of months, or set data.split = \"fractions\""});
  check("graph", {"data.kind=karate", "data.labeled=[1,2]"},
        {"--set: data.labeled = [1, 2]: 2 of 34 members are labeled; expected at least one"});
  check("graph", {"data.kind=citations", "data.path=" + path()},
        {"data.training_nodes = 140 (default): ",
         "small.content: 8 nodes; expected at least the sum of 140",
         "; lower this value, data.validation_nodes or data.test_nodes"});
  check("graph", {"data.kind=csv", "data.path=" + path("tables"), "data.label_column=job"},
        {"--set: data.label_column = \"job\": ", "nodes.csv: line 1: no column is named job",
         "; to read another column, set data.label_column to its name"});
  check("graph", {"data.kind=csv", "data.path=" + path("tables"), "data.id_column=key"},
        {"--set: data.id_column = \"key\": ", "no column is named key; expected one of id, note",
         "; give the name of a column"});
  check("graph", {"data.kind=csv", "data.path=" + path("tables"), "data.split_column=note"},
        {"--set: data.split_column = \"note\": ",
         "line 2: column note: expected train, validation, test or nothing, found x",
         "; or give another column, or \"none\""});
  check("graph", {"data.kind=csv", "data.path=" + path("tables"), "data.class_names=a,c"},
        {"--set: data.class_names = [\"a\", \"c\"]: ", "line 3: class b is not one of a, c",
         "; correct the label, or list the class here"});
  check("graph", {"data.kind=csv", "data.path=" + path("tables"), "data.categorical_columns=label"},
        {"--set: data.categorical_columns = [\"label\"]: ",
         "line 2: column note: expected a number", "; list all columns with texts here"});
  check("graph", {"data.kind=csv", "data.path=" + path("tables"), "data.ignore_columns=notes"},
        {"--set: data.ignore_columns = [\"notes\"]: ", "no column is named notes",
         "; list the columns to leave out here"});
  check("graph", {"data.kind=csv", "data.path=" + path("tables")},
        {"data.validation_fraction = 0.2 (default): ",
         "2 nodes with labels of 2 classes, but 2 for training and 0 for validation",
         "; or change this value"});
  check("vae", {"data.path=" + path(), "data.class_names=a,b"},
        {"--set: data.class_names = [\"a\", \"b\"]: ",
         "train-labels-idx1-ubyte: byte 10: expected a label", "from 0 to 1, found 2",
         "; or list all classes of the file here"});
  check("vae", {"data.path=" + path(), "data.validation_fraction=0.9"},
        {"--set: data.validation_fraction = 0.9: 3 of 3 images are used for validation, so that "
         "none",
         "; change the value, or give more images"});
  check("translation", {"data.path=" + path(), "data.kind=text", "data.test=test"},
        {"--set: data.test = \"test\": ", "expected a file test*.de",
         "; leave this key empty if there is no test split"});
  check("recall", {"data.pairs=20"}, {"--set: data.pairs = 20: pairs = 20: expected 1 to 16"});
  check("toy-sequence", {"data.length=2", "data.alphabet=3"},
        {"--set: data.length = 2: only 9 different inputs", "at least 64", "; raise this value"});
  const Config config = parse_config("task = \"vae\"", "test", {"data.path=" + path()});
  check_says(message_of([&] {
               make_task({.config = config, .metadata = {{"height", "3"}, {"width", "2"}}});
             }),
             {"--set: data.path = ", "bytes 8 to 15: expected images of 3 x 2, found 2 x 2",
              "; give images of the size this model was trained on"});
}

TEST_CASE("option keys: errors of options without a key, and others, are unchanged") {
  struct Pairs {
    std::int64_t pairs = 0;
  };
  const SettingsOf<Pairs> settings{{Bound<Pairs>("data.pairs", &Pairs::pairs, "")}};
  const Given<Pairs> given = settings.of(parse_config("task = \"recall\"", "test", {}));
  CHECK(given.pairs == 8);
  const auto fail = [](bool of_option) {
    if (of_option) throw OptionError("distractors", "1 distractor");
    throw InputError("no file");
  };
  for (const bool of_option : {true, false})
    CHECK(message_of([&] { given.checked([&] { return fail(of_option); }); }) ==
          (of_option ? "1 distractor" : "no file"));
  CHECK(given.checked([] { return 3; }) == 3);
}

TEST_SUITE_END();

}  // namespace
}  // namespace tapestry
