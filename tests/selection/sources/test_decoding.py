import codecs
import random
import zlib

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cicl.selection.records import Skipped
from cicl.selection.sources.decoding import Decoded, decode, split_lines
from cicl.selection.sources.files import DEFAULT_LIMITS, Limits

SOURCE = "# größe 大小\nx = 1\n"


def text_of(data: bytes, path: str = "a.py") -> str:
    found = decode(data, path)
    assert isinstance(found, Decoded), found
    return found.text


def reason_of(data: bytes, path: str = "a.py", limits: Limits = DEFAULT_LIMITS) -> str:
    found = decode(data, path, limits)
    assert isinstance(found, Skipped), found
    assert found.path == path
    return found.reason


# Encodings.


@pytest.mark.parametrize(
    ("mark", "encoding"),
    [
        (codecs.BOM_UTF8, "utf-8"),
        (codecs.BOM_UTF16_LE, "utf-16-le"),
        (codecs.BOM_UTF16_BE, "utf-16-be"),
        (codecs.BOM_UTF32_LE, "utf-32-le"),
        (codecs.BOM_UTF32_BE, "utf-32-be"),
    ],
)
@pytest.mark.parametrize("end", ["\n", "\r\n", "\r"])
def test_byte_order_mark_is_believed_and_stripped(mark: bytes, encoding: str, end: str) -> None:
    data = mark + SOURCE.replace("\n", end).encode(encoding)
    assert decode(data, "a.py") == Decoded(SOURCE, encoding)
    compile(text_of(data), "a.py", "exec")


def test_mark_written_twice_is_stripped_twice() -> None:
    assert text_of(codecs.BOM_UTF8 * 2 + b"x") == "x"


def test_mark_wins_over_a_coding_comment() -> None:
    assert decode(codecs.BOM_UTF8 + "# coding: latin-1\né".encode(), "a.py") == Decoded(
        "# coding: latin-1\né", "utf-8"
    )


@pytest.mark.parametrize("encoding", ["utf-16-le", "utf-16-be"])
def test_utf16_without_a_mark_is_recognised(encoding: str) -> None:
    assert decode(b"import os\n".decode().encode(encoding), "a.py") == Decoded("import os\n", encoding)


def test_empty_file() -> None:
    assert decode(b"", "a.py") == Decoded("", "utf-8")
    assert decode(codecs.BOM_UTF8, "a.py") == Decoded("", "utf-8")
    assert decode(codecs.BOM_UTF16_LE, "a.py") == Decoded("", "utf-16-le")


@pytest.mark.parametrize(
    ("declared", "codec"),
    [
        ("latin-1", "iso8859-1"),
        ("gbk", "gbk"),
        ("shift_jis", "shift_jis"),
        ("koi8-r", "koi8-r"),
        ("cp1252", "cp1252"),
    ],
)
def test_coding_comment_of_a_python_file_is_believed(declared: str, codec: str) -> None:
    word = {"gbk": "大小", "shift_jis": "日本", "koi8-r": "привет"}.get(declared, "größe")
    source = f"#!/usr/bin/python\n# -*- coding: {declared} -*-\nx = '{word}'\n"
    assert decode(source.encode(declared), "tool.pyw") == Decoded(source, codec)


def test_coding_comment_of_another_file_is_not_believed() -> None:
    source = "# coding: latin-1\nname: größe\n"
    assert decode(source.encode(), "a.yml") == Decoded(source, "utf-8")


@pytest.mark.parametrize(
    "declared",
    [
        "no-such-codec",
        "rot13",
        "hex",
        "utf-7",
        "unicode_escape",
        "punycode",
        "undefined",
        "cp037",
        "utf-16",
        "aliases",
    ],
)
def test_coding_comment_that_cannot_be_true_falls_back_to_utf8(declared: str) -> None:
    source = f"# coding: {declared}\nx = '大小 \\n \\ud800 +AGE-'\n"
    assert decode(source.encode(), "a.py") == Decoded(source, "utf-8")


