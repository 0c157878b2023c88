"""Compile the messages of the gRPC proxy when the package is built or installed: a hook of hatchling."""

from pathlib import Path
from typing import Any

from grpc_tools import protoc
from hatchling.builders.hooks.plugin.interface import BuildHookInterface

SOURCE = "cometmq/proxy/messaging.proto"


class ProtocolBuildHook(BuildHookInterface[Any]):
    """Writes ``messaging_pb2.py`` and its stub beside ``messaging.proto``; .gitignore leaves them out."""

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:  # noqa: ARG002 hatchling's signature
        """Compile. Raises RuntimeError if the compiler finds an error, which it prints."""
        source = Path(self.root) / "src"
        options = (f"-I{source}", f"-I{Path(protoc.__file__).with_name('_proto')}")
        outputs = (f"--python_out={source}", f"--pyi_out={source}")
        if protoc.main(["protoc", *options, *outputs, SOURCE]):
            raise RuntimeError(f"{SOURCE} cannot be compiled: see above")
