"""Let an agent learn a project once, branch it in the middle of its work, and let the tests judge."""

# The directory that this runs in has the directories "project" and "agent". The host has
# pytest, and the daemon the runtime gvisor.
import shutil

from forkcell import Forkcell

ADVICE = [
    ['(5, "V")', '(5, "V"), (4, "IV")'],
    ['(5, "V")', '(9, "IX"), (5, "V"), (4, "IV")'],
    ['[(1000, "M"), (500, "D"), (100, "C"), (50, "L"), (10, "X"), (5, "V")',
     '[(1000, "M"), (900, "CM"), (500, "D"), (400, "CD"), (100, "C"), (90, "XC"), (50, "L"), (40, "XL"), (10, "X"), '
     '(9, "IX"), (5, "V"), (4, "IV")'],
]

shutil.copy("agent/agent.py", "project")
with Forkcell() as fc, fc.cells.create(source="./project", runtime="gvisor") as cell:
    cell.start()
    cell.exec("setsid python3 agent.py >/tmp/log 2>&1 & until [ -e /tmp/ready ]; do sleep 0.1; done")
    race = cell.race([["python3", "agent.py", *a] for a in ADVICE], warm=True, judge="pytest -q", keep=True)
    for attempt in race:
        print(f"attempt {attempt.attempt}: {'passes' if attempt.judge_exit_code == 0 else 'fails'}")
    if race.winner is None:
        raise SystemExit("no attempt passes the tests")
    print(f"attempt {race.winner.attempt} wins:")
    print(race.winner.diff().patch(), end="")
