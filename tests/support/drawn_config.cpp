#include "tests/support/drawn_config.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <set>

#include "data/series/series.hpp"
#include "tests/support/papers.hpp"
#include "tests/support/process.hpp"
#include "train/config/keys.hpp"
#include "train/task_spec.hpp"

namespace tapestry {

const BoundsOf usual_bounds = {{"seed", {1, 1 << 20}},
                               {"data.rules", {1, 2}},
                               {"data.length", {4, 8}},
                               {"data.alphabet", {5, 20}},
                               {"data.examples", {800, 3200}},
                               {"data.targets", {1, 2}},
                               {"data.noise_level", {0.1, 0.6}},
                               {"data.minimum_count", {1, 3}},
                               {"model.negatives", {1, 8}},
                               {"model.subsample", {1e-3, 1e-2, true}},
                               {"train.importance_samples", {1, 3, true}},
                               {"data.held_back", {50, 200}},
                               {"data.pairs", {2, 8}},
                               {"data.keys", {8, 16}},
                               {"data.values", {8, 16}},
                               {"data.dimensions", {2, 8}},
                               {"data.least_nodes", {12, 24}},
                               {"data.most_nodes", {24, 48}},
                               {"data.training_images", {400, 800}},
                               {"data.shift", {1, 2, true}},
                               {"data.test_images", {100, 200}},
                               {"data.validation_fraction", {0.1, 0.2}},
                               {"data.train_fraction", {0.5, 0.7}},
                               {"data.vocabulary", {300, 600}},
                               {"data.series", {1, 4}},
                               {"data.rows", {1000, 2000}},
                               {"data.noise", {0.05, 0.5}},
                               {"model.layers", {1, 4}},
                               {"model.decoder_layers", {1, 2, true}},
                               {"model.width", {16, 32}},
                               {"model.heads", {1, 4}},
                               {"model.members", {1, 4}},
                               {"model.bins", {2, 16}},
                               {"model.number_width", {1, 8}},
                               {"model.category_width", {1, 8}},
                               {"model.head_width", {4, 16, true}},
                               {"model.key_value_heads", {1, 2, true}},
                               {"model.feed_forward", {16, 64, true}},
                               {"model.features", {16, 64}},
                               {"model.window", {4, 8, true}},
                               {"model.context", {24, 48}},
                               {"model.horizon", {4, 16}},
                               {"model.cycle", {4, 24, true}},
                               {"model.patch", {4, 8}},
                               {"model.stride", {2, 8}},
                               {"model.dropout", {0, 0.3}},
                               {"model.l2", {0, 1e-3}},
                               {"model.output_heads", {1, 3}},
                               {"model.attention_dropout", {0, 0.3}},
                               {"model.alpha", {0, 0.5}},
                               {"model.lambda", {0.1, 1.5}},
                               {"model.rotary_base", {100, 1e5}},
                               {"model.rotary_factor", {2, 8}},
                               {"model.rotary_low_frequency", {0.5, 1}},
                               {"model.rotary_high_frequency", {2, 8}},
                               {"model.rotary_original_context", {8, 64}},
                               {"model.norm_epsilon", {1e-8, 1e-4}},
                               {"model.label_smoothing", {0, 0.2}},
                               {"model.channels", {4, 8}},
                               {"model.hidden", {32, 64}},
                               {"model.kernel", {3, 3}},
                               {"model.blocks", {1, 2, true}},
                               {"model.norm_groups", {1, 2, true}},
                               {"model.latent", {2, 8}},
                               {"model.reconstruction_weight", {100, 1000, true}},
                               {"model.beta", {0.25, 2}},
                               {"model.kl_warmup_steps", {16, 64, true}},
                               {"model.gamma", {0.8, 0.99}},
                               {"model.initial_deviation", {0.01, 0.1}},
                               {"model.lora.rank", {1, 4}},
                               {"model.lora.alpha", {8, 32}},
                               {"model.lora.dropout", {0, 0.2}},
                               {"optim.learning_rate", {2e-4, 4e-3}},
                               {"optim.final_learning_rate", {1e-6, 1e-4, true}},
                               {"optim.warmup_steps", {8, 128, true}},
                               {"optim.decay_steps", {200, 800, true}},
                               {"optim.cooldown_steps", {16, 128, true}},
                               {"optim.muon_momentum", {0.8, 0.97}},
                               {"optim.newton_schulz_steps", {4, 8}},
                               {"optim.groups", {1, 1}},
                               {"optim.clip_norm", {0.5, 2, true}},
                               {"optim.beta1", {0.8, 0.95}},
                               {"optim.beta2", {0.95, 0.999}},
                               {"optim.epsilon", {1e-10, 1e-7}},
                               {"optim.momentum", {0, 0.9}},
                               {"optim.weight_decay", {0, 0.1}},
                               {"train.batch_size", {4, 64}},
                               {"train.micro_batches", {1, 4}},
                               {"train.average_decay", {0.9, 0.999, true}},
                               {"train.max_bad_steps", {1, 8, true}},
                               {"train.bad_step_factor", {5, 50, true}}};

// Keys that are not drawn.
const std::map<std::string, std::string> not_drawn = {
    {"task", "each config names its own"},
    {"plugin", "names a plug-in"},
    {"name", "names a folder"},
    {"data.path", "names a file"},
    {"model.embeddings", "names a file"},
    {"data.text_field", "is of files of labeled texts"},
    {"data.label_field", "is of files of labeled texts"},
    {"data.image_size", "is of folders of pictures"},
    {"data.skip_broken", "is of folders of pictures"},
    {"data.image_cache", "is of folders of pictures"},
    {"data.color", "is of folders of pictures"},
    {"data.delimiter", "is of a CSV file"},
    {"data.missing_words", "is of a CSV file"},
    {"data.edge_columns", "is of edges.csv"},
    {"data.decimal", "is of a CSV file"},
    {"data.header", "is of a CSV file"},
    {"data.thousands", "is of a CSV file"},
    {"data.time_column", "is of a CSV file"},
    {"data.time_format", "is of a CSV file"},
    {"data.columns", "is of a CSV file"},
    {"data.series_column", "is of a CSV file"},
    {"data.missing", "is of a CSV file"},
    {"data.source", "says where a file is"},
    {"data.kind", "each config names its own"},
    {"data.labeled", "a whole graph is one example"},
    {"data.id_column", "is of a graph in CSV files"},
    {"data.label_column", "is of a graph in CSV files"},
    {"data.split_column", "is of a graph in CSV files"},
    {"data.categorical_columns", "is of a graph in CSV files"},
    {"data.ignore_columns", "is of a graph in CSV files"},
    {"data.test_fraction", "is of a graph in CSV files"},
    {"data.training_nodes", "the file has 400 nodes"},
    {"data.validation_nodes", "the file has 400 nodes"},
    {"data.test_nodes", "the file has 400 nodes"},
    {"data.tokenizer", "names a file"},
    {"data.end_of_text", "names a token"},
    {"data.template", "names a template"},
    {"data.class_names", "names classes"},
    {"data.source_language", "names files"},
    {"data.target_language", "names files"},
    {"data.train", "names files"},
    {"data.validation", "names files"},
    {"data.test", "names files"},
    {"data.split", "the file has no 20 months"},
    {"data.train_months", "the file has no 20 months"},
    {"data.validation_months", "the file has no 20 months"},
    {"data.test_months", "the file has no 20 months"},
    {"model.padding", "has to fit model.channels"},
    {"model.beams", "counts in decoding only"},
    {"model.vocabulary", "has to fit the tokenizer"},
    {"optim.match_rms_adamw", "false needs other learning rates"},
    {"train.from", "names a run"},
    {"train.trainable", "names parameters"},
    {"train.steps", "the doctor takes steps of its own"},
    {"train.eval_every", "the doctor evaluates nothing"},
    {"train.eval_batch_size", "the doctor evaluates nothing"},
    {"train.checkpoint_every", "the doctor takes steps of its own"},
    {"train.log_every", "the doctor takes steps of its own"},
    {"train.early_stopping", "the doctor evaluates nothing"},
    {"train.min_delta", "the doctor evaluates nothing"},
    {"train.time_limit", "the doctor takes steps of its own"},
    {"train.tensorboard", "the doctor records nothing"},
    {"train.samples", "the doctor records nothing"},
    {"train.threads", "the checks set it"},
    {"expected.metric", "compares results"},
    {"expected.value", "compares results"},
    {"expected.data", "compares results"},
    {"expected.source", "compares results"},
    {"search.vary", "a training ignores [search]"},
    {"search.method", "a training ignores [search]"},
    {"search.trials", "a training ignores [search]"},
    {"search.seeds", "a training ignores [search]"},
    {"search.steps", "a training ignores [search]"},
    {"search.minutes", "a training ignores [search]"},
    {"search.total_steps", "a training ignores [search]"},
    {"search.total_minutes", "a training ignores [search]"}};

namespace {

// --- data ---

// Sentences of some words, whose letters depend on one another.
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
    text += fmt::format("{},{},{}\n", time_text({.us = row * hour_us}),
                        40 + 9 * std::sin(0.3 * t) + random.normal(),
                        -2 + std::cos(0.21 * t) + 0.1 * random.normal());
  }
  return text;
}

