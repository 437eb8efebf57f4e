"""Explanation: a pack as a table for a person, and as data for a program."""

import math
from collections.abc import Iterable, Mapping
from dataclasses import asdict
from typing import Any

from cicl.selection.records import Candidate, ContextPack, Judgment, Unjudged
from cicl.selection.rendering import one_line

__all__ = ["explain", "to_data"]

MAX_REFUSED_ROWS = 12
"""Of what is not in the pack; the rest is counted, and whole in the data."""
MAX_EVIDENCE = 3
TABLE_HEAD = "utility = action necess uplift   risk   cost  tokens  unit"
SHOWN_LAST = frozenset(
    """
    irreplaceable is_memory is_prose is_test is_whole_file substance
    task_covered task_known task_matched
    """.split()
)
"""What kind of thing a unit is, and what holds of every unit, never was the reason to find it."""


def to_data(pack: ContextPack) -> dict[str, Any]:
    """Return a pack as values that JSON can hold, in a fixed order."""
    return {
        "task": pack.task.text,
        "budget": pack.budget,
        "tokens": pack.tokens,
        "encoding": pack.encoding,
        "exact": pack.exact,
        "utility": pack.utility,
        "utility_bound": pack.utility_bound,
        "cards": [
            {
                "unit_id": card.unit_id,
                "kind": card.kind,
                "trigger": card.trigger,
                "evidence": card.evidence,
                "action": card.action,
                "consequence": card.consequence,
                "scope": card.scope,
                "causal_score": card.causal_score,
                "tokens": card.tokens,
                "span": list(card.span) if card.span else None,
            }
            for card in pack.cards
        ],
        "judgments": {unit_id: _judgment(answer) for unit_id, answer in pack.judgments.items()},
        "evidence": {item.unit.id: [seen._asdict() for seen in item.evidence] for item in pack.candidates},
        "dropped": [item._asdict() for item in pack.dropped],
        "skipped_files": [item._asdict() for item in pack.skipped_files],
        "notes": list(pack.notes),
        "text": pack.text,
        "receipt": pack.receipt,
    }


def _judgment(answer: Judgment | Unjudged) -> dict[str, Any]:
    return asdict(answer) if isinstance(answer, Judgment) else {"unjudged": answer.reason}


def explain(pack: ContextPack, width: int = 110) -> str:
    """Return a table: each unit in or out and why, its evidence, its utility part by part, its tokens."""
    candidates = {item.unit.id: item for item in pack.candidates}
    lines = [_summary(pack)]
    if pack.cards:
        tokens = {card.unit_id: card.tokens for card in pack.cards}
        lines += ["", *_table(pack, tokens, tokens)]
    for card in pack.cards:
        lines += ["", f"  {one_line(card.unit_id)}", *_evidence(candidates[card.unit_id], width)]
    left_out = sorted(pack.dropped, key=lambda item: (-_total(pack, item.unit_id), item.unit_id))
    if left_out:
        costs = {item.unit_id: candidates[item.unit_id].unit.token_cost for item in left_out}
        shown = left_out[:MAX_REFUSED_ROWS]
        lines += ["", f"left out ({len(left_out)}):", *_table(pack, [item.unit_id for item in shown], costs)]
        lines += ["", *(_clip(f"  {item.unit_id}: {item.reason}", width) for item in shown)]
        if len(left_out) > len(shown):
            lines.append(f"  and {len(left_out) - len(shown)} more; --json has them all")
    lines += _remarks(pack)
    return "\n".join(lines) + "\n"


def _summary(pack: ContextPack) -> str:
    counted = pack.encoding if pack.exact else f"bytes, a bound for {pack.encoding}"
    share = pack.utility / pack.utility_bound if pack.utility_bound > 0 else 1.0
    return (
        f"{len(pack.cards)} of {len(pack.candidates)} candidates, {pack.tokens} of {pack.budget} tokens "
        f"({counted}), utility {pack.utility:.3f}, at least {math.floor(share * 100)}% of the best possible "
        f"{pack.utility_bound:.3f}; receipt {pack.receipt[:12]}"
    )


def _table(pack: ContextPack, unit_ids: Iterable[str], tokens: Mapping[str, int]) -> list[str]:
    rows = [TABLE_HEAD]
    for unit_id in unit_ids:
        terms = pack.utilities.get(unit_id)
        parts = (terms.action, terms.necessity, terms.outcome, terms.risk, terms.cost) if terms else ()
        numbers = " ".join(f"{part + 0.0:6.3f}" for part in parts) or f"{'not judged':34}"
        total = f"{terms.total:7.3f}" if terms else " " * 7
        rows.append(f"{total} = {numbers}  {tokens[unit_id]:6d}  {one_line(unit_id)}")
    return rows


def _evidence(candidate: Candidate, width: int) -> list[str]:
    ordered = sorted(candidate.evidence, key=lambda item: (item.name in SHOWN_LAST, -item.value, item.name))
    return [
        _clip(f"    {item.name} {item.value:.2f}: {item.detail}", width) for item in ordered[:MAX_EVIDENCE]
    ]


def _remarks(pack: ContextPack) -> list[str]:
    lines = [""] if pack.notes or pack.skipped_files else []
    lines += [f"note: {one_line(note)}" for note in pack.notes]
    if pack.skipped_files:
        first = ", ".join(f"{item.path} ({item.reason})" for item in pack.skipped_files[:2])
        lines.append(f"not read: {len(pack.skipped_files)}, among them {one_line(first)}")
    return lines


def _total(pack: ContextPack, unit_id: str) -> float:
    terms = pack.utilities.get(unit_id)
    return terms.total if terms else float("-inf")


def _clip(text: str, width: int) -> str:
    text = one_line(text)
    return text if len(text) <= width else text[: width - 3] + "..."
