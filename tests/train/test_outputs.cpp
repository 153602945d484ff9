#include <doctest/doctest.h>

#include <filesystem>

#include "tests/support/run_fixture.hpp"

// Which files commands may write: those that they are told to, and none that they read.
namespace tapestry {
namespace {
namespace fs = std::filesystem;

class OutputDesk : public RunFixture {
 public:
  Finished run(const std::vector<std::string>& words) const {
    return tapestry_run(with_sets(words), {.folder = folder.path()});
  }
  // The command is refused, and `file` holds what it held.
  void check_refused(const std::vector<std::string>& words, const std::string& file,
                     const std::string& says = "is a file that this command reads") const {
    CAPTURE(words.front());
    CAPTURE(words.back());
    const std::string before = read_bytes(folder.path(file));
    const Finished finished = run(words);
    CHECK(finished.status == 2);
    CHECK(lines_of(finished.err).size() == 1);
    check_says(finished.err, {"--out " + words.back(), says, "give another name"});
    CHECK(read_bytes(folder.path(file)) == before);
  }
};

TEST_SUITE_BEGIN("answers");

TEST_CASE("bug: a command wrote over the file that it read") {
  const OutputDesk desk;
  const std::string own = desk.folder.path("own.json");
  REQUIRE(desk.run({"tokenizer", "train", "story.txt", "--vocabulary", "280", "--out", "own.json"})
              .status == 0);
  fs::create_symlink("story.txt", desk.folder.path("link"));
  fs::create_hard_link(desk.folder.path("story.txt"), desk.folder.path("hard"));
  for (const std::string out : {"story.txt", "./story.txt", "link", "hard"}) {
    desk.check_refused({"tokenizer", "train", "story.txt", "--out", out}, "story.txt");
    desk.check_refused({"tokenizer", "encode", "story.txt", "--tokenizer", own, "--out", out},
                       "story.txt");
  }
  CHECK(fs::is_symlink(desk.folder.path("link")));
  desk.check_refused({"tokenizer", "train", "toy.toml", "link", "--out", "story.txt"}, "story.txt");
  desk.check_refused(
      {"tokenizer", "encode", "story.txt", "--tokenizer", "own.json", "--out", "own.json"},
      "own.json");
  REQUIRE(desk.run({"tokenizer", "encode", "story.txt", "--tokenizer", "own.json", "--out", "ids"})
              .status == 0);
  desk.check_refused({"tokenizer", "decode", "ids", "--tokenizer", own, "--out", "ids"}, "ids");
}

TEST_CASE("bug: what a run is shown by went over the run's files and its data") {
  const OutputDesk desk;
  desk.must_train("text", "run", {"train.steps=4"});
  desk.check_refused({"report", "run", "--out", "story.txt"}, "story.txt");
  fs::create_hard_link(desk.folder.path("run/metrics.jsonl"), desk.folder.path("page.html"));
  desk.check_refused({"report", "run", "--out", "page.html"}, "run/metrics.jsonl");
  const std::string best = desk.best("run"), of_a_run = "is a file of a run";
  desk.check_refused({"sample", "run", "--out", "run/best.safetensors"}, "run/best.safetensors",
                     of_a_run);
  desk.check_refused({"report", "run", "--out", "run/metrics.jsonl"}, "run/metrics.jsonl",
                     of_a_run);
  CHECK(desk.run({"export", "run", "--out", "run/best.safetensors"}).status == 2);
  // The same command may be given twice.
  for (int i = 0; i < 2; ++i) {
    CHECK(desk.run({"report", "run", "--out", "new.html"}).status == 0);
    CHECK(desk.run({"sample", "run", "--tokens", "4", "--out", "text"}).status == 0);
    CHECK(desk.run({"attention", "run", "--out", "map"}).out == "map.png\nmap.svg\n");
  }
}

TEST_CASE("bug: a picture was written in formats that --out did not name, over other files") {
  const OutputDesk desk;
  desk.must_train("toy", "run", {"train.steps=2"});
  desk.must_train("vae", "vae", {"train.steps=2"});
  for (const char* name : {"pic.svg", "pic.csv", "pic.png.tmp"}) desk.folder.write(name, "mine");
  CHECK(desk.run({"attention", "run", "--out", "pic.png"}).out == "pic.png\n");
  CHECK(desk.run({"latent", "vae", "--out", "pic.png"}).out == "pic.png\n");
  for (const char* name : {"pic.svg", "pic.csv", "pic.png.tmp"})
    CHECK(read_bytes(desk.folder.path(name)) == "mine");
  CHECK(desk.run({"latent", "vae", "--out", "codes.csv"}).out == "codes.csv\n");
  CHECK(desk.run({"attention", "run", "--out", "map.svg"}).out == "map.svg\n");
  CHECK(!fs::exists(desk.folder.path("map.png")));
  check_says(desk.run({"attention", "run", "--out", "map.csv"}).err,
             {"--out map.csv: no .csv can be drawn; end the name in .png or .svg, or in nothing"});
}

TEST_SUITE_END();

}  // namespace
}  // namespace tapestry