// Sentences of four to six words, and the same words in another alphabet.
void write_translations(const TemporaryFolder& folder, const std::string& split,
                        std::int64_t lines) {
  Random random(23, Stream::data, static_cast<std::uint64_t>(lines));
  std::string source, target;
  for (std::int64_t line = 0; line < lines; ++line)
    for (std::int64_t left = 4 + random.below(3); left > 0; --left) {
      const std::int64_t word = random.below(40);
      const char* end = left > 1 ? " " : "\n";
      source += fmt::format("{:c}{:c}{}", 'a' + word % 8, 'a' + word / 8, end);
      target += fmt::format("{:c}{:c}{:c}{}", 'p' + word / 8, 'p' + word % 8, 'o', end);
    }
  folder.write(split + ".de", source);
  folder.write(split + ".en", target);
}

// Questions, whose answers repeat the letters.
std::string some_conversations(std::int64_t count) {
  Random random(29, Stream::data);
  std::string text;
  for (std::int64_t i = 0; i < count; ++i) {
    std::string word;
    for (int letter = 0; letter < 5; ++letter) word += static_cast<char>('a' + random.below(12));
    text += fmt::format(
        R"({{"messages": [{{"role": "user", "content": "{}"}}, {{"role": "assistant", "content": "{}{}"}}]}})"
        "\n",
        word, word, word);
  }
  return text;
}

