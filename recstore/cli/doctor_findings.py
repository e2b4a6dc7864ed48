"""The result of one check of `recstore doctor`, which doctor_checks and doctor_process return and doctor prints."""

import dataclasses

VERDICTS = ("ok", "warning", "problem")


@dataclasses.dataclass(frozen=True)
class Finding:
    """The result of one check: a verdict, the reason in one line, the command that mends it or "", and the numbers."""

    check: str
    verdict: str
    why: str
    mend: str = ""
    values: dict = dataclasses.field(default_factory=dict)
