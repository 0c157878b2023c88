"""Show store files field by field, with the position of each field; damaged files too."""

from cometmq.store.inspect.file import FileView, Kind, open_file
from cometmq.store.inspect.row import Field, InspectRow
from cometmq.store.inspect.summary import Summary, summarize

__all__ = ["Field", "FileView", "InspectRow", "Kind", "Summary", "open_file", "summarize"]
