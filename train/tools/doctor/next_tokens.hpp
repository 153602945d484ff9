#pragma once

#include "data/dataset.hpp"

namespace tapestry {

// How the targets of a batch of tokens follow from its inputs, as shares of its targets.
struct NextTokens {
  double same = 0, next = 0, second_next = 0;  // target t is input t, t + 1, t + 2
  double own_row = 0, other_row = 0;           // it is one of those after the first of its row,
                                               // or of the row behind
};

// Of inputs and targets (B, T) int32; false where they are something else.
bool has_token_targets(const Batch& batch);
NextTokens next_tokens(const Batch& batch);

// Whether the inputs hold, later on, what the model should say: it must not see them there.
bool inputs_hold_targets(const Batch& batch);

}  // namespace tapestry
