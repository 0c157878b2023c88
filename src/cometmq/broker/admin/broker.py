"""Operators' requests about the broker: settings and runtime info. (RocketMQ: AdminBrokerProcessor.java.)"""

from collections.abc import Callable
from itertools import islice
from typing import Final

from cometmq import __version__, kernels
from cometmq.broker.admin.live_settings import LiveSettings
from cometmq.broker.handlers import Handlers
from cometmq.broker.reads import Reads
from cometmq.broker.refused import Refused, outcome
from cometmq.broker.state.consumers import Consumers
from cometmq.broker.state.member_subscriptions import as_text
from cometmq.broker.state.rates import Rates, sum_text
from cometmq.errors import StoreNotWritable
from cometmq.format.java.fastjson import dumps
from cometmq.io.clock import Clock
from cometmq.io.files import FileLayer, Usage
from cometmq.io.write_health import failures_of
from cometmq.net.session import Counts, Session
from cometmq.store.files.spread import spread_of
from cometmq.store.log.seek import record_store_time
from cometmq.store.store import MessageStore
from cometmq.wire import settings_text
from cometmq.wire.bodies import TextTable, encode, to_plain
from cometmq.wire.codes import VERSION, RequestCode, ResponseCode, version_name
from cometmq.wire.frame import Command, response
from cometmq.wire.headers import GetBrokerConfigResponseHeader, NoFields, fields

_UNITS: Final = ("B", "KiB", "MiB", "GiB", "TiB", "PiB")

NO_POOL: Final = 2**31 - 1
"""Number of free buffers that RocketMQ shows of a store without a transient store pool."""
_POOLS: Final = ("send", "pull", "litePull", "query", "ack")
_ABSENT: Final = dict.fromkeys(
    (
        *(
            f"{pool}ThreadPoolQueue{what}"
            for pool in _POOLS
            for what in ("Size", "Capacity", "HeadWaitTimeMills")
        ),
        "EndTransactionQueueSize",
        "EndTransactionThreadPoolQueueCapacity",
        "dispatchMaxBuffer",
        "getMessageEntireTimeMax",
        "pageCacheLockTimeMills",
        "timerCongestNum",
        "timerDequeueTps",
        "timerEnqueueTps",
        "timerOffsetBehind",
        "timerReadBehind",
    ),
    "0",
)
"""Keys that operators' tools read, of parts that this broker does not have or measure."""

CHANGES_BYTES_MAX: Final = 16 * 1024
"""Most bytes of settings that one request changes."""

GROUPS_SHOWN: Final = 20
"""Most groups whose members subscribe differently that are shown."""


