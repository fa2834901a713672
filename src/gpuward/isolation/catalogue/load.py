"""The one place that reads the code book's own files. What they say is checked in read."""

import pkgutil
from functools import cache
from itertools import groupby

from gpuward.isolation.catalogue import read
from gpuward.isolation.catalogue.book import Book
from gpuward.isolation.catalogue.rows import NvlinkRow
from gpuward.isolation.catalogue.rules import RuleBook, read_rules

_PACKAGE = "gpuward.isolation.catalogue"


@cache
def load() -> Book:
    """Return the code book, read once. Raises CatalogueError when a file of it is wrong."""
    xids = read.read_xids(_text("xid.csv"))
    policies = read.read_policies(_text("policy.csv"))
    read.require_same_codes(xids, policies)
    nvlinks = read.read_nvlinks(_text("nvlink5.csv"))
    return Book(
        xids={row.code: row for row in xids.rows},
        sxids={row.code: row for row in read.read_sxids(_text("sxid.csv")).rows},
        policies={row.code: row for row in policies.rows},
        others={row.kind: row for row in read.read_others(_text("policy_other.csv")).rows},
        nvlinks={xid: tuple(rows) for xid, rows in groupby(sorted(nvlinks.rows, key=_xid), key=_xid)},
        registers={(row.register, row.bit): row for row in read.read_registers(_text("nvlink74.csv")).rows},
        actions={row.word: row for row in read.read_actions(_text("actions.csv")).rows},
        recoveries=read.read_recoveries(_text("recovery.csv")).rows,
        phrases={row.fault: row for row in read.read_phrases(_text("phrases.csv")).rows},
    )


@cache
def load_rules() -> RuleBook:
    """Return the rules that look at more than one line, read once. Raises RuleError when the file is wrong."""
    return read_rules(_text("rules.toml"))


def _xid(row: NvlinkRow) -> int:
    return row.xid


def _text(file: str) -> str:
    content = pkgutil.get_data(_PACKAGE, f"data/{file}")
    if content is None:
        raise read.CatalogueError([f"{file} line 1, column 1: the file is not in the package; install gpuward again"])
    return content.decode("utf-8")
