#include <doctest/doctest.h>

#include <numeric>
#include <thread>

#include "autograd/parallel.hpp"
#include "autograd/random.hpp"
#include "data/text/text.hpp"
#include "data/text/text_encoder.hpp"
#include "data/text/token_shards.hpp"
#include "tests/support/process.hpp"
#include "tests/support/small.hpp"
#include "tests/support/tokens.hpp"

namespace tapestry {
namespace {

// Returns a tokenizer of `count` tokens of one byte; 0 is special.
class NumberedTokens final : public Tokenizer {
 public:
  explicit NumberedTokens(std::int64_t size) : size_(size) {}
  std::int64_t size() const override { return size_; }
  Tokens encode(std::string_view) const override { return {}; }
  std::string decode(std::span<const std::int32_t>) const override { return ""; }
  std::string_view bytes_of(std::int32_t token) const override { return token == 0 ? "" : "x"; }

 private:
  std::int64_t size_;
};

// Returns 1, 2, …, with a 0 after each tenth.
Tokens numbers(std::int32_t count) {
  Tokens tokens(count);
  std::iota(tokens.begin(), tokens.end(), 1);
  for (std::int32_t i = 9; i < count; i += 10) tokens[i] = 0;
  return tokens;
}

// Writes shards of seven tokens.
void write_numbers(const TemporaryFolder& folder, const Tokens& tokens, std::int64_t vocabulary) {
  folder.write("tokenizer.json", "{\"numbers\": true}");
  ShardMaker maker(NumberedTokens(vocabulary), "{\"numbers\": true}",
                   {.end_of_text = 0, .tokens = 7},
                   [&](const std::string& name, const std::vector<std::string_view>& parts) {
                     std::string bytes;
                     for (const std::string_view part : parts) bytes += part;
                     folder.write(name, bytes);
                   });
  for (std::size_t begin = 0; begin < tokens.size(); begin += 4)
    maker.add(std::span(tokens).subspan(begin, std::min<std::size_t>(4, tokens.size() - begin)));
  maker.finish();
}

Tokens read_tokens(const TokenShards& shards, std::int64_t begin, std::int64_t count) {
  Tokens tokens(count);
  shards.read(begin, tokens);
  return tokens;
}

std::string checksum_of(const TokenStream& tokens) {
  Checksum sum;
  tokens.add_to(sum, 0, tokens.size());
  return sum.hex();
}

TEST_SUITE_BEGIN("data");

TEST_CASE("shards: have the written tokens, of two or four bytes each") {
  for (const std::int64_t vocabulary : {100, 65536, 65537, 1000000}) {
    CAPTURE(vocabulary);
    const TemporaryFolder folder;
    Tokens tokens = numbers(60);
    tokens[20] = static_cast<std::int32_t>(vocabulary - 1);
    write_numbers(folder, tokens, vocabulary);
    const TokenShards shards(folder.path());
    CHECK(shards.size() == 60);
    CHECK(shards.shards() == 9);
    CHECK(shards.vocabulary() == vocabulary);
    CHECK(shards.counts().documents == 6);
    CHECK(shards.counts().bytes == 54);
    CHECK(fs::file_size(folder.path("shard-00000.tokens")) ==
          128 + 7 * (vocabulary <= 65536 ? 2 : 4));
    for (std::int64_t begin = 0; begin <= 60; ++begin)
      for (std::int64_t count = 0; begin + count <= 60; ++count)
        REQUIRE(read_tokens(shards, begin, count) ==
                Tokens(tokens.begin() + begin, tokens.begin() + begin + count));
    CHECK_THROWS_AS(read_tokens(shards, 50, 11), std::invalid_argument);
    CHECK_THROWS_AS(read_tokens(shards, -1, 2), std::invalid_argument);
    shards.verify();
  }
}

TEST_CASE_FIXTURE(TemporaryFolder, "shards: the header has the layout of the comment") {
  write_numbers(*this, numbers(20), 100);
  const std::string last = read_bytes(path("shard-00002.tokens"));
  const auto number = [&](std::size_t place, std::size_t bytes) {
    std::uint64_t value = 0;
    for (std::size_t i = bytes; i-- > 0;)
      value = value << 8 | static_cast<unsigned char>(last[place + i]);
    return value;
  };
  CHECK(last.starts_with("\x89tokens\n"));
  CHECK(number(8, 4) == 1);
  CHECK(number(12, 4) == 2);
  CHECK(number(16, 4) == 2);
  CHECK(number(20, 4) == 1);
  CHECK(number(24, 8) == 100);
  CHECK(number(40, 8) == 6);
  CHECK(number(48, 8) == 5);
  CHECK(number(56, 8) == 1);
  CHECK(number(72, 4) == 0);
  CHECK(number(128, 2) == 15);
  CHECK(last.size() == 128 + 2 * 6);
}

TEST_CASE_FIXTURE(TemporaryFolder, "shards: windows equal those of the same tokens in memory") {
  const Tokens tokens = numbers(60);
  write_numbers(*this, tokens, 100);
  const TextRange range{.begin = 3, .end = 55, .context = 9};
  const TextDataset stored(std::make_shared<const TokenShards>(path()), range),
      kept(std::make_shared<const TokensInMemory>(tokens), range);
  CHECK(stored.size() == kept.size());
  std::vector<std::int64_t> all(stored.size());
  std::iota(all.begin(), all.end(), 0);
  const Batch a = stored.batch(all), b = kept.batch(all);
  CHECK(std::ranges::equal(a.inputs.values<std::int32_t>(), b.inputs.values<std::int32_t>()));
  CHECK(std::ranges::equal(a.targets.values<std::int32_t>(), b.targets.values<std::int32_t>()));
  std::vector<std::thread> readers;
  const TokenShards shards(path());
  for (int i = 0; i < 4; ++i)
    readers.emplace_back([&] {
      for (int j = 0; j < 50; ++j)
        if (read_tokens(shards, j, 10) != Tokens(tokens.begin() + j, tokens.begin() + j + 10))
          std::abort();
    });
  for (std::thread& reader : readers) reader.join();
}

TEST_CASE("shards: tokens, tokenizer and shares determine the checksum") {
  const TemporaryFolder one, same, other, wider;
  Tokens tokens = numbers(30);
  write_numbers(one, tokens, 100);
  write_numbers(same, tokens, 100);
  ++tokens[3];
  write_numbers(other, tokens, 100);
  CHECK(checksum_of(TokenShards(one.path())) == checksum_of(TokenShards(same.path())));
  CHECK(checksum_of(TokenShards(one.path())) != checksum_of(TokenShards(other.path())));
  Checksum a, b;
  TokenShards(one.path()).add_to(a, 0, 20);
  TokenShards(one.path()).add_to(b, 0, 21);
  CHECK(a.hex() != b.hex());
}

// Changes a file of the folder, and returns the error of reading it.
std::string says(const std::function<void(const TemporaryFolder&)>& change) {
  const TemporaryFolder folder;
  write_numbers(folder, numbers(30), 100);
  change(folder);
  return message_of([&] {
    const TokenShards shards(folder.path());
    shards.verify();
  });
}

void change_byte(const TemporaryFolder& folder, const std::string& name, std::size_t at) {
  std::string bytes = read_bytes(folder.path(name));
  bytes[at] = static_cast<char>(bytes[at] + 1);
  folder.write(name, bytes);
}

TEST_CASE("shards: missing, truncated, damaged and other files are named") {
  const auto remove = [](const std::string& name) {
    return says([=](const TemporaryFolder& folder) { fs::remove(folder.path(name)); });
  };
  const auto resize = [](const std::string& name, std::size_t bytes) {
    return says([=](const TemporaryFolder& folder) { fs::resize_file(folder.path(name), bytes); });
  };
  const auto damage = [](std::size_t at) {
    return says(
        [=](const TemporaryFolder& folder) { change_byte(folder, "shard-00001.tokens", at); });
  };
  CHECK(says([](const TemporaryFolder&) {}).empty());
  check_says(remove("tokenizer.json"), {"tokenizer.json: cannot be opened: No such file"});
  check_says(remove("shard-00000.tokens"),
             {"shard-00001.tokens: is shard 1, but shard-00000.tokens"});
  check_says(remove("shard-00002.tokens"),
             {"shard-00003.tokens: is shard 3, but shard-00002.tokens"});
  check_says(remove("shard-00004.tokens"),
             {": shard-00004.tokens is missing, and possibly later shards"});
  check_says(resize("shard-00001.tokens", 0),
             {"shard-00001.tokens: the file has 0 bytes, expected a header of"});
  check_says(resize("shard-00001.tokens", 127), {"127 bytes, expected a header of 128"});
  check_says(resize("shard-00001.tokens", 128), {"128 bytes, expected 7 tokens of 2 bytes after"});
  check_says(resize("shard-00001.tokens", 141), {"141 bytes, expected 7 tokens of 2 bytes after"});
  check_says(resize("shard-00001.tokens", 1000),
             {"1000 bytes, expected 7 tokens of 2 bytes after"});
  check_says(damage(0), {"shard-00001.tokens: byte 0: is not a shard of tokens"});
  check_says(damage(8), {"shard-00001.tokens: byte 8: the shard has version 2, expected 1"});
  for (const std::size_t at : {12, 16, 20, 24, 32, 40, 48, 56, 64, 72, 119, 120})
    check_says(damage(at), {"shard-00001.tokens: bytes 0 to 127: the header is damaged"});
  for (const std::size_t at : {128, 141})
    check_says(damage(at), {"shard-00001.tokens: the tokens are damaged"});
  check_says(says([](const TemporaryFolder& folder) { folder.write("tokenizer.json", "{}"); }),
             {"shard-00000.tokens: was created by another tokenizer than the tokenizer.json in its "
              "folder"});
  check_says(says([](const TemporaryFolder& folder) {
               const TemporaryFolder more;
               write_numbers(more, numbers(50), 100);
               fs::copy(more.path("shard-00005.tokens"), folder.path("shard-00005.tokens"));
             }),
             {"shard-00005.tokens: follows ", "shard-00004.tokens, which is the last"});
  check_says(says([](const TemporaryFolder& folder) {
               const TemporaryFolder more;
               write_numbers(more, numbers(30), 101);
               fs::copy(more.path("shard-00001.tokens"), folder.path("shard-00001.tokens"),
                        fs::copy_options::overwrite_existing);
             }),
             {"shard-00001.tokens: the vocabulary has 101 tokens, ", "shard-00000.tokens has 100"});
  const TemporaryFolder empty;
  empty.write("tokenizer.json", "{}");
  CHECK_ERROR(TokenShards{empty.path()}, "has no shards of tokens");
}

TEST_CASE_FIXTURE(TemporaryFolder,
                  "shards: files truncated, replaced or removed while they are read are named") {
  write_numbers(*this, numbers(30), 100);
  const std::string path = this->path("shard-00001.tokens");
  const TokenShards shards(this->path());
  CHECK(read_tokens(shards, 8, 3).size() == 3);
  fs::resize_file(path, 130);
  CHECK_ERROR(read_tokens(shards, 8, 3), path + ": byte 130: the file ends too early");
  write_numbers(*this, numbers(60), 99);
  CHECK_ERROR(read_tokens(shards, 8, 3), path + ": the file has changed since it was opened");
  fs::remove(path);
  CHECK_ERROR(read_tokens(shards, 8, 3), path + ": cannot be opened: No such file");
}

TEST_CASE_FIXTURE(TemporaryFolder, "shards: a folder of texts and shards is refused") {
  CHECK(!holds_shards(path()));
  CHECK(!holds_shards(path("none")));
  write_shards(*this, small_tokenizer(story()), story(), 100);
  CHECK(holds_shards(path()));
  write("story.txt", story());
  CHECK_ERROR(holds_shards(path()), "contains shards of tokens and texts: ", ".tokens, story.txt");
}

// A text of several scripts with places to cut that are not too far apart.
std::string drawn_text(Random& random, std::int64_t words) {
  const Strings parts = {"green",  "bottle's", "HANGING",   "on", "1842",     "don't",
                         "naïve",  "日本語",   "。",        "，", "🙂🙂", "-- ...",
                         "\r\n\n", "\t ",      "e\u0301té", "x",  "“quoted”"};
  std::string text;
  for (std::int64_t i = 0; i < words; ++i) {
    text += parts[random.below(std::ssize(parts))];
    if (random.below(2) == 0) text += i % 3 == 0 ? "wall\n" : "wall ";
  }
  return text;
}

struct Fed {
  std::size_t part_bytes;
  std::size_t at_a_time;
};

Tokens encoded(const BytePairTokenizer& tokenizer, const std::string& text,
               const TextEncoderOptions& options, std::size_t at_a_time) {
  Tokens tokens;
  TextEncoder encoder(tokenizer, options, [&](std::span<const std::int32_t> more) {
    tokens.insert(tokens.end(), more.begin(), more.end());
  });
  for (std::size_t begin = 0; begin < text.size();) {
    std::size_t end = std::min(text.size(), begin + at_a_time);
    while (end < text.size() && (text[end] & 0xC0) == 0x80) ++end;
    encoder.add(std::string_view(text).substr(begin, end - begin));
    begin = end;
  }
  encoder.end_text();
  encoder.finish();
  return tokens;
}

TEST_CASE("TextEncoder: each document begins with the given tokens once, however it is cut") {
  const BytePairTokenizer tokenizer = small_tokenizer(story(50), 300);
  const Tokens begin = {1, 0};
  const std::string one = story(3), other = story(9);
  const auto with = [&](const Tokens& before, const std::string& text) {
    Tokens tokens = before;
    for (const std::int32_t token : tokenizer.encode(text)) tokens.push_back(token);
    tokens.push_back(0);
    return tokens;
  };
  for (const std::size_t part_bytes : {std::size_t{8}, std::size_t{40}, std::size_t{1} << 18}) {
    CAPTURE(part_bytes);
    const TextEncoderOptions options{
        .begin_of_text = begin, .end_of_text = 0, .part_bytes = part_bytes};
    CHECK(encoded(tokenizer, one, options, 5) == with(begin, one));
    TextEncoderOptions rest = options;
    rest.continues = true;
    CHECK(encoded(tokenizer, one, rest, 5) == with({}, one));

    Tokens tokens, expected = with(begin, one);
    TextEncoder encoder(tokenizer, options, [&](std::span<const std::int32_t> more) {
      tokens.insert(tokens.end(), more.begin(), more.end());
    });
    encoder.add(one);
    encoder.end_text();
    encoder.end_text();  // not a document
    encoder.add(other);
    encoder.pause_text();
    encoder.end_text();
    encoder.finish();
    for (const std::int32_t token : with(begin, other)) expected.push_back(token);
    CHECK(tokens == expected);
  }
}

TEST_CASE("TextEncoder: a text in any parts has the tokens of the whole text") {
  Random random(7, Stream::data);
  const BytePairTokenizer tokenizer = small_tokenizer(story(50) + drawn_text(random, 2000), 500);
  const std::int32_t end = *end_of_text_of(tokenizer);
  for (int i = 0; i < 20; ++i) {
    const std::string text = drawn_text(random, 300);
    Tokens whole = tokenizer.encode(text);
    whole.push_back(end);
    for (const Fed fed : {Fed{64, 1}, Fed{100, 7}, Fed{300, 100000}, Fed{1 << 18, 50}})
      CHECK(encoded(tokenizer, text, {.end_of_text = end, .part_bytes = fed.part_bytes},
                    fed.at_a_time) == whole);
  }
}

TEST_CASE("TextEncoder: a text without a place to cut is cut between characters") {
  const BytePairTokenizer tokenizer = small_tokenizer(story());
  std::string text;
  for (int i = 0; i < 500; ++i) text += "éa";
  const Tokens parts = encoded(tokenizer, text, {.part_bytes = 8}, 50);
  CHECK(tokenizer.decode(parts) == text);
  CHECK(parts == encoded(tokenizer, text, {.part_bytes = 8}, 3));
}

TEST_CASE("TextEncoder: documents are texts, lines, or separated by the token's name") {
  const BytePairTokenizer tokenizer = small_tokenizer(story());
  const std::int32_t end = *end_of_text_of(tokenizer);
  const auto documents = [&](const std::string& text, const TextEncoderOptions& options) {
    const Tokens tokens = encoded(tokenizer, text, options, 1);
    for (const std::size_t at_a_time : {4, 1000})
      CHECK(encoded(tokenizer, text, options, at_a_time) == tokens);
    Strings found = {""};
    for (const std::int32_t token : tokens)
      if (token == end)
        found.emplace_back();
      else
        found.back() += tokenizer.bytes_of(token);
    return found;
  };
  TextEncoderOptions options{.end_of_text = end, .part_bytes = 8};
  CHECK(documents("one\ntwo\n", options) == Strings{"one\ntwo\n", ""});
  options.documents = Documents::lines;
  CHECK(documents("one\r\n\ntwo more of them\nthree", options) ==
        Strings{"one", "two more of them", "three", ""});
  options.documents = Documents::separated;
  options.separator = "<|endoftext|>";
  CHECK(documents("once upon a time<|endoftext|>\nand then <|endoftext|><|endoftext|>", options) ==
        Strings{"once upon a time", "\nand then ", ""});
  CHECK(documents("no end <|endoftext and so on", options) ==
        Strings{"no end <|endoftext and so on", ""});
}

TEST_CASE("TextEncoder: gives the same tokens for any number of threads") {
  const BytePairTokenizer tokenizer = small_tokenizer(story());
  const std::string text = story(2000);
  const int before = num_threads();
  std::vector<Tokens> found;
  for (const int threads : {1, 2, 5}) {
    set_num_threads(threads);
    found.push_back(encoded(tokenizer, text, {.part_bytes = 1000}, 4096));
  }
  set_num_threads(before);
  CHECK(found[0] == tokenizer.encode(text));
  CHECK(found[1] == found[0]);
  CHECK(found[2] == found[0]);
}

TEST_CASE("end_of_text_of: returns the named token, or the first of the usual ones") {
  const BytePairTokenizer with = small_tokenizer(story());
  CHECK(end_of_text_of(with) == with.find("<|endoftext|>"));
  const BytePairTokenizer usual =
      BytePairTokenizer::train(std::vector{story()}, {.vocabulary = 300});
  CHECK(end_of_text_of(usual) == usual.find("<eos>"));
  CHECK(end_of_text_of(usual, "<bos>") == usual.find("<bos>"));
  CHECK_ERROR(end_of_text_of(usual, "wall"), "the tokenizer has no special token wall");
}

TEST_SUITE_END();

}  // namespace
}  // namespace tapestry
