#include "poptorch/capture/alias.h"

#include <ATen/TensorUtils.h>

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
Value* put_back(Builder& b, const ViewStep& step, Value* whole, Value* part) {
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
  // Torch changes the elements without telling autograd.
  if (step.op == "detach") return b.make("detach", {part});
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

  bool apply(const ViewStep& step) {
    if (step.op == "reshape") return reshape(step.attrs.as<aspen::ReshapeAttrs>().shape);
    if (step.op == "take") return false;
    if (step.op == "transpose") transpose(step.attrs.as<aspen::TransposeAttrs>().permutation);
    if (step.op == "slice") slice(step.attrs.as<aspen::SliceAttrs>());
    if (step.op == "broadcast") broadcast(step.attrs.as<aspen::BroadcastAttrs>().shape);
    return true;
  }
};

}  // namespace

Value* TracedStorage::contents() {
  if (base == nullptr) base = make();
  return base;
}

Traced::Traced(std::shared_ptr<TracedStorage> storage, ViewChain chain, aspen::Shape shape)
    : storage_(std::move(storage)), chain_(std::move(chain)), shape_(std::move(shape)) {}

std::shared_ptr<Traced> Traced::fresh(Value* value, c10::ScalarType dtype) {
  auto storage = std::make_shared<TracedStorage>();
  storage->dtype = dtype;
  storage->base = value;
  return std::make_shared<Traced>(std::move(storage), ViewChain{}, value->shape());
}

Value* Traced::read(Builder& b) {
  Value* contents = storage_->contents();
  if (value_ != nullptr && seen_ == storage_->writes) return value_;
  value_ = contents;
  for (const ViewStep& step : chain_) value_ = apply(b, step, value_);
  seen_ = storage_->writes;
  return value_;
}

void Traced::write(Builder& b, Value* value) {
  // What each step started from, the whole storage first.
  std::vector<Value*> wholes = {storage_->contents()};
  for (std::size_t i = 0; i + 1 < chain_.size(); ++i) wholes.push_back(apply(b, chain_[i], wholes.back()));
  Value* part = value;
  for (std::size_t i = chain_.size(); i-- > 0;) part = put_back(b, chain_[i], wholes[i], part);
  storage_->base = part;
  ++storage_->writes;
  value_ = value;
  seen_ = storage_->writes;
}

std::shared_ptr<Traced> Traced::view(Builder& b, const ViewChain& steps) {
  Value* value = read(b);
  for (const ViewStep& step : steps) value = apply(b, step, value);
  ViewChain chain = chain_;
  chain.insert(chain.end(), steps.begin(), steps.end());
  auto result = std::make_shared<Traced>(storage_, std::move(chain), value->shape());
  result->value_ = value;
  result->seen_ = storage_->writes;
  return result;
}

std::optional<Strides> Traced::strides() const {
  if (chain_.empty()) return at::detail::defaultStrides(shape_);  // without asking for the contents: they may be unused
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
