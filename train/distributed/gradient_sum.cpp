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

}  // namespace

// A part of one parameter's gradient, which one rank, its owner, sums.
struct GradientSum::Slice {
  ArrayPart part;
  int owner = 0;
  std::size_t first_fragment = 0, fragments = 0;

  // A rank's sum that the owner adds. Only the owner has terms, and they are sorted by micro-batch.
  struct Term {
    int rank = 0;
    std::size_t sum = 0;  // index among that rank's sums
    int merges_after = 0;
    Array array{};  // received sum, or this rank's own sum
    bool is_there = false;
  };
  std::vector<Term> terms{};
  int under_way = 0;  // number of messages in flight
};

GradientSum::GradientSum(Ranks& ranks, const std::vector<Parameter*>& parameters,
                         const GradientSumOptions& options)
    : ranks_(ranks), kept_(options.kept), plans_(ranks.size()), plan_(plans_[ranks.rank()]) {
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
    first_slice_.push_back(slices_.size());
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
  first_slice_.push_back(slices_.size());
  for (Slice& slice : slices_)
    if (slice.owner == ranks_.rank())
      for (int rank = 0; rank < R; ++rank)
        for (std::size_t sum = 0; sum < plans_[rank].merges_after.size(); ++sum)
          slice.terms.push_back(
              {.rank = rank, .sum = sum, .merges_after = plans_[rank].merges_after[sum]});
}

void GradientSum::begin() {
  const std::size_t n = parameters_.size();
  parameter_of_.clear();
  for (std::size_t i = 0; i < n; ++i) parameter_of_.emplace(parameters_[i]->tensor.id(), i);
  given_.assign(n, false);
  sums_.assign(plan_.merges_after.size(), std::vector<Array>(n));
  sum_ = 0;
  first_left_s_ = 0;
  left_ = std::ssize(slices_);
  if (ranks_.alone()) return;
  ranks_.post([this] {
    for (Slice& slice : slices_)
      if (slice.owner == ranks_.rank()) await(slice);
  });
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
  if (first_left_s_ == 0) first_left_s_ = now_s();
  if (!ranks_.alone()) ranks_.post([this, sum = sum_, parameter] { give(sum, parameter); });
}

// --- on the messages' thread ---

namespace {

// Return the tags of messages: one for each slice and sum of a rank, one for the total of each
// slice, and one for each exchanged slice.
int tag_of_sum(std::size_t slice, std::size_t slices, std::size_t sum) {
  return static_cast<int>(Ranks::first_free_tag + (2 + sum) * slices + slice);
}
int tag_of_total(std::size_t slice) { return static_cast<int>(Ranks::first_free_tag + slice); }
int tag_of_exchange(std::size_t slice, std::size_t slices) {
  return static_cast<int>(Ranks::first_free_tag + slices + slice);
}

}  // namespace

// Receives the sums of the other ranks for a slice that this rank owns.
void GradientSum::await(Slice& slice) {
  for (Slice::Term& term : slice.terms) term.is_there = false;
  for (Slice::Term& term : slice.terms) {
    if (term.rank == ranks_.rank()) continue;
    const DType dtype = parameters_[slice.part.array]->tensor.dtype();
    if (term.array.empty()) term.array = Array({slice.part.size()}, dtype);
    ranks_.receive(term.rank, tag_of_sum(&slice - slices_.data(), slices_.size(), term.sum),
                   bytes_of(term.array), [this, &slice, &term] {
                     term.is_there = true;
                     add_up(slice);
                   });
  }
}

void GradientSum::give(std::size_t sum, std::size_t parameter) {
  for (std::size_t i = first_slice_[parameter]; i < first_slice_[parameter + 1]; ++i) {
    Slice& slice = slices_[i];
    if (slice.owner != ranks_.rank()) {
      send_sum(sum, slice);
      continue;
    }
    for (Slice::Term& term : slice.terms)
      if (term.rank == ranks_.rank() && term.sum == sum) {
        term.array = part_of(sums_[sum][parameter], slice.part);
        term.is_there = true;
      }
    add_up(slice);
  }
}

// Sends this rank's sum of a slice to the owner of the slice. With Kept::all, receives the total in
// place of the first sum after the last sum was sent.
void GradientSum::send_sum(std::size_t sum, Slice& slice) {
  const std::size_t i = &slice - slices_.data();
  if (sum == 0) slice.under_way = static_cast<int>(sums_.size());
  ranks_.send(slice.owner, tag_of_sum(i, slices_.size(), sum),
              bytes_of(part_of(sums_[sum][slice.part.array], slice.part)), [this, &slice, i] {
                if (--slice.under_way > 0) return;
                if (kept_ == Kept::own_shard) {
                  --left_;
                  return;
                }
                ranks_.receive(slice.owner, tag_of_total(i),
                               bytes_of(part_of(sums_[0][slice.part.array], slice.part)),
                               [this] { --left_; });
              });
}

