#pragma once

#include "autograd/ops/reduce.hpp"
#include "train/inspect/onnx/onnx_graph.hpp"

// The operators, as expressions: each adds a node, and computes nothing. Shapes broadcast. An axis
// may be counted from the end, and a length of 0 in a new shape stands for that of the old one.
namespace tapestry::onnx {

Value operator+(const Value& x, const Value& y);
Value operator-(const Value& x, const Value& y);
Value operator*(const Value& x, const Value& y);
Value operator/(const Value& x, const Value& y);
Value operator+(const Value& x, double y);
Value operator-(double x, const Value& y);
Value operator*(const Value& x, double y);
Value operator/(double x, const Value& y);
Value operator-(const Value& x);

Value sqrt(const Value& x);
Value exp(const Value& x);
Value sin(const Value& x);
Value cos(const Value& x);
Value tanh(const Value& x);
Value erf(const Value& x);
Value relu(const Value& x);
Value sigmoid(const Value& x);
Value softplus(const Value& x);  // log(1 + e^x)
Value softmax(const Value& x);   // over the last axis
Value at_least(const Value& x, const Value& y);

Value sum(const Value& x, std::int64_t axis, Keep keep = Keep::no);
Value mean(const Value& x, std::int64_t axis, Keep keep = Keep::no);
Value max(const Value& x, std::int64_t axis, Keep keep = Keep::no);
Value running_sum(const Value& x, std::int64_t axis);  // up to each place, and with it
Value sum_after(const Value& x, std::int64_t axis);    // from each place on, and without it

Value matmul(const Value& x, const Value& y);  // of the last two axes
Value transpose(const Value& x, const std::vector<std::int64_t>& order);
Value reshape(const Value& x, const std::vector<std::int64_t>& shape);
Value reshape(const Value& x, const Value& shape);
Value expand(const Value& x, const Value& shape);
Value unsqueeze(const Value& x, const std::vector<std::int64_t>& axes);
Value squeeze(const Value& x, std::int64_t axis);
Value concat(const std::vector<Value>& parts, std::int64_t axis);
Value slice(const Value& x, std::int64_t axis, std::int64_t begin, std::int64_t end,
            std::int64_t step = 1);
Value first_rows(const Value& x, const Value& count);  // count (1) int64
Value last(const Value& x, std::int64_t axis);         // without the axis
Value gather(const Value& x, const Value& indices, std::int64_t axis = 0);

// The lengths of the axes [begin, end), int64.
Value lengths(const Value& x, std::int64_t begin, std::int64_t end);
Value lengths(const Value& x);
Value counted_to(const Value& count);  // count (1) int64 -> 0, 1, … (count) int64
Value to_float(const Value& x);

Value equal(const Value& x, const Value& y);
Value below(const Value& x, const Value& y);
Value either(const Value& x, const Value& y);
Value where(const Value& condition, const Value& x, const Value& y);

}  // namespace tapestry::onnx
