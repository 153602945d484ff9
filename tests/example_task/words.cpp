#include <tapestry/layers.hpp>
#include <tapestry/ops.hpp>
#include <tapestry/task.hpp>

// A task with everything that tools can show of a model: it finds the most frequent letter of a
// word. The page own-models.md of the guide shows parts of this file.
namespace {
using namespace tapestry;

const Key<std::int64_t> width_key{"model.width", 16, "features of a letter", {.low = 2}};

constexpr std::int64_t word_length = 7;
const std::vector<std::string> classes{"a", "b", "c", "d"};

// Returns the numbers of the letters; empty for a text that is not a word of the task.
std::vector<std::int32_t> tokens_of(const std::string& word) {
  std::vector<std::int32_t> tokens;
  for (const char letter : word) tokens.push_back(letter - 'a');
  const bool is_word = std::ranges::all_of(tokens, [](std::int32_t t) { return t >= 0 && t < 4; });
  return is_word && std::ssize(tokens) == word_length ? tokens : std::vector<std::int32_t>();
}

// Words in which one letter is more frequent than each other; no word is in two splits. A batch:
// inputs (B, T) int32, targets (B) int32.
class Words final : public Dataset {
 public:
  enum class Part { training, validation, test };
  Words(std::int64_t size, Part part) : size_(size), part_(part) {}

  std::int64_t size() const override { return size_; }
  Batch batch(std::span<const std::int64_t> examples) const override {
    std::vector<std::int32_t> tokens, labels;
    for (const std::int64_t example : examples) {
      const std::string word = this->word(example);
      for (const char letter : word) tokens.push_back(letter - 'a');
      labels.push_back(most_frequent(word));
    }
    const std::int64_t B = std::ssize(labels);
    return {.inputs = Array::of(tokens, {B, word_length}),
            .targets = Array::of(labels, {B}),
            .count = static_cast<double>(B)};
  }

  std::string word(std::int64_t example) const {
    Random random(static_cast<std::uint64_t>(part_), Stream::data,
                  static_cast<std::uint64_t>(example));
    std::string word(word_length, ' ');
    do {
      for (char& letter : word) letter = static_cast<char>('a' + random.below(4));
    } while (most_frequent(word) < 0 || part_of(word) != part_);
    return word;
  }

 private:
  static Part part_of(const std::string& word) {
    int number = 0;
    for (const char letter : word) number = 4 * number + (letter - 'a');
    return number % 7 == 0 ? Part::validation : number % 7 == 1 ? Part::test : Part::training;
  }
  // Returns the number of the letter; -1 if two are equally frequent.
  static std::int32_t most_frequent(const std::string& word) {
    std::vector<std::pair<std::ptrdiff_t, std::int32_t>> counts;
    for (std::int32_t i = 0; i < 4; ++i)
      counts.emplace_back(std::ranges::count(word, static_cast<char>('a' + i)), i);
    std::ranges::sort(counts, std::greater());
    return counts[0].first > counts[1].first ? counts[0].second : -1;
  }

  std::int64_t size_;
  Part part_;
};

// A transformer block over the letters, and a linear layer on the mean of its outputs.
class Network final : public Module {
 public:
  Network(std::int64_t width, Random& init)
      : embedding_(std::ssize(classes), width, init, 1),
        encoder_(1, {.width = width, .attention = {.heads = 2, .positions = Positions::none}},
                 init),
        norm_(width),
        out_(width, std::ssize(classes), init) {}

  Tensor features(const Array& words) const {  // (B, T) -> (B, C)
    const Scope scope(path());
    return mean(norm_.forward(encoder_.forward(embedding_.forward(words), {})), {1});
  }
  Tensor forward(const Array& words) const { return out_.forward(features(words)); }

  // The same as a graph of ONNX: tokens (B, T) -> logits (B, classes).
  onnx::Value forward(const onnx::Value& words) const {
    const onnx::Value x =
        onnx::forward(encoder_, onnx::forward(embedding_, words), {.longest = word_length});
    return onnx::forward(out_, onnx::mean(onnx::forward(norm_, x), 1));
  }
  void fields(FieldVisitor& visit) override {
    visit.all("embedding, encoder, norm, out", embedding_, encoder_, norm_, out_);
  }

