import hashlib
import importlib
import inspect
import socket
import subprocess
import sys
import threading
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

import pytest
import toktok
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from cicl import tokens
from cicl.errors import ConfigurationError
from cicl.pieces import PieceTable, common_pieces, distinct_pieces, shown_lines, split_pieces
from cicl.tokens import (
    ByteCounter,
    PieceCounter,
    TiktokenCounter,
    ToktokCounter,
    counter_for,
    known_encodings,
    vocabulary_on_disk,
)

ROOT = Path(__file__).parents[1]
SPLIT = ("o200k_base", "cl100k_base", "o200k_harmony")
O200K = "o200k_base"

quick = settings(deadline=None, max_examples=100, database=None, suppress_health_check=[HealthCheck.too_slow])

FRAGMENTS = (
    *"aBzZ019 \t\n\r/'._-(){}[]<>|:;,\"\\#\x00\x0b\x0c\x1c\x1f\x7f",
    *"\x85\xa0\u2028\u3000éſKßΣ中あ한🙂²١Ⅷªǅİ\u0301\u200d\ufeff\ufffd",
    *("'re", "'S", "'ſ", "\r\n", "\n\n", "    ", "\n/", "//\n", "<|endoftext|>", "camelCase", "HTTPServer"),
)
tricky = st.lists(st.sampled_from(FRAGMENTS), max_size=40).map("".join)
clean = st.one_of(tricky, st.text(), st.text(st.characters(max_codepoint=127)))

EXAMPLES = (
    "",
    "def f(x):\n    return x\n\n\n\tif y:\r\n\t\tpass\r\n",
    "<|endoftext|><|endofprompt|> <|start|>",
    "I'll've they're DON'T it's 'restart 'tis it''s",
    "1234567890 007 3.14159 v1.2.3-rc4 " + "9" * 400,
    "a\x1cb\x1c c\x1f\n\x1d/d\x0ce\x0b f\n\x0cg",
    "https://example.org//a/b\n/c\n//d\n  /e",
    "trailing\n\n\n",
    "trailing   \n   ",
    "   \n   leading",
    "emoji 🙂👩‍👩‍👧 and 中文字符 with ascii\n日本語のテキスト\n/続き",
    "naïve\xa0café\n\x85next\u2028line \u3000wide",
    "-" * 300 + "\n" + "=" * 77 + "\n" + "/" * 50 + "\n\n///\n",
    " " * 500 + "x" + "\t" * 40 + "\n" * 90,
    "'ſ it'ſ 'K ' é' \n'é",
)


@dataclass
class FakeCounter:
    """Counts characters, and keeps what it was asked for."""

    encoding: str = O200K
    exact: bool = True
    calls: list[list[str]] = field(default_factory=list)

    def count(self, text: str) -> int:
        return self.count_batch([text])[0]

    def count_batch(self, texts: Sequence[str]) -> list[int]:
        self.calls.append(list(texts))
        return [len(text) for text in texts]


@dataclass
class RefusingCounter(FakeCounter):
    def count_batch(self, texts: Sequence[str]) -> list[int]:
        raise AssertionError(f"asked for {texts[:5]}")


