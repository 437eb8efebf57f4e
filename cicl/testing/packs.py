"""Assertions on packs and cards. Their messages say what was selected instead, and why a unit was not."""

import re
from difflib import get_close_matches

from cicl.selection.cards import audit_card
from cicl.selection.graph import InstanceGraph
from cicl.selection.records import ContextPack, Judgment, MemoryCard
from cicl.text import replace_surrogates
from cicl.tokens import TOKTOK_ENCODINGS, vocabulary_on_disk

__all__ = [
    "assert_abstained",
    "assert_card_complete",
    "assert_not_selected",
    "assert_selected",
    "assert_within_budget",
]

_ELISION = "..."
_NUMBERED = re.compile(r"(?P<number>[1-9][0-9]*)\|(?: (?P<text>.*))?")


def assert_selected(pack: ContextPack, unit_id: str, *unit_ids: str) -> None:
    """Raise `AssertionError` unless the pack holds a card of every unit named."""
    selected = {card.unit_id for card in pack.cards}
    missing = [wanted for wanted in (unit_id, *unit_ids) if wanted not in selected]
    if missing:
        lines = [f"{wanted} was not selected: {_why_not(pack, wanted)}" for wanted in missing]
        raise AssertionError("\n".join([*lines, _selected(pack)]))


def assert_not_selected(pack: ContextPack, unit_id: str, *unit_ids: str) -> None:
    """Raise `AssertionError` when the pack holds a card of a unit named."""
    unwanted = {unit_id, *unit_ids}
    found = [card for card in pack.cards if card.unit_id in unwanted]
    if found:
        lines = [f"{card.unit_id} was selected: {_why(pack, card)}" for card in found]
        raise AssertionError("\n".join([*lines, _selected(pack)]))


def assert_abstained(pack: ContextPack) -> None:
    """Raise `AssertionError` unless the pack is empty and says why."""
    if pack.cards:
        raise AssertionError(f"the pack is not empty\n{_selected(pack)}")
    if not pack.notes:
        raise AssertionError("the pack is empty and has no note that says why")


def assert_within_budget(pack: ContextPack) -> None:
    """Raise `AssertionError` unless the text fits its budget by a count of our own.

    Counted by tiktoken where its vocabulary is on disk, else by toktok; where there is neither, the UTF-8
    bytes of the text have to fit, which no byte-level encoding exceeds.
    """
    text = replace_surrogates(pack.text)
    size = len(text.encode())
    counted, by = _count(text, pack.encoding)
    if counted > pack.budget:
        raise AssertionError(
            f"the text has {counted} tokens of {pack.encoding} by {by}, the budget is {pack.budget}; "
            f"the pack says {pack.tokens}"
        )
    if pack.tokens > pack.budget:
        raise AssertionError(f"the pack says {pack.tokens} tokens, its budget is {pack.budget}")
    if pack.tokens != (counted if pack.exact else size):
        kind = "exactly" if pack.exact else "at most"
        raise AssertionError(
            f"the pack says {kind} {pack.tokens} tokens; {by} counts {counted}, the text has {size} bytes"
        )
    if sum(card.tokens for card in pack.cards) > pack.tokens:
        raise AssertionError(f"the cards say more tokens than the text that holds them, {pack.tokens}")


def assert_card_complete(card: MemoryCard, graph: InstanceGraph | None = None) -> None:
    """Raise `AssertionError` unless a card has all that an agent needs.

    Five fields of text, none a placeholder; an action that begins with a verb; evidence of numbered lines in
    ascending order, inside the card's span. With `graph` each line has to stand at its number in the unit.
    """
    faults = [*audit_card(card), *_evidence_faults(card)]
    if not faults and graph is not None:
        faults = _quotation_faults(card, graph)
    if faults:
        raise AssertionError("\n".join(f"card {card.unit_id}: {fault}" for fault in faults))


def _why_not(pack: ContextPack, unit_id: str) -> str:
    reason = next((item.reason for item in pack.dropped if item.unit_id == unit_id), None)
    if reason is not None:
        return reason + _judged(pack, unit_id)
    known = [item.unit.id for item in pack.candidates]
    near = get_close_matches(unit_id, known, n=1)
    hint = f"; the nearest is {near[0]}" if near else ""
    return f"it is not among the {len(known)} candidates found for the task{hint}"


def _why(pack: ContextPack, card: MemoryCard) -> str:
    return f"its score is {card.causal_score:.3f}, when {card.trigger}" + _judged(pack, card.unit_id)


def _judged(pack: ContextPack, unit_id: str) -> str:
    judgment = pack.judgments.get(unit_id)
    if not isinstance(judgment, Judgment):
        return ""
    return (
        f" (action_shift {judgment.action_shift:.2f}, necessity {judgment.necessity:.2f}, "
        f"expected_outcome_uplift {judgment.expected_outcome_uplift:.2f}, "
        f"negative_transfer_risk {judgment.negative_transfer_risk:.2f}: {judgment.reason})"
    )


def _selected(pack: ContextPack) -> str:
    cards = [f"  {card.unit_id} ({card.causal_score:.3f}, {card.tokens} tokens)" for card in pack.cards]
    head = f"selected, {pack.tokens} of {pack.budget} tokens:"
    return "\n".join([head, *cards]) if cards else "\n".join(["selected: nothing", *pack.notes])


def _count(text: str, encoding: str) -> tuple[int, str]:
    """Count past our own counters and tables, so that a fault of theirs cannot hide here."""
    if vocabulary_on_disk(encoding):
        import tiktoken

        return len(tiktoken.get_encoding(encoding).encode(text, disallowed_special=())), "tiktoken"
    if encoding in TOKTOK_ENCODINGS:
        import toktok

        counts: list[int] = toktok.batch_count([text], encoding)
        return counts[0], "toktok"
    return len(text.encode()), "UTF-8 bytes"


def _evidence_faults(card: MemoryCard) -> list[str]:
    quoted = _quoted(card)
    numbers = [number for number, _ in quoted]
    if not quoted:
        return ["the evidence quotes no line"]
    if numbers != sorted(set(numbers)):
        return [f"the evidence is not in the order of its lines: {numbers}"]
    if card.span is not None and not card.span.start <= numbers[0] <= numbers[-1] <= card.span.end:
        return [f"the evidence quotes lines {numbers[0]} to {numbers[-1]}, outside {tuple(card.span)}"]
    strange = [
        line for line in card.evidence.split("\n") if line != _ELISION and not _NUMBERED.fullmatch(line)
    ]
    return [f"the evidence has a line without a number: {strange[0]!r}"] if strange else []


def _quoted(card: MemoryCard) -> list[tuple[int, str]]:
    matches = [_NUMBERED.fullmatch(line) for line in card.evidence.split("\n")]
    return [(int(match["number"]), match["text"] or "") for match in matches if match]


def _quotation_faults(card: MemoryCard, graph: InstanceGraph) -> list[str]:
    if card.unit_id not in graph:
        return ["the graph has no such unit"]
    unit = graph.unit(card.unit_id)
    first = unit.span.start if unit.span else 1
    lines = unit.content.split("\n")
    for number, text in _quoted(card):
        place = number - first
        stands = lines[place] if 0 <= place < len(lines) else ""
        # A long line is cut after a word, where the evidence has three dots.
        if not stands.startswith(text.removesuffix(" " + _ELISION)):
            return [f"line {number} is {stands!r}; the evidence has {text!r}"]
    return []
