#include <doctest/doctest.h>

#include <cmath>

#include "data/series/series.hpp"
#include "tests/support/idx.hpp"
#include "train/tools/doctor/check.hpp"

// What the doctor says of the test split, and of values that stand for missing ones.
namespace tapestry {
namespace {

// With the checks that look at data alone.
Finished examine_splits(Words arguments) {
  arguments.insert(arguments.begin(), "doctor");
  for (const DoctorCheck& check : doctor_checks())
    if (check.name != "shared examples" && check.name != "values" && check.name != "labels" &&
        check.name != "targets")
      arguments.insert(arguments.end(), {"--skip", check.name});
  return tapestry_run(arguments);
}

// --- images ---

struct Pictures {
  Strings images{};
  std::string labels{};
};

// Of four classes, each a bright row of its own among noise.
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

TEST_SUITE_BEGIN("doctor");

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

// Two waves with noise, of hours; `change` may put other values into a row.
std::string hours(
    const std::function<void(std::int64_t row, std::vector<double>& values)>& change) {
  Random random(3, Stream::data);
  std::string text = "date,load,oil\n";
  for (std::int64_t row = 0; row < 800; ++row) {
    const auto t = static_cast<double>(row);
    std::vector<double> values = {40 + 9 * std::sin(0.3 * t) + random.normal(),
                                  -2 + std::cos(0.21 * t) + 0.1 * random.normal()};
    change(row, values);
    text += fmt::format("{},{},{}\n", time_text(row * 3600), values[0], values[1]);
  }
  return text;
}

Finished examine_hours(const std::string& text) {
  const TemporaryFolder folder;
  return examine_splits({"etth1", "data.path=" + folder.write("hours.csv", text),
                         "data.split=fractions", "model.context=24", "model.horizon=8"});
}

TEST_CASE("bug: doctor: values that stand for missing ones passed") {
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
