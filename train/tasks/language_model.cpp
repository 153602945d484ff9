#include <array>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <numbers>
#include <variant>

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
const Key<std::string> kind{
    "model.kind", "transformer", "of network", {.choices = {"transformer", "recurrent"}}};
const Key<std::int64_t> context{
    "model.context", 64, "characters the model sees", {.low = 1, .high = 1048576}};

using Model = std::variant<Transformer, RecurrentNetwork>;

std::vector<KeyInfo> keys() {
  std::vector<KeyInfo> all = decoder_only_keys();
  all.insert(all.end(), {kind, validation_fraction, data_source, context});
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
        vocabulary_(setup.memory.empty()
                        ? CharVocabulary::of_text(text().content)
                        : CharVocabulary(nlohmann::json::parse(setup.memory.at("vocabulary"))
                                             .get<std::vector<std::string>>())),
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

  Module& model() override {
    return std::visit([](Module& model) -> Module& { return model; }, model_);
  }
  const Dataset& training_data() override { return training_.value(); }
  const Dataset& validation_data() override { return validation_.value(); }
  Order order() const override { return Order::with_replacement; }
  const char* unit() const override { return "tokens"; }
  double units(const Batch& batch) const override {
    return static_cast<double>(batch.inputs.size());
  }

  Loss loss(const Batch& batch, const Pass& pass) override {
    Random* noise = pass.training ? pass.noise : nullptr;
    const Tensor logits =
        std::visit([&](const auto& model) { return model.forward(batch.inputs, noise); }, model_);
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
      const std::int64_t count = options.tokens > 0 ? options.tokens : 500;
      const auto tokens = std::visit(
          [&](const auto& model) { return generate(model, prompt, count, options, random); },
          model_);
      text += (i > 0 ? "\n---\n" : "") + options.prompt + vocabulary_.decode(tokens);
    }
    return {text + "\n", {}};
  }

  std::vector<AttentionMaps> attention(const SampleOptions& options) override {
    const auto* transformer = std::get_if<Transformer>(&model_);
    expect_input(transformer, "a recurrent network has no attention to look at");
    const std::vector<std::int32_t> tokens = vocabulary_.encode(options.prompt);
    const auto count = static_cast<std::int64_t>(tokens.size());
    expect_input(count >= 1 && count <= config_[context],
                 "--prompt: {} characters; expected 1 to {}", count, config_[context]);
    std::vector<std::string> labels;
    for (const std::int32_t token : tokens) labels.push_back(vocabulary_.decode(std::array{token}));
    return attention_of(*transformer, tokens, labels);
  }

  std::map<std::string, std::string> memory() const override {
    return {{"vocabulary", nlohmann::json(vocabulary_.symbols()).dump()}};
  }

 private:
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

  Model make_model() const {
    Random init(static_cast<std::uint64_t>(config_[key::seed]), Stream::init);
    if (config_[kind] == "recurrent")
      return RecurrentNetwork(recurrent_options(config_, vocabulary_.size()), init);
    return Transformer(transformer_options(config_, vocabulary_.size(), config_[context]), init);
  }

  Config config_;
  std::optional<Text> text_;
  CharVocabulary vocabulary_;
  Model model_;
  std::shared_ptr<const std::vector<std::int32_t>> tokens_;
  std::optional<TextDataset> training_, validation_;
};

const RegisterTask registered(
    "language-model", {"a transformer or recurrent network that predicts the next character",
                       keys(), [](const TaskSetup& setup) -> std::unique_ptr<Task> {
                         return std::make_unique<LanguageModel>(setup);
                       }});

}  // namespace
}  // namespace tapestry
