#include "poptorch/block.h"

#include <fmt/format.h>

#include "poptorch/api/capture_context.h"
#include "poptorch/api/spelling.h"
#include "poptorch/error.h"

namespace poptorch {

std::string BlockLabel::toString() const {
  const std::string none = spelled("none", "None");
  return fmt::format("BeginBlock(user_id={}, ipu_id={})", user_id.value_or(none),
                     ipu_id ? std::to_string(*ipu_id) : none);
}

Block::Block(const BlockLabel& label) { start(label); }
Block::Block(const std::string& user_id, std::int64_t ipu_id) { start(user_id, ipu_id); }

Block::~Block() {
  if (CaptureContext* context = CaptureContext::current()) context->end_block();
}

void Block::start(const std::string& user_id, std::int64_t ipu_id) { start(BlockLabel(user_id, ipu_id)); }

void Block::start(const BlockLabel& label) {
  if (CaptureContext* context = CaptureContext::current()) context->start_block(label.user_id, label.ipu_id);
}

void Block::useAutoId() {
  if (CaptureContext* context = CaptureContext::current()) context->number_blocks_anew();
}

BlockStart::~BlockStart() = default;

void BlockStart::start() const {
  if (label_) Block::start(*label_);
}

void BlockStart::annotate(const BlockLabel& label) {
  if (label_) {
    throw Error(fmt::format(
        "[BeginBlock] the module already starts a block: {}. A module starts at most one block; removeBlocks "
        "takes annotations off again.",
        label_->toString()));
  }
  label_ = label;
}

}  // namespace poptorch
