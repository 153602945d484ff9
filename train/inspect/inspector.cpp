#include "train/inspect/inspector.hpp"

#include <algorithm>
#include <cmath>

#include "train/config/keys.hpp"
#include "train/inspect/onnx/onnx_graph.hpp"

namespace tapestry {
namespace {

template <class Shown>
constexpr const char* missing = "";
template <>
constexpr const char* missing<Sample> = "this run's model has no samples to show";
template <>
constexpr const char* missing<ChatSession> =
    "this run's model writes no texts: it cannot be talked with";
template <>
constexpr const char* missing<TokenReader> = "this run's inputs are no tokens of a text";
template <>
constexpr const char* missing<AttentionMaps> = "this run's model has no attention to draw";
template <>
constexpr const char* missing<LatentCodes> = "this run's model has no latent space to draw";
template <>
constexpr const char* missing<ReportPanels> = "this run's model has nothing more to show";
template <>
constexpr const char* missing<onnx::Models> =
    "this run's model has no form in ONNX; --format safetensors takes the weights out of any model";

}  // namespace

void expect_finite(const Array& outputs) {
  expect_input(
      std::ranges::all_of(outputs.values<float>(), [](float x) { return std::isfinite(x); }),
      "what the model computes is not finite: nothing of it is shown");
}

template <class Shown>
std::map<std::string, Inspector<Shown>>& inspectors() {
  static std::map<std::string, Inspector<Shown>> registry;
  return registry;
}

template <class Shown>
Shown inspect(const Config& config, Task& task, const TypedOptions& typed) {
  const auto view = inspectors<Shown>().find(config[key::task]);
  expect_input(view != inspectors<Shown>().end(), "{}", missing<Shown>);
  Options options(view->second.options);
  for (const auto& [name, text] : typed) options.set(name, text);
  options.expect_all_used();
  return view->second.show(task, options);
}

template std::map<std::string, Inspector<Sample>>& inspectors();
template std::map<std::string, Inspector<ChatSession>>& inspectors();
template std::map<std::string, Inspector<TokenReader>>& inspectors();
template std::map<std::string, Inspector<AttentionMaps>>& inspectors();
template std::map<std::string, Inspector<LatentCodes>>& inspectors();
template std::map<std::string, Inspector<ReportPanels>>& inspectors();
template std::map<std::string, Inspector<onnx::Models>>& inspectors();
template Sample inspect(const Config&, Task&, const TypedOptions&);
template ChatSession inspect(const Config&, Task&, const TypedOptions&);
template TokenReader inspect(const Config&, Task&, const TypedOptions&);
template AttentionMaps inspect(const Config&, Task&, const TypedOptions&);
template LatentCodes inspect(const Config&, Task&, const TypedOptions&);
template ReportPanels inspect(const Config&, Task&, const TypedOptions&);
template onnx::Models inspect(const Config&, Task&, const TypedOptions&);

}  // namespace tapestry
