// torch.ops.poptorch: the functions of ops.h and annotations.h under the names that programs call them by, beside those
// that poptorch/aten lowers itself. Each is what the function is: a part of the model that is captured, or its plain
// meaning.
#include <fmt/format.h>
#include <torch/library.h>

#include "poptorch/annotations.h"
#include "poptorch/api/custom_op_attributes.h"
#include "poptorch/custom_op.h"
#include "poptorch/error.h"
#include "poptorch/ops.h"

namespace poptorch {
namespace {

using Tensors = std::vector<at::Tensor>;

OverlapMode overlap_mode(const std::string& mode) {
  if (mode == "no_overlap") return OverlapMode::NoOverlap;
  if (mode == "overlap_accumulation_loop") return OverlapMode::OverlapAccumulationLoop;
  if (mode == "overlap_device_iteration_loop") return OverlapMode::OverlapDeviceIterationLoop;
  throw ValueError(
      fmt::format("\"{}\" is no overlap mode; expected \"no_overlap\", \"overlap_accumulation_loop\" or "
                  "\"overlap_device_iteration_loop\"",
                  mode));
}

at::Tensor overlap_input(const at::Tensor& x, std::string mode) { return setOverlapForInput(x, overlap_mode(mode)); }
at::Tensor overlap_output(const at::Tensor& x, std::string mode) { return setOverlapForOutput(x, overlap_mode(mode)); }

// Hints that change no result.
at::Tensor with_serialization(const at::Tensor& x, std::string, std::int64_t, bool) { return x; }
at::Tensor with_memory(const at::Tensor& x, double proportion) { return setAvailableMemory(x, proportion); }
at::Tensor host_side_cast(const at::Tensor& x) { return x; }
void optimizer_group(std::int64_t, at::TensorList) {}
void set_attribute(std::string, std::string, std::string) {}
void clear_attribute(std::string, std::string) {}

// The scope that begin_multi_conv opened on this thread.
MultiConv& open_scope() {
  thread_local MultiConv scope;
  return scope;
}

void begin_multi_conv() {
  open_scope().begin();  // first: it complains if one is open
}

void end_multi_conv() { open_scope().end(); }

Tensors custom_operation(at::TensorList inputs, std::string name, std::string domain, std::int64_t version,
                         std::int64_t num_outputs, at::TensorList examples, std::string attributes) {
  if (num_outputs != static_cast<std::int64_t>(examples.size())) {
    throw ValueError(
        fmt::format("custom_operation is to have {} outputs, but there are {} examples", num_outputs, examples.size()));
  }
  return customOp(inputs.vec(), name, domain, version, examples.vec(), attributes_from_json(attributes));
}

// Where the work of a layer on the host ends; the layer itself is called by CPU.
Tensors end_cpu_op(at::TensorList outputs) { return outputs.vec(); }

at::Tensor update_in_place(at::Tensor parameter, const at::Tensor& value) { return parameter.copy_(value); }

std::tuple<at::Tensor, at::Tensor, at::Tensor> decode(const at::Tensor& probs, const at::Tensor& lengths,
                                                      std::int64_t blank, std::int64_t beam_width,
                                                      std::int64_t top_paths) {
  return ctcBeamSearchDecoder(probs, lengths, blank, beam_width, top_paths);
}

}  // namespace

TORCH_LIBRARY_FRAGMENT(poptorch, library) {
  library.def("dynamic_slice(Tensor tensor, int dim, Tensor start, int size, int step) -> Tensor", &dynamicSlice);
  library.def("dynamic_update(Tensor input, Tensor src, int dim, Tensor start, int size) -> Tensor", &dynamicUpdate);
  library.def("set_matmul_serialization(Tensor(a) matmul, str mode, int factor, bool keep_precision) -> Tensor(a)",
              &with_serialization);
  library.def("set_available_memory(Tensor(a) x, float proportion) -> Tensor(a)", &with_memory);
  library.def("set_overlap_for_input(Tensor(a) x, str mode) -> Tensor(a)", &overlap_input);
  library.def("set_overlap_for_output(Tensor(a) x, str mode) -> Tensor(a)", &overlap_output);
  library.def("begin_multi_conv() -> ()", &begin_multi_conv);
  library.def("end_multi_conv() -> ()", &end_multi_conv);
  library.def("set_attribute(str attribute, str key, str value) -> ()", &set_attribute);
  library.def("clear_attribute(str attribute, str key) -> ()", &clear_attribute);
  library.def(
      "custom_operation(Tensor[] inputs, str name, str domain, int domain_version, int num_outputs, "
      "Tensor[] outputs, str attributes=\"\") -> Tensor[]",
      &custom_operation);
  library.def("end_cpu_op(Tensor[] outputs) -> Tensor[]", &end_cpu_op);
  library.def(
      "ctc_beam_search_decoder(Tensor probs, Tensor lengths, int blank=0, int beam_width=100, int top_paths=1) -> "
      "(Tensor, Tensor, Tensor)",
      &decode);
  library.def("optimizer_group(int group, Tensor[] inputs) -> ()", &optimizer_group);
  library.def("update_param_inplace(Tensor(a!) parameter, Tensor value) -> Tensor(a!)", &update_in_place);
  library.def("host_side_cast(Tensor(a) x) -> Tensor(a)", &host_side_cast);
}

}  // namespace poptorch
