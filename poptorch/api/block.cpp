#include "poptorch/block.h"

#include <ATen/core/dispatch/Dispatcher.h>

#include "poptorch/api/guarded.h"
#include "poptorch/capture/recorder.h"

namespace poptorch {

Block::Block(std::int64_t ipu_id) {
  Recorder* recorder = Recorder::current();
  if (recorder == nullptr) return;
  recorder->push_placement({.device = ipu_id, .stage = ipu_id});
  is_open_ = true;
}

Block::~Block() {
  // An exception may have ended the capture before this block ends.
  Recorder* recorder = Recorder::current();
  if (is_open_ && recorder != nullptr) recorder->pop_placement();
}

NameScope::NameScope(std::string name) {
  Recorder* recorder = Recorder::current();
  if (recorder == nullptr) return;
  recorder->push_scope(std::move(name));
  is_open_ = true;
}

NameScope::~NameScope() {
  Recorder* recorder = Recorder::current();
  if (is_open_ && recorder != nullptr) recorder->pop_scope();
}

at::Tensor identityLoss(const at::Tensor& x, LossReduction reduction) {
  static const auto op = c10::Dispatcher::singleton()
                             .findSchemaOrThrow("poptorch::identity_loss", "")
                             .typed<at::Tensor(const at::Tensor&, std::int64_t)>();
  return guarded([&] { return op.call(x, static_cast<std::int64_t>(reduction)); });
}

bool isRunningOnIpu() { return Recorder::current() != nullptr; }

}  // namespace poptorch
