// A graph that an op owns, as it stands in a file: values are numbers, first the inputs, then the results of the ops in
// their order. Only op, attributes and operands are stored: types follow from them.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "aspen/compiler/ir/graph.h"

namespace aspen {

struct StoredOp {
  std::string op;
  Attrs attrs;
  std::vector<std::int64_t> inputs;  // -1: left out
  std::string scope, source;         // see Location
};

struct StoredBody {
  std::string name;
  std::vector<TensorType> inputs;
  std::vector<StoredOp> ops;
  std::vector<std::int64_t> outputs;
};

StoredBody stored_body(const Graph& body);

// FileError for what is no graph.
std::unique_ptr<Graph> make_body(const StoredBody& stored);

template <class Stream>
void visit(Stream& stream, StoredOp& stored) {
  auto& [op, attrs, inputs, scope, source] = stored;
  stream(op);
  stream.attributes(op, attrs);
  stream(inputs, scope, source);
}

template <class Stream>
void visit(Stream& stream, StoredBody& stored) {
  auto& [name, inputs, ops, outputs] = stored;
  stream(name, inputs, ops, outputs);
}

}  // namespace aspen
