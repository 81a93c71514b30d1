// Lines of classes one at a time, or some hundred columns that lie beside each other: what is found out about them
// comes out of the cache again, and of memory x is read once in each direction.
#include <algorithm>
#include <cmath>

#include "aspen/backends/api/callable_kernel.h"
#include "aspen/backends/cpu/widened.h"
#include "aspen/ops/nll/partial_losses.cpu.h"

namespace aspen {
namespace {

constexpr std::int64_t kMostColumns = 512;

struct LineStatistics {
  float top, sum;
};

// dx = exp(x - top) * factor - share * weight, and more for the target.
struct LineTerms {
  float top, factor, share;
};

struct LossColumns {
  std::int64_t classes, stride, lines;  // stride: from one class to the next
};

struct ColumnTerms {
  float top[kMostColumns], factor[kMostColumns], share[kMostColumns];
  std::int32_t counts[kMostColumns];
};

}  // namespace
}  // namespace aspen

#define ASPEN_ISA_FILE "aspen/ops/nll/cross_entropy_loops.inc"
#include "aspen/backends/cpu/each_isa.h"

namespace aspen {
namespace {

// Targets that lie one behind the other.
struct Targets {
  std::int64_t begin, count;  // among all
  std::int64_t x;             // where the first class of the first one is
};

struct CrossEntropyPlan : TargetPlan {
  double smoothing, share;      // share: of each class
  std::int64_t columns, items;  // columns: of an item, which is what is computed at once
  Chunks chunks;

  explicit CrossEntropyPlan(const KernelRequest& request)
      : TargetPlan(request.op, request.attrs.as<CrossEntropyAttrs>().nll, request.inputs[0].type.shape),
        smoothing(request.attrs.as<CrossEntropyAttrs>().smoothing),
        share(smoothing / static_cast<double>(layout.classes)), columns(std::min(layout.inner, kMostColumns)),
        items(layout.batch * items_of_sample()),
        chunks(cut(items, kMathCost * static_cast<double>(layout.targets() * layout.classes))) {}

  std::int64_t items_of_sample() const { return (layout.inner + columns - 1) / columns; }
  std::size_t workspace_bytes() const { return static_cast<std::size_t>(chunks.count()) * sizeof(PartialLoss); }
  bool has_lines() const { return layout.inner == 1; }

  Targets targets(std::int64_t item) const {
    const std::int64_t sample = item / items_of_sample(), first = item % items_of_sample() * columns;
    return {sample * layout.inner + first, std::min(columns, layout.inner - first),
            sample * layout.classes * layout.inner + first};
  }
  LossColumns columns_of(const Targets& targets) const { return {layout.classes, layout.inner, targets.count}; }

  double total_of(const float* weight) const {
    if (weight == nullptr) return static_cast<double>(layout.classes);
    double sum = 0;
    for (std::int64_t c = 0; c < layout.classes; ++c) sum += static_cast<double>(weight[c]);
    return sum;
  }
};

const float* floats(const KernelArgs& args, std::size_t i) { return static_cast<const float*>(args.inputs[i]); }
float* results(const KernelArgs& args, std::size_t i) { return static_cast<float*>(args.outputs[i]); }
const std::int32_t* target_of(const KernelArgs& args) { return static_cast<const std::int32_t*>(args.inputs[1]); }

class CrossEntropy {
 public:
  CrossEntropy(const CrossEntropyPlan& plan, const KernelArgs& args)
      : plan_(plan), x_(floats(args, 0)), target_(target_of(args)), weight_(floats(args, 2)), loss_(results(args, 0)),
        top_(results(args, 2)), sum_(results(args, 3)),
        all_classes_(plan.share > 0 ? plan.share * plan.total_of(weight_) : 0) {}

  PartialLoss add_up(const Chunk& chunk) const {
    PartialLoss part{0, 0, kNoTarget};
    for (std::int64_t i = chunk.begin; i < chunk.end; ++i) add(plan_.targets(i), part);
    return part;
  }