std::vector<SoundConfig> sound_configs(const TemporaryFolder& folder) {
  const auto path = [&](const std::string& name, const std::string& text) {
    return "data.path=" + folder.write(name, text);
  };
  const std::string text = path("text.txt", some_sentences(1500, 4));
  write_papers(folder);
  write_translations(folder, "train", 1200);
  write_translations(folder, "val", 100);
  const Finished trained = tapestry_run(
      "train copy --quiet --out {} model.layers=1 model.width=16 data.length=5 "
      "train.batch_size=16 train.steps=150 optim.learning_rate=5e-3",
      folder.path("copy"));
  REQUIRE_MESSAGE(trained.status == 0, trained.err);
  return {
      // Recurrent networks learn these slowly.
      {"copy", {}, {}, {"model.kind"}},
      {"reverse", {}, {}, {"model.kind"}},
      {"sort", {}, {}, {"model.kind"}},
      {"addition", {}, {{"data.length", {2, 2}}}, {"model.kind"}},
      // Random features translate slowly; an encoder has no gate.
      {"dates", {"data.held_back=100"}, {}, {"model.gate"}},
      {"copy",
       {"--from=" + folder.path("copy"), "data.length=5", "model.layers=1", "model.width=16"},
       {{"model.lora.rank", {1, 4, true}}},
       {"model.kind"},
       {1e-3, 1e-2}},  // adapters are scaled by alpha / rank
      {"multi30k",
       {"data.path=" + folder.path(), "data.test=", "model.layers=1", "model.width=32",
        "model.heads=4", "model.feed_forward=64", "data.vocabulary=300", "train.batch_size=16"},
       {},
       {"model.gate"}},
      {"names", {path("names.txt", some_sentences(1500, 1))}},
      {"shakespeare-char", {text}},
      {"shakespeare-bpe",
       {text, "model.width=32", "model.feed_forward=64"},
       {},
       {"model.kind"}},  // a recurrent network has no such layer
      {"shakespeare-rnn", {text, "model.width=32"}},
      {"shakespeare-lstm", {text, "model.width=32"}},
      {"shakespeare-bpe",
       {path("talks.jsonl", some_conversations(600)), "data.kind=conversations",
        "data.template=chatml", "data.vocabulary=330", "model.width=32", "model.feed_forward=64"},
       {{"model.context", {96, 96}}},
       {"model.kind", "model.attention"}},  // random features do not support data.packing
      {"graphs", {}, {}, {}, {2e-3, 2e-2}},
      {"match-reports", {"model.width=32", "model.heads=4"}, {}, {"model.gate"}},
      {"karate",  // with more layers, sums over the neighbors of a hub make an initial loss of 30
                  // nats
       {"train.batch_size=2", "train.micro_batches=1"},
       {{"model.layers", {1, 2}}}},
      {"cora",
       {"data.path=" + folder.path(), "data.training_nodes=100", "data.validation_nodes=100",
        "data.test_nodes=100", "train.batch_size=100", "train.micro_batches=1"}},
      {"waves", {}, {{"model.patch", {8, 16}}}},  // patches end with the context
      {"etth1",
       {path("hours.csv", some_hours(1500)), "data.split=fractions"},
       {{"model.patch", {8, 16}}}},
      {"clothes-vae", {}, {}, {}, {1e-4, 5e-4}},  // whose loss is a sum over pixels
      {"clothes-autoencoder", {}, {}, {}, {1e-4, 5e-4}},
      {"clothes-denoise", {}, {}, {}, {1e-4, 5e-4}},
      {"clothes-vit", {}, {{"model.patch", {7, 14}}}},
      {"clothes-captions", {}, {{"model.patch", {8, 16}}}},
      {"lenet",
       {"model.padding=[]"},
       {{"model.kernel", {2, 4}}},
       {"model.kind", "model.blocks"}},  // blocks have odd kernels
      {"clothes-cnn", {}, {{"model.channels", {8, 16}}}, {"model.kind"}},  // in eight groups
      {"memory-sum", {}, {{"data.length", {12, 24}}}}};
}

