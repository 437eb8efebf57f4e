import time

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from cicl.selection.sources.facts import UnitFacts
from cicl.selection.sources.front_matter import read_front_matter, split_commas
from cicl.selection.sources.imperatives import instructs
from cicl.selection.sources.instructions import extract_instructions

WRITTEN = """\
# Rules
## Style
- Use tabs
* Never mock
  - nested
    deeper
1. Run it
2) Test it
continued
    indented
Describes a thing.
You must do it:
```
~~~
---
***
| a | b |
<!--
-->
description: x
globs: a, b
confidence: 2
- [x] done
- [Part](#part)
@docs/a.md
[deprecated] Use x"""
LINES = st.sampled_from([*WRITTEN.split("\n"), "", "\t- x", "\x00", "\ud800", "- " + "x" * 300, "--- "])
TEXTS = st.lists(LINES, max_size=120).map("\n".join) | st.text(max_size=300)
PATHS = st.sampled_from(
    ["AGENTS.md", "a/CLAUDE.md", ".cursor/rules/a.mdc", "MEMORY.md", ".claude/memory/a.md"]
)


def read(path: str, text: str) -> tuple[UnitFacts, ...]:
    units = extract_instructions(path, text)
    assert units is not None
    return units


def names(units: tuple[UnitFacts, ...], kind: str = "rule") -> list[str]:
    return [unit.name for unit in units if unit.kind == kind]


@given(PATHS, TEXTS)
@example("AGENTS.md", "---\n")
@example("AGENTS.md", "# A\n---\n\n---\n")
def test_every_written_line_is_in_exactly_one_unit(path: str, text: str) -> None:
    units = read(path, text)
    lines = [line for unit in units for line in range(unit.span.start, unit.span.end + 1)]
    assert lines == sorted(set(lines))
    assert {place for place, line in enumerate(text.split("\n"), start=1) if line.strip()} <= set(lines)
    assert len({unit.name for unit in units}) == len(units)
    assert all(unit.name and len(unit.summary) <= 200 and 0 <= unit.confidence <= 1 for unit in units)


RULES = """# Project

This project parses receipts.

## Style

- Use tabs.
- Never mock the store:
  - not in unit tests
  - not in others

  ```python
  store = Store()
  ```
1. Run `make test` before each
commit.
2. Push.

## Commands

```bash
make test
```

Always answer in English. Keep it short.

| Folder | Holds |
|---|---|
| src | code |

### Build

```bash
make
```
"""


def test_each_bullet_number_and_imperative_paragraph_is_a_rule() -> None:
    units = read("AGENTS.md", RULES)
    assert names(units) == [
        "use-tabs",
        "never-mock-the-store",
        "run-make-test-before-each-commit",
        "push",
        "always-answer-in-english-keep-it",
        "build",
    ]
    assert {unit.role for unit in units if unit.kind == "rule"} == {"instruction"}


def test_a_rule_keeps_its_nested_bullets_its_code_and_its_continuation() -> None:
    spans = {unit.name: tuple(unit.span) for unit in read("AGENTS.md", RULES)}
    assert spans["never-mock-the-store"] == (8, 14)
    assert spans["run-make-test-before-each-commit"] == (15, 16)
    assert spans["use-tabs"] == (5, 7), "the heading stands with its first instruction"


def test_a_rule_has_the_path_of_its_headings_and_its_words() -> None:
    titles = {unit.name: unit.title for unit in read("AGENTS.md", RULES)}
    assert titles["push"] == "Project > Style > Push."
    assert titles["build"] == "Project > Commands > Build"


def test_what_only_describes_is_a_document_so_that_nothing_is_lost() -> None:
    units = read("AGENTS.md", RULES)
    assert names(units, "document") == ["project", "commands", "commands-2"]
    assert {unit.role for unit in units if unit.kind == "document"} == {"section"}


def test_a_lead_in_is_part_of_the_title_of_each_item() -> None:
    text = (
        "# Tests\n\nWhen the UI changes:\n\n- Run the tests.\n- Commit the snapshots.\n\nOther.\n\n- Free.\n"
    )
    titles = [unit.title for unit in read("CLAUDE.md", text) if unit.kind == "rule"]
    assert titles == [
        "Tests > When the UI changes > Run the tests.",
        "Tests > When the UI changes > Commit the snapshots.",
        "Tests > Free.",
    ]


