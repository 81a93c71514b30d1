// Which of several close candidates (backends/api/candidates.h) serves a request: the fastest on this machine. Kernels
// that are close differ in the last bits of their results, so that a choice holds for good: it is looked up in a table
// that lasts, and measured only if it can be kept there. Called by build_program, before kernels are made.
#pragma once

#include <vector>

#include "aspen/backends/api/kernel.h"
#include "aspen/compiler/choice_table.h"

namespace aspen {

// A request of an instruction, and how many products it computes.
struct KernelWish {
  KernelRequest* request = nullptr;
  double products = 0;
};

// Fills in KernelRequest::candidate where there is a choice. Requests with most products come first; those that
// tuning_seconds() does not suffice for, and requests in the bodies of loops and branches, are left to the rule.
void choose_kernels(const std::vector<KernelWish>& wishes, const Backend& backend, ChoiceTable& table);

// How long a compilation may measure: what ASPEN_TUNING_SECONDS says, half a second without it. 0: not at all.
double tuning_seconds();

}  // namespace aspen
