#include "autograd/counted.hpp"
#include "train/config/keys.hpp"
#include "train/trainer/callbacks/callbacks.hpp"

namespace tapestry {
namespace {

class EarlyStopping final : public Callback {
 public:
  EarlyStopping(const Config& config, TrainingState& state, Log log)
      : patience_(config[key::early_stopping]),
        min_delta_(config[key::min_delta]),
        training_(state),
        state_(state.early_stopping),
        log_(std::move(log)) {}

  void on_metrics(const MetricsLine& line) override {
    if (line.split != "val") return;
    const double loss = line.values.at("loss");
    const bool improved = loss < state_.improved_loss - min_delta_;
    state_.patience_counter = improved ? 0 : state_.patience_counter + 1;
    if (improved) state_.improved_loss = loss;
    ended_here_ = ends_training();
  }
  void on_end() override {
    if (ended_here_)
      log_(fmt::format("ends after step {}: no improvement in {} ({})\n", training_.step,
                       counted(state_.patience_counter, "evaluation"), key::early_stopping.name));
  }
  bool ends_training() const override {
    return patience_ > 0 && state_.patience_counter >= patience_;
  }

 private:
  std::int64_t patience_;
  double min_delta_;
  const TrainingState& training_;
  TrainingState::EarlyStopping& state_;
  Log log_;
  bool ended_here_ = false;  // whether an evaluation of this process ended the training
};

}  // namespace

std::unique_ptr<Callback> stop_early(const Config& config, TrainingState& state, Log log) {
  return std::make_unique<EarlyStopping>(config, state, std::move(log));
}

}  // namespace tapestry
