// The ops of torch.ops.poptorch: markers a model may contain. Outside a captured model they have a plain meaning.
#include <ATen/core/Tensor.h>
#include <torch/library.h>

#include "aspen/ops/build.h"
#include "aspen/ops/marker/marker.h"
#include "poptorch/capture/call.h"
#include "poptorch/capture/recorder.h"

namespace poptorch {
namespace {

using aspen::UserError;
using aspen::Value;

enum Reduction : std::int64_t { kSum, kMean, kNone };

// -- outside a model ------------------------------------------------------------------------------------------

at::Tensor identity_loss(const at::Tensor& x, std::int64_t reduction) {
  if (reduction == kSum) return x.sum();
  if (reduction == kMean) return x.mean();
  if (reduction == kNone) return x.clone();
  throw UserError("[identity_loss] {} is no reduction; expected 0 sum, 1 mean or 2 none.", reduction);
}

at::Tensor copy_of(const at::Tensor& x) { return x.clone(); }

at::Tensor print_tensor(const at::Tensor& x, std::string, bool, std::int64_t, std::int64_t, std::int64_t, std::int64_t,
                        std::string, std::string, std::string, std::string) {
  return x.clone();
}

void push_name_scope(std::string name) {
  if (Recorder* recorder = Recorder::current()) recorder->push_scope(std::move(name));
}

void pop_name_scope() {
  if (Recorder* recorder = Recorder::current()) recorder->pop_scope();
}

void begin_ipu_block(std::int64_t stage, std::int64_t phase, std::int64_t ipu) {
  if (Recorder* recorder = Recorder::current()) {
    recorder->begin_block({.device = ipu, .stage = stage, .phase = phase});
  }
}

void end_ipu_block() {
  if (Recorder* recorder = Recorder::current()) recorder->end_block();
}

c10::ScalarType type_named(const std::string& name) {
  if (name == "FLOAT") return c10::ScalarType::Float;
  if (name == "FLOAT16") return c10::ScalarType::Half;
  if (name == "BFLOAT16") return c10::ScalarType::BFloat16;
  throw UserError("[internal_cast] there is no type \"{}\"; expected FLOAT, FLOAT16 or BFLOAT16.", name);
}

at::Tensor internal_cast(const at::Tensor& x, std::string type) { return x.to(type_named(type)); }

// -- inside a model -------------------------------------------------------------------------------------------

// identity_loss(Tensor x, int reduction)
void lower_identity_loss(Call& call) {
  Value* x = call.value("x");
  switch (call.integer("reduction")) {
    case kSum: x = aspen::build::reduce_all(call.b, "reduce_sum", x); break;
    case kMean: {
      const double count = static_cast<double>(x->type().numel());
      x = aspen::build::mul(call.b, aspen::build::reduce_all(call.b, "reduce_sum", x), 1 / count);
      break;
    }
    case kNone: break;
    default:
      throw UserError("[identity_loss] {} is no reduction; expected 0 sum, 1 mean or 2 none.",
                      call.integer("reduction"));
  }
  call.result(call.loss(x), call.dtype("x"));
}

// nop(Tensor x)
void lower_nop(Call& call) { call.result(call.b.make("nop", {call.value("x")}), call.dtype("x")); }

// recomputation_checkpoint(Tensor x)
void lower_checkpoint(Call& call) { call.result(call.b.make("checkpoint", {call.value("x")}), call.dtype("x")); }

// ipu_print_tensor(Tensor x, str title, bool print_gradient, int summarise_threshold, ...)
void lower_print(Call& call) {
  aspen::PrintAttrs attrs;
  attrs.title = call.text("title");
  attrs.print_gradient = call.boolean("print_gradient");
  attrs.summarise_threshold = call.integer("summarise_threshold");
  attrs.edge_items = call.integer("edge_items");
  attrs.max_line_width = call.integer("max_line_width");
  attrs.digits = call.integer("digits");
  attrs.float_format = call.text("float_format");
  attrs.separator = call.text("separator");
  attrs.open_bracket = call.text("open_bracket");
  attrs.close_bracket = call.text("close_bracket");
  call.result(call.b.make("print", {call.value("x")}, attrs), call.dtype("x"));
}

// internal_cast(Tensor x, str type)
void lower_internal_cast(Call& call) {
  const c10::ScalarType type = type_named(call.text("type"));
  call.result(aspen::build::cast(call.b, call.value("x"), graph_dtype(type)), type);
}

}  // namespace

void register_poptorch_ops(HandlerTable& table) {
  table.add("poptorch::identity_loss", lower_identity_loss);
  table.add("poptorch::nop", lower_nop);
  table.add("poptorch::recomputation_checkpoint", lower_checkpoint);
  table.add("poptorch::ipu_print_tensor", lower_print);
  table.add("poptorch::internal_cast", lower_internal_cast);
}

TORCH_LIBRARY(poptorch, library) {
  library.def("identity_loss(Tensor x, int reduction) -> Tensor");
  library.def("nop(Tensor x) -> Tensor");
  library.def("recomputation_checkpoint(Tensor x) -> Tensor");
  library.def(
      "ipu_print_tensor(Tensor x, str title=\"\", bool print_gradient=True, int summarise_threshold=1000, "
      "int edge_items=3, int max_line_width=80, int digits=4, str float_format=\"auto\", str separator=\" \", "
      "str open_bracket=\"(\", str close_bracket=\")\") -> Tensor");
  library.def("internal_cast(Tensor x, str type) -> Tensor");
  // They say where the model stands; there is no tensor to dispatch on.
  library.def("push_name_scope(str name) -> ()", &push_name_scope);
  library.def("pop_name_scope() -> ()", &pop_name_scope);
  library.def("begin_ipu_block(int stage, int phase, int ipu) -> ()", &begin_ipu_block);
  library.def("end_ipu_block() -> ()", &end_ipu_block);
}

// Composite: torch's autograd sees the plain ops inside.
TORCH_LIBRARY_IMPL(poptorch, CompositeImplicitAutograd, library) {
  library.impl("identity_loss", &identity_loss);
  library.impl("nop", &copy_of);
  library.impl("recomputation_checkpoint", &copy_of);
  library.impl("ipu_print_tensor", &print_tensor);
  library.impl("internal_cast", &internal_cast);
}

}  // namespace poptorch
