#include <array>
#include <nlohmann/json.hpp>
#include <numbers>
#include <variant>

#include "autograd/ops/losses.hpp"
#include "train/decode/generate.hpp"
#include "train/settings/keys.hpp"
#include "train/tasks/language/corpus.hpp"
#include "train/tasks/language/transformer_keys.hpp"

namespace tapestry {
namespace {

const Key<std::string> model_kind{
    "model.kind", "transformer", "of network", {.choices = {"transformer", "recurrent"}}};

using Model = std::variant<Transformer, RecurrentNetwork>;

std::vector<KeyInfo> keys() {
  std::vector<KeyInfo> all = decoder_only_keys();
  const std::vector<KeyInfo> reading = corpus_keys();
  all.insert(all.end(), reading.begin(), reading.end());
  all.push_back(model_kind);
  return all;
}

Model make_model(const Config& config, std::int64_t vocabulary) {
  Random init(static_cast<std::uint64_t>(config[key::seed]), Stream::init);
  if (config[model_kind] == "recurrent")
    return RecurrentNetwork(recurrent_options(config, vocabulary), init);
  return Transformer(transformer_options(config, vocabulary, config[key::context]), init);
}

class LanguageModel final : public Task {
 public:
  explicit LanguageModel(const TaskSetup& setup)
      : context_(setup.config[key::context]),
        names_(holds_names(setup.config)),
        corpus_(read_corpus(setup)),
        model_(make_model(setup.config, corpus_.vocabulary.size())) {}

  Module& model() override {
    return std::visit([](Module& model) -> Module& { return model; }, model_);
  }
  const Dataset& training_data() override { return *corpus_.training; }
  const Dataset& validation_data() override { return *corpus_.validation; }
  Order order() const override { return names_ ? Order::shuffled : Order::with_replacement; }
  const char* unit() const override { return "tokens"; }
  double units(const Batch& batch) const override { return batch.count; }

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

  // Texts of 500 characters, or names, a line each.
  Sample sample(const SampleOptions& options) override {
    const std::int64_t count = options.count > 0 ? options.count : names_ ? 20 : 1;
    std::string text;
    for (std::int64_t i = 0; i < count; ++i) {
      Random random(options.seed, Stream::sample, static_cast<std::uint64_t>(i));
      if (names_)
        text += name(options, random) + "\n";
      else
        text += (i > 0 ? "\n---\n" : "") + continuation(options, random);
    }
    return {names_ ? text : text + "\n", {}};
  }

  std::vector<AttentionMaps> attention(const SampleOptions& options) override {
    const auto* transformer = std::get_if<Transformer>(&model_);
    expect_input(transformer, "a recurrent network has no attention to look at");
    const std::vector<std::int32_t> tokens =
        corpus_.vocabulary.encode((names_ ? line_end : "") + options.prompt);
    const std::int64_t count = std::ssize(tokens);
    expect_input(count >= 1 && count <= context_, "--prompt: {} characters; expected {} to {}",
                 count - names_, 1 - names_, context_ - names_);
    std::vector<std::string> labels;
    for (const std::int32_t token : tokens)
      labels.push_back(printable(corpus_.vocabulary.decode(std::array{token})));
    return attention_of(*transformer, tokens, labels);
  }

  std::map<std::string, std::string> metadata() const override {
    return {{"vocabulary", nlohmann::json(corpus_.vocabulary.symbols()).dump()}};
  }

 private:
  inline static const std::string line_end = "\n";  // before a name and after it

  std::string write(const std::string& prompt, std::int64_t count, const SampleOptions& options,
                    Random& random) const {
    const std::vector<std::int32_t> tokens = corpus_.vocabulary.encode(prompt);
    return corpus_.vocabulary.decode(std::visit(
        [&](const auto& model) { return generate(model, tokens, count, options, random); },
        model_));
  }

  std::string continuation(const SampleOptions& options, Random& random) const {
    const std::string first =
        options.prompt.empty() ? corpus_.vocabulary.symbols().front() : options.prompt;
    return options.prompt +
           write(first, options.tokens > 0 ? options.tokens : 500, options, random);
  }

  // One that begins with the prompt.
  std::string name(const SampleOptions& options, Random& random) const {
    const std::int64_t count = options.tokens > 0 ? options.tokens : context_;
    const std::string rest = write(line_end + options.prompt, count, options, random);
    return options.prompt + rest.substr(0, rest.find(line_end));
  }

  std::int64_t context_;
  bool names_;
  Corpus corpus_;
  Model model_;
};

const RegisterTask registered(
    "language-model", {"a transformer or recurrent network that predicts the next character",
                       keys(), [](const TaskSetup& setup) -> std::unique_ptr<Task> {
                         return std::make_unique<LanguageModel>(setup);
                       }});

}  // namespace
}  // namespace tapestry
