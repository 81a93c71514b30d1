#include "poptorch/model/host_weights.h"

#include <algorithm>
#include <mutex>
#include <unordered_map>

namespace poptorch {
namespace {

struct Sources {
  std::mutex mutex;
  std::vector<std::shared_ptr<HostWeights>> in_order;
  // By the object that the module holds: memory may come and go with a tensor's values.
  std::unordered_map<const c10::TensorImpl*, std::vector<const HostWeights*>> of_tensor;
};

Sources& sources() {
  static auto* all = new Sources;  // never destroyed: executors may outlive it
  return *all;
}

}  // namespace

HostWeights::HostWeights(Turn turn, std::function<void()> download)
    : turn_(std::move(turn)), download_(std::move(download)) {}

bool HostWeights::sync() {
  if (!is_stale_) return false;
  return turn_([this] {
    if (!is_stale_) return false;  // another thread was first
    download_();
    set_current();
    return true;
  });
}

// The mark goes last: other threads must wait until everything is there.
void HostWeights::set_current() {
  ++version_;
  is_stale_ = false;
}

void HostWeights::hold(const std::function<void()>& body) {
  bool done = false;
  turn_([&] {
    body();
    return done = true;
  });
  if (!done) body();
}

void add_source(const std::vector<at::Tensor>& tensors, const std::shared_ptr<HostWeights>& source) {
  Sources& all = sources();
  const std::scoped_lock lock(all.mutex);
  all.in_order.push_back(source);
  for (const at::Tensor& tensor : tensors) all.of_tensor[tensor.unsafeGetTensorImpl()].push_back(source.get());
}

void remove_source(const std::shared_ptr<HostWeights>& source) {
  Sources& all = sources();
  const std::scoped_lock lock(all.mutex);
  std::erase(all.in_order, source);
  for (auto& [tensor, its_sources] : all.of_tensor) std::erase(its_sources, source.get());
  std::erase_if(all.of_tensor, [](const auto& entry) { return entry.second.empty(); });
}

std::vector<std::shared_ptr<HostWeights>> sources_of(const std::vector<at::Tensor>& tensors) {
  Sources& all = sources();
  const std::scoped_lock lock(all.mutex);
  std::vector<const HostWeights*> wanted;
  for (const at::Tensor& tensor : tensors) {
    const auto found = all.of_tensor.find(tensor.unsafeGetTensorImpl());
    if (found != all.of_tensor.end()) wanted.insert(wanted.end(), found->second.begin(), found->second.end());
  }
  std::vector<std::shared_ptr<HostWeights>> result;
  for (const auto& source : all.in_order) {
    if (std::find(wanted.begin(), wanted.end(), source.get()) != wanted.end()) result.push_back(source);
  }
  return result;
}

}  // namespace poptorch
