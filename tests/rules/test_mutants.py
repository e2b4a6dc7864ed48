"""The changes that the mutation run of `nox -s mutate` makes in C."""

import pathlib

import pytest
from mutate.mutants import applied, mutants_of

ROOT = pathlib.Path(__file__).resolve().parents[2]
if not (ROOT / "pyproject.toml").is_file():
    pytest.skip("these tests read the checkout, which is not here", allow_module_level=True)

SOURCE = """
/* if (a < 1) */
#define MORE(x) ((x) + 1)
enum { SLOTS = 3 };
static int f(const int *p, int n) {
    uint8_t head[11];
    RS_ASSERT(n < 7);
    if (n > 0 && p != NULL) return *p;
    if (n == 0x0F) return rs_error_set(err, CODE, at + 4, "a text of %d < %d", n + 1, (n * 2));
    while (!done(p, true)) n -= 'a';
    return -n & 3;
}
"""
CHANGES = {
    "if (n > 0 && p != NULL) return *p;": {
        "if (n >= 0 && p != NULL) return *p;",
        "if (n > 1 && p != NULL) return *p;",
        "if (n > 0 || p != NULL) return *p;",
        "if (n > 0 && p == NULL) return *p;",
        "if (true && p != NULL) return *p;",
        "if (n > 0 && true) return *p;",
    },
    'if (n == 0x0F) return rs_error_set(err, CODE, at + 4, "a text of %d < %d", n + 1, (n * 2));': {
        f'if ({condition}) return rs_error_set(err, CODE, {offset}, "a text of %d < %d", n + 1, (n * 2));'
        for condition, offset in [
            *((condition, "at + 4") for condition in ("n != 0x0F", "n == 0xe", "n == 0x10", "false", "true")),
            *(("n == 0x0F", offset) for offset in ("at - 4", "at + 3", "at + 5")),
        ]
    },
    "while (!done(p, true)) n -= 'a';": {
        "while (done(p, true)) n -= 'a';",
        "while (!done(p, false)) n -= 'a';",
        "while (!done(p, true)) n += 'a';",
        "while (!done(p, true)) n -= ('a' - 1);",
        "while (!done(p, true)) n -= ('a' + 1);",
    },
    "return -n & 3;": {"return -n | 3;", "return -n & 2;", "return -n & 4;"},
}


def test_mutants_of_a_source():
    changes = {}
    for mutant in mutants_of("csrc/f.c", SOURCE):
        assert SOURCE.splitlines()[mutant.line - 1].strip() == mutant.before
        assert applied(SOURCE, mutant) == SOURCE.replace(mutant.before, mutant.after)
        changes.setdefault(mutant.before, set()).add(mutant.after)
    assert changes == CHANGES


def test_a_condition_may_span_lines():
    source = "static bool f(int a, int b) {\n    if (a < b ||\n        g(a, b))\n        return h();\n}\n"
    parts = {mutant.after for mutant in mutants_of("f.c", source) if mutant.put == "false"}
    assert parts == {"if (false ||", "false)"}
