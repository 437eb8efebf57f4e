"""Why an item that could have been chosen was not."""

from collections.abc import Iterator

from cicl.selection.knapsack.problem import OUT, Picks, Problem, members

__all__ = ["explain"]


def explain(problem: Problem, picks: Picks) -> Iterator[tuple[str, str]]:
    """Yield the unit id of every item that is out, and the first reason that applies."""
    chosen = sum(1 << item for item, pick in enumerate(picks) if pick != OUT)
    for item, pick in enumerate(picks):
        if pick == OUT:
            yield problem.unit_ids[item], _reason(problem, picks, chosen, item)


def _reason(problem: Problem, picks: Picks, chosen: int, item: int) -> str:
    if item < problem.tied:
        return (
            _clash(problem, chosen, item)
            or _idle(problem, item)
            or _prerequisite(problem, chosen, item)
            or _repetition(problem, chosen, item)
            or _no_room(problem, picks, item)
        )
    return _no_room(problem, picks, item)


def _top(problem: Problem, item: int) -> int:
    return max(option.weight for option in problem.options[item])


def _clash(problem: Problem, chosen: int, item: int) -> str:
    clashing = list(members(problem.clashes[item] & chosen))
    if not clashing:
        return ""
    other = max(clashing, key=lambda position: (_top(problem, position), -position))
    worth_more = problem.worth(_top(problem, other)) > problem.worth(_top(problem, item))
    why = "is worth more" if worth_more else "goes better with the rest"
    return f"conflicts with {problem.unit_ids[other]}, which {why}"


def _idle(problem: Problem, item: int) -> str:
    if problem.worth(_top(problem, item)) > 0:
        return ""
    return "adds nothing, and nothing chosen requires it"


def _prerequisite(problem: Problem, chosen: int, item: int) -> str:
    for other in members(problem.needs[item] & ~chosen & ~(1 << item)):
        return f"requires {problem.unit_ids[other]}, and together they are not worth their place"
    return ""


def _repetition(problem: Problem, chosen: int, item: int) -> str:
    overlaps = {j: weight for j, weight in problem.overlaps[item].items() if chosen >> j & 1}
    if not overlaps or problem.worth(_top(problem, item) - sum(overlaps.values())) > 0:
        return ""
    other = max(overlaps, key=lambda position: (overlaps[position], -position))
    return f"repeats {problem.unit_ids[other]}"


def _no_room(problem: Problem, picks: Picks, item: int) -> str:
    used, remembered = 0, 0
    for options, memory, pick in zip(problem.options, problem.memory, picks, strict=True):
        if pick != OUT:
            used += options[pick].tokens
            remembered += options[pick].tokens if memory else 0
    least = min(option.tokens for option in problem.options[item])
    left, memory_left = problem.budget - used, problem.memory_budget - remembered
    if problem.memory[item] and memory_left < min(least, left + 1):
        return f"no room left for memory: takes {least} tokens, {memory_left} are left"
    return f"no room left: takes {least} tokens, {left} are left"
