#include <cstdio>
#include <exception>
#include <string>
#include <tapestry/model.hpp>
#include <thread>
#include <vector>

using tapestry::Matrix, tapestry::Model;

// Prints a text while it is generated.
void write(const Model& model, const std::string& prompt) {
  std::printf("%s", prompt.c_str());
  model.generate(prompt, {.tokens = 60, .temperature = 0.8}, [](std::string_view piece) {
    std::printf("%.*s", static_cast<int>(piece.size()), piece.data());
    return std::fflush(stdout) == 0;
  });
  std::printf("\n");
}

// Generates three texts in threads that share the model.
void write_three(const Model& model, const std::string& prompt) {
  std::vector<std::string> texts(3);
  std::vector<std::jthread> threads;
  for (std::size_t i = 0; i < texts.size(); ++i)
    threads.emplace_back([&, i] {
      texts[i] = model.generate(prompt, {.tokens = 60, .temperature = 0.8, .seed = i + 2});
    });
  threads.clear();  // joins the threads
  for (const std::string& text : texts) std::printf("---\n%s%s\n", prompt.c_str(), text.c_str());
}

// Prints the latent code of an image of a square.
void encode(const Model& model) {
  const auto height = model.height(), width = model.width();
  std::vector<float> image(model.channels() * height * width);
  for (auto y = height / 4; y < height * 3 / 4; ++y)
    for (auto x = width / 4; x < width * 3 / 4; ++x) image[y * width + x] = 1;
  const Matrix means = model.encode(image).means;
  for (const float mean : means.row(0)) std::printf("%.4f ", mean);
  std::printf("\n");
}

int main(int argc, char** argv) try {
  const Model model(argc > 1 ? argv[1] : "");
  if (model.task() == "vae") return encode(model), 0;
  const std::string prompt = argc > 2 ? argv[2] : "";
  write(model, prompt);
  write_three(model, prompt);
} catch (const std::exception& error) {
  std::fprintf(stderr, "%s\n", error.what());
  return 1;
}
