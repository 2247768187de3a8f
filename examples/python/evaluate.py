"""Load a table with numpy and pandas once, and evaluate several settings from there, each in a cell of its own."""

# The directory that this runs in has a directory "evaluation", with numpy and pandas in
# its directory "packages".
from concurrent.futures import ThreadPoolExecutor

from forkcell import Cell, Forkcell

SETTINGS = [5, 10, 20, 50, 100, 200]


def evaluate(cell: Cell, days: int) -> float:
    """Evaluate one setting in a branch, and end it."""
    with cell:
        answer = cell.eval(f"evaluate({days})")
        if answer.error:
            raise RuntimeError(answer.error.traceback)
        return answer.value_json


with Forkcell() as fc, fc.cells.create(source="./evaluation") as template:
    # A copy has no other threads than the one that forks, so numpy must not start any.
    started = template.warm_python(script="load.py", env={"OPENBLAS_NUM_THREADS": "1"})
    print(f"loaded in {started.ready_us / 1e6:.2f} s")
    branch = template.branch(n=len(SETTINGS))
    print(f"{len(branch)} cells have it after {max(c.first_answer_us for c in branch.result.children) / 1e6:.2f} s")
    with ThreadPoolExecutor(4) as pool:
        values = dict(zip(SETTINGS, pool.map(evaluate, branch, SETTINGS)))
    for days, value in values.items():
        print(f"{days} days: {value:.3f}")
    print(f"best: {max(values, key=values.__getitem__)} days")
