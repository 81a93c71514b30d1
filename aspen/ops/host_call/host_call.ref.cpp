#include "aspen/ops/host_call/host_call.h"

#include "aspen/backends/api/kernel.h"

namespace aspen {
namespace {

class HostCallKernel final : public Kernel {
 public:
  explicit HostCallKernel(std::shared_ptr<HostFunction> function) : function_(std::move(function)) {}
  bool calls_host() const override { return true; }
  void run(const KernelArgs& args) const override { function_->run(args.inputs, args.outputs); }

 private:
  std::shared_ptr<HostFunction> function_;
};

}  // namespace

void register_host_call_ref(KernelRegistry& kernels) {
  kernels.add("host_call", [](const KernelRequest& request, std::string& why) -> std::unique_ptr<Kernel> {
    const auto& function = request.attrs.as<HostCallAttrs>().function;
    if (function != nullptr) return std::make_unique<HostCallKernel>(function);
    why = "the call has no function; it belongs to the process that captured the model and is not kept in text";
    return nullptr;
  });
}

}  // namespace aspen
