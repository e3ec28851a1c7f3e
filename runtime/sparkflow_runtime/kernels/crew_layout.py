"""Where things lie in the memory by which a crew's threads speak to each other; all of it words of 8 bytes."""

from __future__ import annotations

LINE = 64  # bytes: words that different threads write lie in cache lines of their own
TICKET, TABLE, DONE, ASLEEP, BUSY = (LINE * i for i in range(5))
CALLS = LINE * 5  # addresses of functions of libc, and how long a thread without work looks for some
YIELD, WAIT, POST, CLOCK, PATIENCE_NS = (CALLS + 8 * i for i in range(5))
SEMAPHORE = LINE * 6  # a sem_t
UNTIL, LEVEL, GOOD, NOW = (LINE * 7 + 8 * i for i in range(4))  # written by who is BUSY; NOW: a timespec
STATE_BYTES = LINE * 8

# a block: which kind of function, its address, and what it is called with
KIND, FUNCTION, DATA, ARGS, SIZES, STEPS = 0, 8, 16, 24, 80, 120
BLOCK_BYTES = 200  # up to 7 arguments, 5 sizes, 10 steps
LOOP, ENTRY = 0, 1  # a ufunc's inner loop; an entry of ints (machine_code.py)
ENTRY_ARGUMENTS = 12  # at most: an entry has no sizes and steps, so its arguments go on where those would lie
MOST_BLOCKS = 64
