#include <doctest/doctest.h>

#include <filesystem>

#include "tests/support/run_fixture.hpp"

// Checkpoints in tests/golden/runs/ were written by commit 4e34a53, after 6 steps of small models.
// What it measured then, and after 6 steps more, was noted here; its learning rate decayed to a
// step after the last. clothes-vae is measured anew, since an image's noise depends on its number
// alone.
namespace tapestry {
namespace {

TEST_SUITE_BEGIN("earlier versions");

struct EarlierRun {
  std::string name;  // of the shipped config that it is a smaller one of
  double loss_after_6, loss_after_12;
};

const EarlierRun runs[] = {{"sort", 2.3521463871002197, 2.335092067718506},
                           {"reverse-rfa", 2.3855574131011963, 2.379732847213745},
                           {"dates", 4.565482052889737, 4.481167879971591},
                           {"memory-multi-head", 2.8113832473754883, 2.8120126724243164},
                           {"waves", 1.149410607679835, 1.1102218148093554},
                           {"clothes-vit", 2.4476154327392576, 2.434500503540039},
                           {"clothes-vae", 565.3033516407013, 563.7522943496704},
                           {"karate", 0.6610850095748901, 0.5976523160934448},
                           {"graphs", 2.6554617881774902, 2.4010066986083984},
                           {"shakespeare-char", 3.191335577713816, 3.1783235784162556},
                           {"shakespeare-rnn", 3.2152934827302633, 3.212796930681195}};

std::string bottles() {
  std::string text;
  for (int i = 0; i < 40; ++i)
    text += fmt::format("{} green bottles, and {} more\n", i, i * 7 % 13);
  return text;
}

TEST_CASE("earlier versions: their checkpoints load, and their runs go on") {
  const RunFixture fixture;
  fixture.folder.write("bottles.txt", bottles());
  for (const auto& [name, loss_after_6, loss_after_12] : runs) {
    CAPTURE(name);
    const std::string run = fixture.folder.path(name), checkpoint = run + "/checkpoint.safetensors";
    std::filesystem::create_directory(run);
    std::filesystem::copy(TAPESTRY_SOURCE_DIR "/tests/golden/runs/" + name + ".safetensors",
                          checkpoint);
    const std::string config = load_checkpoint(checkpoint).config;
    fixture.folder.write(name + "/config.toml", config);
    std::vector<std::string> data;
    if (name.starts_with("shakespeare")) data = {"data.path=" + fixture.folder.path("bottles.txt")};

    CHECK(fixture.eval(name, data)["loss"].get<double>() ==
          doctest::Approx(loss_after_6).epsilon(1e-5));

    std::vector<std::string> more = {"--resume", "train.steps=12"};
    if (config.find("schedule = \"constant\"") == std::string::npos)
      more.push_back("optim.decay_steps=13");
    more.insert(more.end(), data.begin(), data.end());
    fixture.must_train(name + "/config", name, more);
    const Json last = fixture.last_validation(name);
    CHECK(last["step"] == 12);
    CHECK(last["loss"].get<double>() == doctest::Approx(loss_after_12).epsilon(1e-4));
  }
}

TEST_SUITE_END();

}  // namespace
}  // namespace tapestry
