"""Native worker threads: `covector_parallel` runs ranges of a kernel's outer loop on several.

The caller works too.  A worker is a thread of the system that stays inside machine code for good
and never meets the interpreter; the first job that is to be spread starts them, so that a process
without one has no threads.  A worker spins for a moment after a job, then sleeps.  Ranges have
owners, so that one part of the data meets one core each time; who is done helps the others.
"""

from __future__ import annotations

import ctypes
import os
import sys
import threading
from typing import Any, Final, final

from covector.backends.cpu.target import Target
from covector.runtime import threads

#: The function that kernels call.
SYMBOL: Final = "covector_parallel"
FUNCTIONS: Final = (SYMBOL, "covector_worker")
STATE: Final = "covector_state"
#: The most threads a job is spread over.
MOST: Final = 64
#: Looks at the job counter before a worker goes to sleep: some 50 to 100 microseconds.
SPIN: Final = 4000
#: Ranges per thread: more even out the load, fewer cost less.
RANGES: Final = 4
#: Bytes of a worker's stack: kernels keep scratch rows there.
STACK: Final = 1 << 24

# Byte offsets of the shared state; what different threads write lies in different cache lines.
_OPEN, _ACTIVE, _GENERATION, _SLEEPERS, _BUSY = 0, 64, 128, 192, 256
_JOB = 320  # function, buffers, symbols, low, high, grain, threads of the job
_THREADS, _STARTED = 384, 392
_NEXT = 448  # per thread: next range, end of its ranges
_MUTEX = _NEXT + 64 * MOST
_CONDITION = _MUTEX + 128
_SETTINGS = _CONDITION + 128  # pthread_attr_t
SIZE: Final = _SETTINGS + 128


def module(target: Target) -> str:
    """The text of the pool's two functions; the shared state is a symbol, so it can be cached."""
    windows = "windows" in target.triple
    pause = "call void @llvm.x86.sse2.pause()"
    declare = "declare void @llvm.x86.sse2.pause()"
    if target.triple.startswith(("aarch64", "arm64")):
        pause = "call void @llvm.aarch64.hint(i32 1)"
        declare = "declare void @llvm.aarch64.hint(i32)"
    elif not target.triple.startswith(("x86_64", "i686", "amd64")):
        pause, declare = "fence seq_cst", ""
    wait = "call i32 @covector_wait(ptr %condition, ptr %mutex)"
    spawn = (
        "%failed = call i32 @covector_spawn(ptr %id, ptr %settings, ptr @covector_worker, ptr %me)"
    )
    waits, spawns = "ptr, ptr", "i32 @covector_spawn(ptr, ptr, ptr, ptr)"
    if windows:
        wait = "call i32 @covector_wait(ptr %condition, ptr %mutex, i32 -1, i32 0)"
        reserve = f"i64 {STACK}, ptr @covector_worker, ptr %me, i32 65536"
        spawn = (
            f"%handle = call ptr @covector_spawn(ptr null, {reserve}, ptr %id)\n"
            "  %none = icmp eq ptr %handle, null\n  %failed = zext i1 %none to i32"
        )
        waits, spawns = "ptr, ptr, i32, i32", "ptr @covector_spawn(ptr, i64, ptr, ptr, i32, ptr)"
    places = {
        "open": _OPEN, "active": _ACTIVE, "generation": _GENERATION, "sleepers": _SLEEPERS,
        "busy": _BUSY, "function": _JOB, "buffers": _JOB + 8, "symbols": _JOB + 16,
        "low": _JOB + 24, "high": _JOB + 32, "grain": _JOB + 40, "spread": _JOB + 48,
        "threads": _THREADS, "started": _STARTED, "next": _NEXT, "mutex": _MUTEX,
        "condition": _CONDITION, "settings": _SETTINGS,
    }  # fmt: skip
    lines = [f"  %p.{k} = getelementptr i8, ptr @{STATE}, i64 {at}" for k, at in places.items()]
    text = _TEXT.replace("PLACES", "\n".join(lines)).replace("PAUSE", pause).replace("WAIT", wait)
    text = text.replace("SPAWN", spawn).replace("%settings", "%p.settings")
    text = text.replace("%condition", "%p.condition").replace("%mutex", "%p.mutex")
    text = text.replace("SPIN", str(SPIN)).replace("RANGES", str(RANGES))
    declare += f"\ndeclare i32 @covector_wait({waits})\ndeclare {spawns}"
    return f'target triple = "{target.triple}"\n{text}\n{declare}\n'


