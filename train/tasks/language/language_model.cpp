#include "train/tasks/language/language_model.hpp"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <numbers>

#include "autograd/ops/losses.hpp"
#include "train/settings/keys.hpp"
#include "train/tasks/initialised.hpp"
#include "train/tasks/transformer_keys.hpp"

namespace tapestry {
namespace {

enum class Network { transformer, recurrent };
const Choice<Network> model_kind{
    "model.kind",
    Network::transformer,
    "of network",
    {{"transformer", Network::transformer}, {"recurrent", Network::recurrent}}};

// Those of a transformer, of which a recurrent network has only some.
std::vector<KeyInfo> network_keys() {
  const std::vector<KeyInfo> shared = recurrent_keys();
  std::vector<KeyInfo> all = decoder_only_keys();
  for (KeyInfo& key : all)
    if (std::ranges::find(shared, key.name, &KeyInfo::name) == shared.end())
      key.limits.used_if.push_back(model_kind.is(Network::transformer));
  return all;
}

std::vector<KeyInfo> keys() {
  std::vector<KeyInfo> all = network_keys();
  const std::vector<KeyInfo> reading = corpus_keys();
  all.insert(all.end(), reading.begin(), reading.end());
  all.push_back(model_kind);
  return all;
}

LanguageModel::Network make_network(const Config& config, std::int64_t vocabulary) {
  return initialised(config, [&](Random& init) -> LanguageModel::Network {
    switch (config[model_kind]) {
      case Network::recurrent:
        return RecurrentNetwork(recurrent_options(config, vocabulary), init);
      case Network::transformer:
        return Transformer(transformer_options(config, vocabulary, config[key::context]), init);
    }
    throw_unhandled(model_kind);
  });
}

const RegisterTask<LanguageModel> registered{
    "language-model", "a transformer or recurrent network that predicts the next character", keys};

}  // namespace

LanguageModel::LanguageModel(const TaskSetup& setup)
    : context_(setup.config[key::context]),
      names_(holds_names(setup.config)),
      corpus_(read_corpus(setup)),
      network_(make_network(setup.config, corpus_.vocabulary.size())) {}

Module& LanguageModel::model() {
  return std::visit([](Module& model) -> Module& { return model; }, network_);
}

Loss LanguageModel::loss(const Batch& batch, const Pass& pass) {
  Random* noise = pass.training ? pass.noise : nullptr;
  const Tensor logits =
      std::visit([&](const auto& model) { return model.forward(batch.inputs, noise); }, network_);
  const Tensor total = cross_entropy(logits, batch.targets, {.mean = false});
  return {total, {{"loss", {total.item(), batch.count}}}};
}

void LanguageModel::derive(Metrics& metrics) const {
  metrics["bits_per_char"] = metrics.at("loss") / std::numbers::ln2;
}

std::map<std::string, std::string> LanguageModel::metadata() const {
  return {{"vocabulary", nlohmann::json(corpus_.vocabulary.symbols()).dump()}};
}

}  // namespace tapestry
