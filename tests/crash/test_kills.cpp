#include <doctest/doctest.h>

#include <map>
#include <memory>
#include <random>

#include "tests/support/arrays.hpp"
#include "tests/support/run_fixture.hpp"
#include "tests/support/small_data.hpp"
#include "train/config/config_document.hpp"
#include "train/task_spec.hpp"

// Tests trainings that are killed at random moments. They take minutes: ./tapestry test --no-skip
// -ts=crash
namespace tapestry {
namespace {

constexpr std::int64_t steps = 40;

// A small version of a shipped config on its own data; with seeds, a training for each seed.
class Victim {
 public:
  Victim(std::string config, std::int64_t checkpoint_every, std::int64_t seeds)
      : config_(std::move(config)), seeds_(seeds) {
    const Config shipped = parse_config(shipped_configs().at(config_), config_, {});
    const auto value = [&](const std::string& key) { return text_setting(shipped, key); };
    const SmallData fixture = small_data_of(value("task"), value("data.kind"));
    for (const auto& [name, text] : fixture.files) folder_.write(name, text);
    keys_ =
        Words(fixture.few) + fixture.data + small(value("task"), value("model.kind")) +
        small_preset(shipped) +
        fmt::format("train.steps={} train.eval_every=3 train.checkpoint_every={} train.log_every=1",
                    steps, checkpoint_every);
    const auto start = std::chrono::steady_clock::now();
    whole_ = train("whole");
    whole_s_ = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  }

  const std::string& config() const { return config_; }
  const Finished& whole() const { return whole_; }
  double whole_s() const { return whole_s_; }  // of the uninterrupted training

  // Begins the run, or resumes it if it has begun.
  Finished train(const std::string& run, const RunOptions& options = {}) const {
    Words words = Words("train {} --quiet --out {}", config_, run);
    if (fs::exists(folders(run).front() + "/config.toml")) words.push_back("--resume");
    if (seeds_ > 1) words.insert(words.end(), {"--seeds", std::to_string(seeds_)});
    words.insert(words.end(), keys_.begin(), keys_.end());
    RunOptions here = options;
    here.folder = folder_.path();
    return tapestry_run(words, here);
  }

  // The state of a killed run.
  std::string phase(const std::string& run) const {
    const std::string last = folders(run).back(), first = folders(run).front();
    const std::string at = fs::exists(last + "/config.toml") ? last : first;
    if (!fs::exists(at + "/config.toml")) return "while it started";
    for (const auto& entry : fs::directory_iterator(at))
      if (entry.path().extension() == ".tmp") return "while it wrote a checkpoint";
    if (!fs::exists(at + "/checkpoint.safetensors"))
      return fs::exists(at + "/best.safetensors") ? "between a best model and a checkpoint"
                                                  : "before anything was saved";
    return load_checkpoint(at + "/checkpoint.safetensors").state.step < steps
               ? "between two checkpoints"
               : "after the last checkpoint";
  }

  // Returns how a run differs from the uninterrupted one; "" if it does not.
  std::string difference(const std::string& run) const {
    for (std::size_t i = 0; i < folders(run).size(); ++i) {
      const std::string ours = folders(run)[i];
      const std::string difference = run_difference(ours, folders("whole")[i]);
      if (!difference.empty()) return difference;
      for (const auto& entry : fs::directory_iterator(ours))
        if (entry.path().extension() == ".tmp") return entry.path().string() + " was left";
    }
    return "";
  }

  void forget(const std::string& run) const { fs::remove_all(folder_.path(run)); }

 private:
  Strings folders(const std::string& run) const {
    if (seeds_ == 1) return {folder_.path(run)};
    Strings all;
    for (std::int64_t seed = 1; seed <= seeds_; ++seed)
      all.push_back(folder_.path(fmt::format("{}/seed-{}", run, seed)));
    return all;
  }

  TemporaryFolder folder_;
  std::string config_;
  std::int64_t seeds_;
  Words keys_;
  Finished whole_;
  double whole_s_ = 0;
};

// Kills trainings of the configs at random moments, in turn, and resumes them; a third of them are
// killed a second time.
void kill_and_resume(const Strings& configs, std::int64_t kills, std::int64_t seeds) {
  std::mt19937 random(static_cast<unsigned>(from_environment("TAPESTRY_SEED", 1)));
  const auto chance = [&](double probability) {
    return std::uniform_real_distribution<double>()(random) < probability;
  };
  std::vector<std::unique_ptr<Victim>> victims;
  for (std::size_t i = 0; i < configs.size(); ++i) {
    const std::int64_t checkpoint_every[] = {1, 0, 5};
    victims.push_back(std::make_unique<Victim>(configs[i], checkpoint_every[i % 3], seeds));
    INFO(configs[i], ": ", victims.back()->whole().err);
    REQUIRE(victims.back()->whole().status == 0);
  }
  std::map<std::string, std::int64_t> killed;  // by phase
  std::map<int, std::int64_t> sent;            // by signal
  std::int64_t done = 0, faults = 0;
  for (std::int64_t trial = 0; done < kills; ++trial) {
    const Victim& victim = *victims[trial % victims.size()];
    const std::string config = victim.config(), run = fmt::format("run-{}", trial);
    CAPTURE(config);
    CAPTURE(trial);
    std::string story;
    do {
      const double after_s =
          std::uniform_real_distribution<double>(0, 1.05 * victim.whole_s())(random);
      const int signal = chance(0.7) ? SIGKILL : chance(0.5) ? SIGTERM : SIGINT;
      const auto start = std::chrono::steady_clock::now();
      const auto due = [=] {
        return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count() >=
               after_s;
      };
      const Finished finished = victim.train(run, {.when = due, .signal = signal});
      if (finished.status == 0) break;
      story += fmt::format("signal {} after {:.3f} s: status {}, {}{}; ", signal, after_s,
                           finished.status, victim.phase(run), finished.err);
      CHECK_MESSAGE(
          (finished.status == 128 + signal || (signal != SIGKILL && finished.status == 130)),
          story);
      ++killed[victim.phase(run)];
      ++sent[signal];
      ++done;
    } while (done < kills && chance(1.0 / 3));
    const Finished resumed = victim.train(run);
    const std::string fault =
        resumed.status == 0 ? victim.difference(run) : "not resumed: " + resumed.err;
    CHECK_MESSAGE(fault.empty(), story, fault);
    faults += !fault.empty();
    if (fault.empty()) victim.forget(run);
  }
  std::string phases;
  for (const auto& [phase, count] : killed) phases += fmt::format("\n  {:4} {}", count, phase);
  MESSAGE(fmt::format(
      "{} kills of {} configs, {} seed(s) each ({} SIGKILL, {} SIGTERM, {} SIGINT), "
      "{} faults; killed were{}",
      done, configs.size(), seeds, sent[SIGKILL], sent[SIGTERM], sent[SIGINT], faults, phases));
}

TEST_SUITE_BEGIN("crash");

TEST_CASE("crash: trainings killed at random moments end with the same bits" * doctest::skip()) {
  Strings all;
  for (const auto& [name, text] : shipped_configs()) all.push_back(name);
  kill_and_resume(all, from_environment("TAPESTRY_KILLS", 200), 1);
}

TEST_CASE("crash: trainings of several seeds killed at random moments end with the same bits" *
          doctest::skip()) {
  kill_and_resume({"sort", "karate", "memory-sum"}, from_environment("TAPESTRY_KILLS", 200) / 10,
                  3);
}

TEST_SUITE_END();

}  // namespace
}  // namespace tapestry
