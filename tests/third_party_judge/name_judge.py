"""What bears a name that the task uses is what to act on."""

from cicl import Judgment


class NameJudge:
    name = "names"

    def judge(self, task, candidates, context, graph):
        known = {unit.id for unit in context}
        return [self._judge(item, item.unit.id in known) for item in candidates]

    def _judge(self, item, known):
        strength = item.value("name_match")
        return Judgment(
            no_context_action="search for the task's words",
            with_context_action=f"read {item.unit.id}",
            action_shift=0.0 if known else strength,
            necessity=strength * item.value("irreplaceable"),
            expected_outcome_uplift=strength,
            negative_transfer_risk=item.value("outdated"),
            reason=f"its name shares {strength:.0%} of its words with the task",
            confidence=0.5,
        )
