#include "layers/patch_encoder.hpp"

#include "autograd/check.hpp"
#include "autograd/ops/arithmetic.hpp"
#include "autograd/ops/shaping.hpp"
#include "autograd/tape.hpp"
#include "layers/module.hpp"

namespace tapestry {
namespace {

std::optional<Parameter> make_class_token(const PatchEncoderOptions& options, Random& init) {
  if (!options.class_token) return std::nullopt;
  return Parameter(initial_normal({1, options.block.width}, 0.02, init), Role::embedding);
}

}  // namespace

PatchEncoder::PatchEncoder(const PatchEncoderOptions& wanted, Random& init)
    : options(wanted),
      projection(options.values, options.block.width, init, options.block.attention.input),
      dropout(options.block.dropout),
      encoder(options.layers, options.block, init),
      class_token(make_class_token(options, init)),
      position_embedding({.kind = options.block.attention.positions,
                          .context = tokens(),
                          .width = options.block.width},
                         init) {
  if (options.block.norm == NormPlacement::pre)
    final_norm.emplace(options.block.width, options.block.norms);
}

std::int64_t PatchEncoder::tokens() const { return options.patches + options.class_token; }

Tensor PatchEncoder::forward(const Tensor& x, Random* noise) const {
  const Scope scope(path());
  const std::int64_t N = options.patches, P = options.values, C = options.block.width;
  require(x.rank() == 3 && x.dim(1) == N && x.dim(2) == P,
          "patch encoder: x {}; expected (B, {}, {})", x.shape(), N, P);
  Tensor y = projection.forward(x);  // (B, N, C)
  if (class_token)
    y = concat({Array::zeros({x.dim(0), 1, C}, x.dtype()) + class_token->tensor, y}, 1);
  y = dropout.forward(position_embedding.forward(y), noise);
  y = encoder.forward(y, {.noise = noise});
  return final_norm ? final_norm->forward(y) : y;
}

TAPESTRY_FIELDS(PatchEncoder, projection, class_token, position_embedding, dropout, encoder,
                final_norm)

}  // namespace tapestry
