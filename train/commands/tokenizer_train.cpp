#include "data/text/byte_pair.hpp"
#include "train/commands/command.hpp"
#include "train/commands/output.hpp"
#include "train/run/terminal.hpp"

namespace tapestry {
namespace {

class TrainTokenizer final : public Command {
 public:
  void declare(Arguments& arguments) override {
    arguments.places("FILE", files_, "text files, plain or gzip");
    arguments.option("--vocabulary", vocabulary_, "tokens, at most", {.low = 260, .high = 1000000});
    arguments.flag("--lower-case", lower_case_, "encode text in lower case");
    arguments.option("--out", out_, "the file to write");
  }

  int run() override {
    expect_not_of_a_run(out_);
    const BytePairTokenizer tokenizer = BytePairTokenizer::train_on_files(
        files_, {.vocabulary = vocabulary_, .lower_case = lower_case_});
    write_bytes(out_, tokenizer.to_json());
    say("{}: {} tokens\n", out_, tokenizer.size());
    return 0;
  }

 private:
  std::vector<std::string> files_;
  std::int64_t vocabulary_ = 8000;
  bool lower_case_ = false;
  std::string out_ = "tokenizer.json";
};

const RegisterCommand<TrainTokenizer> registered(
    "tokenizer train", "train a byte-pair vocabulary on texts, into a Hugging Face tokenizer.json");

}  // namespace
}  // namespace tapestry
