"""The command line that the comparisons with PyTorch share: options, a child for every number of threads, JSON."""
import argparse
import json
import sys

from .measure import describe_baseline, in_child, write_json


def parser_of(description, what, kinds):
    parser = argparse.ArgumentParser(description=description, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.set_defaults(all_kinds=kinds)
    parser.add_argument("--filter", default="", metavar="REGEX", help=f"only {what} whose name matches")
    parser.add_argument("--threads", type=int, action="append", help="number of threads; may be given more than once")
    for kind in kinds:
        parser.add_argument(f"--{kind}", dest="kinds", action="append_const", const=kind, help=f"only {kind}")
    parser.add_argument("--json", metavar="FILE", help="writes the results as JSON")
    parser.add_argument("--child", action="store_true", help=argparse.SUPPRESS)
    return parser


def run(parser, script, measure, report, forwarded):
    """Parses the command line. A parent starts `script` as a child for every number of threads and reports what comes
    back; a child calls `measure`. `forwarded` makes of the options what the child is told besides those of all."""
    options = parser.parse_args()
    options.threads, options.kinds = options.threads or [1, 2], options.kinds or options.all_kinds
    if options.child:
        baseline = describe_baseline()
        json.dump([baseline, measure(options)], sys.stdout)
        return
    arguments = ["--filter", options.filter, *(f"--{kind}" for kind in options.kinds), *forwarded(options)]
    runs = []
    for threads in options.threads:
        runs.append(in_child(script, threads, arguments))
        report(runs[-1])
        if options.json:
            write_json(options.json, runs)
