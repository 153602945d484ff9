#include <doctest/doctest.h>

#include "tests/support/arrays.hpp"
#include "tests/support/run_fixture.hpp"
#include "tests/support/tensor_files.hpp"

// optim.groups: learning rate and decay of parameters by name.
namespace tapestry {
namespace {

Words with_groups(const std::string& groups, const Words& more = {}) {
  return more + Words{"optim.groups=" + groups};
}

TEST_CASE_FIXTURE(RunFixture, "groups: the last match sets the learning rate, for each optimizer") {
  for (const std::string optimizer : {"adamw", "muon", "schedule_free_adamw", "sgd"}) {
    CAPTURE(optimizer);
    const Words own = "train.eval_every=0 optim.name=" + optimizer;
    const auto groups = with_groups(R"(["* lr=0", "blocks.0.attention lr=1"])", own);
    must_train("toy", optimizer + "-1", groups + "train.steps=1");
    must_train("toy", optimizer + "-3", groups + "train.steps=3");
    const Safetensors before = read_safetensors(checkpoint(optimizer + "-1"));
    for (const auto& [name, after] : read_safetensors(checkpoint(optimizer + "-3")).tensors) {
      if (name.starts_with("optimizer.")) continue;
      CAPTURE(name);
      CHECK(same_bits(after, *find_tensor(before, name)) !=
            name.starts_with("blocks.0.attention."));
    }
    must_train("toy", optimizer + "-factor-1", with_groups(R"(["* lr=1"])", own));
    must_train("toy", optimizer, own);
    check_same_checkpoint(checkpoint(optimizer), checkpoint(optimizer + "-factor-1"));
  }
}

TEST_CASE_FIXTURE(RunFixture, "groups: malformed text and patterns without match are refused") {
  const auto refused = [&](const std::string& groups, const Words& more = {}) {
    const Finished finished = train("toy", "run", with_groups(groups, more));
    check_fails(finished, {});
    return finished.err;
  };
  for (const std::string group :
       {"", "*", "* rate=1", "* lr=", "* lr=-1", "* lr=1 lr=2", "* lr=1e9", "* lr=1 decay=x"}) {
    CAPTURE(group);
    check_says(refused("[\"" + group + "\"]"),
               {"optim.groups", "expected a pattern of names, then lr=FACTOR or decay=NUMBER"});
  }
  check_says(refused(R"(["bloks.* lr=2"])"),
             {"no trainable parameter of the model matches \"bloks.*\""});
  check_says(refused(R"(["* decay=0"])", "optim.name=adam"),
             {"sets a decay, which optim.name = \"adam\" does not have; leave out the decay"});
}

}  // namespace
}  // namespace tapestry
