"""Server: a task of a cluster. It owns a worker, listens for its peers, and is the target of sessions in its process.

A parameter server is nothing more than this: the variables and queues that graphs placed here live in its worker.
"""

from __future__ import annotations

import json
import secrets
from collections.abc import Callable, Sequence
from functools import partial
from operator import methodcaller
from threading import Event, Lock
from typing import Any

import sparkflow_runtime.kernels.table  # noqa: F401  (fills the kernel table)
from sparkflow_runtime.clients import Clients
from sparkflow_runtime.dialling import PATIENCE_S, dial_near, listen_near, patiently, unreachable
from sparkflow_runtime.finished_parts import FinishedParts
from sparkflow_runtime.gpus import gpu_indices
from sparkflow_runtime.masters import Masters
from sparkflow_runtime.memory import keep_freed_memory
from sparkflow_runtime.outbox import Outbox, Sent
from sparkflow_runtime.remote_task import RemoteTask
from sparkflow_runtime.resources.chunk_messages import SEND_S, is_short
from sparkflow_runtime.resources.collectives import Collectives
from sparkflow_runtime.resources.events import may_wait
from sparkflow_runtime.runners import Runners
from sparkflow_runtime.served import SERVERS, place_of
from sparkflow_runtime.threads import inter_op, limit, share, switch_often
from sparkflow_runtime.transport import Channel, Options, forks
from sparkflow_runtime.transport.peers import traffic
from sparkflow_runtime.wire import sessions
from sparkflow_runtime.wire.bundles import Bundle, decode_table, encode_table, tensors_of
from sparkflow_runtime.wire.cluster import SCHEMES, ClusterSpec, numbered
from sparkflow_runtime.wire.devices import DeviceSpec, task_name, task_of
from sparkflow_runtime.wire.errors import (
    AbortedError,
    CancelledError,
    DeadlineExceededError,
    FailedPreconditionError,
    InvalidArgumentError,
    NotFoundError,
    OpError,
    UnavailableError,
    UnimplementedError,
    from_dict,
    to_dict,
)
from sparkflow_runtime.wire.protos import ConfigProto, GraphDef
from sparkflow_runtime.wire.tasks import (
    ABORT,
    CALLS,
    COLLECTIVE,
    DELIVER,
    DELIVER_ALL,
    DELIVER_META,
    DEREGISTER,
    FORGET,
    GPUS,
    NAMES,
    NUMBER,
    PUSHES,
    REGISTER,
    RESET,
    RUN,
    RUN_META,
    STEP_META,
    TRAFFIC,
    WAITS,
)
from sparkflow_runtime.worker.worker import Worker


