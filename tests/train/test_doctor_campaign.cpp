#include <doctest/doctest.h>
#include <fmt/ranges.h>

#include <chrono>
#include <cmath>
#include <cstdlib>
#include <map>
#include <nlohmann/json.hpp>

#include "autograd/random.hpp"
#include "data/series/series.hpp"
#include "tests/support/process.hpp"

// The doctor on sound configs drawn at random, none of which may be called faulty. It is skipped
// unless it is asked for, and TAPESTRY_DOCTOR_CONFIGS sets the number of configs:
// tapestry-tests -ns -tc='campaign: *'
namespace tapestry {
namespace {

struct KeyValues {
  std::string key;
  std::vector<std::string> values;
};

// A shipped config, what makes it small, and the values from which one of each key is drawn.
struct SoundConfig {
  std::string name;
  std::vector<std::string> fixed{};
  std::vector<KeyValues> drawn{};
};

std::vector<KeyValues> joined(std::vector<KeyValues> first, const std::vector<KeyValues>& second) {
  first.insert(first.end(), second.begin(), second.end());
  return first;
}

const std::vector<KeyValues> of_training = {
    {"seed", {"1", "2", "3", "4", "5", "6", "7", "8", "9"}},
    {"optim.name", {"adam", "adamw"}},
    {"optim.schedule", {"constant", "linear", "cosine"}},
    {"optim.warmup_steps", {"0", "20", "100"}},
    {"optim.clip_norm", {"0.0", "0.5", "1.0"}},
    {"optim.learning_rate", {"2e-4", "5e-4", "1e-3", "2e-3", "4e-3"}},
    {"optim.beta2", {"0.95", "0.99", "0.999"}},
    {"train.batch_size", {"4", "16", "32", "64"}},
    {"train.micro_batches", {"1", "2"}},
    {"train.average_decay", {"0.0", "0.99"}},
};

const std::vector<KeyValues> of_blocks = {
    {"model.layers", {"1", "2", "3"}},
    {"model.width", {"16", "32"}},
    {"model.heads", {"1", "2", "4"}},
    {"model.dropout", {"0.0", "0.1", "0.3"}},
    {"model.activation", {"relu", "gelu", "gelu_tanh", "silu"}},
    {"model.positions", {"learned", "sinusoidal", "rotary"}},
    {"model.norm", {"pre", "post"}},
    {"model.norm_kind", {"layer", "rms"}},
    {"model.gated", {"false", "true"}},
    {"model.bias", {"false", "true"}},
};

const std::vector<KeyValues> of_language =
    joined(of_blocks, {{"model.attention", {"softmax", "rfa"}},
                       {"model.window", {"0", "6"}},
                       {"model.query_key_norm", {"false", "true"}},
                       {"model.tied_embeddings", {"false", "true"}}});

const std::vector<KeyValues> of_sequences =
    joined(of_language, {{"data.length", {"4", "6", "9"}}, {"data.alphabet", {"6", "10", "20"}}});

// Sentences of some words each, whose letters depend on one another.
std::string some_sentences(std::int64_t lines, std::int64_t words) {
  Random random(17, Stream::data);
  std::string text;
  for (std::int64_t line = 0; line < lines; ++line)
    for (std::int64_t word = 0; word < words; ++word) {
      for (std::int64_t at = 0, letter = random.below(20); at < 3 + line % 4; ++at) {
        text += static_cast<char>('a' + letter);
        letter = (3 * letter + random.below(3)) % 20;
      }
      text += word + 1 == words ? "\n" : " ";
    }
  return text;
}

std::string some_hours(std::int64_t rows) {
  Random random(3, Stream::data);
  std::string text = "date,load,oil\n";
  for (std::int64_t row = 0; row < rows; ++row) {
    const auto t = static_cast<double>(row);
    text += fmt::format("{},{},{}\n", time_text(row * 3600),
                        40 + 9 * std::sin(0.3 * t) + random.normal(),
                        -2 + std::cos(0.21 * t) + 0.1 * random.normal());
  }
  return text;
}

std::vector<SoundConfig> sound_configs(const TemporaryFolder& folder) {
  const std::string text = folder.write("text.txt", some_sentences(1500, 4)),
                    names = folder.write("names.txt", some_sentences(1500, 1)),
                    hours = folder.write("hours.csv", some_hours(1500));
  const std::vector<KeyValues> of_memory = {{"model.width", {"16", "32"}},
                                            {"data.length", {"12", "24"}},
                                            {"data.pairs", {"2", "4", "8"}}};
  const std::vector<KeyValues> of_graphs = {{"model.layer", {"convolution", "attention"}},
                                            {"model.normalization", {"sum", "mean", "symmetric"}},
                                            {"model.layers", {"1", "2", "3"}},
                                            {"model.width", {"16", "32"}},
                                            {"model.dropout", {"0.0", "0.2"}}};
  const std::vector<KeyValues> of_series =
      joined(of_blocks, {{"model.context", {"24", "48"}},
                         {"model.horizon", {"8", "16"}},
                         {"model.patch", {"8"}},
                         {"model.stride", {"4", "8"}},
                         {"model.kind", {"patches", "linear"}},
                         {"model.window_norm", {"instance", "last"}}});
  const std::vector<KeyValues> of_autoencoders = {{"model.hidden", {"[32]", "[64, 32]"}},
                                                  {"model.channels", {"[]", "[4]", "[4, 8]"}},
                                                  {"model.latent", {"2", "4"}},
                                                  {"model.sigma", {"per-dimension", "shared"}},
                                                  {"model.likelihood", {"bernoulli", "gaussian"}},
                                                  {"model.beta", {"0.5", "1.0"}},
                                                  {"model.activation", {"relu", "gelu", "silu"}}};
  const std::vector<std::string> few_images = {"data.training_images=400", "data.test_images=100"};
  // The drawn graphs have constant features: only sums over neighbors tell them apart.
  std::vector<SoundConfig> all = {
      {"copy", {}, of_sequences},
      {"reverse", {}, of_sequences},
      {"sort", {}, of_sequences},
      {"addition", {}, joined(of_language, {{"data.length", {"2", "3"}}})},
      {"graphs",
       {"model.layer=convolution", "model.normalization=sum"},
       joined(of_graphs, {{"model.pooling", {"sum", "mean", "max"}}})},
      {"karate", {"train.batch_size=2"}, of_graphs},
      {"waves", {}, of_series},
      {"etth1", {"data.path=" + hours, "data.split=fractions"}, of_series},
      {"names", {"data.path=" + names}, of_language},
      {"shakespeare-char",
       {"data.path=" + text},
       joined(of_language, {{"model.context", {"16", "32"}}})},
      {"shakespeare-rnn",
       {"data.path=" + text, "model.width=32"},
       {{"model.context", {"16", "32"}}}},
      {"clothes-vae", few_images, of_autoencoders},
      {"clothes-autoencoder", few_images, {{"model.hidden", {"[32]", "[64]"}}}},
      {"clothes-vit", few_images, joined(of_blocks, {{"model.patch", {"7", "14"}}})}};
  for (const char* memory :
       {"sum", "forgetting", "recurrent", "gate", "sigmoid", "softmax", "query-key", "multi-head"})
    all.push_back({fmt::format("memory-{}", memory), {}, of_memory});
  return all;
}

// The command with one value of each key for about three of five keys.
std::vector<std::string> drawn_command(const SoundConfig& config, Random& random) {
  std::vector<std::string> command = {"doctor", config.name, "--json", "--skip", "plan"};
  const auto set = [&](const std::string& assignment) {
    command.insert(command.end(), {"--set", assignment});
  };
  for (const auto& [key, values] : joined(config.drawn, of_training))
    if (random.uniform() < 0.6)
      set(fmt::format("{}={}", key, values[random.below(std::ssize(values))]));
  for (const std::string& assignment : config.fixed) set(assignment);
  return command;
}

std::int64_t configs_wanted() {
  const char* text = std::getenv("TAPESTRY_DOCTOR_CONFIGS");
  return text ? std::atoll(text) : 200;
}

TEST_SUITE_BEGIN("doctor");

TEST_CASE("campaign: the doctor finds no fault in sound configs drawn at random" *
          doctest::skip()) {
  const TemporaryFolder folder;
  const std::vector<SoundConfig> configs = sound_configs(folder);
  const auto start = std::chrono::steady_clock::now();
  std::int64_t examined = 0, refused = 0;
  std::map<std::string, int> warnings;
  const char* first = std::getenv("TAPESTRY_DOCTOR_FIRST");
  for (std::int64_t i = first ? std::atoll(first) : 0; examined < configs_wanted(); ++i) {
    Random random(2026, Stream::data, static_cast<std::uint64_t>(i));
    const std::vector<std::string> command =
        drawn_command(configs[i % std::ssize(configs)], random);
    const Finished said = tapestry_run(command);
    if (said.status == 2) {  // values that exclude each other
      REQUIRE_MESSAGE(++refused < 20 + 2 * examined, said.err);
      continue;
    }
    ++examined;
    const auto report = nlohmann::json::parse(said.out);
    CHECK_MESSAGE(said.status == 0, fmt::format("{}", fmt::join(command, " ")), "\n",
                  report["gates"].back().dump());
    for (const auto& gate : report["gates"])
      if (gate["verdict"] == "warning") ++warnings[gate["gate"]];
  }
  const double seconds =
      std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  std::string warned;
  for (const auto& [gate, count] : warnings) warned += fmt::format("\n  {:4} {}", count, gate);
  MESSAGE(fmt::format("{} configs in {:.0f} s, {} more that are no config; warnings:{}", examined,
                      seconds, refused, warned));
}

TEST_SUITE_END();

}  // namespace
}  // namespace tapestry