class BrokerAdmin:
    """Answers operators' requests about the broker.

    Args:
        warnings: returns texts about the broker for its runtime info, by key.
    """

    def __init__(
        self,
        settings: LiveSettings,
        store: MessageStore,
        files: FileLayer,
        reads: Reads,
        rates: Rates,
        consumers: Consumers[Session],
        clock: Clock,
        *,
        warnings: Callable[[], dict[str, str]],
    ) -> None:
        self._settings = settings
        self._texts = warnings
        self._store = store
        self._files = files
        self._reads = reads
        self._rates = rates
        self._consumers = consumers
        self._clock = clock
        self._started_ms = clock.now_ms()
        self._started_monotonic_ms = clock.monotonic_ms()

    def handlers(self) -> Handlers:
        """Return the handler of each request code."""
        return {
            RequestCode.GET_BROKER_CONFIG: self.settings,
            RequestCode.UPDATE_BROKER_CONFIG: self.change_settings,
            RequestCode.GET_BROKER_RUNTIME_INFO: self.runtime_info,
        }

    def settings(self, _session: Session, command: Command, _header: NoFields) -> Command:
        """GET_BROKER_CONFIG: all settings as text."""
        header = GetBrokerConfigResponseHeader(dumps(to_plain(self._settings.version)))
        body = settings_text.encode(self._settings.as_properties())
        return response(command, ext_fields=fields(header), body=body)

    def change_settings(self, session: Session, command: Command, _header: NoFields) -> None:
        """UPDATE_BROKER_CONFIG: change the settings of the body, all or none; answered once that is saved."""
        if len(command.body) > CHANGES_BYTES_MAX:
            raise Refused(
                ResponseCode.INVALID_PARAMETER,
                f"settings of {len(command.body)} bytes: at most {CHANGES_BYTES_MAX} are taken at once",
            )

        def answer(error: StoreNotWritable | None) -> None:
            if not command.is_oneway:
                session.send(outcome(command, error))

        self._settings.change(settings_text.decode(command.body), answer)

    def runtime_info(self, session: Session, command: Command, _header: NoFields) -> Command | None:
        """GET_BROKER_RUNTIME_INFO: state and counters, by RocketMQ's keys and some of our own."""

        def make(oldest: bytes | None) -> Command:
            table = self._versions() | self._disk() | self._pointers() | self._traffic()
            table |= _connections(session.shared.counts())
            table |= self._warnings()
            table["earliestMessageTimeStamp"] = str(-1 if oldest is None else record_store_time(oldest))
            return response(command, body=encode(TextTable(table)))

        oldest = self._store.readings.record(self._store.min_offset)
        return self._reads.answer(session, command, oldest, make)

    def _versions(self) -> dict[str, str]:
        up_s = (self._clock.monotonic_ms() - self._started_monotonic_ms) // 1000
        minutes, seconds = divmod(up_s, 60)
        hours, minutes = divmod(minutes, 60)
        days, hours = divmod(hours, 24)
        return {
            "bootTimestamp": str(self._started_ms),
            "nowTimestamp": str(self._clock.now_ms()),
            "startAcceptSendRequestTimeStamp": "0",
            "brokerActive": "true",
            "brokerVersion": str(int(VERSION)),
            "brokerVersionDesc": version_name(VERSION),
            "cometmqVersion": __version__,
            "runtime": f"[ {days} days, {hours} hours, {minutes} minutes, {seconds} seconds ]",
        }

    def _warnings(self) -> dict[str, str]:
        """Return what operators should know of, under keys of our own, as far as there is any.

        Who may use the broker, why it does not replicate, and groups whose members subscribe differently.
        """
        table = self._texts()
        found = islice(self._consumers.differences(), GROUPS_SHOWN)
        text = ". ".join(
            f"group {name}: {as_text(difference)}"
            for name, differences in found
            for difference in differences
        )
        return table | ({"subscriptionDifferences": text} if text else {})

    def _disk(self) -> dict[str, str]:
        store = self._store
        of_root = self._files.usage(store.root)
        ratios = {
            directory: _ratio(self._files.usage(directory if self._files.exists(directory) else store.root))
            for directory in spread_of(store.root, store.settings).writable
        }
        return {
            "commitLogDirCapacity": (
                f"Total : {_size(of_root.used + of_root.usable)}, Free : {_size(of_root.usable)}."
            ),
            "commitLogDiskRatio": str(min(ratios.values())),
            **{f"commitLogDiskRatio_{directory}": str(ratio) for directory, ratio in ratios.items()},
            "consumeQueueDiskRatio": str(_ratio(of_root)),
        }

    def _pointers(self) -> dict[str, str]:
        """Return the store's offsets, by RocketMQ's keys and some of our own."""
        pointers, free_buffers = self._store.pointers, self._store.free_buffers
        return {
            "commitLogMinOffset": str(pointers.begin),
            "commitLogMaxOffset": str(pointers.committed),
            "commitLogWrittenOffset": str(pointers.written),
            "commitLogFlushedOffset": str(pointers.flushed),
            "commitLogSyncCount": str(self._store.sync_count),
            "commitLogConfirmOffset": str(pointers.confirmed),
            "commitLogDispatchedOffset": str(pointers.dispatched),
            "dispatchBehindBytes": str(pointers.confirmed - pointers.dispatched),
            "remainHowManyDataToCommit": _size(pointers.written - pointers.committed),
            "remainHowManyDataToFlush": _size(pointers.committed - pointers.flushed),
            "remainTransientStoreBufferNumbs": str(NO_POOL if free_buffers is None else free_buffers),
            "storeNotWritable": str(self._store.not_writable or ""),
            "kernels": kernels.serving(),
            "storeFailedWrites": "; ".join(map(str, failures_of(self._files))),
        }

    def _traffic(self) -> dict[str, str]:
        rates = self._rates
        stored, delivered = rates.stored.total, rates.delivered.total
        return _ABSENT | {
            "putTps": rates.stored.text(),
            "getFoundTps": rates.found.text(),
            "getMissTps": rates.missed.text(),
            "getTotalTps": sum_text(rates.found, rates.missed),
            "getTransferredTps": rates.delivered.text(),
            "putMessageTimesTotal": str(stored),
            "putMessageSizeTotal": str(rates.stored_bytes.total),
            "putMessageAverageSize": str(rates.stored_bytes.total / stored if stored else 0.0),
            "putMessageFailedTimes": str(rates.refused.total),
            "putMessageEntireTimeMax": str(rates.put_times.longest_ms),
            "putMessageDistributeTime": rates.put_times.distribution(),
            "putLatency99": rates.put_times.within(0.99),
            "putLatency999": rates.put_times.within(0.999),
            "msgPutTotalYesterdayMorning": str(rates.stored.yesterday_morning),
            "msgPutTotalTodayMorning": str(rates.stored.this_morning),
            "msgPutTotalTodayNow": str(stored),
            "msgGetTotalYesterdayMorning": str(rates.delivered.yesterday_morning),
            "msgGetTotalTodayMorning": str(rates.delivered.this_morning),
            "msgGetTotalTodayNow": str(delivered),
            "sendRowsCompiled": str(rates.send_rows["compiled"]),
            "sendRowsPlain": str(rates.send_rows["plain"]),
            "sendsRare": str(rates.rare_sends),
            "pullRowsCompiled": str(rates.pull_rows["compiled"]),
            "pullRowsPlain": str(rates.pull_rows["plain"]),
            "pullsAsCommands": str(rates.pull_commands),
            "pullsRare": str(rates.rare_pulls),
            "queryRowsCompiled": str(rates.query_rows["compiled"]),
            "queryRowsPlain": str(rates.query_rows["plain"]),
            "queriesAsCommands": str(rates.query_commands),
            "queriesRare": str(rates.rare_queries),
            "ackRowsCompiled": str(rates.ack_rows["compiled"]),
            "ackRowsPlain": str(rates.ack_rows["plain"]),
            "acksAsCommands": str(rates.ack_commands),
        }


def _connections(counts: Counts) -> dict[str, str]:
    """Return the counts of connections, and of requests that a check refused, by keys of our own."""
    return {
        "connectionCount": str(counts.connections),
        "connectionCountMax": str(counts.connections_max or ""),
        "connectionsRefused": str(counts.refused_connections),
        "requestsRefused": str(counts.refused_requests),
    }


def _ratio(usage: Usage) -> float:
    return usage.used / (usage.used + usage.usable)


def _size(count: int) -> str:
    """Format a number of bytes as RocketMQ does: ``1.5 GiB``."""
    value, unit = float(count), 0
    while value >= 1024 and unit + 1 < len(_UNITS):
        value, unit = value / 1024, unit + 1
    return f"{count} B" if unit == 0 else f"{value:.1f} {_UNITS[unit]}"
