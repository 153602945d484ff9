#include <doctest/doctest.h>

#include <set>

#include "data/images/augmentation.hpp"
#include "data/images/picture_file.hpp"
#include "data/images/picture_folder.hpp"
#include "data/json.hpp"
#include "data/option_error.hpp"
#include "tests/support/arrays.hpp"
#include "tests/support/idx.hpp"
#include "tests/support/pictures.hpp"
#include "tests/support/process.hpp"
#include "train/inspect/recognized.hpp"
#include "train/model.hpp"
#include "train/task_spec.hpp"

// Tests folders of PNG and JPEG files, and models of them.
namespace tapestry {
namespace {

// Writes folders of 12 dark PNG and 8 bright JPEG pictures of several sizes.
struct PictureFixture : TemporaryFolder {
  PictureFixture() {
    for (const char* folder : {"all/müde Katze", "all/hund"}) fs::create_directories(path(folder));
    for (int i = 0; i < 12; ++i)
      write(fmt::format("all/müde Katze/{}.png", i),
            png(8, PNG_FORMAT_GRAY, std::vector<std::uint8_t>(8 * (8 + i % 3), 10)));
    for (int i = 0; i < 8; ++i)
      write(fmt::format("all/hund/{}.JPG", i), jpeg(9, 9, {240, 240, 240}));
    write("all/hund/notes.txt", "not a picture");
    write("all/.DS_Store", "");
  }
};

TEST_SUITE_BEGIN("pictures");

TEST_CASE_FIXTURE(PictureFixture, "pictures: folders stand for classes and splits") {
  const PictureFolder folder = list_pictures(path("all"));
  CHECK(folder.classes == Strings{"hund", "müde Katze"});
  CHECK(folder.ignored == 1);
  const PictureSplits splits = read_pictures(
      folder, {.size = {.height = 4, .width = 4}, .validation_share = 0.25, .rules = 1});
  CHECK(splits.train.size() == 15);
  CHECK(splits.validation.size() == 5);  // 2 and 3: a quarter of each class
  CHECK(std::ranges::count(splits.validation.labels(), 0) == 2);
  CHECK(!splits.test);
  for (const ImageDataset* split : {&splits.train, &splits.validation})
    for (std::int64_t i = 0; i < split->size(); ++i)
      CHECK(doubles(split->batch(std::array{i}).inputs)[0] ==
            doctest::Approx((split->labels()[i] == 0 ? 240 : 10) / 255.0));

  fs::create_directories(path("splits"));
  for (const char* split : {"train", "val", "test"})
    fs::copy(path("all"), path("splits/") + split, fs::copy_options::recursive);
  fs::remove_all(path("splits/test/hund"));
  const PictureFolder divided = list_pictures(path("splits"));
  CHECK(divided.train.size() == 20);
  CHECK(divided.validation.size() == 20);
  REQUIRE(divided.test.size() == 12);
  CHECK(divided.test[0].label == 1);  // the number of the class in the training
  fs::rename(path("splits/test/müde Katze"), path("splits/test/maus"));
  const auto refuses = [&](const std::string& name, const std::string& expected) {
    CHECK_ERROR(list_pictures(path(name)), expected);
  };
  refuses("splits", "maus: is not one of the classes hund, müde Katze");
  fs::rename(path("splits/test/maus"), path("splits/test/hund"));
  write("splits/beside.png", "");
  refuses("splits", "splits/beside.png: lies beside the folder train");
  fs::remove(path("splits/beside.png"));
  fs::create_directories(path("splits/valid"));
  refuses("splits", "splits/valid: is the same split as");
  fs::remove_all(path("splits/val"));
  refuses("splits", "splits/valid: contains no pictures");
  fs::remove_all(path("splits/train"));
  refuses("splits", "has no folder train beside test, valid");

  // Names that a checkpoint or a table cannot store.
  for (const char* name : {"one\ntwo", "a,b", "\"a\"", "\xff"}) {
    fs::copy(path("all/hund"), path("all/") + name);
    refuses("all", "the name of a class must not contain");
    fs::remove_all(path("all/") + name);
  }
  fs::copy(path("all/hund"), path("all/mu\u0308de Katze"));
  refuses("all", "has the same name as");
  fs::remove_all(path("all/mu\u0308de Katze"));

  fs::create_symlink("/nowhere/at/all", path("all/dead"));
  refuses("all", "all/dead: is a link to nothing");
  fs::remove(path("all/dead"));
  fs::create_directories(path("unsorted"));
  fs::copy(path("all"), path("unsorted/train"), fs::copy_options::recursive);
  fs::create_directories(path("unsorted/test"));
  fs::copy(path("all/hund/1.JPG"), path("unsorted/test/1.jpg"));
  refuses("unsorted", "unsorted/test: contains pictures without classes");
  fs::create_directories(path("all/leer"));
  refuses("all", "leer: contains no pictures");

  CHECK(is_picture_folder(path("all")));
  CHECK(is_picture_folder(path("splits")));
  CHECK(is_picture_folder(path("all/hund")));
  CHECK(list_pictures(path("all/hund")).classes == Strings{"all"});
  CHECK(!is_picture_folder(path("nothing")));
  fs::create_directories(path("nothing/at all"));
  CHECK(!is_picture_folder(path("nothing")));
}

TEST_CASE_FIXTURE(PictureFixture,
                  "pictures: pictures that are not cached are read again with the same bits") {
  const PictureFolder folder = list_pictures(path("all"));
  const auto read = [&](std::int64_t bytes) {
    return read_pictures(folder,
                         {.size = {.channels = 3, .height = 4, .width = 4}, .cache_bytes = bytes});
  };
  const PictureSplits all = read(1 << 20), some = read(5 * 3 * 16 * sizeof(float)), one = read(1);
  const auto data_of = [](const ImageDataset& images) { return doubles(all_images(images)); };
  for (const PictureSplits* fewer : {&some, &one}) {
    CHECK(data_of(fewer->train) == data_of(all.train));
    CHECK(fewer->train.labels() == all.train.labels());
    CHECK(data_of(fewer->validation) == data_of(all.validation));
    Checksum kept, read_again;
    all.train.add_to(kept);
    fewer->train.add_to(read_again);
    CHECK(kept.value() == read_again.value());
  }
  fs::remove(folder.train.back().path);
  CHECK_THROWS_AS(data_of(one.train), InputError);
}

TEST_CASE("pictures: augmentation mirrors and shifts an image, and fills with zeros") {
  const ImageSize size{.channels = 2, .height = 2, .width = 3};
  const std::vector<double> pixels{1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12};
  const std::int64_t B = 200;
  std::vector<double> many;
  for (std::int64_t i = 0; i < B; ++i) many.insert(many.end(), pixels.begin(), pixels.end());
  const Array images = Array::of(std::vector<float>(many.begin(), many.end()), {B, 12});
  Random random(1, Stream::dropout);
  std::set<std::vector<double>> seen;
  const Array flipped = augmented(images, size, {.flip = true}, random);
  for (std::int64_t i = 0; i < B; ++i) seen.insert(doubles(flipped.select({i})));
  CHECK(seen == std::set<std::vector<double>>{pixels, {3, 2, 1, 6, 5, 4, 9, 8, 7, 12, 11, 10}});

  seen.clear();
  const Array shifted = augmented(images, size, {.shift = 1}, random);
  for (std::int64_t i = 0; i < B; ++i) seen.insert(doubles(shifted.select({i})));
  CHECK(seen.size() == 9);
  CHECK(seen.contains({0, 1, 2, 0, 4, 5, 0, 7, 8, 0, 10, 11}));   // to the right
  CHECK(seen.contains({4, 5, 6, 0, 0, 0, 10, 11, 12, 0, 0, 0}));  // up

  Random again(1, Stream::dropout);
  CHECK(doubles(augmented(images, size, {.flip = true}, again)) == doubles(flipped));
}

TEST_CASE_FIXTURE(PictureFixture, "pictures: train, evaluate and classify from the command line") {
  write("mine.toml", "base = \"lenet\"\n[train]\nsteps = 40\nbatch_size = 8\n");
  const std::string config = path("mine.toml"), data = "data.path=" + path("all"),
                    run = path("run");
  check_fails(run_here({"train", config, "--out", run, "--set", data}),
              {"data.image_size", "expected 9 x 8", "found 8 x 8"});
  check_fails(run_here({"train", config, "--out", run, "--set", "data.path=" + path("all/hund"),
                        "data.image_size=16"}),
              {"has 1 class; expected at least two"});
  write("all/hund/broken.png", "no picture");
  check_fails(run_here({"train", config, "--out", run, "--set", data, "data.image_size=16"}),
              {"data.skip_broken", "broken.png: expected a PNG or JPEG file"});
  const Finished trained = tapestry_run({"train", config, "--out", run, "--set", data,
                                         "data.image_size=16", "data.skip_broken=true"});
  CHECK(trained.err == "");
  check_prints(trained, {"16 x 16 color pixels; 2 classes: hund, müde Katze",
                         "1 broken file left out", "1 other file"});
  const std::string kept = read_bytes(run + "/config.toml");
  CHECK(kept.find("class_names = [\"hund\", \"müde Katze\"]") != std::string::npos);
  CHECK(kept.find("color = \"rgb\"") != std::string::npos);
  check_prints(tapestry_run({"eval", run}), {"accuracy"});
  const std::string cat = path("all/müde Katze/3.png");
  fs::rename(path("all"), path("gone"));  // a model classifies pictures without its data
  const std::string moved = path("gone/müde Katze/3.png");
  check_prints(tapestry_run({"sample", run, "--image", moved, "--image", path("gone/hund/1.JPG")}),
               {moved + ": müde Katze ", "1.JPG: hund "});
  const JsonValue said =
      JsonValue::parse(tapestry_run({"sample", run, "--image", moved, "--json"}).out);
  CHECK(said["images"][0]["file"] == moved);
  CHECK(said["images"][0]["class"] == "müde Katze");
  CHECK(said["images"][0]["probabilities"].size() == 2);
  const Strings files{moved, path("gone/hund/1.JPG")};
  const Model model(run);
  const Matrix pictures = model.read_pictures(files);
  CHECK(pictures.rows == 2);
  CHECK(pictures.columns == model.channels() * model.height() * model.width());
  const Matrix classes = model.classify(pictures.values);
  CHECK(classes.row(0)[1] > 0.5);
  CHECK(classes.row(1)[0] > 0.5);
  CHECK(classes.row(0)[1] == said["images"][0]["probabilities"]["müde Katze"].get<float>());
  check_fails(run_here({"sample", run, "--image", cat}), {cat});
  check_fails(run_here({"sample", run, "--image", moved, "--index", "1"}), {"--index"});
}

TEST_CASE_FIXTURE(PictureFixture, "bug: latent of pictures without classes crashed") {
  write(
      "mine.toml",
      "base = \"clothes-vae\"\n[data]\nimage_size = 8\n[model]\nlatent = 2\n[train]\nsteps = 4\n");
  const std::string run = path("run"), picture = path("all/hund/2.JPG");
  must_run({"train", path("mine.toml"), "--out", run, "--quiet", "--set",
            "data.path=" + path("all/hund")});
  must_run({"latent", run, "--out", path("codes.csv")});
  CHECK(read_bytes(path("codes.csv")).find(",all,") != std::string::npos);
  must_run({"report", run});
  must_run({"sample", run, "--image", picture, "--out", path("again.png")});
  CHECK(is_colored(path("again.png")));  // as JPEG files are
  CHECK(picture_size(path("again.png")).values() > 3 * 2 * 8 * 8);
  const JsonValue codes = JsonValue::parse(must_run({"sample", run, "--image", picture, "--json"}));
  CHECK(codes["images"][0]["code"].size() == 2);
  CHECK(codes["images"][0]["mse"] > 0);
  check_fails(run_here({"sample", run, "--image", picture, "--kind", "interpolation"}),
              {"--image: found one picture", "give --image twice"});
  check_fails(
      run_here({"sample", run, "--image", picture, "--index", "1", "--kind", "reconstructions"}),
      {"--index: not used with --image"});
  for (const Words& kind :
       {Words(), Words("--kind reconstructions"), Words("--kind interpolation")})
    check_fails(
        run_here(Words{"sample", run, "--image", picture, "--image", picture, "--count", "1"} +
                 kind),
        {"--count: not used with --image, whose pictures are all shown"});
  must_run({"sample", run, "--image", picture, "--count", "1", "--kind", "around", "--out",
            path("again.png")});
}

TEST_CASE_FIXTURE(PictureFixture, "bug: init did not mention broken pictures of an autoencoder") {
  write("all/hund/broken.png", "no picture");
  const std::vector<Recognized> found = task_registry().at("vae").recognize({path("all")});
  const Strings& problems = found.front().problems;
  REQUIRE(problems.size() == 3);
  check_says(problems[0], {"1 picture: ", "broken.png: expected a PNG or JPEG file"});
  CHECK(problems[1] == "1 broken picture left out");
  CHECK(problems[2] == "1 other file is not used: hund/notes.txt");
}

TEST_CASE_FIXTURE(PictureFixture,
                  "bug: init did not name a class without a picture that can be read") {
  for (int i = 0; i < 3; ++i) write(fmt::format("all/fish/{}.png", i), "no picture");
  const Strings problems =
      task_registry().at("image-classification").recognize({path("all")}).front().problems;
  CHECK(std::ranges::count(problems,
                           "class fish: none of the pictures that were tried can be read") == 1);
}

TEST_CASE_FIXTURE(PictureFixture, "bug: init named the first broken picture, of whatever kind") {
  for (int i = 0; i < 3; ++i) write(fmt::format("all/hund/broken{}.png", i), "no picture");
  for (const int size : {9'000, 10'000})
    write(fmt::format("all/hund/large{}.png", size),
          with_size(png(8, PNG_FORMAT_GRAY, std::vector<std::uint8_t>(64, 1)), size, size));
  const Strings problems = task_registry().at("vae").recognize({path("all")}).front().problems;
  REQUIRE(problems.size() == 4);
  check_says(problems[0], {"3 pictures: ", "broken0.png: expected a PNG or JPEG file"});
  check_says(problems[1], {"2 pictures: ", "large10000.png: has 10000 x 10000 pixels"});
  CHECK(problems[2] == "5 broken pictures left out");
  CHECK(problems[3] == "1 other file is not used: hund/notes.txt");
}

TEST_CASE_FIXTURE(TemporaryFolder, "bug: init did not say how pictures are fitted and turned") {
  const std::string wide = jpeg(40, 30, {1, 2, 3}), square = jpeg(32, 32, {1, 2, 3});
  for (const char* name : {"a", "b"})
    for (int i = 0; i < 8; ++i)
      write(fmt::format("all/{}/{}.jpg", name, i), i < 2   ? with_exif(wide, exif_of(6))
                                                   : i < 4 ? wide
                                                           : square);
  const auto facts = [&](const Strings& overrides) {
    const Recognized found =
        task_registry().at("image-classification").recognize({path("all"), overrides}).front();
    CHECK(found.refusal == "");
    return found.facts;
  };
  const JsonValue cut = facts({});
  CHECK(cut["fit"] == "crop: 12.5 % of the pixels are cut on average, 25.0 % at most");
  CHECK(cut["sizes"] == 3);  // 30 x 40, 40 x 30 and 32 x 32
  CHECK(cut["height"] == 30);
  CHECK(cut["turned"] == "4 pictures as their EXIF orientation says");
  const JsonValue padded = facts({"data.fit=pad", "data.image_size=16"});
  CHECK(padded["fit"] == "pad: 12.5 % of the pixels are added on average, 25.0 % at most");
  CHECK(padded["height"] == 16);
  CHECK(facts({"data.fit=stretch"})["fit"] ==
        "stretch: sides are stretched 1.17 times on average, 1.33 times at most");
}

TEST_CASE_FIXTURE(PictureFixture, "pictures: what is asked names data.class_names") {
  fs::remove(path("all/hund/notes.txt"));
  fs::create_directory(path("asked"));
  for (const char* name : {"train", "test", "plane"})
    fs::copy(path("all/hund"), path(std::string("asked/") + name), fs::copy_options::recursive);
  const Finished asked = run_here({"init", path("asked"), "--out", path("mine.toml")});
  check_fails(asked, {"data.class_names", "the folders test, train may be splits or classes",
                      "list all classes"});
  CHECK(task_registry()
            .at("vae")
            .recognize({path("asked"), {"data.class_names=[\"plane\", \"test\", \"train\"]"}})
            .front()
            .facts["training pictures"] == 24);
}

TEST_CASE_FIXTURE(PictureFixture,
                  "pictures: transformer, convolutions and autoencoder train on color images") {
  const std::string data = "data.path=" + path("all");
  for (const char* config : {"clothes-vit", "clothes-cnn", "clothes-vae"}) {
    CAPTURE(config);
    const bool is_vae = std::string(config) == "clothes-vae";
    const Words common{"--set",          data,           "data.image_size=8",
                       "data.flip=true", "data.shift=1", "data.image_cache=1"};
    Words checked{"gradcheck", config}, trained{"train", config, "--out", path(config), "--quiet"};
    for (Words* words : {&checked, &trained}) {
      words->insert(words->end(), common.begin(), common.end());
      words->insert(words->end(), {"train.batch_size=4", "model.activation=gelu"});
      if (is_vae) words->insert(words->end(), {"model.channels=[2]", "model.hidden=[4]"});
      if (!is_vae) words->push_back("data.class_weights=balanced");
    }
    trained.insert(trained.end(), {"train.steps=6", "train.eval_every=3", "optim.warmup_steps=0"});
    if (!is_vae) must_run(checked);
    must_run(trained);
    check_prints(must(tapestry_run({"eval", path(config)})), {"loss"});
    must_run({"report", path(config)});
    must_run({"export", path(config), "--format", "onnx", "--out",
              path(std::string("onnx-") + config + (is_vae ? "" : ".onnx"))});
  }
  const std::string page = read_bytes(path("clothes-cnn/report.html"));
  CHECK(page.find("Images and predictions") != std::string::npos);
  CHECK(page.find("<figcaption>image 0: prediction ") != std::string::npos);
}

TEST_SUITE_END();

}  // namespace
}  // namespace tapestry
