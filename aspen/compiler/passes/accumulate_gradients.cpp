#include "aspen/compiler/passes/accumulate_gradients.h"

#include "aspen/compiler/ir/builder.h"
#include "aspen/compiler/passes/rewrite.h"
#include "aspen/ops/build.h"
#include "aspen/ops/shape/shape.h"

namespace aspen {

void accumulate_gradients(Graph& graph, const PassContext& context) {
  std::int64_t count = context.options.gradient_accumulation;
  if (count == 1) return;
  Builder b(graph);
  b.backward = true;
  for (auto [parameter, gradient] : find_gradients(graph, kGradientPrefix)) {
    DType dtype = gradient->dtype() == DType::kF16 ? DType::kF32 : gradient->dtype();
    Variable* sum =
        graph.add_variable("Accum___" + parameter->name, VariableKind::kAccumulator, {dtype, gradient->shape()});
    b.like(*gradient->producer());
    b.section = Section::kStep;
    b.emit("assign", {sum->value.get(), build::add(b, sum->value.get(), build::cast(b, gradient, dtype))});

    b.section = Section::kUpdate;
    Value* reduced = context.options.mean_reduction
                         ? build::binary(b, "div", sum->value.get(), static_cast<double>(count))
                         : b.make("reshape", {sum->value.get()}, ReshapeAttrs{gradient->shape()});
    reduced->set_name(std::string(kReducedPrefix) + parameter->name);
    b.emit("assign", {sum->value.get(), build::full_like(b, sum->value.get(), 0)});
  }
}

}  // namespace aspen
