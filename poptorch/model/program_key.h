// ProgramKey: what a program was made of. Models with equal keys have equal programs, so that one may take that of
// another: from the cache (executable_cache.h), or from a file (model_file.cpp).
#pragma once

#include <string>
#include <vector>

#include "aspen/compiler/compile.h"
#include "aspen/compiler/ir/graph.h"
#include "aspen/program_file/program_file.h"

namespace poptorch {

struct ProgramKey {
  struct Setting {
    std::string name, value;
    bool operator==(const Setting&) const = default;
  };
  std::string graph;              // digest of the captured graph: its text, with constants, and its calls on the host
  std::string sources;            // likewise, of the lines it was captured at: programs tell them in their messages
  std::vector<Setting> settings;  // what the compiler is told
  // A function that the graph calls and of which only its name is known: graphs with equal keys may differ in it. "":
  // there is none.
  std::string unknown_function;

  // Of all that a compilation depends on, 32 characters.
  std::string digest(const aspen::ProgramOrigin& origin) const;
};

// graph: before it is compiled. Weights, inputs and the numbers of the optimiser are no part of it.
ProgramKey program_key(const aspen::Graph& graph, const aspen::CompileOptions& options);
std::vector<ProgramKey::Setting> settings_of(const aspen::CompileOptions& options);

}  // namespace poptorch
