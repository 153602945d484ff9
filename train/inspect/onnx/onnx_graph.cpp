#include "train/inspect/onnx/onnx_graph.hpp"

#include <fmt/ranges.h>

#include <algorithm>
#include <protozero/pbf_writer.hpp>

#include "autograd/check.hpp"
#include "train/inspect/onnx/proto.hpp"

namespace tapestry::onnx {
namespace {

using Message = protozero::pbf_writer;

std::string serialised(const std::vector<Attribute>& attributes) {
  std::string bytes;
  Message node(bytes);
  for (const Attribute& attribute : attributes) {
    Message message(node, proto::node::attribute);
    message.add_string(proto::attribute::name, attribute.name);
    if (const auto* integer = std::get_if<std::int64_t>(&attribute.value)) {
      message.add_int64(proto::attribute::integer, *integer);
      message.add_enum(proto::attribute::type, proto::attribute::is_integer);
    } else if (const auto* number = std::get_if<double>(&attribute.value)) {
      message.add_float(proto::attribute::number, static_cast<float>(*number));
      message.add_enum(proto::attribute::type, proto::attribute::is_number);
    } else {
      for (const std::int64_t each : std::get<std::vector<std::int64_t>>(attribute.value))
        message.add_int64(proto::attribute::integers, each);
      message.add_enum(proto::attribute::type, proto::attribute::is_integers);
    }
  }
  return bytes;
}

// The attribute of a constant.
std::string tensor_attribute(Type type, const std::vector<std::int64_t>& shape,
                             std::string_view raw) {
  std::string bytes;
  Message node(bytes);
  Message attribute(node, proto::node::attribute);
  attribute.add_string(proto::attribute::name, "value");
  {
    Message tensor(attribute, proto::attribute::tensor);
    for (const std::int64_t length : shape) tensor.add_int64(proto::tensor::dimension, length);
    tensor.add_enum(proto::tensor::type, static_cast<int>(type));
    tensor.add_bytes(proto::tensor::raw, raw.data(), raw.size());
  }
  attribute.add_enum(proto::attribute::type, proto::attribute::is_tensor);
  return bytes;
}

template <class Number>
std::string_view bytes_of(const Number* numbers, std::size_t count) {
  return {reinterpret_cast<const char*>(numbers), count * sizeof(Number)};
}

}  // namespace

Value Graph::input(const Described& described) {
  require(names_.insert(described.name).second, "onnx: two inputs {}", described.name);
  inputs_.push_back(described);
  return {this, described.name};
}

void Graph::output(const Described& described, const Value& value) {
  const auto computes = std::ranges::find(nodes_, value.name, &Node::output);
  require(computes != nodes_.end() && names_.insert(described.name).second,
          "onnx: {} as the output {}", value.name, described.name);
  for (Node& node : nodes_) {
    std::ranges::replace(node.inputs, value.name, described.name);
    if (node.output == value.name) node.output = described.name;
  }
  outputs_.push_back(described);
}

Value Graph::parameter(const Parameter& parameter) {
  const std::string& name = parameter.name;
  require(parameter.value().dtype() == DType::float32, "onnx: {} is not float32", name);
  if (std::ranges::find(initialisers_, name, &Initialiser::first) == initialisers_.end()) {
    require(names_.insert(name).second, "onnx: something else is named {}", name);
    initialisers_.emplace_back(name, parameter.value());
  }
  return {this, name};
}

Value Graph::node(const std::string& op, const std::vector<Value>& inputs,
                  const std::vector<Attribute>& attributes) {
  return add(op, module_.empty() ? op : module_ + "/" + op, inputs, serialised(attributes));
}

Value Graph::constant(double number) {
  const auto single = static_cast<float>(number);
  return add("Constant", fmt::format("constants/{}", single), {},
             tensor_attribute(Type::float32, {}, bytes_of(&single, 1)));
}

Value Graph::constant(std::int64_t number) {
  return add("Constant", fmt::format("constants/{}", number), {},
             tensor_attribute(Type::int64, {}, bytes_of(&number, 1)));
}

Value Graph::integers(const std::vector<std::int64_t>& numbers) {
  return add("Constant",
             numbers.size() <= 8 ? fmt::format("constants/[{}]", fmt::join(numbers, ","))
                                 : "constants/indices",
             {},
             tensor_attribute(Type::int64, {std::ssize(numbers)},
                              bytes_of(numbers.data(), numbers.size())));
}

Value Graph::constant(const Array& numbers, const std::string& name) {
  const auto values = numbers.values<float>();
  return add("Constant", "constants/" + name, {},
             tensor_attribute(Type::float32, {numbers.shape().begin(), numbers.shape().end()},
                              bytes_of(values.data(), values.size())));
}

Value Graph::add(const std::string& op, const std::string& name, const std::vector<Value>& inputs,
                 const std::string& attributes) {
  Node node{.op = op, .attributes = attributes};
  for (const Value& input : inputs) node.inputs.push_back(input.name);
  const std::string computes =
      fmt::format("{}({}){}", op, fmt::join(node.inputs, "\n"), attributes);
  std::string& output = computed_[computes];
  if (output.empty()) {
    output = node.name = node.output = unused(name);
    nodes_.push_back(std::move(node));
  }
  return {this, output};
}

// The name, or where it is taken the first of name_1, name_2, … that is not.
std::string Graph::unused(const std::string& name) {
  std::string candidate = name;
  for (int i = 1; !names_.insert(candidate).second; ++i) candidate = fmt::format("{}_{}", name, i);
  return candidate;
}

}  // namespace tapestry::onnx