def test_coding_comment_that_the_bytes_contradict() -> None:
    assert text_of(b"# coding: utf-8\n# gr\xf6\xdfe\n") == "# coding: utf-8\n# größe\n"
    assert text_of("# coding: ascii\n# größe\n".encode()) == "# coding: ascii\n# größe\n"


def test_latin1_without_a_declaration_is_a_marked_guess() -> None:
    assert decode("x = 1  # größe – “so”\n".encode("cp1252"), "a.py") == Decoded(
        "x = 1  # größe – “so”\n", "cp1252"
    )


def test_byte_that_cp1252_does_not_have_is_replaced_and_counted() -> None:
    assert decode(b"x = 1  # \x81 and \xf6, more text\n", "a.c") == Decoded(
        "x = 1  # \ufffd and ö, more text\n", "cp1252", 1
    )


def test_utf8_with_one_broken_byte_stays_utf8() -> None:
    data = "大小尺寸 = 1\n".encode() + b"\xff = 2\n"
    assert decode(data, "a.py") == Decoded("大小尺寸 = 1\n\ufffd = 2\n", "utf-8", 1)


def test_utf8_cut_in_the_middle_of_an_emoji() -> None:
    found = decode("größe 🎉 done 🎉".encode()[:-2], "notes.md")
    assert found == Decoded("größe 🎉 done \ufffd", "utf-8", 1)


def test_replacement_character_that_the_author_wrote_is_not_counted() -> None:
    assert decode("'\ufffd' # shown for bad bytes".encode(), "a.py") == Decoded(
        "'\ufffd' # shown for bad bytes", "utf-8"
    )


@pytest.mark.parametrize(
    "data",
    [
        b"text with a surrogate \xed\xa0\x80 in it, and so much more of it",
        codecs.BOM_UTF16_LE + "text with a surrogate ".encode("utf-16-le") + b"\x3d\xd8",
        codecs.BOM_UTF32_BE + "text with a surrogate ".encode("utf-32-be") + b"\0\0\xd8\x00",
    ],
)
def test_lone_surrogates_do_not_survive(data: bytes) -> None:
    text_of(data).encode()


def test_chinese_in_gbk_without_a_declaration_says_so() -> None:
    assert "saved as UTF-8 it would be read" in reason_of(
        "这个文件说明如何安装和使用本软件\n".encode("gbk"), "readme.txt"
    )


# Binary.


@pytest.mark.parametrize(
    "data",
    [
        b"\x89PNG\r\n\x1a\n\x00\x00\x00\rIHDR\x00\x00\x00\x01",
        b"\x7fELF\x02\x01\x01\x00\x00\x00\x00",
        b"ustar header\0\0\0\0\0\0" + b"plain text in a tar archive\n" * 100,
        zlib.compress(random.Random(1).randbytes(2_000)),
        random.Random(2).randbytes(300).replace(b"\0", b"\1"),
        codecs.BOM_UTF16_LE + b"\0\0" * 10,
        bytes(range(1, 32)) * 9,
    ],
    ids=["png", "elf", "tar", "zlib", "random", "nul behind a mark", "controls"],
)
def test_binary_is_skipped_with_a_reason(data: bytes) -> None:
    reason = reason_of(data, "file.bin")
    assert reason.startswith("binary: ") or "UTF-8" in reason


def test_single_nul_in_source_text_is_replaced_and_counted() -> None:
    assert decode(b"x = 1\0\ny = 'two'\n", "a.py") == Decoded("x = 1\ufffd\ny = 'two'\n", "utf-8", 1)


def test_terminal_colours_and_page_breaks_are_text() -> None:
    source = "\x1b[31mred\x1b[0m\n\x0c\n# page two\n\tindented\n"
    assert decode(source.encode(), "log.txt") == Decoded(source, "utf-8")


# Lines.


def test_mixed_crlf_and_lf_and_cr_count_as_an_editor_counts() -> None:
    text = text_of(b"one\r\ntwo\nthree\rfour\r\r\nsix\n\rend")
    assert text == "one\ntwo\nthree\nfour\n\nsix\n\nend"
    assert split_lines(text) == ["one", "two", "three", "four", "", "six", "", "end"]


