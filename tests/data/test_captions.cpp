#include <doctest/doctest.h>

#include <set>

#include "data/images/captions.hpp"
#include "data/option_error.hpp"
#include "tests/support/pictures.hpp"
#include "tests/support/process.hpp"

namespace tapestry {
namespace {

struct CaptionFolder : TemporaryFolder {
  CaptionFolder() {
    for (int i = 0; i < 30; ++i)
      write(fmt::format("all/{}/{}.png", i % 2 ? "odd" : "even", i),
            png(2, PNG_FORMAT_RGB, std::vector<std::uint8_t>(2 * 2 * 3, i)));
  }
  CaptionedFolder list(const std::string& table, bool whole = false) const {
    write("all/captions.csv", table);
    return list_captions(path("all"), {.validation = 0.2, .test = 0.2}, whole);
  }
  void refuses(const std::string& rows, const Strings& parts) const {
    check_says(message_of([&] { list(rows); }), parts);
  }
};

std::string rows(int count) {
  std::string table;
  for (int i = 0; i < count; ++i)
    table += fmt::format("{}/{}.png,\"number {}, {}\"\n", i % 2 ? "odd" : "even", i, i,
                         i % 2 ? "odd" : "even");
  return table;
}

TEST_SUITE_BEGIN("data");

TEST_CASE_FIXTURE(CaptionFolder, "captions: pictures are listed by a table, with all captions") {
  CHECK(!has_captions(path("all")));
  const std::string table = rows(30) + "even/4.png,four\n./even/4.png,one more than three\n";
  const CaptionedFolder found = list("file,text\n" + table);
  CHECK(has_captions(path("all")));
  CHECK(found.captions.size() == 30);
  CHECK(found.captions[3] == Strings{"number 3, odd"});
  CHECK(found.captions[4] == Strings{"number 4, even", "four", "one more than three"});
  std::set<std::int32_t> labels;
  const auto& [folder, classes, train, validation, test, ignored, unused, unlabeled] =
      found.pictures;
  for (const auto* split : {&train, &validation, &test}) {
    CHECK(!split->empty());
    for (const PictureFolder::File& picture : *split) {
      CHECK(labels.insert(picture.label).second);
      const std::string name = fmt::format("/{}.png", picture.label);
      CHECK(picture.path.ends_with(name));
    }
  }
  CHECK(labels.size() == 30);
  // A header is optional, and more pictures move no other ones.
  const CaptionedFolder fewer = list(rows(29));
  for (const PictureFolder::File& picture : fewer.pictures.validation)
    CHECK(std::ranges::count(validation, picture.path, &PictureFolder::File::path) == 1);
  const CaptionedFolder whole = list(table, true);
  CHECK(whole.pictures.train.empty());
  CHECK(whole.pictures.validation.size() == 30);
}

TEST_CASE_FIXTURE(CaptionFolder, "bug: captions: tabs and semicolons were no delimiters") {
  for (const char delimiter : {'\t', ';', ','}) {
    std::string table = fmt::format("image{}caption\n", delimiter);
    for (int i = 0; i < 30; i += 2)
      table += fmt::format("even/{}.png{}number {}\n", i, delimiter, i);
    CHECK(list(table).captions[3] == Strings{"number 6"});
  }
  std::string marks = "image,caption\n";
  for (int i = 0; i < 30; i += 2) marks += fmt::format("even/{}.png,it is {}; red\n", i, i);
  CHECK(list(marks).captions[3] == Strings{"it is 6; red"});
  refuses("image\tcaption\neven/0.png\ta cat, red\neven/2.png\ta dog\teven\n",
          {"captions.csv: line 3: expected 2 columns"});
}

TEST_CASE_FIXTURE(CaptionFolder, "captions: wrong rows are refused with their line") {
  refuses(rows(3) + "even/99.png,none\n",
          {"captions.csv: line 4: ", "the picture even/99.png does not exist"});
  refuses(rows(3) + "../secret.png,up\n", {"line 4: ", "../secret.png leaves the folder"});
  refuses(rows(3) + "even/../../secret.png,up\n", {"line 4: ", "leaves the folder"});
  refuses(rows(3) + path("all/even/0.png") + ",absolute\n", {"line 4: ", "leaves the folder"});
  refuses(rows(3) + "even/4.png,\" \"\n", {"line 4: ", "the caption is empty"});
  refuses(rows(3) + "even/4.png,\"two\nlines\"\n", {"line 4: ", "has several lines"});
  refuses(rows(3) + ",nothing\n", {"line 4: ", "names no picture"});
  refuses(rows(3) + "notes.txt,text\n", {"line 4: ", "notes.txt is no picture"});
  refuses(rows(3) + "even/4.png,one, two\n", {"captions.csv: line 4"});
  refuses("file,text\n", {"captions.csv: ", "expected a path of a picture and a caption"});
  refuses("a.png\n", {"expected a path of a picture and a caption"});
  refuses(rows(1), {"leaves 1 of 1 pictures for training and 0 for validation"});
}

TEST_CASE("captions: each caption is an example, with its image and its masks") {
  const Array images = Array::of<float>({0, 1, 2, 3, 4, 5, 6, 7}, {2, 2, 2});
  const CaptionDataset data(ImageDataset(images, {0, 1}),
                            {{.source = {0}, .target = {7, 8}, .reference = "a b"},
                             {.source = {1}, .target = {9}, .reference = "c"},
                             {.source = {0}, .target = {8, 7, 9}, .reference = "b a c"}},
                            3, Array::of<float>({0, 1, 0, 0, 1, 1, 1, 1}, {2, 1, 4}));
  CHECK(data.size() == 3);
  CHECK(data.num_cut() == 1);
  const std::vector<std::int64_t> chosen{1, 2};
  const Batch batch = data.batch(chosen);
  const auto& [tokens, references, masks] = batch.part<CaptionTokens>();
  CHECK(
      std::ranges::equal(batch.inputs.values<float>(), std::vector<float>{4, 5, 6, 7, 0, 1, 2, 3}));
  CHECK(std::ranges::equal(tokens.values<std::int32_t>(),
                           std::vector<std::int32_t>{bos_token, 9, pad_token, bos_token, 8, 7}));
  CHECK(
      std::ranges::equal(batch.targets.values<std::int32_t>(),
                         std::vector<std::int32_t>{9, eos_token, ignored_target, 8, 7, eos_token}));
  CHECK(batch.count == 5);
  CHECK(references == Strings{"c", "b a c"});
  CHECK(std::ranges::equal(masks.values<float>(), std::vector<float>{1, 1, 1, 1, 0, 1, 0, 0}));
  Checksum sum, other;
  data.add_to(sum);
  CaptionDataset(ImageDataset(images, {0, 1}), {{.source = {0}, .target = {7, 8}}}, 3)
      .add_to(other);
  CHECK(sum.value() != other.value());
}

TEST_SUITE_END();

}  // namespace
}  // namespace tapestry
