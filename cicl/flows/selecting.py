"""Selection from end to end: a task and an instance in, a pack out."""

import hashlib
import json
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import combinations
from types import MappingProxyType

from cicl.flows.instance import Instance
from cicl.selection.cards import COMPACT_LINES, line_weights, make_card, own_text
from cicl.selection.evidence import Observer, observe
from cicl.selection.judging import Judge, ask
from cicl.selection.packing import Constraints, Item, Packing, Rendering, pack
from cicl.selection.queries import parse_task
from cicl.selection.records import (
    MEMORY_KINDS,
    Candidate,
    ContextPack,
    ContextUnit,
    Dropped,
    Judgment,
    MemoryCard,
    Span,
    Task,
    Unjudged,
    UtilityTerms,
)
from cicl.selection.relations import is_nested
from cicl.selection.rendering import FRAME, render_card, render_pack
from cicl.selection.retrieval import DECAY, Found, Hop
from cicl.selection.utility import Admission, UtilityWeights, utility_terms, why_refused
from cicl.text import TermSplitter, words
from cicl.tokens import TokenCounter

__all__ = ["SelectOptions", "select"]

MEMORY_SHARE = 0.2
"""Of the budget: what an agent's own past may take at most, so that it cannot crowd out evidence."""
COMPACT_WORTH = 0.6
"""A card cut to its most decisive lines is worth this share of the longer one."""
SAME_FILE_WORTH = 0.4
"""What a unit beside a better one of its file keeps of its utility. On the tune issues a candidate in the
right file is the right one about one time in ten; asking the judge again about each pair would cost more."""
MAX_COUNTED_CHARS = 20_000
"""Of a candidate's text: some 5,000 tokens, while what a unit costs is at its most from 1,000 on."""
REDUNDANCY_FROM = 0.3
"""Jaccard similarity of two units' words from which the second one is worth less beside the first."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SelectOptions:
    """What may be asked of one selection."""

    budget: int
    encoding: str
    rounds: int = 1
    """How often the judge is asked at most; after the first time about what is still undecided."""
    weights: UtilityWeights = field(default_factory=UtilityWeights)
    admission: Admission = field(default_factory=Admission)
    memory_share: float = MEMORY_SHARE
    delivered: Mapping[str, str] = field(default_factory=lambda: MappingProxyType({}))
    """Digest by id of the units that this session was given before."""


@dataclass(frozen=True)
class _Case:
    """One selection under way."""

    instance: Instance
    task: Task
    options: SelectOptions
    observer: Observer
    counter: TokenCounter
    candidates: Mapping[str, Candidate]
    """By id, in the order found."""
    withheld: frozenset[str]
    """Delivered before and unchanged: part of C⁻, never sent again."""

    @property
    def known(self) -> frozenset[str]:
        """What the agent has already, so that it need not be sent with what requires it."""
        return self.withheld.union(self.task.open_files)


@dataclass(frozen=True, slots=True)
class _Verdicts:
    judgments: Mapping[str, Judgment | Unjudged]
    utilities: Mapping[str, UtilityTerms]
    refused: Mapping[str, str]
    """Reason by id."""


def select(instance: Instance, task: Task, judge: Judge, options: SelectOptions) -> ContextPack:
    """Choose what the agent reads next; raises `JudgmentInvalid` when the judge breaks its contract."""
    case = _open(instance, task, options)
    verdicts = _judge(case, judge, list(case.candidates.values()), case.observer.context)
    drafts = _draft(case, verdicts)
    packing = _pack(case, drafts)
    for _ in range(1, options.rounds):
        chosen = [unit_id for unit_id, _ in packing.chosen]
        undecided = [item for unit_id, item in case.candidates.items() if unit_id not in set(chosen)]
        if not chosen or not undecided:
            break
        context = [*case.observer.context, *(case.candidates[unit_id].unit for unit_id in chosen)]
        verdicts = _merge(verdicts, _judge(case, judge, undecided, context), chosen)
        drafts = _draft(case, verdicts)
        packing = _pack(case, drafts)
    return _finish(case, verdicts, drafts, packing)


def _open(instance: Instance, task: Task, options: SelectOptions) -> _Case:
    splitter = TermSplitter()
    query = parse_task(task, splitter)
    found = _with_requirements(instance, instance.retriever.find(task, query))
    withheld = _withheld(instance, task, options.delivered)
    known = dict.fromkeys([*task.open_files, *sorted(withheld)])
    context = tuple(instance.graph.unit(unit_id) for unit_id in known if unit_id in instance.graph)
    observer = Observer(
        graph=instance.graph,
        retriever=instance.retriever,
        task=task,
        query=query,
        found=found,
        context=context,
        history=instance.history,
        splitter=splitter,
    )
    counter = instance.counter(options.encoding)
    candidates = _count(observe(observer), counter)
    return _Case(
        instance, task, options, observer, counter, {item.unit.id: item for item in candidates}, withheld
    )


def _with_requirements(instance: Instance, found: Sequence[Found]) -> list[Found]:
    """Add what the finds cannot do without, however far away: nothing is sent without its precondition."""
    known = {item.unit_id: item for item in found}
    pending = list(found)
    while pending:
        item = pending.pop()
        for target in instance.graph.requirements(item.unit_id):
            if target not in known and target in instance.graph:
                score = item.rank_score * DECAY["requires"]
                hop = Hop(item.unit_id, "requires", True, score)
                known[target] = Found(unit_id=target, rank_score=score, hops=(hop,))
                pending.append(known[target])
    return sorted(known.values(), key=lambda item: (-item.rank_score, item.unit_id))


def _withheld(instance: Instance, task: Task, delivered: Mapping[str, str]) -> frozenset[str]:
    """What reached the agent before and reads the same today; a changed unit may be sent again."""
    unchanged = {
        unit_id
        for unit_id, digest in delivered.items()
        if unit_id in instance.graph and digest in ("", instance.graph.unit(unit_id).digest)
    }
    return frozenset(unchanged.union(task.already_delivered))


def _count(candidates: Sequence[Candidate], counter: TokenCounter) -> list[Candidate]:
    costs = counter.count_batch([_counted_text(item.unit) for item in candidates])
    return [
        replace(item, unit=replace(item.unit, token_cost=cost))
        for item, cost in zip(candidates, costs, strict=True)
    ]


def _counted_text(unit: ContextUnit) -> str:
    text = own_text(unit)
    if len(text) <= MAX_COUNTED_CHARS:
        return text
    # Cut after a whole line: half a word is a piece that no table knows, and costs a vocabulary to count.
    return text[: text.rfind("\n", 0, MAX_COUNTED_CHARS) + 1] or text[:MAX_COUNTED_CHARS]


def _judge(
    case: _Case, judge: Judge, candidates: Sequence[Candidate], context: Sequence[ContextUnit]
) -> _Verdicts:
    answers = ask(judge, case.task, candidates, context, case.instance.graph)
    judgments = {item.unit.id: answer for item, answer in zip(candidates, answers, strict=True)}
    utilities: dict[str, UtilityTerms] = {}
    refused: dict[str, str] = {}
    for candidate in candidates:
        unit_id, answer = candidate.unit.id, judgments[candidate.unit.id]
        if isinstance(answer, Unjudged):
            refused[unit_id] = f"not judged: {answer.reason}"
            continue
        terms = utility_terms(answer, candidate.unit.token_cost, case.options.weights)
        utilities[unit_id] = terms
        reason = why_refused(answer, terms, case.options.admission)
        if unit_id in case.withheld:
            reason = "already delivered in this session"
        if reason is not None:
            refused[unit_id] = reason
    return _Verdicts(judgments, utilities, refused)


def _merge(before: _Verdicts, after: _Verdicts, chosen: Collection[str]) -> _Verdicts:
    """What is chosen keeps its first judgment: it was made without itself in C⁻."""
    refused = {unit_id: reason for unit_id, reason in before.refused.items() if unit_id in chosen}
    return _Verdicts(
        {**before.judgments, **after.judgments},
        {**before.utilities, **after.utilities},
        {**refused, **after.refused},
    )


@dataclass(frozen=True, slots=True)
class _Draft:
    """The renderings a unit offers, longest first."""

    cards: tuple[MemoryCard, ...]
    worths: tuple[float, ...]


def _draft(case: _Case, verdicts: _Verdicts) -> dict[str, _Draft]:
    offered = [unit_id for unit_id in case.candidates if unit_id not in verdicts.refused]
    needed = _prerequisites(case, verdicts, offered)
    worths = _worths(case, verdicts, offered)
    drafts: dict[str, list[tuple[MemoryCard, float]]] = {}
    for unit_id in [*offered, *needed]:
        candidate, judgment = case.candidates[unit_id], verdicts.judgments[unit_id]
        assert isinstance(judgment, Judgment)
        utility = verdicts.utilities[unit_id].total
        worth = worths.get(unit_id, min(0.0, utility))
        drafts[unit_id] = list(_renderings(case, candidate, judgment, utility, worth))
    flat = [card for items in drafts.values() for card, _ in items]
    counts = iter(case.counter.count_batch([render_card(card) for card in flat]))
    return {
        unit_id: _Draft(
            tuple(replace(card, tokens=next(counts)) for card, _ in items), tuple(worth for _, worth in items)
        )
        for unit_id, items in drafts.items()
    }


def _worths(case: _Case, verdicts: _Verdicts, offered: Sequence[str]) -> dict[str, float]:
    """What each offered unit adds: the best one of a file its utility, every other one a share of it.

    Most of what a card does is to send the agent to the right file, and that is done once.
    """
    worths: dict[str, float] = {}
    led: set[str] = set()
    for unit_id in sorted(offered, key=lambda unit_id: (-verdicts.utilities[unit_id].total, unit_id)):
        unit, utility = case.candidates[unit_id].unit, verdicts.utilities[unit_id].total
        worths[unit_id] = utility * SAME_FILE_WORTH if unit.span and unit.source in led else utility
        led.add(unit.source)
    return worths


def _prerequisites(case: _Case, verdicts: _Verdicts, offered: Sequence[str]) -> list[str]:
    """Units refused for being worth too little by themselves, which an offered unit cannot do without."""
    needed: dict[str, None] = {}
    pending = list(offered)
    while pending:
        for target in case.instance.graph.requirements(pending.pop()):
            judgment = verdicts.judgments.get(target)
            if target in offered or target in needed or target in case.known:
                continue
            if isinstance(judgment, Judgment) and not _is_risky(judgment):
                needed[target] = None
                pending.append(target)
    return list(needed)


def _is_risky(judgment: Judgment) -> bool:
    return judgment.negative_transfer_risk > max(judgment.expected_outcome_uplift, 0.5)


def _renderings(
    case: _Case, candidate: Candidate, judgment: Judgment, utility: float, worth: float
) -> Iterable[tuple[MemoryCard, float]]:
    weights = line_weights(candidate.unit, case.observer.weights, case.observer.splitter)
    card = make_card(candidate, judgment, utility, weights)
    yield card, worth
    compact = make_card(candidate, judgment, utility, weights, lines=COMPACT_LINES)
    if compact.evidence != card.evidence:
        yield compact, worth * COMPACT_WORTH if worth > 0 else worth


def _pack(case: _Case, drafts: Mapping[str, _Draft]) -> Packing:
    room = case.options.budget - case.counter.count(FRAME)
    graph, known = case.instance.graph, case.known
    items = [
        Item(
            unit_id=unit_id,
            renderings=tuple(
                Rendering(tokens=card.tokens, utility=worth)
                for card, worth in zip(draft.cards, draft.worths, strict=True)
            ),
            memory=case.candidates[unit_id].unit.kind in MEMORY_KINDS,
            requires=tuple(item for item in graph.requirements(unit_id) if item not in known),
        )
        for unit_id, draft in sorted(drafts.items())
    ]
    return pack(
        items,
        Constraints(
            budget=max(0, room),
            memory_budget=max(0, int(case.options.budget * case.options.memory_share)),
            exclusive=_exclusive(case, list(drafts)),
            redundancy=_redundancy(case, drafts),
        ),
    )


def _exclusive(case: _Case, unit_ids: Sequence[str]) -> tuple[tuple[str, str], ...]:
    """Pairs of which one is enough: a unit beside its own part, and two that contradict each other."""
    offered = set(unit_ids)
    units = [case.candidates[unit_id].unit for unit_id in sorted(unit_ids)]
    pairs = {(one.id, other.id) for one, other in combinations(units, 2) if _is_part(one, other)}
    for unit_id in unit_ids:
        for edge in case.instance.graph.edges_from(unit_id):
            if edge.kind == "conflicts":
                rivals = (other for other in offered if _stands_in(other, edge.target) and other != unit_id)
                pairs.update((min(unit_id, other), max(unit_id, other)) for other in rivals)
    return tuple(sorted(pairs))


def _stands_in(unit_id: str, other: str) -> bool:
    """Whether a unit is another one, or stands in it: what contradicts a file contradicts its parts."""
    return unit_id == other or unit_id.startswith(f"{other}::")


def _is_part(one: ContextUnit, other: ContextUnit) -> bool:
    """A unit and its own part: nested by id, and where both have lines, one inside the other."""
    if not is_nested(one.id, other.id):
        return False
    if one.span is None or other.span is None:
        return True
    first, last = max(one.span.start, other.span.start), min(one.span.end, other.span.end)
    return Span(first, last) in (one.span, other.span)


def _redundancy(case: _Case, drafts: Mapping[str, _Draft]) -> dict[tuple[str, str], float]:
    """What a pair is worth less than its sum: the smaller worth times the likeness of the two."""
    bags = {unit_id: frozenset(words(own_text(case.candidates[unit_id].unit))) for unit_id in drafts}
    pairs: dict[tuple[str, str], float] = {}
    for one, other in combinations(sorted(drafts), 2):
        union = len(bags[one] | bags[other])
        likeness = len(bags[one] & bags[other]) / union if union else 0.0
        least = min(drafts[one].worths[0], drafts[other].worths[0])
        if likeness >= REDUNDANCY_FROM and least > 0:
            pairs[one, other] = likeness * least
    return pairs


def _finish(case: _Case, verdicts: _Verdicts, drafts: Mapping[str, _Draft], packing: Packing) -> ContextPack:
    cards = [drafts[unit_id].cards[choice] for unit_id, choice in packing.chosen]
    cards.sort(key=lambda card: (-card.causal_score, card.unit_id))
    text = render_pack(cards)
    tokens = case.counter.count(text)
    notes = [*case.instance.notes, *_unknown_files(case)]
    if not cards:
        notes.append(_why_empty(case, verdicts))
        if tokens > case.options.budget:
            text, tokens = "", 0
    chosen = {card.unit_id for card in cards}
    dropped = [
        Dropped(unit_id, verdicts.refused.get(unit_id) or packing.dropped.get(unit_id, "not offered"))
        for unit_id in sorted(case.candidates)
        if unit_id not in chosen
    ]
    return ContextPack(
        task=case.task,
        cards=tuple(cards),
        text=text,
        budget=case.options.budget,
        tokens=tokens,
        encoding=case.options.encoding,
        exact=case.counter.exact,
        utility=packing.value,
        utility_bound=packing.bound,
        candidates=tuple(case.candidates[unit_id] for unit_id in sorted(case.candidates)),
        judgments=MappingProxyType(dict(sorted(verdicts.judgments.items()))),
        utilities=MappingProxyType(dict(sorted(verdicts.utilities.items()))),
        dropped=tuple(dropped),
        skipped_files=case.instance.skipped,
        notes=tuple(notes),
        receipt=_receipt(case, text, cards),
    )


def _unknown_files(case: _Case) -> Iterable[str]:
    skipped = dict(case.instance.skipped)
    for path in case.task.open_files:
        if path not in case.instance.graph:
            yield f"the open file {path} is not known here: {skipped.get(path, 'no such unit')}"


def _why_empty(case: _Case, verdicts: _Verdicts) -> str:
    if not case.observer.query.terms:
        return "nothing was selected: the task holds no word to look for"
    if not case.candidates:
        return "nothing was selected: no unit holds a word of the task"
    if len(verdicts.refused) == len(case.candidates):
        return (
            f"nothing was selected: of {len(case.candidates)} units that share words with the task, "
            "none would change the next action for the better"
        )
    return "nothing was selected: no card fits the budget"


def _receipt(case: _Case, text: str, cards: Sequence[MemoryCard]) -> str:
    record = [
        case.instance.graph.instance_id,
        case.task.text,
        case.options.budget,
        case.options.encoding,
        text,
        [card.unit_id for card in cards],
    ]
    return hashlib.blake2b(json.dumps(record).encode(), digest_size=16).hexdigest()
