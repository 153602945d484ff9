#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

// Models in ONNX: reads and evaluates their files.
namespace tapestry {

// Elements of any type, as numbers.
struct OnnxTensor {
  std::vector<std::int64_t> shape{};
  std::vector<double> values{};
};

struct OnnxAttribute {
  std::int64_t integer = 0;
  double number = 0;
  std::string text{};
  std::vector<std::int64_t> integers{};
  OnnxTensor tensor{};
};

struct OnnxNode {
  std::string op{}, name{};
  std::vector<std::string> inputs{};
  std::string output{};
  std::map<std::string, OnnxAttribute> attributes{};
};

struct OnnxInitializer {
  std::string name{};
  std::vector<std::int64_t> shape{};
  std::string raw{};  // float32
};

struct OnnxInput {  // or an output
  std::string name{};
  int type = 0;
  std::vector<std::string> shape{};  // numbers and names
};

struct OnnxModel {
  std::int64_t ir_version = 0, opset = 0;
  std::string producer{}, name{};
  std::map<std::string, std::string> metadata{};
  std::vector<OnnxNode> nodes{};
  std::vector<OnnxInitializer> initializers{};
  std::vector<OnnxInput> inputs{}, outputs{};
};

OnnxModel parse_onnx(const std::string& bytes);

// Returns the outputs by name, computed node by node in double precision.
using OnnxTensors = std::map<std::string, OnnxTensor>;
OnnxTensors evaluate(const OnnxModel& model, const OnnxTensors& inputs);

}  // namespace tapestry
