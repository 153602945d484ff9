#include <nlohmann/json.hpp>

#include "data/json.hpp"
#include "tests/fuzz/target.hpp"
#include "train/exchange/adapter.hpp"
#include "train/exchange/architecture.hpp"
#include "train/exchange/gguf_import.hpp"
#include "train/exchange/published_weights.hpp"

// What a published model's folder holds, and a file of llama.cpp's.
namespace tapestry {
namespace {

const RegisterFuzzTarget published_config("published-config", [](std::string_view bytes) {
  read_published_config(parse_json(bytes, "config.json"), "config.json");
});

const RegisterFuzzTarget adapter_config("adapter-config", [](std::string_view bytes) {
  read_adapter_config(parse_json(bytes, "adapter_config.json"), "adapter_config.json");
});

const RegisterFuzzTarget index("weights-index", [](std::string_view bytes) {
  written_file("model.safetensors.index.json", bytes);
  PublishedWeights{scratch_folder()};
});

const RegisterFuzzTarget gguf("gguf", [](std::string_view bytes) {
  import_gguf(written_file("model.gguf", bytes), {});
});

}  // namespace
}  // namespace tapestry
