"""What the model is asked about a pair of recordings, in training, description and evaluation alike.

A question must be the same wherever it is put, so it stands here once.
"""

from __future__ import annotations

from typing import Any

DIFFERENCE, COMMONALITY = TASKS = ("difference", "commonality")

QUESTIONS = {
    DIFFERENCE: (
        "Audio 1 is the original recording and Audio 2 is an edited version of it. "
        "What is different in Audio 2 compared with Audio 1?"
    ),
    COMMONALITY: (
        "Audio 1 is the original recording and Audio 2 is an edited version of it. "
        "What do Audio 1 and Audio 2 have in common?"
    ),
}


def conversation(task: str) -> list[dict[str, Any]]:
    """The messages that put the question of `task` (one of `TASKS`) after the original and the edited recording."""
    content = [{"type": "audio"}, {"type": "audio"}, {"type": "text", "text": QUESTIONS[task]}]
    return [{"role": "user", "content": content}]
