import math
from collections import Counter
from collections.abc import Sequence
from typing import Any

import bm25s
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray
from rank_bm25 import BM25Okapi, BM25Plus

from cicl.selection.corpus import Corpus
from cicl.selection.index import FieldedIndex, FieldWeights, Hits, Variant, corpus_index
from cicl.selection.postings import MAX_COUNT, Postings
from cicl.selection.reference_index import ReferenceIndex
from cicl.selection.segments import build_segment
from cicl.selection.sources.extraction import extract
from cicl.text import term_key, words

quick = settings(deadline=None, max_examples=80, database=None)

vocabulary = [f"w{number}" for number in range(9)]
documents = st.lists(st.sampled_from(vocabulary), min_size=1, max_size=12)
corpora = st.lists(documents, min_size=1, max_size=12)
queries = st.lists(st.sampled_from([*vocabulary, "unknown"]), max_size=5, unique=True)
settings_of_bm25 = st.tuples(st.sampled_from([0.9, 1.2, 1.5, 2.0]), st.sampled_from([0.0, 0.4, 0.75, 1.0]))


def index_of(corpus: Sequence[Sequence[str]], k1: float, b: float, variant: Variant) -> FieldedIndex:
    counts = [Counter(term_key(word) for word in document) for document in corpus]
    return FieldedIndex.from_tokens(counts, k1=k1, b=b, variant=variant)


def search(index: FieldedIndex, query: Sequence[str]) -> Hits:
    return index.search({term_key(word): 1.0 for word in query})


def bm25s_scores(
    corpus: Sequence[Sequence[str]], query: Sequence[str], k1: float, b: float, method: str
) -> NDArray[np.float32]:
    engine = bm25s.BM25(k1=k1, b=b, delta=1.0, method=method)
    engine.index([list(document) for document in corpus], show_progress=False)
    held = {word for document in corpus for word in document}
    known = [word for word in query if word in held]
    scores: NDArray[np.float32] = engine.get_scores(known) if known else np.zeros(len(corpus), np.float32)
    return scores


def assert_same_ranking(ours: NDArray[np.float64], theirs: NDArray[Any], digits: float) -> None:
    """The order is the same wherever the other's scores differ by more than its own digits."""
    for one in range(len(ours)):
        apart = theirs[one] - theirs > digits
        assert (ours[one] > ours[apart]).all()


# One field: what rank-bm25 and bm25s define


@quick
@given(corpora, queries, settings_of_bm25)
def test_okapi_scores_are_those_of_rank_bm25(
    corpus: list[list[str]], query: list[str], k1_b: tuple[float, float]
) -> None:
    k1, b = k1_b
    ours = search(index_of(corpus, k1, b, "okapi"), query).scores
    theirs = BM25Okapi(corpus, k1=k1, b=b, epsilon=0).get_scores(query)
    np.testing.assert_allclose(ours, theirs, rtol=1e-12, atol=1e-14)
    assert_same_ranking(ours, theirs, 1e-11)


@quick
@given(corpora, queries, settings_of_bm25)
def test_plus_scores_are_those_of_rank_bm25(
    corpus: list[list[str]], query: list[str], k1_b: tuple[float, float]
) -> None:
    k1, b = k1_b
    ours = search(index_of(corpus, k1, b, "plus"), query).scores
    theirs = BM25Plus(corpus, k1=k1, b=b, delta=1).get_scores(query)
    np.testing.assert_allclose(ours, theirs, rtol=1e-12, atol=1e-14)
    assert_same_ranking(ours, theirs, 1e-11)


@pytest.mark.parametrize(
    ("variant", "method", "factor"),
    [("lucene", "lucene", 1), ("okapi", "robertson", 0), ("plus", "bm25+", 1)],
)
@quick
@given(corpora, queries, settings_of_bm25)
def test_scores_are_those_of_bm25s_in_its_single_precision(
    variant: Variant,
    method: str,
    factor: int,
    corpus: list[list[str]],
    query: list[str],
    k1_b: tuple[float, float],
) -> None:
    k1, b = k1_b
    ours = search(index_of(corpus, k1, b, variant), query).scores
    # bm25s leaves out of "robertson" the constant k1 + 1, which rank-bm25 has.
    theirs = bm25s_scores(corpus, query, k1, b, method) * (1 if factor else k1 + 1)
    np.testing.assert_allclose(ours, theirs, rtol=2e-6, atol=1e-6)
    assert_same_ranking(ours, theirs, 1e-5)