// --- drawing ---

// Tests register more optimizers, and a task, which the program does not have.
const Strings optimizers = {"adam", "adamw", "muon", "schedule_free_adamw", "sgd"};

double drawn_number(const Bounds& bounds, Random& random) {
  if (bounds.or_zero && random.below(3) == 0) return 0;
  if (bounds.low == 0) return bounds.high * random.uniform();
  return bounds.low * std::pow(bounds.high / bounds.low, random.uniform());
}

std::int64_t drawn_integer(const Bounds& bounds, Random& random) {
  if (bounds.or_zero && random.below(3) == 0) return 0;
  const auto doublings = static_cast<std::int64_t>(std::log2(bounds.high / bounds.low));
  return static_cast<std::int64_t>(bounds.low) << random.below(1 + doublings);
}

Strings drawn_list(const Strings& from, std::int64_t count, Random& random) {
  Words all = from;
  random.shuffle(all);
  all.resize(count);
  return all;
}

// Returns adapter targets of a model without gated layers that do not overlap.
Strings drawn_targets(Random& random) {
  Words all = "output expand contract";
  if (random.below(2) == 0)
    all.emplace_back("query_key_value");
  else
    all.insert(all.end(), {"query", "key", "value"});
  return drawn_list(all, 1 + random.below(std::ssize(all)), random);
}

