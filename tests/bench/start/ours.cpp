#include <cstdio>
#include <numeric>
#include <tapestry/model.hpp>

// Loads a run, computes the logits of 8 tokens or the latent code of an image, and ends.
int main(int, char** argv) {
  const tapestry::Model model(argv[1]);
  if (model.task() == "vae") {
    std::vector<float> image(model.height() * model.width());
    std::fill_n(image.begin(), image.size() / 2, 1.0F);
    const tapestry::Latents latents = model.encode(image);
    std::printf("%.5f %.5f\n", latents.means.values[0], latents.log_variances.values[0]);
  } else {
    std::vector<std::int32_t> tokens(8);
    std::iota(tokens.begin(), tokens.end(), 1);
    const tapestry::Matrix logits = model.logits(tokens);
    std::printf("%.5f %.5f\n", logits.row(7)[0], logits.row(7)[1]);
  }
}
