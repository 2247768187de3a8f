"""Load a test suite once, and run its tests in several cells that have it loaded."""

# The directory that this runs in has a directory "project" with tests for pytest.
from concurrent.futures import ThreadPoolExecutor

from forkcell import Cell, Forkcell

WORKERS = 3


def run(cell: Cell, worker: int) -> dict[str, object]:
    """Run the tests of one worker in a branch, and end it."""
    with cell:
        answer = cell.eval(f"run({worker}, {WORKERS})")
        if answer.error:
            raise RuntimeError(answer.error.traceback)
        return answer.value_json


with Forkcell() as fc, fc.cells.create(source="./project", name="suite") as suite:
    suite.warm_python(script="warm_suite.py")
    with ThreadPoolExecutor(WORKERS) as pool:
        results = list(pool.map(run, suite.branch(n=WORKERS), range(WORKERS)))
    for worker, result in enumerate(results):
        print(f"worker {worker}: {result['tests']} tests, {'passed' if result['code'] == 0 else 'failed'}")
        if result["code"] != 0:
            print(result["said"])
