#include <fmt/ranges.h>

#include <algorithm>
#include <ranges>

#include "data/json.hpp"
#include "data/option_error.hpp"
#include "data/text/byte_pair.hpp"
#include "data/text/printable.hpp"
#include "train/commands/command.hpp"
#include "train/commands/output.hpp"
#include "train/run/terminal.hpp"

namespace tapestry {
namespace {

const std::vector<std::pair<std::string, PiecePattern>> patterns = {
    {"gpt2", PiecePattern::gpt2},
    {"smollm2", PiecePattern::smollm2},
    {"llama3", PiecePattern::llama3},
    {"qwen2", PiecePattern::qwen2}};

PiecePattern pattern_of(const std::string& name) {
  const auto found = std::ranges::find(patterns, name, [](const auto& each) { return each.first; });
  expect_input(found != patterns.end(), "--pieces {}: expected one of {}", name,
               fmt::join(patterns | std::views::keys, ", "));
  return found->second;
}

class TrainTokenizer final : public Command {
 public:
  void declare(Arguments& arguments) override {
    arguments.places("FILE", files_, "text files, plain or gzip");
    arguments.option("--vocabulary", vocabulary_, "maximum number of tokens (default: 8000)",
                     {.low = 257, .high = 1000000});
    arguments.flag("--lower-case", lower_case_, "convert texts to lower case");
    arguments.option("--pieces", pieces_,
                     "pre-tokenizer: gpt2 (default), smollm2, llama3 or qwen2");
    arguments.option("--special", special_, "NAME",
                     "special token (default: <pad>, <bos>, <eos> and <unk>, for translation)");
    arguments.option("--out", out_, "file to write (default: tokenizer.json)");
    arguments.flag("--json", json_, "print one JSON object");
  }

  int run() override {
    expect_not_of_a_run(out_);
    expect_not_an_input(out_, files_);
    BytePairOptions options{
        .vocabulary = vocabulary_, .lower_case = lower_case_, .pattern = pattern_of(pieces_)};
    if (!special_.empty()) options.special_tokens = special_;
    const BytePairTokenizer tokenizer = train(options);
    write_bytes(out_, tokenizer.to_json());
    if (json_)
      print_json({{"out", out_}, {"tokens", tokenizer.size()}});
    else
      say("{}: {} tokens\n", printable(out_), tokenizer.size());
    return 0;
  }

 private:
  BytePairTokenizer train(const BytePairOptions& options) const try {
    return BytePairTokenizer::train_on_files(files_, options);
  } catch (const OptionError& error) {
    throw InputError(fmt::format("--{}: {}", error.option, error.what()));
  }

  std::vector<std::string> files_, special_;
  std::int64_t vocabulary_ = 8000;
  bool lower_case_ = false, json_ = false;
  std::string pieces_ = "gpt2", out_ = "tokenizer.json";
};

const RegisterCommand<TrainTokenizer> tokenizer_train_command(
    "tokenizer train",
    "train a byte-pair tokenizer on texts and write a Hugging Face tokenizer.json");

}  // namespace
}  // namespace tapestry
