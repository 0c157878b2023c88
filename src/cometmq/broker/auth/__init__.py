"""A broker's users and access control lists: their files, and the requests that change them.

Page: ``docs/internals/access.md``.
"""
