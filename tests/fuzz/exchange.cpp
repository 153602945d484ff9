#include "data/json.hpp"
#include "tests/fuzz/target.hpp"
#include "train/run/atomic_file.hpp"
#include "train/run/checkpoint.hpp"
#include "train/task_spec.hpp"
#include "train/tools/convert/architectures.hpp"
#include "train/tools/convert/import.hpp"

// Fuzzes files of Hugging Face's transformers, peft and llama.cpp.
namespace tapestry {
namespace {

const RegisterFuzzTarget published_config("published-config", [](std::string_view bytes) {
  UnknownFields unknown;
  read_published_config(parse_json(bytes, "config.json"), "config.json", unknown);
});

const RegisterFuzzTarget adapter_config("adapter-config", [](std::string_view bytes) {
  UnknownFields unknown;
  read_adapter_config(parse_json(bytes, "adapter_config.json"), "adapter_config.json", unknown);
});

// A checkpoint of a small Llama that was never trained.
std::string small_llama() {
  const Config config = parse_config(
      "task = \"language-model\"\n[model]\nlayers = 1\nheads = 2\nwidth = 4\ncontext = 4\n"
      "norm_kind = \"rms\"\ngated = true\nactivation = \"silu\"\npositions = \"rotary\"\n"
      "bias = false\n",
      "llama.toml", {});
  const std::unique_ptr<Task> task = make_task({config, {{"vocabulary", "[\"a\", \"b\"]"}}, false});
  const std::string path = scratch_folder() + "/llama.safetensors";
  save_weights([&](const auto& parts) { write_file_atomically(path, parts); }, *task, config);
  return path;
}

const RegisterFuzzTarget adapter("adapter", [](std::string_view bytes) {
  static const std::string base = small_llama();
  written_file("adapter_config.json", R"({"peft_type": "LORA", "r": 2, "lora_alpha": 4})");
  written_file("adapter_model.safetensors", bytes);
  load_trained_with(scratch_folder(), base, {}, false);
});

const RegisterFuzzTarget index("weights-index", [](std::string_view bytes) {
  written_file("model.safetensors.index.json", bytes);
  read_published_weights(scratch_folder());
});

const RegisterFuzzTarget gguf("gguf", [](std::string_view bytes) {
  import_gguf(written_file("model.gguf", bytes), {});
});

}  // namespace
}  // namespace tapestry
