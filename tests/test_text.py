import subprocess
import sys

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cicl.text import (
    MAX_WORD_CHARS,
    STOP_WORDS,
    TermSplitter,
    digest_bytes,
    digest_text,
    replace_surrogates,
    singular,
    term_key,
    words,
)

quick = settings(deadline=None, max_examples=150, database=None)


def split(word: str) -> tuple[str, ...]:
    return TermSplitter().split(word)


@pytest.mark.parametrize(
    ("word", "terms"),
    [
        ("HTTPResponse_codes", ("httpresponse_codes", "http", "response", "code")),
        ("getHTTPResponseCode", ("gethttpresponsecode", "get", "http", "response", "code")),
        ("separability_matrix", ("separability_matrix", "separability", "matrix")),
        ("__init__", ("init",)),
        ("_private", ("private",)),
        ("MAX_SIZE", ("max_size", "max", "size")),
        ("utf8", ("utf8", "utf")),
        ("sha256sum", ("sha256sum", "sha", "256", "sum")),
        ("x1", ("x1",)),
        ("word", ("word",)),
        ("Word", ("word",)),
        ("words", ("word",)),
        ("x", ()),
        ("_", ()),
        ("7", ()),
        ("42", ("42",)),
        ("a_b", ("a_b",)),
        ("data_data", ("data_data", "data")),
        ("Größe", ("größe",)),
        ("naïve_bayes", ("naïve_bayes", "naïve", "baye")),
        ("ОшибкаСети", ("ошибкасети",)),
        ("π", ("π",)),
        ("x²", ("x²",)),
    ],
)
def test_a_word_is_indexed_whole_and_by_its_parts(word: str, terms: tuple[str, ...]) -> None:
    assert split(word) == terms


@pytest.mark.parametrize(
    ("word", "terms"),
    [
        ("数据库连接", ("数据", "据库", "库连", "连接")),
        ("锁", ("锁",)),
        ("GPU加速", ("gpu", "加速")),
        ("データベース", ("デー", "ータ", "タベ", "ベー", "ース")),
        ("데이터", ("데이", "이터")),
        ("读取config_file失败", ("读取", "config_file", "config", "file", "失败")),
        ("请用parseTask函数", ("请用", "parsetask", "parse", "task", "函数")),
        ("中_文", ("中", "文")),
        ("中é_x文", ("中", "é_x", "文")),
    ],
)
def test_chinese_japanese_and_korean_are_indexed_by_overlapping_pairs(
    word: str, terms: tuple[str, ...]
) -> None:
    assert split(word) == terms


@quick
@given(st.text("数据库连接池超时错误", min_size=2, max_size=9), st.data())
def test_a_part_of_a_phrase_has_terms_of_the_phrase_only(phrase: str, data: st.DataObject) -> None:
    start = data.draw(st.integers(0, len(phrase) - 2))
    end = data.draw(st.integers(start + 2, len(phrase)))
    assert set(split(phrase[start:end])) <= set(split(phrase))


@quick
@given(st.one_of(st.text(), st.text("aAé中_1s文", max_size=20)))
def test_any_text_splits_into_terms_that_can_be_encoded_and_are_found_again(text: str) -> None:
    splitter = TermSplitter()
    for word in words(text):
        terms = splitter.split(word)
        assert len(set(terms)) == len(terms)
        assert all(terms)
        assert all(0 <= term_key(term) < 2**64 for term in terms)
        assert splitter.split(word) is terms
    assert splitter.terms(text) == [term for word in words(text) for term in splitter.split(word)]


def test_an_endless_run_has_no_terms() -> None:
    assert split("a" * MAX_WORD_CHARS) == ("a" * MAX_WORD_CHARS,)
    assert split("a" * (MAX_WORD_CHARS + 1)) == ()
    assert split("中" * (MAX_WORD_CHARS + 1)) == ()


@pytest.mark.parametrize(
    ("plural", "word"),
    [
        ("queries", "query"),
        ("classes", "class"),
        ("indexes", "index"),
        ("boxes", "box"),
        ("files", "file"),
        ("names", "name"),
        ("units", "unit"),
        ("status", "status"),
        ("class", "class"),
        ("bus", "bus"),
        ("goes", "goes"),
        ("is", "is"),
        ("gas", "gas"),
        ("s", "s"),
        ("", ""),
    ],
)
def test_an_english_plural_loses_its_ending(plural: str, word: str) -> None:
    assert singular(plural) == word


def test_stop_words_are_words_in_lower_case() -> None:
    assert all(word == word.lower() and words(word) == [word] for word in STOP_WORDS)


def test_words_keep_their_case_and_their_order() -> None:
    assert words("if HTTPResponse.codes[0]: pass\n# 中文, naïve") == [
        *("if", "HTTPResponse", "codes", "0", "pass", "中文", "naïve")
    ]
    assert words("a\n\nb c\n", lines=True) == ["a", "\n", "\n", "b", "c", "\n"]
    assert words("") == []


@quick
@given(st.text(st.characters(codec=None)))
def test_lone_surrogates_are_replaced_and_nothing_else_is(text: str) -> None:
    replaced = replace_surrogates(text)
    assert len(replaced) == len(text)
    replaced.encode()
    for old, new in zip(text, replaced, strict=True):
        assert new == ("\ufffd" if "\ud800" <= old <= "\udfff" else old)


@quick
@given(st.text(st.characters(codec=None)))
def test_any_text_has_a_digest_and_a_key(text: str) -> None:
    assert len(digest_text(text)) == 32
    assert 0 <= term_key(text) < 2**64


def test_digests_and_keys_are_the_same_in_every_process() -> None:
    code = "from cicl.text import *; print(digest_text('naïve'), digest_bytes(b'x'), term_key('naïve'))"
    found = subprocess.run(
        [sys.executable, "-c", code],
        capture_output=True,
        text=True,
        check=True,
        env={"PYTHONHASHSEED": "77"},
    )
    assert found.stdout.split() == [digest_text("naïve"), digest_bytes(b"x"), str(term_key("naïve"))]
    assert digest_text("naïve") == digest_bytes("naïve".encode())
