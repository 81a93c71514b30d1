#include "poptorch/capture/alias.h"

#include <ATen/TensorUtils.h>

#include <algorithm>

#include "aspen/ops/build.h"
#include "aspen/ops/index/index.h"
#include "aspen/ops/shape/shape.h"

namespace poptorch {
namespace {

using aspen::Builder;
using aspen::Value;

Value* apply(Builder& b, const ViewStep& step, Value* x) {
  std::vector<Value*> inputs = {x};
  if (step.op == "take") inputs.push_back(step.index);
  return b.emit(step.op, std::move(inputs), step.attrs)->output(0);
}

std::vector<std::int64_t> inverse_permutation(const std::vector<std::int64_t>& permutation) {
  std::vector<std::int64_t> inverse(permutation.size());
  for (std::size_t i = 0; i < permutation.size(); ++i) inverse[permutation[i]] = static_cast<std::int64_t>(i);
  return inverse;
}

// The contents `whole` of which `step` shows a part, with that part replaced by `part`.
Value* replace_part(Builder& b, const ViewStep& step, Value* whole, Value* part) {
  if (step.op == "reshape") return aspen::build::reshape(b, part, whole->shape());
  if (step.op == "transpose") {
    const auto& permutation = step.attrs.as<aspen::TransposeAttrs>().permutation;
    return aspen::build::transpose(b, part, inverse_permutation(permutation));
  }
  if (step.op == "slice") return b.emit("slice_update", {whole, part}, step.attrs)->output(0);
  if (step.op == "take") {
    const auto axis = step.attrs.as<aspen::TakeAttrs>().axis;
    return b.make("scatter_rows", {whole, step.index, part}, aspen::ScatterAttrs{.axis = axis, .mode = "set"});
  }
  if (step.op == "broadcast") {
    if (aspen::numel(whole->shape()) == aspen::numel(part->shape())) {
      return aspen::build::reshape(b, part, whole->shape());
    }
    throw aspen::UserError(
        "[in-place] a tensor expanded from {} to {} cannot be written: several of its elements are one place in "
        "memory. Write to a clone() of it.\n  captured at {}",
        aspen::to_string(whole->shape()), aspen::to_string(part->shape()), b.location.source);
  }
  throw aspen::InternalError("no way back through view step {}", step.op);
}

// Ops that share memory are no ops of the user's: whether gradients are on where they happen to be added says nothing.
class WithGradients {
 public:
  explicit WithGradients(Builder& b) : b_(b), saved_(b.no_grad) { b.no_grad = false; }
  ~WithGradients() { b_.no_grad = saved_; }
  WithGradients(const WithGradients&) = delete;
  WithGradients& operator=(const WithGradients&) = delete;

 private:
  Builder& b_;
  bool saved_;
};

using Strides = std::vector<std::int64_t>;

// A tensor in memory: what a step of a view does to its shape and strides.
struct Layout {
  aspen::Shape shape;
  Strides strides;

  bool reshape(const aspen::Shape& target) {
    auto moved = at::detail::computeStride(shape, strides, target);
    if (!moved) return false;
    shape = target;
    strides = std::move(*moved);
    return true;
  }

  void transpose(const std::vector<std::int64_t>& permutation) {
    const Layout before = *this;
    for (std::size_t i = 0; i < permutation.size(); ++i) {
      shape[i] = before.shape[permutation[i]];
      strides[i] = before.strides[permutation[i]];
    }
  }

  void slice(const aspen::SliceAttrs& attrs) {
    for (std::size_t i = 0; i < shape.size(); ++i) {
      shape[i] = (attrs.ends[i] - attrs.starts[i] + attrs.steps[i] - 1) / attrs.steps[i];
      strides[i] *= attrs.steps[i];
    }
  }

  void broadcast(const aspen::Shape& target) {
    const std::size_t added = target.size() - shape.size();
    Strides grown(target.size(), 0);
    for (std::size_t i = 0; i < shape.size(); ++i) {
      if (shape[i] == target[added + i]) grown[added + i] = strides[i];
    }
    shape = target;
    strides = std::move(grown);
  }

  bool take(const ViewStep& step) {
    shape = step.index->shape();
    strides = step.strides;
    return strides.size() == shape.size();
  }

