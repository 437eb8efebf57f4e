from collections.abc import Mapping, Sequence

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from cicl.selection.corpus import Corpus
from cicl.selection.graph import InstanceGraph, extract_unit
from cicl.selection.queries import parse_task
from cicl.selection.records import ContextUnit, Edge, Task
from cicl.selection.retrieval import (
    DECAY,
    Backend,
    Found,
    RetrievalSettings,
    Retriever,
    SearchIndex,
    mention_score,
)
from cicl.selection.segments import Segment, build_segment
from cicl.selection.sources.extraction import extract
from cicl.text import TermSplitter, term_key

quick = settings(deadline=None, max_examples=40, database=None, suppress_health_check=[HealthCheck.too_slow])

FILES = {
    "shop/cart.py": """\
from shop.prices import total


class Cart:
    '''Holds articles until checkout.'''

    def checkout(self):
        return total(self.articles)

    def clear(self):
        self.articles = []
""",
    "shop/prices.py": """\
def total(articles):
    '''Sum up with discounts.'''
    return sum(articles)

def tax(x): ...
""",
    "shop/mail.py": """\
def send_receipt(address):
    '''Mail a receipt to the customer.'''
    connect(address)
""",
    "tests/test_cart.py": """\
from shop.cart import Cart


def test_checkout():
    assert Cart().checkout() == 0
""",
    "docs/discounts.md": """\
# Discounts

A discount is subtracted before tax.

# Mail

Receipts are mailed.
""",
    "empty.py": "",
}


def segment_of(files: Mapping[str, str]) -> Segment:
    return build_segment([extract(path, files[path], "d") for path in sorted(files)])


def graph_of(files: Mapping[str, str]) -> InstanceGraph:
    return InstanceGraph(Corpus([segment_of(files)]))


def find(
    graph: InstanceGraph,
    text: str,
    *,
    open_files: tuple[str, ...] = (),
    options: RetrievalSettings | None = None,
    backend: Backend = "fielded",
) -> tuple[Found, ...]:
    task = Task(text=text, open_files=open_files)
    return Retriever(graph, options, backend).find(task, parse_task(task, TermSplitter()))


def ids(found: Sequence[Found]) -> list[str]:
    return [item.unit_id for item in found]


# What is found


@pytest.mark.parametrize("backend", ["fielded", "rank-bm25"])
@pytest.mark.parametrize("text", ["", "the of and", "zzzz qqqq", "{}"])
def test_a_task_that_matches_nothing_finds_nothing(text: str, backend: Backend) -> None:
    assert find(graph_of(FILES), text, backend=backend) == ()


@pytest.mark.parametrize("backend", ["fielded", "rank-bm25"])
def test_an_instance_without_files_finds_nothing(backend: Backend) -> None:
    for graph in (
        graph_of({}),
        InstanceGraph(Corpus([])),
        graph_of({"empty.py": ""}),
        InstanceGraph.from_units([]),
    ):
        assert find(graph, "checkout the cart", backend=backend) == ()


@pytest.mark.parametrize("backend", ["fielded", "rank-bm25"])
@pytest.mark.parametrize(
    ("text", "best"),
    [
        ("mail a receipt to the customer", "shop/mail.py::send_receipt"),
        ("checkout of a cart that holds articles", "shop/cart.py::Cart"),
        ("sum up with discounts", "shop/prices.py::total"),
    ],
)
def test_the_unit_that_speaks_of_it_is_found_first_by_either_backend(
    text: str, best: str, backend: Backend
) -> None:
    found = find(graph_of(FILES), text, backend=backend)
    assert next(item.unit_id for item in found if "::" in item.unit_id) == best


@pytest.mark.parametrize("backend", ["fielded", "rank-bm25"])
@pytest.mark.parametrize("text", ["连接池超时怎么修", "池超时", "数据库", "请看文档/说明.md"])
def test_a_task_in_chinese_finds_what_is_written_in_chinese(text: str, backend: Backend) -> None:
    chinese = {
        "文档/说明.md": "# 数据库\n\n连接池超时，需要重试。\n",
        "文档/其他.md": "# 无关\n\n别的内容。\n",
    }
    found = find(graph_of({**FILES, **chinese}), text, backend=backend)
    assert found[0].unit_id.startswith("文档/说明.md")


def test_what_the_task_names_is_found_even_where_no_word_matches_its_text() -> None:
    found = {item.unit_id: item for item in find(graph_of(FILES), "look at shop/prices.py:5 please")}
    assert found["shop/prices.py::tax"].mentions[0].mention.text == "shop/prices.py"
    assert found["shop/prices.py::tax"].rank_score == 1.0


def test_open_files_are_candidates_and_unknown_ones_are_not() -> None:
    found = find(graph_of(FILES), "zzzz", open_files=("shop/mail.py", "gone.py"))
    assert "shop/mail.py" in ids(found)
    assert "gone.py" not in ids(found)
    assert all(item.rank_score == 0 for item in found)


def test_neighbours_are_found_one_hop_away_with_decayed_scores() -> None:
    found = {item.unit_id: item for item in find(graph_of(FILES), "`Cart.checkout`")}
    seed = found["shop/cart.py::Cart.checkout"]
    hops = {(hop.seed, hop.kind, hop.outward): hop.score for hop in found["shop/prices.py::total"].hops}
    assert hops["shop/cart.py::Cart.checkout", "calls", True] <= DECAY["calls"] * seed.rank_score
    assert found["shop/prices.py::total"].rank_score >= DECAY["calls"] * 0.9
    assert any(
        hop.kind == "tests" and not hop.outward for hop in found["tests/test_cart.py::test_checkout"].hops
    )


