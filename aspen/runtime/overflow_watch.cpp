#include "aspen/runtime/overflow_watch.h"

#include <algorithm>
#include <cfenv>

#include "aspen/base/log.h"
#include "aspen/runtime/float_check.h"

namespace aspen {
namespace {

constexpr std::size_t kGradient = 1;  // the input of an update op (aspen/ops/optimizer)

bool has_half(const Program& program) {
  return std::any_of(program.step.begin(), program.step.end(), [](const Task& task) {
    return std::any_of(task.instructions.begin(), task.instructions.end(), [](const Instruction& instruction) {
      const auto& types = instruction.request.outputs;
      return std::any_of(types.begin(), types.end(), [](const TensorType& t) { return t.dtype == DType::kF16; });
    });
  });
}

// The bounds of the types that have any to speak of.
const char* largest_of(DType type) { return type == DType::kF16 ? "65504" : "3.4e38"; }

}  // namespace

OverflowWatch::OverflowWatch(const Program& program)
    : is_on_(program.training && !program.adjusts_loss_scaling && has_half(program)), replicas_(program.replicas) {}

void OverflowWatch::forget_flags() {
  if (std::fetestexcept(FE_OVERFLOW) != 0) std::feclearexcept(FE_OVERFLOW);
}

// What an update makes of a weight spoils the cycle after it.
OverflowWatch::Order OverflowWatch::order_of(const Place& place) const {
  return {.cycle = cycles_before_ + place.cycle,
          .is_update = place.is_update,
          .micro_batch = place.micro_batch,
          .task = place.task,
          .instruction = place.instruction,
          .replica = place.replica};
}

void OverflowWatch::before_update(const BoundInstruction& bound, const Place& place) {
  const std::int64_t cycle = cycles_before_ + place.cycle;
  if (noted_cycle_.load(std::memory_order_acquire) != cycle) return;
  if (is_finite(bound.instruction->request.inputs[kGradient].type, bound.inputs[kGradient])) return;
  std::lock_guard lock(mutex_);
  if (first_ && first_->order.cycle == cycle) reached_a_weight_ = true;
}

void OverflowWatch::after(const BoundInstruction& bound, const Place& place) {
  if (std::fetestexcept(FE_OVERFLOW) == 0) return;
  std::feclearexcept(FE_OVERFLOW);
  const auto& types = bound.instruction->request.outputs;
  for (std::size_t i = 0; i < types.size(); ++i) {
    if (is_floating(types[i].dtype) && !is_finite(types[i], bound.outputs[i])) return note(bound, types[i], place);
  }
}

void OverflowWatch::note(const BoundInstruction& bound, const TensorType& type, const Place& place) {
  Order order = order_of(place);
  if (bound.instruction->updates_weight) order = {.cycle = order.cycle + 1, .micro_batch = -1, .task = place.task};
  std::lock_guard lock(mutex_);
  if (first_) {
    const bool is_of_last = first_->order.cycle < order.cycle && !reached_a_weight_;
    if (!is_of_last && !(order < first_->order)) return;
  }
  first_ = Overflow{.order = order, .instruction = bound.instruction, .type = type, .micro_batch = place.micro_batch};
  noted_cycle_.store(order.cycle, std::memory_order_release);
}

void OverflowWatch::finish_run(std::int64_t cycles) {
  cycles_before_ += cycles;
  if (!is_on() || !reached_a_weight_) return;
  is_on_ = false;
  log::warn("{}", report(*first_));
}

std::string OverflowWatch::report(const Overflow& overflow) const {
  const Instruction& instruction = *overflow.instruction;
  const std::string pass = instruction.updates_weight ? "the weight update"
                           : instruction.is_backward  ? "the backward pass"
                                                      : "the forward pass";
  std::string where = instruction.location.empty() ? "" : ", captured at " + instruction.location;
  if (replicas_ > 1) where += fmt::format(", replica {}", overflow.order.replica);
  return fmt::format(
      "training in half: gradients are infinite or NaN, and so are the weights updated with them. The first result "
      "that "
      "overflowed (beyond {} in {}) is that of op {} in {} of micro-batch {}{}. A smaller loss_scaling keeps gradients "
      "in range; automatic loss scaling (Training.setAutomaticLossScaling) finds one and leaves out updates that "
      "overflow.",
      largest_of(overflow.type.dtype), to_string(overflow.type), instruction.request.op, pass, overflow.micro_batch,
      where);
}

}  // namespace aspen
