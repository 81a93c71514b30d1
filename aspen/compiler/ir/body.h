// Bodies: graphs that ops of aspen/ops/control own. A body has inputs, ops and outputs, all of section kStep, and
// neither variables nor tasks: what it works on is handed to it, and what it is to leave behind it returns. It is among
// the attributes of its op and does not change any more; to change one is to give the op another.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <unordered_map>
#include <vector>

#include "aspen/compiler/ir/graph.h"

namespace aspen {

const Graph& graph_of(const Body& body);

// Those of an op, in the order of its attributes; none for most.
std::vector<const Graph*> bodies_of(const Op& op);
std::vector<const Graph*> bodies_of(const Attrs& attrs);

// What runs in them: names of ops that compute, in their order.
std::vector<std::string> parts_of(const Attrs& attrs);

// Whether the condition holds for an op in a body of `op`. Those ops may own bodies themselves: it has to ask these.
bool has_in_bodies(const Op& op, const std::function<bool(const Op&)>& condition);

// The attributes with other bodies, as many as there were.
Attrs with_bodies(const Attrs& attrs, std::vector<std::unique_ptr<Graph>> bodies);

// Copies ops from one graph to another.
class GraphCopier {
 public:
  explicit GraphCopier(Graph& to) : to_(to) {}

  Graph& graph() { return to_; }
  void map(const Value* from, Value* to) { values_[from] = to; }
  bool has(const Value* from) const { return values_.count(from) != 0; }
  Value* operator[](const Value* from) const;  // nullptr for nullptr; must be known
  // An input like this value, which stands for it.
  Value* add_input(const Value& like);
  // With all that is stamped on it, and the names of its results.
  Op* copy(const Op& op);

 private:
  Graph& to_;
  std::unordered_map<const Value*, Value*> values_;
};

// A copy of a body, to be changed.
std::unique_ptr<Graph> copy_body(const Graph& body);

}  // namespace aspen
