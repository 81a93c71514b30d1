#include "aspen/compiler/evaluate.h"

#include "aspen/compiler/make_kernel.h"
#include "aspen/ops/source/source.h"
#include "aspen/runtime/arena_memory.h"

namespace aspen {

KernelRequest kernel_request(const Op& op) {
  KernelRequest request{.op = op.name(), .attrs = op.attrs()};
  for (const Value* input : op.inputs()) {
    request.inputs.push_back(input == nullptr ? KernelInput{.present = false} : KernelInput{.type = input->type()});
  }
  for (const Value* output : op.outputs()) request.outputs.push_back(output->type());
  return request;
}

std::vector<std::vector<std::byte>> evaluate(const Op& op, const std::vector<const std::vector<std::byte>*>& inputs,
                                             const Backend& backend) {
  if (op.is("constant")) return {*op.attrs<ConstantAttrs>().data.bytes};
  auto kernel = make_kernel(kernel_request(op), backend);
  ArenaMemory workspace(kernel->workspace_bytes(), "workspace of a constant");
  std::vector<const void*> from;
  for (const auto* input : inputs) from.push_back(input == nullptr ? nullptr : input->data());
  std::vector<std::vector<std::byte>> results;
  std::vector<void*> to;
  for (const Value* output : op.outputs()) results.emplace_back(output->type().bytes());
  for (auto& result : results) to.push_back(result.data());
  StepContext step;
  kernel->run({.inputs = from, .outputs = to, .workspace = workspace.data(), .step = &step});
  return results;
}

std::string describe(const Location& location) {
  if (location.scope.empty()) return location.source;
  if (location.source.empty()) return location.scope;
  return location.scope + " (" + location.source + ")";
}

Location split_location(const std::string& text) {
  const auto open = text.find(" (");
  if (open != std::string::npos && text.ends_with(')')) {
    return {.scope = text.substr(0, open), .source = text.substr(open + 2, text.size() - open - 3)};
  }
  // A line of a source has a number behind a colon, a path of modules has none.
  const bool is_source = text.find(':') != std::string::npos;
  return is_source ? Location{.scope = "", .source = text} : Location{.scope = text, .source = ""};
}

}  // namespace aspen
