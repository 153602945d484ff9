#include "train/tools/convert/imported_model.hpp"

#include <cmath>

#include "autograd/kernels/broadcast.hpp"
#include "layers/initial.hpp"
#include "train/config/keys.hpp"
#include "train/tasks/language/language_model.hpp"

namespace tapestry {
namespace {

// The config of a language model that is the published one.
Config config_of(const ImportSource& source, const PublishedConfig& published,
                 const ImportedTokens& tokens, const std::vector<std::string>& overrides) {
  std::string text = "task = \"language-model\"\n";
  const auto set = [&](const std::string& name, const Value& value) {
    text += fmt::format("{} = {}\n", name, to_toml(value));
  };
  for (const auto& [name, value] : published.settings) set(name, value);
  set(key::vocabulary.name, published.vocabulary);
  for (const auto& [name, value] : tokens.settings) set(name, value);
  set(key::name.name, source.name);
  return parse_config(text, source.config_path + ", as a config of ours", overrides);
}

}  // namespace

ImportedModel model_to_fill(const ImportSource& source, const PublishedConfig& published,
                            const ImportedTokens& tokens,
                            const std::vector<std::string>& overrides) {
  Config config = config_of(source, published, tokens, overrides);
  constexpr std::int64_t slack = 64 << 20;
  const InitialValuesLimit limit(source.numbers * 4 + slack);
  try {
    std::unique_ptr<Task> task = make_task({config, tokens.metadata, false});
    return {to_string(published.architecture), std::move(config), std::move(task)};
  } catch (const InitialValuesTooLarge&) {
    throw InputError(fmt::format("{}: asks for a larger model than the {} numbers of {} are",
                                 source.config_path, source.numbers, source.weights_path));
  }
}

void expect_finite(const Array& numbers, const std::string& path, const std::string& tensor) {
  expect_input(std::isfinite(sum_of_squares(numbers)),
               "{}: tensor {} holds numbers that are not finite: this model cannot be used", path,
               tensor);
}

}  // namespace tapestry
