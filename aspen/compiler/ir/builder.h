// Builder: adds ops to a graph, with the current location, placement and section stamped on each.
// Named shortcuts for the common ops are in aspen/ops/build.h.
#pragma once

#include <string_view>
#include <vector>

#include "aspen/compiler/ir/graph.h"
#include "aspen/compiler/ir/op_def.h"

namespace aspen {

class Builder {
 public:
  explicit Builder(Graph& graph, const OpRegistry& registry = op_registry()) : graph_(graph), registry_(registry) {}

  Graph& graph() { return graph_; }

  // Stamped on every op made from now on.
  Location location;
  Placement placement;
  Section section = Section::kStep;
  bool backward = false;
  bool no_grad = false;
  Op* before = nullptr;  // insertion point; nullptr: the end

  Op* emit(std::string_view op, std::vector<Value*> inputs, Attrs attrs);
  template <class A = NoAttrs>
  Op* emit(std::string_view op, std::vector<Value*> inputs, A attrs = {}) {
    return emit(op, std::move(inputs), Attrs::of(std::move(attrs)));
  }
  // The first output of a new op.
  template <class A = NoAttrs>
  Value* make(std::string_view op, std::vector<Value*> inputs, A attrs = {}) {
    return emit(op, std::move(inputs), std::move(attrs))->output(0);
  }

  // Takes over from an existing op all that is stamped.
  void like(const Op& op);

 private:
  Graph& graph_;
  const OpRegistry& registry_;
};

}  // namespace aspen
