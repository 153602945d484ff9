#include <fmt/ranges.h>

#include <nlohmann/json.hpp>

#include "autograd/check.hpp"
#include "data/file.hpp"
#include "data/text/byte_pair.hpp"
#include "train/commands/command.hpp"
#include "train/commands/output.hpp"

namespace tapestry {
namespace {

class EncodeText final : public Command {
 public:
  void declare(Arguments& arguments) override {
    arguments.place("FILE", file_, "a text a line, plain or gzip");
    arguments.option("--tokenizer", tokenizer_, "a tokenizer.json of byte-level BPE");
    arguments.flag("--json", json_, "each line of FILE is a JSON string");
    arguments.flag("--added", options_.added_tokens, "find special tokens by their names");
    arguments.flag("--template", options_.with_template,
                   "add the tokenizer's first and last tokens");
    arguments.option("--out", out_, "write here");
  }

  int run() override {
    expect_not_of_a_run(out_);
    const BytePairTokenizer tokenizer = BytePairTokenizer::load(tokenizer_);
    write_each_line(file_, out_, [&](std::string_view line, int number) {
      const std::string text = json_ ? string_of(line, number) : std::string(line);
      return fmt::format("[{}]", fmt::join(tokenizer.encode(text, options_), ","));
    });
    return 0;
  }

 private:
  std::string string_of(std::string_view line, int number) const {
    const bool may_be = trimmed(line).starts_with('"');
    const auto value = may_be ? nlohmann::json::parse(line, nullptr, false) : nlohmann::json();
    expect_input(value.is_string(), "{}: line {}: expected a JSON string", file_, number);
    return value.get<std::string>();
  }

  std::string file_, tokenizer_ = "tokenizer.json", out_;
  bool json_ = false;
  EncodeOptions options_;
};

const RegisterCommand<EncodeText> tokenizer_encode_command(
    "tokenizer encode", "the tokens of each line of a text, as a JSON list a line");

}  // namespace
}  // namespace tapestry
