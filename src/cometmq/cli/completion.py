"""``cometmq completion``: the script that completes commands and options in a shell."""

from typing import Final

import click
from click.shell_completion import get_completion_class

from cometmq.cli.main import COMPLETE, cli

SHELLS: Final = ("bash", "zsh", "fish")


@click.command()
@click.argument("shell", type=click.Choice(SHELLS))
def completion(shell: str) -> None:
    r"""Print the script that completes cometmq in SHELL.

    \b
    bash   eval "$(cometmq completion bash)"             in ~/.bashrc
    zsh    eval "$(cometmq completion zsh)"              in ~/.zshrc
    fish   cometmq completion fish | source              in ~/.config/fish/config.fish
    """
    known = get_completion_class(shell)
    assert known is not None, shell
    click.echo(known(cli, {}, "cometmq", COMPLETE).source())
