#include "train/inspect/onnx/models.hpp"
#include "train/tasks/images/vae.hpp"

namespace tapestry {
namespace {

using onnx::Graph, onnx::Value;

onnx::Described images_of(const VaeOptions& options, const std::string& help) {
  return {.name = "images", .shape = {"batch", options.height, options.width}, .help = help};
}

std::shared_ptr<Graph> encoder_graph(const Vae& model) {
  const VaeOptions& options = model.options;
  auto graph = std::make_shared<Graph>("encoder", "Where images lie in the latent space.");
  const Value images = graph->input(images_of(options, "grey, from 0, black, to 1, white"));
  const onnx::Posterior found = onnx::encode(model, onnx::reshape(images, {0, options.pixels()}));
  const auto latent = [&](const std::string& name, const std::string& help) {
    return onnx::Described{.name = name, .shape = {"batch", options.latent}, .help = help};
  };
  graph->output(latent("mean", "of q(z | x)"), found.mean);
  if (found.log_variance)
    graph->output(latent("log_variance", "of q(z | x): z = mean + exp(log_variance / 2) noise"),
                  *found.log_variance);
  return graph;
}

std::shared_ptr<Graph> decoder_graph(const Vae& model) {
  const VaeOptions& options = model.options;
  auto graph = std::make_shared<Graph>("decoder", "The images of points of the latent space.");
  const Value z = graph->input({.name = "z",
                                .shape = {"batch", options.latent},
                                .help = "the mean of an image, or a draw from N(0, 1)"});
  graph->output(images_of(options, "the mean of p(x | z): grey, from 0, black, to 1, white"),
                onnx::reshape(onnx::expected_image(model, z), {0, options.height, options.width}));
  return graph;
}

}  // namespace

onnx::Models vae_graphs(VaeTask& task) {
  return {encoder_graph(task.model()), decoder_graph(task.model())};
}

}  // namespace tapestry
