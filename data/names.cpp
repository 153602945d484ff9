#include "data/names.hpp"

#include <algorithm>
#include <numeric>
#include <unordered_set>

#include "autograd/check.hpp"
#include "autograd/random.hpp"
#include "data/file.hpp"

namespace tapestry {
namespace {

constexpr std::int64_t max_text_bytes = std::int64_t{1} << 30;
constexpr std::int64_t max_characters = 256;
constexpr std::int64_t least_names = 10;
constexpr std::int32_t boundary = 0;  // before and after a word

std::string_view trimmed(std::string_view line) {
  constexpr std::string_view spaces = " \t\r\v\f";
  const std::size_t first = line.find_first_not_of(spaces);
  if (first == std::string_view::npos) return {};
  return line.substr(first, line.find_last_not_of(spaces) - first + 1);
}

std::int64_t count_characters(std::string_view text) {
  return std::ranges::count_if(text, [](char byte) { return (byte & 0xC0) != 0x80; });
}

std::vector<std::string> read_names(const std::string& path, bool distinct) {
  const std::string content = read_file(path, max_text_bytes);
  require_utf8(content, path);
  std::vector<std::string> names;
  std::unordered_set<std::string> seen;
  std::string_view rest = content;
  for (std::int64_t line = 1; !rest.empty(); ++line) {
    const std::size_t end = std::min(rest.find('\n'), rest.size());
    const std::string name(trimmed(rest.substr(0, end)));
    rest.remove_prefix(std::min(end + 1, rest.size()));
    const std::int64_t length = count_characters(name);
    expect_input(length <= max_characters,
                 "{}: line {}: a word of {} characters, expected at most {}; give one word a line",
                 path, line, length, max_characters);
    if (!name.empty() && (!distinct || seen.insert(name).second)) names.push_back(name);
  }
  expect_input(std::ssize(names) >= least_names,
               "{}: expected at least {}{} words, found {}; give a file of one word a line", path,
               least_names, distinct ? " distinct" : "", names.size());
  return names;
}

NameList list_of(std::vector<std::string> names) {
  std::string text;
  std::int64_t longest = 0;
  for (const std::string& name : names) {
    text += name;
    longest = std::max(longest, count_characters(name));
  }
  return {std::move(names), CharVocabulary::of_text(text), longest};
}

// The first `count` of a random order of [0, size), by Fisher and Yates, and the rest, each sorted.
struct Chosen {
  std::vector<std::int64_t> held_back, rest;
};
Chosen choose(std::int64_t size, std::int64_t count, std::uint64_t seed) {
  std::vector<std::int64_t> order(static_cast<std::size_t>(size));
  std::iota(order.begin(), order.end(), 0);
  Random random(seed, Stream::data);
  for (std::int64_t i = 0; i < count; ++i)
    std::swap(order[static_cast<std::size_t>(i)],
              order[static_cast<std::size_t>(i + random.below(size - i))]);
  const auto boundary_of_parts = order.begin() + count;
  Chosen chosen{{order.begin(), boundary_of_parts}, {boundary_of_parts, order.end()}};
  std::ranges::sort(chosen.held_back);
  std::ranges::sort(chosen.rest);
  return chosen;
}

}  // namespace

NameDataset::NameDataset(std::shared_ptr<const NameList> list, std::vector<std::int64_t> members)
    : list_(std::move(list)), members_(std::move(members)) {
  require(!members_.empty(), "NameDataset: no members");
  const std::int64_t names = std::ssize(list_->names);
  for (const std::int64_t member : members_)
    require(member >= 0 && member < names, "NameDataset: name {} of {}", member, names);
}

const std::string& NameDataset::name(std::int64_t example) const {
  require(example >= 0 && example < size(), "NameDataset: example {} of {}", example, size());
  return list_->names[static_cast<std::size_t>(members_[static_cast<std::size_t>(example)])];
}

std::vector<std::int32_t> NameDataset::encode(std::string_view word) const {
  std::vector<std::int32_t> tokens = characters().encode(word);
  for (std::int32_t& token : tokens) token += 1;
  return tokens;
}

std::string NameDataset::decode(std::span<const std::int32_t> tokens) const {
  std::vector<std::int32_t> symbols;
  for (const std::int32_t token : tokens) {
    if (token == boundary) break;
    symbols.push_back(token - 1);
  }
  return characters().decode(symbols);
}

Batch NameDataset::batch(std::span<const std::int64_t> examples) const {
  const auto B = static_cast<std::int64_t>(examples.size());
  std::vector<std::vector<std::int32_t>> words;
  std::size_t longest = 0;
  for (const std::int64_t example : examples) {
    words.push_back(encode(name(example)));
    longest = std::max(longest, words.back().size());
  }
  const std::int64_t T = static_cast<std::int64_t>(longest) + 1;
  Batch batch{Array::full({B, T}, boundary, DType::int32),
              Array::full({B, T}, ignored_target, DType::int32), 0};
  auto input = batch.inputs.mutable_values<std::int32_t>().begin();
  auto target = batch.targets.mutable_values<std::int32_t>().begin();
  for (const std::vector<std::int32_t>& word : words) {
    std::ranges::copy(word, input + 1);
    *std::ranges::copy(word, target).out = boundary;
    batch.count += static_cast<double>(word.size() + 1);
    input += T;
    target += T;
  }
  return batch;
}

NameSplits load_names(const std::string& path, const NameOptions& options) {
  expect_input(options.held_back >= 1, "data.held_back = {}: expected at least 1 name",
               options.held_back);
  auto list = std::make_shared<const NameList>(list_of(read_names(path, options.distinct)));
  const std::int64_t size = std::ssize(list->names);
  Chosen chosen = choose(size, std::min(options.held_back, size / 10), options.seed);
  return {NameDataset(list, std::move(chosen.rest)),
          NameDataset(list, std::move(chosen.held_back))};
}

}  // namespace tapestry
