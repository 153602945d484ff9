#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <variant>
#include <vector>

#include "autograd/parameter.hpp"
#include "autograd/restore.hpp"

// A model as a graph of the operators of ONNX (github.com/onnx/onnx, docs/IR.md), opset 17: what
// layers compute, written down in place of being computed.
namespace tapestry::onnx {

inline constexpr std::int64_t opset = 17, ir_version = 8;  // the latter is the first with opset 17

// Of the elements of a tensor, by their numbers in the format.
enum class Type { float32 = 1, int64 = 7, boolean = 9 };

// An axis of a tensor that goes in or comes out: how long it is, or a name where that differs from
// call to call.
using Dimension = std::variant<std::int64_t, std::string>;

struct Described {
  std::string name{};
  Type type = Type::float32;
  std::vector<Dimension> shape{};
  std::string help{};
};

// The numbers that a Constant node holds.
struct Numbers {
  Type type;
  std::vector<std::int64_t> shape;
  std::string bytes;
  bool operator==(const Numbers&) const = default;
};

struct Attribute {
  std::string name;
  std::variant<std::int64_t, double, std::vector<std::int64_t>, Numbers> value;
  bool operator==(const Attribute&) const = default;
};

class Graph;

// A tensor of a graph: an input, a parameter, or what a node computes.
struct Value {
  Graph* graph;
  std::string name;
};

struct Node {
  std::string op{}, name{};  // its output has its name, but for outputs of the graph
  std::vector<std::string> inputs{};
  std::string output{};
  std::vector<Attribute> attributes{};
};

// Nodes are added after what they read, and are named by their module and operator:
// "blocks.0.attention/Softmax". One that computes what an earlier one does is that one.
class Graph final {
 public:
  explicit Graph(std::string name, std::string help = "")
      : name_(std::move(name)), help_(std::move(help)) {}
  Graph(const Graph&) = delete;
  Graph& operator=(const Graph&) = delete;

  Value input(const Described& described);
  // The value, which a node computed, takes the name that is described.
  void output(const Described& described, const Value& value);

  // Adds what a file says of the model besides: its classes, its tokens. The first of a name stays.
  void note(const std::string& name, const std::string& text) { notes_.emplace(name, text); }

  // An initialiser of the parameter's name, float32, that shares its memory.
  Value parameter(const Parameter& parameter);

  Value node(const std::string& op, const std::vector<Value>& inputs,
             const std::vector<Attribute>& attributes = {});

  // A node that holds numbers; `name` says what they are, where they do not say it themselves.
  Value constant(double number);
  Value constant(std::int64_t number);
  Value integers(const std::vector<std::int64_t>& numbers);       // (count) int64
  Value constant(const Array& numbers, const std::string& name);  // float32

  const std::string& name() const { return name_; }
  const std::string& help() const { return help_; }
  const std::vector<Described>& inputs() const { return inputs_; }
  const std::vector<Described>& outputs() const { return outputs_; }
  const std::map<std::string, std::string>& notes() const { return notes_; }
  const std::vector<Node>& nodes() const { return nodes_; }
  using Initialiser = std::pair<std::string, Array>;
  const std::vector<Initialiser>& initialisers() const { return initialisers_; }

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
  std::vector<Initialiser> initialisers_{};
  std::set<std::string> names_{};
};

// The models of a run, one file each, by their graphs' names.
using Models = std::vector<std::shared_ptr<Graph>>;

// While it lives, nodes are named after a module.
class Within final : Restore<std::string> {
 public:
  Within(const Value& value, const std::string& module) : Restore(value.graph->module_, module) {}
};

}  // namespace tapestry::onnx
