"""How every command is added to the command line."""

import argparse


def add_command(
    commands: "argparse._SubParsersAction[argparse.ArgumentParser]", name: str, *, brief: str, text: str, end: str
) -> argparse.ArgumentParser:
    """Add a command and return its parser: `brief` is its line in a list, `text` and `end` stand as written."""
    return commands.add_parser(
        name,
        help=brief,
        description=text,
        epilog=end,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )
