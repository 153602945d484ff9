#include <doctest/doctest.h>

#include <chrono>
#include <cstdlib>

#include "tests/support/graphs.hpp"
#include "tests/support/labels.hpp"
#include "tests/support/run_fixture.hpp"
#include "train/task_spec.hpp"
#include "train/tools/plan/plan.hpp"

// Tests trainings by several processes, which mpirun starts.
namespace tapestry {
namespace {

struct Together {
  int ranks = 2;
  Strings launcher = {"mpirun.openmpi", "--oversubscribe"};
};

// Runs mpirun -n RANKS tapestry train CONFIG --out RUN --quiet MORE.
Finished train_together(const RunFixture& fixture, const Together& together,
                        const std::string& config, const std::string& run, const Words& more = {},
                        const RunOptions& options = {}) {
  return run_program(several_tapestries(together.ranks, together.launcher) +
                         with_sets(Words("train {} --out {} --quiet",
                                         fixture.path(config + ".toml"), fixture.path(run)) +
                                   more),
                     options);
}

void must_train_together(const RunFixture& fixture, const Together& together,
                         const std::string& config, const std::string& run,
                         const Words& more = {}) {
  const Finished finished = train_together(fixture, together, config, run, more);
  INFO(finished.out, finished.err);
  REQUIRE(finished.status == 0);
}

// Checks that rank 0 held the memory that `tapestry plan` computes.
void check_planned(const RunFixture& fixture, int ranks, const std::string& config,
                   const std::string& run, const Words& more) {
  const MemoryPlan plan =
      plan_memory(load_config(fixture.path(config + ".toml"), more), {.ranks = ranks});
  CHECK(is_planned(tensor_bytes(fixture.path(run)), static_cast<double>(plan.peak()),
                   static_cast<double>(plan.batches)));
}

// Returns the lines of Tapestry among those of mpirun.
std::string said(const Finished& finished) {
  std::string all;
  for (const std::string& line : lines_of(finished.err))
    if (line.starts_with("tapestry: ")) all += (all.empty() ? "" : "\n") + line;
  return all;
}

// Returns the process of a rank; 0 without one.
int process_of(int rank, const std::string& run) {
  for (const auto& entry : fs::directory_iterator("/proc")) {
    const int process = std::atoi(entry.path().filename().c_str());
    if (process == 0) continue;
    std::error_code gone;
    if (fs::read_symlink(entry.path() / "exe", gone).filename() != "tapestry") continue;
    std::ifstream words(entry.path() / "cmdline"), variables(entry.path() / "environ");
    std::stringstream said, set;
    said << words.rdbuf();
    set << variables.rdbuf();
    if (said.str().find(run) != std::string::npos &&
        set.str().find("OMPI_COMM_WORLD_RANK=" + std::to_string(rank) + '\0') != std::string::npos)
      return process;
  }
  return 0;
}

TEST_SUITE_BEGIN("mpi");

TEST_CASE_FIXTURE(RunFixture,
                  "mpi: trainings have the same bits on 1 to 4 ranks, with and without shards" *
                      not_sanitized("it takes minutes; the next one is run")) {
  write("dates.toml", "base = \"dates\"\n");
  write("graphs.toml", "base = \"graphs\"\n");
  const Words few = "train.eval_every=4 train.checkpoint_every=4 train.log_every=1";
  const std::map<std::string, Strings> configs = {
      {"toy", {"train.micro_batches=4", "train.steps=12", "model.width=64"}},
      {"text", {"train.micro_batches=4", "train.steps=12"}},
      {"vae", {"train.micro_batches=7", "train.steps=12", "model.hidden=[300]"}},
      {"dates",
       {"train.micro_batches=8", "train.steps=4", "model.width=16", "data.examples=200",
        "data.held_back=40"}},
      {"graphs", {"train.micro_batches=4", "train.steps=5"}}};
  for (const auto& [config, own] : configs) {
    CAPTURE(config);
    Words more = few + own;
    must_train(config, config + "-1", more);
    for (const int ranks : {2, 3, 4}) {
      const std::string run = fmt::format("{}-{}", config, ranks);
      must_train_together(*this, {ranks}, config, run, more);
      check_same_run(*this, config + "-1", run);
      check_planned(*this, ranks, config, run, more);
    }
    more.push_back("train.shard_optimizer=true");
    must_train_together(*this, {3}, config, config + "-shares", more);
    check_planned(*this, 3, config, config + "-shares", more);
    CHECK(untimed(metrics(config + "-1")) == untimed(metrics(config + "-shares")));
    check_same_checkpoint(checkpoint(config + "-1"), checkpoint(config + "-shares"));
  }
}

TEST_CASE_FIXTURE(
    RunFixture, "mpi: each optimizer has the same bits on 1 and 3 ranks, with and without shards") {
  const Words more = "train.micro_batches=4 train.steps=12 train.eval_every=4 model.width=64";
  for (const std::string optimizer : {"muon", "schedule_free_adamw"}) {
    CAPTURE(optimizer);
    const Words own = more + Words("optim.name=" + optimizer);
    must_train("toy", optimizer + "-1", own);
    must_train_together(*this, {3}, "toy", optimizer + "-3", own);
    must_train_together(*this, {3}, "toy", optimizer + "-shards",
                        own + "train.shard_optimizer=true");
    for (const std::string other : {"-3", "-shards"}) {
      CHECK(untimed(metrics(optimizer + "-1")) == untimed(metrics(optimizer + other)));
      check_same_checkpoint(checkpoint(optimizer + "-1"), checkpoint(optimizer + other));
    }
  }
}

TEST_CASE_FIXTURE(RunFixture,
                  "mpi: a run resumes with the same bits on other ranks, with and without shards") {
  const Words parts = "train.micro_batches=4 train.eval_every=6 optim.decay_steps=18";
  const auto until = [&](int steps, const Words& more = {}) {
    return parts + fmt::format("train.steps={}", steps) + more;
  };
  must_train("toy", "whole", until(18));
  must_train_together(*this, {3}, "toy", "passed-on", until(6, "train.shard_optimizer=true"));
  must_train_together(*this, {2}, "toy", "passed-on",
                      until(12, "--resume train.shard_optimizer=true"));
  must_train("toy", "passed-on", until(18, "--resume"));
  check_same_checkpoint(checkpoint("whole"), checkpoint("passed-on"));
}

TEST_CASE_FIXTURE(RunFixture, "mpi: TCP and MPICH give the same bits") {
  const Words more = "train.micro_batches=4 train.steps=6";
  must_train("text", "one", more);
  must_train_together(*this, {3, {"mpirun.openmpi", "--oversubscribe", "--mca", "btl", "tcp,self"}},
                      "text", "tcp", more);
  check_same_run(*this, "one", "tcp");
  if (run_program({"sh", "-c", "command -v mpirun.mpich"}).status != 0 ||
      !fs::exists(paths::plugins + std::string("/mpich.so"))) {
    left_out("MPICH is not installed");
    return;
  }
  must_train_together(*this, {3, {"mpirun.mpich"}}, "text", "mpich", more);
  check_same_run(*this, "one", "mpich");
}

// Two hosts: network namespaces of this machine that are connected, and a script that mpirun calls
// in place of ssh.
class TwoHosts {
 public:
  TwoHosts() {
    agent_ = folder_.write("agent", fmt::format(R"(#!/bin/sh
case $1 in 10.77.0.1) host={0} ;; 10.77.0.2) host={1} ;; *) exit 1 ;; esac
shift
exec ip netns exec $host unshare -u sh -c 'hostname $0; exec sh -c "$*"' $host "$@"
)",
                                                name(0), name(1)));
    fs::permissions(agent_, fs::perms::owner_all);
    // Later versions of mpirun have other names of these options.
    const Finished version = run_program({"mpirun.openmpi", "--version"});
    is_made_ = contains(version.out, ") 4.") && ip({"netns", "add", name(0)}) &&
               ip({"netns", "add", name(1)}) &&
               ip({"link", "add", "cable0", "netns", name(0), "type", "veth", "peer", "name",
                   "cable1", "netns", name(1)});
    for (const int host : {0, 1}) {
      const std::string cable = fmt::format("cable{}", host);
      is_made_ = is_made_ &&
                 ip({"-n", name(host), "addr", "add", fmt::format("10.77.0.{}/24", host + 1), "dev",
                     cable}) &&
                 ip({"-n", name(host), "link", "set", cable, "up"}) &&
                 ip({"-n", name(host), "link", "set", "lo", "up"});
    }
  }
  ~TwoHosts() {
    for (const int host : {0, 1}) ip({"netns", "del", name(host)});
  }
  TwoHosts(const TwoHosts&) = delete;
  TwoHosts& operator=(const TwoHosts&) = delete;

  bool is_made() const { return is_made_; }
  Strings launcher() const {
    return Words(
        "ip netns exec {} mpirun.openmpi --mca plm_rsh_agent {} --mca btl tcp,self "
        "--mca btl_tcp_if_include 10.77.0.0/24 --mca oob_tcp_if_include 10.77.0.0/24 "
        "--host 10.77.0.1:2,10.77.0.2:2",
        name(0), agent_);
  }

 private:
  static std::string name(int host) { return fmt::format("tapestry-{}-{}", getpid(), host); }
  static bool ip(const Words& words) { return run_program("env ip" + words).status == 0; }
  TemporaryFolder folder_{fs::temp_directory_path().string()};
  std::string agent_;
  bool is_made_ = false;
};