_TEXT: Final = """
@covector_state = external global i8
declare void @covector_lock(ptr)
declare void @covector_unlock(ptr)
declare void @covector_wake(ptr)
declare void @covector_yield()

define internal void @work(i64 %me) nounwind {
entry:
PLACES
  %function = load ptr, ptr %p.function, align 8
  %buffers = load ptr, ptr %p.buffers, align 8
  %symbols = load ptr, ptr %p.symbols, align 8
  %low = load i64, ptr %p.low, align 8
  %high = load i64, ptr %p.high, align 8
  %grain = load i64, ptr %p.grain, align 8
  %spread = load i64, ptr %p.spread, align 8
  br label %owners
owners:
  %k = phi i64 [0, %entry], [%k.next, %done]
  %sum = add i64 %me, %k
  %owner = urem i64 %sum, %spread
  %line = shl i64 %owner, 6
  %counter = getelementptr i8, ptr %p.next, i64 %line
  %end.place = getelementptr i8, ptr %counter, i64 8
  %end = load i64, ptr %end.place, align 8
  br label %ranges
ranges:
  %seen = load atomic i64, ptr %counter monotonic, align 8
  %some = icmp slt i64 %seen, %end
  br i1 %some, label %claim, label %done
claim:
  %n = atomicrmw add ptr %counter, i64 1 acq_rel
  %mine = icmp slt i64 %n, %end
  br i1 %mine, label %run, label %done
run:
  %offset = mul i64 %n, %grain
  %from = add i64 %low, %offset
  %after = add i64 %from, %grain
  %over = icmp sgt i64 %after, %high
  %to = select i1 %over, i64 %high, i64 %after
  call void %function(ptr %buffers, ptr %symbols, i64 %from, i64 %to)
  br label %ranges
done:
  %k.next = add i64 %k, 1
  %more = icmp slt i64 %k.next, %spread
  br i1 %more, label %owners, label %leave
leave:
  ret void
}

define internal void @hire(i64 %wanted) nounwind {
entry:
PLACES
  %id = alloca i64, align 8
  %here = load i64, ptr %p.started, align 8
  br label %look
look:
  %n = phi i64 [%here, %entry], [%n.next, %hired]
  %enough = icmp sge i64 %n, %wanted
  br i1 %enough, label %done, label %start
start:
  %n.next = add i64 %n, 1
  %me = inttoptr i64 %n.next to ptr
  SPAWN
  %well = icmp eq i32 %failed, 0
  br i1 %well, label %hired, label %refused
hired:
  store i64 %n.next, ptr %p.started, align 8
  br label %look
refused:
  store atomic i64 %n.next, ptr %p.threads monotonic, align 8
  br label %done
done:
  ret void
}

define void @covector_parallel(ptr %function, ptr %buffers, ptr %symbols,
                               i64 %low, i64 %high, i64 %quantum) nounwind {
entry:
PLACES
  %none = icmp sge i64 %low, %high
  br i1 %none, label %nothing, label %some
nothing:
  ret void
some:
  %spread = load atomic i64, ptr %p.threads monotonic, align 8
  %alone = icmp slt i64 %spread, 2
  br i1 %alone, label %serial, label %try
try:
  %taken = cmpxchg ptr %p.busy, i64 0, i64 1 acq_rel monotonic
  %free = extractvalue { i64, i1 } %taken, 1
  br i1 %free, label %staff, label %serial
serial:
  call void %function(ptr %buffers, ptr %symbols, i64 %low, i64 %high)
  ret void
staff:
  %here = load i64, ptr %p.started, align 8
  %wanted = sub i64 %spread, 1
  %short = icmp slt i64 %here, %wanted
  br i1 %short, label %call, label %publish
call:
  call void @hire(i64 %wanted)
  br label %publish
publish:
  %count = sub i64 %high, %low
  %parts = mul i64 %spread, RANGES
  %part0 = add i64 %count, %parts
  %part1 = sub i64 %part0, 1
  %part = udiv i64 %part1, %parts
  %up0 = add i64 %part, %quantum
  %up1 = sub i64 %up0, 1
  %quanta = udiv i64 %up1, %quantum
  %grain = mul i64 %quanta, %quantum
  %ranges0 = add i64 %count, %grain
  %ranges1 = sub i64 %ranges0, 1
  %ranges = udiv i64 %ranges1, %grain
  store ptr %function, ptr %p.function, align 8
  store ptr %buffers, ptr %p.buffers, align 8
  store ptr %symbols, ptr %p.symbols, align 8
  store i64 %low, ptr %p.low, align 8
  store i64 %high, ptr %p.high, align 8
  store i64 %grain, ptr %p.grain, align 8
  store i64 %spread, ptr %p.spread, align 8
  br label %deal
deal:
  %t = phi i64 [0, %publish], [%t.next, %deal]
  %t.next = add i64 %t, 1
  %first0 = mul i64 %t, %ranges
  %first = udiv i64 %first0, %spread
  %last0 = mul i64 %t.next, %ranges
  %last = udiv i64 %last0, %spread
  %line = shl i64 %t, 6
  %counter = getelementptr i8, ptr %p.next, i64 %line
  %end.place = getelementptr i8, ptr %counter, i64 8
  store i64 %last, ptr %end.place, align 8
  store atomic i64 %first, ptr %counter release, align 8
  %dealt = icmp eq i64 %t.next, %spread
  br i1 %dealt, label %go, label %deal
go:
  store atomic i64 1, ptr %p.open seq_cst, align 8
  %g = atomicrmw add ptr %p.generation, i64 1 seq_cst
  %asleep = load atomic i64, ptr %p.sleepers seq_cst, align 8
  %any = icmp sgt i64 %asleep, 0
  br i1 %any, label %wake, label %own
wake:
  call void @covector_lock(ptr %mutex)
  call void @covector_wake(ptr %condition)
  call void @covector_unlock(ptr %mutex)
  br label %own
own:
  call void @work(i64 0)
  store atomic i64 0, ptr %p.open seq_cst, align 8
  br label %join
join:
  %tries = phi i64 [0, %own], [%tries.next, %spin], [0, %yield]
  %active = load atomic i64, ptr %p.active seq_cst, align 8
  %idle = icmp eq i64 %active, 0
  br i1 %idle, label %finish, label %spin
spin:
  PAUSE
  %tries.next = add i64 %tries, 1
  %long = icmp sgt i64 %tries.next, 2000
  br i1 %long, label %yield, label %join
yield:
  call void @covector_yield()
  br label %join
finish:
  store atomic i64 0, ptr %p.busy release, align 8
  ret void
}

define void @covector_worker(ptr %number) nounwind {
entry:
PLACES
  %me = ptrtoint ptr %number to i64
  %latest = load atomic i64, ptr %p.generation seq_cst, align 8
  %start = sub i64 %latest, 1
  br label %idle
idle:
  %seen = phi i64 [%start, %entry], [%now, %leave]
  br label %spin
spin:
  %tries = phi i64 [0, %idle], [%tries.next, %again]
  %looked = load atomic i64, ptr %p.generation acquire, align 8
  %new = icmp ne i64 %looked, %seen
  br i1 %new, label %awake, label %again
again:
  PAUSE
  %tries.next = add i64 %tries, 1
  %more = icmp slt i64 %tries.next, SPIN
  br i1 %more, label %spin, label %sleep
sleep:
  call void @covector_lock(ptr %mutex)
  %s = atomicrmw add ptr %p.sleepers, i64 1 seq_cst
  br label %check
check:
  %looked2 = load atomic i64, ptr %p.generation seq_cst, align 8
  %new2 = icmp ne i64 %looked2, %seen
  br i1 %new2, label %rise, label %wait
wait:
  %w = WAIT
  br label %check
rise:
  %r = atomicrmw sub ptr %p.sleepers, i64 1 seq_cst
  call void @covector_unlock(ptr %mutex)
  br label %awake
awake:
  %now = load atomic i64, ptr %p.generation acquire, align 8
  %a = atomicrmw add ptr %p.active, i64 1 seq_cst
  %open = load atomic i64, ptr %p.open seq_cst, align 8
  %is.open = icmp eq i64 %open, 1
  br i1 %is.open, label %join, label %leave
join:
  %spread = load i64, ptr %p.spread, align 8
  %called = icmp slt i64 %me, %spread
  br i1 %called, label %help, label %leave
help:
  call void @work(i64 %me)
  br label %leave
leave:
  %b = atomicrmw sub ptr %p.active, i64 1 seq_cst
  br label %idle
}
"""


