// Reads the text form of graphs (see printer.h). "//" begins a comment that ends with the line. Attributes left out
// take their defaults. An error is a UserError that names line, column and what was expected.
#pragma once

#include <memory>
#include <string_view>

#include "aspen/compiler/ir/graph.h"
#include "aspen/compiler/ir/lexer.h"
#include "aspen/compiler/ir/op_def.h"

namespace aspen {

std::unique_ptr<Graph> parse_graph(std::string_view text, const OpRegistry& ops = op_registry());

// One that stands in the middle of a text, as the attribute of an op.
std::unique_ptr<Graph> parse_graph(Lexer& lexer, const OpRegistry& ops);

}  // namespace aspen
