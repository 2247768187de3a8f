"""Stand for a coding agent: learn what is wrong once, and then take advice."""

import os
import pathlib
import subprocess
import sys

ADVICE, ANSWER = "/tmp/advice", "/tmp/answer"


def work() -> None:
    """Learn which tests fail, and answer each piece of advice with what was done."""
    tests = subprocess.run(["pytest", "-q", "-p", "no:cacheprovider"], capture_output=True, text=True)
    failing = [line.split()[1] for line in tests.stdout.splitlines() if line.startswith("FAILED")]
    module = pathlib.Path("roman.py")
    source = module.read_text()
    pathlib.Path("/tmp/ready").touch()
    while True:
        with open(ADVICE) as pipe:
            old, new = pipe.read().strip().split(" -> ")
        source = source.replace(old, new)
        module.write_text(source)
        with open(ANSWER, "w") as pipe:
            pipe.write(f"changed roman.py for {len(failing)} failing test\n")


if __name__ == "__main__":
    if sys.argv[1:]:
        # What a caller runs: give advice, and wait for the answer.
        with open(ADVICE, "w") as pipe:
            pipe.write(" -> ".join(sys.argv[1:]))
        with open(ANSWER) as pipe:
            print(pipe.read(), end="")
    else:
        os.mkfifo(ADVICE)
        os.mkfifo(ANSWER)
        work()
