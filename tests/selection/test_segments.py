from collections import Counter
from collections.abc import Mapping

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from cicl.selection.corpus import Corpus
from cicl.selection.counting import Vocabulary
from cicl.selection.merging import merge_corpus
from cicl.selection.postings import Postings
from cicl.selection.segments import MIN_SIGNED_TERMS, SIGNATURE_SIZE, Segment, build_segment
from cicl.selection.sources.extraction import extract
from cicl.selection.sources.facts import FIELDS
from cicl.selection.sources.names import MODULE, link_key
from cicl.text import TermSplitter, digest_text, term_key

quick = settings(deadline=None, max_examples=60, database=None, suppress_health_check=[HealthCheck.too_slow])

TEXTS = (
    "",
    "\n",
    "x = 1\n",
    "import b\n\ndef f(x):\n    '''Doc of f.'''\n    return b.g(x)\n",
    "from a import f as h\n\nclass C(h):\n    size = 1\n\n    @property\n    def m(self):\n        h()\n",
    "def g(alpha, beta, gamma):\n    delta = alpha; return epsilon(zeta, eta, theta, iota, kappa)\n",
    "# Title\n\nText about `f` 中文 and HTTPResponse_codes.\n\n## Part\n\nMore text, more text.\n",
    "- Always run the tests.\n- Deprecated: never.\n",
)
paths = st.sampled_from(
    ["a.py", "b.py", "pkg/__init__.py", "pkg/c.py", "docs/d.md", "AGENTS.md", "z.txt", "数据/e.md"]
)
trees = st.dictionaries(paths, st.sampled_from(TEXTS), max_size=6)


def segment_of(files: Mapping[str, str], vocabulary: Vocabulary | None = None) -> Segment:
    extractions = [extract(path, files[path], digest_text(files[path])) for path in sorted(files)]
    return build_segment(extractions, vocabulary)


def assert_same(one: Segment, other: Segment) -> None:
    assert (one.paths, one.digests) == (other.paths, other.digests)
    columns = other.to_arrays()
    for name, column in one.to_arrays().items():
        assert column.dtype == columns[name].dtype, name
        np.testing.assert_array_equal(column, columns[name], err_msg=name)


# What a segment holds


def test_a_segment_gives_back_the_facts_of_each_file_and_the_file_of_each_part() -> None:
    files = {"a.py": TEXTS[3], "b.md": "", "c.py": "", "d.md": TEXTS[6]}
    segment = segment_of(files)
    assert segment.paths == tuple(files)
    for row, path in enumerate(files):
        assert segment.read_facts(row) == extract(path, files[path], digest_text(files[path])).facts
    assert segment.first_part.tolist() == [0, 2, 2, 2, 4]
    assert [Corpus([segment]).file_of(part) for part in range(4)] == [0, 0, 3, 3]
    assert (len(segment.files), len(segment.parts)) == (4, 4)


@quick
@given(trees)
def test_a_segment_is_the_same_after_its_columns_were_read_again(files: dict[str, str]) -> None:
    segment = segment_of(files)
    assert_same(Segment.from_arrays(segment.to_arrays()), segment)


def test_columns_that_are_no_segment_are_refused() -> None:
    columns = segment_of({"a.py": TEXTS[3]}).to_arrays()
    for name in columns:
        with pytest.raises((KeyError, ValueError)):
            Segment.from_arrays({key: column for key, column in columns.items() if key != name})


def held(postings: Postings, row: int) -> Counter[int]:
    keys = np.repeat(postings.keys, np.diff(postings.starts))
    mine = postings.rows == row
    return Counter(dict(zip(keys[mine].tolist(), postings.counts[mine].tolist(), strict=True)))


def count(*texts: str) -> Counter[int]:
    splitter = TermSplitter()
    return Counter(term_key(term) for text in texts for term in splitter.terms(text))


@quick
@given(trees)
def test_every_term_is_counted_in_its_field_of_its_part_and_of_its_file(files: dict[str, str]) -> None:
    segment = segment_of(files)
    part = 0
    for row, path in enumerate(sorted(files)):
        lines = files[path].split("\n")
        totals = [count(path), Counter[int](), Counter[int](), Counter[int]()]
        for unit in segment.read_facts(row).units:
            own = {line for span in unit.own or (unit.span,) for line in range(span.start, span.end + 1)}
            prose = {line for span in unit.doc for line in range(span.start, span.end + 1)} & own
            symbol = unit.kind in ("symbol", "test")
            name = ("" if unit.name == MODULE else unit.name.partition("#")[0]) if symbol else unit.title
            expected = (
                count(path),
                count(name, *(unit.defines if symbol else ())),
                count(*(lines[line - 1] for line in sorted(prose))),
                count(*(lines[line - 1] for line in sorted(own - prose))),
            )
            for place in range(len(FIELDS)):
                assert held(segment.parts.postings[place], part) == expected[place], (
                    unit.name,
                    FIELDS[place],
                )
                assert segment.parts.lengths[place, part] == expected[place].total()
                if place:
                    totals[place] += expected[place]
            part += 1
        for place, expected_total in enumerate(totals):
            assert held(segment.files.postings[place], row) == expected_total
            assert segment.files.lengths[place, row] == expected_total.total()
    assert part == len(segment.parts)