@pytest.fixture
def table(tmp_path: Path) -> PieceTable:
    return PieceTable.open(tmp_path, O200K)


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty tiktoken cache, and no network to fill it from."""

    def refuse(*_: object) -> None:
        raise AssertionError("the network was touched")

    monkeypatch.setattr(socket, "getaddrinfo", refuse)
    monkeypatch.setattr(socket.socket, "connect", refuse)
    monkeypatch.setenv("TIKTOKEN_CACHE_DIR", str(tmp_path))
    return tmp_path


def exact_sum(text: str, encoding: str) -> int:
    return sum(ToktokCounter(encoding).count_batch(split_pieces(text, encoding)))


def repository_files() -> list[Path]:
    return sorted(path for folder in ("cicl", "judges", "tests") for path in (ROOT / folder).rglob("*.py"))


# Choosing a counter


def test_the_default_is_exact_o200k() -> None:
    counter = counter_for()
    assert (counter.encoding, counter.exact) == (O200K, True)
    assert counter.count("hello world") == 2
    assert counter.count_batch(["hello world", "", " "]) == [2, 0, 1]


@pytest.mark.parametrize("encoding", tokens.TOKTOK_ENCODINGS)
def test_toktok_carries_what_is_said_of_it(encoding: str, cache: Path) -> None:
    assert encoding in toktok._BUILTIN
    assert counter_for(encoding) == ToktokCounter(encoding)


def test_importing_and_choosing_load_no_vocabulary() -> None:
    code = (
        "import sys, cicl.tokens as t;"
        "assert {'numpy', 'toktok', 'tiktoken', 'tempfile'}.isdisjoint(sys.modules);"
        "t.counter_for();"
        "import toktok; assert not toktok._CACHE;"
        "assert {'numpy', 'tiktoken'}.isdisjoint(sys.modules)"
    )
    subprocess.run([sys.executable, "-c", code], check=True, cwd=ROOT)


def test_every_name_of_tiktoken_and_toktok_is_known() -> None:
    assert set(tokens.TOKTOK_ENCODINGS) | {"gpt2", "r50k_base", "p50k_base", "p50k_edit"} <= set(
        known_encodings()
    )
    assert list(known_encodings()) == sorted(known_encodings())


@pytest.mark.parametrize("encoding", ["", "o200k", "jev", "../o200k_base", "gpt-4o"])
def test_an_unknown_encoding_is_refused_with_the_known_ones(encoding: str, cache: Path) -> None:
    with pytest.raises(ConfigurationError, match=r"unknown encoding.*cl100k_base.*o200k_base.*p50k_base"):
        counter_for(encoding)


@pytest.mark.parametrize("encoding", ["gpt2", "r50k_base", "p50k_base", "p50k_edit"])
def test_without_a_vocabulary_bytes_are_the_bound(encoding: str, cache: Path) -> None:
    counter = counter_for(encoding)
    assert counter == ByteCounter(encoding)
    assert not counter.exact
    assert counter.count_batch(["", "abc", "é🙂", "<|endoftext|>"]) == [0, 3, 6, 13]


def test_a_damaged_vocabulary_is_left_alone_and_not_used(cache: Path) -> None:
    url = "https://openaipublic.blob.core.windows.net/encodings/p50k_base.tiktoken"
    file = cache / hashlib.sha1(url.encode()).hexdigest()
    file.write_bytes(b"IQ== 0\n")
    assert counter_for("p50k_base") == ByteCounter("p50k_base")
    assert file.read_bytes() == b"IQ== 0\n"


def test_an_empty_cache_setting_means_no_cache(cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TIKTOKEN_CACHE_DIR", "")
    monkeypatch.setenv("DATA_GYM_CACHE_DIR", str(cache))
    assert not vocabulary_on_disk(O200K)


def test_a_vocabulary_that_left_the_cache_is_an_error_and_no_download(cache: Path) -> None:
    with pytest.raises(ConfigurationError, match=r"r50k_base has left tiktoken's cache"):
        TiktokenCounter("r50k_base").count("a")


def test_files_and_digests_are_those_of_tiktoken() -> None:
    openai_public = importlib.import_module("tiktoken_ext.openai_public")

    for name, files in tokens._FILES.items():
        source = inspect.getsource(openai_public.ENCODING_CONSTRUCTORS[name])
        if name == "o200k_harmony":
            assert "o200k_base()" in source
            continue
        assert source.count("https://") == len(files)
        for file in files:
            assert tokens._BLOBS + file in source
            assert tokens._SHA256[file] in source


# Counting


@pytest.mark.parametrize("encoding", SPLIT)
def test_special_tokens_are_ordinary_text(encoding: str, tmp_path: Path) -> None:
    pieces = counter_for(encoding, PieceTable.open(tmp_path, encoding))
    for counter in (counter_for(encoding), pieces):
        assert counter.count("<|endoftext|>") > 3


@pytest.mark.parametrize("text", ["\ud83d", "half \ud83d emoji", "\udfff\ud800", "é\udc80\n x"])
def test_lone_surrogates_count_as_replacement_characters(text: str, table: PieceTable) -> None:
    replaced = "".join("\ufffd" if "\ud800" <= char <= "\udfff" else char for char in text)
    for counter in (ByteCounter(O200K), ToktokCounter(O200K), counter_for(O200K, table)):
        assert counter.count(text) == counter.count(replaced) > 0
    assert "".join(split_pieces(text, O200K)) == replaced


@quick
@given(st.lists(clean, max_size=4), st.sampled_from(SPLIT))
def test_bytes_bound_every_exact_count(texts: list[str], encoding: str) -> None:
    bounds = ByteCounter(encoding).count_batch(texts)
    for exact, bound in zip(ToktokCounter(encoding).count_batch(texts), bounds, strict=True):
        assert exact <= bound


@pytest.mark.parametrize("encoding", SPLIT)
def test_tiktoken_agrees(encoding: str) -> None:
    if not vocabulary_on_disk(encoding):
        pytest.skip(f"tiktoken's vocabulary of {encoding} is not on disk (see TIKTOKEN_CACHE_DIR)")
    texts = [*EXAMPLES, *(path.read_text("utf-8") for path in repository_files())]
    counted = TiktokenCounter(encoding).count_batch(texts)
    assert counted == ToktokCounter(encoding).count_batch(texts)
    assert counted == [TiktokenCounter(encoding).count(text) for text in texts]


# Splitting


@pytest.mark.parametrize("encoding", SPLIT)
@pytest.mark.parametrize("text", EXAMPLES)
def test_pieces_of_examples_sum_to_the_text(text: str, encoding: str) -> None:
    assert "".join(split_pieces(text, encoding)) == text
    assert exact_sum(text, encoding) == ToktokCounter(encoding).count(text)


@quick
@given(clean, st.sampled_from(SPLIT))
def test_pieces_sum_to_the_text(text: str, encoding: str) -> None:
    pieces = split_pieces(text, encoding)
    assert "".join(pieces) == text
    assert "" not in pieces
    assert exact_sum(text, encoding) == ToktokCounter(encoding).count(text)


@pytest.mark.parametrize("encoding", SPLIT)
def test_pieces_sum_to_real_files(encoding: str) -> None:
    for path in repository_files():
        text = path.read_text("utf-8")
        for form in (text, text.replace("\n", "\r\n"), text.replace("    ", "\t"), shown_lines(text)):
            assert exact_sum(form, encoding) == ToktokCounter(encoding).count(form), path


@quick
@given(clean, clean, st.sampled_from(SPLIT))
def test_a_line_start_is_a_boundary(before: str, after: str, encoding: str) -> None:
    before += "\n"
    if after[:1].isspace() or after.startswith("/"):
        after = "x" + after
    assert_boundary(before, after, encoding)


@quick
@given(clean, clean, st.sampled_from(" \t"), st.sampled_from(SPLIT))
def test_a_word_end_is_a_boundary(before: str, after: str, space: str, encoding: str) -> None:
    if not before or before[-1].isspace():
        before += "é"
    assert_boundary(before, space + after, encoding)


def assert_boundary(before: str, after: str, encoding: str) -> None:
    whole, left, right = ToktokCounter(encoding).count_batch([before + after, before, after])
    assert whole == left + right


@pytest.mark.parametrize(
    ("text", "pieces"),
    [
        ("HTTPServer don't", ["HTTPServer", " don't"]),
        ("x = 12345\n\n  y", ["x", " =", " ", "123", "45", "\n\n", " ", " y"]),
        ("é b\n  c é.d", ["é", " b", "\n", " ", " c", " é.d"]),
        ("a //\n/b", ["a", " //\n/", "b"]),
    ],
)
def test_pieces_are_those_of_the_encoder(text: str, pieces: list[str]) -> None:
    assert split_pieces(text, O200K) == pieces


def test_splitting_an_encoding_without_a_pattern_is_refused() -> None:
    with pytest.raises(ConfigurationError, match="no split pattern for 'p50k_base'"):
        split_pieces("a", "p50k_base")


@pytest.mark.parametrize("unit", ["a", " ", "\n", "/", "'", "é", "\t ", "é\n", "é ", " \n\xa0", "aB"])
def test_long_runs_are_split_in_linear_time(unit: str) -> None:
    text = unit * 100_000
    assert "".join(split_pieces(text, O200K)) == text


# The table


def test_a_table_comes_back_from_disk(table: PieceTable, tmp_path: Path) -> None:
    table.add({"a": 1, " b": 2, "é": 70_000, "": 0})
    assert table.save()
    again = PieceTable.open(tmp_path, O200K)
    assert len(again) == 4
    assert again.lookup(["é", "a", "c", ""]) == {"é": 70_000, "a": 1, "": 0}
    assert [path.name for path in tmp_path.iterdir()] == ["pieces-o200k_base.bin"]


def test_a_table_that_is_not_there_is_empty(table: PieceTable) -> None:
    assert len(table) == 0
    assert table.lookup(["a"]) == {}
    assert table.lookup([]) == {}


def test_nothing_added_is_nothing_written(table: PieceTable, tmp_path: Path) -> None:
    table.add({})
    assert table.save()
    assert not list(tmp_path.iterdir())


def test_saving_twice_writes_once(table: PieceTable, tmp_path: Path) -> None:
    table.add({"a": 1})
    assert table.save()
    (tmp_path / "pieces-o200k_base.bin").unlink()
    assert table.save()
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("size", [0, 1, 23, 24, 30, 60, 95])
def test_a_truncated_file_is_an_empty_table(size: int, table: PieceTable, tmp_path: Path) -> None:
    table.add({str(number): number for number in range(6)})
    table.save()
    file = tmp_path / "pieces-o200k_base.bin"
    assert len(file.read_bytes()) == 96
    file.write_bytes(file.read_bytes()[:size])
    assert len(PieceTable.open(tmp_path, O200K)) == 0


@pytest.mark.parametrize("at", [0, 9, 17, 24, 50, 95])
def test_a_damaged_file_is_an_empty_table_and_is_replaced(at: int, table: PieceTable, tmp_path: Path) -> None:
    table.add({str(number): number for number in range(6)})
    table.save()
    file = tmp_path / "pieces-o200k_base.bin"
    data = bytearray(file.read_bytes())
    data[at] ^= 0x10
    file.write_bytes(data)
    damaged = PieceTable.open(tmp_path, O200K)
    assert len(damaged) == 0
    damaged.add({"a": 1})
    assert damaged.save()
    assert len(PieceTable.open(tmp_path, O200K)) == 1


def test_the_file_of_another_encoding_is_not_taken(table: PieceTable, tmp_path: Path) -> None:
    table.add({"a": 1})
    table.save()
    (tmp_path / "pieces-o200k_base.bin").rename(tmp_path / "pieces-cl100k_base.bin")
    assert len(PieceTable.open(tmp_path, "cl100k_base")) == 0


def test_a_folder_that_cannot_be_written_is_no_error(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("in the way")
    table = PieceTable.open(tmp_path / "file" / "below", O200K)
    table.add({"a": 1})
    assert not table.save()
    assert table.lookup(["a"]) == {"a": 1}


def test_a_refused_save_leaves_no_draft_and_can_be_repeated(table: PieceTable, tmp_path: Path) -> None:
    obstacle = tmp_path / "pieces-o200k_base.bin"
    obstacle.mkdir()
    table.add({"a": 1})
    assert not table.save()
    assert list(tmp_path.iterdir()) == [obstacle]
    obstacle.rmdir()
    assert table.save()
    assert len(PieceTable.open(tmp_path, O200K)) == 1


def test_what_another_process_saved_is_taken_in(tmp_path: Path) -> None:
    mine, other = PieceTable.open(tmp_path, O200K), PieceTable.open(tmp_path, O200K)
    mine.add({"a": 1, "b": 2})
    other.add({"b": 2, "c": 3})
    assert other.save()
    assert mine.save()
    assert mine.lookup("abc") == PieceTable.open(tmp_path, O200K).lookup("abc") == {"a": 1, "b": 2, "c": 3}


def test_a_full_table_keeps_what_came_last(tmp_path: Path) -> None:
    table = PieceTable(tmp_path / "t", O200K, capacity=3)
    table.add({"a": 1, "b": 2})
    table.add({"b": 2, "c": 3})
    assert len(table) == 3
    table.add({"d": 4})
    assert len(table) == 1
    table.add(dict.fromkeys("efghij", 1))
    assert len(table) == 3
    assert table.save()
    assert len(PieceTable(tmp_path / "t", O200K)) == 3


def test_racing_writers_never_give_a_wrong_count(tmp_path: Path) -> None:
    def write(worker: int) -> None:
        for turn in range(15):
            own = PieceTable.open(tmp_path, O200K)
            own.add({f"{worker}-{turn}-{number}": worker for number in range(200)})
            assert own.save()

    writers = [threading.Thread(target=write, args=(worker,)) for worker in (1, 2, 3)]
    for writer in writers:
        writer.start()
    asked = {f"{worker}-{turn}-0": worker for worker in (1, 2, 3) for turn in range(15)}
    sizes = []
    while any(writer.is_alive() for writer in writers):
        seen = PieceTable.open(tmp_path, O200K)
        sizes.append(len(seen))
        assert seen.lookup(asked).items() <= asked.items()
    assert all(size % 200 == 0 for size in sizes)
    assert [path.name for path in tmp_path.iterdir()] == ["pieces-o200k_base.bin"]


def test_threads_share_a_table(table: PieceTable) -> None:
    def fill(worker: int) -> None:
        for number in range(100):
            piece = f"{worker}-{number}"
            table.add({piece: number})
            assert table.lookup([piece]) == {piece: number}

    workers = [threading.Thread(target=fill, args=(worker,)) for worker in range(4)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    assert len(table) == 400


@quick
@given(st.dictionaries(st.text(), st.integers(0, 2**32 - 1)), st.lists(st.text(), max_size=8))
def test_a_table_answers_like_a_dictionary(counts: dict[str, int], others: list[str]) -> None:
    table = PieceTable.open(Path("/nonexistent"), O200K)
    table.add(counts)
    asked = [*counts, *others]
    assert table.lookup(asked) == {piece: counts[piece] for piece in asked if piece in counts}


# Learning, and counting by what was learned


def test_learning_asks_once_for_what_is_unknown(table: PieceTable) -> None:
    table.add({"a": 1})
    backend = FakeCounter()
    assert table.learn(["a", "bb", "ccc", "bb"], backend) == 2
    assert backend.calls == [["bb", "ccc"]]
    assert table.learn(["ccc", "a", "bb"], backend) == table.learn([], backend) == 0
    assert len(backend.calls) == 1
    assert table.lookup(["a", "bb", "ccc"]) == {"a": 1, "bb": 2, "ccc": 3}


def test_bounds_and_other_encodings_are_not_learned(table: PieceTable) -> None:
    for backend in (ByteCounter(O200K), FakeCounter("cl100k_base")):
        with pytest.raises(ValueError, match=r"exact counts only|cannot fill a table of o200k_base"):
            table.learn(["a"], backend)
        with pytest.raises(ValueError, match=r"exact counts only|cannot fill a table of o200k_base"):
            PieceCounter(table, backend)
    with pytest.raises(ValueError, match="cannot fill a table"):
        counter_for("cl100k_base", table)


def test_known_pieces_never_reach_the_backend(table: PieceTable) -> None:
    text = "def f(x):\n    return café(x)\n"
    table.add(dict.fromkeys(split_pieces(text, O200K), 7))
    counter = PieceCounter(table, RefusingCounter())
    assert counter.exact
    assert counter.count(text) == 7 * len(split_pieces(text, O200K))
    assert counter.count_batch([text, "", text]) == [counter.count(text), 0, counter.count(text)]
    assert counter.count_batch([]) == []


def test_strange_pieces_are_counted_once_and_learned(table: PieceTable, tmp_path: Path) -> None:
    backend = FakeCounter()
    counter = PieceCounter(table, backend)
    assert counter.count_batch(["one two", "two two one"]) == [7, 11]
    assert [sorted(call) for call in backend.calls] == [[" one", " two", "one", "two"]]
    assert counter.count("one one") == 7
    assert len(backend.calls) == 1
    assert table.save()
    assert PieceCounter(PieceTable.open(tmp_path, O200K), RefusingCounter()).count("two one") == 7


def test_an_encoding_without_a_pattern_passes_the_table_by(tmp_path: Path) -> None:
    assert counter_for("qwen3.5", PieceTable.open(tmp_path, "qwen3.5")) == ToktokCounter("qwen3.5")


@quick
@given(st.lists(clean, max_size=4), st.sampled_from(SPLIT))
def test_counting_by_pieces_is_exact(texts: list[str], encoding: str) -> None:
    counter = counter_for(encoding, PieceTable.open(Path("/nonexistent"), encoding))
    assert isinstance(counter, PieceCounter)
    exact = ToktokCounter(encoding).count_batch(texts)
    assert counter.count_batch(texts) == exact
    assert [counter.count(text) for text in texts] == exact


@pytest.mark.parametrize("encoding", SPLIT)
def test_learned_files_are_shown_without_a_vocabulary(encoding: str, tmp_path: Path) -> None:
    table = PieceTable.open(tmp_path, encoding)
    texts = [path.read_text("utf-8") for path in repository_files()]
    table.learn(distinct_pieces(map(shown_lines, texts), encoding) | common_pieces(), ToktokCounter(encoding))
    counter = PieceCounter(table, RefusingCounter(encoding))
    for text in texts:
        lines = text.splitlines()
        for start in range(0, len(lines), 23):
            card = "".join(f"{start + at}| {line}\n" for at, line in enumerate(lines[start : start + 23]))
            assert counter.count(card) == ToktokCounter(encoding).count(card)


def test_distinct_pieces_are_those_of_every_text() -> None:
    texts = ["a b\nc", "c d é", ""]
    assert distinct_pieces(texts, O200K) == {piece for text in texts for piece in split_pieces(text, O200K)}
    assert distinct_pieces([], O200K) == set()


def test_common_pieces_cover_every_line_number() -> None:
    known = common_pieces()
    assert all(set(split_pieces(str(number), O200K)) <= known for number in range(0, 200_000, 7))
    assert {"   ", "\t", " \t\t"} <= known
