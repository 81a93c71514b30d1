// Reads "{axis=-1, mode=\"add\"}" into the attributes of an op. The fields and their types are those the attribute
// struct lists in `visit`.
#pragma once

#include "aspen/compiler/ir/lexer.h"
#include "aspen/compiler/ir/op_def.h"

namespace aspen {

// Where no "{" comes next, the default attributes of the op. `ops`: of the graphs among the attributes.
Attrs parse_attrs(Lexer& lexer, const OpDef& def, const OpRegistry& ops);

}  // namespace aspen
