#include "aspen/profiler/op_work.h"

#include <algorithm>
#include <array>
#include <string_view>

#include "aspen/base/log.h"
#include "aspen/compiler/ir/body.h"
#include "aspen/compiler/ir/op_def.h"
#include "aspen/ops/control/control.h"

namespace aspen {
namespace {

constexpr std::array<std::string_view, 28> kMoves{
    "reshape",  "transpose", "broadcast", "reverse", "slice",         "slice_update",  "pad",
    "concat",   "take",      "gather",    "scatter", "scatter_rows",  "full",          "iota",
    "constant", "remap",     "cast",      "select",  "replica_slice", "replica_write", "replica_gather",
    "assign",   "print",     "send",      "store",   "load",          "host_call",     "body_input"};

bool is_move(std::string_view op) { return std::find(kMoves.begin(), kMoves.end(), op) != kMoves.end(); }

double flops_of(const Op& op) {
  double in_bodies = 0;
  const double runs = op.is("loop") ? static_cast<double>(op.attrs<LoopAttrs>().count) : 1;
  const std::vector<const Graph*> bodies = bodies_of(op);
  for (const Graph* body : bodies) {
    for (const auto& inner : body->ops()) in_bodies += runs * flops_of(*inner);
  }
  if (!bodies.empty()) return in_bodies;
  if (const double products = op.def().num_products(op); products > 0) return 2 * products;
  if (op.def().is_alias() || is_move(op.name())) return 0;
  std::int64_t elements = 0;
  for (const Value* input : op.inputs()) elements = std::max(elements, input == nullptr ? 0 : input->type().numel());
  for (const Value* output : op.outputs()) elements = std::max(elements, output->type().numel());
  return static_cast<double>(elements);
}

std::int64_t bytes_of(const std::vector<BufferRef>& places) {
  std::size_t bytes = 0;
  for (const BufferRef& place : places) bytes += place.bytes;
  return static_cast<std::int64_t>(bytes);
}

}  // namespace

double flops_of(const Instruction& instruction) {
  const KernelRequest& request = instruction.request;
  const OpDef* def = instruction.is_copy ? nullptr : op_registry().try_find(request.op);
  if (def == nullptr || is_move(request.op)) return 0;
  // The op as the compiler had it: only it knows its products.
  Graph graph;
  std::vector<Value*> inputs;
  for (const KernelInput& input : request.inputs) {
    inputs.push_back(input.present ? graph.add_input("", input.type) : nullptr);
  }
  try {
    return flops_of(*graph.add_op(*def, std::move(inputs), request.attrs));
  } catch (const Error& error) {
    log::debug("[profile] the work of {} is not known: {}", to_string(request), error.what());
    return 0;
  }
}

std::int64_t bytes_read(const Instruction& instruction) { return bytes_of(instruction.inputs); }

std::int64_t bytes_written(const Instruction& instruction) { return bytes_of(instruction.outputs); }

std::int64_t num_parts(const Instruction& instruction) {
  if (instruction.request.op != "group") return 1;
  return std::max<std::int64_t>(1, static_cast<std::int64_t>(parts_of(instruction.request.attrs).size()));
}

std::string shown_name(const Instruction& instruction) {
  if (instruction.is_copy) return "copy";
  if (instruction.request.op != "group") return instruction.request.op;
  const std::vector<std::string> parts = parts_of(instruction.request.attrs);
  return parts.empty() ? "group" : fmt::format("{}", fmt::join(parts, ", "));
}

bool only_moves(const Instruction& instruction) {
  return instruction.is_copy || (instruction.request.op != "host_call" && is_move(instruction.request.op));
}

}  // namespace aspen
