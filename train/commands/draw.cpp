#include <fmt/ranges.h>

#include "autograd/check.hpp"
#include "train/commands/command.hpp"
#include "train/commands/output.hpp"
#include "train/inspect/concepts.hpp"
#include "train/measure/statistics.hpp"
#include "train/run/terminal.hpp"

namespace tapestry {
namespace {

class Draw final : public Command {
 public:
  void declare(Arguments& arguments) override {
    arguments.place("WHAT", what_,
                    "positions: sinusoidal and rotary encodings; masks: which keys a query sees; "
                    "features: random features beside exact softmax");
    arguments.option("--tokens", tokens_, "positions, masks: number of tokens (default: 32, 8)",
                     {.low = 2, .high = 512});
    arguments.option("--width", width_,
                     "positions: features of an encoding, an even number (default: 32)",
                     {.low = 2, .high = 512});
    arguments.option("--window", masks_.window,
                     "masks: keys that a query sees, with its own (default: 3)",
                     {.low = 1, .high = 512});
    arguments.option("--padding", masks_.padding, "masks: last keys that are padding (default: 2)",
                     {.low = 0, .high = 512});
    arguments.option("--seeds", seeds_, "features: seeds of the errors (default: 8)",
                     {.low = 2, .high = 1000});
    arguments.option("--out", out_,
                     "file to write: NAME.png, NAME.svg, or NAME for both (default: WHAT)");
  }

  int run() override {
    const std::string out = out_.empty() ? what_ : out_;
    expect_input(what_ == "positions" || what_ == "masks" || what_ == "features",
                 "{}: unknown figure; expected positions, masks or features", what_);
    const MaskOptions usual;
    expect_used("--tokens", tokens_ > 0, what_ != "features");
    expect_used("--width", width_ > 0, what_ == "positions");
    expect_used("--window", masks_.window != usual.window, what_ == "masks");
    expect_used("--padding", masks_.padding != usual.padding, what_ == "masks");
    expect_used("--seeds", seeds_ > 0, what_ == "features");
    if (width_ == 0) width_ = 32;
    if (seeds_ == 0) seeds_ = 8;
    if (what_ == "positions") {
      expect_input(width_ % 2 == 0, "--width {}: expected an even number", width_);
      write_figure(out, figure_of_positions(tokens_ == 0 ? 32 : tokens_, width_));
    } else if (what_ == "masks") {
      if (tokens_ > 0) masks_.tokens = tokens_;
      write_figure(out, figure_of_masks(masks_));
    } else {
      const FeatureEstimates estimates = estimate_by_features(seeds_);
      say("mean |estimated - exact weight| of 16 keys, {} seeds\n", seeds_);
      for (const auto& [map, features, values] : estimates.errors) {
        const Estimate estimate = estimate_of(values);
        say("{:<14} {:>5} features   {:.4f} ± {:.4f}\n", map, features, estimate.mean,
            estimate.deviation);
      }
      write_figure(out, estimates.figure);
    }
    return 0;
  }

 private:
  void expect_used(const char* option, bool is_given, bool is_used) const {
    expect_input(!is_given || is_used, "{}: is not used by draw {}; leave out {}", option, what_,
                 option);
  }

  std::string what_, out_;
  std::int64_t tokens_ = 0, width_ = 0, seeds_ = 0;  // 0: the default
  MaskOptions masks_;
};

const RegisterCommand<Draw> draw_command(
    "draw", "draw positional encodings, masks, or random features beside softmax");

}  // namespace
}  // namespace tapestry
