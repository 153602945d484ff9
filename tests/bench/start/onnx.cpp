#include <onnxruntime_cxx_api.h>

#include <algorithm>
#include <cstdio>
#include <numeric>
#include <string>
#include <vector>

// Does the same as ours.cpp with an ONNX model.
template <class T>
std::vector<Ort::Value> run(Ort::Session& session, std::vector<T>& input,
                            const std::vector<const char*>& names) {
  const std::vector<std::int64_t> shape = {1, static_cast<std::int64_t>(input.size())};
  const auto memory = Ort::MemoryInfo::CreateCpu(OrtArenaAllocator, OrtMemTypeDefault);
  const auto tensor =
      Ort::Value::CreateTensor<T>(memory, input.data(), input.size(), shape.data(), shape.size());
  return session.Run({}, names.data(), &tensor, 1, names.data() + 1, names.size() - 1);
}

int main(int, char** argv) {
  Ort::Env environment(ORT_LOGGING_LEVEL_ERROR);
  Ort::SessionOptions options;
  options.SetIntraOpNumThreads(2);
  Ort::Session session(environment, argv[1], options);
  if (std::string(argv[1]).find("vae") != std::string::npos) {
    std::vector<float> image(784);
    std::fill_n(image.begin(), image.size() / 2, 1.0F);
    const auto outputs = run(session, image, {"images", "means", "log_variances"});
    std::printf("%.5f %.5f\n", outputs[0].GetTensorData<float>()[0],
                outputs[1].GetTensorData<float>()[0]);
  } else {
    std::vector<std::int64_t> tokens(8);
    std::iota(tokens.begin(), tokens.end(), 1);
    const auto outputs = run(session, tokens, {"tokens", "logits"});
    const float* last = outputs[0].GetTensorData<float>() + std::ptrdiff_t{7} * 65;
    std::printf("%.5f %.5f\n", last[0], last[1]);
  }
}
