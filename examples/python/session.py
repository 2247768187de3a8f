"""Start an agent on a project, tell it what to do, and take back what it did last."""

# The directory that this runs in has a directory "project". A shell stands for the agent;
# with one that is installed, such as claude, its name stands in place of generic.
import time

from forkcell import Forkcell

fc = Forkcell()  # FORKCELL_URL, else the local socket
cell = fc.cells.create(source="./project", name="agent-python")
session = fc.sessions.start(cell, "generic", arguments=["sh"], turns="1s", allow_nongit=True)
for turn, line in enumerate(["./fix-b.sh", "rm roman.py"], 1):
    session.send(line)
    while turn not in [t.turn for t in session.turns()]:
        time.sleep(0.1)
session.rewind(to=1, reason="it removed the program")
ended = session.stop()
print(ended.session_id, ended.status)
print(session.cell.diff(from_=ended.began_checkpoint_id, to=ended.head_checkpoint_id).stat())