TEST_CASE_FIXTURE(RunFixture, "mpi: two hosts give the same bits") {
  const TwoHosts hosts;
  if (!hosts.is_made()) {
    left_out("no network namespaces can be made, or this is not Open MPI 4");
    return;
  }
  const Words more = "train.micro_batches=4 train.steps=6";
  must_train("toy", "one", more);
  must_train_together(*this, {4, hosts.launcher()}, "toy", "hosts", more);
  check_same_run(*this, "one", "hosts");
  CHECK(train_together(*this, {3, hosts.launcher()}, "toy", "refused",
                       "train.micro_batches=4 train.batch_size=3")
            .status == 2);
}

TEST_CASE_FIXTURE(RunFixture,
                  "mpi: if a rank is killed, all end and name it, and the run resumes") {
  // Rank 2 is killed some steps after a checkpoint, when rank 0 writes nothing and answers in time.
  const Words more =
      "train.micro_batches=4 train.steps=40000 train.checkpoint_every=300 train.eval_every=300";
  const std::string run = path("killed");
  int victim = 0;
  std::uintmax_t bytes = 0;  // of the metrics when the checkpoint existed
  std::chrono::steady_clock::time_point killed;
  const auto kill_one = [&] {
    if (victim != 0 || !fs::exists(run + "/checkpoint.safetensors")) return false;
    if (bytes == 0) bytes = fs::file_size(run + "/metrics.jsonl");
    if (fs::file_size(run + "/metrics.jsonl") < bytes + 1000) return false;
    victim = process_of(2, run);
    if (victim > 0) kill(victim, SIGKILL);
    killed = std::chrono::steady_clock::now();
    return false;
  };
  const Finished finished = train_together(*this, {3}, "toy", "killed", more, {.when = kill_one});
  CHECK(std::chrono::steady_clock::now() - killed < std::chrono::seconds(120));
  CHECK(victim > 0);
  CHECK(finished.status != 0);
  // A rank with a busy processor may be named, too: "ranks 1, 2".
  check_says(said(finished), {"rank", " 2 did not answer while this rank waited for ", "step ",
                              "the checkpoints in"});
  check_says(finished.err, {"process rank 2 ", "signal 9"});
  for (int rank = 0; rank < 3; ++rank) CHECK(process_of(rank, run) == 0);

  const std::int64_t step = load_checkpoint(run + "/checkpoint.safetensors").state.step;
  Strings rest = {"train.micro_batches=4", fmt::format("train.steps={}", step + 7),
                  "optim.decay_steps=40000", "train.checkpoint_every=300", "train.eval_every=300"};
  must_train("toy", "whole", rest);
  rest.push_back("--resume");
  must_train_together(*this, {2}, "toy", "killed", rest);
  check_same_checkpoint(checkpoint("whole"), checkpoint("killed"));
}