@quick
@given(trees, trees)
def test_a_vocabulary_that_has_seen_other_files_changes_nothing(
    one: dict[str, str], other: dict[str, str]
) -> None:
    vocabulary = Vocabulary()
    segment_of(one, vocabulary)
    assert_same(segment_of(other, vocabulary), segment_of(other))


# Likeness


WORDS = [f"word{chr(97 + number)}" for number in range(26)]


def signatures(*bodies: list[str]) -> np.ndarray:
    files = {f"{place}.cfg": " ".join(body) + "\n" for place, body in enumerate(bodies)}
    return segment_of(files).signatures


def test_equal_bodies_have_equal_signatures_and_different_ones_do_not() -> None:
    one, again, other = signatures(WORDS[:20], WORDS[19::-1], [f"other{word}" for word in WORDS])
    assert (one == again).all()
    assert not (one == other).any()


def test_a_short_body_has_no_signature() -> None:
    body = [*"alpha beta gamma delta epsilon zeta eta theta iota kappa".split()]
    short, long = signatures(body[: MIN_SIGNED_TERMS - 1], body[:MIN_SIGNED_TERMS])
    assert not short.any()
    assert long.any()


def test_signatures_estimate_how_many_terms_two_bodies_share() -> None:
    shares = []
    for start in range(40):
        one = [f"{word}{start + 10}" for word in WORDS]
        first, second = signatures(one[:20], [*one[:16], *one[20:24]])
        shares.append(np.mean(first == second))
    # 24 numbered words, 16 of them in both; each is also a term without its number, and so is every number.
    likeness = (2 * 16 + 1) / (2 * 24 + 1)
    deviation = np.sqrt(likeness * (1 - likeness) / (40 * SIGNATURE_SIZE))
    assert abs(np.mean(shares) - likeness) < 5 * deviation


# Corpora


def corpus_path(corpus: Corpus, key: int) -> list[str]:
    return [corpus.path(row) for row in corpus.find_files(key)]


def test_the_last_segment_that_holds_a_file_counts_and_removed_files_count_nowhere() -> None:
    old = segment_of({"a.py": TEXTS[3], "b.py": TEXTS[4], "c.md": TEXTS[6]})
    new = segment_of({"a.py": TEXTS[5], "d.md": TEXTS[6]})
    corpus = Corpus([old, new], removed=["b.py", "unheard-of"])
    assert list(corpus.paths) == ["a.py", "c.md", "d.md"]
    assert corpus.alive_files.tolist() == [False, False, True, True, True]
    row = corpus.file_row("a.py")
    assert row == 3
    assert corpus.facts(row) == extract("a.py", TEXTS[5], digest_text(TEXTS[5])).facts
    assert corpus.digest(row) == digest_text(TEXTS[5])
    assert corpus.file_row("b.py") is None
    assert corpus.find_unit("a.py::f") is None
    assert corpus.find_unit("b.py::C") is None
    found = corpus.find_unit("a.py::g")
    assert found is not None
    assert found[1] is not None
    assert corpus.part_id(found[1]) == "a.py::g"
    assert corpus_path(corpus, link_key("file", "a.py")) == ["a.py"]
    assert corpus.find_parts(link_key("define", "f")) == []
    for part in np.flatnonzero(corpus.alive_parts).tolist():
        assert corpus.find_unit(corpus.part_id(part)) == (corpus.file_of(part), part)
        assert part in corpus.parts_of(corpus.file_of(part))


def test_a_corpus_without_files_is_normal() -> None:
    for corpus in (
        Corpus([]),
        Corpus([segment_of({})]),
        Corpus([segment_of({"a.py": "x = 1\n"})], removed=["a.py"]),
    ):
        assert list(corpus.paths) == []
        assert not corpus.alive_files.any()
        assert not corpus.alive_parts.any()
        assert corpus.find_files(1) == corpus.find_parts(1) == []
        assert corpus.find_unit("a.py") is None
        assert merge_corpus(corpus).paths == ()


def test_a_path_may_hold_the_separator_of_ids() -> None:
    corpus = Corpus([segment_of({"a::b.py": "def f(): ...\n", "a": "text\n"})])
    found = corpus.find_unit("a::b.py::f")
    assert found is not None
    assert corpus.path(found[0]) == "a::b.py"
    assert corpus.find_unit("a::b.py") == (corpus.file_row("a::b.py"), None)
    assert corpus.find_unit("a::b.py::g") is None


histories = st.lists(
    st.tuples(trees, st.sets(paths, max_size=3)),
    min_size=1,
    max_size=5,
)


@quick
@given(histories)
def test_merged_segments_are_the_segment_of_the_files_that_count(
    history: list[tuple[dict[str, str], set[str]]],
) -> None:
    files: dict[str, str] = {}
    segments: list[Segment] = []
    for changed, removed in history:
        segments.append(segment_of(changed))
        files = {path: text for path, text in {**files, **changed}.items() if path not in removed}
    removed = {path for segment in segments for path in segment.paths} - files.keys()
    merged = merge_corpus(Corpus(segments, removed=removed))
    assert_same(merged, segment_of(files))
