"""``cometmq``: finds the command, runs it, and turns errors into one clear line.

Exit codes: 0 it went well; 1 it did not (something was not found, is damaged, or somebody refused);
2 the input cannot be used; 130 stopped by Ctrl-C.
"""

import importlib
import sys
from typing import Final

import click

from cometmq import __version__
from cometmq.errors import CometMQError, IllegalName, SettingsError

EXIT_FAILED: Final = 1
EXIT_USAGE: Final = 2
EXIT_INTERRUPTED: Final = 130

COMMANDS: Final = {
    "dev": ("cometmq.cli.serve:dev", "Run a name server and a broker in one process."),
    "namesrv": ("cometmq.cli.serve:namesrv", "Run a name server."),
    "broker": ("cometmq.cli.serve:broker", "Run a broker."),
    "topic": ("cometmq.cli.topic:topic", "Make, list and remove topics."),
    "send": ("cometmq.cli.send:send", "Send a message, or one for each line of input."),
    "consume": ("cometmq.cli.consume:consume", "Print a topic's messages."),
    "store": ("cometmq.cli.store:store", "Look into, check, search and rebuild a store directory."),
    "demo": ("cometmq.cli.demo:demo", "See it all work, end to end, in about two minutes."),
}
"""Name → where the command is, and its line in the help, which must not need an import."""


class LazyGroup(click.Group):
    """A group that imports a command's module when the command runs."""

    def list_commands(self, ctx: click.Context) -> list[str]:  # noqa: ARG002 - click's signature
        """Give the names in the order of the table."""
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:  # noqa: ARG002 - click's
        """Import a command."""
        if cmd_name not in COMMANDS:
            return None
        module, _, name = COMMANDS[cmd_name][0].partition(":")
        command: click.Command = getattr(importlib.import_module(module), name)
        return command

    def format_commands(
        self,
        ctx: click.Context,  # noqa: ARG002 - click's signature
        formatter: click.HelpFormatter,
    ) -> None:
        """List the commands without importing them."""
        with formatter.section("Commands"):
            formatter.write_dl([(name, text) for name, (_, text) in COMMANDS.items()])


@click.group(cls=LazyGroup, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(__version__, prog_name="cometmq")
def cli() -> None:
    """CometMQ: a RocketMQ-compatible message log.

    Exit codes: 0 well, 1 not found, damaged or refused, 2 unusable input, 130 stopped by Ctrl-C.
    """


def main() -> None:
    """Run the command line, and exit with its code."""
    try:
        sys.exit(cli.main(standalone_mode=False) or 0)
    except click.exceptions.Abort:
        sys.exit(EXIT_INTERRUPTED)
    except KeyboardInterrupt:
        sys.exit(EXIT_INTERRUPTED)
    except click.ClickException as error:
        error.show()
        sys.exit(EXIT_USAGE)
    except (SettingsError, IllegalName) as error:
        _fail(str(error), EXIT_USAGE)
    except (CometMQError, OSError) as error:
        _fail(str(error), EXIT_FAILED)


def _fail(text: str, code: int) -> None:
    click.echo(f"error: {text}", err=True)
    sys.exit(code)


if __name__ == "__main__":
    main()
