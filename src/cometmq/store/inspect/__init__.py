"""Showing store files field by field, with the position of each field; damaged ones too."""

from cometmq.store.inspect.file import FileView, Kind, open_file
from cometmq.store.inspect.row import Field, Row
from cometmq.store.inspect.summary import Summary, summarize

__all__ = ["Field", "FileView", "Kind", "Row", "Summary", "open_file", "summarize"]
