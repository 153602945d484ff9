#include "data/text/pairs.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <iterator>
#include <set>
#include <string_view>

#include "autograd/check.hpp"
#include "autograd/dry_run.hpp"
#include "data/input_file.hpp"
#include "data/option_error.hpp"
#include "data/text/printable.hpp"
#include "data/text/unicode.hpp"

namespace tapestry {
namespace {

namespace fs = std::filesystem;

// Returns whether the ending of a file's name is a language: a code of ISO 639-1, src or tgt, also
// with a region or a script; or one of three letters with a script, as FLORES has them.
bool is_language(std::string_view ending) {
  constexpr std::string_view codes =
      " aa ab ae af ak am an ar as av ay az ba be bg bh bi bm bn bo br bs ca ce ch co cr cs "
      "cu cv cy da de dv dz ee el en eo es et eu fa ff fi fj fo fr fy ga gd gl gn gu gv ha "
      "he hi ho hr ht hu hy hz ia id ie ig ii ik io is it iu ja jv ka kg ki kj kk kl km kn "
      "ko kr ks ku kv kw ky la lb lg li ln lo lt lu lv mg mh mi mk ml mn mr ms mt my na nb "
      "nd ne ng nl nn no nr nv ny oc oj om or os pa pi pl ps pt qu rm rn ro ru rw sa sc sd "
      "se sg si sk sl sm sn so sq sr ss st su sv sw ta te tg th ti tk tl tn to tr ts tt tw "
      "ty ug uk ur uz ve vi vo wa wo xh yi yo za zh zu src tgt ";
  const std::size_t length = std::min(ending.find_first_of("-_"), ending.size());
  const std::size_t more = ending.size() - length;  // a mark and a region or a script
  const std::string code = fmt::format(" {} ", lower_ascii(ending.substr(0, length)));
  const bool is_listed = length >= 2 && codes.find(code) != codes.npos;
  return (is_listed && (more == 0 || more == 3 || more == 5)) || (length == 3 && more == 5);
}

bool is_blank(std::string_view line) {
  for (std::size_t offset = 0; offset < line.size();) {
    const CodePoint point = code_point_at(line, offset);
    if (kind_of(point.value) != CharacterKind::space) return false;
    offset += point.bytes;
  }
  return true;
}

std::vector<std::string> read_sentences(const std::string& path, const std::string& partner) {
  std::vector<std::string> sentences;
  for_each_line(path, [&](const FileLine& line) {
    line.expect(!is_blank(line.text),
                "expected a sentence, found an empty line; remove that line here and in {}",
                partner);
    sentences.emplace_back(line.text);
  });
  expect_input(!sentences.empty(), "{}: line 1: the file is empty; give one sentence per line",
               path);
  return sentences;
}

// Returns the names of the files of the source without the language, such as "test_2016_flickr".
std::set<std::string> stems_of(const std::vector<std::string>& names, const ParallelFiles& files) {
  std::set<std::string> stems;
  for (std::string name : names) {
    if (name.ends_with(".gz")) name.resize(name.size() - 3);
    if (name.starts_with(files.split) && name.ends_with("." + files.source))
      stems.insert(name.substr(0, name.size() - files.source.size() - 1));
  }
  return stems;
}

// Returns the only one of stems_of(). Throws OptionError of "split" if there are none or several.
std::string stem_for(const std::string& folder, const std::vector<std::string>& names,
                     const ParallelFiles& files) {
  const std::string& language = files.source;
  const std::set<std::string> stems = stems_of(names, files);
  if (stems.contains(files.split)) return files.split;
  expect_option(
      !stems.empty(), "split",
      "{}: expected a file {}*.{} or {}*.{}.gz, found {}; check the folder, the languages "
      "and the split",
      folder, files.split, language, files.split, language, list_briefly(names));
  expect_option(
      stems.size() == 1, "split",
      "{}: expected one file {}*.{}, found several: {}; give a longer prefix of the names", folder,
      files.split, language, list_briefly({stems.begin(), stems.end()}));
  return *stems.begin();
}

// Returns the path of the plain file, or of the gzip file if there is no plain one. Throws
// InputError if there is neither.
std::string path_of(const std::string& folder, const std::vector<std::string>& names,
                    const std::string& stem, const std::string& language) {
  const std::string name = fmt::format("{}.{}", stem, language);
  const bool plain = std::ranges::binary_search(names, name);
  expect_input(plain || std::ranges::binary_search(names, name + ".gz"),
               "{}: expected {} or {}.gz, found {}; put the translations in the same folder, with "
               "names that differ only in the language",
               folder, name, name, list_briefly(names));
  return (fs::path(folder) / (plain ? name : name + ".gz")).string();
}

std::int64_t length_of(const std::vector<std::int32_t>& tokens) { return std::ssize(tokens); }

}  // namespace

std::set<std::string> parallel_languages(const std::string& folder, const std::string& split) {
  if (!is_folder(folder)) return {};
  std::vector<std::string> files;
  for (std::string name : file_names(folder)) {
    if (name.ends_with(".gz")) name.resize(name.size() - 3);
    const std::size_t point = std::min(name.rfind('.'), name.size());
    if (name.starts_with(split) && point < name.size() && is_language(name.substr(point + 1)))
      files.push_back(std::move(name));
  }
  std::set<std::string> stems, shared, languages;
  for (const std::string& file : files)
    if (const std::string stem = file.substr(0, file.rfind('.')); !stems.insert(stem).second)
      shared.insert(stem);
  for (const std::string& file : files)
    if (const std::size_t point = file.rfind('.'); shared.contains(file.substr(0, point)))
      languages.insert(file.substr(point + 1));
  return languages;
}

ParallelText load_parallel_text(const std::string& source_path, const std::string& target_path) {
  ParallelText text{.source_path = source_path,
                    .target_path = target_path,
                    .sources = read_sentences(source_path, target_path),
                    .targets = read_sentences(target_path, source_path)};
  const std::size_t sources = text.sources.size(), targets = text.targets.size();
  expect_input(sources == targets,
               "{}: line {} has no translation: {} has {} lines, {} has {}; expected files with "
               "the same number of lines",
               sources > targets ? source_path : target_path, std::min(sources, targets) + 1,
               source_path, sources, target_path, targets);
  return text;
}

ParallelText load_parallel_text(const std::string& folder, const ParallelFiles& files) {
  const std::vector<std::string> names = file_names(folder);
  const std::string stem = stem_for(folder, names, files);
  return load_parallel_text(path_of(folder, names, stem, files.source),
                            path_of(folder, names, stem, files.target));
}

ParallelText load_all_parallel_text(const std::string& path, const ParallelFiles& files) {
  std::error_code unseen;
  const bool is_file = fs::is_regular_file(path, unseen);
  const fs::path parent = fs::path(path).parent_path();
  const std::string folder = !is_file ? path : parent.empty() ? "." : parent.string();
  const std::vector<std::string> names = file_names(folder);
  const std::set<std::string> stems =
      stems_of(is_file ? std::vector{fs::path(path).filename().string()} : names,
               {.split = "", .source = files.source});
  expect_input(!stems.empty(),
               "{0}: expected {1} *.{2} or *.{2}.gz with the translations *.{3} beside it; give "
               "{1} of these languages",
               path, is_file ? "a file" : "files", files.source, files.target);
  ParallelText all;
  for (const std::string& stem : stems) {
    ParallelText text = load_parallel_text(path_of(folder, names, stem, files.source),
                                           path_of(folder, names, stem, files.target));
    if (all.sources.empty()) {
      all = std::move(text);
      continue;
    }
    std::ranges::move(text.sources, std::back_inserter(all.sources));
    std::ranges::move(text.targets, std::back_inserter(all.targets));
  }
  return all;
}

void LongestPair::include(const TokenPair& pair) {
  source = std::max(source, length_of(pair.source));
  target = std::max(target, length_of(pair.target));
}

Batch padded_batch(std::int64_t B, const LongestPair& longest) {
  const Shape sources{B, longest.source}, targets{B, longest.target + 1};
  return {.inputs = Array::full(targets, pad_token, DType::int32),
          .targets = Array::full(targets, ignored_target, DType::int32),
          .count = 0,
          .auxiliary = SourceTokens{.tokens = Array::full(sources, pad_token, DType::int32),
                                    .padding = Array::full(sources, 1, DType::int32)}};
}

Batch pair_batch(std::span<const TokenPair> pairs) {
  require(!pairs.empty(), "pair_batch: no pairs; expected at least one");
  LongestPair longest;
  for (const TokenPair& pair : pairs) longest.include(pair);
  Batch batch = padded_batch(std::ssize(pairs), longest);
  auto& read = std::get<SourceTokens>(batch.auxiliary);
  const std::int64_t S = longest.source, T = longest.target + 1;
  auto input = batch.inputs.mutable_values<std::int32_t>().begin();
  auto target = batch.targets.mutable_values<std::int32_t>().begin();
  auto source = read.tokens.mutable_values<std::int32_t>().begin();
  auto padding = read.padding.mutable_values<std::int32_t>().begin();
  for (const TokenPair& pair : pairs) {
    require(!pair.source.empty(),
            "pair_batch: the source of a pair is empty; expected at least one token");
    std::ranges::copy(pair.source, source);
    std::fill_n(padding, pair.source.size(), 0);
    *input = bos_token;
    std::ranges::copy(pair.target, input + 1);
    *std::ranges::copy(pair.target, target).out = eos_token;
    batch.count += static_cast<double>(pair.target.size() + 1);
    read.references.push_back({pair.reference, pair.source_cut});
    source += S;
    padding += S;
    input += T;
    target += T;
  }
  return batch;
}

PairDataset::PairDataset(std::vector<TokenPair> pairs, const PairOptions& options)
    : pairs_(std::move(pairs)), overlong_(options.overlong) {
  require(!pairs_.empty(), "PairDataset: no pairs; expected at least one");
  require(options.context >= 2, "PairDataset: context = {}; expected at least 2", options.context);
  for (std::size_t i = 0; i < pairs_.size(); ++i) {
    require(!pairs_[i].source.empty(),
            "PairDataset: the source of pair {} is empty; expected at least one token", i);
    const auto place = [&](const std::string& path) {
      return fmt::format("{}: line {}", path, i + 1);
    };
    pairs_[i].source_cut = fit(pairs_[i].source, options.context, place(options.source_path));
    fit(pairs_[i].target, options.context - 1, place(options.target_path));
  }
}

bool PairDataset::fit(std::vector<std::int32_t>& tokens, std::int64_t limit,
                      const std::string& place) {
  if (length_of(tokens) <= limit) return false;
  expect_option(overlong_ == Overlong::cut, "context",
                "{}: the sentence has {} tokens, expected at most {}; shorten it, or allow long "
                "sentences to be cut",
                place, tokens.size(), limit);
  tokens.resize(limit);
  ++num_cut_;
  return true;
}

void PairDataset::add_to(Checksum& sum) const {
  for (const TokenPair& pair : pairs_) {
    sum.add_list(pair.source);
    sum.add_list(pair.target);
  }
}

bool PairDataset::add_examples_to(Checksum& sum) const {
  add_to(sum);
  for (const TokenPair& pair : pairs_)
    sum.add_list(std::vector<char>(pair.reference.begin(), pair.reference.end()));
  return true;
}

Batch PairDataset::batch(std::span<const std::int64_t> examples) const {
  LongestPair longest;
  std::vector<TokenPair> chosen;
  for (const std::int64_t example : examples) {
    require_example("PairDataset", example);
    if (is_dry_run())
      longest.include(pairs_[example]);
    else
      chosen.push_back(pairs_[example]);
  }
  return is_dry_run() ? with_all_counted(padded_batch(std::ssize(examples), longest))
                      : pair_batch(chosen);
}

std::vector<std::int64_t> PairDataset::lengths() const {
  std::vector<std::int64_t> all;
  for (const TokenPair& pair : pairs_)
    all.push_back(length_of(pair.target) * (std::int64_t{1} << 32) + length_of(pair.source));
  return all;
}

}  // namespace tapestry
