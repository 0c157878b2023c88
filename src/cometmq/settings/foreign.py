"""Settings of Java brokers that CometMQ does not honour: those that stop a start, and how the others differ.

Three tables and a list, with the defaults of RocketMQ 5.5.0 (``BrokerConfig``, ``MessageStoreConfig``,
``NettyServerConfig``, ``NettyClientConfig``, ``AuthConfig``):

* ``STOPPING``: a value other than the default says that the data is elsewhere or in another form, or that
  the broker has another role. Starting without it could harm the data, so the start is refused.
* ``DIFFERING``: a value other than the default changes what users see; each is named with what differs.
* ``WITHOUT_EFFECT``: names that RocketMQ knows, and whose absence nobody notices: sizes of thread pools …

A name in none of them is misspelt or of another version: the nearest known name is suggested.
"""

from collections.abc import Collection, Iterator, Mapping
from difflib import get_close_matches
from typing import Any, Final, NamedTuple

from cometmq.errors import SettingsError


class Stopping(NamedTuple):
    """A setting that stops the start if its value is not a default.

    Attributes:
        defaults: the values that change nothing; ``{root}`` stands for ``storePathRootDir``.
        reason: what another value says of the broker.
        remedy: what to do about it.
    """

    defaults: tuple[str, ...]
    reason: str
    remedy: str


class Differing(NamedTuple):
    """A setting that makes a Java broker behave otherwise if its value is not the default.

    Attributes:
        default: the default.
        differs: how this broker differs from a Java broker with another value.
        weakens_sends: whether it changes what a confirmed send means.
    """

    default: str
    differs: str
    weakens_sends: bool = False


_NO: Final = ("false",)
_NONE: Final = ("",)
_FILES: Final = ("default",)
_DLEDGER: Final = (
    "it belongs to a Raft group (DLedger), whose log has another form",
    "start it without, with enableControllerMode or brokerRole, on a store that is no DLedger's",
)
_QUEUES: Final = (
    "the queues are in RocksDB",
    "remove it, move their folder out of the store, then build file queues: cometmq store rebuild",
)
_TABLES: Final = (
    "topics, groups and offsets are in RocksDB",
    "remove it; what the start then says of their folder tells how to bring them over",
)
_USERS: Final = (
    "users are not those of the broker's own store",
    "create them with cometmq user and cometmq acl, then remove it",
)
_DISCOVERY: Final = (
    "name servers are not discovered, so the broker would register nowhere",
    "set namesrvAddr = host:port;host:port",
)
_FILE_PLACE: Final = ("the file is elsewhere", "move it to its default place, then remove the setting")
_AUTH: Final = "org.apache.rocketmq.auth"