@pytest.mark.parametrize("mark", ["\x0b", "\x0c", "\x1c", "\x1d", "\x1e", "\x85", "\u2028", "\u2029"])
def test_no_other_character_ends_a_line(mark: str) -> None:
    assert split_lines(f"a{mark}b\nc") == [f"a{mark}b", "c"]


@pytest.mark.parametrize(
    ("text", "lines"),
    [
        ("", []),
        ("\n", [""]),
        ("a", ["a"]),
        ("a\n", ["a"]),
        ("a\n\n", ["a", ""]),
        ("\na", ["", "a"]),
        ("a\r\nb\r", ["a", "b"]),
    ],
)
def test_split_lines(text: str, lines: list[str]) -> None:
    assert split_lines(text) == lines


@given(st.lists(st.text(st.characters(exclude_characters="\r\n", exclude_categories=["Cs"]))))
def test_split_lines_gives_back_what_was_joined(lines: list[str]) -> None:
    for end in ("\n", "\r\n", "\r"):
        assert split_lines("".join(line + end for line in lines)) == lines


def test_line_numbers_are_those_of_pythons_parser() -> None:
    data = b"a = 1\r\nb = '\x0c'\rc = 3\n\nd = 5\r\n"
    code = compile(data, "a.py", "exec")
    last = max(line for _, _, line in code.co_lines() if line)
    assert split_lines(text_of(data))[last - 1] == "d = 5"


# Minified.


def test_minified_file_is_skipped_with_both_numbers() -> None:
    reason = reason_of(b"/* licence */\n" + b"a=b;" * 250_000, "bundle.js")
    assert reason == (
        "minified or generated: 100% of it stands in lines longer than the limit of 5,000 characters, "
        "the longest has 1,000,000"
    )


def test_one_pasted_image_does_not_cost_the_document() -> None:
    prose = "A sentence about installing it.\n" * 400
    text = f"{prose}![](data:image/png;base64,{'A' * 9_000})\n"
    assert text_of(text.encode(), "README.md") == text


@pytest.mark.parametrize("lengths", [[10], [3, 10, 10, 0, 9], [10, 10], [0, 0, 10]])
@pytest.mark.parametrize("last", ["", "\n"])
def test_lines_as_long_as_the_limit_are_kept(lengths: list[int], last: str) -> None:
    data = ("\n".join("x" * length for length in lengths) + last).encode()
    assert isinstance(decode(data, "a.js", Limits(max_line_chars=10)), Decoded)


@pytest.mark.parametrize("lengths", [[11], [3, 0, 11], [11, 3], [0, 7, 11, 0], [10, 25]])
def test_a_line_over_the_limit_that_holds_most_of_the_text_is_found(lengths: list[int]) -> None:
    data = "\n".join("x" * length for length in lengths).encode()
    assert f"the longest has {max(lengths)}" in reason_of(data, "a.js", Limits(max_line_chars=10))


# Anything at all.


@settings(max_examples=150, deadline=None)
@given(
    st.one_of(
        st.binary(max_size=60), st.text(max_size=40).map(lambda text: text.encode("utf-8", "surrogatepass"))
    ),
    st.sampled_from(
        [
            b"",
            codecs.BOM_UTF8,
            codecs.BOM_UTF16_LE,
            codecs.BOM_UTF32_BE,
            b"# coding: utf-7\n",
            b"# coding: big5\n",
        ]
    ),
    st.sampled_from(["a.py", "a.md"]),
)
def test_whatever_the_bytes_the_answer_is_clean_text_or_a_reason(data: bytes, head: bytes, path: str) -> None:
    found = decode(head + data, path)
    if isinstance(found, Skipped):
        assert found.reason
        return
    found.text.encode()
    assert not set(found.text) & {"\0", "\r"}
    assert not found.text.startswith("\ufeff")


@given(st.text(st.characters(exclude_categories=["Cs", "Cc"], exclude_characters="\ufeff"), max_size=200))
def test_ordinary_text_in_utf8_is_given_back_unchanged(text: str) -> None:
    assert decode(text.encode(), "a.md") == Decoded(text, "utf-8")
