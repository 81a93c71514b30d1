// A backend fallback alone would not do: kernels torch writes in terms of other ops win over it, and convolution, say,
// would arrive in pieces or not at all. So the recorder is registered directly for every op that has such a kernel, so
// that it arrives whole. It takes apart itself what it has no handler for (by_parts in lowering.cpp): parameters are
// tensors of the CPU, and torch's own composite kernels insist on one device for all tensors they are given.
#include "poptorch/capture/dispatch.h"

#include <c10/core/impl/DeviceGuardImplInterface.h>
#include <torch/library.h>

#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <unordered_set>
#include <vector>

#include "poptorch/capture/call.h"
#include "poptorch/capture/dispatch_scope.h"
#include "poptorch/capture/recorder.h"

namespace poptorch {
namespace {

// Torch asks for a guard whenever an op runs on a device; a device without streams or contexts has nothing to guard.
struct DeviceGuard final : c10::impl::DeviceGuardImplInterface {
  c10::DeviceType type() const override { return c10::DeviceType::IPU; }
  c10::Device exchangeDevice(c10::Device device) const override { return device; }
  c10::Device getDevice() const override { return {c10::DeviceType::IPU, 0}; }
  void setDevice(c10::Device) const override {}
  void uncheckedSetDevice(c10::Device) const noexcept override {}
  c10::Stream getStream(c10::Device device) const noexcept override {
    return c10::Stream(c10::Stream::DEFAULT, device);
  }
  c10::Stream exchangeStream(c10::Stream) const noexcept override { return getStream(getDevice()); }
  c10::DeviceIndex deviceCount() const noexcept override { return 1; }
};
C10_REGISTER_GUARD_IMPL(IPU, DeviceGuard);

void record(const c10::OperatorHandle& op, c10::DispatchKeySet, torch::jit::Stack* stack) {
  HostScope host;
  Recorder* recorder = Recorder::current();
  if (recorder == nullptr) {
    throw aspen::UserError(
        "[{}] the device \"ipu\" exists only inside the forward of a wrapped model. A tensor of a captured forward "
        "must not be kept and used after it; return it from forward instead.",
        full_name(op));
  }
  const std::size_t count = op.schema().arguments().size();
  torch::jit::Stack arguments = torch::jit::pop(*stack, count);
  for (c10::IValue& result : recorder->dispatch(op, std::move(arguments))) stack->push_back(std::move(result));
}

TORCH_LIBRARY_IMPL(_, AutogradIPU, library) { library.fallback(torch::CppFunction::makeFallthrough()); }
TORCH_LIBRARY_IMPL(_, IPU, library) { library.fallback(torch::CppFunction::makeFromBoxedFunction<&record>()); }

std::string base_of(const c10::OperatorHandle& op) { return op.operator_name().name; }

bool writes(const c10::Argument& argument) {
  return argument.alias_info() != nullptr && argument.alias_info()->isWrite();
}

// Same names and types, one by one.
bool same_arguments(const std::vector<const c10::Argument*>& a, const std::vector<const c10::Argument*>& b) {
  if (a.size() != b.size()) return false;
  for (std::size_t i = 0; i < a.size(); ++i) {
    if (a[i]->name() != b[i]->name() || *a[i]->type() != *b[i]->type()) return false;
  }
  return true;
}

// Every op torch knows, by name without overload. Ops loaded later are found on their own.
const std::multimap<std::string, c10::OperatorHandle>& op_index() {
  static const auto index = [] {
    std::multimap<std::string, c10::OperatorHandle> made;
    auto& dispatcher = c10::Dispatcher::singleton();
    for (const c10::OperatorName& name : dispatcher.getAllOpNames()) {
      auto op = dispatcher.findOp(name);
      if (op && op->hasSchema()) made.emplace(name.name, *op);
    }
    return made;
  }();
  return index;
}

bool is_composite(const c10::OperatorHandle& op) {
  return op.hasKernelForDispatchKey(c10::DispatchKey::CompositeExplicitAutograd) ||
         op.hasKernelForDispatchKey(c10::DispatchKey::CompositeExplicitAutogradNonFunctional) ||
         op.hasKernelForDispatchKey(c10::DispatchKey::CompositeImplicitAutograd);
}

// Questions about a tensor and its place in autograd, which need nothing computed.
bool is_query(const c10::OperatorHandle& op) {
  static const std::set<std::string> about_autograd = {"aten::requires_grad_", "aten::retain_grad", "aten::set_data",
                                                       "aten::data", "aten::_backward"};
  if (about_autograd.count(base_of(op)) > 0) return true;
  if (!op.hasKernelForDispatchKey(c10::DispatchKey::CompositeImplicitAutograd)) return false;
  bool has_tensors = false;
  for (const c10::Argument& returned : op.schema().returns()) {
    has_tensors = has_tensors || returned.type()->isSubtypeOf(*c10::OptionalType::ofTensor()) ||
                  returned.type()->isSubtypeOf(*c10::ListType::ofTensors());
  }
  return !has_tensors;
}

torch::Library& library_of(const std::string& space) {
  // A registration lasts as long as its library object.
  static std::map<std::string, torch::Library> libraries;
  auto library = libraries.find(space);
  if (library == libraries.end()) {
    const auto key = c10::make_optional(c10::DispatchKey::IPU);
    library = libraries.try_emplace(space, torch::Library::IMPL, space, key, __FILE__, __LINE__).first;
  }
  return library->second;
}

void record_whole(const std::string& name) {
  const auto colon = name.find("::");
  library_of(name.substr(0, colon))
      .impl(name.substr(colon + 2).c_str(), torch::CppFunction::makeFromBoxedFunction<&record>());
}

// The ops of other libraries, which come and go at any time: torch tells of those there are and of each that follows.
class ForeignOps final : public c10::OpRegistrationListener {
 public:
  static std::vector<c10::OperatorName> names() {
    static ForeignOps& ops = listen();
    std::lock_guard lock(ops.mutex_);
    return {ops.names_.begin(), ops.names_.end()};
  }

