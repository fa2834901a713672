"""The child that reads a kubeconfig for a program that stays: one JSON line out. The library's memory ends with it.

`aside` starts it with `python -m gpuward.adapters.kubernetes.kubelibrary_child FOLDER PATH [CONTEXT]`.
"""

import asyncio
import json
import os
import sys
from dataclasses import asdict

from gpuward.adapters.kubernetes.kubelibrary import read_login_into
from gpuward.ports import Refused


def main() -> None:
    """Answer on standard output, where nothing else may come, and end without tidying up."""
    answers = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)
    folder, path, *context = sys.argv[1:]
    try:
        login = asyncio.run(read_login_into(folder, path, context[0] if context else None))
        answer: dict[str, object] = {"login": asdict(login)}
    except Refused as error:
        answer = {"refused": str(error)}
    answers.write(json.dumps(answer) + "\n")
    answers.flush()
    os._exit(0)  # the library would take away its files, and they are for who asked


if __name__ == "__main__":
    main()