@quick
@given(st.lists(documents, min_size=1, max_size=4), st.sampled_from(vocabulary))
def test_in_the_smallest_corpora_a_hit_scores_above_every_miss(corpus: list[list[str]], word: str) -> None:
    hits = search(index_of(corpus, 1.5, 0.75, "lucene"), [word])
    held = np.array([word in document for document in corpus])
    assert (hits.matched == held).all()
    assert (hits.scores[held] > 0).all()
    assert (hits.scores[~held] == 0).all()


def test_a_term_in_half_of_the_documents_or_more_still_counts() -> None:
    corpus = [["a", "b"], ["a", "c"], ["a", "d"], ["e", "f"]]
    hits = search(index_of(corpus, 1.5, 0.75, "lucene"), ["a"])
    assert (hits.scores[:3] > 0).all()
    assert search(index_of(corpus, 1.5, 0.75, "okapi"), ["a"]).scores.max() == 0
    assert hits.top(10).tolist() == [0, 1, 2]


@pytest.mark.parametrize("variant", ["lucene", "okapi", "plus"])
def test_an_empty_corpus_an_empty_document_and_an_empty_query_are_normal(variant: Variant) -> None:
    for corpus in ([], [[]], [[], []]):
        index = index_of(corpus, 1.5, 0.75, variant)
        hits = search(index, ["a"])
        assert hits.scores.tolist() == [0.0] * len(corpus)
        assert hits.top(5).tolist() == []
        assert index.frequency(term_key("a")) == 0
        assert math.isfinite(index.idf(0))
    full = index_of([["a"], []], 1.5, 0.75, variant)
    assert search(full, []).top(5).tolist() == []
    assert search(full, ["unknown"]).top(5).tolist() == []
    assert search(full, ["a"]).top(5).tolist() == [0]


def test_a_document_that_matches_nothing_is_no_candidate_even_where_it_has_a_score() -> None:
    hits = search(index_of([["a"], ["b"], ["b"]], 1.5, 0.75, "plus"), ["a"])
    assert hits.scores[1] > 0
    assert hits.top(10).tolist() == [0]


@quick
@given(corpora, queries, st.integers(1, 6))
def test_the_top_holds_the_best_and_every_tie_with_the_last(
    corpus: list[list[str]], query: list[str], count: int
) -> None:
    hits = search(index_of(corpus, 1.5, 0.75, "lucene"), query)
    top = hits.top(count).tolist()
    rows = sorted(np.flatnonzero(hits.matched).tolist(), key=lambda row: (-hits.scores[row], row))
    assert top == rows[: len(top)]
    assert len(top) >= min(count, len(rows))
    assert all(hits.scores[row] == hits.scores[top[count - 1]] for row in top[count:])
    assert all(hits.scores[row] < hits.scores[top[-1]] for row in rows[len(top) :])


def test_a_count_beyond_the_limit_is_capped() -> None:
    index = FieldedIndex.from_tokens([{7: MAX_COUNT + 10}, {7: 1}])
    assert index.levels[0].postings[0].find(7)[1].tolist() == [MAX_COUNT, 1]
    assert index.search({7: 1.0}).top(1).tolist() == [0]


# Postings


pairs = st.lists(st.tuples(st.integers(0, 2**64 - 1), st.integers(0, 5), st.integers(1, 9)), max_size=30)


@quick
@given(pairs, st.randoms())
def test_postings_give_the_rows_of_each_key_in_order(
    triples: list[tuple[int, int, int]], random: Any
) -> None:
    unique = list({(key % 7, row): (key % 7, row, count) for key, row, count in triples}.values())
    random.shuffle(unique)
    keys, rows, counts = (np.array([item[place] for item in unique]) for place in range(3))
    built = Postings.build(keys.astype(np.uint64), rows.astype(np.int32), counts.astype(np.uint16))
    for key in range(8):
        found, times = built.find(key)
        expected = sorted((row, count) for other, row, count in unique if other == key)
        assert list(zip(found.tolist(), times.tolist(), strict=True)) == expected
    assert built.find(2**64 - 1)[0].tolist() == []


# Several fields


