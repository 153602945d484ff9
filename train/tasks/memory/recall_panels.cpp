#include <algorithm>
#include <numeric>

#include "autograd/argmax.hpp"
#include "train/inspect/inspector.hpp"
#include "train/tasks/memory/recall.hpp"

namespace tapestry {
namespace {

// How many of the held-back questions it answers, by how long ago the answer passed.
ReportPanels panels(RecallTask& task, const Options&) {
  constexpr std::int64_t at_once = 256;
  const Recall& data = task.validation_data();
  std::vector<std::int64_t> right;
  RecallByAge remembered;
  for (std::int64_t first = 0; first < data.size(); first += at_once) {
    std::vector<std::int64_t> examples(std::min(at_once, data.size() - first));
    std::iota(examples.begin(), examples.end(), first);
    const Batch batch = data.batch(examples);
    const Array logits = task.model().forward(batch.inputs).value();  // (B, V)
    const std::int64_t T = batch.inputs.dim(1), V = logits.dim(1);
    right.resize(T - 1);
    remembered.asked.resize(T - 1);
    remembered.chance = 1 / static_cast<double>(V);
    for (std::int64_t b = 0; b < logits.dim(0); ++b) {
      const auto symbols = batch.inputs.values<std::int32_t>().subspan(b * 2 * T, 2 * T);
      const std::int64_t age = T - 2 - data.answer_position(symbols);  // 0: the last item
      right[age] += argmax(logits.values<float>().subspan(b * V, V)) == data.answer(symbols);
      ++remembered.asked[age];
    }
  }
  for (std::size_t age = 0; age < right.size(); ++age)
    remembered.shares.push_back(
        static_cast<double>(right[age]) /
        static_cast<double>(std::max<std::int64_t>(1, remembered.asked[age])));
  return {remembered};
}

const RegisterInspector shown("recall", {}, &panels);

}  // namespace
}  // namespace tapestry
