#include <doctest/doctest.h>

#include "data/formats.hpp"
#include "data/graphs/node_graph.hpp"
#include "data/images/images.hpp"
#include "data/option_error.hpp"
#include "data/series/series.hpp"
#include "data/text/parallel_text.hpp"
#include "data/text/text.hpp"
#include "tests/fuzz/target.hpp"
#include "tests/support/process.hpp"
#include "train/tasks/images/image_data.hpp"

namespace tapestry {
namespace {

// A format that this source file alone knows: the path is the picture, "dark.dot" or "light.dot".
ImageSplits read_dot(const std::string& path, const ImageOptions& options) {
  expect_option(options.classes > 1, "classes", "{}: a dot is of 2 classes", path);
  const bool light = path.ends_with("light.dot");
  const ImageDataset dots(Array::full({2, 1, 1}, light ? 1 : 0), {light, light});
  return {dots, dots};
}

const RegisterFormat registered(image_formats(), "dot",
                                {.help = "the path of dots",
                                 .read = read_dot,
                                 .recognises = [](const std::string& path) {
                                   return path.ends_with(".dot");
                                 }});
const RegisterFuzzTarget fuzzed("dot", [](std::string_view bytes) {
  load_images(std::string(bytes) + ".dot");
});

TEST_SUITE_BEGIN("formats");

TEST_CASE("formats: one that registers itself is read by whoever asks for its kind") {
  CHECK(load_images("light.dot").train.labels() == std::vector{1, 1});
  check_says(image_formats().help(), {"the path of dots, or a folder with the four IDX files"});
  const Config config = parse_config("task = \"vae\"", "dots", {"data.path=/dark.dot"});
  ImageData images({.config = config});
  CHECK(images.height() == 1);
  CHECK(images.splits().validation.images().values<float>()[0] == 0);
  const Config one =
      parse_config("task = \"vae\"", "dots", {"data.path=/dark.dot", "data.class_names=all"});
  check_says(
      message_of([&] { ImageData({.config = one}); }),
      {"--set: data.class_names = [\"all\"]: /dark.dot: a dot is of 2 classes; or name all"});
}

TEST_CASE("formats: what none recognises goes to the one that takes everything, or is refused") {
  const auto text = [](const std::string& said) {
    return [said](const std::string&) { return said; };
  };
  const auto ends_in = [](const std::string& end) {
    return [end](const std::string& path) { return path.ends_with(end); };
  };
  Formats<std::string> formats;
  formats.add("z", {.help = "a z", .read = text("z was read"), .recognises = ends_in(".z")});
  CHECK(formats.read("a.z") == "z was read");
  check_says(message_of([&] { formats.read("a.y"); }), {"a.y: in no known format; give a z"});
  formats.add("any", {.help = "any file", .read = text("any was read")});
  CHECK(formats.read("a.y") == "any was read");
  CHECK(formats.read("a.z") == "z was read");
  CHECK(formats.help() == "any file, or a z");
}

TEST_CASE("formats: each kind has one that takes what no other recognises") {
  const std::string path = "/no/such/path";
  CHECK(!message_of([&] { load_images(path); }).empty());
  check_says(message_of([&] { text_formats().read(path); }), {path + ": cannot be opened"});
  check_says(message_of([&] { parallel_formats().read(path, {}); }), {path + ": cannot be listed"});
  check_says(message_of([&] { series_formats().read(path, {}); }), {path + ": cannot be opened"});
  check_says(message_of([&] { node_graph_formats().read(path, {}); }),
             {path + ": cannot be listed"});
}

TEST_SUITE_END();

}  // namespace
}  // namespace tapestry