 private:
  Embedding embedding_;
  Encoder encoder_;
  Norm norm_;
  Linear out_;
};

class WordTask final : public Task {
 public:
  explicit WordTask(const TaskSetup& setup)
      : training_(20'000, Words::Part::training),
        validation_(200, Words::Part::validation),
        test_(200, Words::Part::test),
        model_(initialized(setup.config,
                           [&](Random& init) { return Network(setup.config[width_key], init); })) {}

  Network& model() override { return model_; }
  const Words& training_data() override { return training_; }
  const Words& validation_data() override { return validation_; }
  const Words* test_data() override { return &test_; }
  Loss loss(const Batch& batch, const Pass&) override {
    return classification_loss(model_.forward(batch.inputs), batch, {});
  }

 private:
  Words training_, validation_, test_;
  Network model_;
};

const Key<std::int64_t> count = count_option(5);
const Key<std::int64_t> index = index_option("number of the validation word (default: 0)");

// sample: validation words with the predicted letter.
Sample samples(WordTask& task, const Options& options) {
  const Batch batch = batch_from(task.validation_data(), 0, options[count]);
  Sample sample;
  for (const std::int32_t letter : likeliest(task.model().forward(batch.inputs).value()))
    sample.text += classes[letter] + "\n";
  return sample;
}

// attention: the weights of each layer for a validation word.
AttentionMaps attention(WordTask& task, const Options& options) {
  const std::string word = task.validation_data().word(options[index]);
  const AttentionRecorder recorder;
  task.model().forward(Array::of(tokens_of(word), {1, word_length}));
  std::vector<std::string> letters;
  for (const char letter : word) letters.emplace_back(1, letter);
  return attention_maps(recorder, letters);
}

// latent: the features of the words of a split.
LatentCodes latent_codes(WordTask& task) {
  const Batch batch = batch_from(task.validation_data(), 0, 200);
  const auto classes_of = batch.targets.values<std::int32_t>();
  return {.splits = {{.name = "validation",
                      .z = task.model().features(batch.inputs).value(),
                      .classes = {classes_of.begin(), classes_of.end()}}},
          .class_names = classes};
}

// report: a confusion matrix and, for two words, what each letter attends to.
ReportPanels panels(WordTask& task) {
  const auto logits = [&](const Batch& batch) {
    return task.model().forward(batch.inputs).value();
  };
  Options options({index});
  ReadExamples read{.examples = {{.title = "a word", .maps = attention(task, options)}}};
  return {confusion_matrix(class_predictions(*task.test_data(), 100, logits), classes), read};
}

// export --format onnx: the model as a graph, with its input, its output and the names of classes.
onnx::Models onnx_models(WordTask& task) {
  auto graph = std::make_shared<onnx::Graph>("model", "The most frequent letters of words.");
  const onnx::Value words =
      graph->input({.name = "words", .type = onnx::Type::int64, .shape = {"batch", word_length}});
  graph->output({.name = "logits", .shape = {"batch", std::ssize(classes)}},
                task.model().forward(words));
  return {graph};
}

// predict, and Model::predict: lines with a word each; the letter and the probabilities.
Predictor predictor(WordTask& task) {
  const auto predict = [&task](std::span<const ExampleFields> lines) {
    std::vector<Prediction> all;
    for (const ExampleFields& line : lines) {
      const std::vector<std::int32_t> tokens = tokens_of(line.front());
      if (tokens.empty())
        all.push_back({.flaw = "expected 7 letters from a to d"});
      else
        all.push_back(class_cells(task.model().forward(Array::of(tokens, {1, word_length})).value(),
                                  classes, 0)[0]);
    }
    return all;
  };
  return {.input = {.kind = PredictorInput::Kind::lines, .fields = {{"word"}}},
          .columns = class_columns(classes, 0),
          .predict = predict};
}

TaskSpec spec() {
  return {.name = "words",
          .help = "the most frequent letter of a word",
          .keys = {width_key},
          .make = make_task_of<WordTask>,
          .metrics = classification_metrics(),
          .samples = {{count}, samples},
          .predictor = predictor,
          .attention = {{index}, attention},
          .latent_codes = latent_codes,
          .panels = panels,
          .onnx = onnx_models};
}

const RegisterTask registered(spec);

}  // namespace