// Returns a value of the key: one of its choices, or one within the bounds.
Value drawn_value(const KeyInfo& key, const Bounds& bounds, Random& random) {
  const Strings& choices = key.limits.choices;
  const auto draw = [&]<class T>(const T&) -> Value {
    if constexpr (std::is_same_v<T, bool>) return random.below(2) == 1;
    if constexpr (std::is_same_v<T, std::int64_t>) return drawn_integer(bounds, random);
    if constexpr (std::is_same_v<T, double>) return drawn_number(bounds, random);
    if constexpr (std::is_same_v<T, std::string>) return choices[random.below(std::ssize(choices))];
    if constexpr (std::is_same_v<T, Strings>)
      return drawn_list(choices, 1 + random.below(std::ssize(choices)), random);
    if constexpr (std::is_same_v<T, std::vector<std::int64_t>>) {
      std::vector<std::int64_t> list(1 + random.below(2));
      for (std::int64_t& one : list) one = drawn_integer(bounds, random);
      return list;
    }
  };
  return std::visit(draw, key.fallback);
}

int turn_of(const KeyInfo& key) {
  const bool is_choice = std::holds_alternative<bool>(key.fallback) ||
                         std::holds_alternative<std::string>(key.fallback) ||
                         key.name == key::data_rules.name;
  if (key.name == key::learning_rate.name) return 3;  // it depends on the others
  return !is_choice ? 2 : key.limits.used_if.empty() ? 0 : 1;
}

// Only "key=value".
Strings settings_among(Words words) {
  std::erase_if(words, [](const std::string& word) { return word.starts_with('-'); });
  return words;
}

}  // namespace

bool is_of_program(const KeyInfo& key) {
  return std::ranges::all_of(key.limits.used_if, [](const Condition& condition) {
    return condition.key != key::optimizer.name ||
           std::ranges::any_of(
               optimizers, [&](const std::string& name) { return condition.holds(Value(name)); });
  });
}

DrawnConfig::DrawnConfig(const SoundConfig& sound, Random& random)
    : sound_(sound), base_(load_config(sound.name, base_settings())) {
  std::set<std::string> fixed;
  for (const std::string& setting : base_settings())
    fixed.insert(setting.substr(0, setting.find('=')));
  const std::vector<KeyInfo> keys =
      key::with_common_keys(task_registry().at(base_[key::task]).keys);
  for (const int turn : {0, 1, 2, 3})  // other keys count only with some choices
    for (const KeyInfo& key : keys)
      if (turn_of(key) == turn && !fixed.contains(key.name) && is_drawn(key) &&
          (random.uniform() < 0.6 || is_needed(key)))
        values_[key.name] = draw(key, random);
}

Strings DrawnConfig::words() const {
  Words words;
  for (const auto& [name, value] : values_) words.push_back(name + "=" + to_toml(value));
  words.insert(words.end(), sound_.fixed.begin(), sound_.fixed.end());
  return words;
}

Config DrawnConfig::config() const { return load_config(sound_.name, settings_among(words())); }

bool DrawnConfig::is_blind() const {
  if (sound_.name != "graphs") return false;
  return value("model.layer") == Value("attention") || value("model.layer") == Value("gat") ||
         value("model.normalization") == Value("mean");
}

Strings DrawnConfig::keys() const {
  Words keys;
  for (const auto& [key, value] : values_) keys.push_back(key);
  return keys;
}

DrawnConfig DrawnConfig::without(const std::string& key) const {
  DrawnConfig smaller = *this;
  smaller.values_.erase(key);
  return smaller;
}

