"""Run the shell commands of the README as they stand there; used by .ci/run."""

import re
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[1]


def commands() -> list[str]:
    return re.findall(r"```sh\n(.*?)```", (ROOT / "README.md").read_text(encoding="utf-8"), flags=re.DOTALL)


if __name__ == "__main__":
    found = commands()
    if len(found) != 2:
        sys.exit(f"README.md has {len(found)} shell blocks, expected the demonstration and the tests")
    for command in found:
        print(f"$ {command.strip()}", flush=True)
        subprocess.run(["bash", "-euo", "pipefail", "-c", command], cwd=ROOT, check=True)
