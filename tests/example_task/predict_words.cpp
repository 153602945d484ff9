#include <cstdio>
#include <exception>
#include <string>
#include <tapestry/model.hpp>
#include <vector>

// Predicts words by a run of the task of words.cpp, which is part of this program.
int main(int argc, char** argv) try {
  const tapestry::Model model(argc > 1 ? argv[1] : "");
  std::vector<std::vector<std::string>> words;
  for (int i = 2; i < argc; ++i) words.push_back({argv[i]});
  for (const tapestry::PredictedExample& word : model.predict(words))
    std::printf("%s: %s\n", word.cells[0].c_str(),
                word.flaw.empty() ? word.prediction[0].c_str() : word.flaw.c_str());
} catch (const std::exception& error) {
  std::fprintf(stderr, "%s\n", error.what());
  return 1;
}
