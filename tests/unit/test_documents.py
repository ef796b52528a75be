"""Documents cannot drift: tables are compared with the code, and commands with the command line."""

import asyncio
import re
import shlex
from pathlib import Path

import click
import pytest

from support.lone_broker import lone_broker
from tidelog.broker import api_table
from tidelog.cli.main import cli
from tidelog.wire.protocol import API_BY_KEY, Listener, Release, supported_versions

ROOT = Path(__file__).parents[2]
DOCUMENTS = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]
COMMAND = re.compile(r"^(?:\$ )?(?:.*\| )?(tidelog [^#·|\n]+)", re.MULTILINE)
FENCE = re.compile(r"^```\w*\n(.*?)^```", re.MULTILINE | re.DOTALL)
INLINE = re.compile(r"`(tidelog [^`\n]+)`")


def test_the_table_of_apis_is_what_a_broker_advertises(tmp_path):
    async def served():
        async with lone_broker(tmp_path, ()) as lone:
            return sorted(api_table.handlers(lone.broker))

    rows = [
        f"| {each.key} | {API_BY_KEY[each.key].name} | {versions(each.first, each.last)} |"
        for each in supported_versions(Listener.CLIENT, Release.FULL, asyncio.run(served()))
    ]
    text = (ROOT / "docs/clients.md").read_text("utf-8")
    written = re.findall(r"^\| \d+ \|.*$", text, re.MULTILINE)
    assert written == rows, "put this into docs/clients.md:\n" + "\n".join(rows)


def versions(first, last):
    return str(first) if first == last else f"{first} to {last}"


def commands():
    for document in DOCUMENTS:
        text = document.read_text("utf-8")
        found = [line for block in FENCE.findall(text) for line in COMMAND.findall(block)]
        for command in [*found, *INLINE.findall(text)]:
            yield pytest.param(command.strip(), id=f"{document.name}: {command.strip()[:60]}")


@pytest.mark.parametrize("written", sorted(set(commands()), key=lambda each: each.id))
def test_every_command_that_a_document_names_exists(written):
    words = shlex.split(written)[1:]
    # Commands remember the names of their help option from the first context that asks.
    settings = cli.context_settings
    command, context = cli, click.Context(cli, info_name="tidelog", **settings)
    while isinstance(command, click.Group) and words and not words[0].startswith("-"):
        found = command.get_command(context, words.pop(0))
        assert found is not None, f"there is no command: {written}"
        command, context = found, click.Context(found, info_name=found.name, parent=context)
    known = {
        name
        for option in command.get_params(context)
        for name in (*option.opts, *option.secondary_opts)
    }
    used = {word.partition("=")[0] for word in words if re.match(r"--?[A-Za-z]", word)}
    assert used <= known, f"no {sorted(used - known)} in: {written}"


def targets_of_the_makefile():
    text = (ROOT / "Makefile").read_text("utf-8")
    return re.findall(r"^([a-z][a-z-]*):", text, re.MULTILINE)


def test_every_target_of_the_makefile_is_there_once():
    targets = targets_of_the_makefile()
    assert sorted(set(targets)) == sorted(targets)


@pytest.mark.parametrize("name", ["CONTRIBUTING.md", "README.md"])
def test_every_make_target_that_a_document_names_exists(name):
    text = (ROOT / name).read_text("utf-8")
    quoted = [*FENCE.findall(text), *re.findall(r"`([^`\n]+)`", text)]
    named = [found for part in quoted for found in re.findall(r"\bmake ([a-z][a-z-]+)", part)]
    assert named
    assert set(named) <= set(targets_of_the_makefile())
