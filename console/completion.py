"""``pzc completion``: what a shell needs in order to complete commands and options.

The script is made of the parser, and holds all words itself: no key press starts Python.
"""

from __future__ import annotations

import argparse

from .options import Commands, Parser, add_command
from .output import write

BASH = """\
_pzc() {{
    local word="${{COMP_WORDS[COMP_CWORD]}}" words
    case "$COMP_CWORD,${{COMP_WORDS[1]}}" in
        1,*) words="{commands}" ;;
{options}
    esac
    COMPREPLY=($(compgen -W "$words" -- "$word"))
}}
complete -o default -F _pzc pzc"""

ZSH = "#compdef pzc\nautoload -U +X bashcompinit && bashcompinit\n"


def add_commands(commands: Commands) -> None:
    """Add the command of this module."""
    completion = add_command(
        commands, "completion", run_completion, "print what bash, zsh or fish needs to complete commands",
        'eval "$(pzc completion bash)"     (in ~/.bashrc; likewise zsh)\n'
        "  pzc completion fish > ~/.config/fish/completions/pzc.fish",
    )  # fmt: skip
    completion.add_argument("shell", choices=("bash", "zsh", "fish"), help="bash, zsh or fish")
    completion.set_defaults(commands=commands)


def run_completion(args: argparse.Namespace) -> int:
    """``pzc completion``."""
    parsers: dict[str, Parser] = dict(args.commands.choices)
    if args.shell == "fish":
        write("\n".join(_fish(parsers)))
    else:
        write((ZSH if args.shell == "zsh" else "") + _bash(parsers))
    return 0


def _bash(parsers: dict[str, Parser]) -> str:
    options = "\n".join(
        f'        *,{name}) words="{" ".join(parser.options())}" ;;' for name, parser in parsers.items()
    )
    return BASH.format(commands=" ".join(parsers), options=options)


def _fish(parsers: dict[str, Parser]) -> list[str]:
    lines: list[str] = []
    for name, parser in parsers.items():
        told = (parser.description or "").replace("\\", "\\\\").replace("'", "\\'")
        lines.append(f"complete -c pzc -n __fish_use_subcommand -a {name} -d '{told}'")
        lines += [
            f"complete -c pzc -n '__fish_seen_subcommand_from {name}' -l {option.removeprefix('--')}"
            for option in parser.options()
        ]
    return lines
