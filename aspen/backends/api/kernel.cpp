#include "aspen/backends/api/kernel.h"

#include "aspen/backends/api/candidates.h"

namespace aspen {
namespace {

class FunctionKernel final : public Kernel {
 public:
  FunctionKernel(const KernelRequest& request, KernelFunction function, WorkspaceFunction workspace)
      : request_(request), function_(function), workspace_bytes_(workspace != nullptr ? workspace(request) : 0) {}

  std::size_t workspace_bytes() const override { return workspace_bytes_; }
  void run(const KernelArgs& args) const override { function_(KernelCall(request_, args)); }

 private:
  KernelRequest request_;
  KernelFunction function_;
  std::size_t workspace_bytes_;
};

}  // namespace

void KernelRegistry::add(std::string_view op, KernelFactory factory) {
  factories_[std::string(op)].push_back(std::move(factory));
}

void KernelRegistry::set_candidates(std::string_view op, std::shared_ptr<const CandidateList> candidates) {
  candidates_[std::string(op)] = std::move(candidates);
}

std::vector<CandidateOpinion> KernelRegistry::opinions(const KernelRequest& request) const {
  auto found = candidates_.find(request.op);
  return found == candidates_.end() ? std::vector<CandidateOpinion>{} : found->second->opinions(request);
}

KernelRequest KernelRegistry::decisive(const KernelRequest& request) const {
  auto found = candidates_.find(request.op);
  return found == candidates_.end() ? request : found->second->decisive(request);
}

KernelFactory plain_kernel(KernelFunction function, WorkspaceFunction workspace) {
  return [function, workspace](const KernelRequest& request, std::string&) -> std::unique_ptr<Kernel> {
    return std::make_unique<FunctionKernel>(request, function, workspace);
  };
}

void KernelRegistry::add(std::string_view op, KernelFunction function, WorkspaceFunction workspace) {
  add(op, plain_kernel(function, workspace));
}

std::unique_ptr<Kernel> KernelRegistry::create(const KernelRequest& request, std::string& why) const {
  auto found = factories_.find(request.op);
  if (found == factories_.end()) {
    why += fmt::format("no kernel for \"{}\"; ", request.op);
    return nullptr;
  }
  if (!request.candidate.empty() && !candidates_.contains(request.op)) {
    why += fmt::format("\"{}\" has no candidates; ", request.op);
    return nullptr;
  }
  for (const auto& factory : found->second) {
    std::string reason;
    if (auto kernel = factory(request, reason)) return kernel;
    why += reason + "; ";
  }
  return nullptr;
}

std::string to_string(const KernelRequest& request) {
  std::string inputs, outputs;
  for (const auto& input : request.inputs) {
    inputs += (inputs.empty() ? "" : ", ") + (input.present ? to_string(input.type) : std::string("_"));
    if (input.stays) inputs += " stays";
  }
  for (const auto& output : request.outputs) outputs += (outputs.empty() ? "" : ", ") + to_string(output);
  return fmt::format("{}({}) -> {} {}", request.op, inputs, outputs, request.attrs.to_string());
}

}  // namespace aspen