TEST_CASE_FIXTURE(RunFixture, "mpi: SIGUSR1 to mpirun writes a checkpoint and ends") {
  const Words more =
      "train.micro_batches=4 train.steps=100000 train.checkpoint_every=0 train.eval_every=0";
  const std::string run = path("signalled");
  const Finished finished =
      train_together(*this, {2}, "toy", "signalled", more,
                     {.when = when_holds(run + "/metrics.jsonl", 600), .signal = SIGUSR1});
  INFO(finished.out, finished.err);
  CHECK(finished.status == 130);
  check_says(finished.out, {"stopped after step ", "to resume: "});
  CHECK(load_checkpoint(run + "/checkpoint.safetensors").state.step > 0);
}

TEST_CASE_FIXTURE(RunFixture, "mpi: errors are printed once, and nothing is written") {
  const auto refused = [&](const Together& together, const std::string& config, const Words& more,
                           int status, const Strings& parts) {
    CAPTURE(config);
    const Finished finished = train_together(*this, together, config, "refused", more);
    CHECK(finished.status == status);
    CHECK(lines_of(said(finished)).size() == 1);
    check_says(said(finished), parts);
    CHECK(!has("refused"));
  };
  refused({4}, "toy", {"train.micro_batches=2"}, 2,
          {"train.micro_batches", "2 micro-batches for 4 ranks", "at least 4"});
  refused({3}, "toy", {"train.batch_size=8"}, 2, {"1 micro-batch for 3 ranks", "at least 4"});
  refused({3}, "toy", {"train.batch_size=2"}, 2, {"train.batch_size", "2 examples", "3 ranks"});
  refused({2}, "toy", {"train.micro_batchs=2"}, 2, {"unknown key", "train.micro_batches"});
  refused({2}, "toy", {"--no-such-option"}, 2, {"--no-such-option"});
  refused({2}, "text", {"train.micro_batches=2", "data.path=/nowhere"}, 2, {"/nowhere"});
  write("karate.toml", "base = \"karate\"\n");
  refused({2}, "karate", {"train.micro_batches=2"}, 2,
          {"computes the whole graph", "start one process"});
}