STOPPING: Final[Mapping[str, Stopping]] = {
    "enableDLegerCommitLog": Stopping(_NO, *_DLEDGER),
    "dLegerGroup": Stopping(_NONE, *_DLEDGER),
    "dLegerPeers": Stopping(_NONE, *_DLEDGER),
    "dLegerSelfId": Stopping(_NONE, *_DLEDGER),
    "preferredLeaderId": Stopping(_NONE, *_DLEDGER),
    "storePathDLedgerCommitLog": Stopping(_NONE, *_DLEDGER),
    "storeType": Stopping(_FILES, *_QUEUES),
    "rocksdbCQDoubleWriteEnable": Stopping(
        _NO,
        "the queues are in RocksDB, too, and that copy would fall behind",
        "remove it, and the copy, before a Java broker runs on the store again",
    ),
    "useSeparateStorePathForRocksdbCQ": Stopping(_NO, *_QUEUES),
    "combineCQLoadingCQTypes": Stopping(("default;defaultRocksDB", "default"), *_QUEUES),
    "combineCQPreferCQType": Stopping(_FILES, *_QUEUES),
    "combineAssignOffsetCQType": Stopping(_FILES, *_QUEUES),
    "combineCQUseRocksdbForLmq": Stopping(_NO, *_QUEUES),
    "combineCQEnableCheckSelf": Stopping(_NO, *_QUEUES),
    "configManagerVersion": Stopping(("v1",), *_TABLES),
    "useSingleRocksDBForAllConfigs": Stopping(_NO, *_TABLES),
    "timerRocksDBEnable": Stopping(
        _NO,
        "timed messages that wait are in RocksDB and would not be delivered",
        "wait in the Java broker until they are delivered, then remove it",
    ),
    "transRocksDBEnable": Stopping(
        _NO,
        "half messages are in RocksDB and would not be checked",
        "wait in the Java broker until transactions have ended, then remove it",
    ),
    "indexRocksDBEnable": Stopping(
        _NO,
        "the index is in RocksDB, so messages would not be found by key",
        "remove it, then build index files from the CommitLog: cometmq store rebuild",
    ),
    "popConsumerKVServiceEnable": Stopping(
        _NO,
        "messages in flight by pops are in RocksDB (kvStore) and would not be delivered again",
        "have the Java broker put them into the CommitLog (mqadmin exportPopRecord), then remove it",
    ),
    "messageStorePlugIn": Stopping(
        _NONE,
        "older messages are in tiered storage and would not be found",
        "remove it if the local store has all that is needed",
    ),
    "haMasterAddress": Stopping(
        _NONE,
        "a slave learns its master's address from the name servers",
        "remove it, and set namesrvAddr and the master's brokerName",
    ),
    "storePathEpochFile": Stopping(("", "{root}/epochFileCheckpoint"), *_FILE_PLACE),
    "storePathBrokerIdentity": Stopping(("", "{root}/brokerIdentity"), *_FILE_PLACE),
    "authenticationProvider": Stopping(
        ("", f"{_AUTH}.authentication.provider.DefaultAuthenticationProvider"), *_USERS
    ),
    "authenticationMetadataProvider": Stopping(
        ("", f"{_AUTH}.authentication.provider.LocalAuthenticationMetadataProvider"), *_USERS
    ),
    "authorizationProvider": Stopping(
        ("", f"{_AUTH}.authorization.provider.DefaultAuthorizationProvider"), *_USERS
    ),
    "authorizationMetadataProvider": Stopping(
        ("", f"{_AUTH}.authorization.provider.LocalAuthorizationMetadataProvider"), *_USERS
    ),
    "brokerConfigPaths": Stopping(
        _NONE, "this file is a broker container's", "start each broker of these files by itself"
    ),
    "controllerDLegerPeers": Stopping(
        _NONE, "this file is a controller's", "run RocketMQ's controller, and set controllerAddr"
    ),
    "enableControllerInNamesrv": Stopping(
        _NO, "a controller is wanted in the name server", "run RocketMQ's controller, and set controllerAddr"
    ),
    "fetchNamesrvAddrByAddressServer": Stopping(_NO, *_DISCOVERY),
    "fetchNameSrvAddrByDnsLookup": Stopping(_NO, *_DISCOVERY),
}
"""Settings that stop the start, by name."""

_WITH_NAME_SERVERS: Final = frozenset({"fetchNamesrvAddrByAddressServer", "fetchNameSrvAddrByDnsLookup"})
"""Those that stop it only without ``namesrvAddr``."""

_OWN_NAMES: Final = "metrics are scraped (metricsExporterType=PROM), under all names at once"
_LITE: Final = "light queues (LMQ) of the store are kept; new messages are put into none"
_COLD: Final = "reads of cold data are not limited"
_SAFETY: Final = (
    "a send is confirmed by inSyncReplicas brokers or not at all; it is not confirmed by fewer while slaves "
    "are gone"
)

