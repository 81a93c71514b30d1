// Marks inside a forward: where ops run, what they are called, what the loss is. Outside a captured model they have
// no effect on what is computed.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <string>

namespace poptorch {

// The ops captured while it lives belong to this block; the strategy of the options gives it its stage and virtual IPU.
// The same user_id is the same block. At its end there is no block: an op after it must be in another one.
class Block {
 public:
  explicit Block(std::int64_t ipu_id);
  explicit Block(const std::string& user_id);
  Block(const std::string& user_id, std::int64_t ipu_id);
  ~Block();
  Block(const Block&) = delete;
  Block& operator=(const Block&) = delete;

  // A block that lasts until the next one starts.
  static void start(std::int64_t ipu_id);
  static void start(const std::string& user_id);
  static void start(const std::string& user_id, std::int64_t ipu_id);
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
