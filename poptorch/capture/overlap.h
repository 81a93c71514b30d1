// Inputs and outputs whose transfer shall overlap with computation. While a model is captured a mark is an op of its
// own, so that every use of the tensor can be seen; Model::capture checks the marks and turns them into flags of the
// graph's inputs and outputs.
#pragma once

#include <ATen/core/Tensor.h>

#include <string>
#include <vector>

#include "aspen/compiler/ir/graph.h"

namespace poptorch {

class Recorder;

struct OverlapMark {
  aspen::Op* op = nullptr;
  bool is_input = false;
  std::string where;  // "\n  captured at ..."
};

// The tensor through a mark. An input must be one of the model, as it was given.
at::Tensor mark_overlapped(Recorder& recorder, const at::Tensor& tensor, bool is_input);

// After forward: a marked input is used through its mark only, a marked output is returned exactly once. UserError
// otherwise.
void resolve_overlap_marks(aspen::Graph& graph, const std::vector<OverlapMark>& marks);

}  // namespace poptorch