DIFFERING: Final[Mapping[str, Differing]] = {
    "enableAutoInSyncReplicas": Differing("false", _SAFETY, weakens_sends=True),
    "totalReplicas": Differing("1", _SAFETY, weakens_sends=True),
    "asyncLearner": Differing("false", "each slave counts for inSyncReplicas", weakens_sends=True),
    "traceTopicEnable": Differing("false", "RMQ_SYS_TRACE_TOPIC is created by its first trace"),
    "msgTraceTopicName": Differing("RMQ_SYS_TRACE_TOPIC", "traces are read from RMQ_SYS_TRACE_TOPIC only"),
    "rejectPullConsumerEnable": Differing("false", "pull consumers are served"),
    "disableConsumeIfConsumerReadSlowly": Differing("false", "groups that lag behind are not cut off"),
    "consumerFallbehindThreshold": Differing("17179869184", "groups that lag behind are not cut off"),
    "useStaticSubscription": Differing("false", "subscriptions come from heartbeats only"),
    "enableBroadcastOffsetStore": Differing("true", "no offsets of broadcasting groups are kept"),
    "broadcastOffsetExpireSecond": Differing("120", "no offsets of broadcasting groups are kept"),
    "broadcastOffsetExpireMaxSecond": Differing("300", "no offsets of broadcasting groups are kept"),
    "haFlowControlEnable": Differing("false", "what slaves get is not limited"),
    "maxHaTransferByteInSecond": Differing("104857600", "what slaves get is not limited"),
    "syncFromLastFile": Differing("false", "an empty slave gets what haSendWholeLog says"),
    "enableRemoteEscape": Differing("false", "nothing is sent to other brokers while this one cannot write"),
    "reviveInterval": Differing("1000", "due pops are looked for once a second"),
    "reviveMaxSlow": Differing("3", "due pops are looked for once a second"),
    "enableSkipLongAwaitingAck": Differing("false", "due pops wait for their acknowledgements as by default"),
    "popReviveMaxAttemptTimes": Differing("16", "due pops are delivered again at each attempt"),
    "enableCleanExpiredOffset": Differing("false", "offsets of queues that are gone are kept"),
    "maxTopicLength": Differing("127", "a topic's name has up to 127 characters"),
    "forceRegister": Differing("true", "the broker registers every registerNameServerPeriod"),
    "priorityOrderAsc": Differing("true", "priorities of messages have no effect"),
    "popFromRetryProbabilityForPriority": Differing("0", "priorities of messages have no effect"),
    "metricsGrpcExporterTarget": Differing("", _OWN_NAMES),
    "metricsGrpcExporterHeader": Differing("", _OWN_NAMES),
    "metricsInDelta": Differing("false", _OWN_NAMES),
    "enableRemotingMetrics": Differing("true", _OWN_NAMES),
    "enableMessageStoreMetrics": Differing("true", _OWN_NAMES),
    "enableConnectionMetrics": Differing("true", _OWN_NAMES),
    "enableLagAndDlqMetrics": Differing("true", _OWN_NAMES),
    "enablePopMetrics": Differing("true", _OWN_NAMES),
    "enableRequestMetrics": Differing("true", _OWN_NAMES),
    "enableStatsMetrics": Differing("true", _OWN_NAMES),
    "enableTransactionMetrics": Differing("true", _OWN_NAMES),
    "timerStopEnqueue": Differing("false", "the timer takes in timed messages"),
    "timerCongestNumEachSlot": Differing("2147483647", "any number of messages may be due in one second"),
    "readUnCommitted": Differing("false", "under SYNC_FLUSH nothing is read that is not on the disk"),
    "timerInterceptDelayLevel": Differing("false", "messages with a delay level go the way of delay levels"),
    "transactionOpBatchInterval": Differing("3000", "ends of transactions are recorded at once"),
    "enableLmq": Differing("false", _LITE),
    "enableMultiDispatch": Differing("false", _LITE),
    "coldDataFlowControlEnable": Differing("false", _COLD),
    "coldCtrStrategyEnable": Differing("false", _COLD),
    "indexFileWriteEnable": Differing("true", "index files are written: messageIndexEnable turns them off"),
    "indexFileReadEnable": Differing("true", "index files are read: messageIndexEnable turns them off"),
    "replicasPerDiskPartition": Differing("1", "the ratios of disk use hold for the whole disk"),
    "logicalDiskSpaceCleanForciblyThreshold": Differing(
        "0.8", "diskSpaceCleanForciblyRatio holds for queues"
    ),
    "startAcceptSendRequestTimeStamp": Differing("0", "messages are accepted at once"),
    "fetchControllerAddrByDnsLookup": Differing("false", "the controllers are those in controllerAddr"),
    "autoMessageVersionOnTopicLen": Differing("true", "names above 127 characters are refused"),
    "enableRegisterProducer": Differing("true", "producers are registered"),
}
"""Settings with which a Java broker behaves otherwise, by name."""

