"""The cache of results: hits, what makes another entry, and every way in which an entry can be spoilt."""

from __future__ import annotations

import time
from dataclasses import replace
from pathlib import Path

import pytest
from xla_sim.compiler.cache import Cache, default_directory
from xla_sim.compiler.results import CompileRequest, CompileResult, Hbm
from xla_sim.compiler.scheduler import compile_all

VERSIONS = {"jaxlib": "1", "libtpu": "2"}
RESULT = CompileResult("g", "v5e", "v5e:2x2", "ok", hbm=Hbm(10, 1, 1, 0, 0, 0, 2)).to_json()


@pytest.fixture
def request_(tmp_path: Path) -> CompileRequest:
    graph = tmp_path / "g.pb"
    graph.write_bytes(b"one")
    return CompileRequest("g", graph, "v5e")


def entry(cache: Cache) -> Path:
    (path,) = cache.directory.glob("??/*.json")
    return path


def test_the_key_is_everything_that_the_result_depends_on(request_: CompileRequest, tmp_path: Path) -> None:
    cache = Cache(tmp_path)
    other = tmp_path / "other.pb"
    other.write_bytes(b"two")
    variants = [
        request_,
        replace(request_, hlo=other),
        replace(request_, topology="v6e"),
        replace(request_, partitions=8),
        replace(request_, narrow=True),
        replace(request_, buffers=1),
        replace(request_, options=(("a", "b"),)),
    ]
    keys = {cache.key(variant, VERSIONS) for variant in variants} | {cache.key(request_, {**VERSIONS, "libtpu": "3"})}
    assert len(keys) == len(variants) + 1
    assert cache.key(replace(request_, graph="renamed"), VERSIONS) in keys


def test_what_was_put_is_got(tmp_path: Path) -> None:
    cache = Cache(tmp_path)
    cache.put("ab" + "0" * 62, RESULT)
    got = cache.get("ab" + "0" * 62)
    assert got is not None and CompileResult.from_json(got) == CompileResult.from_json(RESULT)
    assert cache.get("ab" + "1" * 62) is None and cache.problem == ""


@pytest.mark.parametrize("damage", ["", "{", '{"checksum": "", "result": {}}', "[]", "null", "\udcff"])
def test_a_torn_entry_is_dropped_and_made_again(damage: str, tmp_path: Path) -> None:
    cache = Cache(tmp_path)
    key = "cd" + "0" * 62
    cache.put(key, RESULT)
    entry(cache).write_text(damage, encoding="utf-8", errors="surrogateescape")
    assert cache.get(key) is None
    assert list(tmp_path.glob("??/*.json")) == []
    cache.put(key, RESULT)
    assert cache.get(key) is not None


def test_half_an_entry_is_torn_too(tmp_path: Path) -> None:
    cache = Cache(tmp_path)
    key = "ef" + "0" * 62
    cache.put(key, RESULT)
    whole = entry(cache).read_text()
    entry(cache).write_text(whole.replace('"total": 2', '"total": 3'))
    assert cache.get(key) is None


def test_what_a_limit_or_a_signal_ended_is_not_kept(tmp_path: Path) -> None:
    cache = Cache(tmp_path)
    for status in ("crashed", "timeout"):
        cache.put("ab" + "0" * 62, {**RESULT, "status": status})
    assert list(tmp_path.rglob("*")) == []


def test_a_disk_that_takes_nothing_costs_the_cache_and_not_the_run(tmp_path: Path) -> None:
    blocked = tmp_path / "file"
    blocked.write_text("in the way")
    cache = Cache(blocked / "cache")
    cache.put("ab" + "0" * 62, RESULT)
    assert cache.problem == f"the cache in {blocked / 'cache'} took no more results: Not a directory"
    assert cache.get("ab" + "0" * 62) is None
    cache.prune()


def test_the_folder_follows_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XLA_SIM_CACHE", "/somewhere")
    assert default_directory() == Path("/somewhere")
    monkeypatch.delenv("XLA_SIM_CACHE")
    monkeypatch.setenv("XDG_CACHE_HOME", "/caches")
    assert default_directory() == Path("/caches/xla_sim/compile")
    monkeypatch.delenv("XDG_CACHE_HOME")
    assert default_directory() == Path.home() / ".cache/xla_sim/compile"


def test_an_unchanged_graph_is_answered_from_the_cache_within_a_second(graphs: Path, tmp_path: Path) -> None:
    requests = [CompileRequest("matmul", graphs / "matmul.pb", topology) for topology in ("v5e", "v6e")]
    first = compile_all(requests, cache=Cache(tmp_path))
    started = time.monotonic()
    second = compile_all(requests, cache=Cache(tmp_path))
    assert time.monotonic() - started < 1
    assert [one.cached for one in first + second] == [False, False, True, True]
    assert [replace(one, cached=False, peak_rss=0) for one in second] == [replace(one, peak_rss=0) for one in first]
