// Which way torch sends ops on this thread. While a model is captured all ops go to the recorder, below autograd;
// inside the recorder they go to the CPU as if nothing were captured.
#pragma once

#include <c10/core/DispatchKeySet.h>
#include <c10/core/impl/LocalDispatchKeySet.h>

namespace poptorch {

class DispatchScope {
 public:
  DispatchScope(const DispatchScope&) = delete;
  DispatchScope& operator=(const DispatchScope&) = delete;

 protected:
  DispatchScope() : saved_(c10::impl::tls_local_dispatch_key_set()) {}
  ~DispatchScope() { c10::impl::_force_tls_local_dispatch_key_set(saved_); }

 private:
  c10::impl::LocalDispatchKeySet saved_;
};

// Every op of this thread arrives at the recorder, even one between CPU tensors only. Autograd is left out, so that
// composite ops arrive whole and no graph of torch's own is built.
class CaptureScope : DispatchScope {
 public:
  CaptureScope() {
    auto keys = c10::impl::tls_local_dispatch_key_set();
    keys.included_ = keys.included_ | c10::DispatchKeySet(c10::DispatchKey::IPU);
    keys.excluded_ = keys.excluded_ | c10::autograd_dispatch_keyset_with_ADInplaceOrView;
    c10::impl::_force_tls_local_dispatch_key_set(keys);
  }
};

// Plain torch on the CPU, without autograd.
class HostScope : DispatchScope {
 public:
  HostScope() {
    auto keys = c10::impl::tls_local_dispatch_key_set();
    keys.included_ =
        keys.included_.remove_backend(c10::BackendComponent::IPUBit) - c10::DispatchKeySet(c10::DispatchKey::Dense);
    keys.excluded_ = keys.excluded_ | c10::autograd_dispatch_keyset_with_ADInplaceOrView;
    c10::impl::_force_tls_local_dispatch_key_set(keys);
  }
};

// Torch as a program finds it that has touched nothing: with autograd.
class AutogradScope : DispatchScope {
 public:
  AutogradScope() {
    c10::impl::_force_tls_local_dispatch_key_set(c10::impl::LocalDispatchKeySet(c10::impl::PODLocalDispatchKeySet{}));
  }
};

}  // namespace poptorch