def test_contents_lists_and_comments_are_no_rules() -> None:
    text = (
        "# A\n\n- [Style](#style)\n- [Tests](#tests)\n\n<!--\n- Use yarn\n\n- Never npm\n-->\n\n- Use pnpm\n"
    )
    units = read("AGENTS.md", text)
    assert names(units) == ["use-pnpm"]
    assert len(names(units, "document")) == 1


def test_plain_text_rules_are_read_by_paragraph() -> None:
    text = "You are a senior engineer.\n\nnever mock.\ntests use pytest.\n\ndocs should be short.\n"
    assert names(read(".cursorrules", text)) == ["never-mock-tests-use-pytest", "docs-should-be-short"]


def test_names_do_not_change_with_edits_elsewhere() -> None:
    before = names(read("AGENTS.md", RULES))
    after = names(
        read("AGENTS.md", RULES.replace("- Use tabs.", "- New rule here.\n- Use tabs.\n\nNever guess.\n\n"))
    )
    assert [name for name in after if name in before] == before


def test_equal_rules_are_numbered() -> None:
    assert names(read("AGENTS.md", "- Use x\n- Use x\n- Use x\n")) == ["use-x", "use-x-2", "use-x-3"]


def test_a_deprecated_thing_does_not_make_its_rule_stale() -> None:
    text = (
        "- Deprecated: `foo()`. Use `bar()`.\n- Do not use deprecated APIs.\n- `old` (deprecated)\n"
        "- ~~Use yarn~~\n- [superseded by npm-rule] Use yarn\n- Use make (superseded by `just`)\n"
    )
    marks = [
        [(mark.kind, mark.line, mark.replacement) for mark in unit.marks] for unit in read("AGENTS.md", text)
    ]
    assert marks == [
        [],
        [],
        [],
        [("stale", 4, "")],
        [("superseded", 5, "npm-rule")],
        [("superseded", 6, "just")],
    ]


@pytest.mark.parametrize(
    ("path", "kind"),
    [
        ("AGENTS.md", "rule"),
        ("sub/dir/AGENTS.md", "rule"),
        ("CLAUDE.md", "rule"),
        ("CLAUDE.local.md", "rule"),
        (".claude/CLAUDE.md", "rule"),
        ("GEMINI.md", "rule"),
        (".cursorrules", "rule"),
        (".windsurfrules", "rule"),
        (".clinerules", "rule"),
        (".clinerules/style.md", "rule"),
        (".cursor/rules/a.mdc", "rule"),
        (".claude/rules/deep/er/a.md", "rule"),
        (".github/copilot-instructions.md", "rule"),
        (".github/instructions/a.instructions.md", "rule"),
        ("MEMORY.md", "memory"),
        ("memory/MEMORY.md", "memory"),
        (".claude/memory/a.md", "memory"),
        (".claude/agent-memory/reviewer/a.md", "memory"),
        (".claude/projects/-home-x/memory/a.md", "memory"),
        (".serena/memories/a.md", "memory"),
        ("memory-bank/progress.md", "memory"),
        (".cicl/memory/a.md", "memory"),
        ("README.md", None),
        ("docs/agents.md", None),
        ("docs/memory/paging.md", None),
        ("memory/paging.md", None),
        (".github/workflows/a.md", None),
        (".cursor/notes/a.mdc", None),
        ("src/AGENTS.md.py", None),
        ("claude/rules/a.md", None),
    ],
)
def test_the_path_says_what_a_file_is(path: str, kind: str | None) -> None:
    units = extract_instructions(path, "- Use tabs.\n")
    assert (units[0].kind if units else units) == kind


def test_a_note_in_a_memory_folder_is_known_by_its_front_matter() -> None:
    text = "---\nname: paging\ntype: project\n---\nPages have 50 rows.\n"
    assert extract_instructions("docs/memory/a.md", "---\nlayout: page\ntitle: Paging\n---\nText.\n") is None
    assert read("docs/memory/a.md", text)[0].scope == ("docs/**",)