@final
class Pool:
    """The workers of this process."""

    def __init__(self) -> None:
        self._memory = ctypes.create_string_buffer(SIZE + 64)
        base = ctypes.addressof(self._memory)
        self.state = base + -base % 64
        self.code: Any = None
        self._system = _system()
        self.reset()

    def reset(self) -> None:
        """No workers, no job: at the beginning, and in the child of a fork."""
        ctypes.memset(self.state, 0, SIZE)
        self._system.prepare(*(self.state + at for at in (_MUTEX, _CONDITION, _SETTINGS)))
        self.use(threads.num_threads())

    @property
    def started(self) -> int:
        """How many workers there are."""
        return ctypes.c_int64.from_address(self.state + _STARTED).value

    def imports(self) -> dict[str, int]:
        """What the pool's code imports: its state, and functions of the system."""
        return {STATE: self.state, **self._system.symbols}

    def use(self, count: int) -> None:
        """Spreads jobs over `count` threads from now on; the next job starts what is missing."""
        ctypes.c_int64.from_address(self.state + _THREADS).value = max(1, min(count, MOST))


@final
class _System:
    """Mutex, condition and yield of this system, by address."""

    def __init__(self, symbols: dict[str, int], prepare: Any) -> None:
        self.symbols, self.prepare = symbols, prepare


