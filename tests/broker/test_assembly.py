import re
import shutil
from pathlib import Path
from typing import get_type_hints

import pytest
from tests.broker.conftest import bodies, pull_header, serving

from cometmq.filter import sql92
from cometmq.wire.codes import RequestCode, ResponseCode
from cometmq.wire.requests import SENDS, TO_BROKERS

NOT_YET = {RequestCode.QUERY_BROKER_OFFSET}


async def test_what_is_not_offered_yet_is_answered_as_not_supported(tmp_path: Path) -> None:
    async with serving(tmp_path) as bench:
        for code in sorted(NOT_YET):
            answer = await bench.ask(code)
            assert answer.code == ResponseCode.REQUEST_CODE_NOT_SUPPORTED
            assert answer.remark == f" request type {code} not supported"


async def test_each_handler_takes_the_header_that_the_table_of_requests_has(tmp_path: Path) -> None:
    async with serving(tmp_path) as bench:
        handlers = bench.parts.requests._handlers
    for code, (handler, header_type) in handlers.items():
        annotated = get_type_hints(handler)
        header = next(annotated[name] for name in ("header", "_header") if name in annotated)
        assert header_type is TO_BROKERS[RequestCode(code)].header
        assert issubclass(header_type, header), code
    assert TO_BROKERS.keys() - handlers.keys() == SENDS.keys()


async def test_every_request_answers_even_one_without_fields_or_body(tmp_path: Path) -> None:
    async with serving(tmp_path) as bench:
        for code in RequestCode:
            answer = await bench.ask(code)
            assert answer.code != ResponseCode.SYSTEM_ERROR or re.search(
                r"missing|JSON|body|no controller", answer.remark or ""
            ), answer
        assert (await bench.send("T")).code == ResponseCode.SUCCESS


async def test_the_parser_of_filters_is_made_at_the_start_where_they_are_allowed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    prepared: list[bool] = []
    monkeypatch.setattr(sql92, "prepare", lambda: prepared.append(True))
    async with serving(tmp_path / "without"):
        assert prepared == []
    async with serving(tmp_path / "with", enable_property_filter=True):
        assert prepared == [True]


async def test_a_golden_store_is_served(golden: dict[str, Path], tmp_path: Path) -> None:
    root = tmp_path / "store"
    shutil.copytree(golden["store-clean"], root)
    sizes = {
        "mapped_file_size_commit_log": 1048576,
        "mapped_file_size_consume_queue": 6000,
        "max_hash_slot_num": 1000,
        "max_index_num": 4000,
    }

    async with serving(root, sizes) as bench:
        answer = await bench.ask(RequestCode.PULL_MESSAGE, pull_header("GoldenA"))
        assert answer.code == ResponseCode.SUCCESS and len(bodies(answer)) > 0
        assert bench.parts.offsets.committed("GoldenGroupFull", "GoldenA", 0) == 233
