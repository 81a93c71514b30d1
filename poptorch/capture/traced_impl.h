// The torch tensor a model sees while it is captured: on device "ipu", without storage, standing for a Traced.
#pragma once

#include <ATen/core/Tensor.h>
#include <c10/core/TensorImpl.h>

#include <memory>

#include "poptorch/capture/alias.h"

namespace poptorch {

class TracedImpl final : public c10::TensorImpl {
 public:
  explicit TracedImpl(std::shared_ptr<Traced> traced);
  ~TracedImpl() override;

  const std::shared_ptr<Traced>& traced() const { return traced_; }
  const std::shared_ptr<Capture>& capture() const { return traced_->storage()->capture; }
  // Makes this tensor show another one: what unsqueeze_ and its like do.
  void rebind(std::shared_ptr<Traced> traced);

  // Torch copies a tensor this way for `.data`, detach and new parameters: same memory, no gradient.
  c10::intrusive_ptr<c10::TensorImpl> shallow_copy_and_detach(const c10::VariableVersion& version,
                                                              bool allow_metadata_change) const override;
  c10::intrusive_ptr<c10::TensorImpl> shallow_copy_and_detach(c10::VariableVersion&& version,
                                                              bool allow_metadata_change) const override;
  void shallow_copy_from(const c10::intrusive_ptr<c10::TensorImpl>& impl) override;

 private:
  const char* tensorimpl_type_name() const override { return "poptorch::TracedImpl"; }

  std::shared_ptr<Traced> traced_;
};

at::Tensor make_traced(std::shared_ptr<Traced> traced);
TracedImpl* traced_impl(const at::TensorBase& tensor);  // nullptr when it is another kind of tensor

}  // namespace poptorch
