#pragma once

#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "train/inspect/onnx/onnx_graph.hpp"

namespace tapestry::onnx {

// Passes the parts of a graph's file to `write`, in their order in the file. The values of
// parameters are not copied. `version` is the program's. Throws InputError as expect_fits does.
void write_graph(const std::function<void(const std::vector<std::string_view>& parts)>& write,
                 const Graph& graph, const std::string& version);

inline constexpr std::int64_t most_bytes = (std::int64_t{1} << 31) - 1;
// Throws InputError that names the model if a file of `bytes` bytes exceeds the format's limit.
void expect_fits(const std::string& model, std::int64_t bytes);

// The field numbers of ONNX's messages, by message (onnx/onnx.proto).
namespace proto {

namespace model {
inline constexpr int ir_version = 1, producer = 2, producer_version = 3, help = 6, graph = 7,
                     opset = 8, metadata = 14;
}
namespace opset {
inline constexpr int version = 2;
}
namespace entry {
inline constexpr int key = 1, value = 2;
}
namespace graph {
inline constexpr int node = 1, name = 2, initializer = 5, help = 10, input = 11, output = 12;
}
namespace node {
inline constexpr int input = 1, output = 2, name = 3, op = 4, attribute = 5;
}
namespace attribute {
inline constexpr int name = 1, number = 2, integer = 3, text = 4, tensor = 5, integers = 8,
                     type = 20;
// Values of `type`.
inline constexpr int is_number = 1, is_integer = 2, is_text = 3, is_tensor = 4, is_integers = 7;
}  // namespace attribute
namespace tensor {
inline constexpr int dimension = 1, type = 2, name = 8, raw = 9;
}
namespace value {
inline constexpr int name = 1, type = 2, help = 3;
}
namespace type {
inline constexpr int tensor = 1, element = 1, shape = 2, dimension = 1, length = 1, symbol = 2;
}

}  // namespace proto

}  // namespace tapestry::onnx
