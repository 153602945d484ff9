#include <doctest/doctest.h>

#include "autograd/engine.hpp"
#include "tests/support/run_fixture.hpp"

// tests/golden/runs/ has checkpoints of small models that commit 1259dc1 trained for 6 steps. The
// table has the validation losses that this commit measured after 6 steps and, resumed, after 12.
namespace tapestry {
namespace {

TEST_SUITE_BEGIN("earlier versions");

struct EarlierRun {
  std::string name;  // of the shipped config of which it is a smaller version
  double loss_after_6, loss_after_12;
};

const EarlierRun runs[] = {{"sort", 2.3439221382141113, 2.328699827194214},
                           {"reverse-rfa", 2.382730007171631, 2.3783042430877686},
                           {"dates", 4.519089438698509, 4.436201268976385},
                           {"memory-multi-head", 2.8096256256103516, 2.8107199668884277},
                           {"waves", 1.123537331507141, 1.086796342701782},
                           {"clothes-vit", 2.440157890319824, 2.428241729736328},
                           {"clothes-vae", 565.30330286026, 563.7521966934204},
                           {"karate", 0.6610850095748901, 0.5976523160934448},
                           {"graphs", 2.5208277702331543, 2.324174404144287},
                           {"shakespeare-char", 3.1852922941509045, 3.173338772957785},
                           {"shakespeare-rnn", 3.2141215006510415, 3.2116265547902962}};

std::string bottles() {
  std::string text;
  for (int i = 0; i < 40; ++i)
    text += fmt::format("{} green bottles, and {} more\n", i, i * 7 % 13);
  return text;
}

TEST_CASE_FIXTURE(RunFixture, "earlier versions: their checkpoints load, and their runs resume") {
  write("bottles.txt", bottles());
  for (const auto& [name, loss_after_6, loss_after_12] : runs) {
    CAPTURE(name);
    const std::string run = path(name), checkpoint = run + "/checkpoint.safetensors";
    fs::create_directory(run);
    fs::copy(golden_path("runs/" + name + ".safetensors"), checkpoint);
    const std::string config = load_checkpoint(checkpoint).config;
    write(name + "/config.toml", config);
    Words data;
    if (name.starts_with("shakespeare")) data = {"data.path=" + path("bottles.txt")};

    CHECK(eval(name, data)["loss"].get<double>() == doctest::Approx(loss_after_6).epsilon(1e-5));

    Words more = "--resume train.steps=12";
    if (!contains(config, "schedule = \"constant\"")) more.push_back("optim.decay_steps=13");
    must_train(name + "/config", name, more + data);
    const Json last = last_validation(name);
    CHECK(last["step"] == 12);
    CHECK(last["loss"].get<double>() == doctest::Approx(loss_after_12).epsilon(1e-4));
  }
}

// tests/golden/rules1/ has data and checkpoints of commit 2860413, whose rules are data.rules = 1
// today. See make_rules1.py.
TEST_CASE_FIXTURE(RunFixture,
                  "earlier versions: runs without data.rules keep their data and bits") {
  const std::string golden = golden_path("rules1/");
  const Json expected = Json::parse(read_bytes(golden + "expected.json"));
  CHECK(expected.size() == 7);
  for (const auto& [name, measured] : expected.items()) {
    CAPTURE(name);
    const std::string run = path(name), checkpoint = run + "/checkpoint.safetensors";
    fs::create_directory(run);
    fs::copy(golden + name + ".safetensors", checkpoint);
    const std::string config = load_checkpoint(checkpoint).config;
    CHECK(!contains(config, "\nrules ="));
    write(name + "/config.toml", config);
    const Words data = {"data.path=" + golden + measured["data"].get<std::string>()};
    CHECK(eval(name, data)["loss"].get<double>() ==
          doctest::Approx(measured["loss"].get<double>()).epsilon(1e-5));

    // It resumes only if the checksum of the data equals that of the checkpoint.
    must_train(name + "/config", name, "--resume train.steps=12" + data);
    CHECK(contains(load_checkpoint(checkpoint).config, "rules = 1"));
    Json last;
    for (const Json& line : metrics(name)) last[line["split"].get<std::string>()] = line;
    for (const auto& [split, loss] : measured["resumed"].items()) {
      CHECK(last[split]["step"] == 12);
      CHECK(last[split]["loss"].get<double>() == doctest::Approx(loss.get<double>()).epsilon(1e-4));
    }
#if defined __OPTIMIZE__ && !defined __clang__  // other compilers and levels have other bits
    if (const auto bits = measured["bits"].find(instruction_level());
        bits != measured["bits"].end())
      CHECK(last["val"]["parameters_xxh3"] == *bits);
#endif
  }
}

TEST_CASE_FIXTURE(
    RunFixture,
    "earlier versions: a run without config.toml keeps its rules, and can be compared") {
  for (const std::string config : {"toy", "text"}) {
    must_train(config, config + "-1", "data.rules=1 train.steps=20");
    must_train(config, config + "-2", "train.steps=20");
    const Finished compared =
        tapestry_run("compare {} {}", path(config + "-1"), path(config + "-2"));
    check_prints(compared, {"data.rules", "loss"});
    CHECK(!contains(compared.out, "not comparable"));
    fs::remove(path(config + "-1/config.toml"));
    must_train(config, config + "-1", "--resume train.steps=20");
    CHECK(contains(load_checkpoint(checkpoint(config + "-1")).config, "rules = 1"));
  }
}

TEST_SUITE_END();

}  // namespace
}  // namespace tapestry
