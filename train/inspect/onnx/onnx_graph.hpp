#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <variant>
#include <vector>

#include "autograd/restore.hpp"
#include "autograd/tensor.hpp"
#include "autograd/variant.hpp"
#include "train/inspect/inspected.hpp"

// A model as a graph of ONNX operators (github.com/onnx/onnx, docs/IR.md) of opset 17. Functions
// that mirror the layers add the nodes; they compute nothing.
namespace tapestry::onnx {

inline constexpr std::int64_t opset = 17, ir_version = 8;  // the first IR version with opset 17

// The type of a tensor's elements, by its number in the format.
enum class Type { float32 = 1, int64 = 7, boolean = 9, float64 = 11 };

// The length of an axis of an input or output, or a name if the length may differ between calls.
using Dimension = Variant<std::int64_t, std::string>;

// An input or output of a graph.
struct Described {
  std::string name{};
  Type type = Type::float32;
  std::vector<Dimension> shape{};
  std::string help{};
};

// The value of a Constant node.
struct Numbers {
  Type type;
  std::vector<std::int64_t> shape;
  std::string bytes;
  bool operator==(const Numbers&) const = default;
};

struct Attribute {
  std::string name;
  std::variant<std::int64_t, double, std::string, std::vector<std::int64_t>, Numbers> value;
  bool operator==(const Attribute&) const = default;
};

class Graph;

// A tensor of a graph: an input, a parameter, or the output of a node.
struct Value {
  Graph* graph;
  std::string name;
};

struct Node {
  std::string op{}, name{};  // name: also of its output, except for outputs of the graph
  std::vector<std::string> inputs{};
  std::string output{};
  std::vector<Attribute> attributes{};
};

// An ONNX graph under construction. Nodes are added in the order of computation and named by their
// module and operator, as in "blocks.0.attention/Softmax". A node that equals an earlier one is not
// added again.
class Graph final {
 public:
  explicit Graph(std::string name, std::string help = "")
      : name_(std::move(name)), help_(std::move(help)) {}
  Graph(const Graph&) = delete;
  Graph& operator=(const Graph&) = delete;

  // Adds an input of the graph. Throws std::invalid_argument for a used name.
  Value input(const Described& described);
  // Makes the output of a node an output of the graph, under the given name. Throws
  // std::invalid_argument for any other value or a used name.
  void output(const Described& described, const Value& value);

  // Adds metadata to the file, such as classes or tokens. The first entry of a name is kept.
  void note(const std::string& name, const std::string& text) { notes_.emplace(name, text); }

  // Returns an initializer with the name and the memory of the parameter. Throws
  // std::invalid_argument unless the parameter is float32, and if a node or input has this name.
  Value parameter(const Parameter& parameter);

  // Adds a node, unless an equal one exists, and returns its output.
  Value node(const std::string& op, const std::vector<Value>& inputs,
             const std::vector<Attribute>& attributes = {});

  // Return a Constant node; a double as float32. `name` describes numbers that are too many to be
  // part of a name.
  Value constant(double number);
  Value constant(std::int64_t number);
  Value integers(const std::vector<std::int64_t>& numbers);       // (count) int64
  Value constant(const Array& numbers, const std::string& name);  // float32 or float64

  const std::string& name() const { return name_; }
  const std::string& help() const { return help_; }
  const std::vector<Described>& inputs() const { return inputs_; }
  const std::vector<Described>& outputs() const { return outputs_; }
  const std::map<std::string, std::string>& notes() const { return notes_; }
  const std::vector<Node>& nodes() const { return nodes_; }
  using Initializer = std::pair<std::string, Array>;
  const std::vector<Initializer>& initializers() const { return initializers_; }

 private:
  friend class Within;

  Value add(const std::string& op, const std::string& name, const std::vector<Value>& inputs,
            const std::vector<Attribute>& attributes);
  Value constant(const std::string& name, Numbers numbers);
  std::string unused(const std::string& name);

  std::string name_, help_, module_;
  std::vector<Described> inputs_{}, outputs_{};
  std::map<std::string, std::string> notes_{};
  std::vector<Node> nodes_{};
  std::vector<Initializer> initializers_{};
  std::set<std::string> names_{};
};

// A guard under which new nodes are named after a module.
class Within final : Restore<std::string> {
 public:
  Within(const Value& value, const std::string& module) : Restore(value.graph->module_, module) {}
};

}  // namespace tapestry::onnx