SCOPES = [
    ("AGENTS.md", "", ()),
    ("sub/AGENTS.md", "", ("sub/**",)),
    ("a/b/CLAUDE.md", "", ("a/b/**",)),
    (".claude/CLAUDE.md", "", ()),
    ("sub/.github/copilot-instructions.md", "", ("sub/**",)),
    (
        ".claude/rules/a.md",
        'paths:\n  - "src/api/**/*.ts"\n  - tests/**/*.test.ts  # tests',
        ("src/api/**/*.ts", "tests/**/*.test.ts"),
    ),
    (".claude/rules/a.md", "paths: src/**/*.{ts,tsx}", ("src/**/*.{ts,tsx}",)),
    (".claude/rules/a.md", "paths:\n- '**/*.go'\n- go.mod", ("**/*.go", "go.mod")),
    (
        ".cursor/rules/a.mdc",
        "description: x\nglobs: *.ts, src/**/*.tsx\nalwaysApply: false",
        ("**/*.ts", "src/**/*.tsx"),
    ),
    (".cursor/rules/a.mdc", 'globs: ["*.ts", "a/{b,c}/*.ts"]', ("**/*.ts", "a/{b,c}/*.ts")),
    (".cursor/rules/a.mdc", 'globs: "*.ts", "*.js"', ("**/*.ts", "**/*.js")),
    (".cursor/rules/a.mdc", "globs: *.ts\nalwaysApply: true", ()),
    (".cursor/rules/a.mdc", "globs:\nalwaysApply: false", ()),
    ("web/.cursor/rules/a.mdc", "globs: src/**", ("web/src/**",)),
    (
        ".github/instructions/a.instructions.md",
        'applyTo: "src/**/*.py,./tests/"',
        ("src/**/*.py", "tests/**"),
    ),
    (".github/instructions/a.instructions.md", 'applyTo: "**"', ()),
    ("MEMORY.md", "", ()),
    ("memory/MEMORY.md", "", ()),
    (".claude/memory/a.md", "paths: [src/a.py]", ("src/a.py",)),
]


@pytest.mark.parametrize(("path", "matter", "scope"), SCOPES)
def test_the_scope_is_the_globs_of_the_front_matter_or_the_folder(
    path: str, matter: str, scope: tuple[str, ...]
) -> None:
    text = f"---\n{matter}\n---\n\n- Use tabs.\n" if matter else "- Use tabs.\n"
    assert {unit.scope for unit in read(path, text)} == {scope}


def test_imports_are_preconditions_and_code_and_mail_are_not() -> None:
    text = (
        "See @docs/git.md and (@AGENTS.md).\n\n- Use `@types/node.md`, mail a@b.md, `@app.get`.\n\n"
        "```\n@docs/no.md\n```\n\n@~/.claude/mine.md\n"
    )
    units = read("CLAUDE.md", text)
    assert [unit.requires for unit in units] == [("docs/git.md", "AGENTS.md"), (), ("~/.claude/mine.md",)]
    assert {unit.kind for unit in units} == {"rule"}


NOTE = """---
name: use-uv
description: The project uses uv. Never pip.
metadata:
  type: feedback
confidence: 0.7
supersedes: [use-pip, use-poetry]
requires:
  - python-311
---

We moved to uv in May.

**Why:** pip was slow.
"""


def test_a_memory_note_is_one_unit_with_what_its_front_matter_says() -> None:
    (note,) = read(".claude/memory/use_uv.md", NOTE)
    assert (note.name, note.kind, note.role, tuple(note.span)) == ("note", "memory", "note", (1, 14))
    assert (note.title, note.summary, note.confidence) == ("use-uv", "The project uses uv.", 0.7)
    assert (note.supersedes, note.requires, note.marks) == (("use-pip", "use-poetry"), ("python-311",), ())


@pytest.mark.parametrize("value", ["1.5", "-0.1", "nan", "inf", "high", "", "[0.3", "0,5"])
def test_an_unreadable_confidence_is_left_out(value: str) -> None:
    assert read(".cicl/memory/a.md", f"---\nname: a\nconfidence: {value}\n---\nText.\n")[0].confidence == 1.0


