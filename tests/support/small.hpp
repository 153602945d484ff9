#pragma once

#include <fmt/format.h>

#include <string>

#include "data/loader.hpp"
#include "tests/support/aliases.hpp"
#include "tests/support/process.hpp"
#include "train/run/session.hpp"

// Small models and data for whole runs.
namespace tapestry {

// Returns the maximum of bytes that arrays of a run's first process held.
inline double tensor_bytes(const std::string& run) {
  return static_cast<double>(read_sessions(Run(run)).at(0).end.value().tensor_bytes);
}

// Returns whether arrays held the planned bytes within 10 %. How many of the prepared `batches` of
// two steps are among them, and the parts of one that is being prepared, depends on timing.
inline bool is_planned(double held, double planned, double batches) {
  return held > 0.9 * planned - batches && held < 1.1 * planned + batches / Loader::ahead;
}
inline bool is_planned(double held, const Json& plan) {
  return is_planned(held, plan["bytes"]["tensors"], plan["bytes"]["batches"]);
}

// Makes a model of any task small, and its training short. `kind` is its model.kind.
inline Words small(const std::string& task, const std::string& kind = "") {
  if (task == "vae")
    return "data.training_images=20 data.test_images=10 model.hidden=[6] model.latent=2 "
           "train.batch_size=5";
  if (task == "recall")
    return "data.length=8 data.pairs=3 data.keys=4 data.values=3 model.width=8 train.batch_size=4";
  if (task == "in-context-regression")
    return "data.pairs=3 data.dimensions=2 model.width=8 train.batch_size=4";
  if (task == "graph") return "model.width=8 model.dropout=0 train.batch_size=2";
  if (task == "table")
    return "data.examples=20 data.held_back=10 model.layers=1 model.width=4 model.members=2 "
           "model.bins=4 model.number_width=2 train.batch_size=4";
  const Words keys = "model.layers=1 model.width=8 train.batch_size=4";
  if (task == "image-classification") {
    const std::string images = "data.training_images=20 data.test_images=10 ";
    if (kind == "convolutional") return images + "train.batch_size=4";
    return keys + (images + "model.patch=14");
  }
  if (task == "word-vectors") return "model.width=8 train.batch_size=4";
  if (task == "captioning")
    return keys + "data.training_images=20 data.test_images=10 data.vocabulary=300 model.patch=16";
  if (task == "text-classification") return keys + "data.vocabulary=270 model.context=12";
  if (task == "forecast" && kind == "linear")
    return "train.batch_size=4 model.context=12 model.horizon=3";
  if (task == "forecast") return keys + "model.context=12 model.horizon=3 model.patch=4";
  if (task == "language-model") return keys + "model.context=6";
  if (task == "translation") return keys + "model.dropout=0.1";
  return keys + "data.held_back=20";
}

inline std::string story(int lines = 12) {
  std::string text;
  for (int i = 0; i < lines; ++i) text += fmt::format("{} green bottles hanging on the wall\n", i);
  return text;
}

}  // namespace tapestry
