"""A sweep of torch's own operator database through poptorch; `sweep.py` beside this folder runs it.

`database.py` says what there is to check, `trial.py` what one check is, `check.py` and `judge.py` do it, `workers.py` in
processes that may crash; `report.py` sums up.
"""
