#include <algorithm>

#include "data/graphs/node_graph.hpp"
#include "data/graphs/node_tables.hpp"
#include "data/images/captions.hpp"
#include "data/images/images.hpp"
#include "data/images/orientation.hpp"
#include "data/images/picture_file.hpp"
#include "data/input_file.hpp"
#include "data/series/series.hpp"
#include "data/table/record_stream.hpp"
#include "data/table/table_examples.hpp"
#include "data/text/labeled_texts.hpp"
#include "data/text/names.hpp"
#include "data/text/pairs.hpp"
#include "data/text/text.hpp"
#include "data/text/word_vectors.hpp"
#include "tests/fuzz/target.hpp"

// Fuzzes the file formats of data/. The first zero byte separates two files.
namespace tapestry {
namespace {

std::string two_files(std::string_view bytes, const std::string& first, const std::string& second) {
  const std::size_t cut = std::min(bytes.find('\0'), bytes.size());
  written_file(first, bytes.substr(0, cut));
  return written_file(second, bytes.substr(std::min(cut + 1, bytes.size())));
}

const RegisterFuzzTarget file("file", [](std::string_view bytes) {
  read_file(written_file("file", bytes), std::int64_t{1} << 30);
});

const RegisterFuzzTarget csv("csv", [](std::string_view bytes) {
  const std::string path = written_file("series.csv", bytes);
  SeriesOptions options;
  if (bytes.size() % 2 == 0) options.rules = 1;
  if (bytes.size() % 4 >= 2) options.missing = MissingValues::refuse;
  if (bytes.size() % 8 >= 4) options.series_column = "id";
  options = detect_format(path, options);
  series_column_uses(path, options);
  load_series(path, options);
});

const RegisterFuzzTarget rows("rows", [](std::string_view bytes) {
  const std::string path = written_file("rows.csv", bytes);
  TableExampleOptions options;
  if (bytes.size() % 4 == 1) options.kind = TargetKind::classes;
  if (bytes.size() % 4 == 2) options.kind = TargetKind::numbers;
  if (bytes.size() % 4 == 3) options.label_field = "y";
  const TableSplits read = load_table_examples(path, options);
  const TableColumns columns = TableColumns::from_json(read.columns.to_json());
  TableExampleOptions whole = read.options;
  whole.whole = true;
  load_table_examples(path, whole, &columns);
});

const RegisterFuzzTarget stream("stream", [](std::string_view bytes) {
  const char delimiter = bytes.size() % 2 == 0 ? ',' : no_delimiter;
  RecordStream records(written_file("stream", bytes), delimiter);
  for (StreamedRecord record; records.next(record);)
    if (record.cells.empty()) throw std::logic_error("stream: a record without cells");
});

const RegisterFuzzTarget captions("captions", [](std::string_view bytes) {
  written_file(captions_file, bytes);
  for (const char* picture : {"a.png", "b.jpg", "c.png"}) written_file(picture, "");
  const CaptionedFolder found =
      list_captions(scratch_folder(), {.validation = 0.3}, bytes.size() % 2 == 0);
  if (found.captions.empty()) throw std::logic_error("captions: no picture");
});

const RegisterFuzzTarget citations("citations", [](std::string_view bytes) {
  two_files(bytes, "papers.content", "papers.cites");
  load_node_graph(scratch_folder(), {.training = 2, .validation = 1, .test = 1});
});

const RegisterFuzzTarget node_tables("node-tables", [](std::string_view bytes) {
  two_files(bytes, "nodes.csv", "edges.csv");
  const NodeTableOptions options = detect_node_tables(
      scratch_folder(),
      {.directed = bytes.size() % 2 == 0, .test_share = bytes.size() % 4 >= 2 ? 0.2 : 0});
  unusable_columns(scratch_folder(), options);
  const NodeTables read = load_node_tables(scratch_folder(), options);
  load_node_tables(scratch_folder(), options, read.columns);
});

const RegisterFuzzTarget lines("lines", [](std::string_view bytes) {
  two_files(bytes, "train.de", "train.en");
  load_parallel_text(scratch_folder(), ParallelFiles{});
});

const RegisterFuzzTarget plain("plain", [](std::string_view bytes) {
  const Text text = load_text(written_file("text.txt", bytes));
  const CharVocabulary vocabulary = CharVocabulary::of_text(text.content);
  if (vocabulary.decode(vocabulary.encode(text.content)) != text.content)
    throw std::logic_error("plain: another text came back");
});

const RegisterFuzzTarget names("names", [](std::string_view bytes) {
  const NameList list = load_names(written_file("names.txt", bytes), bytes.size() % 2 == 0);
  split_names(list, name_vocabulary(list));
});

const RegisterFuzzTarget word_vectors("word-vectors", [](std::string_view bytes) {
  const WordVectors read = read_word_vectors(written_file("words.txt", bytes));
  const WordVectors again = read_word_vectors(written_file("again.txt", word_vectors_text(read)));
  if (read.words != again.words ||
      !std::ranges::equal(read.vectors.values<float>(), again.vectors.values<float>()))
    throw std::logic_error("word-vectors: others came back");
});

const RegisterFuzzTarget labeled("labeled", [](std::string_view bytes) {
  LabeledTextOptions options{.label_column = static_cast<std::int64_t>(bytes.size() % 3)};
  if (bytes.size() % 2 == 0) options.classes = {"a", "b"};
  const std::string path = written_file(bytes.size() % 4 < 2 ? "texts" : "texts.csv", bytes);
  const LabeledSplits texts = load_labeled_texts(path, options);
  for (const LabeledTexts* split : {&texts.train, &texts.validation})
    for (const std::int32_t label : split->labels)
      if (split->texts.size() != split->labels.size() || label >= std::ssize(texts.options.classes))
        throw std::logic_error("labeled: a label without a class");
});

// The data set has four files of two kinds.
const RegisterFuzzTarget idx("idx", [](std::string_view bytes) {
  const std::string path = written_file("idx", bytes);
  if (bytes.size() % 2 == 0)
    read_idx_labels(path, 10);
  else
    read_idx_images(path);
});

const RegisterFuzzTarget picture("picture", [](std::string_view bytes) {
  const std::string path = written_file("picture", bytes);
  const ImageSize size = picture_size(path);
  const std::int64_t channels = size.channels;
  constexpr std::int64_t most = 1 << 20;  // sanitizers take seconds for larger pictures
  if (size.values() > most) return;
  read_picture(path, {.size = {.channels = channels, .height = 7, .width = 5},
                      .fit = static_cast<PictureFit>(bytes.size() / 4 % 3),
                      .reduces_jpeg = bytes.size() % 2 == 0,
                      .turns_upright = bytes.size() % 4 < 2});
});

// EXIF data of a PNG or JPEG file, or alone: a file around them is made.
const RegisterFuzzTarget exif("exif", [](std::string_view bytes) {
  exif_orientation(bytes);
  const std::size_t length = std::min<std::size_t>(bytes.size(), 60'000);
  const auto byte = [](std::size_t value) { return static_cast<char>(value); };
  exif_orientation(std::string("\xff\xd8\xff\xe1") + byte((length + 8) >> 8) + byte(length + 8) +
                   std::string("Exif\0\0", 6) + std::string(bytes.substr(0, length)));
});

}  // namespace
}  // namespace tapestry
