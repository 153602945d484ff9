#pragma once

#include <limits>

#include "autograd/ops/reduce.hpp"
#include "train/inspect/onnx/onnx_graph.hpp"

// The operators as expressions: each adds a node. Shapes broadcast. A negative axis counts from the
// end. A length of 0 in a new shape keeps the old length.
namespace tapestry::onnx {

inline Value operator+(const Value& x, const Value& y) { return x.graph->node("Add", {x, y}); }
inline Value operator-(const Value& x, const Value& y) { return x.graph->node("Sub", {x, y}); }
inline Value operator*(const Value& x, const Value& y) { return x.graph->node("Mul", {x, y}); }
inline Value operator/(const Value& x, const Value& y) { return x.graph->node("Div", {x, y}); }
inline Value operator+(const Value& x, double y) { return x + x.graph->constant(y); }
inline Value operator*(const Value& x, double y) { return x * x.graph->constant(y); }
inline Value operator/(double x, const Value& y) { return y.graph->constant(x) / y; }
inline Value operator-(const Value& x) { return x.graph->node("Neg", {x}); }

inline Value sqrt(const Value& x) { return x.graph->node("Sqrt", {x}); }
inline Value exp(const Value& x) { return x.graph->node("Exp", {x}); }
inline Value sin(const Value& x) { return x.graph->node("Sin", {x}); }
inline Value cos(const Value& x) { return x.graph->node("Cos", {x}); }
inline Value tanh(const Value& x) { return x.graph->node("Tanh", {x}); }
inline Value erf(const Value& x) { return x.graph->node("Erf", {x}); }
inline Value relu(const Value& x) { return x.graph->node("Relu", {x}); }
inline Value leaky_relu(const Value& x, double slope) {
  return x.graph->node("LeakyRelu", {x}, {{"alpha", slope}});
}
inline Value sigmoid(const Value& x) { return x.graph->node("Sigmoid", {x}); }
inline Value softplus(const Value& x) { return x.graph->node("Softplus", {x}); }  // log(1 + e^x)
inline Value is_nan(const Value& x) { return x.graph->node("IsNaN", {x}); }
inline Value at_least(const Value& x, const Value& y) { return x.graph->node("Max", {x, y}); }

// Returns the softmax over the last axis.
inline Value softmax(const Value& x) { return x.graph->node("Softmax", {x}, {{"axis", -1}}); }

inline Value sum(const Value& x, std::int64_t axis, Keep keep = Keep::no) {
  return x.graph->node("ReduceSum", {x, x.graph->integers({axis})},
                       {{"keepdims", keep == Keep::yes ? 1 : 0}});
}

// Returns a reduction by `op`, ReduceMean or ReduceMax, which have the axes as an attribute.
inline Value reduce(const char* op, const Value& x, std::int64_t axis, Keep keep) {
  return x.graph->node(op, {x},
                       {{"axes", std::vector{axis}}, {"keepdims", keep == Keep::yes ? 1 : 0}});
}
inline Value mean(const Value& x, std::int64_t axis, Keep keep = Keep::no) {
  return reduce("ReduceMean", x, axis, keep);
}
inline Value max(const Value& x, std::int64_t axis, Keep keep = Keep::no) {
  return reduce("ReduceMax", x, axis, keep);
}

// Returns the largest element (MaxPool), or the mean (AveragePool), of windows of K × K pixels side
// by side.
inline Value pool(const char* op, const Value& x, std::int64_t K) {
  const std::vector both{K, K};
  return x.graph->node(op, {x}, {{"kernel_shape", both}, {"strides", both}});
}

// Returns the cumulative sums: each element plus all before it.
inline Value running_sum(const Value& x, std::int64_t axis) {
  return x.graph->node("CumSum", {x, x.graph->constant(axis)});
}

// Returns the sums of all elements after each one.
inline Value sum_after(const Value& x, std::int64_t axis) {
  return x.graph->node("CumSum", {x, x.graph->constant(axis)}, {{"exclusive", 1}, {"reverse", 1}});
}

// Returns the products of matrices in the last two axes.
inline Value matmul(const Value& x, const Value& y) { return x.graph->node("MatMul", {x, y}); }

inline Value transpose(const Value& x, const std::vector<std::int64_t>& order) {
  return x.graph->node("Transpose", {x}, {{"perm", order}});
}

inline Value reshape(const Value& x, const Value& shape) {
  return x.graph->node("Reshape", {x, shape});
}
inline Value reshape(const Value& x, const std::vector<std::int64_t>& shape) {
  return reshape(x, x.graph->integers(shape));
}

inline Value expand(const Value& x, const Value& shape) {
  return x.graph->node("Expand", {x, shape});
}

inline Value unsqueeze(const Value& x, const std::vector<std::int64_t>& axes) {
  return x.graph->node("Unsqueeze", {x, x.graph->integers(axes)});
}

inline Value squeeze(const Value& x, std::int64_t axis) {
  return x.graph->node("Squeeze", {x, x.graph->integers({axis})});
}

inline Value concat(const std::vector<Value>& parts, std::int64_t axis) {
  return parts.front().graph->node("Concat", parts, {{"axis", axis}});
}

// Returns the values joined along a new axis.
inline Value stack(const std::vector<Value>& parts, std::int64_t axis) {
  std::vector<Value> rows;
  for (const Value& part : parts) rows.push_back(unsqueeze(part, {axis}));
  return concat(rows, axis);
}

inline Value slice(const Value& x, std::int64_t axis, std::int64_t begin, std::int64_t end,
                   std::int64_t step = 1) {
  Graph& graph = *x.graph;
  return graph.node("Slice", {x, graph.integers({begin}), graph.integers({end}),
                              graph.integers({axis}), graph.integers({step})});
}

// Returns the first `count` rows; count (1) int64.
inline Value first_rows(const Value& x, const Value& count) {
  const Value zero = x.graph->integers({0});
  return x.graph->node("Slice", {x, zero, count, zero});
}

// Returns the last element of an axis, without the axis.
inline Value last(const Value& x, std::int64_t axis) {
  return squeeze(slice(x, axis, -1, std::numeric_limits<std::int64_t>::max()), axis);
}

inline Value gather(const Value& x, const Value& indices, std::int64_t axis = 0) {
  return x.graph->node("Gather", {x, indices}, {{"axis", axis}});
}

// Returns the elements that an index of x's rank, int64, names along an axis.
inline Value gather_elements(const Value& x, std::int64_t axis, const Value& index) {
  return x.graph->node("GatherElements", {x, index}, {{"axis", axis}});
}

// Returns x with each element of `source` added where gather_elements() would read it.
inline Value scatter_add(const Value& x, std::int64_t axis, const Value& index,
                         const Value& source) {
  return x.graph->node("ScatterElements", {x, index, source},
                       {{"axis", axis}, {"reduction", std::string("add")}});
}

// Return the lengths of all axes, or of the axes [begin, end), int64.
inline Value lengths(const Value& x) { return x.graph->node("Shape", {x}); }
inline Value lengths(const Value& x, std::int64_t begin, std::int64_t end) {
  return x.graph->node("Shape", {x}, {{"start", begin}, {"end", end}});
}

// Returns 0, 1, …, count - 1, (count) int64; count (1) int64.
inline Value counted_to(const Value& count) {
  Graph& graph = *count.graph;
  return graph.node("Range", {graph.constant(std::int64_t{0}), squeeze(count, 0),
                              graph.constant(std::int64_t{1})});
}

inline Value to_float(const Value& x) {
  return x.graph->node("Cast", {x}, {{"to", static_cast<std::int64_t>(Type::float32)}});
}

inline Value equal(const Value& x, const Value& y) { return x.graph->node("Equal", {x, y}); }
// Returns the remainder of integers, with the sign of y.
inline Value remainder(const Value& x, const Value& y) { return x.graph->node("Mod", {x, y}); }
inline Value below(const Value& x, const Value& y) { return x.graph->node("Less", {x, y}); }
inline Value either(const Value& x, const Value& y) { return x.graph->node("Or", {x, y}); }
inline Value where(const Value& condition, const Value& x, const Value& y) {
  return x.graph->node("Where", {condition, x, y});
}

}  // namespace tapestry::onnx
