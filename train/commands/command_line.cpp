#include "train/commands/command_line.hpp"

#include <fmt/ranges.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <functional>

#include "autograd/kernels/matmul.hpp"
#include "autograd/parallel.hpp"
#include "train/commands/commands.hpp"
#include "train/run/version.hpp"

namespace tapestry {
namespace {

constexpr int failed_status = 1, wrong_input_status = 2;

void add_overrides(CLI::App* command, std::vector<std::string>& overrides) {
  command->add_option("--set", overrides, "set a key of the config: key=value")
      ->type_name("KEY=VALUE")
      ->allow_extra_args(false);
}

// "--thread" -> "--threads", among the options of the command it was given to.
std::string advice(const CLI::App& app, const std::vector<std::string>& extras) {
  if (!extras.front().starts_with('-'))
    return fmt::format("unexpected {}; --help lists what is expected", extras.front());
  const CLI::App* command = &app;
  if (!app.get_subcommands().empty()) command = app.get_subcommands().front();
  std::vector<std::string> names;
  for (const CLI::Option* option : command->get_options()) names.push_back(option->get_name());
  if (command == &app)
    for (const CLI::App* known : app.get_subcommands({})) names.push_back(known->get_name());
  return fmt::format("unexpected {}; did you mean {}?", extras.front(),
                     nearest(extras.front(), names));
}

// CLI11 would take a misspelt command for a missing one.
void expect_command(const CLI::App& app, int argc, char** argv) {
  std::vector<std::string> names;
  for (const CLI::App* command : app.get_subcommands({})) names.push_back(command->get_name());
  const std::string first = argc > 1 ? argv[1] : "";
  expect_input(!first.empty(), "which command? one of {}", fmt::join(names, ", "));
  expect_input(!first.starts_with('-') || app.get_option_no_throw(first) != nullptr,
               "no option {}; did you mean {}?", first, nearest(first, {"--help", "--version"}));
  expect_input(first.starts_with('-') || std::ranges::find(names, first) != names.end(),
               "no command {}; did you mean {}? ({})", first, nearest(first, names),
               fmt::join(names, ", "));
}

std::string one_line(std::string text) {
  while (text.ends_with('\n')) text.pop_back();
  return text;
}

}  // namespace

}  // namespace tapestry

