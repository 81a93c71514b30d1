#include "poptorch/block.h"

#include <ATen/core/dispatch/Dispatcher.h>

#include "poptorch/api/guarded.h"
#include "poptorch/api/placer.h"
#include "poptorch/capture/recorder.h"

namespace poptorch {

namespace {

thread_local Placer* current_placer = nullptr;

void start_block(const std::optional<std::string>& user_id, std::optional<std::int64_t> ipu_id) {
  Recorder* recorder = Recorder::current();
  Placer* placer = Placer::current();
  if (recorder == nullptr || placer == nullptr) return;
  const auto [stage, ipu] = placer->place(user_id, ipu_id);
  recorder->begin_block({.device = ipu, .stage = stage});
}

}  // namespace

Placer::Placer(ExecutionStrategy strategy) : strategy_(std::move(strategy)) { current_placer = this; }

Placer::~Placer() { current_placer = nullptr; }

Placer* Placer::current() { return current_placer; }

ExecutionStrategy::Place Placer::place(const std::optional<std::string>& block, std::optional<std::int64_t> ipu_id) {
  return strategy_.place(block ? *block : std::to_string(next_name_++), ipu_id);
}

Block::Block(std::int64_t ipu_id) { start(ipu_id); }
Block::Block(const std::string& user_id) { start(user_id); }
Block::Block(const std::string& user_id, std::int64_t ipu_id) { start(user_id, ipu_id); }

Block::~Block() {
  if (Recorder* recorder = Recorder::current()) recorder->end_block();
}

void Block::start(std::int64_t ipu_id) { start_block(std::nullopt, ipu_id); }
void Block::start(const std::string& user_id) { start_block(user_id, std::nullopt); }
void Block::start(const std::string& user_id, std::int64_t ipu_id) { start_block(user_id, ipu_id); }

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
