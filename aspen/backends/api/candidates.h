// Several kernels for one op, in order. Each says of a request whether it can compute it, how well it would, and why;
// by rule the first of the best is taken. Which of several close ones is the fastest depends on the machine: the
// compiler measures that where the answer can be kept (compiler/choose_kernels.h), and asks for a candidate by name.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "aspen/backends/api/kernel.h"

namespace aspen {

struct Candidate {
  std::string name;
  // Of any request of the op. Follows from the request and the instruction set alone.
  std::function<Opinion(const KernelRequest& request)> judge;
  // For requests it can compute; may still decline.
  KernelFactory make;
};

class CandidateList {
 public:
  // What no candidate takes, and why; "": they are asked.
  using Unsuited = std::function<std::string(const KernelRequest& request)>;
  // The request whose choice holds for another one (see Backend::decisive).
  using Decisive = std::function<KernelRequest(const KernelRequest& request)>;
  CandidateList(Unsuited unsuited, std::vector<Candidate> candidates, Decisive decisive = nullptr);

  // One per candidate, in their order; none if the request is unsuited.
  std::vector<CandidateOpinion> opinions(const KernelRequest& request) const;
  KernelRequest decisive(const KernelRequest& request) const { return decisive_ ? decisive_(request) : request; }
  // By the candidate that is asked for or by the rule; the log (TRACE) tells the reasons.
  std::unique_ptr<Kernel> create(const KernelRequest& request, std::string& why) const;

 private:
  Unsuited unsuited_;
  std::vector<Candidate> candidates_;
  Decisive decisive_;
};

// As a factory. The list is shared, since factories are copied.
KernelFactory first_of(std::shared_ptr<const CandidateList> candidates);

}  // namespace aspen
