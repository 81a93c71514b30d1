// What annotations and ops need to know while a model is captured: where blocks belong, what the options say of
// transfers. Made around Model::capture by both languages; Block and the ops of ops.h ask for it.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "poptorch/api/option_store.h"
#include "poptorch/options.h"

namespace poptorch {

class Model;
class MultiConv;

// What the options say of a model that is to be captured.
struct CaptureRules {
  ExecutionStrategy strategy = PipelinedExecution();
  bool has_io_tiles = false;
  OutputMode output_mode = OutputMode::Default;
};
CaptureRules capture_rules(const OptionStore& options, const ExecutionStrategy& strategy, bool training);

class CaptureContext {
 public:
  // Becomes the current one of this thread while it lives, in which the model is captured.
  CaptureContext(CaptureRules rules, Model& model);
  ~CaptureContext();
  CaptureContext(const CaptureContext&) = delete;
  CaptureContext& operator=(const CaptureContext&) = delete;
  static CaptureContext* current();  // nullptr outside a capture

  // A block without a name is "0", "1", ... in the order they start; the count begins anew after number_blocks_anew.
  void start_block(const std::optional<std::string>& user_id, std::optional<std::int64_t> ipu_id);
  void end_block();
  void number_blocks_anew() { next_name_ = 0; }
  const std::vector<std::int64_t>& ipus() const {
    return ipus_;
  }  // of each block that started, or that the model is cut for

  // `op`, a function that marks overlapped transfers, was called.
  void note_overlap(const std::string& op);
  // After the capture, which has checked what is marked: an Error if transfers cannot overlap under the options.
  void check_overlap() const;

  const MultiConv* multi_conv = nullptr;  // whose scope is open

 private:
  CaptureRules rules_;
  std::int64_t next_name_ = 0;
  std::vector<std::int64_t> ipus_;
  std::string overlap_;  // the first function that marked overlapped transfers
  CaptureContext* outer_;
};

}  // namespace poptorch
