#pragma once

// Installed as <tapestry/task.hpp>: what a task of one's own is made of, but for its layers and ops
// (<tapestry/layers.hpp>, <tapestry/ops.hpp>). The page own-models.md of the guide, in the
// source, shows how to use it.
//
//   Task, TaskSpec, RegisterTask       data, model, loss and metrics, and their description
//   Dataset, Batch                     examples, of one's own or of the formats that data/ reads
//   Key, Choice, SettingsOf            keys of the config
//   initialized                        a model with initial values from the config's seed
//   classification_loss, …             losses, metrics and tables of classifiers
//   Sample, Predictor, AttentionMaps, LatentCodes, ReportPanels, onnx::Models, …
//                                      what inspectors return for tools to show and export
//   run_command_line                   all commands, for a program of one's own
#include "autograd/build_symbol.hpp"
#include "data/dataset.hpp"
#include "data/graphs/node_graph.hpp"
#include "data/graphs/synthetic_graphs.hpp"
#include "data/images/images.hpp"
#include "data/json.hpp"
#include "data/series/series.hpp"
#include "data/table/table_examples.hpp"
#include "data/text/text.hpp"
#include "data/text/text_encoder.hpp"
#include "train/commands/command_line.hpp"
#include "train/config/keys.hpp"
#include "train/config/settings.hpp"
#include "train/inspect/onnx/layers.hpp"
#include "train/inspect/onnx/onnx_graph.hpp"
#include "train/inspect/onnx/ops.hpp"
#include "train/inspect/predictor.hpp"
#include "train/inspect/recognized.hpp"
#include "train/inspect/report_panels.hpp"
#include "train/inspect/values.hpp"
#include "train/task_spec.hpp"
#include "train/tasks/classification.hpp"
#include "train/tasks/initialized.hpp"
#include "train/tasks/inspectors.hpp"

namespace tapestry {

// Refers to the symbol of the build whose headers these are.
[[gnu::used]] static const char* const required_build = &TAPESTRY_BUILD_SYMBOL;

}  // namespace tapestry
