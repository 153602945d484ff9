#include "train/inspect/onnx/onnx_file.hpp"

#include <bit>
#include <deque>
#include <protozero/pbf_writer.hpp>
#include <protozero/varint.hpp>

#include "autograd/check.hpp"

namespace tapestry::onnx {
namespace {

static_assert(std::endian::native == std::endian::little, "raw numbers are little-endian");

using Message = protozero::pbf_writer;

void write(const Described& described, Message&& value) {
  value.add_string(proto::value::name, described.name);
  {
    Message type(value, proto::value::type);
    Message tensor(type, proto::type::tensor);
    tensor.add_enum(proto::type::element, static_cast<int>(described.type));
    Message shape(tensor, proto::type::shape);
    for (const Dimension& dimension : described.shape) {
      Message axis(shape, proto::type::dimension);
      if (const auto* length = std::get_if<std::int64_t>(&dimension))
        axis.add_int64(proto::type::length, *length);
      else
        axis.add_string(proto::type::symbol, std::get<std::string>(dimension));
    }
  }
  if (!described.help.empty()) value.add_string(proto::value::help, described.help);
}

// Writes the length of each axis, and the type of the elements.
void write_shape(Type type, const auto& shape, Message& tensor) {
  for (const std::int64_t length : shape) tensor.add_int64(proto::tensor::dimension, length);
  tensor.add_enum(proto::tensor::type, static_cast<int>(type));
}

// Write the value of an attribute and return its type.
int write(std::int64_t integer, Message& attribute) {
  attribute.add_int64(proto::attribute::integer, integer);
  return proto::attribute::is_integer;
}

int write(double number, Message& attribute) {
  attribute.add_float(proto::attribute::number, static_cast<float>(number));
  return proto::attribute::is_number;
}

int write(const std::string& text, Message& attribute) {
  attribute.add_bytes(proto::attribute::text, text);
  return proto::attribute::is_text;
}

int write(const std::vector<std::int64_t>& integers, Message& attribute) {
  for (const std::int64_t each : integers) attribute.add_int64(proto::attribute::integers, each);
  return proto::attribute::is_integers;
}

int write(const Numbers& numbers, Message& attribute) {
  Message tensor(attribute, proto::attribute::tensor);
  write_shape(numbers.type, numbers.shape, tensor);
  tensor.add_bytes(proto::tensor::raw, numbers.bytes);
  return proto::attribute::is_tensor;
}

void write(const Node& node, Message&& message) {
  for (const std::string& input : node.inputs) message.add_string(proto::node::input, input);
  message.add_string(proto::node::output, node.output);
  message.add_string(proto::node::name, node.name);
  message.add_string(proto::node::op, node.op);
  for (const Attribute& attribute : node.attributes) {
    Message field(message, proto::node::attribute);
    field.add_string(proto::attribute::name, attribute.name);
    const int type =
        std::visit([&](const auto& value) { return write(value, field); }, attribute.value);
    field.add_enum(proto::attribute::type, type);
  }
}

// Returns a graph without its initializers.
std::string structure(const Graph& graph) {
  std::string bytes;
  Message message(bytes);
  message.add_string(proto::graph::name, graph.name());
  for (const Node& node : graph.nodes()) write(node, Message(message, proto::graph::node));
  if (!graph.help().empty()) message.add_string(proto::graph::help, graph.help());
  for (const Described& input : graph.inputs()) write(input, Message(message, proto::graph::input));
  for (const Described& output : graph.outputs())
    write(output, Message(message, proto::graph::output));
  return bytes;
}

// Returns the tag and length of a field whose bytes follow.
std::string head_of_field(int field, std::size_t bytes) {
  constexpr std::uint64_t with_length = 2;  // the wire type
  std::string head;
  protozero::add_varint_to_buffer(&head, static_cast<std::uint64_t>(field) << 3 | with_length);
  protozero::add_varint_to_buffer(&head, bytes);
  return head;
}

// Returns the bytes before the values of an initializer.
std::string head_of_initializer(const std::string& name, const Array& array) {
  std::string fields;
  Message tensor(fields);
  write_shape(Type::float32, array.shape(), tensor);
  tensor.add_string(proto::tensor::name, name);
  fields += head_of_field(proto::tensor::raw, array.bytes());
  return head_of_field(proto::graph::initializer, fields.size() + array.bytes()) + fields;
}

// Returns the bytes before the graph.
std::string head_of_model(const Graph& graph, const std::string& version, std::size_t graph_bytes) {
  std::string bytes;
  Message model(bytes);
  model.add_int64(proto::model::ir_version, ir_version);
  model.add_string(proto::model::producer, "tapestry");
  model.add_string(proto::model::producer_version, version);
  if (!graph.help().empty()) model.add_string(proto::model::help, graph.help());
  Message(model, proto::model::opset).add_int64(proto::opset::version, opset);
  for (const auto& [key, value] : graph.notes()) {
    Message entry(model, proto::model::metadata);
    entry.add_string(proto::entry::key, key);
    entry.add_string(proto::entry::value, value);
  }
  return bytes + head_of_field(proto::model::graph, graph_bytes);
}

}  // namespace

void expect_fits(const std::string& model, std::int64_t bytes) {
  expect_input(bytes <= most_bytes,
               "--format onnx: the model {} has {:.2f} GiB; expected less than 2 GiB, the limit of "
               "ONNX files; --format safetensors has no limit",
               model, static_cast<double>(bytes) / (1 << 30));
}

void write_graph(const std::function<void(const std::vector<std::string_view>& parts)>& write_parts,
                 const Graph& graph, const std::string& version) {
  std::deque<std::string> heads;  // headers that parts point to
  std::vector<std::string_view> parts;
  std::size_t bytes = 0;
  const auto add = [&](std::string_view part) {
    parts.push_back(part);
    bytes += part.size();
  };
  add(heads.emplace_back(structure(graph)));
  for (const auto& [name, array] : graph.initializers()) {
    add(heads.emplace_back(head_of_initializer(name, array)));
    add({reinterpret_cast<const char*>(array.raw()), array.bytes()});
  }
  const std::string head = head_of_model(graph, version, bytes);
  expect_fits(graph.name(), static_cast<std::int64_t>(bytes + head.size()));
  parts.insert(parts.begin(), head);
  write_parts(parts);
}

}  // namespace tapestry::onnx