_NAMES: Final = """
    accessMessageInMemoryHotRatio accountStatsEnable accountStatsPrintZeroValues ackMessageThreadPoolNums
    ackThreadPoolQueueCapacity aclCacheExpiredSecond aclCacheMaxNum aclCacheRefreshSecond
    adminBrokerThreadPoolNums adminBrokerThreadPoolQueueCapacity appendAckAsync appendCkAsync asyncSendEnable
    authConfigPath authenticationStrategy authorizationStrategy autoDeleteUnusedStats
    batchDispatchRequestThreadPoolNums bitMapLengthConsumeQueueExt
    bottomMostCompressionTypeForConsumeQueueStore brokerConfigPath brokerHeartbeatInterval
    brokerNotActiveTimeoutMillis cgColdReadThreshold channelNotActiveInterval checkCommitLogOffsetOnRecover
    checkCRCOnRecover checkSyncStateSetPeriod cleanOfflineBrokerInterval cleanRocksDBDirtyCQIntervalMin
    cleanSwapedMapInterval clientAsyncSemaphoreValue clientCallbackExecutorThreads
    clientChannelMaxIdleTimeSeconds clientCloseSocketIfTimeout clientManagerThreadPoolQueueCapacity
    clientManageThreadPoolNums clientOnewaySemaphoreValue clientPooledByteBufAllocatorEnable
    clientSocketRcvBufSize clientSocketSndBufSize clientWorkerThreads clusterName coldDataScanEnable
    combineCQMaxExtraSearchCommitLogFiles commercialBaseCount commercialSizePerMsg
    commitLogForceSwapMapInterval commitLogRecoverMaxNum commitLogRollingInterval commitLogRollingMinimumSize
    commitLogSwapMapInterval commitLogSwapMapReserveFileNum compactionCqMappedFileSize
    compactionMappedFileSize compactionScheduleInternal compactionThreadNum compatibleWithOldNameSrv
    compressedRegister configBlackList configName connectTimeoutMillis consumerManagerThreadPoolQueueCapacity
    consumerManageThreadPoolNums consumerOffsetUpdateVersionStep controllerDLegerGroup controllerDLegerSelfId
    controllerStorePath correctLogicMinOffsetForceInterval correctLogicMinOffsetSleepInterval
    dataReadAheadEnable debugLockEnable defaultQueryMaxNum delayOffsetUpdateVersionStep
    destroyMapedFileIntervalForcibly disableCallbackExecutor disableNettyWorkerGroup disappearTimeAfterStart
    diskFallRecorded dispatchCqCacheNum dispatchCqThreads dispatchFromSenderThread
    enableAcceleratedRecovery enableAsyncReput enableBatchPush enableBuildConsumeQueueConcurrently
    enableCompaction enableCreateSysGroup enableDetailStat enableFastChannelEventProcess enableLiteEventMode
    enableLitePopLog enableLmqQuota enableLmqStats enableLogConsumeQueueRepeatedlyBuildWhenRecover
    enableMixedMessageType enableNetWorkFlowControl enableNotifyAfterPopOrderLockRelease
    enableNotifyBeforePopCalculateLag enablePopBatchAck enablePopBufferMerge enablePopLog
    enableReconnectForGoAway enableRocksDBLog enableRunningFlagsInFlush enableScheduleAsyncDeliver
    enableScheduleMessageStats enableShutdownGracefully enableSingleTopicRegister enableSplitMetadata
    enableSplitRegistration endTransactionPoolQueueCapacity endTransactionThreadPoolNums estimateAccumulation
    fetchNamesrvAddrInterval flushConsumerOffsetHistoryInterval forwardTimeout
    globalColdReadThreshold haMaxTimeSlaveNotCatchup heartbeatThreadPoolNums heartbeatThreadPoolQueueCapacity
    highSpeedMode inBrokerContainer isolateLogEnable iteratorWhenUseRocksdbConsumeQueue liteEventCheckInterval
    liteEventFullDispatchDelayTime liteEventFullDispatchDelayTimeForWildcardGroup liteLagCountMetricsEnable
    liteLagLatencyCollectEnable liteLagLatencyMetricsEnable liteLagLatencyTopK litePullMessageThreadPoolNums
    litePullThreadPoolQueueCapacity liteSubscriptionCheckInterval liteSubscriptionCheckTimeoutMills
    liteTtlCheckInterval loadBalanceProcessorThreadPoolNums loadBalanceThreadPoolQueueCapacity
    lockInStrictMode logicQueueForceSwapMapInterval logicQueueSwapMapInterval logicQueueSwapMapReserveFileNum
    mappedFileSwapEnable mapperFileSizeBatchConsumeQueue maxAsyncPutMessageRequests maxBatchDeleteFilesNum
    maxChecksumRange maxClientEventCount maxConsumeQueueScan maxLiteSubscriptionCount maxLmqConsumeQueueNum
    maxMessageFilterNumForNotification maxOffsetMapSize maxReconnectIntervalTimeSeconds
    maxRecoveryCommitlogFiles maxRocksDBIndexQueryDays maxSlaveResendLength maxStatsIdleTimeInMinutes
    memTableFlushIntervalMs messageIndexSafe metricGrpcExporterIntervalInMills
    metricGrpcExporterTimeOutInMills metricLoggingExporterIntervalInMills metricsExportBatchMaxDataPoints
    minLiteTTl objectStoreAccessKey objectStoreBucket objectStoreEndpoint objectStoreSecretKey
    offsetCheckInSlave persistConsumerOffsetIncrementally popCkMaxBufferSize popCkOffsetMaxQueueSize
    popCkStayBufferTime popCkStayBufferTimeOut popConsumerFSServiceInit popConsumerKVServiceInit
    popConsumerKVServiceLog popPollingMapExpireTimeSeconds popPollingMapSize popReviveConcurrency
    popReviveMaxReturnSizePerRead popReviveSkipIfGroupAbsent printChannelGroups printChannelGroupsMinNum
    processReplyMessageThreadPoolNums pullBatchMaxMessageCount pullMessageThreadPoolNums
    pullThreadPoolQueueCapacity putConsumeQueueDataByFileChannel putMessageFutureThreadPoolNums
    putMessageTimeout putMsgIndexHightWater putThreadPoolQueueCapacity queryMessageThreadPoolNums
    queryThreadPoolQueueCapacity readAheadCacheEnable readAheadCacheExpireDuration
    readAheadCacheSizeThresholdRate readAheadMessageCountThreshold readAheadMessageSizeThreshold
    realTimeNotifyConsumerChange realTimePersistRocksDBConfig recheckReputOffsetFromCq
    recordGetMessageResult recoverConcurrently recoverThreadPoolNums redeleteHangedFileInterval
    replyThreadPoolQueueCapacity reviveAckWaitMs reviveScanTime rmqAddressServerDomain
    rmqAddressServerSubGroup rocksdbCompressionType rocksdbFlushWalFrequency rocksdbWalFileRollingThreshold
    sampleCountThreshold sampleSteps scanAvailableNameSrv scheduleAsyncDeliverMaxPendingLimit
    scheduleAsyncDeliverMaxResendNum2Blocked searchBcqByCacheEnable sendHeartbeatTimeoutMillis
    sendMessageThreadPoolNums serverAsyncSemaphoreValue serverCallbackExecutorThreads
    serverNettyWorkerGroupEnable serverOnewaySemaphoreValue serverPooledByteBufAllocatorEnable
    serverSelectorThreads serverSocketBacklog serverSocketRcvBufSize serverSocketSndBufSize
    serverWorkerThreads sharedByteBufferNum shutdownWaitTimeSeconds skipPreOnline skipWhenCKRePutReachMaxTimes
    socksProxyConfig spinLockCollisionRetreatOptimalDegree splitMetadataSize splitRegistrationSize
    statefulAuthenticationCacheExpiredSecond statefulAuthenticationCacheMaxNum
    statefulAuthorizationCacheExpiredSecond statefulAuthorizationCacheMaxNum statRocksDBCQIntervalSec
    syncBrokerMemberGroupPeriod syncBrokerMetadataPeriod syncControllerMetadataPeriod
    syncMasterFlushOffsetWhenStartup tieredBackendServiceProvider tieredMetadataServiceProvider
    tieredStorageLevel tieredStoreCommitLogMaxSize tieredStoreConsumeQueueMaxSize tieredStoreCrcCheckEnable
    tieredStoreDeleteFileEnable tieredStoreDeleteFileInterval tieredStoreFilePath tieredStoreFileReservedTime
    tieredStoreGroupCommit tieredStoreGroupCommitCount tieredStoreGroupCommitSize
    tieredStoreGroupCommitTimeout tieredStoreIndexFileMaxHashSlotNum tieredStoreIndexFileMaxIndexNum
    tieredStoreMaxGroupCommitCount tieredStoreMaxPendingLimit timerColdDataCheckIntervalMs
    timerEnableCheckMetrics timerEnableRetryUntilSuccess timerGetMessageThreadNum
    timerMetricSmallThreshold timerProgressLogIntervalMs timerPutMessageThreadNum timerRecallToTimelineEnable
    timerRecallToTimeWheelEnable timerReputServiceCorePoolSize timerReputServiceMaxPoolSize
    timerReputServiceQueueCapacity timerRocksDBPrecisionMs timerRocksDBRollIntervalHours
    timerRocksDBRollMaxTps timerRocksDBRollRangeHours timerRocksDBStopScan timerRocksDBTimeExpiredMaxTps
    timerSkipUnknownError timerWheelSnapshotFlush timerWheelSnapshotIntervalMs topicQueueLockNum
    transactionCheckRocksdbCoreThreads transactionCheckRocksdbMaxThreads transactionCheckRocksdbQueueCapacity
    transactionMetricFlushInterval transferMsgByHeap transWriteOriginTransHalfEnable
    travelCqFileNumWhenGetMessage updateNameServerAddrPeriod useABSLock useEpollNativeSelector
    useMessageFilterForNotification usePIDColdCtrStrategy userCacheExpiredSecond userCacheMaxNum
    userCacheRefreshSecond useReentrantLockWhenPutMessage useServerSideResetOffset useTLS
    validateSystemTopicWhenUpdateTopic waitTimeMillsInAckQueue waitTimeMillsInAdminBrokerQueue
    waitTimeMillsInHeartbeatQueue waitTimeMillsInLitePullQueue waitTimeMillsInPullQueue
    waitTimeMillsInTransactionQueue
"""
WITHOUT_EFFECT: Final = frozenset(_NAMES.split())
"""Names that RocketMQ knows, and whose values nobody notices here."""


