#include <doctest/doctest.h>

#include <cmath>

#include "autograd/ops.hpp"
#include "data/series/series.hpp"
#include "layers/linear.hpp"
#include "tests/support/idx.hpp"
#include "tests/support/labels.hpp"
#include "tests/support/process.hpp"
#include "train/config/keys.hpp"
#include "train/task_spec.hpp"
#include "train/tools/doctor/check.hpp"

// Tests the doctor's checks of data where a sample, an order or a copy could mislead them.
namespace tapestry {
namespace {

// Runs checks of data on a config.
Finished examine_data(Words arguments,
                      const Strings& checks = {"shared examples", "labels", "targets"}) {
  arguments.insert(arguments.begin(), "doctor");
  for (const DoctorCheck& check : doctor_checks())
    if (std::ranges::count(checks, check.name) == 0)
      arguments.insert(arguments.end(), {"--skip", check.name});
  return tapestry_run(arguments);
}

TEST_SUITE_BEGIN("doctor");

// --- targets ---

TEST_CASE_FIXTURE(TemporaryFolder, "bug: doctor: graphs with numeric features failed") {
  Random random(8, Stream::data);
  std::string content, cites;
  for (int i = 0; i < 200; ++i) {
    content += fmt::format("p{} {:.3f} {:.3f} field{}\n", i, i % 3 + 0.1 * random.normal(),
                           random.normal(), i % 3);
    cites += fmt::format("p{} p{}\n", i, (i + 3) % 200);
  }
  write("papers.content", content);
  write("papers.cites", cites);
  const Finished found = examine_data({"cora", "data.path=" + path(""), "data.training_nodes=100",
                                       "data.validation_nodes=50", "data.test_nodes=50"});
  INFO(found.out);
  check_prints(found, {"skip  targets"});
}

// --- examples in both splits ---

// So many different names, of which the first few are there more than once.
std::string some_names(std::int64_t different, std::int64_t copied, std::int64_t times) {
  Strings names;
  for (std::int64_t i = 0; i < different; ++i) {
    std::string name;
    for (std::int64_t left = i + 1000; left > 0; left /= 26)
      name += static_cast<char>('a' + left % 26);
    names.insert(names.end(), i < copied ? times : 1, name);
  }
  Random(4, Stream::data).shuffle(names);
  std::string text;
  for (const std::string& name : names) text += name + "\n";
  return text;
}

TEST_CASE_FIXTURE(TemporaryFolder,
                  "bug: doctor: a repeated name was reported as a leak of a random split") {
  const std::string path = write("names.txt", some_names(100, 1, 2));
  int parted = 0;
  for (int seed = 0; seed < 12; ++seed) {
    const Finished found = examine_data(
        {"names", "data.path=" + path, "data.held_back=10", "--set", fmt::format("seed={}", seed)});
    INFO(found.out);
    CHECK(found.status == 0);
    parted += contains(found.out, "1 of 10 validation examples");
  }
  CHECK(parted > 0);
}

TEST_CASE_FIXTURE(TemporaryFolder, "bug: doctor: duplicates across splits were only a warning") {
  const std::string path = write("names.txt", some_names(400, 400, 3));
  const Finished found = examine_data({"names", "data.path=" + path});
  INFO(found.out);
  CHECK(found.status == 1);
  check_says(found.out, {"FAIL  shared examples", "duplicates of examples are in both splits"});
}

std::string some_text(std::int64_t characters) {
  Random random(6, Stream::data);
  std::string text;
  for (std::int64_t i = 0; i < characters; ++i) text += static_cast<char>('a' + random.below(26));
  return text;
}

TEST_CASE_FIXTURE(TemporaryFolder,
                  "bug: doctor: a text repeated eight times hid validation windows") {
  const std::string once = some_text(40'000);
  std::string text;
  for (int i = 0; i < 8; ++i) text += once;
  const Finished found = examine_data(
      {"shakespeare-char", "data.path=" + write("text.txt", text), "model.context=250"});
  INFO(found.out);
  CHECK(found.status == 1);
  check_says(found.out, {"FAIL  shared examples", "(100 %) are training examples as well"});
}

TEST_CASE("doctor: windows of a text are found by their tokens, at any place") {
  const std::vector<std::int32_t> tokens = {3, 1, 4, 1, 5, 3, 1, 4, 2};
  const std::vector<std::uint64_t> hashes = window_hashes(tokens, 3);
  REQUIRE(hashes.size() == 7);
  CHECK(hashes[0] == hashes[5]);
  for (std::size_t i = 1; i < hashes.size(); ++i) CHECK((hashes[i] == hashes[0]) == (i == 5));
}

// --- labels ---

TEST_CASE_FIXTURE(TemporaryFolder, "doctor: fewer than a tenth of unseen tokens only warn") {
  const Finished found =
      examine_data({"shakespeare-char",
                    "data.path=" + write("text.txt", some_text(9000) + "Z" + some_text(100))});
  check_prints(found, {"warn  labels", "do not occur in training (more than 10 % is an error)"});
}

// Examples so large that only each third one is read.
class WideDataset final : public Dataset {
 public:
  static constexpr std::int64_t count = 60, width = 499'999;

  explicit WideDataset(std::vector<std::int32_t> labels) : labels_(std::move(labels)) {}
  std::int64_t size() const override { return count; }
  Batch batch(std::span<const std::int64_t> examples) const override {
    const auto B = std::ssize(examples);
    Array inputs = Array::zeros({B, width});
    std::vector<std::int32_t> labels;
    for (std::int64_t i = 0; i < B; ++i) {
      labels.push_back(labels_[examples[i]]);
      inputs.mutable_values<float>()[i * width] = static_cast<float>(examples[i]);
    }
    return {.inputs = inputs, .targets = Array::of(labels, {B}), .count = static_cast<double>(B)};
  }

 private:
  std::vector<std::int32_t> labels_;
};

// Each third example, which is read, has label 1, the others 0, and the given examples 2.
std::vector<std::int32_t> labels_with(std::initializer_list<std::int64_t> others) {
  std::vector<std::int32_t> labels(WideDataset::count);
  for (std::size_t i = 0; i < labels.size(); i += 3) labels[i] = 1;
  for (const std::int64_t other : others) labels[other] = 2;
  return labels;
}

const Key<std::string> wide_labels_key{"data.labels", "", "which ones training has"};

class WideTask final : public Task {
 public:
  explicit WideTask(const TaskSetup& setup)
      : training_([&] {
          const std::string labels = setup.config[wide_labels_key];
          return labels == "unread" ? labels_with({31})
                 : labels == "rare" ? labels_with({30})
                                    : labels_with({});
        }()),
        validation_(labels_with({30})),
        model_([&] {
          Random init(seed_of(setup.config), Stream::init);
          return Linear(2, 3, init);
        }()) {}

  Module& model() override { return model_; }
  const Dataset& training_data() override { return training_; }
  const Dataset& validation_data() override { return validation_; }
  Loss loss(const Batch& batch, const Pass&) override {
    const Tensor logits = model_.forward(slice(Tensor(batch.inputs), 1, 0, 2));
    const Tensor total = cross_entropy(logits, batch.targets, {.mean = false});
    return {total, {{"loss", {total.item(), batch.count}}}};
  }

 private:
  WideDataset training_, validation_;
  Linear model_;
};

CheckResult judge_wide_labels(const std::string& labels) {
  task_registry()["doctored-wide"] = {.keys = {wide_labels_key}, .make = make_task_of<WideTask>};
  const std::string text = fmt::format(
      "task = \"doctored-wide\"\n[data]\nlabels = \"{}\"\n[train]\nbatch_size = 4\n", labels);
  TrainingUnderTest under_test(
      [&](const Strings& overrides) { return parse_config(text, "wide", overrides); });
  const CheckResult result = check_labels(under_test);
  task_registry().erase("doctored-wide");
  return result;
}

TEST_CASE("bug: doctor: labels of examples that were not read counted as missing") {
  CHECK(!judge_wide_labels("unread").fault.has_value());
  const CheckResult found = judge_wide_labels("none");
  REQUIRE(found.fault.has_value());
  check_says(found.fault->found, {"1 validation example has a label that no training example"});
}

TEST_CASE("doctor: a label ten times as frequent as another one is a warning") {
  const CheckResult found = judge_wide_labels("rare");
  CHECK(!found.fault.has_value());
  REQUIRE(found.warnings.size() == 1);
  check_says(found.warnings[0], {"label 1 is 19 times as frequent as label 2"});
}

// Tests the doctor's checks of the test split and of placeholders for missing values.

Finished examine_splits(const Words& arguments) {
  return examine_data(arguments, {"shared examples", "values", "labels", "targets"});
}

// --- images ---

struct Pictures {
  Strings images{};
  std::string labels{};
};

// Four classes, each with its bright row in noise.
Pictures draw(std::int64_t count, std::uint64_t seed) {
  constexpr int side = 6;
  Random random(seed, Stream::data);
  Pictures drawn;
  for (std::int64_t i = 0; i < count; ++i) {
    std::string image;
    for (int pixel = 0; pixel < side * side; ++pixel)
      image += static_cast<char>(random.below(60) + (pixel / side == i % 4 ? 120 : 0));
    drawn.images.push_back(image);
    drawn.labels += static_cast<char>(i % 4);
  }
  return drawn;
}

void write(const TemporaryFolder& folder, const std::string& split, const Pictures& pictures) {
  const auto count = static_cast<std::uint32_t>(pictures.images.size());
  std::string images = big_endian(0x803) + big_endian(count) + big_endian(6) + big_endian(6);
  for (const std::string& image : pictures.images) images += image;
  folder.write(split + "-images-idx3-ubyte", images);
  folder.write(split + "-labels-idx1-ubyte",
               big_endian(0x801) + big_endian(count) + pictures.labels);
}

Finished examine_pictures(const Pictures& training, const Pictures& test) {
  const TemporaryFolder folder;
  write(folder, "train", training);
  write(folder, "t10k", test);
  return examine_splits({"clothes-vit", "data.path=" + folder.path(""),
                         "data.class_names=a, b, c, d, e", "model.patch=3", "model.width=8",
                         "model.heads=2", "model.layers=1"});
}

TEST_CASE("bug: doctor: a test split of training images, or with unknown labels, passed") {
  const Pictures training = draw(200, 1), test = draw(40, 2);
  const Finished well = examine_pictures(training, test);
  INFO(well.out);
  INFO(well.err);
  check_prints(well, {"0 of 40 test examples are training examples as well"});

  Pictures copied = test;
  for (int i = 0; i < 20; ++i) copied.images[i] = training.images[i];
  const Finished leaking = examine_pictures(training, copied);
  CHECK(leaking.status == 1);
  check_says(leaking.out, {"FAIL  shared examples", "of 40 test examples"});

  const auto renamed = [&](const std::string& to) {
    Pictures other = test;
    for (char& label : other.labels) label = static_cast<char>(to[label] - '0');
    return examine_pictures(training, other);
  };
  const Finished unknown = renamed("0124");
  CHECK(unknown.status == 1);
  check_says(unknown.out,
             {"FAIL  labels", "10 test examples have labels that no training example has"});
}

TEST_CASE("bug: doctor: images without classes, for an autoencoder, failed") {
  const TemporaryFolder folder;
  write(folder, "train", draw(200, 1));
  fs::remove(folder.path("train-labels-idx1-ubyte"));
  for (const char* flip : {"data.flip=false", "data.flip=true"}) {
    const Finished found =
        examine_splits({"clothes-vae", "data.path=" + folder.path(""), "model.hidden=[8]", flip});
    INFO(found.out);
    check_prints(found, {"skip  labels", "the loss compares the outputs with the inputs"});
  }
}

TEST_CASE("bug: doctor: pictures of things before a plain background failed") {
  Pictures plain = draw(200, 1), test = draw(40, 2);
  for (Pictures* pictures : {&plain, &test})
    for (std::string& image : pictures->images) std::fill(image.begin() + 16, image.end(), 7);
  const Finished found = examine_pictures(plain, test);
  INFO(found.out);
  check_prints(found, {"36 values, all finite, 20 of them constant"});
}

// --- series ---

// Writes two waves with noise by the hour; `change` may change a row.
std::string hours(
    const std::function<void(std::int64_t row, std::vector<double>& values)>& change) {
  Random random(3, Stream::data);
  std::string text = "date,load,oil\n";
  for (std::int64_t row = 0; row < 800; ++row) {
    const auto t = static_cast<double>(row);
    std::vector<double> values = {40 + 9 * std::sin(0.3 * t) + random.normal(),
                                  -2 + std::cos(0.21 * t) + 0.1 * random.normal()};
    change(row, values);
    text += fmt::format("{},{},{}\n", time_text({row * hour_us}), values[0], values[1]);
  }
  return text;
}

Finished examine_hours(const std::string& text) {
  const TemporaryFolder folder;
  return examine_splits({"etth1", "data.path=" + folder.write("hours.csv", text),
                         "data.split=fractions", "model.context=24", "model.horizon=8"});
}

TEST_CASE("bug: doctor: placeholders of missing values passed") {
  const Finished well = examine_hours(hours([](std::int64_t, auto&) {}));
  INFO(well.out);
  INFO(well.err);
  CHECK(well.status == 0);
  for (const auto& [first, every, value, said] :
       {std::tuple{7, 50, -99999.0,
                   "the value -99999 occurs 16 times in column oil, first at "
                   "1970-01-01 07:00:00; all others there are between"},
        {700, 20, 9999.0, "the value 9999 occurs 5 times in column oil"},
        {750, 1000, 1e38, "the value 1e+38 occurs 1 time in column oil"}}) {
    const Finished found = examine_hours(hours([&](std::int64_t row, auto& values) {
      if (row >= first && (row - first) % every == 0) values[1] = value;
    }));
    INFO(found.out);
    CHECK(found.status == 1);
    check_says(found.out, {"FAIL  values", said});
  }
}

TEST_SUITE_END();

}  // namespace
}  // namespace tapestry
