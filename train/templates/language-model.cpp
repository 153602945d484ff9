#include <tapestry/layers.hpp>
#include <tapestry/ops.hpp>
#include <tapestry/task.hpp>

// A language model of letters with a recurrent layer of its own.
namespace {
using namespace tapestry;

// Keys of the config: name, default, help and limits. `config MY_TASK.toml` prints them.
const Key<std::int64_t> context_key{"model.context", 48, "letters read at once", {.low = 1}};
const Key<std::int64_t> width_key{"model.width", 64, "features of a letter", {.low = 1}};

const std::string letters = " abcdefghijklmnopqrstuvwxyz";
std::vector<std::int32_t> tokens_of(const std::string& text) {
  std::vector<std::int32_t> tokens;
  for (const char c : text) tokens.push_back(static_cast<std::int32_t>(letters.find(c)));
  return tokens;
}

// The data set: windows of a text. A batch: inputs and targets (B, T) int32, the next letters.
class Sentences final : public Dataset {
 public:
  Sentences(std::int64_t size, std::int64_t context, std::uint64_t split)
      : size_(size), context_(context) {
    const std::vector<std::string> who{"the cat", "a small dog", "my old friend"},
        does{"sees", "follows", "never forgets"};
    Random random(split, Stream::data);
    while (std::ssize(text_) <= size + context)
      for (const auto* words : {&who, &does, &who}) text_ += (*words)[random.below(3)] + " ";
  }

  std::int64_t size() const override { return size_; }
  Batch batch(std::span<const std::int64_t> examples) const override {
    const auto row = [&](std::int64_t b) {
      return tokens_of(text_.substr(examples[b], context_ + 1));
    };
    return next_token_batch({std::ssize(examples), context_}, row);
  }

 private:
  std::int64_t size_, context_;
  std::string text_;
};

// A minimal gated recurrent unit (Feng et al. 2024, arXiv 2410.01201): h_t = (1 - z_t) ⊙ h_(t-1) +
// z_t ⊙ candidate(x_t), where z_t = σ(gate(x_t)).
class Network final : public Module {
 public:
  Network(std::int64_t width, Random& init)
      : embedding_(std::ssize(letters), width, init),
        gate_(width, width, init),
        candidate_(width, width, init),
        head_(width, std::ssize(letters), init) {}

  Tensor forward(const Array& tokens) const {  // (B, T) -> logits (B, T, V)
    const Scope scope(path());                 // names the ops in errors and profiles
    const Tensor x = embedding_.forward(tokens), z = gate_.forward(x);
    return head_.forward(linear_recurrence(sigmoid(-z), sigmoid(z) * candidate_.forward(x)));
  }
  void fields(FieldVisitor& visit) override {
    visit.all("embedding, gate, candidate, head", embedding_, gate_, candidate_, head_);
  }

 private:
  Embedding embedding_;
  Linear gate_, candidate_, head_;
};

// The task: data, model, loss and metrics of a config.
class MyTask final : public Task {
 public:
  explicit MyTask(const TaskSetup& setup)
      : training_(5000, setup.config[context_key], 1),
        validation_(200, setup.config[context_key], 2),
        model_(initialized(setup.config,
                           [&](Random& init) { return Network(setup.config[width_key], init); })) {}

  Network& model() override { return model_; }
  const Sentences& training_data() override { return training_; }
  const Sentences& validation_data() override { return validation_; }
  // Returns the sum of the losses of a batch, and metrics as sums and counts.
  Loss loss(const Batch& batch, const Pass&) override {
    const Tensor total =
        cross_entropy(model_.forward(batch.inputs), batch.targets, {.mean = false});
    return {.objective = total, .averages = {{"loss", {total.item(), batch.count}}}};
  }
  void add_derived_metrics(Metrics& metrics) const override {
    metrics["bits_per_letter"] = metrics.at("loss") / std::log(2.0);
  }

 private:
  Sentences training_, validation_;
  Network model_;
};

// What the report shows: the most probable next letters, one after the other.
ReportPanels panels(MyTask& task) {
  std::string text = "the ";
  for (int i = 0; i < 60; ++i) {
    const std::int64_t T = std::ssize(text);
    const Array logits = task.model().forward(Array::of(tokens_of(text), {1, T})).value();
    text += letters[likeliest(logits.reshaped({T, std::ssize(letters)})).back()];
  }
  return {TablePanel{.title = "The most probable text", .rows = {{"begins with \"the\""}, {text}}}};
}

TaskSpec spec() {
  return {.name = "MY_TASK",
          .help = "a recurrent language model of letters",
          .keys = {context_key, width_key},
          .make = make_task_of<MyTask>,
          .metrics = {{"bits_per_letter", "bits", MetricInfo::Better::lower, "the loss in bits"}},
          .panels = panels};
}

const RegisterTask registered(spec);

}  // namespace

int main(int argc, char** argv) { return tapestry::run_command_line(argc, argv); }
