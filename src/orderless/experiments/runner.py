"""Doing the runs that are missing: in this process or in several, and also beside other runners on the same folder.

Whoever does a run holds a lock on it, which the system releases when the process ends, however it ends. So no two runners do the
same run at once, and none is lost: a run whose process was killed is free again, and continues from its last checkpoint.
"""

from __future__ import annotations

import multiprocessing
import os
import signal
import sys
import threading
import time
import traceback
import warnings
from collections import deque
from collections.abc import Callable, Sequence
from contextlib import ExitStack, suppress
from dataclasses import dataclass, field
from multiprocessing import connection
from pathlib import Path
from typing import Any, Literal, NamedTuple

import torch

from orderless.claims import claim
from orderless.experiments.results import Line, ResultStore
from orderless.experiments.run import execute as execute_run
from orderless.experiments.spec import RunSpec
from orderless.train import Execution

Execute = Callable[..., Line]
State = Literal["begun", "step", "finished", "diverged", "elsewhere", "failed", "waiting"]
_LOOK_AGAIN_SECONDS = 2.0  # at runs that another runner is working on
_TELL_SECONDS = 1.0  # from one word of a worker about its run to the next
_PATIENCE_SECONDS = 5.0  # for a worker to end


@dataclass(frozen=True)
class Event:
    """What just happened to a run.

    Attributes:
        state: `begun`; `step`, some steps further; `finished` or `diverged`, and recorded; `elsewhere`, recorded by another
            runner; `failed` with an exception or killed; `waiting` for another runner that is working on it.
        spec: Which run.
        share: How much of it is done, 0 to 1.
        line: Its result, where it has one.
        message: Why it failed, in one line.
    """

    state: State
    spec: RunSpec
    share: float = 0.0
    line: Line | None = None
    message: str | None = None


@dataclass
class Summary:
    """What became of the runs that were missing.

    Attributes:
        done: Keys of the runs that were done here and recorded.
        elsewhere: Keys of those that another runner recorded in the meantime.
        failed: Why runs failed, by key.
    """

    done: list[str] = field(default_factory=list)
    elsewhere: list[str] = field(default_factory=list)
    failed: dict[str, str] = field(default_factory=dict)

    def __or__(self, other: Summary) -> Summary:
        """Of both."""
        return Summary(self.done + other.done, self.elsewhere + other.elsewhere, self.failed | other.failed)

    def take(self, event: Event) -> bool:
        """Notes how a run ended; False if it has not."""
        key = event.spec.key
        if event.state in ("finished", "diverged"):
            self.done.append(key)
        elif event.state == "elsewhere":
            self.elsewhere.append(key)
        elif event.state == "failed":
            self.failed[key] = event.message or ""
        else:
            return False
        return True


def run_missing(
    runs: Sequence[RunSpec],
    store: ResultStore,
    *,
    jobs: int = 1,
    execution: Execution | None = None,
    data_dir: Path | None = None,
    cache_dir: Path | None = None,
    tell: Callable[[Event], None] | None = None,
    execute: Execute = execute_run,
) -> Summary:
    """Does every run that the store has no line of, and records each as soon as it ends.

    A run that fails does not keep the others from being done. A run that another runner is working on is skipped, and tried
    again when the others are done, until it is recorded or free.

    Args:
        runs: In the order in which they are begun.
        store: Where results are, and go.
        jobs: Processes that do runs side by side. With 1, this process does them.
        execution: Where and how runs are computed.
        data_dir: Folder with the publishers' files.
        cache_dir: Folder for prepared tasks.
        tell: Called with everything that happens.
        execute: What does a run: `experiments.run.execute`, or a function of a module that is called like it.
    """
    if jobs < 1:
        raise ValueError(f"jobs must be 1 or more, got {jobs}.")
    options = {"execution": execution or Execution(), "data_dir": data_dir, "cache_dir": cache_dir}
    known = store.by_key()
    missing = [spec for spec in runs if spec.key not in known]
    attempt = _Attempt(store.folder, execute, options)
    summary = Summary()

    def hear(event: Event) -> bool:
        if tell is not None:
            tell(event)
        return summary.take(event)

    if jobs == 1:
        _run_here(missing, attempt, hear)
    elif missing:
        _run_in_workers(missing, attempt, hear, min(jobs, len(missing)))
    return summary


