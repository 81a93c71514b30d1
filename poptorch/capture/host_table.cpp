#include "poptorch/capture/host_table.h"

#include <ATen/ops/arange.h>
#include <ATen/ops/as_strided.h>

#include <algorithm>
#include <numeric>

#include "aspen/ops/build.h"
#include "aspen/ops/index/index.h"
#include "aspen/ops/shape/shape.h"
#include "poptorch/capture/dispatch_scope.h"
#include "poptorch/capture/host_data.h"

namespace poptorch {
namespace {

using aspen::Attrs;

// Elements [first, second) of the torch storage that the tensor touches.
std::pair<std::int64_t, std::int64_t> extent_of(const at::Tensor& tensor) {
  std::int64_t last = tensor.storage_offset();
  for (std::int64_t d = 0; d < tensor.dim(); ++d) last += (tensor.size(d) - 1) * tensor.stride(d);
  return {tensor.storage_offset(), last + 1};
}

// Axes from the slowest in memory to the fastest.
std::vector<std::int64_t> memory_order(const at::Tensor& tensor) {
  std::vector<std::int64_t> order(tensor.dim());
  std::iota(order.begin(), order.end(), 0);
  std::stable_sort(order.begin(), order.end(),
                   [&](std::int64_t a, std::int64_t b) { return tensor.stride(a) > tensor.stride(b); });
  return order;
}

ViewStep reshape_step(aspen::Shape shape) { return {"reshape", Attrs::of(aspen::ReshapeAttrs{std::move(shape)})}; }

ViewStep transpose_step(std::vector<std::int64_t> permutation) {
  return {"transpose", Attrs::of(aspen::TransposeAttrs{std::move(permutation)})};
}

bool same_layout(const at::Tensor& a, const at::Tensor& b) {
  return a.storage_offset() == b.storage_offset() && a.sizes() == b.sizes() &&
         (a.strides() == b.strides() || (a.is_contiguous() && b.is_contiguous()));
}

bool has_host_memory(const at::Tensor& tensor) {
  return tensor.defined() && tensor.device().is_cpu() && tensor.layout() == c10::kStrided && tensor.has_storage();
}

}  // namespace

// The first of the regions that overlap [begin, end) and are wanted.
template <class Table, class F>
auto HostTable::find_in(Table& regions, std::int64_t begin, std::int64_t end, const F& is_wanted)
    -> decltype(regions.around.data()) {
  auto place = regions.apart.upper_bound(begin);
  if (place != regions.apart.begin() && std::prev(place)->second.end > begin) --place;
  for (; place != regions.apart.end() && place->first < end; ++place) {
    if (is_wanted(place->second)) return &place->second;
  }
  for (auto& region : regions.around) {
    if (region.begin < end && begin < region.end && is_wanted(region)) return &region;
  }
  return nullptr;
}

void HostTable::add(const at::Tensor& tensor, std::shared_ptr<TracedStorage> storage, bool differentiable) {
  const auto [begin, end] = extent_of(tensor);
  Regions& regions = regions_[tensor.storage().unsafeGetStorageImpl()];
  const bool overlaps = find_in(regions, begin, end, [](const Region&) { return true; }) != nullptr;
  Region region{tensor, std::move(storage), std::make_shared<History>(), differentiable, begin, end};
  if (overlaps) {
    regions.around.push_back(std::move(region));
  } else {
    regions.apart.emplace(begin, std::move(region));
  }
}

void HostTable::replace(const at::Tensor& tensor, std::shared_ptr<TracedStorage> storage,
                        std::shared_ptr<History> history) {
  Regions& regions = regions_.at(tensor.storage().unsafeGetStorageImpl());
  const auto [begin, end] = extent_of(tensor);
  const auto is_this = [&](const Region& region) { return same_layout(region.tensor, tensor); };
  if (Region* region = find_in(regions, begin, end, is_this)) {
    region->storage = std::move(storage);
    region->history = std::move(history);
    return;
  }
  throw aspen::UserError(
      "[data] `.data` of a view of a parameter or buffer, of shape {}, cannot be set; set that of the parameter, or "
      "use "
      "copy_().",
      aspen::to_string(shape_of(tensor)));
}

const HostTable::Region* HostTable::find_region(const at::Tensor& tensor) const {
  if (regions_.empty() || !has_host_memory(tensor)) return nullptr;
  const auto found = regions_.find(tensor.storage().unsafeGetStorageImpl());
  if (found == regions_.end() || tensor.numel() == 0) return nullptr;
  const auto [begin, end] = extent_of(tensor);
  const auto holds_all = [first = begin, last = end](const Region& region) {
    return region.begin <= first && last <= region.end;
  };
  if (const Region* region = find_in(found->second, begin, end, holds_all)) return region;
  const auto* overlapping = find_in(found->second, begin, end, [](const Region&) { return true; });
  if (overlapping != nullptr) {
    throw aspen::UserError(
        "[capture] a tensor of shape {} covers part of a parameter or buffer of shape {} and memory beside it. Make "
        "the model read the parameters themselves, or torch.cat() them.",
        aspen::to_string(shape_of(tensor)), aspen::to_string(shape_of(overlapping->tensor)));
  }
  return nullptr;
}

ViewChain HostTable::steps_to(const Region& region, const at::Tensor& tensor, aspen::Builder& b) {
  if (same_layout(region.tensor, tensor)) return {};
  ViewChain chain;
  // All of the region, flat, in the order of its memory.
  if (!region.tensor.is_contiguous()) chain.push_back(transpose_step(memory_order(region.tensor)));
  const std::int64_t size = region.end - region.begin;
  chain.push_back(reshape_step({size}));
  const auto [begin, end] = extent_of(tensor);
  if (!tensor.is_non_overlapping_and_dense()) {
    const at::Tensor index = at::arange(size).as_strided(tensor.sizes(), tensor.strides(), begin - region.begin);
    aspen::Value* places = aspen::build::constant(b, {aspen::DType::kI32, shape_of(index)}, to_graph_bytes(index));
    chain.push_back({"take", Attrs::of(aspen::TakeAttrs{.axis = 0}), places, tensor.strides().vec()});
    return chain;
  }
  if (end - begin != size) {
    chain.push_back({"slice", Attrs::of(aspen::SliceAttrs{{begin - region.begin}, {end - region.begin}, {1}})});
  }
  const std::vector<std::int64_t> order = memory_order(tensor);
  aspen::Shape in_memory;
  for (std::int64_t axis : order) in_memory.push_back(tensor.size(axis));
  if (tensor.is_contiguous()) {
    chain.push_back(reshape_step(shape_of(tensor)));
    return chain;
  }
  chain.push_back(reshape_step(in_memory));
  std::vector<std::int64_t> permutation(order.size());
  for (std::size_t i = 0; i < order.size(); ++i) permutation[order[i]] = static_cast<std::int64_t>(i);
  chain.push_back(transpose_step(permutation));
  return chain;
}

std::shared_ptr<Traced> HostTable::find(const at::Tensor& tensor, aspen::Builder& b) const {
  const Region* region = find_region(tensor);
  if (region == nullptr) return nullptr;
  if (tensor.scalar_type() != region->storage->dtype) {
    throw aspen::UserError("[capture] memory of a {} tensor of the model is read as {}; use to() to convert it.",
                           c10::toString(region->storage->dtype), c10::toString(tensor.scalar_type()));
  }
  HostScope host;
  ViewChain chain = steps_to(*region, tensor, b);
  const bool detached = region->differentiable && !tensor.requires_grad();
  auto history = detached ? std::make_shared<History>(History{.detached = true}) : region->history;
  return std::make_shared<Traced>(region->storage, std::move(history), std::move(chain), shape_of(tensor));
}

}  // namespace poptorch
