"""What a sweep found: a line per operator, its failures, and a summary."""

import collections

from . import trial as trials

# An operator is called after the worst of its checks, the last of these.
ORDER = (trials.INVALID, trials.NATIVE, trials.HOST, trials.REFUSED, *trials.FAILURES)

REASONS = 3  # of one operator to show; all of them are in build/ops/outcomes.json


def status_of(outcomes):
    statuses = {outcome["status"] for outcome in outcomes} or {trials.INVALID}
    return max(statuses, key=ORDER.index)


def one_line(text, length=160):
    text = " ".join(text.split())
    return text if len(text) <= length else text[:length] + " ..."


def line_of(key, outcomes):
    """What is said of an operator."""
    status = status_of(outcomes)
    if status == trials.INVALID:
        return f"{'not here':14} {key}: torch has it for other devices only"
    counts = collections.Counter(outcome["status"] for outcome in outcomes)
    checked = sum(number for name, number in counts.items() if name != trials.INVALID)
    text = f"{status:14} {key} ({counts[status]} of {checked} checks)" if counts[status] < checked else \
        f"{status:14} {key} ({checked} checks)"
    reasons = sorted({one_line(outcome["details"]) for outcome in outcomes if outcome["status"] == status} - {""})
    if len(reasons) > REASONS:
        reasons[REASONS:] = [f"and {len(reasons) - REASONS} more"]
    return "\n".join([text, *(f"{'':19}{reason}" for reason in reasons)])


def failures_of(key, outcomes):
    return [f"== {key}: {o['status']}, {o['form']}, {o['dtype']}: {key}({one_line(o['arguments'], 300)})\n   {o['details']}"
            for o in outcomes if o["status"] in trials.FAILURES]


def summary_of(found):
    """`found`: outcomes by key."""
    statuses = collections.Counter(status_of(outcomes) for outcomes in found.values())
    here = sum(statuses.values()) - statuses[trials.INVALID]
    lines = [f"{number:5} {status}" for status, number in
             sorted(statuses.items(), key=lambda entry: ORDER.index(entry[0])) if status != trials.INVALID]
    checks = collections.Counter(o["status"] for outcomes in found.values() for o in outcomes)
    checks.pop(trials.INVALID, None)
    native = f"{100 * statuses[trials.NATIVE] / here:.1f} % native" if here else "nothing to check"
    lines.append(f"checks: {sum(checks.values())}: " + ", ".join(f"{number} {name}" for name, number in checks.most_common()))
    lines.append(f"ops: {here} entries of torch's database, {native}, "
                 f"{sum(statuses[status] for status in trials.FAILURES)} with failures")
    return "\n".join(lines)
