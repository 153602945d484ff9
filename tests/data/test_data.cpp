#include <doctest/doctest.h>

#include <algorithm>
#include <memory>
#include <numeric>
#include <set>
#include <string>

#include "autograd/check.hpp"
#include "autograd/parallel.hpp"
#include "autograd/random.hpp"
#include "data/images/images.hpp"
#include "data/input_file.hpp"
#include "data/sampler.hpp"
#include "data/text/text.hpp"
#include "data/toys/toy_sequences.hpp"
#include "tests/support/gzip.hpp"
#include "tests/support/idx.hpp"
#include "tests/support/process.hpp"

namespace tapestry {
namespace {

std::vector<std::int64_t> all_examples(const Dataset& dataset) {
  std::vector<std::int64_t> examples(dataset.size());
  std::iota(examples.begin(), examples.end(), 0);
  return examples;
}

template <class T>
std::vector<T> to_vector(const Array& array) {
  const auto values = array.values<T>();
  return {values.begin(), values.end()};
}

TEST_SUITE_BEGIN("files");

TEST_CASE_FIXTURE(TemporaryFolder, "read_file: gzip content equals plain content") {
  std::string content(3'000'000, 'a');  // several chunks
  for (std::size_t i = 0; i < content.size(); i += 7) content[i] = static_cast<char>(i);
  const std::string plain = write("plain", content);
  const std::string packed = write("packed", gzip(content));
  const std::string parts = write("parts", gzip("first ") + gzip("second"));
  CHECK(read_file(plain, 3'000'000) == content);
  CHECK(read_file(packed, 3'000'000) == content);
  CHECK(read_file(parts, 100) == "first second");
  std::string start(10, '\0');
  CHECK(InputFile(packed).read(start) == 10);
  CHECK(start == content.substr(0, 10));
  CHECK(read_file(write("empty", ""), 10).empty());
}

TEST_CASE_FIXTURE(TemporaryFolder, "read_file: failures name the file, the place and what to do") {
  Random random(1, Stream::data);
  std::string content(100'000, ' ');
  for (char& byte : content) byte = static_cast<char>(random.bits());
  const std::string packed = gzip(content);
  const auto read = [](const std::string& path) {
    return message_of([&] { read_file(path, 1 << 20); });
  };

  check_says(read(this->path("none.txt")), {"none.txt", "No such file"});
  check_says(read(this->path()), {this->path(), "is a folder"});
  for (const std::size_t kept : {2u, 9u, 20u, 50'000u, static_cast<unsigned>(packed.size() - 1)})
    check_says(read(write("cut.gz", packed.substr(0, kept))),
               {"cut.gz", fmt::format("byte {}", kept), "cut short"});
  std::string wrong_crc = packed;
  wrong_crc[packed.size() - 6] ^= 1;
  check_says(read(write("crc.gz", wrong_crc)), {"crc.gz", "byte ", "damaged"});
  CHECK_ERROR(read_file(write("big", "12345"), 4), "big", "byte 4", "4 bytes");
}

TEST_CASE_FIXTURE(TemporaryFolder, "read_file: stops inflating a gzip bomb at the limit") {
  const std::string path = write("bomb.gz", gzip(std::string(50'000'000, '\0')));
  CHECK_ERROR(read_file(path, 1000), "bomb.gz", "1000");
}

TEST_CASE("require_utf8: accepts UTF-8, and says where a text is not") {
  CHECK_NOTHROW(
      require_utf8("plain, \xC3\xA9, \xE2\x82\xAC, \xF0\x9F\x98\x80, \xF4\x8F\xBF\xBF", "x"));
  for (const char* bad :
       {"\x80", "\xFF", "\xC0\x80", "\xC1\xBF", "\xE0\x9F\xBF", "\xED\xA0\x80", "\xF0\x8F\xBF\xBF",
        "\xF4\x90\x80\x80", "\xF8\x88\x80\x80\x80", "\xC3", "\xE2\x82", "\xC3\x28"})
    CHECK_ERROR(require_utf8(std::string("one\ntwo") + bad, "book.txt"), "book.txt", "byte 7",
                "line 2", "UTF-8");
}

// --- text ---

TEST_CASE("CharVocabulary: is sorted, and decodes each encoded text") {
  const std::string text = "zebra \xC3\xA9t\xC3\xA9 \xF0\x9F\x98\x80\n";
  const auto vocabulary = CharVocabulary::of_text(text);
  CHECK(vocabulary.size() == 10);
  CHECK(std::ranges::is_sorted(vocabulary.symbols()));  // UTF-8 is sorted like its code points
  CHECK(vocabulary.decode(vocabulary.encode(text)) == text);
  CHECK(vocabulary.encode("\n a") == Tokens{0, 1, 2});
  const CharVocabulary restored(vocabulary.symbols());
  CHECK(restored.encode(text) == vocabulary.encode(text));
  CHECK_THROWS_AS(vocabulary.decode(Tokens{10}), std::invalid_argument);
}

TEST_CASE("CharVocabulary: names unknown characters") {
  const auto vocabulary = CharVocabulary::of_text("abc\n");
  CHECK_ERROR(vocabulary.encode("ab\xC3\xA9"), "byte 2", "'\xC3\xA9'", "U+00E9", "abc");
  CHECK_ERROR(vocabulary.encode("a\tb"), "byte 1", "U+0009");
  CHECK_ERROR(vocabulary.encode("a\xFF"), "byte 1", "UTF-8");
  CHECK_ERROR(CharVocabulary({"a", "bc"}), "symbol 1");
  CHECK_ERROR(CharVocabulary({"a", ""}), "symbol 1");
  CHECK_ERROR(CharVocabulary({"a", "b", "a"}), "symbols 2 and 0");
}

TEST_CASE_FIXTURE(TemporaryFolder, "load_text: reads a file, or a folder with one .txt file") {
  CHECK_ERROR(load_text(this->path()), this->path(), "found nothing");
  write("notes.md", "no");
  CHECK_ERROR(load_text(this->path()), "found notes.md");
  const std::string path = write("book.txt", "to be");
  CHECK(load_text(path).content == "to be");
  CHECK(load_text(this->path()).content == "to be");
  CHECK(load_text(this->path()).path == path);
  CHECK(load_text(write("book.gz", gzip("to be"))).content == "to be");
  write("other.txt", "or not");
  CHECK_ERROR(load_text(this->path()), "found 2: ", "book.txt, ", "other.txt");
  CHECK_ERROR(load_text(write("empty.txt", "")), "empty.txt", "byte 0", "empty");
  CHECK_ERROR(load_text(write("latin.txt", "caf\xE9")), "latin.txt", "byte 3", "line 1");
}

TEST_CASE_FIXTURE(TemporaryFolder,
                  "text_files: lists a file, the texts of a folder, or the matches of a pattern") {
  const std::string iliad = write("iliad.txt", "of wrath"),
                    odyssey = write("odyssey.txt", "of a man"),
                    notes = write("notes.md", "no text"),
                    odd = write("[od]d.txt", "a name that looks like a pattern");
  using Files = Strings;
  CHECK(text_files(iliad) == Files{iliad});
  CHECK(text_files(path("none.txt")) == Files{path("none.txt")});  // named by the reader
  CHECK(text_files(path()) == Files{odd, iliad, odyssey});
  CHECK(text_files(path("*y*.txt")) == Files{odyssey});
  CHECK(text_files(path("[in]*")) == Files{iliad, notes});
  CHECK(text_files(path("?d*")) == Files{odyssey});
  CHECK(text_files(odd) == Files{odd});
  CHECK(is_pattern(path("*.txt")));
  CHECK(!is_pattern(odd));
  CHECK_ERROR(text_files(path("*.text")), path("*.text") + ": no file matches");
}

TEST_CASE("cut_texts: cuts at a byte of all texts, between characters") {
  const auto cut = [](std::int64_t byte) {
    return cut_texts({{"a", "one"}, {"b", "twö"}, {"c", "three"}}, byte);
  };
  CHECK(cut(0).before.empty());
  CHECK(cut(0).after == Strings{"one", "twö", "three"});
  CHECK(cut(2).before == Strings{"on"});
  CHECK(cut(2).after == Strings{"e", "twö", "three"});
  CHECK(cut(2).cuts_a_text);
  CHECK(cut(3).before == Strings{"one"});
  CHECK(!cut(3).cuts_a_text);
  CHECK(cut(6).before == Strings{"one", "tw"});  // not within the two bytes of an umlaut
  CHECK(cut(6).after == Strings{"ö", "three"});
  CHECK(cut(7).after == Strings{"three"});
  CHECK(cut(12).after.empty());
}

std::shared_ptr<const TokenStream> counting_tokens(std::int32_t count) {
  Tokens tokens(count);
  std::iota(tokens.begin(), tokens.end(), 100);
  return std::make_shared<const TokensInMemory>(std::move(tokens));
}

TEST_CASE("TextDataset: overlapping windows start at every token with T tokens after it") {
  const TextDataset dataset(counting_tokens(20), {.begin = 5, .end = 12, .context = 3});
  CHECK(dataset.size() == 4);
  const Batch batch = dataset.batch(std::vector<std::int64_t>{0, 3});
  CHECK(batch.inputs.shape() == Shape{2, 3});
  CHECK(to_vector<std::int32_t>(batch.inputs) == Tokens{105, 106, 107, 108, 109, 110});
  CHECK(to_vector<std::int32_t>(batch.targets) == Tokens{106, 107, 108, 109, 110, 111});
  CHECK(batch.count == 6);
  CHECK_THROWS_AS(dataset.batch(std::vector<std::int64_t>{4}), std::invalid_argument);
}

TEST_CASE("TextDataset: consecutive windows count every predictable token once") {
  for (const std::int64_t context : {1, 2, 3, 4, 6, 7, 50}) {
    const TextDataset dataset(
        counting_tokens(20),
        {.begin = 5, .end = 12, .context = context, .windows = Windows::consecutive});
    CHECK(dataset.size() == (6 + context - 1) / context);
    const Batch batch = dataset.batch(all_examples(dataset));
    Tokens counted;
    const auto inputs = to_vector<std::int32_t>(batch.inputs);
    const auto targets = to_vector<std::int32_t>(batch.targets);
    for (std::size_t i = 0; i < targets.size(); ++i) {
      CHECK(inputs[i] == (targets[i] == ignored_target ? 0 : targets[i] - 1));
      if (targets[i] != ignored_target) counted.push_back(targets[i]);
    }
    CHECK(counted == Tokens{106, 107, 108, 109, 110, 111});
    CHECK(batch.count == 6);
  }
}

TEST_CASE("TextDataset: the error for a short split names its length and the needed one") {
  const auto make = [](std::int64_t length, Windows windows, const char* split) {
    return message_of([&] {
      TextDataset(
          counting_tokens(20),
          {.end = length, .context = 8, .windows = windows, .path = "book.txt", .split = split});
    });
  };
  CHECK(make(9, Windows::overlapping, "train").empty());
  CHECK(make(2, Windows::consecutive, "validation").empty());
  check_says(make(8, Windows::overlapping, "train"),
             {"book.txt", "train split has 8", "expected at least 9", "a context of 8"});
  check_says(make(1, Windows::consecutive, "validation"),
             {"book.txt", "validation split has 1", "expected at least 2"});
}

// --- toy sequences ---

TEST_CASE("ToySequences: the answers are correct") {
  CHECK(ToySequences(ToyTask::sort).answer("31415926>") == "11234569");
  CHECK(ToySequences(ToyTask::reverse).answer("31415926>") == "62951413");
  CHECK(ToySequences(ToyTask::copy, {.length = 4, .alphabet = 36}).answer("z0ab>") == "z0ab");
  const ToySequences addition(ToyTask::addition, {.length = 4, .alphabet = 3});
  CHECK(addition.answer("0123+0456>") == "97500");
  CHECK(addition.answer("9999+0001>") == "00001");
  CHECK(addition.answer("9999+9999>") == "89991");
  CHECK(addition.vocabulary().size() == 12);
  const ToySequences modular(ToyTask::modular_addition, {.alphabet = 113, .examples = 3830});
  CHECK(modular.answer("3+4>") == "7");
  CHECK(modular.answer("Z+1>") == "Ā");                     // 61 + 1 = 62, the first symbol after Z
  CHECK(modular.answer("Z+Z>") == modular.answer("ā+X>"));  // 122 - 113 = 63 + 59 - 113 = 9
  CHECK(modular.answer("Z+Z>") == "9");
  CHECK(modular.vocabulary().size() == 115);
}

TEST_CASE("ToySequences: modular addition has each input once, in one of the splits") {
  ToyOptions options{.alphabet = 13, .examples = 60};
  const ToySequences train(ToyTask::modular_addition, options);
  options.split = Split::validation;
  options.examples = 109;
  options.seed = 7;
  const ToySequences held(ToyTask::modular_addition, options);
  std::set<std::string> all;
  for (std::int64_t i = 0; i < 60; ++i) all.insert(train.prompt(i));
  CHECK(all.size() == 60);
  for (std::int64_t i = 0; i < 109; ++i) all.insert(held.prompt(i));
  CHECK(all.size() == 169);
}

TEST_CASE("ToySequences: the error for a malformed prompt says what is expected") {
  // Messages show prompts without the ">" that the program adds.
  const auto typed = [](const std::string& prompt) {
    return prompt.ends_with('>') ? prompt.substr(0, prompt.size() - 1) : prompt;
  };
  const ToySequences sort(ToyTask::sort, {.length = 4, .alphabet = 5});
  for (const char* prompt : {"", "0123", "012>", "01234>", "0129>", "012 >", "0123>0", ">0123"})
    CHECK_ERROR(sort.answer(prompt), "'" + typed(prompt) + "'", "expected 4",
                typed(sort.prompt(0)));
  CHECK_ERROR(sort.answer("01\n3>"), "'01\\x0a3'");
  const ToySequences addition(ToyTask::addition, {.length = 2});
  for (const char* prompt : {"1234>", "1+234>", "12+34", "12-34>"})
    CHECK_ERROR(addition.answer(prompt), "'" + typed(prompt) + "'", typed(addition.prompt(0)));
}

TEST_CASE("ToySequences: batches have prompt and answer, and count the answer alone") {
  for (const ToyTask task : {ToyTask::sort, ToyTask::reverse, ToyTask::copy, ToyTask::addition,
                             ToyTask::modular_addition}) {
    const ToySequences dataset(task, {.length = 5, .examples = 40, .seed = 7});
    const std::int64_t T = dataset.context();
    const auto first_answer = dataset.prompt_length() - 1;
    const Batch batch = dataset.batch(all_examples(dataset));
    CHECK(batch.inputs.shape() == Shape{40, T});
    CHECK(batch.count == 40.0 * static_cast<double>(dataset.answer_length()));
    for (std::int64_t example = 0; example < 40; ++example) {
      const auto inputs = batch.inputs.values<std::int32_t>().subspan(example * T, T);
      const auto targets = batch.targets.values<std::int32_t>().subspan(example * T, T);
      const std::string prompt = dataset.vocabulary().decode(inputs.first(first_answer + 1));
      CHECK(prompt == dataset.prompt(example));
      CHECK(std::ranges::all_of(targets.first(first_answer),
                                [](std::int32_t token) { return token == ignored_target; }));
      CHECK(dataset.vocabulary().decode(targets.subspan(first_answer)) == dataset.answer(prompt));
      CHECK(std::ranges::equal(
          inputs.subspan(first_answer + 1),
          targets.subspan(first_answer).first(inputs.size() - first_answer - 1)));
    }
  }
}

TEST_CASE("ToySequences: an example depends on the seed and its index alone") {
  const ToySequences few(ToyTask::sort, {.examples = 10, .seed = 3}),
      many(ToyTask::sort, {.examples = 1000, .seed = 3}),
      other(ToyTask::sort, {.examples = 10, .seed = 4});
  CHECK(few.prompt(9) == many.prompt(9));
  CHECK(few.prompt(9) != many.prompt(8));
  CHECK(few.prompt(9) != other.prompt(9));
}

TEST_CASE("ToySequences: training and validation inputs are disjoint, in every small space") {
  for (const std::int64_t alphabet : {2, 3, 4, 5, 6, 7, 8, 10, 36})
    for (std::int64_t length = 1; length <= 9; ++length) {
      const ToyOptions options{.length = length, .alphabet = alphabet, .examples = 2000};
      double inputs = 1;
      for (std::int64_t i = 0; i < length; ++i) inputs *= static_cast<double>(alphabet);
      if (inputs < 64) {
        CHECK_ERROR(ToySequences(ToyTask::sort, options), "of length", "64");
        continue;
      }
      if (inputs > 2000) break;
      ToyOptions held_back = options;
      held_back.split = Split::validation;
      held_back.seed = 99;
      const ToySequences train(ToyTask::sort, options), held(ToyTask::sort, held_back);
      std::set<std::string> seen, kept;
      for (std::int64_t i = 0; i < 2000; ++i) {
        seen.insert(train.prompt(i));
        kept.insert(held.prompt(i));
      }
      CHECK(std::ranges::none_of(kept, [&](const auto& prompt) { return seen.contains(prompt); }));
      CHECK(kept.size() >= 3);
      CHECK(kept.size() < seen.size());
    }
}

TEST_CASE("ToySequences: options out of range name their key") {
  const auto make = [](ToyOptions options, ToyTask task = ToyTask::sort) {
    return message_of([&] { ToySequences(task, options); });
  };
  check_says(make({.length = 0}), {"length = 0: expected 1 to 512"});
  check_says(make({.length = 513}), {"length = 513"});
  check_says(make({.alphabet = 1}), {"alphabet = 1: expected 2 to 256"});
  check_says(make({.alphabet = 257}), {"alphabet = 257"});
  check_says(make({.examples = 0}), {"0 examples; expected at least 1"});
  CHECK(make({.length = 1}, ToyTask::addition).empty());
  check_says(make({.examples = 100}, ToyTask::modular_addition),
             {"100 examples", "only 100 different ones"});
}

// --- IDX and images ---

std::string idx_images(std::uint32_t count, std::uint32_t rows, std::uint32_t columns) {
  std::string bytes =
      big_endian(0x803) + big_endian(count) + big_endian(rows) + big_endian(columns);
  for (std::uint32_t i = 0; i < count * rows * columns; ++i) bytes += static_cast<char>(i * 5);
  return bytes;
}

std::string idx_labels(std::uint32_t count) {
  std::string bytes = big_endian(0x801) + big_endian(count);
  for (std::uint32_t i = 0; i < count; ++i) bytes += static_cast<char>(i % 10);
  return bytes;
}

std::string images_error(const std::string& bytes) {
  const TemporaryFolder folder;
  return message_of([&] { read_idx_images(folder.write("photos", bytes)); });
}

std::string labels_error(const std::string& bytes) {
  const TemporaryFolder folder;
  return message_of([&] { read_idx_labels(folder.write("answers", bytes), 10); });
}

TEST_CASE_FIXTURE(TemporaryFolder, "IDX: values are the same from plain and gzip files") {
  const Array images = read_idx_images(write("a", idx_images(4, 3, 5)));
  CHECK(images.shape() == Shape{4, 3, 5});
  CHECK(images.values<float>()[1] == 5.0f / 255);
  CHECK(images.values<float>()[51] == 1.0f);
  const Array inflated = read_idx_images(write("b", gzip(idx_images(4, 3, 5))));
  CHECK(to_vector<float>(inflated) == to_vector<float>(images));
  const std::vector<std::int32_t> labels{0, 1, 2};
  CHECK(read_idx_labels(write("c", idx_labels(3)), 10) == labels);
  CHECK(read_idx_labels(write("d", gzip(idx_labels(3))), 10) == labels);
}

TEST_CASE("IDX: another kind of file is refused") {
  check_says(images_error(idx_labels(3)),
             {"photos", "byte 0", "0x00000803", "0x00000801 (IDX labels)"});
  check_says(labels_error(idx_images(1, 2, 2)), {"answers", "byte 0", "0x00000803 (IDX images)"});
  check_says(images_error("<html>403</html>"), {"byte 0", "not an IDX file"});
  check_says(images_error(""), {"photos", "byte 0", "ends"});
  check_says(labels_error("\0\0"), {"answers", "ends"});
}

TEST_CASE("IDX: a size that does not match the header is refused") {
  const std::string images = idx_images(4, 3, 5);
  check_says(images_error(images.substr(0, 10)), {"photos", "byte 10", "header"});
  check_says(images_error(images.substr(0, 75)), {"photos", "byte 75", "76 bytes", "4 x 3 x 5"});
  check_says(images_error(images + "x"), {"photos", "byte 76", "continues", "4 x 3 x 5"});
  check_says(images_error(gzip(images.substr(0, 75))), {"byte 75", "76 bytes"});
  check_says(images_error(gzip(images + "x")), {"byte 76", "continues"});
  check_says(labels_error(idx_labels(5).substr(0, 12)), {"answers", "byte 12", "13 bytes"});
  check_says(labels_error(idx_labels(5) + "x"), {"answers", "byte 13", "continues"});
  check_says(images_error(idx_images(0, 3, 5)), {"byte 4", "is 0"});
  check_says(images_error(idx_images(4, 0, 5)), {"byte 8", "is 0"});
  check_says(images_error(idx_images(4, 3, 0)), {"byte 12", "is 0"});
  check_says(labels_error(idx_labels(0)), {"byte 4", "is 0"});
}

TEST_CASE("IDX: a wrong header does not allocate memory") {
  const std::string most = big_endian(0xFFFFFFFF);
  check_says(images_error(big_endian(0x803) + most + most + most + "x"), {"byte 4", "4294967295"});
  const std::string below_cap =
      big_endian(0x803) + big_endian(1 << 20) + big_endian(32) + big_endian(32);
  check_says(images_error(below_cap + "x"), {"byte 17", "1048576 x 32 x 32"});
}

TEST_CASE("IDX: a label out of range is refused") {
  std::string labels = idx_labels(5);
  labels[10] = 10;
  check_says(labels_error(labels), {"answers", "byte 10", "0 to 9", "found 10"});
}

TEST_CASE_FIXTURE(TemporaryFolder, "IDX: damaged files are refused or read, without a crash") {
  Random random(5, Stream::data);
  int refused = 0, used = 0;
  const auto count = [&](const std::string& message) { ++(message.empty() ? used : refused); };
  for (const std::string& whole :
       {idx_images(4, 3, 5), gzip(idx_images(4, 3, 5)), idx_labels(9), gzip(idx_labels(9))})
    for (int trial = 0; trial < 100; ++trial) {
      std::string bytes = whole;
      for (std::int64_t flips = random.below(4); flips >= 0; --flips)
        bytes[random.below(std::ssize(bytes))] ^= static_cast<char>(1 << random.below(8));
      if (trial % 3 == 0) bytes.resize(random.below(std::ssize(bytes)));
      const std::string path = write("damaged", bytes);
      count(message_of([&] {
        const Array images = read_idx_images(path);
        for (const float pixel : images.values<float>()) CHECK((pixel >= 0 && pixel <= 1));
      }));
      count(message_of([&] {
        for (const std::int32_t label : read_idx_labels(path, 10))
          CHECK((label >= 0 && label < 10));
      }));
    }
  CHECK(refused > used);  // each is also read as the other kind of file
  CHECK(used > 0);
}

struct ImageFiles : TemporaryFolder {
  explicit ImageFiles(const std::string& suffix = "") {
    const auto pack = [&](const std::string& bytes) {
      return suffix.empty() ? bytes : gzip(bytes);
    };
    write("train-images-idx3-ubyte" + suffix, pack(idx_images(6, 4, 3)));
    write("train-labels-idx1-ubyte" + suffix, pack(idx_labels(6)));
    write("t10k-images-idx3-ubyte" + suffix, pack(idx_images(2, 4, 3)));
    write("t10k-labels-idx1-ubyte" + suffix, pack(idx_labels(2)));
  }
};

TEST_CASE("load_images: reads a folder or one of its files, plain or gzip") {
  const ImageFiles plain, packed(".gz");
  for (const std::string& path :
       {plain.path(), plain.path("train-images-idx3-ubyte"), plain.path("t10k-images-idx3-ubyte"),
        packed.path(), packed.path("train-images-idx3-ubyte.gz")}) {
    const ImageSplits splits = load_images(path);
    CHECK(splits.train.size() == 6);
    REQUIRE(splits.test);
    CHECK(splits.test->size() == 2);
    CHECK(splits.train.image_size() == ImageSize{.channels = 1, .height = 4, .width = 3});
    CHECK(count_classes(path) == 6);
    const Batch batch = splits.train.batch(std::vector<std::int64_t>{5, 0});
    CHECK(batch.inputs.shape() == Shape{2, 12});
    CHECK(batch.inputs.values<float>()[0] == 300 % 256 / 255.0f);
    CHECK(to_vector<std::int32_t>(batch.targets) == std::vector<std::int32_t>{5, 0});
    CHECK(batch.count == 2);
    CHECK_THROWS_AS(splits.test->batch(std::vector<std::int64_t>{2}), std::invalid_argument);
  }
}

TEST_CASE_FIXTURE(ImageFiles, "load_images: plain files are preferred to gzip files") {
  write("train-images-idx3-ubyte.gz", "not gzip at all");
  CHECK(load_images(path()).train.size() == 6);
}

TEST_CASE_FIXTURE(ImageFiles, "bug: the error for a missing image file had 700 characters") {
  const auto refused = [](const std::string& folder) {
    const std::string message = message_of([&] { load_images(folder); });
    check_says(message, {folder + ": the training images are missing", "train-images-idx3-ubyte",
                         "train-labels-idx1-ubyte"});
    CHECK(message.size() - folder.size() <= 240);
    return message;
  };
  for (const char* name : {"train", "t10k"})
    fs::remove(path(fmt::format("{}-images-idx3-ubyte", name)));
  refused(path());
  const TemporaryFolder folder;
  check_says(refused(folder.path("none")), {"found no folder"});
  for (int i = 0; i < 9; ++i) folder.write(fmt::format("cat-{}.png", i), "");
  check_says(refused(folder.path()), {"found cat-0.png, 8 more"});
}

TEST_CASE_FIXTURE(ImageFiles,
                  "load_images: all files may be missing except the images of one split") {
  const std::string folder = path();
  const auto remove = [&](const char* name) { fs::remove(path(name)); };
  remove("t10k-labels-idx1-ubyte");  // a test split without labels is of no use
  CHECK(!load_images(folder).test);
  CHECK(count_classes(folder) == 6);
  remove("train-labels-idx1-ubyte");  // but it is used if no image has one
  CHECK(load_images(folder, {.classes = 1}).test);
  CHECK(load_images(folder).train.labels() == std::vector<std::int32_t>(6, 0));
  CHECK(count_classes(folder) == 1);
  remove("train-images-idx3-ubyte");
  CHECK(load_images(folder).train.size() == 2);
  CHECK(!load_images(folder).test);
}

TEST_CASE_FIXTURE(ImageFiles,
                  "bug: images without labels were refused because of the test split's labels") {
  fs::remove(path("train-labels-idx1-ubyte"));
  const ImageSplits splits = load_images(path(), {.classes = 1});
  REQUIRE(splits.test);
  CHECK(splits.test->labels() == std::vector<std::int32_t>{0, 0});
}

TEST_CASE_FIXTURE(TemporaryFolder,
                  "load_images: the error for a missing path names the folder to fill") {
  for (const char* name : {"none", "none/train-images-idx3-ubyte.gz"}) {
    const std::string message = message_of([&] { load_images(path(name)); });
    CHECK(message.starts_with(path("none") + ": "));
  }
}

TEST_CASE_FIXTURE(ImageFiles, "load_images: files that do not belong together are refused") {
  write("other-name", idx_images(1, 4, 3));
  CHECK_ERROR(load_images(path("other-name")), "other-name", "train-images-idx3-ubyte");
  write("t10k-images-idx3-ubyte", idx_images(2, 3, 4));
  CHECK_ERROR(load_images(path()), "t10k-images-idx3-ubyte", "bytes 8 to 15", "4 x 3", "3 x 4");
  write("train-labels-idx1-ubyte", idx_labels(7));
  CHECK_ERROR(load_images(path()), "train-labels-idx1-ubyte", "byte 4", "6 labels", "found 7");
}

TEST_CASE_FIXTURE(ImageFiles,
                  "load_images: other sizes and more classes than the model's are refused") {
  const std::string folder = path();
  CHECK(load_images(folder, {.classes = 6, .height = 4, .width = 3}).train.size() == 6);
  CHECK_ERROR(load_images(folder, {.height = 3, .width = 4}), "train-images-idx3-ubyte",
              "bytes 8 to 15", "expected images of 3 x 4", "found 4 x 3");
  CHECK_ERROR(load_images(folder, {.classes = 5}), "train-labels-idx1-ubyte", "byte 13",
              "from 0 to 4", "found 5");
}

TEST_CASE("make_clothes: has the same bits for any number of threads, and no image in two splits") {
  const int threads = num_threads();
  std::set<std::vector<float>> distinct;
  for (const SyntheticSplit split :
       {SyntheticSplit::train, SyntheticSplit::validation, SyntheticSplit::test}) {
    set_num_threads(1);
    const ImageDataset one = make_clothes(40, 11, split);
    set_num_threads(2);
    const ImageDataset two = make_clothes(40, 11, split);
    set_num_threads(threads);
    const Array images = all_images(one);
    CHECK(to_vector<float>(images) == to_vector<float>(all_images(two)));
    CHECK(one.labels()[13] == 13 % garment_classes);
    CHECK(images.shape() == Shape{40, 28 * 28});
    for (std::int64_t i = 0; i < one.size(); ++i)
      distinct.insert(to_vector<float>(one.batch(std::vector<std::int64_t>{i}).inputs));
  }
  CHECK(distinct.size() == 120);
}

TEST_CASE(
    "split_validation: each image is in one split, and a larger share includes a smaller one") {
  std::vector<float> numbers(50);
  std::iota(numbers.begin(), numbers.end(), 0.0F);
  const ImageDataset images(Array::of(numbers, {50, 1, 1}),
                            std::vector<std::int32_t>(numbers.begin(), numbers.end()));
  std::vector<std::int32_t> fewer;
  for (const auto& [share, count] : {std::pair{0.001, 1}, {0.1, 5}, {0.5, 25}, {0.98, 49}}) {
    const auto [left, held] = split_validation(images, share);
    CHECK(held.size() == count);
    std::vector<std::int32_t> all = left.labels();
    CHECK(std::ranges::is_sorted(all));
    CHECK(std::ranges::is_sorted(held.labels()));
    CHECK(std::ranges::includes(held.labels(), fewer));
    CHECK(all_images(held).values<float>()[0] == static_cast<float>(held.labels()[0]));
    fewer = held.labels();
    all.insert(all.end(), fewer.begin(), fewer.end());
    std::ranges::sort(all);
    CHECK(all == images.labels());
  }
  CHECK_ERROR(split_validation(images, 1), "50 of 50 images are used for validation");
}

TEST_SUITE_END();

}  // namespace
}  // namespace tapestry