int tapestry_main(int argc, char** argv) {
  using namespace tapestry;
  CLI::App app("Trains transformers, graph networks and autoencoders from one TOML file.",
               "tapestry");
  app.set_version_flag("--version", fmt::format("tapestry {}, {}", version(), machine()));
  app.require_subcommand(1);
  std::function<int()> run;

  TrainCommand train;
  CLI::App* command = app.add_subcommand("train", "train from a config");
  command->add_option("CONFIG", train.config, "a TOML file, or the name of a shipped config")
      ->required();
  add_overrides(command, train.overrides);
  command->add_option("--out", train.out, "the run's folder; by default runs/<name>");
  command->add_flag("--resume", train.resume, "go on from the run's checkpoint");
  command->add_option("--threads", train.threads, "by default one a physical core")
      ->check(CLI::Range(1, 1024));
  command->add_option("--seeds", train.seeds, "train so many seeds, and print mean and deviation")
      ->check(CLI::Range(1, 1000));
  command->add_flag("--quiet", train.quiet, "print the result only");
  command->add_flag("--profile", train.profile, "print where the time of a step goes");
  command->callback([&] { run = [&] { return train_command(train); }; });

  EvalCommand eval;
  command = app.add_subcommand("eval", "measure a trained run on its whole validation split");
  command->add_option("RUN", eval.run, "a run's folder, or a checkpoint")->required();
  add_overrides(command, eval.overrides);
  command->add_flag("--test", eval.test, "on the test split, of tasks that have one");
  command->add_flag("--json", eval.json, "print one JSON object");
  command->callback([&] { run = [&] { return eval_command(eval); }; });

  CompareCommand compare;
  command = app.add_subcommand("compare", "show the last evaluations of runs side by side");
  command->add_option("RUN", compare.runs, "folders of runs")->required();
  command->add_flag("--json", compare.json, "print one JSON object a run");
  command->callback([&] { run = [&] { return compare_command(compare); }; });

  SampleCommand sample;
  command = app.add_subcommand("sample", "show what a run has learnt");
  command->add_option("RUN", sample.run, "a run's folder, or a checkpoint")->required();
  command->add_option("--prompt", sample.options.prompt,
                      "text to continue, a graph's edges or a node, or the time to forecast from");
  command->add_option("--count", sample.options.count, "samples")->check(CLI::Range(1, 100000));
  command->add_option("--tokens", sample.options.tokens, "tokens to generate")
      ->check(CLI::Range(1, 10000000));
  command->add_option("--temperature", sample.options.temperature, "0: always the likeliest")
      ->check(CLI::Range(0.0, 100.0));
  command->add_option("--top-k", sample.options.top_k, "choose among the k likeliest tokens")
      ->check(CLI::Range(1, 10000000));
  command->add_option("--top-p", sample.options.top_p, "among the likeliest that share p")
      ->check(CLI::Range(0.0, 1.0));
  command->add_option("--seed", sample.options.seed, "another seed, another sample");
  command->add_option("--kind", sample.options.kind,
                      "of an autoencoder: prior, reconstructions, around or interpolation");
  command->add_option("--index", sample.options.index, "the validation image to start from")
      ->check(CLI::Range(0, 1000000000));
  command->add_option("--spread", sample.options.spread, "of the new images around it")
      ->check(CLI::Range(0.0, 100.0));
  add_overrides(command, sample.overrides);
  command->add_option("--out", sample.out, "write here");
  command->callback([&] { run = [&] { return sample_command(sample); }; });

  AttentionCommand attention;
  command = app.add_subcommand("attention", "draw what a trained transformer attends to");
  command->add_option("RUN", attention.run, "a run's folder, or a checkpoint")->required();
  command->add_option("--prompt", attention.prompt, "text to read");
  command->add_option("--index", attention.index, "the validation image, or the series, to look at")
      ->check(CLI::Range(0, 1000000000));
  command->add_option("--layer", attention.layer,
                      "of one layer only: 1, or decoder.1.cross_attention");
  command->add_option("--head", attention.head, "of one head only")->check(CLI::Range(0, 1024));
  add_overrides(command, attention.overrides);
  command->add_option("--out", attention.out,
                      "a .png, and beside it an .svg; by default RUN/attention.png");
  command->callback([&] { run = [&] { return attention_command(attention); }; });

  LatentCommand latent;
  command = app.add_subcommand("latent", "write and draw where an autoencoder puts its images");
  command->add_option("RUN", latent.run, "a run's folder, or a checkpoint")->required();
  add_overrides(command, latent.overrides);
  command->add_option("--out", latent.out,
                      "NAME of NAME.csv, NAME.png and NAME.svg; by default RUN/latent");
  command->callback([&] { run = [&] { return latent_command(latent); }; });

  GradcheckCommand gradcheck;
  command = app.add_subcommand("gradcheck", "check the gradient of a configured model in float64");
  command->add_option("CONFIG", gradcheck.config, "a TOML file, or the name of a shipped config")
      ->required();
  add_overrides(command, gradcheck.overrides);
  command->add_flag("--json", gradcheck.json, "print one JSON object");
  command->callback([&] { run = [&] { return gradcheck_command(gradcheck); }; });

  TokenizerCommand tokenizer;
  command = app.add_subcommand("tokenizer", "train a byte-pair vocabulary");
  command->require_subcommand(1);
  command = command->add_subcommand("train", "on texts, into a Hugging Face tokenizer.json");
  command->add_option("FILE", tokenizer.files, "text files, plain or gzip")->required();
  command->add_option("--vocabulary", tokenizer.vocabulary, "tokens, at most")
      ->check(CLI::Range(260, 1000000));
  command->add_flag("--lower-case", tokenizer.lower_case, "encode text in lower case");
  command->add_option("--out", tokenizer.out, "the file to write");
  command->callback([&] { run = [&] { return tokenizer_command(tokenizer); }; });

  command = app.add_subcommand("list", "list the shipped configs, and what each teaches");
  command->callback([&] { run = [] { return list_command(); }; });

  std::string config;
  std::vector<std::string> config_overrides;
  command = app.add_subcommand("config", "print the resolved config, with each value's origin");
  command->add_option("CONFIG", config, "a TOML file, or the name of a shipped config")->required();
  add_overrides(command, config_overrides);
  command->callback([&] { run = [&] { return config_command(config, config_overrides); }; });

  BenchCommand bench;
  command = app.add_subcommand("bench", "measure the speed of this machine's training steps");
  command->add_option("NAME", bench.names, "benchmarks; all of them by default");
  command->add_option("--threads", bench.threads, "by default one a physical core")
      ->check(CLI::Range(1, 1024));
  command->add_flag("--json", bench.json, "print one JSON object a benchmark");
  command->callback([&] { run = [&] { return bench_command(bench); }; });

  try {
    expect_command(app, argc, argv);
    app.parse(argc, argv);
    const int status = run();
    if (std::fflush(stdout) != 0) throw std::runtime_error("cannot write to the standard output");
    return status;
  } catch (const CLI::CallForHelp&) {
    fmt::print("{}", (app.get_subcommands().empty() ? app : *app.get_subcommands().front()).help());
    return 0;
  } catch (const CLI::CallForVersion& version) {
    fmt::print("{}\n", version.what());
    return 0;
  } catch (const CLI::ExtrasError&) {
    fmt::print(stderr, "tapestry: {}\n", advice(app, app.remaining(true)));
    return wrong_input_status;
  } catch (const CLI::ParseError& error) {
    fmt::print(stderr, "tapestry: {}; --help lists what is expected\n", one_line(error.what()));
    return wrong_input_status;
  } catch (const InputError& error) {
    fmt::print(stderr, "tapestry: {}\n", error.what());
    return wrong_input_status;
  } catch (const std::exception& error) {
    fmt::print(stderr, "tapestry: {}\n", error.what());
    return failed_status;
  }
}
