#include <algorithm>

#include "autograd/check.hpp"
#include "data/json.hpp"
#include "data/text/byte_pair.hpp"
#include "train/commands/command.hpp"
#include "train/commands/output.hpp"

namespace tapestry {
namespace {

class DecodeTokens final : public Command {
 public:
  void declare(Arguments& arguments) override {
    arguments.place("FILE", file_, "a file with a JSON list of tokens per line, plain or gzip");
    arguments.option("--tokenizer", tokenizer_,
                     "a tokenizer.json of byte-level BPE (default: tokenizer.json)");
    arguments.flag("--json", json_, "write each text as a JSON string");
    arguments.option("--out", out_, "file to write (default: standard output)");
  }

  int run() override {
    expect_not_of_a_run(out_);
    expect_not_an_input(out_, {file_, tokenizer_});
    const BytePairTokenizer tokenizer = BytePairTokenizer::load(tokenizer_);
    write_each_line(file_, out_, [&](std::string_view line, int number) {
      const std::string text = tokenizer.decode(tokens_of(line, number, tokenizer.size()));
      return json_ ? JsonValue(text).dump() : text;
    });
    return 0;
  }

 private:
  std::vector<std::int32_t> tokens_of(std::string_view line, int number, std::int64_t size) const {
    const auto is_token = [&](const JsonValue& each) {
      return each.is_number_unsigned() &&
             each.get<std::uint64_t>() < static_cast<std::uint64_t>(size);
    };
    const bool flat = json_depth(line) == 1;
    const auto list = flat ? JsonValue::parse_or_null(line) : JsonValue();
    expect_input(list.is_array() && std::ranges::all_of(list, is_token),
                 "{}: line {}: expected a JSON list of tokens from 0 to {}; correct the line",
                 file_, number, size - 1);
    return list.get<std::vector<std::int32_t>>();
  }

  std::string file_, tokenizer_ = "tokenizer.json", out_;
  bool json_ = false;
};

const RegisterCommand<DecodeTokens> tokenizer_decode_command(
    "tokenizer decode", "decode JSON lists of tokens, one per line, to texts");

}  // namespace
}  // namespace tapestry
