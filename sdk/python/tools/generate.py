"""Write what is generated: models and bodies from the API, _sync from _async, and the reference page.

With --check it compares instead, and fails if something differs.
"""

from __future__ import annotations

import ast
import re
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

import yaml

SDK = Path(__file__).resolve().parent.parent
ROOT = SDK.parent.parent
PACKAGE = SDK / "src" / "forkcell"
REFERENCE = ROOT / "docs" / "reference" / "sdk-python.md"
MARK = "<!-- The rest is generated: make sdk-generate -->\n"

# Fields that are arguments of their own, and not in the keyword arguments of a method.
ARGUMENTS = {"RunBody": ["command"], "ExecBody": ["command"], "CreateCell": ["source", "fork_of", "checkpoint", "n"], "RaceBody": ["cell", "command", "code", "attempts", "judge"], "TokenBody": ["name", "scopes"], "ChooseBody": ["attempt"], "EvalBody": ["code"], "CreateSession": ["cell", "agent"], "SendBody": ["message", "no_newline"], "PublishBody": ["branch"]}

# What turns code for asyncio into ordinary code.
SYNC = [
    (r"\basync def\b", "def"),
    (r"\basync with\b", "with"),
    (r"\basync for\b", "for"),
    (r"\bawait ", ""),
    (r"\bAsync([A-Z])", r"\1"),
    (r"\basynccontextmanager\b", "contextmanager"),
    (r"\b__a(enter|exit|iter)__\b", r"__\1__"),
    (r"\bfrom anyio import Lock\b", "from threading import Lock"),
    (r"\bfrom anyio import to_thread\n\n", ""),
    (r"\bmove_on_after, to_thread\b", "move_on_after"),
    (r"\bto_thread\.run_sync\(([\w.]+), ", r"\1("),
    # Ordinary code is not cancelled.
    (r"\bfrom anyio import move_on_after\b", "from contextlib import nullcontext"),
    (r"\bmove_on_after\([^)]*\)", "nullcontext()"),
    (r"\ba(close|iter_raw)\b", r"\1"),
    (r"\banyio\b", "time"),
]


def schemas() -> dict[str, Any]:
    document = yaml.safe_load((ROOT / "api" / "openapi.yaml").read_text())
    found: dict[str, Any] = document["components"]["schemas"]
    return found


def requests() -> set[str]:
    """Return the names of the schemas that requests have."""
    document = yaml.safe_load((ROOT / "api" / "openapi.yaml").read_text())
    found = set()
    for path in document["paths"].values():
        for operation in path.values():
            for content in operation.get("requestBody", {}).get("content", {}).values():
                if "$ref" in content.get("schema", {}):
                    found.add(content["schema"]["$ref"].rsplit("/", 1)[1])
    return found


def used(names: set[str], of: dict[str, Any]) -> dict[str, Any]:
    """Return the schemas of these names with those that they refer to."""
    found: dict[str, Any] = {}
    todo = sorted(names)
    while todo:
        name = todo.pop()
        if name not in found:
            found[name] = of[name]
            todo += re.findall(r"#/components/schemas/(\w+)", str(of[name]))
    return found


def keywords(name: str, schema: dict[str, Any]) -> dict[str, Any]:
    """Return the schema of the keyword arguments that a request has."""
    own = ARGUMENTS.get(name, [])
    kept = {key: value for key, value in schema.items() if key != "additionalProperties" or value is not False}
    if "properties" in kept:
        kept["properties"] = {key: value for key, value in kept["properties"].items() if key not in own}
        kept["required"] = [key for key in kept.get("required", []) if key not in own]
    return kept


