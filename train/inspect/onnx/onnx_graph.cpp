#include "train/inspect/onnx/onnx_graph.hpp"

#include <fmt/ranges.h>

#include <algorithm>

#include "autograd/check.hpp"

namespace tapestry::onnx {
namespace {

template <class Number>
std::string bytes_of(const Number* numbers, std::size_t count) {
  return {reinterpret_cast<const char*>(numbers), count * sizeof(Number)};
}

}  // namespace

Value Graph::input(const Described& described) {
  require(names_.insert(described.name).second,
          "onnx: the name {} is used twice; expected different names", described.name);
  inputs_.push_back(described);
  return {this, described.name};
}

void Graph::output(const Described& described, const Value& value) {
  const auto computes = std::ranges::find(nodes_, value.name, &Node::output);
  require(computes != nodes_.end(),
          "onnx: the output {} is {}, which no node computes; expected the result of a node",
          described.name, value.name);
  require(names_.insert(described.name).second,
          "onnx: the name {} is used twice; expected different names", described.name);
  for (Node& node : nodes_) {
    std::ranges::replace(node.inputs, value.name, described.name);
    if (node.output == value.name) node.output = described.name;
  }
  outputs_.push_back(described);
}

Value Graph::parameter(const Parameter& parameter) {
  const std::string& name = parameter.name;
  require(parameter.value().dtype() == DType::float32,
          "onnx: {} is not float32; expected a model in float32", name);
  if (std::ranges::find(initializers_, name, &Initializer::first) == initializers_.end()) {
    require(names_.insert(name).second, "onnx: the name {} is used twice; expected different names",
            name);
    initializers_.emplace_back(name, parameter.value());
  }
  return {this, name};
}

Value Graph::node(const std::string& op, const std::vector<Value>& inputs,
                  const std::vector<Attribute>& attributes) {
  return add(op, module_.empty() ? op : module_ + "/" + op, inputs, attributes);
}

Value Graph::constant(double number) {
  const auto single = static_cast<float>(number);
  return constant(fmt::to_string(single), {Type::float32, {}, bytes_of(&single, 1)});
}

Value Graph::constant(std::int64_t number) {
  return constant(fmt::to_string(number), {Type::int64, {}, bytes_of(&number, 1)});
}

Value Graph::integers(const std::vector<std::int64_t>& numbers) {
  const bool few = numbers.size() <= 8;
  return constant(few ? fmt::format("[{}]", fmt::join(numbers, ",")) : "indices",
                  {Type::int64, {std::ssize(numbers)}, bytes_of(numbers.data(), numbers.size())});
}

Value Graph::constant(const Array& numbers, const std::string& name) {
  const bool is_wide = numbers.dtype() == DType::float64;
  return constant(name, {is_wide ? Type::float64 : Type::float32,
                         {numbers.shape().begin(), numbers.shape().end()},
                         {reinterpret_cast<const char*>(numbers.raw()), numbers.bytes()}});
}

Value Graph::constant(const std::string& name, Numbers numbers) {
  return add("Constant", "constants/" + name, {}, {{"value", std::move(numbers)}});
}

Value Graph::add(const std::string& op, const std::string& name, const std::vector<Value>& inputs,
                 const std::vector<Attribute>& attributes) {
  Node node{.op = op, .attributes = attributes};
  for (const Value& input : inputs) node.inputs.push_back(input.name);
  for (const Node& other : nodes_)
    if (other.op == op && other.inputs == node.inputs && other.attributes == attributes)
      return {this, other.output};
  node.name = node.output = unused(name);
  nodes_.push_back(node);
  return {this, node.output};
}

// Returns the name or, if it is used, the first unused one of name_1, name_2, …
std::string Graph::unused(const std::string& name) {
  std::string candidate = name;
  for (int i = 1; !names_.insert(candidate).second; ++i) candidate = fmt::format("{}_{}", name, i);
  return candidate;
}

}  // namespace tapestry::onnx
