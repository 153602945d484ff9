#include "train/distributed/gradient_sum.hpp"

#include <algorithm>

#include "autograd/check.hpp"
#include "autograd/clock.hpp"
#include "autograd/kernels/broadcast.hpp"
#include "autograd/profile.hpp"

namespace tapestry {
namespace {

// Maximum number of fragments of a message: 4 MB of float32.
constexpr std::int64_t most_fragments = 64;

std::span<std::byte> bytes_of(Array array) { return {array.mutable_raw(), array.bytes()}; }

Array part_of(const Array& array, const ArrayPart& part) {
  return array.part(part.begin, part.end);
}

// What a rank tells the others about its gradients.
struct Findings {
  std::vector<bool> given;      // per parameter, whether the rank has a gradient
  std::vector<double> squares;  // sums of squares of the fragments of its slices
  static void fields(auto& visit, auto& self) { visit(self.given, self.squares); }
};

}  // namespace

GradientSum::GradientSum(Ranks& ranks, const std::vector<Parameter*>& parameters,
                         const GradientSumOptions& options)
    : ranks_(ranks),
      kept_(options.kept),
      expects_no_others_(options.expects_no_others),
      plans_(ranks.size()),
      plan_(plans_[ranks.rank()]) {
  require(options.micro_batches >= ranks.size(),
          "GradientSum: {} micro-batches for {} ranks; expected at least one per rank",
          options.micro_batches, ranks.size());
  for (int rank = 0; rank < ranks.size(); ++rank)
    plans_[rank] = plan_micro_batches(options.micro_batches, rank, ranks.size());
  for (Parameter* parameter : distinct_parameters(parameters))
    if (parameter->role != Role::fixed) parameters_.push_back(parameter);
  std::vector<std::int64_t> sizes;
  for (const Parameter* parameter : parameters_) sizes.push_back(parameter->tensor.size());
  fragments_ = fragments_of(sizes);
  squares_.resize(fragments_.size());
  cut_into_slices(options.is_undivided);
}

GradientSum::~GradientSum() = default;

// Divides each array equally among the ranks, except one that is undivided or has fewer fragments
// than ranks: it belongs to the rank that owns the fewest elements. No slice has more than
// most_fragments fragments.
void GradientSum::cut_into_slices(const std::function<bool(const Parameter&)>& is_undivided) {
  const std::int64_t R = ranks_.size();
  std::vector<std::int64_t> load(R, 0);
  const auto add = [&](std::int64_t begin, std::int64_t end, int owner) {
    while (begin < end) {
      const std::int64_t stop = std::min(end, begin + most_fragments);
      const ArrayPart part{fragments_[begin].array, fragments_[begin].begin,
                           fragments_[stop - 1].end};
      slices_.push_back({.part = part,
                         .owner = owner,
                         .first_fragment = static_cast<std::size_t>(begin),
                         .fragments = static_cast<std::size_t>(stop - begin)});
      load[owner] += part.size();
      if (owner == ranks_.rank()) {
        if (!own_.empty() && own_.back().array == part.array && own_.back().end == part.begin)
          own_.back().end = part.end;
        else
          own_.push_back(part);
      }
      begin = stop;
    }
  };
  std::int64_t begin = 0;
  for (std::size_t array = 0; array < parameters_.size(); ++array) {
    std::int64_t end = begin;
    while (end < std::ssize(fragments_) && fragments_[end].array == array) ++end;
    const std::int64_t count = end - begin;
    if (count < R || (is_undivided && is_undivided(*parameters_[array])))
      add(begin, end, static_cast<int>(std::ranges::min_element(load) - load.begin()));
    else
      for (int rank = 0; rank < R; ++rank)
        add(begin + count * rank / R, begin + count * (rank + 1) / R, rank);
    begin = end;
  }
}

void GradientSum::begin() {
  const std::size_t n = parameters_.size();
  parameter_of_.clear();
  for (std::size_t i = 0; i < n; ++i) parameter_of_.emplace(parameters_[i]->tensor.id(), i);
  given_.assign(n, false);
  sums_.assign(plan_.merges_after.size(), std::vector<Array>(n));
  sum_ = 0;
}

void GradientSum::add(Tape& tape, const Tensor& loss, double seed) {
  require(micro_batch_ < plan_.steps.size(),
          "GradientSum: this rank has only {} micro-batches; expected no more calls of add()",
          plan_.steps.size());
  if (micro_batch_ == 0) begin();
  std::vector<bool> met(parameters_.size(), false);
  if (!plan_.steps[micro_batch_].sends) stack_.emplace_back(parameters_.size());
  tape.backward(loss, seed, [&](std::uint64_t variable, Array gradient) {
    const auto parameter = parameter_of_.find(variable);
    expect_input(parameter != parameter_of_.end() || !expects_no_others_,
                 "backward: a variable of shape {} has a gradient, but is not a parameter of the "
                 "model; name every field in fields() of its module",
                 gradient.shape());
    if (parameter == parameter_of_.end()) return;
    met[parameter->second] = given_[parameter->second] = true;
    accept(parameter->second, std::move(gradient));
  });
  // A missing gradient counts as zeros, so that the sum does not depend on which rank has the
  // micro-batch.
  for (std::size_t i = 0; i < parameters_.size(); ++i)
    if (!met[i])
      accept(i, Array::zeros(parameters_[i]->tensor.shape(), parameters_[i]->tensor.dtype()));
  const MicroBatchStep& step = plan_.steps[micro_batch_];
  if (!step.sends) {  // the merged sum replaces its terms
    std::vector<Array> top = std::move(stack_.back());
    stack_.resize(stack_.size() - 1 - step.merges);
    stack_.push_back(std::move(top));
  } else {
    stack_.resize(stack_.size() - step.merges);
    ++sum_;
  }
  ++micro_batch_;
}

// Adds a gradient to the sums. Before writing to an array that two parameters share, or that the
// caller holds, copies the array.
void GradientSum::accept(std::size_t parameter, Array gradient) {
  const MicroBatchStep& step = plan_.steps[micro_batch_];
  const bool stays = ranks_.alone() && plan_.steps.size() == 1;
  if (!stays && !gradient.unique()) gradient = gradient.clone();
  const std::size_t below = stack_.size() - (step.sends ? 0 : 1);
  for (int merge = 1; merge <= step.merges; ++merge) {
    Array left = std::move(stack_[below - merge][parameter]);
    add_in_place(left, gradient);
    gradient = std::move(left);
  }
  if (!step.sends) {
    stack_.back()[parameter] = std::move(gradient);
    return;
  }
  sums_[sum_][parameter] = std::move(gradient);
}

// Sends this rank's sums to the owners of the slices. Returns, for each slice of this rank, the
// sums that it received, by rank and micro-batch.
std::vector<std::vector<Array>> GradientSum::exchange_sums() {
  Exchange exchange(ranks_);
  std::vector<std::vector<Array>> received(slices_.size());
  for (std::size_t i = 0; i < slices_.size(); ++i) {
    const auto& [part, owner, first_fragment, fragments] = slices_[i];
    if (owner != ranks_.rank()) {
      for (const std::vector<Array>& sum : sums_)
        exchange.send(owner, bytes_of(part_of(sum[part.array], part)));
      continue;
    }
    const DType dtype = parameters_[part.array]->tensor.dtype();
    for (int rank = 0; rank < ranks_.size(); ++rank)
      for (std::size_t n = plans_[rank].merges_after.size(); rank != owner && n > 0; --n)
        exchange.receive(rank, bytes_of(received[i].emplace_back(Shape{part.size()}, dtype)));
  }
  exchange.wait("the sum of the gradients");
  return received;
}

// Adds the sums of all ranks of a slice, and stores the total in this rank's first sum.
void GradientSum::add_up(const Slice& slice, const std::vector<Array>& received) {
  const ArrayPart& part = slice.part;
  auto next = received.begin();
  std::vector<Array> stack;
  for (int rank = 0; rank < ranks_.size(); ++rank)
    for (std::size_t sum = 0; sum < plans_[rank].merges_after.size(); ++sum) {
      stack.push_back(rank == slice.owner ? part_of(sums_[sum][part.array], part) : *next++);
      for (int merge = 0; merge < plans_[rank].merges_after[sum]; ++merge) {
        add_in_place(stack[stack.size() - 2], stack.back());
        stack.pop_back();
      }
    }
  Array total = part_of(sums_[0][part.array], part);
  if (total.raw() != stack.front().raw()) total.copy_from(stack.front());
}

void GradientSum::sum_over_ranks() {
  const double before = now_s();
  const std::vector<std::vector<Array>> received = exchange_sums();
  Findings own{given_, {}};
  for (std::size_t i = 0; i < slices_.size(); ++i) {
    const Slice& slice = slices_[i];
    if (slice.owner != ranks_.rank()) continue;
    add_up(slice, received[i]);
    for (std::size_t n = 0; n < slice.fragments; ++n)
      own.squares.push_back(sum_of_squares(
          part_of(sums_[0][slice.part.array], fragments_[slice.first_fragment + n])));
  }
  const std::vector<Findings> all = ranks_.gather(std::move(own), "the gradient's norm");
  for (const Findings& of_rank : all)
    for (std::size_t i = 0; i < parameters_.size(); ++i)
      if (of_rank.given[i]) given_[i] = true;
  std::vector<std::size_t> taken(all.size(), 0);
  for (const Slice& slice : slices_)
    for (std::size_t n = 0; ranks_.are_there() && n < slice.fragments; ++n)
      squares_[slice.first_fragment + n] = all[slice.owner].squares.at(taken[slice.owner]++);
  if (kept_ == Kept::all)
    exchange(
        [this](const ArrayPart& part) { return bytes_of(part_of(sums_[0][part.array], part)); },
        To::all, "the sum of the gradients");
  seconds_waited_ += now_s() - before;
  profile::mark(profile::Phase::step, "wait for ranks", nullptr, 0);
}

Gradients GradientSum::finish() {
  require(micro_batch_ == plan_.steps.size(),
          "GradientSum: {} of the {} micro-batches of this rank were added; expected all",
          micro_batch_, plan_.steps.size());
  micro_batch_ = 0;
  Gradients gradients;
  if (!ranks_.alone()) sum_over_ranks();
  for (std::size_t i = 0; i < parameters_.size(); ++i) {
    if (!given_[i] && !ranks_.alone()) {
      ranks_.found_by_all();
      throw std::invalid_argument(
          fmt::format("GradientSum: parameter {} {} has no gradient; expected one from a "
                      "micro-batch of any rank",
                      parameters_[i]->name, parameters_[i]->tensor.shape()));
    }
    if (given_[i]) gradients.set(*parameters_[i], sums_[0][i]);
  }
  return gradients;
}

Clip GradientSum::clip(double limit) {
  if (ranks_.alone() || !ranks_.are_there()) {
    for_each_fragment(fragments_, [&](const Fragment& fragment) {
      squares_[&fragment - fragments_.data()] =
          sum_of_squares(part_of(sums_[0][fragment.array], fragment));
    });
  }
  double bytes = 0;
  for (const Parameter* parameter : parameters_) bytes += parameter->value().bytes();
  profile::mark(profile::Phase::step, "clip", nullptr, ranks_.alone() ? bytes : 0);
  for (std::vector<Array>& sums : sums_) sums.clear();  // the caller holds the result
  return clip_of(fragments_, squares_, limit);
}

void GradientSum::exchange(const std::function<std::span<std::byte>(const ArrayPart&)>& place,
                           To to, const std::string& what) {
  if (ranks_.alone()) return;
  Exchange exchange(ranks_);
  for (const Slice& slice : slices_) {
    const bool is_own = slice.owner == ranks_.rank();
    if (!is_own && to == To::first && ranks_.rank() != 0) continue;
    const std::span<std::byte> bytes = place(slice.part);
    if (bytes.empty()) continue;
    if (!is_own) exchange.receive(slice.owner, bytes);
    for (int rank = 0; is_own && rank < (to == To::all ? ranks_.size() : 1); ++rank)
      if (rank != ranks_.rank()) exchange.send(rank, bytes);
  }
  exchange.wait(what);
}

}  // namespace tapestry
