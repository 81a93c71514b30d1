#include "poptorch/annotations.h"

#include <fmt/format.h>

#include "poptorch/api/capture_context.h"
#include "poptorch/capture/recorder.h"
#include "poptorch/error.h"

namespace poptorch {
namespace {

thread_local Attribute::Groups active_groups;

std::size_t count_convolutions(Recorder& recorder) {
  std::size_t count = 0;
  for (const auto& op : recorder.b.graph().ops()) count += op->name() == "conv" || op->name() == "conv_input_grad";
  return count;
}

}  // namespace

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

Attribute::Attribute(const Groups& groups) : previous_(active_groups) {
  for (const auto& [group, entries] : groups) {
    for (const auto& [name, value] : entries) active_groups[group][name] = value;
  }
}

Attribute::~Attribute() { active_groups = std::move(previous_); }

const Attribute::Groups& Attribute::active() { return active_groups; }

MultiConv& MultiConv::availableMemoryProportions(std::vector<double> proportions) {
  proportions_ = std::move(proportions);
  return *this;
}

MultiConv& MultiConv::partialsTypes(std::vector<c10::ScalarType> types) {
  for (const c10::ScalarType type : types) {
    if (type == c10::ScalarType::Float || type == c10::ScalarType::Half) continue;
    throw ValueError(fmt::format("A partials type must be torch.float or torch.half, not {}", c10::toString(type)));
  }
  partials_ = std::move(types);
  return *this;
}

MultiConv& MultiConv::enableConvDithering(std::vector<bool> enabled) {
  dithering_ = std::move(enabled);
  return *this;
}

MultiConv& MultiConv::planType(std::optional<MultiConvPlanType> type) {
  plan_ = type;
  return *this;
}

MultiConv& MultiConv::perConvReservedTiles(std::int64_t tiles) {
  reserved_tiles_ = tiles;
  return *this;
}

MultiConv& MultiConv::cycleBackOff(double value) {
  cycle_back_off_ = value;
  return *this;
}

void MultiConv::begin() {
  CaptureContext* context = CaptureContext::current();
  if (context == nullptr) return;
  if (context->multi_conv != nullptr) {
    throw Error("[MultiConv] a scope begins inside another one; scopes of MultiConv do not nest. End the first one.");
  }
  before_ = count_convolutions(*Recorder::current());
  context->multi_conv = this;
}

void MultiConv::end() {
  CaptureContext* context = CaptureContext::current();
  if (context == nullptr) return;
  context->multi_conv = nullptr;
  const std::size_t convolutions = count_convolutions(*Recorder::current()) - before_;
  if (convolutions == 0) {
    throw Error("[MultiConv] there is no convolution in the scope; leave it out, or call the convolutions inside it.");
  }
  check_length("availableMemoryProportions", proportions_.size(), convolutions);
  check_length("partialsTypes", partials_.size(), convolutions);
  check_length("enableConvDithering", dithering_.size(), convolutions);
}

void MultiConv::abandon() noexcept {
  if (CaptureContext* context = CaptureContext::current(); context != nullptr && context->multi_conv == this) {
    context->multi_conv = nullptr;
  }
}

void MultiConv::check_length(const char* setting, std::size_t length, std::size_t convolutions) const {
  if (length <= 1 || length == convolutions) return;
  throw Error(
      fmt::format("[MultiConv] {} has {} values and the scope {} convolutions; give one for all, or one for each.",
                  setting, length, convolutions));
}

}  // namespace poptorch
