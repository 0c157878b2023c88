"""What tests of Spark share: a server that speaks S3, where this process and Spark's find it."""

from collections.abc import Iterator
from pathlib import Path
from uuid import uuid4

import msgspec
import pytest
from fsspec import config, filesystem


@pytest.fixture(scope="session")
def s3(fsspec_config: Path) -> Iterator[None]:
    """Run a server that speaks S3, with a bucket ``lake``: one for all tests, as workers look it up once."""
    from moto.server import ThreadedMotoServer  # noqa: PLC0415  most tests need no S3

    server = ThreadedMotoServer("127.0.0.1", port=0, verbose=False)
    server.start()
    host, port = server.get_host_and_port()
    options = {"endpoint_url": f"http://{host}:{port}", "key": "anybody", "secret": "anything"}
    (fsspec_config / "s3.json").write_bytes(msgspec.json.encode({"s3": options}))
    before = dict(config.conf)
    config.set_conf_files(str(fsspec_config), config.conf)
    try:
        filesystem("s3").mkdir("lake")
        yield
    finally:
        server.stop()
        config.conf.clear()
        config.conf.update(before)


@pytest.fixture
def bucket(request: pytest.FixtureRequest) -> str:
    """Return the address of an empty bucket."""
    request.getfixturevalue("s3")
    name = f"lake-{uuid4().hex}"
    filesystem("s3").mkdir(name)
    return f"s3://{name}"


@pytest.fixture(params=["disk", "s3"])
def place(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """Return the path or address of a target that is not there yet."""
    if request.param == "disk":
        return str(tmp_path / "a target 100%")
    bucket: str = request.getfixturevalue("bucket")
    return f"{bucket}/a target"
