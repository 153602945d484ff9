#include "layers/patch_encoder.hpp"

#include "autograd/check.hpp"
#include "autograd/ops/arithmetic.hpp"
#include "autograd/ops/shaping.hpp"
#include "autograd/tape.hpp"
#include "layers/initial.hpp"

namespace tapestry {
namespace {

TransformerBlockOptions block_options(const PatchEncoderOptions& options) {
  TransformerBlockOptions block = options.block;
  block.rotary_positions = options.positions == Positions::rotary;
  return block;
}

}  // namespace

PatchEncoder::PatchEncoder(const PatchEncoderOptions& wanted, Random& init)
    : options(wanted),
      projection(options.values, options.block.width, init, options.block.input),
      dropout(options.block.dropout),
      encoder(options.layers, block_options(options), init) {
  const std::int64_t C = options.block.width;
  if (options.class_token) class_token.emplace(normal({1, C}, 0.02, init), Role::embedding);
  if (options.positions == Positions::learned) position_embedding.emplace(tokens(), C, init);
  if (options.block.norm == NormPlacement::pre) final_norm.emplace(C);
}

std::int64_t PatchEncoder::tokens() const { return options.patches + options.class_token; }

Tensor PatchEncoder::forward(const Tensor& x, Random* noise) const {
  const Scope scope(path());
  const std::int64_t N = options.patches, P = options.values, C = options.block.width;
  require(x.rank() == 3 && x.dim(1) == N && x.dim(2) == P,
          "patch encoder: x {} for {} patches of {} values", to_string(x.shape()), N, P);
  Tensor y = projection.forward(x);  // (B, N, C)
  if (class_token)
    y = concat({Array::zeros({x.dim(0), 1, C}, x.dtype()) + class_token->tensor, y}, 1);
  if (position_embedding) y = position_embedding->forward(y);
  if (options.positions == Positions::sinusoidal) y = sinusoidal_positions.forward(y);
  y = encoder.forward(dropout.forward(y, noise), {.attention = {}, .noise = noise});
  return final_norm ? final_norm->forward(y) : y;
}

void PatchEncoder::fields(FieldVisitor& visit) {
  visit("projection", projection);
  if (class_token) visit("class_token", *class_token);
  if (position_embedding) visit("position_embedding", *position_embedding);
  visit("sinusoidal_positions", sinusoidal_positions);
  visit("dropout", dropout);
  visit("encoder", encoder);
  if (final_norm) visit("final_norm", *final_norm);
}

}  // namespace tapestry
