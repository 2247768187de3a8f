"""Fill a database once, and give each test a branch of the running server."""

# The directory that this runs in has a directory "database". The host has PostgreSQL,
# and the daemon the runtime gvisor.
from concurrent.futures import ThreadPoolExecutor

from forkcell import Cell, Forkcell

TESTS = {
    "delete": "delete from orders where id <= 100",
    "double": "update orders set price = 2 * price",
    "spoil": "drop table orders; create table orders (price int)",
}


def query(cell: Cell, sql: str) -> str:
    """Return what a statement prints in a cell."""
    answer = cell.exec(["psql", "-h", "/tmp", "-U", "app", "-qtA", "-c", sql, "shop"])
    if answer.exit_code != 0:
        raise RuntimeError(answer.stderr)
    return answer.stdout.strip()


def test(cell: Cell, statement: str) -> str:
    """Change the data of one branch, look at it, and end the branch."""
    with cell:
        query(cell, statement)
        return query(cell, "select coalesce(sum(price), 0) from orders")


with Forkcell() as fc, fc.cells.create(source="./database", runtime="gvisor") as server:
    server.start()
    made = server.exec("./start.sh")
    if made.exit_code != 0:
        raise RuntimeError(made.stderr)
    branch = server.branch(n=len(TESTS))
    print(f"{len(branch)} servers after {max(c.first_answer_us for c in branch.result.children) / 1e6:.2f} s")
    with ThreadPoolExecutor(len(TESTS)) as pool:
        for name, total in zip(TESTS, pool.map(test, branch, TESTS.values())):
            print(f"{name}: {total}")
    print(f"untouched: {query(server, 'select sum(price) from orders')}")