Strings DrawnConfig::base_settings() const { return settings_among(sound_.fixed); }

// A model that begins with trained weights has their sizes, and only it has adapters.
bool DrawnConfig::is_drawn(const KeyInfo& key) const {
  const bool is_of_adapters = key.name.starts_with("model.lora."),
             is_of_model = key.name.starts_with("model.") || key.name.starts_with("data.");
  const bool is_adapted = sound_.bounds.contains("model.lora.rank");
  return !not_drawn.contains(key.name) && std::ranges::count(sound_.kept, key.name) == 0 &&
         is_used(key) && (is_of_adapters ? is_adapted : !is_of_model || !is_adapted);
}

// Plain gradient descent needs larger steps, and an exponential schedule ends above 0.
bool DrawnConfig::is_needed(const KeyInfo& key) const {
  if (key.name == key::final_learning_rate.name)
    return value(key::schedule.name) == Value("exponential");
  return key.name == key::learning_rate.name && value(key::optimizer.name) == Value("sgd");
}

Value DrawnConfig::value(const std::string& name) const {
  const auto drawn = values_.find(name);
  return drawn == values_.end() ? base_.value(name) : drawn->second;
}

double DrawnConfig::number(const std::string& name) const {
  if (!values_.contains(name) && !base_.has(name)) return 0;
  return static_cast<double>(std::get<std::int64_t>(value(name)));
}

bool DrawnConfig::is_used(const KeyInfo& key) const {
  return std::ranges::all_of(key.limits.used_if, [&](const Condition& condition) {
    return condition.holds(value(condition.key));
  });
}

Value DrawnConfig::draw(const KeyInfo& key, Random& random) const {
  if (key.name == key::optimizer.name) return optimizers[random.below(std::ssize(optimizers))];
  // Without norms, a model may need smaller steps.
  if (key.name == "model.norm_kind") return Value(random.below(2) == 0 ? "layer" : "rms");
  if (key.name == key::learning_rate.name && is_needed(key)) {
    const bool is_clipped = value(key::clip_norm.name) != Value(0.0);
    const double rate = drawn_number(is_clipped ? clipped_by_sgd : sound_.rates_of_sgd, random);
    return rate * (1 - std::get<double>(value("optim.momentum")));  // as large as its steps
  }
  if (key.name == key::adapter_targets.name) return drawn_targets(random);
  if (key.name == key::groups.name) return Words{"* lr=0.7"};
  if (key.name == "data.targets") return drawn_list({"load", "oil"}, 1 + random.below(2), random);
  const auto own = sound_.bounds.find(key.name), usual = usual_bounds.find(key.name);
  Bounds bounds = own != sound_.bounds.end()    ? own->second
                  : usual != usual_bounds.end() ? usual->second
                                                : Bounds{1, 1};  // choices need no bounds
  bounds.or_zero &= !is_needed(key);
  bounds.low = std::max(bounds.low, key.limits.low);
  bounds.high = std::min(bounds.high, key.limits.high);
  if (key.name == "model.heads") bounds.low = std::max(1.0, number("model.key_value_heads"));
  if (key.name == "model.key_value_heads")
    bounds.high = std::clamp(number("model.heads"), 1.0, bounds.high);
  return drawn_value(key, bounds, random);
}

DrawnConfig shrink(DrawnConfig config,
                   const std::function<std::string(const DrawnConfig&)>& violation) {
  for (const std::string& key : config.keys()) {
    const DrawnConfig smaller = config.without(key);
    if (!violation(smaller).empty()) config = smaller;
  }
  return config;
}

ConfigGenerator::ConfigGenerator() : sound_(sound_configs(folder_)) {}

DrawnConfig ConfigGenerator::draw(std::uint64_t number) const {
  Random random(2026, Stream::data, number);
  return DrawnConfig(sound_[number % sound_.size()], random);
}

}  // namespace tapestry
