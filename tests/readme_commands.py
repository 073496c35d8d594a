"""Do what a newcomer does: the commands and the Python blocks of README and Getting started, as they stand there.

Used by .ci/run. The first command of README makes an environment with nothing but the package; the Python blocks run
in it.
"""

import re
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[1]
PAGES = ("README.md", "docs/getting_started.md")


def commands(page: str) -> list[str]:
    """The shell blocks of a page."""
    return re.findall(r"```sh\n(.*?)```", (ROOT / page).read_text(encoding="utf-8"), flags=re.DOTALL)


def run(*command: str) -> None:
    """Run a command in the root directory."""
    print(f"$ {command[-1].strip()}", flush=True)
    subprocess.run(command, cwd=ROOT, check=True)


if __name__ == "__main__":
    if len(commands("README.md")) != 2:
        sys.exit("README.md must have two shell blocks: the demonstration and the tests")
    for page in PAGES:
        for command in commands(page):
            run("bash", "-euo", "pipefail", "-c", command)
        run(".venv/bin/python", "tests/code_blocks.py", page)
