#include "train/inspect/inspector.hpp"

#include <algorithm>
#include <cmath>

#include "train/config/keys.hpp"
#include "train/inspect/onnx/graph.hpp"

namespace tapestry {
namespace {

template <class Shown>
constexpr const char* missing = "";
template <>
constexpr const char* missing<Sample> = "this run's model has no samples to show";
template <>
constexpr const char* missing<Talk> = "this run's model writes no texts: it cannot be talked with";
template <>
constexpr const char* missing<TokenReader> = "this run's inputs are no tokens of a text";
template <>
constexpr const char* missing<AttentionMaps> = "this run's model has no attention to draw";
template <>
constexpr const char* missing<LatentCodes> = "this run's model has no latent space to draw";
template <>
constexpr const char* missing<Exhibits> = "this run's model has nothing more to show";
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
std::map<std::string, View<Shown>>& views() {
  static std::map<std::string, View<Shown>> registry;
  return registry;
}

template <class Shown>
Shown look_at(const Config& config, Task& task, const TypedOptions& typed) {
  const auto view = views<Shown>().find(config[key::task]);
  expect_input(view != views<Shown>().end(), "{}", missing<Shown>);
  Options options(view->second.options);
  for (const auto& [name, text] : typed) options.set(name, text);
  options.expect_all_used();
  return view->second.show(task, options);
}

template std::map<std::string, View<Sample>>& views();
template std::map<std::string, View<Talk>>& views();
template std::map<std::string, View<TokenReader>>& views();
template std::map<std::string, View<AttentionMaps>>& views();
template std::map<std::string, View<LatentCodes>>& views();
template std::map<std::string, View<Exhibits>>& views();
template std::map<std::string, View<onnx::Models>>& views();
template Sample look_at(const Config&, Task&, const TypedOptions&);
template Talk look_at(const Config&, Task&, const TypedOptions&);
template TokenReader look_at(const Config&, Task&, const TypedOptions&);
template AttentionMaps look_at(const Config&, Task&, const TypedOptions&);
template LatentCodes look_at(const Config&, Task&, const TypedOptions&);
template Exhibits look_at(const Config&, Task&, const TypedOptions&);
template onnx::Models look_at(const Config&, Task&, const TypedOptions&);

}  // namespace tapestry