@pytest.mark.parametrize(
    ("line", "mark"),
    [
        ("status: superseded", ("superseded", "")),
        ("status: deprecated", ("stale", "")),
        ("status: Obsolete", ("stale", "")),
        ("superseded_by: b.md", ("superseded", "b.md")),
        ("superseded-by: 'b.md'", ("superseded", "b.md")),
        ("status: active", None),
        ("superseded_by: null", None),
        ("superseded_by:", None),
    ],
)
def test_a_note_can_say_that_it_no_longer_holds(line: str, mark: tuple[str, str] | None) -> None:
    marks = read(".cicl/memory/a.md", f"---\nname: a\n{line}\n---\nText.\n")[0].marks
    assert [(item.kind, item.replacement) for item in marks] == ([mark] if mark else [])


def test_an_index_of_memories_gives_a_note_for_each_bullet() -> None:
    text = (
        "# Memory\n\nOne line each.\n\n- [Use uv](use_uv.md): never pip\n  since May\n- [Ports](ports.md)\n"
    )
    units = read("memory/MEMORY.md", text)
    assert names(units, "memory") == ["use-uv-never-pip-since-may", "ports"]
    assert names(units, "document") == ["memory"]


def test_a_long_note_is_cut_at_its_headings() -> None:
    text = "# Progress\n\n" + "\n\n".join(f"## Part {part}\n\n" + "Line.\n" * 20 for part in range(5))
    units = read("memory-bank/progress.md", text)
    assert names(units, "memory") == [f"part-{part}" for part in range(5)]
    assert {unit.role for unit in units} == {"note"}


def test_a_memory_without_bullets_or_headings_is_one_note() -> None:
    assert names(read("MEMORY.md", "We use uv.\n\nPorts start at 9000.\n"), "memory") == ["note"]


@pytest.mark.parametrize("path", ["AGENTS.md", "MEMORY.md", ".cicl/memory/a.md"])
def test_a_blank_file_has_no_units(path: str) -> None:
    assert read(path, "\n \n") == ()


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("Never mock.", True),
        ("Run the tests first.", True),
        ("If you change the schema, regenerate the fixtures.", True),
        ("The store must not be mocked.", True),
        ("Then commit.", True),
        ("Work in small steps, then commit.", True),
        ("请使用制表符。", True),
        ("This project parses receipts.", False),
        ("The engine is built on LibGDX.", False),
        ("Test files live in tests/.", False),
        ("Format: X", False),
        ("Parsers, test helpers, and build scripts.", False),
        ("", False),
    ],
)
def test_an_instruction_has_an_imperative_or_an_obliging_word(text: str, expected: bool) -> None:
    assert instructs(text) is expected


MATTER = """\
---
# comment
name: 'a: b'
Empty:
list: [a, "b, c"]
items:
- x
  - y # z
text: >
  one
  two
folded: one
  two
bad line
meta:
  name: hidden
  deep: 1
---
body: no
"""


def test_front_matter_is_read_tolerantly() -> None:
    matter = read_front_matter(MATTER.split("\n"))
    assert matter.values == {
        "name": ("a: b",),
        "empty": (),
        "list": ("a", "b, c"),
        "items": ("x", "y"),
        "text": ("one two",),
        "folded": ("one two",),
        "meta": (),
        "deep": ("1",),
    }
    assert matter.lines == 18
    assert read_front_matter(["---", "a: b"]).lines == 0
    assert read_front_matter([]).lines == 0


def test_commas_in_braces_do_not_split() -> None:
    assert split_commas("a/*.{ts,tsx}, b , ,'c,d'") == ["a/*.{ts,tsx}", "b", "'c,d'"]


ADVERSARIAL = {
    "bullets": "- a\n" * 10_000,
    "deep bullets": "".join(" " * number + "- a\n" for number in range(2_000)),
    "long paragraph": "must do\n" * 40_000,
    "long line": "- " + "@a.md " * 150_000,
    "unclosed fence": "```\n" + "- a\n" * 40_000,
    "links": "- " + "[a](" * 250_000,
    "front matter": "---\n" + "a: [" + "b," * 200_000 + "\n---\n- x\n",
    "indented key": "---\n" + " " * 500_000 + "x\n---\n- x\n",
    "conditions": "If a, " * 100_000,
}


@pytest.mark.parametrize("name", ADVERSARIAL)
@pytest.mark.parametrize("path", ["AGENTS.md", "MEMORY.md", ".cicl/memory/a.md"])
def test_time_is_linear_on_hostile_text(name: str, path: str) -> None:
    start = time.process_time()
    read(path, ADVERSARIAL[name])
    assert time.process_time() - start < 2.0