def check(values: Mapping[str, Any], ignored: Collection[str] = ()) -> None:
    """Check that no setting says that the data or the role is other than this broker's.

    Args:
        values: the names and values of a settings file.
        ignored: names of settings that do not stop the start.

    Raises:
        SettingsError: one line for each setting that stops the start, with the remedy; or a name in
            ``ignored`` is no such setting.
    """
    if wrong := sorted(set(ignored) - STOPPING.keys()):
        raise SettingsError(
            f"--ignore {wrong[0]}: this setting never stops a start; it can be one of {', '.join(STOPPING)}"
        )
    lines = [
        f"setting {name} = {text_of(values[name])!r} stops the start: {one.reason}; {one.remedy}, or start "
        f"with --ignore {name} if you know that it does not matter"
        for name, one in STOPPING.items()
        if name not in ignored and _stops(name, values)
    ]
    if lines:
        raise SettingsError("\n".join(lines))


def notes_on(
    values: Mapping[str, Any],
    honoured: Collection[str],
    differing: Mapping[str, Differing] = DIFFERING,
    without_effect: Collection[str] = WITHOUT_EFFECT,
) -> Iterator[str]:
    """Yield a note on each setting that is not honoured: what differs, what is meant, or that it is none.

    Args:
        honoured: the names of the settings that this server has.
        differing: those with which RocketMQ's server behaves otherwise.
        without_effect: names of further settings that RocketMQ's server has.
    """
    silent = []
    known = {*honoured, *STOPPING, *differing, *without_effect}
    for name in sorted(values.keys() - set(honoured)):
        if (one := differing.get(name)) is not None:
            if text_of(values[name]) != one.default:
                weaker = "; THIS CHANGES WHAT A CONFIRMED SEND MEANS" if one.weakens_sends else ""
                yield f"{name} = {text_of(values[name])}: {one.differs}{weaker}"
        elif name in without_effect:
            silent.append(name)
        elif name in STOPPING:
            if _is_other(name, values):
                yield f"{name} = {text_of(values[name])} is ignored: {STOPPING[name].reason}"
        else:
            yield f"{name} is no setting of RocketMQ 5.5.0 or CometMQ{_nearest(name, known)}"
    if silent:
        yield f"settings that have no effect here: {', '.join(silent)}"


def text_of(value: object) -> str:
    """Return a value as it is written in a ``broker.conf``."""
    text = str(value).strip()
    return text.lower() if text.lower() in {"true", "false"} else text


def _stops(name: str, values: Mapping[str, Any]) -> bool:
    has_name_servers = bool(str(values.get("namesrvAddr", "")).strip("; "))
    return _is_other(name, values) and not (name in _WITH_NAME_SERVERS and has_name_servers)


def _is_other(name: str, values: Mapping[str, Any]) -> bool:
    """Check whether a setting that stops a start has another value than its default."""
    root = text_of(values.get("storePathRootDir", "")).rstrip("/")
    defaults = [default.replace("{root}", root) for default in STOPPING[name].defaults]
    return name in values and text_of(values[name]) not in defaults


def _nearest(name: str, known: Collection[str]) -> str:
    """Return a question for the known name that is like a name; empty if none is."""
    spelt = {one.lower(): one for one in known}
    found = get_close_matches(name.lower(), spelt, n=1, cutoff=0.75)
    return f": did you mean {spelt[found[0]]}?" if found else ""
