#include "poptorch/capture/traced_impl.h"

#include "poptorch/capture/autograd.h"
#include "poptorch/capture/recorder.h"

namespace poptorch {

TracedImpl::TracedImpl(std::shared_ptr<Traced> traced)
    : c10::TensorImpl(c10::DispatchKeySet(c10::DispatchKey::IPU), c10::scalarTypeToTypeMeta(traced->dtype()),
                      c10::Device(c10::DeviceType::IPU, 0)) {
  set_storage_access_should_throw();
  rebind(std::move(traced));
  set_autograd_meta(make_traced_autograd_meta(*this));
  std::lock_guard lock(capture()->mutex);
  capture()->tensors.insert(this);
}

TracedImpl::~TracedImpl() {
  std::lock_guard lock(capture()->mutex);
  capture()->tensors.erase(this);
}

void TracedImpl::rebind(std::shared_ptr<Traced> traced) {
  traced_ = std::move(traced);
  set_allow_tensor_metadata_change(true);
  // The strides torch would give it: its own code asks for them, contiguous() for one.
  if (const auto strides = traced_->strides()) {
    set_sizes_and_strides(traced_->shape(), *strides);
  } else {
    set_sizes_contiguous(traced_->shape());
  }
}

c10::intrusive_ptr<c10::TensorImpl> TracedImpl::shallow_copy_and_detach(const c10::VariableVersion& version,
                                                                        bool) const {
  Recorder* recorder = Recorder::current();
  const bool is_own = recorder != nullptr && recorder->owns(*this);
  auto copy = c10::make_intrusive<TracedImpl>(is_own ? recorder->detached(traced_) : traced_);
  copy->set_version_counter(version);
  return copy;
}

c10::intrusive_ptr<c10::TensorImpl> TracedImpl::shallow_copy_and_detach(c10::VariableVersion&& version,
                                                                        bool allow_metadata_change) const {
  return shallow_copy_and_detach(static_cast<const c10::VariableVersion&>(version), allow_metadata_change);
}

void TracedImpl::shallow_copy_from(const c10::intrusive_ptr<c10::TensorImpl>& impl) {
  auto* other = dynamic_cast<TracedImpl*>(impl.get());
  if (other == nullptr) {
    throw aspen::UserError(
        "[capture] `.data` of a tensor of the model cannot be set to a tensor made outside it; "
        "use copy_() instead.");
  }
  rebind(other->traced_);
}

at::Tensor make_traced(std::shared_ptr<Traced> traced) {
  return at::detail::make_tensor<TracedImpl>(std::move(traced));
}

TracedImpl* traced_impl(const at::TensorBase& tensor) {
  if (!tensor.defined() || !tensor.key_set().has_backend(c10::BackendComponent::IPUBit)) return nullptr;
  return dynamic_cast<TracedImpl*>(tensor.unsafeGetTensorImpl());
}

}  // namespace poptorch
