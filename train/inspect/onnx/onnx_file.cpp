#include "train/inspect/onnx/onnx_file.hpp"

#include <bit>
#include <deque>
#include <protozero/pbf_writer.hpp>
#include <protozero/varint.hpp>

#include "autograd/check.hpp"
#include "train/inspect/onnx/proto.hpp"

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

void write(const Node& node, Message&& message) {
  for (const std::string& input : node.inputs) message.add_string(proto::node::input, input);
  message.add_string(proto::node::output, node.output);
  message.add_string(proto::node::name, node.name);
  message.add_string(proto::node::op, node.op);
}

// All of a graph but its initialisers.
std::string structure(const Graph& graph) {
  std::string bytes;
  Message message(bytes);
  message.add_string(proto::graph::name, graph.name());
  for (const Node& node : graph.nodes()) {
    std::string fields;
    write(node, Message(fields));
    message.add_message(proto::graph::node, fields + node.attributes);
  }
  if (!graph.help().empty()) message.add_string(proto::graph::help, graph.help());
  for (const Described& input : graph.inputs()) write(input, Message(message, proto::graph::input));
  for (const Described& output : graph.outputs())
    write(output, Message(message, proto::graph::output));
  return bytes;
}

// The tag and length of a field whose bytes follow.
std::string head_of_field(int field, std::size_t bytes) {
  constexpr std::uint64_t with_length = 2;  // the wire type
  std::string head;
  protozero::add_varint_to_buffer(&head, static_cast<std::uint64_t>(field) << 3 | with_length);
  protozero::add_varint_to_buffer(&head, bytes);
  return head;
}

// What stands before the numbers of an initialiser.
std::string head_of_initialiser(const std::string& name, const Array& array) {
  std::string fields;
  Message tensor(fields);
  for (const std::int64_t length : array.shape())
    tensor.add_int64(proto::tensor::dimension, length);
  tensor.add_enum(proto::tensor::type, static_cast<int>(Type::float32));
  tensor.add_string(proto::tensor::name, name);
  fields += head_of_field(proto::tensor::raw, array.bytes());
  return head_of_field(proto::graph::initialiser, fields.size() + array.bytes()) + fields;
}

// What stands before the graph.
std::string head_of_model(const Graph& graph, const Origin& origin, std::size_t graph_bytes) {
  std::string bytes;
  Message model(bytes);
  model.add_int64(proto::model::ir_version, ir_version);
  model.add_string(proto::model::producer, "tapestry");
  model.add_string(proto::model::producer_version, origin.version);
  if (!graph.help().empty()) model.add_string(proto::model::help, graph.help());
  Message(model, proto::model::opset).add_int64(proto::opset::version, opset);
  std::map<std::string, std::string> metadata = graph.notes();
  metadata.insert(origin.metadata.begin(), origin.metadata.end());
  for (const auto& [key, value] : metadata) {
    Message entry(model, proto::model::metadata);
    entry.add_string(proto::entry::key, key);
    entry.add_string(proto::entry::value, value);
  }
  return bytes + head_of_field(proto::model::graph, graph_bytes);
}

}  // namespace

void expect_fits(const std::string& model, std::int64_t bytes) {
  expect_input(bytes <= most_bytes,
               "--format onnx: the model {} takes {:.2f} GiB; a file of ONNX holds less than 2; "
               "--format safetensors takes the weights out of any model",
               model, static_cast<double>(bytes) / (1 << 30));
}

void write_graph(const std::function<void(const std::vector<std::string_view>& parts)>& write_parts,
                 const Graph& graph, const Origin& origin) {
  std::deque<std::string> heads;  // which parts look at
  std::vector<std::string_view> parts;
  std::size_t bytes = 0;
  const auto add = [&](std::string_view part) {
    parts.push_back(part);
    bytes += part.size();
  };
  add(heads.emplace_back(structure(graph)));
  for (const auto& [name, array] : graph.initialisers()) {
    add(heads.emplace_back(head_of_initialiser(name, array)));
    add({reinterpret_cast<const char*>(array.raw()), array.bytes()});
  }
  const std::string head = head_of_model(graph, origin, bytes);
  expect_fits(graph.name(), static_cast<std::int64_t>(bytes + head.size()));
  parts.insert(parts.begin(), head);
  write_parts(parts);
}

}  // namespace tapestry::onnx