def test_settings_bound_what_is_found() -> None:
    files = {f"m{number:02}.py": f"def parser_{number}(): ...\n" for number in range(40)}
    options = RetrievalSettings(parts=3, files=2, seeds=0, neighbours=0)
    found = find(graph_of(files), "the parser", options=options)
    assert sum("::" in unit_id for unit_id in ids(found)) <= 5
    assert sum("::" not in unit_id for unit_id in ids(found)) <= 2
    assert ids(find(graph_of(files), "parser", options=RetrievalSettings(parts=3, files=0, seeds=0))) == [
        *("m00.py::parser_0", "m01.py::parser_1", "m02.py::parser_2")
    ]


def test_a_rare_word_says_more_than_a_common_one() -> None:
    retriever = Retriever(graph_of(FILES))
    assert retriever.term_weight(term_key("receipt")) > retriever.term_weight(term_key("py"))
    assert retriever.term_weight(term_key("zzzz")) >= retriever.term_weight(term_key("receipt"))
    assert retriever.is_known(term_key("receipt"))
    assert not retriever.is_known(term_key("zzzz"))


def test_which_units_hold_which_terms_is_read_from_the_index() -> None:
    retriever = Retriever(graph_of(FILES))
    units = ["shop/mail.py", "shop/mail.py::send_receipt", "gone.py", "docs/discounts.md::mail"]
    held = retriever.holds(units, [term_key(term) for term in ("receipt", "tax", "zzzz")])
    assert held.tolist() == [
        [True, False, False],
        [True, False, False],
        [False, False, False],
        [True, False, False],
    ]


def test_what_earlier_runs_left_is_found_and_makes_no_word_common() -> None:
    trace = ContextUnit(
        id="trace/1", kind="trace", source="trace/1", content="task: mail a receipt\nit failed"
    )
    corpus = graph_of(FILES).corpus
    graph = InstanceGraph(
        Corpus([*corpus.segments, build_segment([extract_unit(trace)])]),
        given={"trace/1": trace},
        edges=[Edge("trace/1", "shop/mail.py::send_receipt", "remembers")],
    )
    plain = {item.unit_id: item for item in find(graph_of(FILES), "mail a receipt")}
    found = {item.unit_id: item for item in find(graph, "mail a receipt")}
    assert "trace/1" in found
    for unit_id in ("shop/mail.py", "shop/mail.py::send_receipt"):
        assert found[unit_id].lexical == plain[unit_id].lexical
        assert found[unit_id].file_lexical == plain[unit_id].file_lexical


# Order


texts = st.lists(
    st.sampled_from(["alpha beta\n", "beta\n", "alpha\n\n# Part\n\nbeta gamma\n", "gamma\n"]),
    min_size=4,
    max_size=8,
)


@quick
@given(texts, st.permutations(range(8)), st.lists(st.integers(0, 2), min_size=8, max_size=8))
def test_the_answer_does_not_depend_on_how_the_corpus_came_about(
    contents: list[str], order: list[int], places: list[int]
) -> None:
    files = {f"d{number}.md": text for number, text in enumerate(contents)}
    names = [f"d{number}.md" for number in order if f"d{number}.md" in files]
    pieces = [
        {name: files[name] for name, place in zip(names, places, strict=False) if place == segment}
        for segment in range(3)
    ]
    outdated = segment_of({"d0.md": "alpha alpha gamma old\n"})
    corpus = Corpus([outdated, *(segment_of(piece) for piece in pieces)])
    for options in (
        RetrievalSettings(),
        RetrievalSettings(parts=2, files=1, parts_per_file=1, seeds=1, neighbours=1),
    ):
        for text in ("alpha", "beta gamma", "d1.md alpha"):
            assert find(InstanceGraph(corpus), text, options=options) == find(
                graph_of(files), text, options=options
            )


@quick
@given(
    st.lists(
        st.sampled_from(
            "mail receipt cart checkout tax total discount shop zzzz `Cart` shop/mail.py".split()
        ),
        max_size=6,
    )
)
def test_scores_are_in_range_and_in_order(task: list[str]) -> None:
    backends: tuple[Backend, ...] = ("fielded", "rank-bm25")
    for backend in backends:
        found = find(graph_of(FILES), " ".join(task), backend=backend)
        assert [(-item.rank_score, item.unit_id) for item in found] == sorted(
            (-item.rank_score, item.unit_id) for item in found
        )
        for item in found:
            for value in (item.lexical, item.file_lexical, item.rank_score, mention_score(item.mentions)):
                assert 0 <= value <= 1
            assert all(0 <= hop.score <= 1 for hop in item.hops)
            assert [hop.score for hop in item.hops] == sorted((hop.score for hop in item.hops), reverse=True)
        assert len(set(ids(found))) == len(found)


def test_both_backends_are_search_indexes() -> None:
    for backend in ("fielded", "rank-bm25"):
        index: SearchIndex = Retriever(graph_of(FILES), backend=backend)._parts
        assert index.frequency(term_key("receipt")) == 2
        assert index.idf(1) > index.idf(2) >= 0
