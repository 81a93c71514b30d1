#include "aspen/backends/api/candidates.h"

#include <utility>

#include "aspen/base/log.h"

namespace aspen {
namespace {

const char* name_of(Fit fit) {
  switch (fit) {
    case Fit::kNone: return "cannot";
    case Fit::kPoor: return "slower";
    case Fit::kClose: return "close";
    case Fit::kBest: return "best";
  }
  return "";
}

void log_choice(const KernelRequest& request, const std::string& taken, const std::vector<CandidateOpinion>& opinions) {
  if (!log::is_enabled(log::Level::kTrace)) return;
  std::string reasons;
  for (const CandidateOpinion& opinion : opinions) {
    reasons += fmt::format("; {}: {}, {}", opinion.name, name_of(opinion.fit), opinion.why);
  }
  log::trace("kernel of {}: {}{}{}", to_string(request), taken,
             request.candidate.empty() ? " by rule" : " as it was chosen", reasons);
}

}  // namespace

CandidateList::CandidateList(Unsuited unsuited, std::vector<Candidate> candidates, Decisive decisive)
    : unsuited_(std::move(unsuited)), candidates_(std::move(candidates)), decisive_(std::move(decisive)) {}

std::vector<CandidateOpinion> CandidateList::opinions(const KernelRequest& request) const {
  std::vector<CandidateOpinion> all;
  if (!unsuited_(request).empty()) return all;
  for (const Candidate& candidate : candidates_) {
    Opinion opinion = candidate.judge(request);
    all.push_back({candidate.name, opinion.fit, opinion.why});
  }
  return all;
}

std::unique_ptr<Kernel> CandidateList::create(const KernelRequest& request, std::string& why) const {
  why = unsuited_(request);
  if (!why.empty()) return nullptr;
  const std::vector<CandidateOpinion> all = opinions(request);
  for (Fit fit : {Fit::kBest, Fit::kClose, Fit::kPoor}) {
    for (std::size_t i = 0; i < all.size(); ++i) {
      if (all[i].fit != fit || (!request.candidate.empty() && request.candidate != all[i].name)) continue;
      std::string reason;
      if (auto kernel = candidates_[i].make(request, reason)) {
        log_choice(request, all[i].name, all);
        return kernel;
      }
      why += fmt::format("{}: {}; ", all[i].name, reason);
    }
  }
  if (!request.candidate.empty()) why += fmt::format("\"{}\" is no candidate for it", request.candidate);
  return nullptr;
}

KernelFactory first_of(std::shared_ptr<const CandidateList> candidates) {
  return [candidates = std::move(candidates)](const KernelRequest& request, std::string& why) {
    return candidates->create(request, why);
  };
}

}  // namespace aspen
