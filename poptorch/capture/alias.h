// Who shares memory with whom while a model is captured. A TracedStorage stands for one piece of memory; a Traced
// is one tensor over it: the storage and the steps that lead from its whole contents to what the tensor shows.
// Writes rebuild the storage's value; other tensors over it are derived anew when they are read next.
//
// Memory is one thing, the path of gradients another. Tensors that torch links by differentiable views share a History;
// `.data`, detach() and views made under no_grad begin another one over the same memory. What is written through one
// History, or with gradients switched off, shows in all others as the new value with the old path (op `graft`).
#pragma once

#include <c10/core/ScalarType.h>

#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <unordered_set>
#include <vector>

#include "aspen/compiler/autodiff/gradient_paths.h"
#include "aspen/compiler/ir/builder.h"

namespace poptorch {

// One step of a view. `op` is reshape, transpose, slice, broadcast, take or detach (same elements, no gradient).
struct ViewStep {
  std::string op;
  aspen::Attrs attrs;
  aspen::Value* index = nullptr;      // take only: an i32 constant of the graph
  std::vector<std::int64_t> strides;  // take only: of its result in memory; empty: it has no fixed ones
};
using ViewChain = std::vector<ViewStep>;

class TracedImpl;
struct TracedStorage;

// What all tensors of one capture know of it. A model may keep them for longer than the capture, and the graph, live.
struct Capture {
  aspen::GradientPaths paths;

  // Every write to memory, and what was in it before, as long as there is a recorder: storages and captures keep each
  // other. How often a tensor was given other memory.
  struct Write {
    std::shared_ptr<TracedStorage> storage;
    aspen::Value* before = nullptr;
  };
  std::vector<Write> writes;
  std::size_t moves = 0;

  // The torch tensors that exist. They may be destroyed on any thread.
  std::mutex mutex;
  std::unordered_set<TracedImpl*> tensors;
};

struct TracedStorage {
  std::shared_ptr<Capture> capture;
  c10::ScalarType dtype = c10::ScalarType::Float;  // as torch sees it; the graph may hold a narrower type
  aspen::Value* base = nullptr;                    // the contents now; nullptr until somebody reads a lazy one
  aspen::Value* first = nullptr;                   // the contents before any write, likewise
  std::function<aspen::Value*()> make;             // makes the first contents of a lazy storage
  std::uint64_t writes = 0;

  aspen::Value* contents();
};

// The contents of a storage as tensors with one path of gradients see them.
struct History {
  bool detached = false;             // begins without a path
  aspen::Value* contents = nullptr;  // as of `seen` writes; nullptr: not asked for yet
  std::uint64_t seen = 0;
  std::uint64_t paths = 0;  // how often it was given another path
};

class Traced {
 public:
  Traced(std::shared_ptr<TracedStorage> storage, std::shared_ptr<History> history, ViewChain chain, aspen::Shape shape);
  // A tensor of its own over a value.
  static std::shared_ptr<Traced> fresh(std::shared_ptr<Capture> capture, aspen::Value* value, c10::ScalarType dtype);

  const aspen::Shape& shape() const { return shape_; }
  c10::ScalarType dtype() const { return storage_->dtype; }
  const std::shared_ptr<TracedStorage>& storage() const { return storage_; }
  const std::shared_ptr<History>& history() const { return history_; }

  aspen::Value* read(aspen::Builder& b);
  bool wants_gradient(aspen::Builder& b);  // what it shows is on a path from a trainable parameter
  // `value` has the shape and graph type of this tensor. With b.no_grad the path of gradients stays what it was. A
  // write through a broadcast is a UserError, as in torch.
  void write(aspen::Builder& b, aspen::Value* value);
  // The same elements, but with the path of gradients of `value`, for all tensors of this History.
  void set_path(aspen::Builder& b, aspen::Value* value);
  // With b.no_grad, or through a step `detach`, the view has a History of its own.
  std::shared_ptr<Traced> view(aspen::Builder& b, const ViewChain& steps);
  // What is written through a view is not computed from the value it shows, but from its part of the whole: hooks on
  // that value have seen the last of it.
  void forget_view() { value_ = chain_.empty() ? value_ : nullptr; }
  // Another storage that holds `value`, on the path of gradients of this tensor.
  std::shared_ptr<Traced> moved(aspen::Builder& b, aspen::Value* value);
  // Whether torch's reshape() to `shape` shares memory with this tensor; if not, it is a copy.
  bool reshapes_in_place(const aspen::Shape& shape) const;
  bool is_contiguous() const;
  // Distances in memory between neighbours along each axis; nullopt if there is no fixed one.
  std::optional<std::vector<std::int64_t>> strides() const;

 private:
  aspen::Value* contents(aspen::Builder& b);
  aspen::Value* put_back(aspen::Builder& b, aspen::Value* value);
  void remember(aspen::Value* value);
  aspen::Value* cut(aspen::Builder& b, aspen::Value* value) const;
  aspen::Value* with_path(aspen::Builder& b, aspen::Value* value, aspen::Value* path) const;
  bool covers_storage() const;

  std::shared_ptr<TracedStorage> storage_;
  std::shared_ptr<History> history_;
  ViewChain chain_;  // without `detach`
  aspen::Shape shape_;
  // What the tensor shows, as of `seen_` writes to the storage and `paths_` paths of the History; nullptr: derive it.
  aspen::Value* value_ = nullptr;
  std::uint64_t seen_ = 0, paths_ = 0;
};

}  // namespace poptorch
