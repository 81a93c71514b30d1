// Marks inside a forward: where ops run, what they are called, what the loss is. Outside a captured model they have
// no effect on what is computed.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <string>

namespace poptorch {

// The ops captured while it lives belong to this virtual IPU, as stage of the same number.
class Block {
 public:
  explicit Block(std::int64_t ipu_id);
  ~Block();
  Block(const Block&) = delete;
  Block& operator=(const Block&) = delete;

 private:
  bool is_open_ = false;
};

// The ops captured while it lives are named "<name>/...".
class NameScope {
 public:
  explicit NameScope(std::string name);
  ~NameScope();
  NameScope(const NameScope&) = delete;
  NameScope& operator=(const NameScope&) = delete;

 private:
  bool is_open_ = false;
};

// Marks a value that is no standard loss as the one to train on. A plain reduction outside a captured model.
enum class LossReduction { Sum, Mean, None };
at::Tensor identityLoss(const at::Tensor& x, LossReduction reduction);

// True while a forward is being captured.
bool isRunningOnIpu();

}  // namespace poptorch
