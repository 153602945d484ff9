#include "train/inspect/onnx/ops.hpp"

#include <limits>

namespace tapestry::onnx {
namespace {

Value unary(const char* op, const Value& x) { return x.graph->node(op, {x}); }

Value binary(const char* op, const Value& x, const Value& y) { return x.graph->node(op, {x, y}); }

Value list(const Value& x, const std::vector<std::int64_t>& numbers) {
  return x.graph->integers(numbers);
}

std::int64_t kept(Keep keep) { return keep == Keep::yes ? 1 : 0; }

}  // namespace

Value operator+(const Value& x, const Value& y) { return binary("Add", x, y); }
Value operator-(const Value& x, const Value& y) { return binary("Sub", x, y); }
Value operator*(const Value& x, const Value& y) { return binary("Mul", x, y); }
Value operator/(const Value& x, const Value& y) { return binary("Div", x, y); }
Value operator+(const Value& x, double y) { return x + x.graph->constant(y); }
Value operator-(double x, const Value& y) { return y.graph->constant(x) - y; }
Value operator*(const Value& x, double y) { return x * x.graph->constant(y); }
Value operator/(double x, const Value& y) { return y.graph->constant(x) / y; }
Value operator-(const Value& x) { return unary("Neg", x); }

Value sqrt(const Value& x) { return unary("Sqrt", x); }
Value exp(const Value& x) { return unary("Exp", x); }
Value sin(const Value& x) { return unary("Sin", x); }
Value cos(const Value& x) { return unary("Cos", x); }
Value tanh(const Value& x) { return unary("Tanh", x); }
Value erf(const Value& x) { return unary("Erf", x); }
Value relu(const Value& x) { return unary("Relu", x); }
Value sigmoid(const Value& x) { return unary("Sigmoid", x); }
Value softplus(const Value& x) { return unary("Softplus", x); }
Value softmax(const Value& x) { return x.graph->node("Softmax", {x}, {{"axis", -1}}); }
Value at_least(const Value& x, const Value& y) { return binary("Max", x, y); }

Value sum(const Value& x, std::int64_t axis, Keep keep) {
  return x.graph->node("ReduceSum", {x, list(x, {axis})}, {{"keepdims", kept(keep)}});
}

Value mean(const Value& x, std::int64_t axis, Keep keep) {
  return x.graph->node("ReduceMean", {x},
                       {{"axes", std::vector<std::int64_t>{axis}}, {"keepdims", kept(keep)}});
}

Value max(const Value& x, std::int64_t axis, Keep keep) {
  return x.graph->node("ReduceMax", {x},
                       {{"axes", std::vector<std::int64_t>{axis}}, {"keepdims", kept(keep)}});
}

Value running_sum(const Value& x, std::int64_t axis) {
  return x.graph->node("CumSum", {x, x.graph->constant(axis)});
}

Value sum_after(const Value& x, std::int64_t axis) {
  return x.graph->node("CumSum", {x, x.graph->constant(axis)}, {{"exclusive", 1}, {"reverse", 1}});
}

Value matmul(const Value& x, const Value& y) { return binary("MatMul", x, y); }

Value transpose(const Value& x, const std::vector<std::int64_t>& order) {
  return x.graph->node("Transpose", {x}, {{"perm", order}});
}

Value reshape(const Value& x, const std::vector<std::int64_t>& shape) {
  return reshape(x, list(x, shape));
}

Value reshape(const Value& x, const Value& shape) { return binary("Reshape", x, shape); }
Value expand(const Value& x, const Value& shape) { return binary("Expand", x, shape); }

Value unsqueeze(const Value& x, const std::vector<std::int64_t>& axes) {
  return binary("Unsqueeze", x, list(x, axes));
}

Value squeeze(const Value& x, std::int64_t axis) { return binary("Squeeze", x, list(x, {axis})); }

Value concat(const std::vector<Value>& parts, std::int64_t axis) {
  return parts.front().graph->node("Concat", parts, {{"axis", axis}});
}

Value slice(const Value& x, std::int64_t axis, std::int64_t begin, std::int64_t end,
            std::int64_t step) {
  return x.graph->node("Slice",
                       {x, list(x, {begin}), list(x, {end}), list(x, {axis}), list(x, {step})});
}

Value first_rows(const Value& x, const Value& count) {
  return x.graph->node("Slice", {x, list(x, {0}), count, list(x, {0})});
}

Value last(const Value& x, std::int64_t axis) {
  return squeeze(slice(x, axis, -1, std::numeric_limits<std::int64_t>::max()), axis);
}

Value gather(const Value& x, const Value& indices, std::int64_t axis) {
  return x.graph->node("Gather", {x, indices}, {{"axis", axis}});
}

Value lengths(const Value& x, std::int64_t begin, std::int64_t end) {
  return x.graph->node("Shape", {x}, {{"start", begin}, {"end", end}});
}

Value lengths(const Value& x) { return unary("Shape", x); }

Value counted_to(const Value& count) {
  Graph& graph = *count.graph;
  return graph.node("Range", {graph.constant(std::int64_t{0}), squeeze(count, 0),
                              graph.constant(std::int64_t{1})});
}

Value to_float(const Value& x) {
  return x.graph->node("Cast", {x}, {{"to", static_cast<std::int64_t>(Type::float32)}});
}

Value equal(const Value& x, const Value& y) { return binary("Equal", x, y); }
Value below(const Value& x, const Value& y) { return binary("Less", x, y); }
Value either(const Value& x, const Value& y) { return binary("Or", x, y); }

Value where(const Value& condition, const Value& x, const Value& y) {
  return condition.graph->node("Where", {condition, x, y});
}

}  // namespace tapestry::onnx