  void onOperatorRegistered(const c10::OperatorHandle& op) override {
    const std::string& name = op.operator_name().name;
    if (name.starts_with("aten::") || name.starts_with("poptorch::") || name.starts_with("prim")) return;
    std::lock_guard lock(mutex_);
    names_.insert(op.operator_name());
  }
  void onOperatorDeregistered(const c10::OperatorHandle& op) override {
    std::lock_guard lock(mutex_);
    names_.erase(op.operator_name());
  }

 private:
  static ForeignOps& listen() {
    auto made = std::make_unique<ForeignOps>();
    ForeignOps& ops = *made;
    // For good: torch owns it, and ops may go as late as at the end of the process.
    ops.registration_ =
        new c10::RegistrationHandleRAII(c10::Dispatcher::singleton().addRegistrationListener(std::move(made)));
    return ops;
  }

  c10::RegistrationHandleRAII* registration_ = nullptr;  // never ended
  std::mutex mutex_;
  std::unordered_set<c10::OperatorName> names_;
};

// Those with one kernel for all devices: it would win over our fallback and look for data in traced tensors. Kernels
// are added at any time, so every capture looks at them.
void register_foreign_ops() {
  static std::set<std::string> seen;
  for (const c10::OperatorName& name : ForeignOps::names()) {
    const auto op = c10::Dispatcher::singleton().findOp(name);
    if (!op || !op->hasSchema() || !is_composite(*op) || op->hasKernelForDispatchKey(c10::DispatchKey::IPU)) continue;
    if (seen.insert(full_name(*op)).second) record_whole(full_name(*op));
  }
}

}  // namespace

std::string full_name(const c10::OperatorHandle& op) {
  const c10::OperatorName& name = op.operator_name();
  return name.overload_name.empty() ? name.name : name.name + "." + name.overload_name;
}

std::optional<c10::OperatorHandle> functional_twin(const c10::OperatorHandle& op) {
  std::vector<const c10::Argument*> wanted;
  bool has_out = false, in_place = false;
  for (const c10::Argument& argument : op.schema().arguments()) {
    if (writes(argument) && argument.kwarg_only()) {
      has_out = true;
    } else {
      in_place = in_place || writes(argument);
      wanted.push_back(&argument);
    }
  }
  if (has_out == in_place) return std::nullopt;
  std::string base = base_of(op);
  if (in_place) {
    if (const auto at = base.find("::__i"); at != std::string::npos) {
      base.erase(at + 4, 1);  // __iand__ -> __and__
    } else if (base.ends_with("_")) {
      base.pop_back();
    } else {
      return std::nullopt;
    }
  }
  std::optional<c10::OperatorHandle> found;
  const auto [first, last] = op_index().equal_range(base);
  for (auto it = first; it != last; ++it) {
    std::vector<const c10::Argument*> offered;
    bool pure = true;
    for (const c10::Argument& argument : it->second.schema().arguments()) {
      pure = pure && !writes(argument);
      offered.push_back(&argument);
    }
    if (!pure || !same_arguments(wanted, offered)) continue;
    if (!found || it->second.operator_name().overload_name == op.operator_name().overload_name) found = it->second;
  }
  return found;
}

void register_with_dispatcher() {
  static const bool done = [] {
    std::set<std::string> names;
    for (const auto& [base, op] : op_index()) {
      const bool wanted = (base.starts_with("aten::") && is_composite(op) && !is_query(op)) ||
                          handler_table().find(full_name(op)) != nullptr;
      // A twin of a handled op is computed by its handler: it too must arrive whole.
      const auto twin = wanted ? std::nullopt : functional_twin(op);
      if (wanted || (twin && handler_table().find(full_name(*twin)) != nullptr)) names.insert(full_name(op));
    }
    for (const std::string& name : names) record_whole(name);
    return true;
  }();
  (void)done;
  register_foreign_ops();
}

}  // namespace poptorch