class _Attempt:
    """Does one run, unless another runner is working on it or has done it. Goes to other processes by pickling."""

    def __init__(self, folder: Path, execute: Execute, options: dict[str, Any]) -> None:
        self.store, self.execute, self.options = ResultStore(folder), execute, options

    def __call__(self, spec: RunSpec, tell: Callable[[Event], object]) -> Event:
        """How it ended; `waiting` if another runner is at it."""
        folder = self.store.run_folder(spec.key)
        with ExitStack() as held:
            try:
                is_mine = held.enter_context(claim(folder))
            except OSError as error:  # of this run's folder: those of others may be fine
                return _failed(spec, error)
            return self._do(spec, folder, tell) if is_mine else Event("waiting", spec)

    def _do(self, spec: RunSpec, folder: Path, tell: Callable[[Event], object]) -> Event:
        if line := self.store.by_key().get(spec.key):
            return Event("elsewhere", spec, line=line)
        tell(Event("begun", spec))
        said = folder / "error.txt"
        try:
            line = self.execute(spec, folder, resume=True, progress=_Steps(spec, tell), **self.options)
            self.store.add(line)
        except Exception as error:
            with suppress(OSError):  # the error may be that nothing can be written
                folder.mkdir(parents=True, exist_ok=True)
                said.write_text(traceback.format_exc())
            return _failed(spec, error)
        with suppress(OSError):  # the result is recorded, whatever becomes of an error of before
            said.unlink(missing_ok=True)
        return Event(line["status"], spec, share=1.0, line=line)


def _failed(spec: RunSpec, error: Exception) -> Event:
    return Event("failed", spec, message=f"{type(error).__name__}: {' '.join(str(error).split())}")


class _Steps:
    """Tells of a run's steps now and then: the `Progress` of training."""

    def __init__(self, spec: RunSpec, tell: Callable[[Event], object]) -> None:
        self.spec, self.tell, self.next = spec, tell, 0.0

    def __call__(self, *, step: int, num_steps: int, **_: object) -> None:
        if time.monotonic() >= self.next:
            self.next = time.monotonic() + _TELL_SECONDS
            self.tell(Event("step", self.spec, share=step / num_steps))


def _run_here(missing: Sequence[RunSpec], attempt: _Attempt, hear: Callable[[Event], bool]) -> None:
    while missing:
        others = []
        for spec in missing:
            event = attempt(spec, hear)
            if not hear(event):
                others.append(spec)
        missing = others
        if missing:
            time.sleep(_LOOK_AGAIN_SECONDS)


# ------------------------------------------------------------------------------------------------------- several processes


class _Warned(NamedTuple):
    """A warning of a worker. It is told by the process that people look at, in its way, and once whoever else gave it."""

    text: str
    category: type[Warning]
    filename: str
    lineno: int

    def warn_here(self) -> None:
        """Gives it again, from the same place."""
        modules = (vars(module) for module in list(sys.modules.values()))
        given: dict[Any, Any] = {}  # as Python keeps it, for a place that this process has not loaded
        for names in modules:
            if names.get("__file__") == self.filename:
                given = names.setdefault("__warningregistry__", {})
        warnings.warn_explicit(self.text, self.category, self.filename, self.lineno, registry=given)


class _Worker:
    """A process that does the runs that it is sent, one after another."""

    def __init__(self, attempt: _Attempt, threads: int) -> None:
        # spawn: a process that has used a GPU or threads must not be forked
        context = multiprocessing.get_context("spawn")
        self.pipe, theirs = context.Pipe()
        self.process = context.Process(target=_work, args=(theirs, attempt, threads))
        self.process.start()
        theirs.close()  # so that the pipe ends when the process does
        self.spec: RunSpec | None = None
        self.is_dead = False  # it says nothing any more, even if its process takes its time to end

    def begin(self, spec: RunSpec) -> None:
        self.spec = spec
        with suppress(BrokenPipeError):  # it has died, which its pipe says as well
            self.pipe.send(spec)

    def hear(self) -> Event | None:
        """The next word of it about its run; that it failed, if the process has died. None after a warning: it is passed on."""
        assert self.spec is not None
        try:
            said: Event | _Warned = self.pipe.recv()
        except (EOFError, OSError):
            self.is_dead = True
            self.process.join(_PATIENCE_SECONDS)
            return Event("failed", self.spec, message=_describe_death(self.process.exitcode))
        if isinstance(said, _Warned):
            said.warn_here()
            return None
        return said

    def end(self) -> None:
        """Ends the process: one that has nothing to do by closing its pipe, one in the middle of a run at once."""
        self.pipe.close()
        if self.spec is not None:
            self.process.terminate()
        self.process.join(_PATIENCE_SECONDS)
        if self.process.is_alive():
            self.process.kill()
            self.process.join()


