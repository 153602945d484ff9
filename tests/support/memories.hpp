#pragma once

#include <utility>

#include "layers/models/memory_network.hpp"

namespace tapestry {

// All values of model.memory.
inline constexpr std::pair<MemoryKind, const char*> memory_kinds[] = {
    {MemoryKind::sum, "sum"},
    {MemoryKind::forgetting, "forgetting"},
    {MemoryKind::recurrent, "recurrent"},
    {MemoryKind::gated, "gated"},
    {MemoryKind::sigmoid_attention, "sigmoid-attention"},
    {MemoryKind::softmax_attention, "softmax-attention"},
    {MemoryKind::linear_attention, "linear-attention"},
    {MemoryKind::query_key, "query-key"},
    {MemoryKind::multi_head, "multi-head"}};

}  // namespace tapestry
