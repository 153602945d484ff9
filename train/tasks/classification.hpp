#pragma once

#include "train/config/config.hpp"
#include "train/inspect/predictor.hpp"
#include "train/task_spec.hpp"

// Functions of classifiers. Logits (N, V), floating, are scores of V classes for each of N
// examples.
namespace tapestry {

// Returns the class with the highest score, for each example.
std::vector<std::int32_t> likeliest(const Array& logits);

// Returns the accuracy: the fraction of the targets (N), int32, without ignored_target, that have
// the highest score.
MetricSum accuracy(const Array& logits, const Array& targets);

// Adds the counts from which derive_macro_f1 computes the metric, for targets (N), int32, of which
// none is ignored_target.
void add_f1_counts(MetricSums& averages, const Array& logits, const Array& targets);
// Replaces these counts by macro_f1: the mean of 2 TP / (2 TP + FP + FN) over the classes that
// occur among targets or predictions.
void derive_macro_f1(Metrics& metrics);

// Weights of the classes in the objective of a training.
enum class ClassWeights { none, balanced };
namespace key {
inline const Key<std::vector<std::string>> class_names{
    "data.class_names",
    {},
    "names of classes 0, 1, …, in a folder those of its sub-folders; empty: as found in the data",
    {.may_change_on_resume = true}};
inline const Choice<ClassWeights> class_weights{
    "data.class_weights",
    ClassWeights::none,
    "weights of classes in training; balanced: inversely proportional to their number of examples",
    {{"none", ClassWeights::none}, {"balanced", ClassWeights::balanced}}};
}  // namespace key

// Returns N / (V · n_c), the weight of each of V classes with n_c of N labels; 0 for a class
// without labels. The mean of the weights over the labels is 1 if every class has labels.
std::vector<double> balanced_weights(const std::vector<std::int32_t>& labels, std::int64_t V);

// Returns the cross-entropy in nats, weighted by each target's class and summed over the targets
// (N), int32, without ignored_target: logits (N, V), V weights. Throws std::invalid_argument for
// another number of weights.
Tensor weighted_cross_entropy(const Tensor& logits, const Array& targets,
                              const std::vector<double>& weights);

// Returns the summed cross-entropy of the logits, weighted if there are weights, and the metrics of
// classification_metrics(), which are not weighted.
Loss classification_loss(const Tensor& logits, const Batch& batch,
                         const std::vector<double>& weights);

// The prediction of a classifier for one example of a split.
struct ClassPrediction {
  std::int64_t example = 0;  // index in the split; for the nodes of one graph: of the node
  std::int32_t predicted = 0, target = 0;
  double probability = 0;  // probability of the predicted class
  bool is_right() const { return predicted == target; }
};
using ClassPredictions = std::vector<ClassPrediction>;

// Returns a prediction for each of the targets (N), int32, without ignored_target.
ClassPredictions class_predictions(const Array& logits, const Array& targets);

// Returns the predictions for the first 10,000 examples of a split, which `logits_of` computes for
// batches of `at_once` examples. Throws InputError if a logit is not finite.
ClassPredictions class_predictions(const Dataset& split, std::int64_t at_once,
                                   const std::function<Array(const Batch& batch)>& logits_of);

// Moves wrong predictions to the front, the most probable first; the others keep their order.
void sort_errors_first(ClassPredictions& predictions);

// Returns a table with a row for each target class and a column for each predicted class, if there
// are up to 40, and the accuracy for each target class. Throws InputError for a class without a
// name.
TablePanel confusion_matrix(const ClassPredictions& predictions,
                            const std::vector<std::string>& class_names);

// Returns the columns of a classifier's predictions: `prediction`, then the probabilities p:CLASS
// of up to 100 classes, or the `best` most probable classes with their probabilities; `unusual`.
std::vector<PredictedColumn> class_columns(const std::vector<std::string>& class_names,
                                           std::int64_t best);
// Returns the cells of such columns for each row of the logits (N, V), `unusual` empty. Throws
// InputError if a logit is not finite, or there are not V names.
std::vector<Prediction> class_cells(const Array& logits,
                                    const std::vector<std::string>& class_names, std::int64_t best);

// Inputs of a classifier, as `sample` shows them.
struct ShownInputs {
  std::string list, item;          // names of JSON members: "images", "file"
  std::vector<std::string> texts;  // one per row of the logits
};
// Returns the probabilities of the classes of each input: as text, "cat.png: cat 0.98, dog 0.02"
// with at most three classes, and of all classes as JSON.
Sample class_probabilities(const Array& logits, const std::vector<std::string>& class_names,
                           const ShownInputs& inputs);

// Adds a problem if a class has no training examples, or fewer than a tenth of those of another
// class. `counts`: examples of each class; `noun`: "training text".
void compare_class_sizes(Recognized& found, const std::vector<std::int64_t>& counts,
                         const std::vector<std::string>& names, const std::string& noun);

// Adds the classes whose names differ only in case, and one whose name joins those of others, as
// "1,5" and "Action|Drama" do.
void note_class_names(Recognized& found, const std::vector<std::string>& names);

// Returns the metrics of a classifier: loss and accuracy.
std::vector<MetricInfo> classification_metrics();

}  // namespace tapestry
