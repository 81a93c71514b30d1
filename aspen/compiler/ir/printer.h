// The text form of a graph, read back by parser.h: printing what was parsed gives the same text.
//
//   graph @main(%x: f32[16, 5], %labels: i32[16]) {
//     variable %fc.weight: f32[10, 5] parameter trainable
//     %0: f32[16, 10] = dot(%x, %fc.weight) {transpose_a=false, transpose_b=true} scope "fc" at "model.py:12"
//     %1: f32[], %2: f32[] = nll(%0, %labels, _) {ignore_index=-100, reduction="mean"}
//     assign(%fc.weight, %3) update
//     return loss: %1
//   }
//
// A named value prints as its name, the others are numbered in order; "_" is an optional input left out. After the
// attributes come, each only where it differs from the default: scope "...", at "...", device N, stage N, phase N,
// update (the section), backward, no_grad.
#pragma once

#include <string>

#include "aspen/compiler/ir/graph.h"

namespace aspen {

std::string to_text(const Graph& graph);

// `word` as it appears in the text: bare where the parser can read it so, else in quotes.
std::string quoted_unless_plain(const std::string& word);

// Characters a bare word may consist of.
bool is_word_character(char c);

}  // namespace aspen