class Server:
    """One task of a cluster.

    address: 'host:port', of this host or not (see served); port 0 takes a free one, and `address` then says which.
    secret: proves that a peer belongs to the job; without one only loopback addresses are served.
    config: what sessions here have unless theirs says otherwise. others: addresses of the other tasks, where known.
    """

    methods = NAMES | sessions.NAMES

    def __init__(
        self,
        job: str,
        index: int,
        address: str,
        secret: bytes | None = None,
        keepalive_s: float = 10.0,
        config: ConfigProto | None = None,
        others: Sequence[str] = (),
    ):
        keep_freed_memory()
        switch_often()
        self.config = config or ConfigProto()
        self.job, self.index, self.name = job, index, task_name(job, index)
        self.secret, self.options = secret, Options(keepalive_s=keepalive_s)
        self._aside = Runners(f"sparkflow-steps {self.name}").submit
        self.outbox, self._sent = Outbox(self.channel, self._aside), Sent(2 * keepalive_s)
        self.held_back: set[tuple[str, int]] = set()  # (task, step): begins when there is a channel to the task
        self.worker = Worker(self.name, self._push, inter_op, self._aside, self._reaches)
        self._cluster = ClusterSpec({})
        self.joined = Event()  # it knows the other tasks
        self._collectives = Collectives(
            self.name, self._push_collective, self._collective_leader, self._collective_tasks, self._hears,
            lambda tasks, told: self._aside(lambda: told(unreachable(self.channel, {*tasks} - {self.name}))),
            lambda: len(self._cluster),
        )  # fmt: skip
        self.worker.resources.collectives = self._collectives
        self._lock, self._channels = Lock(), dict[str, Channel]()  # task -> the one to speak by
        self._dialled: set[Channel] = set()  # for this server to close
        self._dialling: dict[str, Lock] = {}  # task -> held by the thread that dials it
        self._met: set[str] = set()  # tasks that there was a channel to
        self._steps: dict[Channel, set[int]] = {}
        self.process = secrets.token_hex(8)  # tells it from another one of its name, before or after it
        self._masters, self.finished_parts = Masters(self.name), FinishedParts()
        self.untold: dict[str, list[str]] = {}  # task -> sessions of this server that ended when there was no channel
        self._stopping, self._stopped = "", Event()  # why no task is dialled any more
        place = place_of(address, others)
        self._listener, self._near = listen_near(place.address, self, secret, self.name, self.options, place.aliases)
        self.address = self.told = self._listener.url.removeprefix("tcp://")
        self.target = f"{SCHEMES[0]}://{self.address}"
        self._clients = Clients(self)
        SERVERS[self.address] = self
        forks.own(self)
        self._listener.start()  # peers may have dialled for a while, and ask at once
        self._near.start()

    def join_cluster(self, cluster: ClusterSpec) -> None:
        self._cluster = cluster
        self.joined.set()
        told = {name: numbered(address) for name, address in cluster.addresses().items()}
        self.told = told.get(self.name, self.address)
        tasks = [(DeviceSpec.from_string(name).job or "", address) for name, address in told.items()]
        served = {server.told for server in list(SERVERS.values())}
        threads = share(self.told, tasks, sum(job != "ps" and address in served for job, address in tasks) or 1)
        if threads is not None:
            limit(threads, f"{self.name} shares its host with other tasks of the cluster")

    def tasks(self, filters: Sequence[str] = (), patience_s: float = PATIENCE_S) -> dict[str, RemoteTask]:
        """The other tasks of the cluster. filters: see ClusterSpec.addresses. patience_s: for how long one that has not
        come yet is waited for."""
        names = self._cluster.addresses(filters)
        return {name: RemoteTask(self, name, patience_s) for name in names if name != self.name}

    def addresses(self) -> set[str]:
        """Of all tasks of the cluster."""
        return {numbered(address) for address in self._cluster.addresses().values()} | {self.address}

    def reset_cluster(self, containers: list[str], filters: Sequence[str] = ()) -> None:
        """Drop these containers (all) here and in the other tasks, with every session's parts. Raises UnavailableError
        that names those that could not be told, when all others are."""
        self.worker.reset(containers)
        others = self.tasks(filters)
        if away := unreachable(lambda name: others[name].reset(containers), others):
            raise UnavailableError(f"Reset, but not all: {'; '.join(away.values())}")

    def tell_end(self, why: str) -> None:
        """Those that do collectives with this task: its program ends by an error, which is said in a moment or not."""
        self._collectives.tell_end(why)
        self.outbox.wait(1.0)

    def join(self) -> None:
        """Serve until `stop()`."""
        self._stopped.wait()

    def stop(self) -> None:
        SERVERS.pop(self.address, None)
        self._collectives.close()
        self.outbox.wait(1.0)  # the others are to be told
        self._near.close()  # before another server can have its port
        self._listener.close()
        with self._lock:
            self._stopping = "the server stopped"
            channels = list(self._dialled)
        for channel in channels:
            channel.close("the server stopped")
        self._clients.close()
        self.worker.stop(UnavailableError(f"{self.name}: the server stopped"))
        self._stopped.set()

    def leave(self) -> None:
        self._stopping = "the server is that of the process that this one was forked from"

    # ------------------------------------------------------------------ peers

    @property
    def cluster(self) -> ClusterSpec:
        return self._cluster

    @property
    def is_stopping(self) -> bool:
        return bool(self._stopping)

    def open_channel(self, task: str) -> Channel | None:
        """The channel to a task, if there is one."""
        found = self._channels.get(task)
        return found if found is not None and found.error is None else None

    def _reaches(self, task: str) -> bool:
        return task == self.name or self.open_channel(task) is not None

    def channel(self, task: str, patience_s: float | None = None) -> Channel:
        """The channel to a task, dialled at first use. patience_s: one that was never there is waited for so long.

        Raises UnavailableError naming the task and its address.
        """
        if (found := self.open_channel(task)) is not None:
            return found
        address = self._address(task)
        if patience_s is not None and task not in self._met:
            return patiently(lambda: self._meet(task, address, patience_s), f"{task} at {address}", patience_s)
        try:
            return self._meet(task, address, patience_s)
        except (UnavailableError, DeadlineExceededError) as error:
            raise UnavailableError(f"{task} is not there: {error.message}") from None

    def _meet(self, task: str, address: str, patience_s: float | None) -> Channel:
        """Dial, unless another thread just has: two channels to a task, and one would be nobody's to close."""
        with self._lock:
            dialling = self._dialling.setdefault(task, Lock())
        with dialling:
            if (found := self.open_channel(task)) is not None:
                return found
            if self._stopping:
                raise CancelledError(f"{self.name}: {self._stopping}")
            fresh = self._dial(address, patience_s)
            if fresh.peer != task:
                fresh.close("another task answers at this address")
                twice = ". The cluster gives both that address" * (self._cluster.addresses().get(fresh.peer) == address)
                answers = f"{fresh.peer or 'an unnamed peer'} answers there{twice}"
                raise FailedPreconditionError(f"{address} should be {task}, and {answers}")
            with self._lock:
                if not self._stopping:
                    self._channels[task] = fresh
                    self._dialled.add(fresh)
                    self._met.add(task)
                    return fresh
        fresh.close("the server stopped")
        raise CancelledError(f"{self.name}: the server stopped")

    def _dial(self, address: str, patience_s: float | None = None) -> Channel:
        return dial_near(address, self, self.secret, self.name, self.options, patience_s)

    def _address(self, task: str) -> str:
        if (found := self._cluster.addresses().get(task)) is None:
            raise NotFoundError(f"{self.name}: the cluster has no {task}; it is {self._cluster}")
        return found

    def _push(
        self, task: str, step_id: int, bundles: Sequence[Bundle], iterations: tuple[int, ...], deadline: float | None
    ) -> None:
        if len(bundles) > 1:
            method, meta = DELIVER_ALL, STEP_META.pack(step_id) + encode_table(bundles)
        else:
            method, meta = DELIVER, DELIVER_META.pack(step_id, bundles[0][0]) + b"".join(map(NUMBER.pack, iterations))
        tensors = tensors_of(bundles)
        if (task, step_id) not in self.held_back:
            channel = self.channel(task)
            self._sent.note(channel, step_id)
            channel.push(method, meta, tensors, deadline=deadline)
            return
        self.outbox.push(task, None, method, meta, tensors, lambda error: None)  # an error its master hears

    def _push_collective(self, task: str, meta: bytes, tensors: Sequence[Any]) -> None:
        channel, unsent = self.open_channel(task), partial(self._collectives.unsent, task, meta)
        waits = SEND_S if may_wait() and not is_short(tensors) else False
        self.outbox.push(task, channel, COLLECTIVE, meta, tensors, unsent, waits)

    def _collective_leader(self) -> str:
        """What the server's config says, else the first task that is no parameter server, by the names of the jobs
        ('chief' before 'worker'). All tasks of a group must find the same."""
        told = self.config.experimental.collective_group_leader
        return task_of(told) if told else next(iter(self._collective_tasks()), self.name)

    def _collective_tasks(self) -> list[str]:
        jobs = sorted(job for job in self._cluster.jobs if job != "ps") or sorted(self._cluster.jobs)
        return [task_name(job, index) for job in jobs for index in sorted(self._cluster.task_indices(job))]

    def _hears(self, task: str) -> bool:
        """Whether more may come from a task: a channel to it stands, or one that it dialled."""
        accepted = [*self._listener.channels(), *self._near.channels()]
        return self.open_channel(task) is not None or any(c.peer == task and c.error is None for c in accepted)

    # ------------------------------------------------------------------ what peers ask

    def on_message(self, channel: Channel, method: int, meta: bytes, tensors: list[Any], reply: Any) -> None:
        if method in sessions.METHODS:
            self._clients.on_message(channel, method, meta, tensors, reply)
            return
        if (method in CALLS and reply is None) or (method in PUSHES and reply is not None):
            asked = "called, and is pushed" if reply else "pushed, and is called"
            raise InvalidArgumentError(f"{self.name}: method {method} ({NAMES[method]}) was {asked} (by {channel})")
        if method == DELIVER:
            step_id, bundle = DELIVER_META.unpack_from(meta)
            iterations = tuple(n for (n,) in NUMBER.iter_unpack(meta[DELIVER_META.size :]))
            self.worker.rendezvous.deliver(step_id, bundle, tensors, iterations)
        elif method == DELIVER_ALL:
            step_id = STEP_META.unpack_from(meta)[0]
            for bundle, own in decode_table(meta[STEP_META.size :], tensors)[1]:
                self.worker.rendezvous.deliver(step_id, bundle, own)
        elif method == COLLECTIVE:
            self._collectives.on_message(channel.peer, meta, tensors)
        elif method == TRAFFIC:
            reply(json.dumps(traffic()).encode())
        elif method == RUN:
            self._run(channel, meta, tensors, reply)
        elif method == ABORT:
            self.worker.rendezvous.abort(STEP_META.unpack_from(meta)[0], from_dict(json.loads(meta[STEP_META.size :])))
        elif method == REGISTER:  # steps of this peer that come meanwhile do not wait for it
            self._aside(lambda: self._answered(reply, lambda: self._register(channel, meta, tensors, reply)))
        elif method == DEREGISTER:
            self._deregister(meta.decode())
        elif method == RESET:
            self.worker.reset(json.loads(meta))
            reply()
        elif method == WAITS:
            reply(self.worker.rendezvous.waits(STEP_META.unpack(meta)[0]).encode())
        elif method == GPUS:
            self._aside(lambda: self._answered(reply, lambda: reply(STEP_META.pack(len(gpu_indices(self.config))))))
        elif method == FORGET:
            self.worker.forget(STEP_META.unpack(meta)[0])
        else:
            raise UnimplementedError(f"{self.name}: no method {method} (asked by {channel})")

    @staticmethod
    def _answered(reply: Any, work: Callable[[], None]) -> None:
        """What it raises is the reply."""
        try:
            work()
        except Exception as error:
            reply.fail(error)

    def _register(self, channel: Channel, meta: bytes, tensors: list[Any], reply: Any) -> None:
        fields = json.loads(meta)
        before = self._masters.note(channel, fields["process"], fields["session"])
        self._answer_over(channel)
        for over in (*before, *fields.get("over", ())):
            self._deregister(over)
        if not self._cluster:  # the master may be ahead of whoever tells this server its cluster
            self.join_cluster(ClusterSpec(fields["cluster"]))
        graph = GraphDef.FromString(tensors[0].tobytes())
        handle = self.worker.register(
            fields["session"], graph, fields["feeds"], fields["fetches"], fields.get("trace", False)
        )
        reply(STEP_META.pack(handle))

    def _answer_over(self, channel: Channel) -> None:
        """What this peer is to receive goes over the channel that it asks by. An older one may have ended there, which
        has yet to be seen here: what is sent by that would be lost, and nobody told."""
        if channel.peer and self._channels.get(channel.peer) is not channel:
            with self._lock:
                self._channels[channel.peer] = channel
                self._met.add(channel.peer)

    def _deregister(self, session: str) -> None:
        self._masters.forget(session)
        self.worker.deregister(session)

    def _run(self, channel: Channel, meta: bytes, tensors: list[Any], reply: Any) -> None:
        handle, step_id = RUN_META.unpack_from(meta)
        if not self.worker.holds(handle):
            self._masters.check(channel)
        self._answer_over(channel)
        feeds, bundles = decode_table(meta[RUN_META.size :], tensors)
        parting: list[Bundle] = []  # they go with the reply
        with self._lock:
            self._steps.setdefault(channel, set()).add(step_id)

        def finish(error: OpError | None, fetched: list[Any] | None) -> None:
            with self._lock:
                self._steps.get(channel, set()).discard(step_id)
            reply(encode_table(parting), [*(fetched or ()), *tensors_of(parting)], error)

        try:
            self.worker.start(handle, step_id, feeds, finish, bundles, (channel.peer, parting))
        except OpError:
            with self._lock:
                self._steps[channel].discard(step_id)
            raise

    def on_close(self, channel: Channel, error: OpError) -> None:
        """The steps that a lost peer asked for end, so that nothing here waits for it."""
        with self._lock:
            orphans = self._steps.pop(channel, set())
            self._dialled.discard(channel)
            if self._channels.get(channel.peer) is channel:
                del self._channels[channel.peer]
        if channel.peer:
            self._collectives.lost(channel.peer, error)
        for step_id in orphans:
            self.worker.rendezvous.abort(step_id, AbortedError(f"{self.name}: lost {channel}: {error.message}"))
        self._clients.lost(channel)
        self.finished_parts.lost(channel)
        for step_id in () if self._stopping else self._sent.lost(channel):
            told = UnavailableError(f"{self.name}: what it sent to {channel.peer} may be lost: {error.message}")
            abort = STEP_META.pack(step_id) + json.dumps(to_dict(told)).encode()
            self.outbox.put(channel.peer, methodcaller("push", ABORT, abort), lambda error: None)