FILES = {
    "engine/parser.py": "def parse(text):\n    return text\n",
    "engine/lexer.py": "def lex(text):\n    '''Feed the parser.'''\n    return parse(text)\n",
    "docs/guide.md": "# Guide\n\nThe parse step calls the parser, and the parser calls the lexer.\n",
    "数据/说明.md": "# 数据库\n\n连接池超时，需要重试。\n",
}


def corpus_of(files: dict[str, str]) -> Corpus:
    return Corpus([build_segment([extract(path, files[path], "d") for path in sorted(files)])])


def best(corpus: Corpus, query: str, weights: FieldWeights) -> str:
    hits = corpus_index(corpus, "files", weights).search({term_key(word): 1.0 for word in words(query)})
    return corpus.path(int(hits.top(1)[0]))


def test_the_weights_say_how_much_each_field_counts() -> None:
    corpus = corpus_of(FILES)
    assert best(corpus, "parser", FieldWeights(path=1, name=0, doc=0, body=0)) == "engine/parser.py"
    assert best(corpus, "parse", FieldWeights(path=0, name=1, doc=0, body=0)) == "engine/parser.py"
    assert best(corpus, "parser", FieldWeights(path=0, name=0, doc=1, body=0)) == "engine/lexer.py"
    assert best(corpus, "parser", FieldWeights(path=9, name=1, doc=1, body=1)) == "engine/parser.py"


def test_a_field_without_weight_neither_matches_nor_makes_a_word_common() -> None:
    corpus = corpus_of(FILES)
    index = corpus_index(corpus, "files", FieldWeights(path=0, name=0, doc=0, body=1))
    assert index.frequency(term_key("engine")) == 0
    assert not index.search({term_key("engine"): 1.0}).matched.any()


@pytest.mark.parametrize("query", ["数据库", "据库", "连接池", "接池超", "超时", "重试"])
def test_a_part_of_a_chinese_phrase_finds_it(query: str) -> None:
    corpus = corpus_of(FILES)
    pairs = [query[place : place + 2] for place in range(len(query) - 1)]
    hits = corpus_index(corpus, "files", FieldWeights()).search({term_key(pair): 1.0 for pair in pairs})
    assert [corpus.path(int(row)) for row in hits.top(3)] == ["数据/说明.md"]


def test_documents_that_are_not_counted_can_be_found_and_change_nothing_else() -> None:
    files = {"a.md": "alpha beta\n", "b.md": "alpha gamma\n", "c.md": "delta\n"}
    extra = {**files, "x.md": "alpha alpha beta epsilon\n", "y.md": "alpha epsilon\n"}
    weights = FieldWeights()
    small = corpus_index(corpus_of(files), "files", weights)
    corpus = corpus_of(extra)
    counted = np.array([corpus.path(row) in files for row in range(len(extra))])
    large = corpus_index(corpus, "files", weights, counted)
    for word in ("alpha", "beta", "epsilon", "nothing"):
        key = term_key(word)
        assert small.frequency(key) == large.frequency(key)
        found = large.search({key: 1.0})
        np.testing.assert_array_equal(found.scores[counted], small.search({key: 1.0}).scores)
    assert large.search({term_key("epsilon"): 1.0}).matched.tolist() == [False, False, False, True, True]


# The reference


@quick
@given(st.lists(st.lists(st.sampled_from(vocabulary), max_size=8), max_size=8), queries)
def test_the_reference_scores_as_rank_bm25_does_over_the_same_terms(
    corpus: list[list[str]], query: list[str]
) -> None:
    files = {f"{number}.md": " ".join(document) + "\n" for number, document in enumerate(corpus)}
    index = ReferenceIndex(corpus_of(files), "files")
    hits = index.search({term_key(word): 2.0 for word in query})
    # Each file holds its path, and its words: the one section has no name and its first paragraph is prose.
    texts = [["md", *document] for document in corpus]
    expected = BM25Okapi(texts, epsilon=0).get_scores(query) * 2 if texts and query else np.zeros(len(texts))
    np.testing.assert_allclose(hits.scores, expected, rtol=1e-12)
    assert hits.matched.tolist() == [any(word in text for word in query) for text in texts]
    for word in query:
        assert index.frequency(term_key(word)) == sum(word in text for text in texts)
        assert index.idf(index.frequency(term_key(word))) >= 0
