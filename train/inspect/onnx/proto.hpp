#pragma once

// The numbers of the fields of ONNX's messages, by message (onnx/onnx.proto).
namespace tapestry::onnx::proto {

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
inline constexpr int node = 1, name = 2, initialiser = 5, help = 10, input = 11, output = 12;
}
namespace node {
inline constexpr int input = 1, output = 2, name = 3, op = 4, attribute = 5;
}
namespace attribute {
inline constexpr int name = 1, number = 2, integer = 3, tensor = 5, integers = 8, type = 20;
// Values of the last.
inline constexpr int is_number = 1, is_integer = 2, is_tensor = 4, is_integers = 7;
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

}  // namespace tapestry::onnx::proto
