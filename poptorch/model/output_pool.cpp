#include "poptorch/model/output_pool.h"

#include <ATen/ops/empty.h>
#include <c10/core/CPUAllocator.h>

#include <iterator>
#include <map>
#include <mutex>
#include <utility>

namespace poptorch {
namespace {

constexpr std::size_t kLarge = 1 << 17;  // bytes; the system's allocator keeps smaller pieces itself

}  // namespace

// Shared by the pool and its results: whichever of them is the last to go frees what is kept.
class OutputPool::Blocks {
 public:
  c10::DataPtr take(std::size_t bytes, const std::shared_ptr<Blocks>& self) {
    {
      std::lock_guard lock(mutex_);
      if (const auto found = kept_.find(bytes); found != kept_.end()) {
        c10::DataPtr block = std::move(found->second);
        kept_.erase(found);
        kept_bytes_ -= bytes;
        return loan(std::move(block), bytes, self);
      }
    }
    return loan(c10::GetCPUAllocator()->allocate(bytes), bytes, self);
  }

  void keep_at_most(std::size_t bytes) {
    std::lock_guard lock(mutex_);
    limit_ = bytes;
    drop();
  }

  std::size_t kept_bytes() const {
    std::lock_guard lock(mutex_);
    return kept_bytes_;
  }

 private:
  struct Loan {
    std::shared_ptr<Blocks> owner;
    c10::DataPtr block;
    std::size_t bytes;
  };

  static c10::DataPtr loan(c10::DataPtr block, std::size_t bytes, const std::shared_ptr<Blocks>& self) {
    void* data = block.get();
    auto context = std::make_unique<Loan>(Loan{self, std::move(block), bytes});
    return {data, context.release(), give_back, c10::Device(c10::kCPU)};
  }

  static void give_back(void* context) {
    const std::unique_ptr<Loan> loan(static_cast<Loan*>(context));
    loan->owner->put(std::move(loan->block), loan->bytes);
  }

  void put(c10::DataPtr block, std::size_t bytes) {
    std::lock_guard lock(mutex_);
    kept_.emplace(bytes, std::move(block));
    kept_bytes_ += bytes;
    drop();
  }

  // The largest first: few of them make room.
  void drop() {
    while (kept_bytes_ > limit_) {
      const auto largest = std::prev(kept_.end());
      kept_bytes_ -= largest->first;
      kept_.erase(largest);
    }
  }

  mutable std::mutex mutex_;
  std::multimap<std::size_t, c10::DataPtr> kept_;  // by bytes
  std::size_t kept_bytes_ = 0, limit_ = 0;
};

OutputPool::OutputPool() : blocks_(std::make_shared<Blocks>()) {}
OutputPool::~OutputPool() { blocks_->keep_at_most(0); }

at::Tensor OutputPool::empty(c10::IntArrayRef shape, c10::ScalarType type) {
  const std::size_t bytes = static_cast<std::size_t>(c10::multiply_integers(shape)) * c10::elementSize(type);
  if (bytes < kLarge) return at::empty(shape, type);
  c10::Storage storage(c10::Storage::use_byte_size_t(), bytes, blocks_->take(bytes, blocks_), c10::GetCPUAllocator(),
                       /*resizable=*/true);
  at::Tensor tensor = at::detail::make_tensor<c10::TensorImpl>(
      std::move(storage), c10::DispatchKeySet(c10::DispatchKey::CPU), c10::scalarTypeToTypeMeta(type));
  tensor.unsafeGetTensorImpl()->set_sizes_contiguous(shape);
  return tensor;
}

void OutputPool::keep_at_most(std::size_t bytes) { blocks_->keep_at_most(bytes); }
std::size_t OutputPool::kept_bytes() const { return blocks_->kept_bytes(); }

}  // namespace poptorch