TEST_CASE_FIXTURE(RunFixture, "mpi: a rank with another config or other data is named") {
  const auto one = [&](Words words, const std::string& folder = "") {
    Words command = "-n 1";
    if (!folder.empty()) command.insert(command.end(), {"--wdir", folder});
    return command + Words{paths::program} +
           with_sets(Words("train {} --out {} --quiet train.micro_batches=2", path("text.toml"),
                           path("refused")) +
                     words);
  };
  const auto refused = [&](const Words& first, const Words& second, const Strings& parts) {
    const Finished finished = run_program("mpirun.openmpi --oversubscribe" + first + ":" + second);
    CHECK(finished.status == 2);
    check_says(said(finished), parts);
    CHECK(lines_of(said(finished)).size() == 1);
    CHECK(!has("refused"));
  };
  refused(one({}), one("optim.learning_rate=0.5"),
          {"rank 1 (", "differs from rank 0", "in the config: ", "learning_rate = 0.5, not"});
  for (const std::string name : {"here", "there"}) {
    write(name + "/story.txt", story(name == "here" ? 20 : 21));
  }
  const std::string data = "data.path=/proc/self/cwd/story.txt";
  refused(one({data}, path("here")), one({data}, path("there")),
          {"rank 1 (", "differs from rank 0", "in the data: ", "checksum"});
}

TEST_CASE_FIXTURE(RunFixture, "mpi: a loss that is not finite ends all ranks, reported once") {
  const Finished finished =
      train_together(*this, {2}, "toy", "diverged",
                     "train.micro_batches=2 optim.name=sgd optim.learning_rate=1000 "
                     "model.dropout=0 optim.clip_norm=0");
  CHECK(finished.status == 1);
  CHECK(lines_of(said(finished)).size() == 1);
  check_says(said(finished), {"step ", "the loss is", "the output of ", " is not finite: ",
                              " of 2: training examples ", "has no checkpoint yet"});
}

TEST_CASE_FIXTURE(RunFixture,
                  "mpi: any number of ranks skips the same steps, which one rank verifies") {
  const Words more =
      "train.micro_batches=4 train.steps=80 train.max_bad_steps=60 train.bad_step_factor=1.1 "
      "train.eval_every=40 train.average_decay=0.9";
  must_train("toy", "one", more);
  CHECK(load_checkpoint(checkpoint("one")).state.skipped.count > 3);
  for (const int ranks : {2, 3}) {
    Words own = more + fmt::format("train.shard_optimizer={}", ranks == 3);
    const std::string run = fmt::format("on-{}", ranks);
    must_train_together(*this, {ranks}, "toy", run, own);
    CHECK(untimed(metrics("one")) == untimed(metrics(run)));
    check_same_checkpoint(checkpoint("one"), checkpoint(run));
    check_prints(tapestry_run("verify {} --all", path(run)),
                 {"bitwise identical: steps 1 to 80 of 80", fmt::format("{} ranks", ranks),
                  "computed by: ", "1 rank\n"});
  }
}

TEST_CASE("mpi: without the plug-in, the error says what to install" *
          not_sanitized("the sanitizer's library does not allow for a copied one")) {
  const TemporaryFolder folder(fs::temp_directory_path().string());
  const fs::path library = paths::build;
  fs::create_directories(folder.path("bin"));
  fs::copy(paths::program, folder.path("bin"));
  for (const auto& entry : fs::recursive_directory_iterator(library)) {
    if (!entry.path().filename().string().ends_with(".so.0")) continue;
    const fs::path copy = fs::path(folder.path()) / fs::relative(entry.path(), library);
    fs::create_directories(copy.parent_path());
    fs::copy(entry.path(), copy);
  }
  check_fails(run_program({"env", "PMI_RANK=0", "PMI_SIZE=2", folder.path("bin/tapestry"), "train",
                           "sort", "--out", folder.path("run")}),
              {"2 processes", "/tapestry/mpich.so", "install libmpich-dev"});
  CHECK(!folder.has("run"));
}

TEST_SUITE_END();

}  // namespace
}  // namespace tapestry
