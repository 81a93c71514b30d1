// Connectionist temporal classification (Graves et al. 2006): minus the logarithm of the probability of all
// alignments of a target with a sequence of log probabilities, summed by the forward recursion over the target with
// blanks between its labels. The recursion is a loop over time; its gradient comes from differentiating it.
#include <limits>

#include "poptorch/aten/support/loop.h"
#include "poptorch/aten/support/loss.h"

namespace poptorch {
namespace {

// Stands for log 0. Finite, so that differences of two of them are numbers.
constexpr double kImpossible = -1e30;

struct Problem {
  Expr log_p;           // (T, N, C)
  Expr targets;         // (N, S)
  Expr input_lengths;   // (N)
  Expr target_lengths;  // (N)
  bool unbatched;
};

struct Lengths {
  Expr value;  // (N)
  std::optional<std::vector<double>> known;
};

Lengths lengths(Call& call, const char* name) {
  std::optional<std::vector<double>> known;
  if (!call.raw(name).isTensor()) {
    known.emplace();
    for (auto length : call.integers(name)) known->push_back(static_cast<double>(length));
    return {constant(call.b, DType::kI32, {static_cast<std::int64_t>(known->size())}, *known), known};
  }
  if (auto tensor = call.known(name)) known = read_numbers(*tensor);
  Expr value = cast(expr(call, call.value(name)), DType::kI32);
  return {reshape(value, {value.numel()}), known};
}

// Every length between 0 and `most`.
void check_lengths(Lengths& lengths, const char* what, std::int64_t most, const std::string& size) {
  lengths.value = check_range(lengths.value, 0, most, "ctc_loss", what, size);
}

// Targets laid end to end as rows of equal length; beyond a target's end anything may stand.
Expr as_rows(Expr joined, Lengths& target_lengths) {
  std::int64_t longest = joined.numel(), count = target_lengths.value.numel();
  Expr ends = cumsum(target_lengths.value, 0);
  if (count > 0) {
    Expr end = check_range(slice(ends, 0, count - 1, count), longest, longest, "ctc_loss", "sum of target lengths",
                           fmt::format("{} labels in all targets", longest));
    ends = concat({slice(ends, 0, 0, count - 1), end}, 0);
  }
  if (target_lengths.known) {
    longest = 0;
    for (double length : *target_lengths.known) longest = std::max(longest, static_cast<std::int64_t>(length));
  }
  Expr starts = ends - target_lengths.value;
  Expr place = unsqueeze(starts, 1) + positions(*joined.b, 2, 1, longest);
  return take(joined, clamp(place, 0, static_cast<double>(std::max<std::int64_t>(joined.numel() - 1, 0))), 0);
}

Problem problem_of(Call& call) {
  Problem p;
  p.log_p = in_float(expr(call, call.value("log_probs")));
  Expr targets = cast(expr(call, call.value("targets")), DType::kI32);
  p.unbatched = p.log_p.rank() == 2;
  if (p.unbatched) p.log_p = unsqueeze(p.log_p, 1);
  std::int64_t steps = p.log_p.size(0), batch = p.log_p.size(1), classes = p.log_p.size(2);
  std::int64_t blank = call.integer("blank");
  if (blank < 0 || blank >= classes) {
    throw UserError("[ctc_loss] blank {} is out of range for {} classes; expected 0 to {}.", blank, classes,
                    classes - 1);
  }
  if (p.unbatched) targets = reshape(targets, {1, targets.numel()});
  Lengths target_lengths = lengths(call, "target_lengths"), input_lengths = lengths(call, "input_lengths");
  std::int64_t longest = targets.shape().back();
  check_lengths(target_lengths, "target length", longest,
                fmt::format("targets of shape {}", to_string(targets.shape())));
  check_lengths(input_lengths, "input length", steps, fmt::format("{} time steps", steps));
  p.target_lengths = target_lengths.value;
  p.input_lengths = input_lengths.value;
  p.targets = targets.rank() == 1 ? as_rows(targets, target_lengths) : targets;
  for (const Expr& per_example : {p.input_lengths, p.target_lengths}) {
    if (per_example.numel() != batch)
      throw UserError("[ctc_loss] {} lengths for a batch of {}.", per_example.numel(), batch);
  }
  // What stands beyond a target's end is nobody's business.
  Expr used = positions(call.b, 2, 1, p.targets.size(1)) < unsqueeze(p.target_lengths, 1);
  p.targets = check_range(where(used, p.targets, static_cast<double>(blank)), 0, classes - 1, "ctc_loss", "label",
                          fmt::format("{} classes", classes));
  return p;
}

// (N, 2 S + 1): blank, label, blank, label, ..., blank
Expr with_blanks(const Problem& p, double blank) {
  Expr labels = unsqueeze(p.targets, 2);
  Expr pairs = reshape(concat({full_like(labels, blank), labels}, 2), {p.targets.size(0), 2 * p.targets.size(1)});
  return pad_axis(pairs, 1, 0, 1, blank);
}

Expr moved(Expr x, std::int64_t by, double fill) { return slice(pad_axis(x, 1, by, 0, fill), 1, 0, x.size(1)); }

// log(exp(a) + exp(b) + exp(c))
Expr log_sum(Expr a, Expr b, Expr c) {
  Expr top = detach(max(max(a, b), c));
  return log(exp(a - top) + exp(b - top) + exp(c - top)) + top;
}

// Log probability of each example's target, about kImpossible where there is no alignment.
Expr log_likelihood(const Problem& p, double blank) {
  std::int64_t steps = p.log_p.size(0), batch = p.log_p.size(1);
  Builder& b = *p.log_p.b;
  Expr labels = with_blanks(p, blank);
  std::int64_t states = labels.size(1);
  Expr emitted = gather(p.log_p, broadcast(labels, {steps, batch, states}), 2);
  // A blank may be skipped between two different labels.
  Expr skips = labels != blank && labels != moved(labels, 2, blank);
  Expr first = positions(b, 2, 1, states) < 2.0;
  Expr alpha = where(first, select_row(emitted, 0, 0), kImpossible);
  if (steps > 1) {
    // In step t, the examples that are longer than that.
    Expr is_running = unsqueeze(p.input_lengths > positions(b, 2, 0, steps), 2);
    LoopValues values{
        .carried = {alpha}, .rows = {slice(emitted, 0, 1, steps), slice(is_running, 0, 1, steps)}, .fixed = {skips}};
    alpha = repeat(b, steps - 1, false, values, [](const LoopValues& now) {
              Expr alpha = now.carried[0];
              Expr jump = where(now.fixed[0], moved(alpha, 2, kImpossible), kImpossible);
              Expr next = log_sum(alpha, moved(alpha, 1, kImpossible), jump) + now.rows[0];
              return TurnResults{.carried = {where(now.rows[1], next, alpha)}, .parts = {}};
            }).carried[0];
  }
  // It ends in the last label or in the blank after it.
  Expr end = unsqueeze(p.target_lengths, 1) * 2.0;
  Expr in_blank = gather(alpha, end, 1);
  Expr in_label = where(end > 0.0, gather(alpha, clamp(end - 1.0, 0, static_cast<double>(states)), 1), kImpossible);
  return squeeze(logaddexp(in_blank, in_label), 1);
}

// torch's gradient is that of the loss by the logits of a softmax, exp(log_p) - posterior: a term of value 0 adds the
// first part. After a log_softmax both forms give the same.
Expr softmax_term(const Problem& p) {
  Expr running = positions(*p.log_p.b, 2, 0, p.log_p.size(0)) < p.input_lengths;
  Expr mass = sum(where(unsqueeze(running, 2), exp(p.log_p), 0.0), {0, 2});
  return mass - detach(mass);
}

// ctc_loss.Tensor(Tensor log_probs, Tensor targets, Tensor input_lengths, Tensor target_lengths, int blank=0, int
// reduction=1, bool zero_infinity=False), ctc_loss.IntList(... int[] input_lengths, int[] target_lengths ...)
void ctc_loss(Call& call) {
  Problem p = problem_of(call);
  Expr likelihood = log_likelihood(p, static_cast<double>(call.integer("blank")));
  // A sequence without steps says nothing: the empty target is certain, any other impossible.
  likelihood = where(p.input_lengths == 0.0, where(p.target_lengths == 0.0, 0.0, full_like(likelihood, kImpossible)),
                     likelihood);
  Expr impossible = likelihood < kImpossible / 2;
  double lost = call.boolean("zero_infinity") ? 0 : std::numeric_limits<double>::infinity();
  Expr loss = where(impossible, lost, softmax_term(p) - likelihood);
  if (reduction_of(call) == Reduction::kMean) {
    loss = loss / cast(clamp(p.target_lengths, 1, 2147483647), loss.dtype());
  }
  if (p.unbatched && reduction_of(call) == Reduction::kNone) loss = reshape(loss, {});
  finish_loss(call, loss, call.dtype("log_probs"));
}

}  // namespace

void register_ctc_loss(HandlerTable& table) {
  table.add("aten::ctc_loss.Tensor", ctc_loss);
  table.add("aten::ctc_loss.IntList", ctc_loss);
}

}  // namespace poptorch
