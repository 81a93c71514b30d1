#include "poptorch/ops.h"

#include <ATen/core/dispatch/Dispatcher.h>
#include <ATen/ops/arange.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/index_copy.h>
#include <ATen/ops/index_select.h>
#include <ATen/ops/matmul.h>
#include <ATen/ops/remainder.h>
#include <fmt/format.h>
#include <fmt/ranges.h>

#include "poptorch/api/capture_context.h"
#include "poptorch/api/guarded.h"
#include "poptorch/api/spelling.h"
#include "poptorch/capture/control_flow.h"
#include "poptorch/capture/recorder.h"

namespace poptorch {
namespace {

bool is_capturing() { return Recorder::current() != nullptr; }

template <class Signature>
auto find_op(const char* name) {
  return c10::Dispatcher::singleton().findSchemaOrThrow(name, "").typed<Signature>();
}

std::string describe(const at::Tensor& tensor) {
  return fmt::format("{}[{}]", c10::toString(tensor.scalar_type()), fmt::join(tensor.sizes(), ", "));
}

std::string describe(const std::vector<at::Tensor>& tensors) {
  std::vector<std::string> texts;
  for (const at::Tensor& tensor : tensors) texts.push_back(describe(tensor));
  return fmt::format("({})", fmt::join(texts, ", "));
}

bool are_alike(const std::vector<at::Tensor>& some, const std::vector<at::Tensor>& others) {
  return std::equal(some.begin(), some.end(), others.begin(), others.end(), [](const auto& a, const auto& b) {
    return a.sizes() == b.sizes() && a.scalar_type() == b.scalar_type();
  });
}

const char* name_of(FloatFormat format) {
  switch (format) {
    case FloatFormat::Auto: return "auto";
    case FloatFormat::Fixed: return "fixed";
    case FloatFormat::Scientific: return "scientific";
    case FloatFormat::None: break;
  }
  return "none";
}

std::string name_of(MatMulSerializationMode mode) {
  switch (mode) {
    case MatMulSerializationMode::InputChannels: return spelled("MatMulSerializationMode::InputChannels");
    case MatMulSerializationMode::ReducingDim: return spelled("MatMulSerializationMode::ReducingDim");
    case MatMulSerializationMode::OutputChannels: return spelled("MatMulSerializationMode::OutputChannels");
    case MatMulSerializationMode::Disabled: break;
  }
  return spelled("MatMulSerializationMode::Disabled");
}

std::vector<at::Tensor> parts_of(const at::Tensor& tensor, std::int64_t dim, std::int64_t factor,
                                 MatMulSerializationMode mode) {
  if (tensor.dim() < 2) {
    throw ArgumentError(fmt::format("serializedMatMul with {} needs matrices, not a tensor of {} dimensions",
                                    name_of(mode), tensor.dim()));
  }
  const std::int64_t size = tensor.size(dim);
  if (factor < 0 || size % factor != 0) {
    throw ArgumentError(fmt::format("factor {} does not divide the size {} of the dimension that {} splits", factor,
                                    size, name_of(mode)));
  }
  return tensor.split(size / factor, dim);
}

// Indices start, start + step, ... within start + size; beyond the end they wrap.
at::Tensor window(const std::string& op, const at::Tensor& tensor, std::int64_t dim, const at::Tensor& start,
                  std::int64_t size, std::int64_t step) {
  if (!c10::isIntegralType(start.scalar_type(), /*includeBool=*/true) || start.numel() != 1) {
    throw Error(fmt::format("[{}] start must be an integer tensor of one element, not {}.", op, describe(start)));
  }
  const std::int64_t available = tensor.size(dim);
  if (size < 1 || step < 1 || size > available) {
    throw Error(
        fmt::format("[{}] size {} and step {} do not fit dimension {} of [{}]; expected 1 <= size <= {} and step >= 1.",
                    op, size, step, dim, fmt::join(tensor.sizes(), ", "), available));
  }
  const auto kind = at::TensorOptions(start.scalar_type()).device(tensor.device());
  return at::remainder(start.reshape({1}).add(at::arange(0, size, step, kind)), available);
}

// The caller's tensors stay as they are, whatever the body does to its own.
std::vector<at::Tensor> call_on_copies(const Body& body, const std::vector<at::Tensor>& inputs) {
  std::vector<at::Tensor> copies;
  for (const at::Tensor& input : inputs) copies.push_back(input.clone());
  return body(copies);
}

at::Tensor set_overlap(const std::string& op, const at::Tensor& tensor, OverlapMode mode, bool is_input) {
  CaptureContext* context = CaptureContext::current();
  Recorder* recorder = Recorder::current();
  if (mode == OverlapMode::NoOverlap || context == nullptr || recorder == nullptr) return tensor;
  context->note_overlap(op);
  return guarded([&] { return mark_overlapped(*recorder, tensor, is_input); });
}

}  // namespace

at::Tensor identityLoss(const at::Tensor& x, LossReduction reduction) {
  static const auto op = find_op<at::Tensor(const at::Tensor&, std::int64_t)>("poptorch::identity_loss");
  return guarded([&] { return op.call(x, static_cast<std::int64_t>(reduction)); });
}

at::Tensor identityLoss(const at::Tensor& x, const std::string& reduction) {
  if (reduction == "sum") return identityLoss(x, LossReduction::Sum);
  if (reduction == "mean") return identityLoss(x, LossReduction::Mean);
  if (reduction == "none") return identityLoss(x, LossReduction::None);
  throw ArgumentError(fmt::format("The reduction of {} must be \"sum\", \"mean\" or \"none\", not \"{}\"",
                                  spelled("identityLoss", "identity_loss"), reduction));
}

at::Tensor nop(const at::Tensor& tensor) {
  static const auto op = find_op<at::Tensor(const at::Tensor&)>("poptorch::nop");
  return is_capturing() ? guarded([&] { return op.call(tensor); }) : tensor;
}

at::Tensor ipuPrintTensor(const at::Tensor& tensor, const std::string& title, const PrintOptions& options) {
  using Text = std::string;
  using Integer = std::int64_t;
  static const auto op =
      find_op<at::Tensor(const at::Tensor&, Text, bool, Integer, Integer, Integer, Integer, Text, Text, Text, Text)>(
          "poptorch::ipu_print_tensor");
  if (!is_capturing()) return tensor;
  return guarded([&] {
    return op.call(tensor, title, options.print_gradient, options.summarise_threshold, options.edge_items,
                   options.max_line_width, options.digits, name_of(options.float_format), options.separator,
                   options.open_bracket, options.close_bracket);
  });
}

at::Tensor recomputationCheckpoint(const at::Tensor& tensor) {
  static const auto op = find_op<at::Tensor(const at::Tensor&)>("poptorch::recomputation_checkpoint");
  return is_capturing() ? guarded([&] { return op.call(tensor); }) : tensor;
}

std::vector<at::Tensor> recomputationCheckpoint(const std::vector<at::Tensor>& tensors) {
  std::vector<at::Tensor> kept;
  for (const at::Tensor& tensor : tensors) kept.push_back(recomputationCheckpoint(tensor));
  return kept;
}

at::Tensor setAvailableMemory(const at::Tensor& tensor, double /*available_memory_proportion*/) { return tensor; }

at::Tensor serializedMatMul(const at::Tensor& lhs, const at::Tensor& rhs, MatMulSerializationMode mode,
                            std::int64_t factor, bool keep_precision) {
  using Mode = MatMulSerializationMode;
  if (mode == Mode::Disabled || factor == 0 || factor == 1) return at::matmul(lhs, rhs);
  std::vector<at::Tensor> products;
  if (mode == Mode::InputChannels) {
    for (const at::Tensor& part : parts_of(lhs, -2, factor, mode)) products.push_back(at::matmul(part, rhs));
    return at::cat(products, -2);
  }
  if (mode == Mode::OutputChannels) {
    for (const at::Tensor& part : parts_of(rhs, -1, factor, mode)) products.push_back(at::matmul(lhs, part));
    return at::cat(products, -1);
  }
  const auto left = parts_of(lhs, -1, factor, mode), right = parts_of(rhs, -2, factor, mode);
  at::Tensor sum;
  for (std::size_t i = 0; i < left.size(); ++i) {
    at::Tensor product = at::matmul(left[i], right[i]);
    if (keep_precision) product = product.to(c10::ScalarType::Float);
    sum = sum.defined() ? sum.add(product) : product;
  }
  return sum.to(lhs.scalar_type());
}

at::Tensor dynamicSlice(const at::Tensor& tensor, std::int64_t dim, const at::Tensor& start, std::int64_t size,
                        std::int64_t step) {
  const std::string op = spelled("dynamicSlice", "dynamic_slice");
  return guarded([&] { return at::index_select(tensor, dim, window(op, tensor, dim, start, size, step)); });
}

at::Tensor dynamicUpdate(const at::Tensor& input, const at::Tensor& src, std::int64_t dim, const at::Tensor& start,
                         std::int64_t size) {
  const std::string op = spelled("dynamicUpdate", "dynamic_update");
  return guarded([&] {
    const at::Tensor indices = window(op, input, dim, start, size, 1);
    if (src.dim() != input.dim() || src.scalar_type() != input.scalar_type()) {
      throw Error(fmt::format("[{}] src is {} and input {}; expected the same number of dimensions and the same type.",
                              op, describe(src), describe(input)));
    }
    return at::index_copy(input, dim, indices.to(c10::ScalarType::Long), src);
  });
}

std::vector<at::Tensor> forLoop(std::int64_t count, const Body& body, const std::vector<at::Tensor>& inputs) {
  const std::string op = spelled("forLoop", "for_loop");
  const auto turn = [&](const std::vector<at::Tensor>& values) {
    std::vector<at::Tensor> results = body(values);
    if (!are_alike(values, results)) {
      throw Error(fmt::format("[{}] the body takes {} and returns {}; it must return tensors like those it takes.", op,
                              describe(values), describe(results)));
    }
    return results;
  };
  if (is_capturing() && count > kLongestUnrolled) {
    return guarded([&] { return record_loop(*Recorder::current(), count, turn, inputs); });
  }
  std::vector<at::Tensor> values;
  for (const at::Tensor& input : inputs) values.push_back(input.clone());  // the caller's tensors stay as they are
  for (std::int64_t i = 0; i < count; ++i) values = turn(values);
  return values;
}

std::vector<at::Tensor> cond(const at::Tensor& condition, const Body& then_body,
                             const std::vector<at::Tensor>& then_inputs, const Body& else_body,
                             const std::vector<at::Tensor>& else_inputs) {
  if (condition.scalar_type() != c10::ScalarType::Bool || condition.numel() != 1) {
    throw Error("[cond] the condition must be a bool tensor of one element.");
  }
  if (!is_capturing()) {
    return condition.item().toBool() ? call_on_copies(then_body, then_inputs) : call_on_copies(else_body, else_inputs);
  }
  return guarded([&] {
    return record_cond(*Recorder::current(), condition.reshape({}), {then_body, then_inputs}, {else_body, else_inputs},
                       [](const std::vector<at::Tensor>& yes, const std::vector<at::Tensor>& no) {
                         if (are_alike(yes, no)) return;
                         throw Error(
                             fmt::format("[cond] then_body returns {} and else_body {}; both must return "
                                         "tensors of the same shapes and types.",
                                         describe(yes), describe(no)));
                       });
  });
}

at::Tensor setOverlapForInput(const at::Tensor& tensor, OverlapMode mode) {
  return set_overlap(spelled("setOverlapForInput", "set_overlap_for_input"), tensor, mode, /*is_input=*/true);
}

at::Tensor setOverlapForOutput(const at::Tensor& tensor, OverlapMode mode) {
  return set_overlap(spelled("setOverlapForOutput", "set_overlap_for_output"), tensor, mode, /*is_input=*/false);
}

}  // namespace poptorch
