#include "train/inspect/onnx/layers.hpp"

#include <cmath>
#include <numbers>

#include "autograd/check.hpp"

namespace tapestry::onnx {
namespace {

Value parameter(const Value& x, const Parameter& parameter) {
  return x.graph->parameter(parameter);
}

std::vector<std::int64_t> both(std::int64_t n) { return {n, n}; }

// A recurrent operator: its name and attributes, and where its gates are among those of the layer.
struct RecurrentOperator {
  const char* name;
  std::vector<std::int64_t> gates;
  std::vector<Attribute> attributes;
};

// Returns the gates in the order of the operator: rows of H of a weight or a bias.
Value in_order(const Value& rows, const std::vector<std::int64_t>& gates, std::int64_t H) {
  if (gates.size() == 1) return rows;
  std::vector<Value> parts;
  for (const std::int64_t gate : gates) parts.push_back(slice(rows, 0, gate * H, (gate + 1) * H));
  return concat(parts, 0);
}

// Returns the states (B, T, H) of a recurrent layer. The operator has time as the first axis, and
// weights per direction: W (1, G H, C), R (1, G H, H) and both biases concatenated (1, 2 G H).
// `second_bias` is that of the recurrent product, for the last gate of the layer alone.
Value recurrent(const Linear& input, const Linear& hidden, const Parameter* second_bias,
                const Value& x, RecurrentOperator made) {
  const std::int64_t H = hidden.weight.tensor.dim(1), G = std::ssize(made.gates);
  const auto rows = [&](const Parameter& own) {
    return in_order(parameter(x, own), made.gates, H);
  };
  std::vector<Value> inputs = {transpose(x, {1, 0, 2}), unsqueeze(rows(input.weight), {0}),
                               unsqueeze(rows(hidden.weight), {0})};
  if (!input.bias.value().empty()) {
    const auto zeros = [&](std::int64_t n) {
      return x.graph->constant(Array::zeros({n}), "zeros");
    };
    Value second = zeros(G * H);
    if (second_bias)
      second = in_order(concat({zeros((G - 1) * H), parameter(x, *second_bias)}, 0), made.gates, H);
    inputs.push_back(unsqueeze(concat({rows(input.bias), second}, 0), {0}));
  }
  made.attributes.push_back({"hidden_size", H});
  const Value states = x.graph->node(made.name, inputs, made.attributes);  // (T, 1, B, H)
  return transpose(squeeze(states, 1), {1, 0, 2});
}

// Returns the images: the operator computes the smallest size, and the output padding adds the
// rest.
Value forward(const TransposedConvolution2d& layer, const Value& x, const Planes& from,
              const Planes& to) {
  const Within module(x, layer.path());
  const std::int64_t P = layer.options.padding, S = layer.options.stride;
  const std::int64_t K = layer.weight.tensor.dim(3);
  const auto missing = [&](std::int64_t features, std::int64_t wanted) {
    return wanted - ((features - 1) * S + K - 2 * P);
  };
  return x.graph->node(
      "ConvTranspose", {x, parameter(x, layer.weight), parameter(x, layer.bias)},
      {{"kernel_shape", both(K)},
       {"strides", both(S)},
       {"pads", std::vector<std::int64_t>{P, P, P, P}},
       {"output_padding", std::vector<std::int64_t>{missing(from.height, to.height),
                                                    missing(from.width, to.width)}}});
}

}  // namespace

Value forward(const Linear& layer, const Value& x) {
  require(layer.adapters.empty(),
          "onnx: {} has adapters that are not merged; call merge_adapters() first", layer.path());
  const Within module(x, layer.path());
  const Value y = matmul(x, transpose(parameter(x, layer.weight), {1, 0}));
  return layer.bias.value().empty() ? y : y + parameter(x, layer.bias);
}

Value activate(Activation activation, const Value& x) {
  switch (activation) {
    case Activation::none:
      return x;
    case Activation::relu:
      return relu(x);
    case Activation::gelu:
      return x * ((erf(x * (1 / std::numbers::sqrt2)) + 1) * 0.5);
    case Activation::gelu_tanh: {
      const double scale = std::numbers::sqrt2 * std::numbers::inv_sqrtpi;  // √(2/π)
      return x * ((tanh(x * scale * (x * x * 0.044715 + 1)) + 1) * 0.5);
    }
    case Activation::silu:
      return x * sigmoid(x);
    case Activation::elu:
      return x.graph->node("Elu", {x});
  }
  throw_unhandled("activation");
}

Value forward(const Mlp& layer, const Value& x) {
  const Within module(x, layer.path());
  Value y = x;
  for (std::size_t i = 0; i < layer.layers.size(); ++i) {
    y = forward(layer.layers[i], y);
    if (layer.activate_last || i + 1 < layer.layers.size()) y = activate(layer.activation, y);
  }
  return y;
}

Value forward(const Norm& layer, const Value& x) {
  const Within module(x, layer.path());
  const double epsilon = layer.options.epsilon;
  if (layer.options.kind == NormKind::none) return x;
  const Value weight = parameter(x, layer.weight);
  if (layer.options.kind == NormKind::rms)
    return x / sqrt(mean(x * x, -1, Keep::yes) + epsilon) * weight;
  return x.graph->node("LayerNormalization", {x, weight, parameter(x, *layer.bias)},
                       {{"axis", -1}, {"epsilon", epsilon}});
}

Value forward(const Embedding& layer, const Value& tokens) {
  const Within module(tokens, layer.path());
  return gather(parameter(tokens, layer.weight), tokens);
}

Value forward(const FeedForward& layer, const Value& x) {
  const Within module(x, layer.path());
  const Value hidden = forward(layer.expand, x);
  if (!layer.gated) return forward(layer.contract, activate(layer.activation, hidden));
  const std::int64_t F = layer.contract.weight.tensor.dim(1);
  const Value gate = slice(hidden, -1, 0, F), up = slice(hidden, -1, F, 2 * F);
  return forward(layer.contract, activate(layer.activation, gate) * up);
}

Value forward(const Recurrent& layer, const Value& x) {
  const Within module(x, layer.path());
  return recurrent(layer.input, layer.hidden, nullptr, x, {"RNN", {0}, {}});
}

// The operator's order of gates is i, o, f, g.
Value forward(const Lstm& layer, const Value& x) {
  const Within module(x, layer.path());
  return recurrent(layer.input, layer.hidden, nullptr, x, {"LSTM", {0, 3, 1, 2}, {}});
}

// The operator's order of gates is z, r, n.
Value forward(const Gru& layer, const Value& x) {
  const Within module(x, layer.path());
  return recurrent(layer.input, layer.hidden, &layer.candidate_bias, x,
                   {"GRU", {1, 0, 2}, {{"linear_before_reset", std::int64_t{1}}}});
}

Value forward(const RecurrentStack& stack, const Value& x) {
  const Within module(x, stack.path());
  Value y = x;
  for (const auto& layer : stack.layers) {
    if (const auto* elman = dynamic_cast<const Recurrent*>(layer.get()))
      y = forward(*elman, y);
    else if (const auto* lstm = dynamic_cast<const Lstm*>(layer.get()))
      y = forward(*lstm, y);
    else
      y = forward(dynamic_cast<const Gru&>(*layer), y);
  }
  return y;
}

Value forward(const GroupNorm& layer, const Value& x) {
  const Within module(x, layer.path());
  const Value groups = reshape(x, {0, layer.options.groups, -1});
  const Value centered = groups - mean(groups, -1, Keep::yes);
  const Value scale = sqrt(mean(centered * centered, -1, Keep::yes) + layer.options.epsilon);
  const auto of_channels = [&](const Parameter& p) { return unsqueeze(parameter(x, p), {1, 2}); };
  return reshape(centered / scale, lengths(x)) * of_channels(layer.weight) +
         of_channels(layer.bias);
}

Value forward(const Convolution2d& layer, const Value& x) {
  const Within module(x, layer.path());
  const std::int64_t P = layer.options.padding;
  return x.graph->node("Conv", {x, parameter(x, layer.weight), parameter(x, layer.bias)},
                       {{"kernel_shape", both(layer.weight.tensor.dim(3))},
                        {"strides", both(layer.options.stride)},
                        {"pads", std::vector<std::int64_t>{P, P, P, P}}});
}

Value forward(const ResidualConvolution& layer, const Value& x) {
  const Within module(x, layer.path());
  Value y = forward(layer.first, x);
  if (layer.first_norm) y = forward(*layer.first_norm, y);
  y = forward(layer.second, activate(layer.activation, y));
  if (layer.second_norm) y = forward(*layer.second_norm, y);
  return activate(layer.activation, y + (layer.shortcut ? forward(*layer.shortcut, x) : x));
}

Value forward(const ConvolutionStack& layer, const Value& x) {
  const Within module(x, layer.path());
  Value y = reshape(x, {0, layer.options.channels_in, layer.options.height, layer.options.width});
  for (const Convolution2d& convolution : layer.layers)
    y = activate(layer.options.activation, forward(convolution, y));
  return reshape(y, {0, stack_features(layer.options)});
}

Value forward(const TransposedConvolutionStack& layer, const Value& x) {
  const Within module(x, layer.path());
  const std::vector<Planes> planes = stack_planes(layer.options);
  const Planes& first = planes.back();
  Value y = reshape(x, {0, first.channels, first.height, first.width});
  for (std::size_t i = 0; i < layer.layers.size(); ++i) {
    const std::size_t from = layer.layers.size() - i;
    if (i > 0) y = activate(layer.options.activation, y);
    y = forward(layer.layers[i], y, planes[from], planes[from - 1]);
  }
  return reshape(y, {0, planes.front().size()});
}

}  // namespace tapestry::onnx
