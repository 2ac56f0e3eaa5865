"""Native: programs that need no compiler: several one after the other (`runtime.sequence`), one
row of an array (`runtime.rows`).
"""

from __future__ import annotations

from .capi import memmove
from .language import call, stack, word


def run_sequence(buffers: word, symbols: word) -> None:
    """A program whose symbols say what to do: (steps, place of the arena in `buffers`, most
    operands of a step), then for each step (code or 0, symbols or bytes, operands, each).

    An operand is twice an index of `buffers`, or twice an offset in the arena plus 1.  Without
    code a step copies so many bytes from its first operand to its second.
    """
    steps = symbols[0]
    arena = buffers[symbols[1]]
    room = stack(symbols[2] + 1)
    at = symbols + 24
    while steps > 0:
        code = at[0]
        numbers = at[1]
        count = at[2]
        at = at + 24
        i = 0
        while i < count:
            operand = at[i]
            if operand & 1:
                room[i] = arena + (operand >> 1)
            else:
                room[i] = buffers[operand >> 1]
            i += 1
        at = at + 8 * count
        if code == 0:
            memmove(room[1], room[0], numbers)
        else:
            call(code, room, numbers)
        steps -= 1


def read_row(buffers: word, symbols: word) -> None:
    """Copies row `symbols[1]` of the argument, so many bytes, to the output."""
    nbytes = symbols[0]
    memmove(buffers[1], buffers[0] + symbols[1] * nbytes, nbytes)


def write_row(buffers: word, symbols: word) -> None:
    """Copies the first argument, `symbols[0]` bytes, to the output, and the second, `symbols[1]`
    bytes, to row `symbols[2]` of it.
    """
    nbytes = symbols[1]
    memmove(buffers[2], buffers[0], symbols[0])
    memmove(buffers[2] + symbols[2] * nbytes, buffers[1], nbytes)
