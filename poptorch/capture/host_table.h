// CPU tensors that are part of the model while it is captured: parameters, buffers, and tensors that captured data
// was written into. They are recognised by their memory, so a module keeps its own tensors, views of them share
// their value, and tied parameters are one variable without anybody saying so.
#pragma once

#include <ATen/core/Tensor.h>

#include <map>
#include <memory>
#include <unordered_map>
#include <vector>

#include "poptorch/capture/alias.h"

namespace poptorch {

class HostTable {
 public:
  // Takes in the memory of `tensor`, which must be dense (any order of axes). `differentiable`: a view of it that
  // does not require a gradient was cut off on purpose (`.data`).
  void add(const at::Tensor& tensor, std::shared_ptr<TracedStorage> storage, bool differentiable);

  // Gives the owner of this very memory another storage; tensors that were found before keep the one they have.
  void replace(const at::Tensor& tensor, std::shared_ptr<TracedStorage> storage, std::shared_ptr<History> history);

  bool contains(const at::Tensor& tensor) const { return find_region(tensor) != nullptr; }
  // The tensor as a view of the memory it lies in; nullptr when that is not in the table.
  std::shared_ptr<Traced> find(const at::Tensor& tensor, aspen::Builder& b) const;
  void clear() { regions_.clear(); }

 private:
  struct Region {
    at::Tensor tensor;  // keeps the memory, and with it the key, alive
    std::shared_ptr<TracedStorage> storage;
    std::shared_ptr<History> history;  // of the memory's owner
    bool differentiable;
    std::int64_t begin, end;  // in elements of the torch storage
  };

  // Of one piece of memory. Parameters may be thousands of pieces of one.
  struct Regions {
    std::map<std::int64_t, Region> apart;  // by begin; none overlaps another
    std::vector<Region> around;            // overlap some of those, and came later
  };

  template <class Table, class F>
  static auto find_in(Table& regions, std::int64_t begin, std::int64_t end, const F& is_wanted)
      -> decltype(regions.around.data());
  const Region* find_region(const at::Tensor& tensor) const;
  static ViewChain steps_to(const Region& region, const at::Tensor& tensor, aspen::Builder& b);

  std::unordered_map<const c10::StorageImpl*, Regions> regions_;
};

}  // namespace poptorch
