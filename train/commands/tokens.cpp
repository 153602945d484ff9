#include <fmt/ranges.h>

#include "autograd/clock.hpp"
#include "autograd/counted.hpp"
#include "autograd/parallel.hpp"
#include "data/input_file.hpp"
#include "data/json.hpp"
#include "data/option_error.hpp"
#include "data/text/printable.hpp"
#include "data/text/text.hpp"
#include "data/text/text_encoder.hpp"
#include "data/text/token_shards.hpp"
#include "train/commands/command.hpp"
#include "train/config/config.hpp"
#include "train/run/new_folder.hpp"
#include "train/run/terminal.hpp"

namespace tapestry {
namespace {

Documents documents_of(const std::string& name) {
  const std::vector<std::pair<std::string, Documents>> known = {
      {"whole", Documents::whole},
      {"lines", Documents::lines},
      {"separator", Documents::separated}};
  std::vector<std::string> names;
  for (const auto& [kind, documents] : known) {
    if (kind == name) return documents;
    names.push_back(kind);
  }
  throw InputError(fmt::format("--documents {}: expected one of {}{}", name, fmt::join(names, ", "),
                               did_you_mean(name, names)));
}

class MakeTokens final : public Command {
 public:
  void declare(Arguments& arguments) override {
    arguments.places("FILE", files_, "texts, plain or gzip; folders of *.txt; glob patterns");
    arguments.option("--tokenizer", tokenizer_,
                     "tokenizer.json that encodes the texts (required without --verify)");
    arguments.option("--out", out_, "folder to create for the shards (required without --verify)");
    arguments.option(
        "--documents", documents_,
        "documents: whole (files; default), lines (that are not empty) or separator (texts "
        "between names of the end-of-text token)");
    arguments.option("--end-of-text", end_of_text_,
                     "token that ends a document (default: the tokenizer's end-of-text token)");
    arguments.flag("--no-begin-of-text", no_begin_,
                   "do not begin documents with the tokens that the tokenizer's template puts "
                   "before a text");
    arguments.flag("--verify", verify_, "compare folders of shards with their checksums");
    arguments.threads(threads_);
    arguments.flag("--json", json_, "print one JSON object; with --verify, one per folder");
  }

  int run() override {
    if (threads_ > 0) set_num_threads(static_cast<int>(threads_));
    if (verify_) return verify();
    expect_input(
        !tokenizer_.empty(),
        "--tokenizer is required: a tokenizer.json; `tapestry tokenizer train` creates one");
    expect_input(!out_.empty(), "--out is required: the folder to create");
    make();
    return 0;
  }

 private:
  int verify() const {
    std::vector<JsonValue> objects;
    for (const std::string& folder : files_) {
      const TokenShards shards(folder);
      shards.verify();
      if (json_)
        objects.push_back(json_of(folder, shards));
      else
        say("{}: {}, not damaged\n", printable(folder), described(shards));
    }
    for (const JsonValue& object : objects) print_json(object);
    return 0;
  }

  // `Shards` is TokenShards or ShardMaker.
  template <class Shards>
  static std::string described(const Shards& shards) {
    const TokenCounts& counts = shards.counts();
    return fmt::format("{} of {} in {}, {}", counted(counts.tokens, "token"),
                       counted(counts.bytes, "byte"), counted(counts.documents, "document"),
                       counted(shards.shards(), "shard"));
  }

  template <class Shards>
  static JsonValue json_of(const std::string& folder, const Shards& shards) {
    const TokenCounts& counts = shards.counts();
    return {{"folder", folder},
            {"tokens", counts.tokens},
            {"bytes", counts.bytes},
            {"documents", counts.documents},
            {"shards", shards.shards()}};
  }

  std::int32_t end_of_text(const BytePairTokenizer& tokenizer) const {
    std::optional<std::int32_t> found;
    try {
      found = end_of_text_of(tokenizer, end_of_text_);
    } catch (const OptionError& error) {
      throw InputError(fmt::format("--end-of-text {}: {}", end_of_text_, error.what()));
    }
    expect_input(found.has_value(),
                 "{}: the added tokens contain no end-of-text token; give one with --end-of-text",
                 tokenizer_);
    return *found;
  }

  void make() const {
    const Documents documents = documents_of(documents_);
    std::vector<std::string> files;
    for (const std::string& path : files_)
      for (const std::string& file : text_files(path)) files.push_back(file);
    for (const std::string& file : files) require_file(file);
    const std::string json = read_file(tokenizer_, TokenShards::most_tokenizer_bytes);
    const BytePairTokenizer tokenizer = BytePairTokenizer::from_json(json, tokenizer_);
    const std::int32_t end = end_of_text(tokenizer);

    const double begin_s = now_s();
    NewFolder folder(out_);
    folder.write(TokenShards::tokenizer_name, {json});
    const auto before = tokenizer.before_text();
    std::vector<std::int32_t> begin;
    if (!no_begin_) begin.assign(before.begin(), before.end());
    ShardMaker shards(tokenizer, json, {.end_of_text = end, .begins_documents = !begin.empty()},
                      [&](const std::string& name, const std::vector<std::string_view>& parts) {
                        folder.write(name, parts);
                      });
    TextEncoder encoder(
        tokenizer,
        {.documents = documents,
         .begin_of_text = begin,
         .end_of_text = end,
         .separator = documents == Documents::separated ? tokenizer.model().tokens[end] : ""},
        [&](std::span<const std::int32_t> tokens) { shards.add(tokens); });
    for (const std::string& file : files) {
      read_plain_text(file, [&](std::string_view part) { encoder.add(part); });
      encoder.end_text();
    }
    encoder.finish();
    shards.finish();
    folder.finish();
    const double elapsed_s = now_s() - begin_s;
    if (json_)
      print_json(json_of(out_, shards));
    else
      say("{}: {} of uint{}, {:.1f} s\n", printable(out_), described(shards), 8 * shards.width(),
          elapsed_s);
  }

  std::vector<std::string> files_;
  std::string tokenizer_, out_, documents_ = "whole", end_of_text_;
  bool no_begin_ = false, verify_ = false, json_ = false;
  std::int64_t threads_ = 0;
};

const RegisterCommand<MakeTokens> tokens_command("tokens",
                                                 "encode texts as shards of tokens to train on");

}  // namespace
}  // namespace tapestry
