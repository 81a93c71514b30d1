// Who shares memory with whom while a model is captured. A TracedStorage stands for one piece of memory; a Traced
// is one tensor over it: the storage and the steps that lead from its whole contents to what the tensor shows.
// Writes rebuild the storage's value; other tensors over it are derived anew when they are read next.
#pragma once

#include <c10/core/ScalarType.h>

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "aspen/compiler/ir/builder.h"

namespace poptorch {

// One step of a view. `op` is reshape, transpose, slice, broadcast, take or detach (same elements, no gradient).
struct ViewStep {
  std::string op;
  aspen::Attrs attrs;
  aspen::Value* index = nullptr;  // take only: an i32 constant of the graph
};
using ViewChain = std::vector<ViewStep>;

struct TracedStorage {
  c10::ScalarType dtype = c10::ScalarType::Float;  // as torch sees it; the graph may hold a narrower type
  aspen::Value* base = nullptr;                    // the contents now; nullptr until somebody reads a lazy one
  std::function<aspen::Value*()> make;             // makes the first contents of a lazy storage
  std::uint64_t writes = 0;

  aspen::Value* contents();
};

class Traced {
 public:
  Traced(std::shared_ptr<TracedStorage> storage, ViewChain chain, aspen::Shape shape);
  // A tensor of its own over a value.
  static std::shared_ptr<Traced> fresh(aspen::Value* value, c10::ScalarType dtype);

  const aspen::Shape& shape() const { return shape_; }
  c10::ScalarType dtype() const { return storage_->dtype; }
  const std::shared_ptr<TracedStorage>& storage() const { return storage_; }

  aspen::Value* read(aspen::Builder& b);
  // `value` has the shape and graph type of this tensor. A write through a broadcast is a UserError, as in torch.
  void write(aspen::Builder& b, aspen::Value* value);
  std::shared_ptr<Traced> view(aspen::Builder& b, const ViewChain& steps);
  // Whether torch's reshape() to `shape` shares memory with this tensor; if not, it is a copy.
  bool reshapes_in_place(const aspen::Shape& shape) const;
  bool is_contiguous() const;
  // Distances in memory between neighbours along each axis; nullopt if there is no fixed one.
  std::optional<std::vector<std::int64_t>> strides() const;

 private:
  std::shared_ptr<TracedStorage> storage_;
  ViewChain chain_;
  aspen::Shape shape_;
  aspen::Value* value_ = nullptr;  // what the tensor shows, as of `seen_` writes to the storage
  std::uint64_t seen_ = 0;
};

}  // namespace poptorch
