#include "aspen/compiler/placement/clone.h"

namespace aspen {

Op* clone_op(Graph& graph, const Op& op, Op* before) {
  Op* copy = graph.add_op(op.def(), op.inputs(), op.attrs(), before);
  copy->take_stamps(op);
  return copy;
}

void redirect(Op& op, const Value* from, Value* to) {
  for (std::size_t i = 0; i < op.num_inputs(); ++i) {
    if (op.input(i) == from) op.set_input(i, to);
  }
}

}  // namespace aspen
