#include <doctest/doctest.h>
#include <fmt/ranges.h>

#include "data/images/picture_folder.hpp"
#include "data/option_error.hpp"
#include "tests/support/process.hpp"

// Tests folders of classes and splits as people have them.
namespace tapestry {
namespace {

struct ClassFolders : TemporaryFolder {
  // Writes empty files.
  void make(const std::vector<std::string>& names) const {
    for (const std::string& name : names) write(name, "");
  }
  // Writes 1.jpg and 2.jpg into folders.
  void make_pictures(const std::vector<std::string>& folders) const {
    for (const std::string& folder : folders) make({folder + "/1.jpg", folder + "/2.jpg"});
  }
  // Returns the classes, and the numbers of pictures per split and of other files.
  std::string listed(const std::string& folder, const ClassFolderOptions& options = {}) const {
    const PictureFolder found = list_pictures(path(folder), options);
    return fmt::format("{}: {}, {}, {}, {}", fmt::join(found.classes, " "), found.train.size(),
                       found.validation.size(), found.test.size(), found.ignored);
  }
  std::string error(const std::string& folder, const ClassFolderOptions& options = {}) const {
    return message_of([&] { list_pictures(path(folder), options); });
  }
};

TEST_SUITE_BEGIN("pictures");

TEST_CASE_FIXTURE(ClassFolders, "bug: splits in another case, or with other words, were classes") {
  make_pictures({"capitals/Train/a", "capitals/Train/b", "capitals/TEST/a", "capitals/Valid/b"});
  CHECK(listed("capitals") == "a b: 4, 2, 2, 0");
  make_pictures({"words/seg_train/seg_train/a", "words/seg_train/seg_train/b",
                 "words/seg_test/seg_test/b", "words/seg_pred/seg_pred"});
  CHECK(listed("words") == "a b: 4, 0, 2, 2");
  CHECK(list_pictures(path("words")).unused ==
        std::vector<std::string>{"seg_pred/seg_pred/1.jpg", "seg_pred/seg_pred/2.jpg"});
  make_pictures({"dated/news-bydate-train/a", "dated/news-bydate-train/b",
                 "dated/news-bydate-test/a", "dated/dev set/b"});
  CHECK(listed("dated") == "a b: 4, 2, 2, 0");
  for (const char* folder : {"capitals", "words", "dated"})
    CHECK(error(folder, {.rules = 1}) != "");  // the rules of earlier versions
}

TEST_CASE_FIXTURE(ClassFolders, "bug: trainA and test1 were classes beside each other") {
  make_pictures({"pairs/trainA", "pairs/trainB", "pairs/testA", "pairs/testB"});
  check_says(error("pairs"), {"the folders testA, testB, trainA, trainB may be splits or classes"});
  CHECK(listed("pairs", {.classes = {"testA", "testB", "trainA", "trainB"}}) ==
        "testA testB trainA trainB: 8, 0, 0, 0");
  make_pictures({"years/train2017", "years/val2017"});
  make({"years/annotations/all.json"});
  check_says(error("years"), {"the folders train2017, val2017 may be splits or classes"});
  make_pictures({"flat/train", "flat/test1"});
  check_says(error("flat"), {"the folders test1, train may be splits or classes"});
  make_pictures({"classes/trainSet/a", "classes/trainSet/b", "classes/testSet/b"});
  CHECK(listed("classes") == "a b: 4, 0, 2, 0");
  make_pictures({"words/constraint", "words/valley", "words/tester"});
  CHECK(listed("words") == "constraint tester valley: 6, 0, 0, 0");
}

TEST_CASE_FIXTURE(ClassFolders, "bug: a class that is named train was taken for a split") {
  make_pictures({"vehicles/bus", "vehicles/car", "vehicles/train"});
  CHECK(listed("vehicles") == "bus car train: 6, 0, 0, 0");
  check_says(error("vehicles", {.rules = 1}), {"bus: lies beside the folder train"});
  make_pictures({"split/train/bus", "split/train/train", "split/test/train"});
  CHECK(listed("split") == "bus train: 4, 0, 2, 0");
  make_pictures({"places/bus station", "places/train station", "places/test_track"});
  CHECK(listed("places") == "bus station test_track train station: 6, 0, 0, 0");

  make_pictures({"asked/plane", "asked/test", "asked/train"});
  check_says(error("asked"), {"the folders test, train may be splits or classes"});
  CHECK_THROWS_AS(list_pictures(path("asked")), OptionError);
  CHECK(listed("asked", {.classes = {"plane", "test", "train"}}) == "plane test train: 6, 0, 0, 0");
  make_pictures({"words/my_train", "words/my_test"});
  CHECK_THROWS_AS(list_pictures(path("words")), OptionError);
  make_pictures({"splits/train", "splits/test"});  // for an autoencoder
  CHECK(listed("splits") == "all: 2, 0, 2, 0");
}

TEST_CASE_FIXTURE(ClassFolders,
                  "bug: a split was a class of the same name once classes were known") {
  make_pictures({"split/train/bus", "split/train/train", "split/test/bus", "split/test/train"});
  const std::vector<std::string> classes = list_pictures(path("split")).classes;
  CHECK(listed("split", {.classes = classes}) == "bus train: 4, 0, 4, 0");
  make_pictures({"each/bus/bus", "each/train/train"});
  CHECK(listed("each", {.classes = {"bus", "train"}}) == "bus train: 4, 0, 0, 0");
}

TEST_CASE_FIXTURE(ClassFolders, "bug: folders around the classes were refused") {
  make_pictures({"one/pets/cat", "one/pets/dog"});
  make({"one/README.md", "one/labels/1.xml"});
  CHECK(listed("one") == "cat dog: 4, 0, 0, 2");
  make_pictures({"two/a/b/Train/cat", "two/a/b/Train/dog", "two/a/b/val/dog"});
  CHECK(listed("two") == "cat dog: 4, 2, 0, 0");
  make_pictures({"each/cat/cat", "each/dog/dog"});
  CHECK(listed("each") == "cat dog: 4, 0, 0, 0");
  make_pictures({"single/cat"});
  CHECK(listed("single") == "cat: 2, 0, 0, 0");

  make_pictures({"kinds/animals/cat", "kinds/animals/dog", "kinds/cars/bus"});
  CHECK_THROWS_AS(list_pictures(path("kinds")), OptionError);
  check_says(error("kinds"), {"animals: contains sub-folders; expected pictures of one class"});
  CHECK(listed("kinds", {.classes = {"animals", "cars"}}) == "animals cars: 6, 0, 0, 0");
  make_pictures({"loop/cat", "loop/dog"});
  fs::create_symlink("..", path("loop/cat/up"));
  check_says(error("loop"), {"cat: contains sub-folders"});
}

TEST_CASE_FIXTURE(ClassFolders, "bug: what archives add was taken for classes") {
  make_pictures({"all/cat", "all/dog"});
  make({"all/__MACOSX/cat/._1.jpg", "all/cat/._1.jpg", "all/.DS_Store", "all/cat/Thumbs.db",
        "all/dog/desktop.ini"});
  CHECK(listed("all") == "cat dog: 4, 0, 0, 0");
  make({"all/cat/3.JPG", "all/dog/4.PNG", "all/dog/5.Jpeg"});
  CHECK(listed("all") == "cat dog: 7, 0, 0, 0");
}

TEST_CASE_FIXTURE(ClassFolders, "bug: files that are not used were counted but not named") {
  make_pictures({"all/cat", "all/dog"});
  for (int i = 10; i < 25; ++i) make({fmt::format("all/cat/{}.xml", i)});
  make({"all/dog/notes/a.txt"});
  const PictureFolder found = list_pictures(path("all"));
  CHECK(found.ignored == 16);
  REQUIRE(found.unused.size() == 10);
  CHECK(found.unused[0] == "cat/10.xml");
  make_pictures({"splits/train/cat", "splits/train/dog", "splits/more"});
  CHECK(listed("splits") == "cat dog: 4, 0, 0, 2");
  make_pictures({"splits/other/cat"});  // can be a split
  check_says(error("splits"), {"other: lies beside the folder train"});
}

TEST_SUITE_END();

}  // namespace
}  // namespace tapestry
