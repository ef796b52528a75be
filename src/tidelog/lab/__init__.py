"""The lab: replication told step by step, each step played on the real state machines.

A story is a scenario file with more words: what happens, in plain language; a question before
the answer is shown; and exactly what comes out, which is checked each time the story is told.
"""

from tidelog.lab.catalogue import Chapter, Story, UnknownStoryError, find, stories
from tidelog.lab.telling import run

__all__ = ["Chapter", "Story", "UnknownStoryError", "find", "run", "stories"]