def codegen(found: dict[str, Any], kind: str) -> str:
    document = {"openapi": "3.1.0", "info": {"title": "Forkcell", "version": "1"}, "paths": {}, "components": {"schemas": found}}
    with tempfile.TemporaryDirectory() as tmp:
        source, target = Path(tmp, "openapi.yaml"), Path(tmp, "out.py")
        source.write_text(yaml.safe_dump(document))
        subprocess.run(
            [sys.executable, "-m", "datamodel_code_generator", "--input", source, "--input-file-type", "openapi", "--output", target]
            + ["--output-model-type", kind, "--target-python-version", "3.10", "--use-standard-collections", "--use-union-operator"]
            + ["--keyword-only", "--disable-timestamp", "--use-field-description", "--enum-field-as-literal", "all"]
            + ["--formatters", "builtin"],
            check=True,
        )
        return target.read_text()


def generate() -> dict[Path, str]:
    everything, asked = schemas(), requests()
    results = used(set(everything) - asked, everything)
    bodies = codegen(used(asked, {name: keywords(name, s) for name, s in everything.items()}), "typing.TypedDict")
    out = {
        PACKAGE / "models.py": codegen(results, "dataclasses.dataclass"),
        # A keyword of Python cannot be the name of an argument.
        PACKAGE / "bodies.py": re.sub(r"(['\"])except\1", r"\1except_\1", bodies),
    }
    for path in sorted((PACKAGE / "_async").glob("*.py")):
        text = path.read_text()
        for pattern, new in SYNC:
            text = re.sub(pattern, new, text)
        text = text.replace('"""The client for asyncio and trio. The package _sync is generated from this one."""', '"""The client. It is generated from _async."""')
        out[PACKAGE / "_sync" / path.name] = text
    out[REFERENCE] = reference(out)
    return out


def reference(out: dict[Path, str]) -> str:
    """Return the reference page: each public class with its attributes and the signatures of its methods."""
    head = REFERENCE.read_text().split(MARK)[0]
    lines = [head + MARK]
    for name in ("client", "cells", "cell", "branch", "files", "execsocket", "diff", "race", "resources", "tokens", "sessions"):
        for node in ast.parse(out[PACKAGE / "_sync" / f"{name}.py"]).body:
            if isinstance(node, ast.ClassDef):
                lines.append(f"\n## {node.name}\n\n| | |\n|---|---|\n" + attributes(node) + "".join(row(n) for n in node.body if public(n, node.name)))
    return "".join(lines)


def public(node: ast.stmt, owner: str) -> bool:
    """Report whether users call a method. They make a Forkcell, and get everything else from it."""
    if not isinstance(node, ast.FunctionDef):
        return False
    return not node.name.startswith("_") or node.name == "__init__" and owner == "Forkcell"


def attributes(node: ast.ClassDef) -> str:
    """Return the public attributes of a class: those that have a text."""
    rows = []
    for n, after in zip(node.body, node.body[1:]):
        if isinstance(n, ast.AnnAssign) and isinstance(after, ast.Expr) and isinstance(after.value, ast.Constant):
            typed = f"{ast.unparse(n.target)}: {ast.unparse(n.annotation)}".replace("|", "\\|")
            rows.append(f"| `{typed}` | {after.value.value} |\n")
    return "".join(rows)


def row(node: ast.stmt) -> str:
    assert isinstance(node, ast.FunctionDef)
    node.args.args = node.args.args[1:]
    signature = f"{node.name}({ast.unparse(node.args)})".replace("Unpack[bodies.", "Unpack[")
    result = ast.unparse(node.returns) if node.returns else "None"
    if any(isinstance(d, ast.Name) and d.id == "property" for d in node.decorator_list):
        text = (ast.get_docstring(node) or "").split("\n")[0]
        return "| `{}` | {} |\n".format(f"{node.name}: {result}".replace("|", "\\|"), text)
    text = (ast.get_docstring(node) or "Make a client.").split("\n")[0]
    return "| `{}` | {} |\n".format(f"{signature} -> {result}".replace("|", "\\|"), text)


def main() -> int:
    wrong = []
    for path, text in generate().items():
        if "--check" not in sys.argv:
            path.parent.mkdir(exist_ok=True)
            path.write_text(text)
        elif not path.exists() or path.read_text() != text:
            wrong.append(str(path.relative_to(ROOT)))
    for name in wrong:
        print(f"{name} is out of date: make sdk-generate", file=sys.stderr)
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