  bool apply(const ViewStep& step) {
    if (step.op == "reshape") return reshape(step.attrs.as<aspen::ReshapeAttrs>().shape);
    if (step.op == "take") return take(step);
    if (step.op == "transpose") transpose(step.attrs.as<aspen::TransposeAttrs>().permutation);
    if (step.op == "slice") slice(step.attrs.as<aspen::SliceAttrs>());
    if (step.op == "broadcast") broadcast(step.attrs.as<aspen::BroadcastAttrs>().shape);
    return true;
  }
};

}  // namespace

Value* TracedStorage::contents() {
  if (base == nullptr) base = first = make();
  return base;
}

Traced::Traced(std::shared_ptr<TracedStorage> storage, std::shared_ptr<History> history, ViewChain chain,
               aspen::Shape shape)
    : storage_(std::move(storage)), history_(std::move(history)), chain_(std::move(chain)), shape_(std::move(shape)) {}

std::shared_ptr<Traced> Traced::fresh(std::shared_ptr<Capture> capture, Value* value, c10::ScalarType dtype) {
  auto storage = std::make_shared<TracedStorage>();
  storage->capture = std::move(capture);
  storage->dtype = dtype;
  storage->base = storage->first = value;
  aspen::Shape shape = value->shape();
  if (c10::isComplexType(dtype)) shape.pop_back();  // pairs of real numbers in the graph
  return std::make_shared<Traced>(std::move(storage), std::make_shared<History>(), ViewChain{}, std::move(shape));
}

Value* Traced::cut(Builder& b, Value* value) const {
  return storage_->capture->paths.wants(value) ? b.make("detach", {value}) : value;
}

Value* Traced::with_path(Builder& b, Value* value, Value* path) const {
  if (value == path) return value;
  return storage_->capture->paths.wants(path) ? b.make("graft", {value, path}) : cut(b, value);
}

Value* Traced::contents(Builder& b) {
  Value* data = storage_->contents();
  History& history = *history_;
  if (history.contents == nullptr) {
    history.contents = history.detached ? cut(b, data) : with_path(b, data, storage_->first);
  } else if (history.seen != storage_->writes) {
    history.contents = with_path(b, data, history.contents);
  }
  history.seen = storage_->writes;
  return history.contents;
}

void Traced::remember(Value* value) {
  value_ = value;
  seen_ = storage_->writes;
  paths_ = history_->paths;
}

Value* Traced::read(Builder& b) {
  if (value_ != nullptr && seen_ == storage_->writes && paths_ == history_->paths) return value_;
  WithGradients scope(b);
  Value* value = contents(b);
  for (const ViewStep& step : chain_) value = apply(b, step, value);
  remember(value);
  return value;
}

bool Traced::wants_gradient(Builder& b) { return storage_->capture->paths.wants(read(b)); }

// Whether every element of the storage is one of this tensor's.
bool Traced::covers_storage() const {
  return std::none_of(chain_.begin(), chain_.end(),
                      [](const ViewStep& step) { return step.op == "slice" || step.op == "take"; });
}

// The contents with the part that this tensor shows replaced.
Value* Traced::put_back(Builder& b, Value* value) {
  // What each step started from, the whole storage first.
  std::vector<Value*> wholes = {contents(b)};
  for (std::size_t i = 0; i + 1 < chain_.size(); ++i) wholes.push_back(apply(b, chain_[i], wholes.back()));
  for (std::size_t i = chain_.size(); i-- > 0;) value = replace_part(b, chain_[i], wholes[i], value);
  return value;
}

void Traced::write(Builder& b, Value* value) {
  const bool tracked = !b.no_grad;
  WithGradients scope(b);
  Value* old = contents(b);
  Value* whole = put_back(b, value);
  const bool had_path = storage_->capture->paths.wants(old);
  if (!tracked) {
    whole = with_path(b, whole, old);
  } else if (had_path && covers_storage()) {
    whole = b.make("overwrite", {whole, old});
  }
  storage_->capture->writes.push_back({storage_, storage_->base});
  storage_->base = history_->contents = whole;
  history_->seen = ++storage_->writes;
  // Read back through the contents where those lead gradients on.
  if (chain_.empty()) value = whole;
  remember(chain_.empty() || (tracked && !had_path) ? value : nullptr);
}

void Traced::set_path(Builder& b, Value* value) {
  WithGradients scope(b);
  history_->contents = put_back(b, value);
  ++history_->paths;
  remember(value);
}

std::shared_ptr<Traced> Traced::view(Builder& b, const ViewChain& steps) {
  bool own_history = b.no_grad;
  WithGradients scope(b);
  Value* value = read(b);
  ViewChain chain = chain_;
  for (const ViewStep& step : steps) {
    if (step.op == "detach") {
      own_history = true;
    } else {
      chain.push_back(step);
    }
  }
  if (own_history) value = cut(b, value);
  const std::size_t steps_before = chain_.size();
  for (std::size_t i = steps_before; i < chain.size(); ++i) value = apply(b, chain[i], value);
  // To hooks and functions another tensor, and so another value, even if it shows the same.
  if (chain.size() == steps_before && storage_->capture->paths.wants(value)) {
    value = b.make("reshape", {value}, aspen::ReshapeAttrs{value->shape()});
  }
  auto history = own_history ? std::make_shared<History>(History{.detached = true}) : history_;
  auto result = std::make_shared<Traced>(storage_, std::move(history), std::move(chain), value->shape());
  result->remember(value);
  return result;
}

std::shared_ptr<Traced> Traced::moved(Builder& b, Value* value) {
  ++storage_->capture->moves;
  WithGradients scope(b);
  value = with_path(b, value, read(b));
  auto result = fresh(storage_->capture, value, storage_->dtype);
  result->storage_->writes = 1;  // not what the owner began with
  return result;
}

std::optional<Strides> Traced::strides() const {
  // Without asking for the contents: they may be unused. Complex tensors have no views.
  if (chain_.empty() || c10::isComplexType(dtype())) return at::detail::defaultStrides(shape_);
  const aspen::Shape& base = storage_->contents()->shape();
  Layout layout{base, at::detail::defaultStrides(base)};
  for (const ViewStep& step : chain_) {
    if (!layout.apply(step)) return std::nullopt;
  }
  return layout.strides;
}

bool Traced::reshapes_in_place(const aspen::Shape& shape) const {
  const auto own = strides();
  return own && at::detail::computeStride(shape_, *own, shape).has_value();
}

bool Traced::is_contiguous() const {
  const auto own = strides();
  if (!own) return false;
  const Strides packed = at::detail::defaultStrides(shape_);
  for (std::size_t i = 0; i < shape_.size(); ++i) {
    if (shape_[i] > 1 && (*own)[i] != packed[i]) return false;
  }
  return true;
}

}  // namespace poptorch
