"""Whether a sentence tells its reader to do something."""

import re

__all__ = ["instructs"]

MAX_CHARS = 1500

_NORMATIVE = re.compile(
    r"\b(?:must|should|shall|never|always|do not|don['’]t|avoid|prefer|ensure|make sure|needs? to"
    r"|ha(?:ve|s) to|required to|(?:is|are) (?:not allowed|forbidden|prohibited|required|mandatory)"
    r"|not acceptable|cannot|can['’]t|may not|no exceptions|please|be sure|remember to|refrain"
    r"|only (?:use|run|edit|change|commit|when|if))\b",
    re.IGNORECASE,
)
_VERBS = (
    "accept|add|adhere|adopt|align|allow|annotate|append|apply|ask|assert|assume|attach|await|base|be"
    "|begin|block|break|bring|build|bump|cache|call|catch|change|check|choose|clean|close|collapse|commit"
    "|compile|configure|confirm|consider|consult|convert|copy|cover|create|declare|default|define|delete"
    "|deploy|describe|disable|do|document|download|drop|edit|emit|enable|enforce|escape|execute|explain"
    "|expose|export|extend|extract|favou?r|fetch|fix|focus|follow|format|generate|get|give|go|group|guard"
    "|handle|hide|hold|ignore|implement|import|include|inherit|inject|inline|inspect|install|invoke"
    "|isolate|keep|launch|leave|limit|link|list|load|log|look|maintain|make|mark|match|measure|merge"
    "|migrate|minimi[sz]e|mirror|mock|move|name|note|obey|open|optimi[sz]e|order|organi[sz]e|parse|pass"
    "|pin|place|plan|point|prefix|preserve|print|propose|provide|pull|push|put|raise|read|rebase|record"
    "|reduce|refactor|refer|regenerate|reject|release|rely|remember|remove|rename|replace|report|request"
    "|require|resolve|respect|respond|restart|return|reuse|review|revert|run|sanitize|save|scan|search"
    "|see|send|separate|set|share|ship|show|simplify|skip|sort|specify|split|squash|start|state|stay"
    "|stick|stop|store|strive|structure|submit|support|surface|switch|sync|tag|take|tell|test|think|throw"
    "|track|treat|try|type|update|upgrade|use|validate|verify|wait|watch|wrap|write"
)
_CONDITION = (
    r"(?:^|[.!?]\s+)(?:if|when|whenever|before|after|for|to|once|unless|while|in|on|at|with|where|during)"
    r"\b[^.!?]{1,200},\s+"
)
_IMPERATIVE = re.compile(
    rf"(?:^|[.!?;:]\s+|\bthen\s+|{_CONDITION})(?:(?:first|finally|next|instead|also|just),?\s+)?(?:{_VERBS})\b"
    r"(?!\s*(?:[:=/]|(?:\w+\s+)?(?:is|are|was|lives?|contains?|uses?|holds?|covers?)\b))",
    re.IGNORECASE,
)
_OTHER_LANGUAGES = re.compile(
    r"必须|必須|不要|禁止|不得|务必|應該|应该|应当|避免|请|請|してください|しないで|해야|하지 마|금지"
    r"|\b(?:immer|niemals|nicht|verwende|bitte|siempre|nunca|usar|debe|toujours|jamais|utilise[rz]?"
    r"|n[ãa]o use|sempre)\b",
    re.IGNORECASE,
)


def instructs(text: str) -> bool:
    """Tell whether plain `text` holds an imperative or a word that obliges; a description does not."""
    text = text[:MAX_CHARS]
    return bool(_NORMATIVE.search(text) or _IMPERATIVE.search(text) or _OTHER_LANGUAGES.search(text))
