#include "poptorch/model/host_weights.h"

#include <algorithm>
#include <mutex>
#include <unordered_map>

namespace poptorch {
namespace {

// A tensor's memory may come and go with its values; the object that the module holds stays.
struct OfTensor {
  c10::weak_intrusive_ptr<c10::TensorImpl> tensor;
  std::vector<const HostWeights*> sources;
  std::uint64_t lost_at = 0;  // version at which the last source went
};

struct Sources {
  std::mutex mutex;
  std::vector<std::shared_ptr<HostWeights>> in_order;
  std::unordered_map<const c10::TensorImpl*, OfTensor> of_tensor;
  std::atomic<std::uint64_t> version = 1;
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
  std::erase_if(all.of_tensor, [](const auto& entry) { return entry.second.tensor.expired(); });
  all.in_order.push_back(source);
  for (const at::Tensor& tensor : tensors) {
    OfTensor fresh{c10::weak_intrusive_ptr<c10::TensorImpl>(tensor.getIntrusivePtr()), {}, 0};
    all.of_tensor.try_emplace(tensor.unsafeGetTensorImpl(), std::move(fresh))
        .first->second.sources.push_back(source.get());
  }
  ++all.version;
}

void remove_source(const std::shared_ptr<HostWeights>& source) {
  Sources& all = sources();
  const std::scoped_lock lock(all.mutex);
  ++all.version;
  std::erase(all.in_order, source);
  for (auto& [key, entry] : all.of_tensor) {
    if (std::erase(entry.sources, source.get()) > 0) entry.lost_at = all.version;
  }
}

std::vector<std::shared_ptr<HostWeights>> sources_of(const std::vector<at::Tensor>& tensors) {
  Sources& all = sources();
  const std::scoped_lock lock(all.mutex);
  std::vector<const HostWeights*> wanted;
  for (const at::Tensor& tensor : tensors) {
    const auto found = all.of_tensor.find(tensor.unsafeGetTensorImpl());
    if (found == all.of_tensor.end()) continue;
    wanted.insert(wanted.end(), found->second.sources.begin(), found->second.sources.end());
  }
  std::vector<std::shared_ptr<HostWeights>> result;
  for (const auto& source : all.in_order) {
    if (std::find(wanted.begin(), wanted.end(), source.get()) != wanted.end()) result.push_back(source);
  }
  return result;
}

std::uint64_t sources_version() { return sources().version; }

bool has_lost_source(const std::vector<at::Tensor>& tensors, std::uint64_t since) {
  Sources& all = sources();
  const std::scoped_lock lock(all.mutex);
  return std::any_of(tensors.begin(), tensors.end(), [&](const at::Tensor& tensor) {
    const auto found = all.of_tensor.find(tensor.unsafeGetTensorImpl());
    return found != all.of_tensor.end() && found->second.lost_at > since;
  });
}

}  // namespace poptorch