def _run_in_workers(missing: Sequence[RunSpec], attempt: _Attempt, hear: Callable[[Event], bool], jobs: int) -> None:
    waiting, others = deque(missing), list[RunSpec]()
    threads = threads_of_a_worker(jobs)
    workers: list[_Worker] = []
    try:
        while waiting or others or any(worker.spec for worker in workers):
            if not waiting and not any(worker.spec for worker in workers):
                time.sleep(_LOOK_AGAIN_SECONDS)  # all that is left is with another runner
                waiting, others = deque(others), []
            while waiting and len(workers) < jobs:
                workers.append(_Worker(attempt, threads))
                workers[-1].begin(waiting.popleft())
            for worker in workers:
                if worker.spec is None and waiting:
                    worker.begin(waiting.popleft())
            pipes = {worker.pipe: worker for worker in workers if worker.spec}
            for pipe in connection.wait(list(pipes)):
                worker = pipes[pipe]  # type: ignore[index]
                event = worker.hear()
                if event is None:
                    continue
                ended = hear(event)
                if event.state == "waiting":
                    others.append(event.spec)
                if ended or event.state == "waiting":
                    worker.spec = None
                if worker.spec is None and (
                    worker.is_dead or not worker.process.is_alive()
                ):  # with a run, its pipe has more to say
                    worker.end()
                    workers.remove(worker)
    finally:
        for worker in workers:
            worker.end()


def _work(pipe: Any, attempt: _Attempt, threads: int) -> None:
    """What a worker does. It ends with its parent, and leaves Ctrl-C to it."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    threading.Thread(target=_end_with_parent, daemon=True).start()
    torch.set_num_threads(threads)
    one_at_a_time = threading.Lock()  # threads of a run may warn

    def say(what: Event | _Warned) -> None:
        with one_at_a_time:
            pipe.send(what)

    def pass_on(message: Warning | str, category: type[Warning], filename: str, lineno: int, *_: Any, **__: Any) -> None:
        with suppress(OSError):  # who would be told is gone, and this process goes as well
            say(_Warned(str(message), category, filename, lineno))

    warnings.showwarning = pass_on
    with suppress(EOFError, BrokenPipeError):
        while True:
            say(attempt(pipe.recv(), say))


def _end_with_parent() -> None:
    parent = multiprocessing.parent_process()
    assert parent is not None
    connection.wait([parent.sentinel])
    os._exit(1)  # at once, as if killed: the run will continue from its checkpoint


def _describe_death(exitcode: int | None) -> str:
    if exitcode is not None and exitcode < 0:
        name = signal.Signals(-exitcode).name
        hint = " (the system does that when memory runs out: try fewer --jobs)" if name == "SIGKILL" else ""
        return f"its process was ended by {name}{hint}"
    return f"its process ended with code {exitcode}"


def threads_of_a_worker(jobs: int) -> int:
    """Its share of the cores, or fewer where OMP_NUM_THREADS says so, which is needed beside another runner.

    Threads that have to take turns on a core slow each other down tenfold.
    """
    share, told = max(1, _num_cpus() // jobs), os.environ.get("OMP_NUM_THREADS", "")
    return min(share, int(told)) if told.isdecimal() and int(told) else share


def _num_cpus() -> int:
    try:
        return len(os.sched_getaffinity(0))
    except AttributeError:  # not every system says which cores are ours
        return os.cpu_count() or 1
