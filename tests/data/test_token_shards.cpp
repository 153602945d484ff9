#include <doctest/doctest.h>

#include <numeric>
#include <thread>

#include "data/text/text.hpp"
#include "data/text/token_shards.hpp"
#include "tests/support/process.hpp"
#include "tests/support/small.hpp"
#include "tests/support/tokens.hpp"

namespace tapestry {
namespace {

// Tokens of one byte each, as many as wanted; 0 is special.
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

// 1, 2, …, with a 0 after each tenth.
Tokens numbers(std::int32_t count) {
  Tokens tokens(count);
  std::iota(tokens.begin(), tokens.end(), 1);
  for (std::int32_t i = 9; i < count; i += 10) tokens[i] = 0;
  return tokens;
}

// Shards of seven tokens.
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

TEST_CASE("shards: give back what was written, of two bytes or of four a token") {
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

TEST_CASE_FIXTURE(TemporaryFolder, "shards: the header is laid out as the comment says") {
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

TEST_CASE_FIXTURE(TemporaryFolder, "shards: windows are those over the same tokens in memory") {
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

TEST_CASE("shards: other tokens, another tokenizer or another share are other data") {
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

// The folder with a file changed; what reading it says.
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

TEST_CASE("shards: what is missing, cut, damaged or of another kind is named") {
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
  check_says(message_of([&] { TokenShards{empty.path()}; }), {"has no shards of tokens"});
}

TEST_CASE_FIXTURE(TemporaryFolder, "shards: files cut, replaced or removed while read are named") {
  write_numbers(*this, numbers(30), 100);
  const std::string path = this->path("shard-00001.tokens");
  const TokenShards shards(this->path());
  CHECK(read_tokens(shards, 8, 3).size() == 3);
  fs::resize_file(path, 130);
  check_says(message_of([&] { read_tokens(shards, 8, 3); }),
             {path + ": byte 130: the file ends too early"});
  write_numbers(*this, numbers(60), 99);
  check_says(message_of([&] { read_tokens(shards, 8, 3); }),
             {path + ": the file has changed since it was opened"});
  fs::remove(path);
  check_says(message_of([&] { read_tokens(shards, 8, 3); }),
             {path + ": cannot be opened: No such file"});
}

TEST_CASE_FIXTURE(TemporaryFolder, "shards: a folder of texts and shards is refused") {
  CHECK(!holds_shards(path()));
  CHECK(!holds_shards(path("none")));
  write_shards(*this, small_tokenizer(story()), story(), 100);
  CHECK(holds_shards(path()));
  write("story.txt", story());
  check_says(message_of([&] { holds_shards(path()); }),
             {"contains shards of tokens and texts: ", ".tokens, story.txt"});
}

TEST_SUITE_END();

}  // namespace
}  // namespace tapestry
