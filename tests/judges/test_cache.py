"""The file of replies: shared by threads and processes, whole after a kill, never taken for something else."""

import multiprocessing
import threading
from typing import Any

import pytest

from jaxeval.errors import InputError
from jaxeval.judges.cache import ReplyCache


@pytest.fixture
def file(tmp_path):
    return tmp_path / "folder" / "replies.jsonl"


def test_what_was_put_is_there_for_the_next_run(file):
    cache = ReplyCache(file)
    cache.put("a", {"text": "ä\n🎧"})
    assert cache.get("a") == {"text": "ä\n🎧"} and cache.get("b") is None
    assert ReplyCache(file).get("a") == {"text": "ä\n🎧"}


def test_processes_see_each_others_replies_while_they_run(file):
    one, other = ReplyCache(file), ReplyCache(file)
    other.put("a", {"text": "1"})
    assert one.get("a") == {"text": "1"}
    one.put("b", {"text": "2"})
    assert other.get("b") == {"text": "2"} and other.get("a") == {"text": "1"}


def test_a_line_that_was_cut_costs_only_itself(file):
    ReplyCache(file).put("a", {"text": "1"})
    ReplyCache(file).put("b", {"text": "2"})
    file.write_bytes(file.read_bytes()[:-8])
    cache = ReplyCache(file)
    assert cache.get("a") and cache.get("b") is None
    cache.put("c", {"text": "3"})
    again = ReplyCache(file)
    assert again.get("a") == {"text": "1"} and again.get("b") is None and again.get("c") == {"text": "3"}


def test_a_cache_cut_within_its_only_line_is_an_empty_one(file):
    ReplyCache(file).put("a", {"text": "1"})
    file.write_bytes(file.read_bytes()[:9])
    assert ReplyCache(file).get("a") is None


@pytest.mark.parametrize("line", [b"\x00\xff\x00", b"[1]", b"{}", b'{"key": ["a"], "text": 1}', b"null", b""])
def test_damaged_lines_are_passed_over(file, line):
    ReplyCache(file).put("a", {"text": "1"})
    file.write_bytes(line + b"\n" + file.read_bytes() + line + b"\n")
    assert ReplyCache(file).get("a") == {"text": "1"}


def test_a_file_of_something_else_is_refused_and_left_alone(file):
    file.parent.mkdir()
    file.write_text("id,caption\n1,a dog\n")
    with pytest.raises(InputError, match=r"replies\.jsonl: holds something other than replies"):
        ReplyCache(file)
    assert file.read_text() == "id,caption\n1,a dog\n"


def put_many(cache, name, count):
    for index in range(count):
        cache.put(f"{name} {index}", {"text": name * 3000})


def test_many_threads_and_processes_write_whole_lines(file):
    context, shared = multiprocessing.get_context("fork"), ReplyCache(file)
    team: list[Any] = [context.Process(target=put_many, args=(ReplyCache(file), name, 40)) for name in "ab"]
    team += [threading.Thread(target=put_many, args=(shared, name, 40)) for name in "cd"]
    for one in team:
        one.start()
    for one in team:
        one.join()
    cache = ReplyCache(file)
    assert all(cache.get(f"{name} {index}") for name in "abcd" for index in range(40))
    assert len(file.read_bytes().splitlines()) == 160
