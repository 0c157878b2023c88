import json
from pathlib import Path

import pytest
from tests.interop.jvm import Run
from tests.interop.peers import Peer

pytestmark = pytest.mark.interop

COUNT = 300

# What the reference answers; the client itself turns an empty answer to a query into 208, NO_MESSAGE.
ANSWERS_TO_THE_ABSENT = {
    "viewMessage beyond the end": "broker error 1",
    "viewMessage inside a record": "broker error 1",
    "queryMessage": "client error 208",
    "queryMessage of another topic": "client error 208",
    "queryMessage before it was stored": "client error 208",
    "queryMessageByUniqKey": "0 messages",
}


def test_each_message_is_found_by_its_ids_and_keys(
    broker: Peer, serialize_type: str, run_java: Run, tmp_path: Path
) -> None:
    encoding = {"rocketmq.serialize.type": serialize_type}
    topic = f"Query-{serialize_type}"
    sent = run_java("SendKeyed", broker.namesrv, topic, "query", COUNT, properties=encoding)
    lines = tmp_path / "sent.jsonl"
    lines.write_text("\n".join(map(json.dumps, sent)))

    found, *absent = run_java("Query", broker.namesrv, lines, properties=encoding)
    print(f"\n{broker.name} {serialize_type}: {found}")

    assert found == {"asked": COUNT, "wrong": []}
    assert {line["absent"]: line["answer"] for line in absent} == ANSWERS_TO_THE_ABSENT
