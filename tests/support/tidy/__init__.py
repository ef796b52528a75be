"""The checks behind `tests/test_tidy.py`: each takes parsed source and returns findings.

They read code and never import it, so they also judge a file that cannot be imported.
"""