// Adds the terms of a slice if all have arrived. With Kept::all, sends the total to the other
// ranks.
void GradientSum::add_up(Slice& slice) {
  for (const Slice::Term& term : slice.terms)
    if (!term.is_there) return;
  std::vector<Array> stack;
  for (const Slice::Term& term : slice.terms) {
    stack.push_back(term.array);
    for (int merge = 0; merge < term.merges_after; ++merge) {
      add_on_this_thread(stack[stack.size() - 2], stack.back());
      stack.pop_back();
    }
  }
  Array total = part_of(sums_[0][slice.part.array], slice.part);
  if (total.raw() != stack.front().raw()) total.copy_from(stack.front());
  for (Slice::Term& term : slice.terms)
    if (term.rank == ranks_.rank()) term.array = Array();
  for (std::size_t i = slice.first_fragment; i < slice.first_fragment + slice.fragments; ++i)
    squares_[i] = sum_of_squares(part_of(sums_[0][slice.part.array], fragments_[i]));
  if (kept_ == Kept::own_shard) {
    --left_;
    return;
  }
  slice.under_way = ranks_.size() - 1;
  for (int rank = 0; rank < ranks_.size(); ++rank)
    if (rank != ranks_.rank())
      ranks_.send(rank, tag_of_total(&slice - slices_.data()), bytes_of(total), [this, &slice] {
        if (--slice.under_way == 0) --left_;
      });
}

// Returns the ranks whose terms are missing; if there are none, the other ranks that own slices,
// because their totals may be missing.
std::vector<int> GradientSum::missing() const {
  std::vector<int> ranks;
  const auto add = [&](int rank) {
    if (std::ranges::find(ranks, rank) == ranks.end()) ranks.push_back(rank);
  };
  for (const Slice& slice : slices_)
    for (const Slice::Term& term : slice.terms)
      if (!term.is_there && term.rank != ranks_.rank()) add(term.rank);
  if (ranks.empty())
    for (const Slice& slice : slices_)
      if (slice.owner != ranks_.rank()) add(slice.owner);
  std::ranges::sort(ranks);
  return ranks;
}

// --- on the caller's thread ---

Gradients GradientSum::finish() {
  require(micro_batch_ == plan_.steps.size(),
          "GradientSum: {} of the {} micro-batches of this rank were added; expected all",
          micro_batch_, plan_.steps.size());
  micro_batch_ = 0;
  Gradients gradients;
  if (!ranks_.alone()) {
    auto gathering = ranks_.begin_gather(given_, "the parameters that have gradients");
    const double before = now_s();
    ranks_.wait([this] { return left_ == 0; }, "the sum of the gradients",
                [this] { return missing(); });
    const double now = now_s();
    seconds_waited_ += now - before;
    seconds_under_way_ += now - first_left_s_;
    for (const std::vector<bool>& given : ranks_.end_gather(std::move(gathering)))
      for (std::size_t i = 0; i < parameters_.size(); ++i)
        if (given[i]) given_[i] = true;
    profile::mark(profile::Phase::step, "wait for ranks", nullptr, 0);
  }
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
  } else {
    std::vector<double> own;
    for (const Slice& slice : slices_)
      if (slice.owner == ranks_.rank())
        for (std::size_t i = 0; i < slice.fragments; ++i)
          own.push_back(squares_[slice.first_fragment + i]);
    const std::vector<std::vector<double>> all =
        ranks_.gather(std::move(own), "the gradient's norm");
    std::vector<std::size_t> taken(all.size(), 0);
    for (const Slice& slice : slices_)
      for (std::size_t i = 0; i < slice.fragments; ++i)
        squares_[slice.first_fragment + i] = all[slice.owner].at(taken[slice.owner]++);
  }
  double bytes = 0;
  for (const Parameter* parameter : parameters_) bytes += parameter->value().bytes();
  profile::mark(profile::Phase::step, "clip", nullptr, ranks_.alone() ? bytes : 0);
  for (std::vector<Array>& sums : sums_) sums.clear();  // the caller holds the result
  return clip_of(fragments_, squares_, limit);
}

void GradientSum::exchange(const std::function<std::span<std::byte>(const ArrayPart&)>& place,
                           To to, std::string_view what) {
  if (ranks_.alone()) return;
  std::atomic<std::int64_t> left = 1;
  ranks_.post([&] {
    for (std::size_t i = 0; i < slices_.size(); ++i) {
      const Slice& slice = slices_[i];
      const int tag = tag_of_exchange(i, slices_.size());
      const auto done = [&left] { --left; };
      const bool receives = slice.owner != ranks_.rank() && (to == To::all || ranks_.rank() == 0);
      if (receives && !place(slice.part).empty()) {
        ++left;
        ranks_.receive(slice.owner, tag, place(slice.part), done);
      }
      for (int rank = 0; rank < ranks_.size() && slice.owner == ranks_.rank(); ++rank)
        if (rank != ranks_.rank() && (to == To::all || rank == 0) && !place(slice.part).empty()) {
          ++left;
          ranks_.send(rank, tag, place(slice.part), done);
        }
    }
    --left;
  });
  ranks_.wait([&] { return left == 0; }, std::string(what), [this] { return missing(); });
}

}  // namespace tapestry
