"""Prints tables, and describes the machine."""

import datetime
import importlib.metadata
import os
import platform

from recstore.text import size_text

VERSIONS = (
    "recstore",
    "numpy",
    "torch",
    "msgspec",
    "orjson",
    "pyarrow",
    "polars",
    "vortex-data",
    "lmdb",
    "datasets",
    "rich",
    "matplotlib",
)


def machine():
    """Processor, memory, system, versions, load, date."""
    versions = {}
    for name in VERSIONS:
        try:
            versions[name] = importlib.metadata.version(name)
        except importlib.metadata.PackageNotFoundError:
            versions[name] = None
    return {
        "cpu": _cpu(),
        "cores": os.cpu_count(),
        "memory_gb": _memory_gb(),
        "kernel": platform.release(),
        "system": platform.system(),
        "python": platform.python_version(),
        "load_before": round(os.getloadavg()[0], 2),
        "versions": versions,
        "date": datetime.date.today().isoformat(),
    }


def _cpu():
    try:
        with open("/proc/cpuinfo", encoding="utf-8") as file:
            for line in file:
                if line.startswith("model name"):
                    return line.split(":", 1)[1].strip()
    except OSError:
        pass
    return platform.processor() or platform.machine()


def _memory_gb():
    try:
        return round(os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 1e9, 1)
    except (ValueError, OSError):
        return None


def cell(key, value):
    """A value as text. A size in bytes, recognized by its key, has a unit."""
    if value is None:
        return ""
    if isinstance(value, list):
        return " ".join(cell(key, item) for item in value)
    if isinstance(value, str):
        return value
    if (
        key in ("store", "total", "parent_kept", "kept_after", "nbytes", "batch", "helpers_pss", "over_stub")
        or "peak" in key
        or "uss" in key
    ):
        return size_text(value)
    if isinstance(value, float):
        return f"{value:,.0f}" if abs(value) >= 100 else f"{value:.3g}"
    return f"{value:,}"


def show(rows, title):
    """Prints a table, with rich if it is installed, else with tabs. Time series are left out: only plots show them."""
    columns = list(dict.fromkeys(key for row in rows for key, value in row.items() if not isinstance(value, dict)))
    cells = [[cell(key, row.get(key)) for key in columns] for row in rows]
    try:
        from rich.console import Console
        from rich.markup import escape
        from rich.table import Table
    except ImportError:
        print(f"\n{title}")
        for line in [columns, *cells]:
            print("\t".join(line))
        return
    table = Table(title=title)
    for key, sample in zip(columns, cells[0] if cells else (), strict=True):
        table.add_column(key, justify="right" if sample[:1].isdigit() else "left")
    for line in cells:
        table.add_row(*map(escape, line))
    console = Console(emoji=False)
    # In a log or a file, lines must not be cut.
    (console if console.is_terminal else Console(width=220, emoji=False)).print(table)


def markdown(head, lines):
    """A Markdown table of cells of text."""
    rule = ["---"] * len(head)
    return "\n".join("| " + " | ".join(line) + " |" for line in (head, rule, *lines))


def show_machine(facts):
    versions = ", ".join(f"{name} {version or 'absent'}" for name, version in facts["versions"].items())
    print(f"{facts['cpu']}, {facts['cores']} cores, {facts['memory_gb']} GB, {facts['system']} {facts['kernel']}")
    print(f"Python {facts['python']}, {versions}, {facts['date']}")
