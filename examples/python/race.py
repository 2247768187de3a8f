"""Run the tests of a project in a cell, and race two attempts at fixing it."""

# The directory that this runs in has a directory "project" with two scripts that fix it.
from forkcell import Forkcell
fc = Forkcell()                                   # FORKCELL_URL, else the local socket
with fc.cells.create(source="./project", policy="dev") as cell:
    r = cell.run("pytest -q", restore_on_fail=True, on_stdout=print)
    if r.ok: cell.accept(apply=True, reason="tests pass")
    for a in cell.race(["./fix-a.sh", "./fix-b.sh"], judge="pytest -q", keep=True): print(a.score, a.diff().stat())
