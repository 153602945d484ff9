#include <cstring>
#include <filesystem>

#include "autograd/checksum.hpp"
#include "data/text/token_shards.hpp"
#include "tests/fuzz/target.hpp"

namespace tapestry {
namespace {

template <class Bytes>
void put_checksum(std::string& shard, std::size_t place, const Bytes& bytes) {
  Checksum sum;
  sum.add(std::as_bytes(std::span(bytes)));
  const std::uint64_t value = sum.value();
  std::memcpy(shard.data() + place, &value, sizeof value);
}

// The first byte says whether checksums are corrected, so that random bytes pass them.
const RegisterFuzzTarget registered("shards", [](std::string_view bytes) {
  if (bytes.empty()) return;
  const std::string json = "{}";
  std::string shard(bytes.substr(1));
  if (bytes.front() == '1' && shard.size() >= ShardHeader::size) {
    put_checksum(shard, 32, json);
    put_checksum(shard, 64, std::string_view(shard).substr(ShardHeader::size));
    put_checksum(shard, 120, std::string_view(shard).substr(0, 120));
  }
  std::filesystem::create_directories(scratch_folder() + "/shards");
  written_file("shards/tokenizer.json", json);
  written_file("shards/shard-00000.tokens", shard);
  const TokenShards shards(scratch_folder() + "/shards");
  std::vector<std::int32_t> tokens(shards.size());
  shards.read(0, tokens);
  for (const std::int32_t token : tokens)
    if (token < 0 || token >= shards.vocabulary())
      throw std::logic_error("shards: a token that is not in the vocabulary");
});

}  // namespace
}  // namespace tapestry
