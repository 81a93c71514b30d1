#include "aspen/ops/host_call/host_call.h"

#include "aspen/backends/api/kernel.h"

namespace aspen {
namespace {

class HostCallKernel final : public Kernel {
 public:
  explicit HostCallKernel(const HostCallAttrs& attrs) : function_(attrs.function), absent_(attrs.absent) {}
  bool calls_host() const override { return true; }
  void run(const KernelArgs& args) const override {
    if (absent_.empty()) return function_->run(args.inputs, args.outputs);
    std::vector<const void*> inputs(args.inputs.begin(), args.inputs.end());
    for (auto position : absent_) inputs.insert(inputs.begin() + position, nullptr);
    function_->run(inputs, args.outputs);
  }

 private:
  std::shared_ptr<HostFunction> function_;
  std::vector<std::int64_t> absent_;
};

}  // namespace

void register_host_call_ref(KernelRegistry& kernels) {
  kernels.add("host_call", [](const KernelRequest& request, std::string& why) -> std::unique_ptr<Kernel> {
    const auto& attrs = request.attrs.as<HostCallAttrs>();
    if (attrs.function != nullptr) return std::make_unique<HostCallKernel>(attrs);
    why = "the call has no function; it belongs to the process that captured the model and is not kept in text";
    return nullptr;
  });
}

}  // namespace aspen
