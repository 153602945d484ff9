#pragma once

#include <string>
#include <vector>

#include "train/run/run.hpp"

namespace tapestry {

// A trained model as onnxruntime and others run it: ONNX of opset 17, without cached keys. One
// model goes into the new file `out`; of several, each goes into a file of its name in the new
// folder `out`: "encoder.onnx" and "decoder.onnx". Returns the files. InputError where the run's
// task has no such form, or something of that name is there.
std::vector<std::string> export_onnx(const TrainedModel& trained, const std::string& out);

}  // namespace tapestry