 private:
  void add(const Targets& targets, PartialLoss& part) const {
    const float* x = x_ + targets.x;
    float *top = top_ + targets.begin, *sum = sum_ + targets.begin, spread[kMostColumns];
    if (!plan_.has_lines()) {
      const LossColumns columns = plan_.columns_of(targets);
      ASPEN_BEST(column_statistics)(x, columns, top, sum);
      if (plan_.share > 0) ASPEN_BEST(column_spreads)(x, columns, top, weight_, spread);
    }
    for (std::int64_t j = 0; j < targets.count; ++j) {
      const std::int64_t at = targets.begin + j, own = target_[at];
      if (own == plan_.ignored || plan_.is_wrong(own)) {
        if (own != plan_.ignored && part.wrong == kNoTarget) part.wrong = at;
        top[j] = 0, sum[j] = 1;
        if (plan_.none) loss_[at] = 0;
        continue;
      }
      double of_all = 0;
      if (plan_.has_lines()) {
        const LineStatistics line = ASPEN_BEST(line_statistics)(x, plan_.layout.classes);
        *top = line.top, *sum = line.sum;
        if (plan_.share > 0) of_all = ASPEN_BEST(line_spread)(x, line.top, weight_, plan_.layout.classes);
      } else if (plan_.share > 0) {
        of_all = static_cast<double>(spread[j]);
      }
      const double shift = std::log(static_cast<double>(sum[j]));
      const double log_p = static_cast<double>(x[own * plan_.layout.inner + j] - top[j]) - shift;
      const double w = weight_ == nullptr ? 1.0 : static_cast<double>(weight_[own]);
      double value = -(1 - plan_.smoothing) * w * log_p;
      if (plan_.share > 0) value += all_classes_ * shift - plan_.share * of_all;
      part.total += w;
      part.sum += value;
      if (plan_.none) loss_[at] = static_cast<float>(value);
    }
  }

  const CrossEntropyPlan& plan_;
  const float* x_;
  const std::int32_t* target_;
  const float* weight_;
  float *loss_, *top_, *sum_;
  double all_classes_;  // share times the weights of all
};

class CrossEntropyGrad {
 public:
  CrossEntropyGrad(const CrossEntropyPlan& plan, const KernelArgs& args)
      : plan_(plan), x_(floats(args, 0)), target_(target_of(args)), weight_(floats(args, 2)), g_(floats(args, 4)),
        top_(args.inputs.size() > 5 ? floats(args, 5) : nullptr),
        sum_(args.inputs.size() > 6 ? floats(args, 6) : nullptr), dx_(results(args, 0)),
        own_share_(static_cast<float>(1 - plan.smoothing)), share_(static_cast<float>(plan.share)),
        all_classes_(plan.share > 0 ? static_cast<float>(plan.share * plan.total_of(weight_)) : 0) {
    const float total = *floats(args, 3);
    scale_ = !plan.mean ? 1.0f : total == 0 ? 0.0f : 1 / total;
  }

  PartialLoss write(const Chunk& chunk) const {
    PartialLoss part{0, 0, kNoTarget};
    ColumnTerms terms;
    for (std::int64_t i = chunk.begin; i < chunk.end; ++i) {
      if (plan_.has_lines()) {
        write_line(plan_.targets(i), part);
      } else {
        write_columns(plan_.targets(i), part, terms);
      }
    }
    return part;
  }

 private:
  bool counts(std::int64_t at, PartialLoss& part) const {
    if (target_[at] == plan_.ignored) return false;
    if (!plan_.is_wrong(target_[at])) return true;
    if (part.wrong == kNoTarget) part.wrong = at;
    return false;
  }

  float gradient(std::int64_t at) const { return g_[plan_.none ? at : 0] * scale_; }
  float own(std::int64_t at) const { return weight_ == nullptr ? own_share_ : own_share_ * weight_[target_[at]]; }

