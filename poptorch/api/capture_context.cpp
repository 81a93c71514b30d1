#include "poptorch/api/capture_context.h"

#include <fmt/format.h>

#include "poptorch/api/batching.h"
#include "poptorch/api/spelling.h"
#include "poptorch/capture/recorder.h"
#include "poptorch/error.h"
#include "poptorch/model/model.h"

namespace poptorch {
namespace {

thread_local CaptureContext* current_context = nullptr;

const char* name_of(OutputMode mode) {
  switch (mode) {
    case OutputMode::Final: return "Final";
    case OutputMode::EveryN: return "EveryN";
    case OutputMode::All: return "All";
    case OutputMode::Sum: return "Sum";
    case OutputMode::Default: break;
  }
  return "Default";
}

}  // namespace

CaptureRules capture_rules(const OptionStore& options, const ExecutionStrategy& strategy, bool training) {
  const bool has_io_tiles = options.exists(kLocations, "numIOTiles") || options.exists(kPopart, "numIOTiles");
  return {strategy, has_io_tiles, static_cast<OutputMode>(call_of(options, training).output.mode)};
}

CaptureContext::CaptureContext(CaptureRules rules, Model& model) : rules_(std::move(rules)), outer_(current_context) {
  rules_.strategy.forget();
  const std::int64_t cut_for = rules_.strategy.autoIpus();
  if (cut_for != 0) model.count_parts(/*by_parameters=*/language() == Language::kCpp);
  for (std::int64_t ipu = 0; ipu < cut_for; ++ipu) ipus_.push_back(ipu);
  current_context = this;
}

CaptureContext::~CaptureContext() { current_context = outer_; }

CaptureContext* CaptureContext::current() { return current_context; }

void CaptureContext::start_block(const std::optional<std::string>& user_id, std::optional<std::int64_t> ipu_id) {
  Recorder* recorder = Recorder::current();
  if (recorder == nullptr) return;
  const auto [stage, phase, ipu] = rules_.strategy.place(user_id ? *user_id : std::to_string(next_name_++), ipu_id);
  ipus_.push_back(ipu);
  recorder->begin_block({.device = ipu, .stage = stage, .phase = phase});
}

void CaptureContext::end_block() {
  if (Recorder* recorder = Recorder::current()) recorder->end_block();
}

void CaptureContext::note_overlap(const std::string& op) {
  if (overlap_.empty()) overlap_ = op;
}

void CaptureContext::check_overlap() const {
  const std::string& op = overlap_;
  if (op.empty()) return;
  if (rules_.strategy.kind() == ExecutionStrategy::Kind::Pipelined) {
    throw Error(
        fmt::format("[{}] transfers cannot overlap with a pipeline; use {} or a phased strategy, also for a model on "
                    "one IPU.",
                    op, spelled("poptorch::ShardedExecution")));
  }
  if (!rules_.has_io_tiles) {
    throw Error(fmt::format("[{}] needs IO tiles; set options.TensorLocations.numIOTiles(32) or more.", op));
  }
  if (rules_.output_mode != OutputMode::All && rules_.output_mode != OutputMode::Sum) {
    throw Error(fmt::format("[{}] the output mode is {}; overlapped transfers need {} or {}.", op,
                            name_of(rules_.output_mode), spelled("OutputMode::All"), spelled("OutputMode::Sum")));
  }
}

}  // namespace poptorch
