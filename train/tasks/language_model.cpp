#include <filesystem>
#include <nlohmann/json.hpp>
#include <numbers>

#include "autograd/ops/losses.hpp"
#include "data/text.hpp"
#include "train/generate.hpp"
#include "train/keys.hpp"
#include "train/task.hpp"
#include "train/tasks/transformer_keys.hpp"

namespace tapestry {
namespace {

const Key<double> validation_fraction{"data.validation_fraction",
                                      0.1,
                                      "share of the text, from its end, to validate on",
                                      {.low = 0, .high = 0.9}};
const Key<std::string> data_source{"data.source",
                                   "",
                                   "where the data can be had, for the message when it is missing",
                                   {.free_on_resume = true}};
const Key<std::int64_t> context{
    "model.context", 64, "characters the model sees", {.low = 1, .high = 1048576}};

std::vector<KeyInfo> keys() {
  std::vector<KeyInfo> all = transformer_keys();
  all.insert(all.end(), {validation_fraction, data_source, context});
  return all;
}

Text load(const Config& config) {
  const std::string &path = config[key::data_path], &source = config[data_source];
  const std::string advice = fmt::format("name a UTF-8 text file with --set data.path=FILE{}{}",
                                         source.empty() ? "" : ", such as ", source);
  config.expect(!path.empty(), key::data_path, "there is no text to learn from; {}", advice);
  config.expect(std::filesystem::exists(path), key::data_path, "no such file or folder; {}",
                advice);
  return load_text(path);
}

// The text is read once, when its first split or the vocabulary is asked for.
class LanguageModel final : public Task {
 public:
  explicit LanguageModel(const TaskSetup& setup)
      : config_(setup.config),
        vocabulary_(setup.memory.empty() ? CharVocabulary::of_text(text().content)
                                         : remembered(setup.memory)),
        model_(make_model()) {
    if (!setup.needs_data) return;
    tokens_ = std::make_shared<const std::vector<std::int32_t>>(encode());
    const auto n = static_cast<std::int64_t>(tokens_->size());
    const auto held_back =
        static_cast<std::int64_t>(static_cast<double>(n) * config_[validation_fraction]);
    const std::int64_t T = config_[context];
    config_.expect(n - held_back > T, context, "{} has {} characters to train on: at most {} fit",
                   text().path, n - held_back, n - held_back - 1);
    training_.emplace(tokens_,
                      TextRange{0, n - held_back, T, Windows::overlapping, text().path, "train"});
    validation_.emplace(
        tokens_, TextRange{n - held_back, n, T, Windows::consecutive, text().path, "validation"});
  }

  Module& model() override { return model_; }
  const Dataset& training_data() override { return training_.value(); }
  const Dataset& validation_data() override { return validation_.value(); }
  Order order() const override { return Order::with_replacement; }
  const char* unit() const override { return "tokens"; }
  double units(const Batch& batch) const override {
    return static_cast<double>(batch.inputs.size());
  }

  Loss loss(const Batch& batch, const Pass& pass) override {
    const Tensor logits = model_.forward(batch.inputs, pass.training ? pass.noise : nullptr);
    const Tensor total = cross_entropy(logits, batch.targets, {.mean = false});
    return {total, {{"loss", {total.item(), batch.count}}}};
  }

  void derive(Metrics& metrics) const override {
    metrics["bits_per_char"] = metrics.at("loss") / std::numbers::ln2;
  }

  Sample sample(const SampleOptions& options) override {
    const std::string first =
        options.prompt.empty() ? vocabulary_.symbols().front() : options.prompt;
    const std::vector<std::int32_t> prompt = vocabulary_.encode(first);
    std::string text;
    for (std::int64_t i = 0; i < std::max<std::int64_t>(1, options.count); ++i) {
      Random random(options.seed, Stream::sample, static_cast<std::uint64_t>(i));
      const auto tokens =
          generate(model_, prompt, options.tokens > 0 ? options.tokens : 500, options, random);
      text += (i > 0 ? "\n---\n" : "") + options.prompt + vocabulary_.decode(tokens);
    }
    return {text + "\n", {}};
  }

  std::map<std::string, std::string> memory() const override {
    return {{"vocabulary", nlohmann::json(vocabulary_.symbols()).dump()}};
  }

 private:
  static CharVocabulary remembered(const std::map<std::string, std::string>& memory) {
    return CharVocabulary(
        nlohmann::json::parse(memory.at("vocabulary")).get<std::vector<std::string>>());
  }

  const Text& text() {
    if (!text_) text_ = load(config_);
    return *text_;
  }

  std::vector<std::int32_t> encode() {
    try {
      return vocabulary_.encode(text().content);
    } catch (const InputError& error) {
      throw InputError(fmt::format("{}: {}", text().path, error.what()));
    }
  }

  Transformer make_model() const {
    Random init(static_cast<std::uint64_t>(config_[key::seed]), Stream::init);
    return Transformer(transformer_options(config_, vocabulary_.size(), config_[context]), init);
  }

  Config config_;
  std::optional<Text> text_;
  CharVocabulary vocabulary_;
  Transformer model_;
  std::shared_ptr<const std::vector<std::int32_t>> tokens_;
  std::optional<TextDataset> training_, validation_;
};

const RegisterTask registered("language-model",
                              {"a decoder-only transformer that predicts the next character",
                               keys(), [](const TaskSetup& setup) -> std::unique_ptr<Task> {
                                 return std::make_unique<LanguageModel>(setup);
                               }});

}  // namespace
}  // namespace tapestry
