#pragma once

#include <string>
#include <vector>

#include "train/task.hpp"

// The commands of design.md §5. Each returns the exit status; wrong input is InputError.
namespace tapestry {

struct TrainCommand {
  std::string config;
  std::vector<std::string> overrides;
  std::string out;
  bool resume = false;
  std::int64_t threads = 0;
  std::int64_t seeds = 0;  // train with so many seeds, each into RUN/seed-N; 0: the config's alone
  bool quiet = false;
  bool profile = false;
};
int train_command(const TrainCommand& command);

struct EvalCommand {
  std::string run;
  std::vector<std::string> overrides;
  bool test = false;  // on the test split, of tasks that have one; else on validation
  bool json = false;
};
int eval_command(const EvalCommand& command);

struct SampleCommand {
  std::string run;
  std::vector<std::string> overrides;
  SampleOptions options;
  std::string out;
};
int sample_command(const SampleCommand& command);

struct AttentionCommand {
  std::string run;
  std::vector<std::string> overrides;
  std::string prompt;
  std::int64_t index = 0;  // of the validation image
  std::string layer;       // its number or path; empty: all
  std::int64_t head = -1;  // -1: all
  std::string out;         // a PNG, and beside it an SVG; empty: attention.png in the run's folder
};
int attention_command(const AttentionCommand& command);

struct LatentCommand {
  std::string run;
  std::vector<std::string> overrides;
  std::string out;  // NAME of NAME.csv, NAME.png and NAME.svg; empty: latent in the run's folder
};
int latent_command(const LatentCommand& command);

struct GradcheckCommand {
  std::string config;
  std::vector<std::string> overrides;
  bool json = false;
};
int gradcheck_command(const GradcheckCommand& command);

struct TokenizerCommand {
  std::vector<std::string> files;  // text, plain or gzip
  std::int64_t vocabulary = 8000;
  bool lower_case = false;
  std::string out = "tokenizer.json";
};
int tokenizer_command(const TokenizerCommand& command);

struct CompareCommand {
  std::vector<std::string> runs;
  bool json = false;
};
int compare_command(const CompareCommand& command);  // the last evaluations, side by side

int list_command();  // every shipped config: what it teaches, and what it should reach

int config_command(const std::string& config, const std::vector<std::string>& overrides);

struct BenchCommand {
  std::vector<std::string> names;  // empty: all
  std::int64_t threads = 0;
  bool json = false;
};
int bench_command(const BenchCommand& command);

}  // namespace tapestry
