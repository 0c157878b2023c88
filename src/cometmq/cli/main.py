"""``cometmq``: find the command, run it, and print errors as one clear line."""

import importlib
import os
import sys
from collections.abc import Sequence
from typing import Final, NoReturn

import click

from cometmq import __version__
from cometmq.errors import (
    CometMQError,
    IllegalName,
    MessageIllegal,
    NoBroker,
    NotFound,
    RemoteError,
    SettingsError,
)
from cometmq.extras import require

EXIT_FAILED: Final = 1
EXIT_USAGE: Final = 2
EXIT_NOT_FOUND: Final = 3
EXIT_INTERRUPTED: Final = 130
COMPLETE: Final = "_COMETMQ_COMPLETE"
"""The environment variable with which a shell's script requests completions."""
EXIT_CODES: Final = """\b
Exit codes:
  0    success, also for a server that was stopped by SIGTERM or Ctrl-C
  1    a server refused or did not answer, no broker is known, or something is damaged
  2    the input cannot be used
  3    not found: a topic, a group, a member, a message
  130  a command was stopped by Ctrl-C
"""

COMMANDS: Final = {
    "dev": ("cometmq.cli.serve.commands:dev", "Run a name server and a broker in one process."),
    "namesrv": ("cometmq.cli.serve.commands:namesrv", "Run a name server."),
    "broker": ("cometmq.cli.serve.commands:broker", "Run a broker."),
    "proxy": ("cometmq.cli.serve.proxy:proxy", "Serve RocketMQ 5 clients, which speak gRPC."),
    "console": ("cometmq.cli.serve.console:console", "Serve pages for those who operate brokers."),
    "topic": ("cometmq.cli.topic:topic", "Create, list, change, shrink and delete topics."),
    "group": ("cometmq.cli.group:group", "Create, list, show and delete consumer groups."),
    "send": ("cometmq.cli.send:send", "Send a message, or one for each line of input."),
    "consume": ("cometmq.cli.consume:consume", "Print a topic's messages."),
    "tail": ("cometmq.cli.tail:tail", "Print a topic's last messages, then new ones."),
    "message": ("cometmq.cli.message:message", "Find, print and resend messages, see what waits."),
    "offset": ("cometmq.cli.offset:offset", "Show, reset, skip and clone the offsets of groups."),
    "lag": ("cometmq.cli.lag:lag", "Show the lag of groups; --watch for a live view."),
    "dlq": ("cometmq.cli.dlq:dlq", "List, resend and export dead letters."),
    "user": ("cometmq.cli.users.user:user", "List, show, create, change and remove users."),
    "acl": ("cometmq.cli.users.acl:acl", "List, show, change and check what users may do."),
    "cluster": ("cometmq.cli.cluster:cluster", "List the brokers and their throughput."),
    "replica": ("cometmq.cli.replica:replica", "Show masters and slaves."),
    "top": ("cometmq.cli.health.top:top", "Show rates and lags, live; --once for scripts."),
    "doctor": ("cometmq.cli.health.doctor:doctor", "Find what is wrong, and name the remedy."),
    "kernels": ("cometmq.cli.kernels:kernels", "Compile the bulk operations in advance, for an image."),
    "store": (
        "cometmq.cli.store.commands:store",
        "Inspect, check, search, rebuild and clean a store directory.",
    ),
    "spark": ("cometmq.cli.spark.commands:spark", "Run jobs on store directories with Spark."),
    "demo": ("cometmq.cli.demo.demo:demo", "Run everything end to end, in about two minutes."),
    "completion": ("cometmq.cli.completion:completion", "Print a script that completes commands in a shell."),
}
"""For each name, the command's module and function, and its help line, which needs no import."""


NEEDS: Final = {"store": "broker", "spark": "spark"}
"""Extras that whole commands need, by name; other commands check when they run."""


class LazyGroup(click.Group):
    """A command group that imports a command's module when the command runs."""

    def list_commands(self, ctx: click.Context) -> list[str]:  # noqa: ARG002 - click's signature
        """Return the names in the order of the table."""
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:  # noqa: ARG002 - click's
        """Import a command, and return it."""
        if cmd_name not in COMMANDS:
            return None
        if name := NEEDS.get(cmd_name):
            require(name, f"cometmq {cmd_name}")
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


@click.group(cls=LazyGroup, epilog=EXIT_CODES, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(__version__, prog_name="cometmq")
def cli() -> None:
    """CometMQ: a RocketMQ-compatible message log."""


def main(arguments: Sequence[str] | None = None) -> NoReturn:
    """Run a command line, by default this process's own, and exit with its code."""
    try:
        if arguments is None and COMPLETE in os.environ:  # a shell requests completions
            cli.main(prog_name="cometmq", complete_var=COMPLETE)
        sys.exit(cli.main(arguments, prog_name="cometmq", standalone_mode=False) or 0)
    except (click.Abort, KeyboardInterrupt):
        sys.exit(EXIT_INTERRUPTED)
    except click.exceptions.NoArgsIsHelpError as error:
        error.show()
        sys.exit(EXIT_USAGE)
    except click.ClickException as error:
        _fail(_usage(error), EXIT_USAGE)
    except SettingsError as error:
        for line in str(error).splitlines()[:-1]:  # one for each setting
            _show(line)
        _fail(str(error).rpartition("\n")[2], EXIT_USAGE)
    except (IllegalName, MessageIllegal) as error:
        _fail(str(error), EXIT_USAGE)
    except UnicodeEncodeError as error:
        _fail(f"{error.object[:60]!r} cannot be written as {error.encoding}", EXIT_USAGE)
    except OSError as error:
        _fail(_disk(error), EXIT_FAILED)
    except NoBroker as error:
        _fail(str(error), EXIT_FAILED)
    except NotFound as error:
        _fail(str(error), EXIT_NOT_FOUND)
    except RemoteError as error:
        _fail(str(error), _remote(error))
    except CometMQError as error:
        _fail(str(error), EXIT_FAILED)


def _usage(error: click.ClickException) -> str:
    """Return what click finds wrong with the arguments, and where to read about them."""
    context = getattr(error, "ctx", None)
    command = context.command_path if context is not None else "cometmq"
    return f"{error.format_message().rstrip('.')}; see {command} --help"


def _remote(error: RemoteError) -> int:
    """Return the exit code for a server's refusal."""
    from cometmq.admin.cluster import NOT_FOUND  # noqa: PLC0415 - the help need not wait for it

    return EXIT_NOT_FOUND if error.code in NOT_FOUND else EXIT_FAILED


def _disk(error: OSError) -> str:
    """Return what the system refused, and for which file."""
    return f"{error.filename}: {error.strerror}" if error.filename and error.strerror else str(error)


def _fail(text: str, code: int) -> NoReturn:
    """Print an error on one line, even if a peer's text has several, and exit."""
    _show(text)
    sys.exit(code)


def _show(text: str) -> None:
    from cometmq.cli.output import print_line  # noqa: PLC0415 - the help need not wait for it

    lines = (line.strip() for line in text.splitlines())
    print_line(f"error: {'; '.join(filter(None, lines))}", err=True)


if __name__ == "__main__":
    main()