  LineTerms terms_of(std::int64_t at) const {
    const float g = gradient(at), factor = g * (own(at) + all_classes_);
    if (top_ == nullptr) return {0, factor, g * share_};
    return {top_[at], factor / sum_[at], g * share_};
  }

  void write_line(const Targets& targets, PartialLoss& part) const {
    const std::int64_t classes = plan_.layout.classes, at = targets.begin;
    float* dx = dx_ + targets.x;
    if (!counts(at, part)) return std::fill(dx, dx + classes, 0.0f), void();
    ASPEN_BEST(line_gradient)(x_ + targets.x, dx, classes, terms_of(at), weight_);
    dx[target_[at]] -= gradient(at) * own(at);
  }

  void write_columns(const Targets& targets, PartialLoss& part, ColumnTerms& terms) const {
    for (std::int64_t j = 0; j < targets.count; ++j) {
      terms.counts[j] = counts(targets.begin + j, part) ? 1 : 0;
      const LineTerms line = terms.counts[j] != 0 ? terms_of(targets.begin + j) : LineTerms{};
      terms.top[j] = line.top, terms.factor[j] = line.factor, terms.share[j] = line.share;
    }
    float* dx = dx_ + targets.x;
    ASPEN_BEST(column_gradients)(x_ + targets.x, dx, plan_.columns_of(targets), terms, weight_);
    for (std::int64_t j = 0; j < targets.count; ++j) {
      const std::int64_t at = targets.begin + j;
      if (terms.counts[j] != 0) dx[target_[at] * plan_.layout.inner + j] -= gradient(at) * own(at);
    }
  }

  const CrossEntropyPlan& plan_;
  const float* x_;
  const std::int32_t* target_;
  const float *weight_, *g_, *top_, *sum_;  // top and sum may be nullptr: x holds log probabilities
  float* dx_;
  float own_share_, share_, all_classes_, scale_;  // all_classes_: share times the weights of all
};

bool declines(const KernelRequest& request, std::string& why) {
  const TensorType& x = request.inputs[0].type;
  if (x.dtype == DType::kF32 && x.numel() > 0) return false;
  why = fmt::format("{}: takes f32 with at least one element, not {}", request.op, to_string(x));
  return true;
}

std::unique_ptr<Kernel> make_cross_entropy(const KernelRequest& request, std::string& why) {
  if (declines(request, why)) return nullptr;
  CrossEntropyPlan plan(request);
  return make_kernel(
      [plan](const KernelArgs& args) {
        const CrossEntropy loss(plan, args);
        auto* parts = static_cast<PartialLoss*>(args.workspace);
        for_each_chunk(args, plan.chunks, [&](const Chunk& chunk) { parts[chunk.index] = loss.add_up(chunk); });
        plan.check(parts, plan.chunks.count(), target_of(args));
        plan.finish(parts, plan.chunks.count(), results(args, 0), results(args, 1));
      },
      plan.workspace_bytes());
}

std::unique_ptr<Kernel> make_cross_entropy_grad(const KernelRequest& request, std::string& why) {
  if (declines(request, why)) return nullptr;
  CrossEntropyPlan plan(request);
  return make_kernel(
      [plan](const KernelArgs& args) {
        const CrossEntropyGrad gradient(plan, args);
        auto* parts = static_cast<PartialLoss*>(args.workspace);
        for_each_chunk(args, plan.chunks, [&](const Chunk& chunk) { parts[chunk.index] = gradient.write(chunk); });
        plan.check(parts, plan.chunks.count(), target_of(args));
      },
      plan.workspace_bytes());
}

}  // namespace

void register_cross_entropy_cpu(KernelRegistry& kernels) {
  add_with_half(kernels, "cross_entropy", make_cross_entropy);
  add_with_half(kernels, "cross_entropy_grad", make_cross_entropy_grad);
}

}  // namespace aspen
