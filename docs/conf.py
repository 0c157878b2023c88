"""How the site is made of these pages and of the docstrings: ``make docs``."""

import re
from typing import TYPE_CHECKING, Any, Final

from cometmq import MessageQueue, __version__

if TYPE_CHECKING:
    from sphinx.application import Sphinx

project = "CometMQ"
author = "the authors of CometMQ"
project_copyright = author
version = release = __version__

extensions = ["myst_parser", "sphinx.ext.autodoc", "sphinx.ext.napoleon"]
myst_enable_extensions = ["colon_fence"]
myst_heading_anchors = 3

autodoc_default_options = {"members": True, "member-order": "bysource"}
autodoc_preserve_defaults = True
napoleon_use_ivar = True
python_use_unqualified_type_names = True
maximum_signature_line_length = 100

html_theme = "furo"
html_title = f"CometMQ {release}"

REPOSITORY: Final = "https://github.com/cometmq/cometmq/tree/main"
OUT_OF_DOCS: Final = re.compile(r"\]\((?:\.\./)+(?=(?:benches|examples|src|tests)/)")
FIELD: Final = type(MessageQueue.topic)


def setup(app: "Sphinx") -> None:
    """Let the pages be made as they stand: people read them in the repository, too."""
    app.connect("source-read", link_to_repository)
    app.connect("autodoc-skip-member", skip_fields)


def link_to_repository(_app: "Sphinx", _page: str, source: list[str]) -> None:
    """Let links to what is no page lead to the repository."""
    source[0] = OUT_OF_DOCS.sub(f"]({REPOSITORY}/", source[0])


def skip_fields(_app: "Sphinx", _what: str, _name: str, value: Any, *_: Any) -> bool | None:
    """Leave out the fields of named tuples: signature and docstring say all that there is to say."""
    return True if isinstance(value, FIELD) else None
