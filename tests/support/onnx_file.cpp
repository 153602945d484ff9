#include "tests/support/onnx_file.hpp"

#include <cstring>
#include <protozero/pbf_reader.hpp>

#include "autograd/check.hpp"
#include "train/inspect/onnx/onnx_file.hpp"

namespace tapestry {
namespace {

using Reader = protozero::pbf_reader;
namespace proto = onnx::proto;

template <class Stored>
std::vector<double> numbers_in(const std::string& raw) {
  std::vector<Stored> stored(raw.size() / sizeof(Stored));
  std::memcpy(stored.data(), raw.data(), raw.size());
  return {stored.begin(), stored.end()};
}

struct StoredTensor {
  std::string name{}, raw{};
  std::vector<std::int64_t> shape{};
  int type = 0;
};

StoredTensor stored_tensor(Reader message) {
  StoredTensor tensor;
  while (message.next()) {
    const int tag = static_cast<int>(message.tag());
    if (tag == proto::tensor::dimension)
      tensor.shape.push_back(message.get_int64());
    else if (tag == proto::tensor::type)
      tensor.type = message.get_enum();
    else if (tag == proto::tensor::name)
      tensor.name = message.get_string();
    else if (tag == proto::tensor::raw)
      tensor.raw = message.get_bytes();
    else
      require(false, "a tensor with a field {}", message.tag());
  }
  return tensor;
}

OnnxTensor tensor_of(const StoredTensor& stored) {
  constexpr int is_float = 1, is_int64 = 7, is_double = 11;
  require(stored.type == is_float || stored.type == is_int64 || stored.type == is_double,
          "a tensor of type {}", stored.type);
  return {.shape = stored.shape,
          .values = stored.type == is_float    ? numbers_in<float>(stored.raw)
                    : stored.type == is_double ? numbers_in<double>(stored.raw)
                                               : numbers_in<std::int64_t>(stored.raw)};
}

std::pair<std::string, OnnxAttribute> attribute_of(Reader message) {
  std::string name;
  OnnxAttribute attribute;
  while (message.next()) {
    const int tag = static_cast<int>(message.tag());
    if (tag == proto::attribute::name)
      name = message.get_string();
    else if (tag == proto::attribute::number)
      attribute.number = message.get_float();
    else if (tag == proto::attribute::integer)
      attribute.integer = message.get_int64();
    else if (tag == proto::attribute::text)
      attribute.text = message.get_bytes();
    else if (tag == proto::attribute::integers)
      attribute.integers.push_back(message.get_int64());
    else if (tag == proto::attribute::tensor)
      attribute.tensor = tensor_of(stored_tensor(message.get_message()));
    else
      message.skip();
  }
  return {name, attribute};
}

OnnxNode node_of(Reader message) {
  OnnxNode node;
  while (message.next()) {
    const int tag = static_cast<int>(message.tag());
    if (tag == proto::node::input)
      node.inputs.push_back(message.get_string());
    else if (tag == proto::node::output)
      node.output = message.get_string();
    else if (tag == proto::node::name)
      node.name = message.get_string();
    else if (tag == proto::node::op)
      node.op = message.get_string();
    else if (tag == proto::node::attribute)
      node.attributes.insert(attribute_of(message.get_message()));
    else
      require(false, "a node with a field {}", message.tag());
  }
  return node;
}

std::string dimension_of(Reader message) {
  std::string text;
  while (message.next())
    text = message.tag() == proto::type::length ? std::to_string(message.get_int64())
                                                : message.get_string();
  return text;
}

// Reads the only field of a message, which is a message.
Reader only(Reader message, int field) {
  require(message.next() && static_cast<int>(message.tag()) == field, "no field {}", field);
  return message.get_message();
}

OnnxInput input_of(Reader message) {
  OnnxInput input;
  while (message.next()) {
    const int tag = static_cast<int>(message.tag());
    if (tag == proto::value::type) {
      Reader tensor = only(message.get_message(), proto::type::tensor);
      while (tensor.next()) {
        if (tensor.tag() == proto::type::element) {
          input.type = tensor.get_enum();
          continue;
        }
        Reader shape = tensor.get_message();
        while (shape.next()) input.shape.push_back(dimension_of(shape.get_message()));
      }
    } else if (tag == proto::value::name)
      input.name = message.get_string();
    else
      message.skip();
  }
  return input;
}

void read_graph(Reader message, OnnxModel& model) {
  while (message.next()) {
    const int tag = static_cast<int>(message.tag());
    if (tag == proto::graph::name)
      model.name = message.get_string();
    else if (tag == proto::graph::node)
      model.nodes.push_back(node_of(message.get_message()));
    else if (tag == proto::graph::initializer) {
      const StoredTensor tensor = stored_tensor(message.get_message());
      model.initializers.push_back({tensor.name, tensor.shape, tensor.raw});
    } else if (tag == proto::graph::input)
      model.inputs.push_back(input_of(message.get_message()));
    else if (tag == proto::graph::output)
      model.outputs.push_back(input_of(message.get_message()));
    else
      message.skip();
  }
}

}  // namespace

OnnxModel parse_onnx(const std::string& bytes) {
  OnnxModel model;
  Reader message(bytes);
  while (message.next()) {
    const int tag = static_cast<int>(message.tag());
    if (tag == proto::model::ir_version)
      model.ir_version = message.get_int64();
    else if (tag == proto::model::producer)
      model.producer = message.get_string();
    else if (tag == proto::model::opset) {
      Reader opset = message.get_message();
      while (opset.next(proto::opset::version)) model.opset = opset.get_int64();
    } else if (tag == proto::model::metadata) {
      Reader entry = message.get_message();
      std::string parts[2];
      while (entry.next()) {
        std::string& part = parts[entry.tag() - proto::entry::key];  // reading it clears the tag
        part = entry.get_string();
      }
      model.metadata[parts[0]] = parts[1];
    } else if (tag == proto::model::graph)
      read_graph(message.get_message(), model);
    else
      message.skip();
  }
  return model;
}

}  // namespace tapestry
