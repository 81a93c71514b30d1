"""Random modules that eager PyTorch can train, and a judge that says whether poptorch trains them alike.

`generate.py` writes a program statement by statement, each tried in eager PyTorch at once; `ingredients/` are the
kinds of statements; `judge.py` trains it both ways; `shrink.py` makes a failing program small.
"""
