"""docs/compat.md says of modes and switches what the tables of `bindery.router.compat` say."""

from __future__ import annotations

from pathlib import Path

from bindery.router.compat import MODES, SWITCHES

PAGE = (Path(__file__).parents[2] / "docs" / "compat.md").read_text("utf-8")


def test_every_switch_has_its_section() -> None:
    for switch in SWITCHES.values():
        modes = ", ".join(f"`{mode.name}`" for mode in MODES.values() if switch.name in mode.switches)
        assert (
            f'<a id="{switch.name}"></a>\n### `{switch.name}`\n\n| | |\n|---|---|\n| with it | {switch.broker} |\n'
            f"| without | {switch.here} |\n| source | {switch.source} |\n| modes | {modes} |\n"
        ) in PAGE
    assert PAGE.count('<a id="') == len(SWITCHES)


def test_every_mode_has_its_row_and_says_what_is_not_emulated() -> None:
    for mode in MODES.values():
        switches = ", ".join(f"[`{name}`](#{name})" for name in SWITCHES if name in mode.switches)
        assert f"| `{mode.name}` | {mode.versions} | {switches} |\n" in PAGE
        rows = "".join(f"| {what} | {why} |\n" for what, why in mode.not_emulated.items())
        assert f"### `{mode.name}`\n\n| in the broker | here |\n|---|---|\n{rows}\n" in PAGE
