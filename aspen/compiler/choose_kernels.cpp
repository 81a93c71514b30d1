#include "aspen/compiler/choose_kernels.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <cstdlib>
#include <cstring>
#include <unordered_map>

#include "aspen/base/log.h"
#include "aspen/compiler/kernel_trial.h"

namespace aspen {
namespace {

constexpr double kTuningSeconds = 0.5;
constexpr const char* kTuningVariable = "ASPEN_TUNING_SECONDS";

// Requests that one choice holds for.
struct Question {
  KernelRequest decisive;
  std::string key;  // of it
  std::vector<KernelRequest*> requests;
  std::vector<std::string> names;  // of close candidates; that by rule first
  double products = 0;             // of all together
};

std::vector<std::string> close_ones(const KernelRequest& request, const Backend& backend) {
  std::vector<std::string> names;
  const std::vector<CandidateOpinion> opinions = backend.candidates(request);
  for (Fit fit : {Fit::kBest, Fit::kClose}) {
    for (const CandidateOpinion& opinion : opinions) {
      if (opinion.fit == fit) names.push_back(opinion.name);
    }
  }
  return names;
}

// Those with most products first.
std::vector<Question> find_questions(const std::vector<KernelWish>& wishes, const Backend& backend) {
  std::vector<Question> questions;
  std::unordered_map<std::string, std::size_t> indices;
  for (const KernelWish& wish : wishes) {
    KernelRequest decisive = backend.decisive(*wish.request);
    std::vector<std::string> names = close_ones(decisive, backend);
    if (names.size() < 2) continue;
    std::string key = to_string(decisive);
    const auto [found, is_new] = indices.emplace(key, questions.size());
    if (is_new) questions.push_back({std::move(decisive), std::move(key), {}, std::move(names)});
    Question& question = questions[found->second];
    question.requests.push_back(wish.request);
    question.products += wish.products;
  }
  std::stable_sort(questions.begin(), questions.end(),
                   [](const Question& a, const Question& b) { return a.products > b.products; });
  return questions;
}

// A name that is none of the candidates' comes from elsewhere, and counts for nothing.
bool is_answered(const Question& question, const ChoiceTable::Choices& choices) {
  const auto found = choices.find(question.key);
  return found != choices.end() && (found->second.empty() || std::find(question.names.begin(), question.names.end(),
                                                                       found->second) != question.names.end());
}

KernelTrial::Clock::time_point deadline_in(double seconds) {
  return KernelTrial::Clock::now() +
         std::chrono::duration_cast<KernelTrial::Clock::duration>(std::chrono::duration<double>(seconds));
}

ChoiceTable::Decided decide(const std::vector<Question>& questions, const ChoiceTable::Choices& known, bool can_keep,
                            const Backend& backend) {
  ChoiceTable::Decided decided;
  const double seconds = can_keep ? tuning_seconds() : 0;
  std::optional<KernelTrial> trial;
  for (const Question& question : questions) {
    if (is_answered(question, known)) continue;
    if (!trial && seconds > 0) trial.emplace(backend, deadline_in(seconds));
    std::optional<std::string> fastest;
    if (trial) fastest = trial->fastest(question.decisive, question.names);
    (fastest ? decided.timed : decided.by_rule)[question.key] = fastest.value_or("");
  }
  log::debug("[kernels] {} of {} requests with close candidates were timed, {} were known", decided.timed.size(),
             questions.size(), questions.size() - decided.timed.size() - decided.by_rule.size());
  return decided;
}

}  // namespace

double tuning_seconds() {
  const char* text = std::getenv(kTuningVariable);
  if (text == nullptr || *text == '\0') return kTuningSeconds;
  const char* end = text + std::strlen(text);
  double seconds = 0;
  const auto [stop, error] = std::from_chars(text, end, seconds);
  if (error == std::errc() && stop == end && seconds >= 0 && seconds < 1e6) return seconds;
  throw UserError("[compile] {} is \"{}\"; expected a number of seconds, such as 0.5, or 0 to time no kernels.",
                  kTuningVariable, text);
}

void choose_kernels(const std::vector<KernelWish>& wishes, const Backend& backend, ChoiceTable& table) {
  const std::vector<Question> questions = find_questions(wishes, backend);
  if (questions.empty()) return;
  const auto all_answered = [&](const ChoiceTable::Choices& choices) {
    return std::all_of(questions.begin(), questions.end(), [&](const Question& q) { return is_answered(q, choices); });
  };
  ChoiceTable::Choices choices = table.known();
  if (!all_answered(choices)) {
    table.extend(
        [&](const ChoiceTable::Choices& known, bool can_keep) { return decide(questions, known, can_keep, backend); });
    choices = table.known();
  }
  for (const Question& question : questions) {
    for (KernelRequest* request : question.requests) request->candidate = choices.at(question.key);
  }
}

}  // namespace aspen
