// Runs passes on the text form of a graph: what aspen-opt does, and the pass tests.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "aspen/compiler/passes/pass.h"

namespace aspen {

// Returns the text of the resulting graph.
std::string run_passes_on_text(std::string_view text, const std::vector<std::string>& passes,
                               const CompileOptions& options, const Backend* backend);

// Reads options like "gradient_accumulation=4 sum optimizer=sgd momentum group=w,b max_grad_norm=0.5". The optimiser
// has one group per `group`, whose parameters are listed behind it. A UserError lists the known words.
CompileOptions parse_compile_options(std::string_view text);

std::vector<std::string> split_words(std::string_view text, std::string_view separators);

}  // namespace aspen
