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
// A named value prints as its name, the others are numbered in order; "_" is an optional input left out. Each of the
// following is printed only where it differs from the default.
//   after the attributes of an op   scope "...", at "...", device N, stage N, phase N, task N, update (the section),
//                                   backward, no_grad
//   after the kind of a variable    trainable, initial X, off_device, reduced, sharded, gathered, numel N, and how
//                                   replicas share it: group consecutive N, group orthogonal N, group none, group all,
//                                   then returns_all
//   after an input or output        overlapped; after an input then wide (the host has its integers in 64 bits)
// Between autodiff and the update, a line after the ops names the gradient of each variable that has one:
//
//   gradient %fc.weight: %7
//
// A partitioned graph lists its lanes and tasks, numbered in order, between the variables and the ops:
//
//   lane 0 depth 3
//   lane 1 device 1 depth 2
//   task 0 "forward of stage 0" cost 2
//   task 1 "stage 1" device 1 lane 1 stage 1
//   task 2 "update of device 1" device 1 lane 1 update
//
// A graph that an op owns stands among its attributes, with names of its own:
//
//   %y: f32[4] = loop(%x) {count=3, carried=1, sliced=0, reverse=false, body=graph @turn(%h: f32[4]) {
//       %0: f32[4] = tanh(%h)
//       return h: %0
//     }}
#pragma once

#include <string>

#include "aspen/compiler/ir/graph.h"

namespace aspen {

// `indent`: of all lines but the first; without it the text ends with a line break.
std::string to_text(const Graph& graph);
std::string to_text(const Graph& graph, std::size_t indent);

// `word` as it appears in the text: bare where the parser can read it so, else in quotes.
std::string quoted_unless_plain(const std::string& word);

// Characters a bare word may consist of.
bool is_word_character(char c);

}  // namespace aspen
