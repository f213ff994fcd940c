"""Files and messages that are almost right: none may crash, hang, fill the memory, or raise an error that is not ours.

``python -m tests.fuzz --format model --cases 10000 --keep`` tries many. What it finds goes to ``seeds``, and is tried
again by every later run of the tests.
"""
