#pragma once

#include <memory>
#include <vector>

#include "layers/linear.hpp"
#include "layers/norm.hpp"

namespace tapestry {

// A layer that reads a sequence step by step and keeps a state for each example.
class RecurrentLayer : public Module {
 public:
  // Returns the outputs h_1 … h_T: x (B, T, C), the state before them (B, S) or empty for zeros ->
  // (B, T, H). Unless `last` is null, it becomes the state after them (B, S). T may be 0.
  virtual Tensor forward(const Tensor& x, const Tensor& initial = {},
                         Tensor* last = nullptr) const = 0;
  virtual Tensor zero_state(std::int64_t batch) const = 0;  // returns zeros (B, S)
};

// A simple recurrent layer, h_t = tanh(input(x_t) + hidden(h_(t-1))) (Elman 1990, "Finding
// Structure in Time"). Weights start uniform in ±1/√C and ±1/√H, and the bias in ±1/√C, as in
// PyTorch's RNN if C = H. The state is h.
class Recurrent final : public RecurrentLayer {
 public:
  Linear input;   // (H, C), with bias unless the constructor's `bias` is false
  Linear hidden;  // (H, H), without bias

  Recurrent(std::int64_t width, std::int64_t state_width, Random& init, bool bias = true);
  Tensor forward(const Tensor& x, const Tensor& initial = {},
                 Tensor* last = nullptr) const override;
  Tensor zero_state(std::int64_t batch) const override;
  void fields(FieldVisitor& visit) override;
};

enum class RecurrentKind { elman, lstm, gru };  // Recurrent, Lstm, Gru

struct RecurrentStackOptions {
  RecurrentKind kind = RecurrentKind::elman;
  std::int64_t layers = 1, inputs = 256, width = 256;
  double dropout = 0;
  bool bias = true;
};

// Recurrent layers above each other, with dropout before each and after the last.
class RecurrentStack final : public Module {
 public:
  RecurrentStackOptions options;
  Dropout dropout;
  std::vector<std::unique_ptr<RecurrentLayer>> layers;

  RecurrentStack(const RecurrentStackOptions& wanted, Random& init);

  // Returns the outputs of the last layer: x (B, T, inputs) -> (B, T, C). `noise` is for dropout;
  // null: evaluation. `states` (B, S), one per layer, are those before the sequence, and become
  // those after it; null: zeros. Throws std::invalid_argument for another number of states.
  Tensor forward(const Tensor& x, Random* noise = nullptr,
                 std::vector<Tensor>* states = nullptr) const;
  std::vector<Tensor> make_states(std::int64_t batch) const;  // returns zeros

  void fields(FieldVisitor& visit) override;
};

// Returns the state after the last step: states (B, T, H), initial (B, H) or empty -> (B, H).
Tensor last_state(const Tensor& states, const Tensor& initial = {});

}  // namespace tapestry