def _system() -> _System:
    if sys.platform == "win32":
        library = ctypes.CDLL("kernel32")
        names = {
            "lock": "AcquireSRWLockExclusive", "unlock": "ReleaseSRWLockExclusive",
            "wait": "SleepConditionVariableSRW", "wake": "WakeAllConditionVariable",
            "yield": "SwitchToThread", "spawn": "CreateThread",
        }  # fmt: skip
        prepare = lambda mutex, condition, settings: None  # noqa: E731  # zeroed memory is ready
    else:
        library = ctypes.CDLL(None)
        names = {
            "lock": "pthread_mutex_lock", "unlock": "pthread_mutex_unlock",
            "wait": "pthread_cond_wait", "wake": "pthread_cond_broadcast",
            "yield": "sched_yield", "spawn": "pthread_create",
        }  # fmt: skip

        def prepare(mutex: int, condition: int, settings: int) -> None:
            library.pthread_mutex_init(ctypes.c_void_p(mutex), None)
            library.pthread_cond_init(ctypes.c_void_p(condition), None)
            library.pthread_attr_init(ctypes.c_void_p(settings))
            library.pthread_attr_setstacksize(ctypes.c_void_p(settings), ctypes.c_size_t(STACK))

    found = {
        f"covector_{k}": ctypes.cast(getattr(library, n), ctypes.c_void_p).value or 0
        for k, n in names.items()
    }
    return _System(found, prepare)


_pool: Final[list[Pool]] = []
_making = threading.Lock()
_add_reference: Final = ctypes.PYFUNCTYPE(None, ctypes.py_object)(("Py_IncRef", ctypes.pythonapi))


def address(make: Any) -> int:
    """Where `covector_parallel` is; the first call makes the pool.  `make(symbols)` gives its
    code, linked with them."""
    with _making:
        if not _pool:
            pool = Pool()
            pool.code = make(pool.imports())
            _add_reference(pool)  # workers look at it until the process is gone
            _pool.append(pool)
            if hasattr(os, "register_at_fork"):
                os.register_at_fork(after_in_child=_after_fork)
            threads.follow(pool.use)
    return _pool[0].code.address(SYMBOL)


def _after_fork() -> None:
    """The child has none of the workers; its first job starts others."""
    global _making
    _making = threading.Lock()
    for pool in _pool:
        pool.reset()
