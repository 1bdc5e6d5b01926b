# SPDX-License-Identifier: MIT
"""Progress on stderr: what is being done, and for how long it has been."""

from __future__ import annotations

import contextlib
import sys
import threading
import time
from collections.abc import Iterator

HEARTBEAT_S = 30

_writing = threading.Lock()


def say(text: str) -> None:
    """One line on stderr; may be called from any thread."""
    with _writing:  # print() writes text and line end apart: two threads' lines would run into each other
        print(f"abh: {text}", file=sys.stderr, flush=True)


@contextlib.contextmanager
def step(about: str) -> Iterator[None]:
    """Says that `about` began, that it is still going on twice a minute, and how long it took."""
    start = time.monotonic()
    say(about)
    with still(about):
        yield
    say(f"done: {about} ({time.monotonic() - start:.0f} s)")


@contextlib.contextmanager
def still(about: str) -> Iterator[None]:
    """Says twice a minute that `about` is still going on: nothing of what is short."""
    start = time.monotonic()
    done = threading.Event()

    def beat() -> None:
        while not done.wait(HEARTBEAT_S):
            say(f"still {about} ({time.monotonic() - start:.0f} s)")

    thread = threading.Thread(target=beat, daemon=True)
    thread.start()
    try:
        yield
    finally:
        done.set()
        thread.join()
