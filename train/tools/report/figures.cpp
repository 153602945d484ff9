#include "train/tools/report/figures.hpp"

#include <algorithm>

namespace tapestry {

const std::vector<MeasuredFigure>& known_figures() {
  using enum MeasuredFigure::Better;
  static const std::vector<MeasuredFigure> known{
      {"loss",
       "what the training makes smaller; less is better",
       lower,
       true,
       {"model.beta", "model.reconstruction_weight", "model.likelihood", "model.horizon"}},
      {"accuracy", "the share that is right; 1 is all", higher},
      {"accuracy_early", "the share that is right of what stood in the first quarter of the items",
       higher},
      {"accuracy_late", "the share that is right of what stood in the last quarter of the items",
       higher},
      {"attended", "over how many items the attention spreads; 1: it looks at one"},
      {"bits_per_byte", "the loss as bits for each byte of text; less is better", lower},
      {"bits_per_char", "the loss as bits for each character; less is better", lower},
      {"bleu", "how much of the wanted translations' wording comes back, 0 to 100; more is better",
       higher},
      {"cut_sources", "sentences that were too long to be read whole"},
      {"elbo",
       "a lower bound of the images' log likelihood, in nats; more is better",
       higher,
       false,
       {"model.likelihood"}},
      {"exact_match", "the share of answers that are right in full; 1 is all", higher},
      {"kl", "how many nats an image's code says; little: it says little"},
      {"mae", "the mean absolute error; less is better", lower, false, {"model.horizon"}},
      {"mse", "the mean squared error; less is better", lower, false, {"model.horizon"}},
      {"perplexity", "between how many tokens the model wavers, as it were; less is better", lower,
       true},
      {"recon",
       "nats that are lost in the reconstruction; less is better",
       lower,
       false,
       {"model.likelihood"}},
      {"grad_norm", "the length of the gradient, before it is clipped"},
      {"lr", "the learning rate"},
      {"tokens_per_s", "the speed of the training"},
      {"examples_per_s", "the speed of the training"},
  };
  return known;
}

MeasuredFigure figure_named(const std::string& name) {
  const std::string own = name.starts_with("test_") ? name.substr(5) : name;
  const auto found = std::ranges::find(known_figures(), own, &MeasuredFigure::name);
  return found == known_figures().end() ? MeasuredFigure{.name = own} : *found;
}

}  // namespace tapestry
