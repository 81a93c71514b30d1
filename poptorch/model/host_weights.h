// HostWeights: whether the host's tensors of a model that trains are as new as the device's. Each training executor has
// one; whoever else uses the tensors asks it, from any thread.
#pragma once

#include <ATen/core/Tensor.h>

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <vector>

namespace poptorch {

class HostWeights {
 public:
  // Runs `body` while no call of the executor is under way, and returns what it returns. False at once if that cannot
  // be: the executor is gone, or what asks is a part of its running call, which sees the weights as they were.
  using Turn = std::function<bool(const std::function<bool()>& body)>;

  // download: copies the weights to the host; called in the executor's turn.
  HostWeights(Turn turn, std::function<void()> download);

  // The device is about to change the weights.
  void set_stale() { is_stale_ = true; }
  bool is_stale() const { return is_stale_; }

  // Copies the weights to the host if they are stale there; returns whether it did.
  bool sync();
  // Nothing is stale any more: the host's values were sent to the device, or have just been copied from it. Those who
  // follow take them over.
  void set_current();
  // Counts the values that the host had: those who follow compare it with the one they know.
  std::uint64_t version() const { return version_; }
  // Calls `body` while the executor copies nothing to the host; at once if the executor is gone.
  void hold(const std::function<void()>& body);

 private:
  Turn turn_;
  std::function<void()> download_;
  std::atomic<bool> is_stale_ = false;
  std::atomic<std::uint64_t> version_ = 0;
};

// Whose weights a tensor is: kept for the tensors of every training executor while it lives.
void add_source(const std::vector<at::Tensor>& tensors, const std::shared_ptr<HostWeights>& source);
void remove_source(const std::shared_ptr<HostWeights>& source);
// The sources of any of these tensors, in the order in which they were added.
std::vector<std::shared_ptr<HostWeights>> sources_of(const std::vector<at::Tensor>& tensors);

}  // namespace poptorch
