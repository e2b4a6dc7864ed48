"""Failing commands: the message has no Python names and no error number, and wrong usage exits with 2."""

import argparse
import re

import pytest

import recstore
from recstore.cli import main


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """The working directory, with files of several formats and two stores that share a name."""
    folder = tmp_path_factory.mktemp("words")
    (folder / "names").mkdir()
    texts = {"a.jsonl": '{"a": 1}', "b.jsonl": '{"a": 2}', "a.csv": "a,b\n1,2", "a.xyz": "hi", "c.cache": "hi"}
    for name, text in texts.items():
        (folder / name).write_text(text + "\n")
    recstore.RecordList([1, 2]).save(folder / "x.recs")
    recstore.RecordList([re.compile("a")], on_unsupported="pickle").save(folder / "p.recs")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("RECSTORE_DIR", str(folder / "names"))
        patch.delenv("RECSTORE_CACHE", raising=False)
        patch.chdir(folder)
        for source in "ab":
            assert main.main(["build", f"{source}.jsonl", "--shared", "two", "--keep", "1h"]) == 0
        yield folder
        main.main(["rm", "two"])


def run(arguments, capsys):
    """Returns the exit status and the error message of a command."""
    capsys.readouterr()
    try:
        status = main.main(arguments.split())
    except SystemExit as end:
        status = end.code
    message = capsys.readouterr().err
    return status, message if status != 2 else message.rstrip().rpartition("\n")[2]  # argparse prints the usage above


USAGE = """build a.jsonl
build a.jsonl -o o.recs --append
build a.jsonl -o o.recs --keep 1h
build a.jsonl -o o.recs --shards s
build a.jsonl --shards s --append --force
build a.jsonl --shards s --shard-bytes 5
build a.jsonl --shards s --shard-bytes many
build a.jsonl - -o o.recs
build - -o o.recs
build - --shared n
build a.xyz -o o.recs
build a.csv a.jsonl -o o.recs
build a.jsonl -o o.recs --records a
build a.jsonl -o o.recs --no-header
build a.csv -o o.recs --delimiter ab
build a.jsonl -o a.csv
build a.csv -o o.recs --encoding klingon
build a.csv -o o.recs --dtypes banana
build a.jsonl --shared a/b
build a.jsonl --shared n --keep banana
head x.recs --columns a
head x.recs --no-header
head x.recs --skip-rows 3
head x.recs --entries
head a.jsonl -n x
head a.jsonl -n 0
cat x.recs --force
cat x.recs --rows here
cat x.recs -n 1 --rows 1:
cat x.recs --csv --jsonl
rm a/b
gc --days 3
gc --dry-run
gc s --dir d
gc s --days soon
ls s --dir d
log s@best
log s -n 0
tag s best 1 --delete
tag s best x
cp s
compact
compact s --shard-bytes 1kB
delete s
delete s --field a
delete s --field a b --key c
monitor
monitor --pid 1 -- ls
monitor --pid x
monitor --pid -5
monitor --interval x -- ls
bench a.csv --records a
bench a.csv --n-rows x
bench a.csv --n-rows 0
bench a.csv --workers -1
bench a.csv --format xml
bench
demo --records x
demo --records -5
demo --coco a --paths b
demo --workers 0
info
no"""
FAILED = """info nosuch
info two
info /no/such
info a.csv
info c.cache
cat s3://bucket/x
ls --dir /no/such
rm nosuch
verify nosuch
cat two
cat p.recs
cat two --fingerprint zz
cat x.recs --parquet /no/such/x.parquet
cat x.recs --parquet a.csv
build nosuch.jsonl -o o.recs
build a.jsonl -o /no/such/o.recs
build a.jsonl -o o.recs --index-by zz
build a.csv -o o.recs --columns zz
build x.recs -o o.recs
build a.jsonl -o o.recs --force --shared two --dir /no/such
build . -o o.recs
doctor --post-mortem nosuch
doctor --post-mortem a.csv
monitor --log /no/such/x -- ls
monitor --log . -- ls
monitor --pid 999999999
gc nosuch
ls nosuch
stat nosuch@best
log nosuch
cp nosuch t
cp nosuch t@best
tag nosuch best
tag nosuch 1st
compact nosuch
delete nosuch --key a
delete nosuch --keys nosuch"""
PYTHON = re.compile(r"recstore\.\w+|\[Errno|invalid \w+ value|\b(?!RECSTORE)\w+=|\b\w+\(|'type'")


@pytest.mark.parametrize("arguments", [*USAGE.split("\n"), *FAILED.split("\n")])
def test_failures(arguments, folder, capsys):
    before = sorted(folder.iterdir())
    status, message = run(arguments, capsys)
    assert status == (2 if arguments in USAGE.split("\n") else 1) and not PYTHON.search(message), message
    assert status == 2 or message.count("\n") == 1
    assert sorted(folder.iterdir()) == before


@pytest.mark.parametrize(
    ("arguments", "part"),
    [
        ("ls --dir /no/such", ": /no/such: "),
        ("cat s3://bucket/x", "RECSTORE_CACHE"),
        ("monitor --log . -- ls", ": .: "),
        ("build nosuch.jsonl -o o.recs", ": nosuch.jsonl: "),
        ("info nosuch", "recstore ls"),
        ("info c.cache", "recstore ls lists caches"),
        ("head x.recs --no-header", "--no-header"),
        ("head x.recs --skip-rows 3", "--skip-rows"),
        ("info two", "--fingerprint"),
        ("build a.csv -o o.recs --columns zz", "'a', 'b'"),
    ],
)
def test_messages_name_files_and_commands(folder, capsys, arguments, part):
    assert part in run(arguments, capsys)[1]


def test_options_refuse_values_without_python_names():
    """If a conversion raises ValueError, argparse shows the name of a Python function."""
    parsers = [main._parser()]
    for parser in parsers:
        for action in parser._actions:
            if isinstance(action, argparse._SubParsersAction):
                parsers += action.choices.values()
            elif action.type is not None:
                for text in ("junk", "", "-1", "1.5", "\x00"):
                    try:
                        action.type(text)
                    except argparse.ArgumentTypeError as error:
                        assert "_" not in str(error)
