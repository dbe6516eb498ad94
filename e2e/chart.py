"""Write what the chart takes from elsewhere: the CRDs from `crds/`, and the table of its README from the comments of values.yaml.

    python -m e2e.chart [--check]

Committed, so that the chart can be packed from a checkout as it is; `make check` holds them to their sources.
"""

import argparse
import json
import re
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import yaml

ROOT = Path(__file__).resolve().parent.parent
CHART = ROOT / "charts" / "mtpilot"
_BEGIN, _END = "<!-- values: made by `make generate` -->", "<!-- end of values -->"
_COMMENT = re.compile(r"^(?P<indent> *)# (?P<mark>-- )?(?P<text>.*)$")
_KEY = re.compile(r"^(?P<indent> *)(?P<name>[A-Za-z][A-Za-z0-9]*):")


def described(values: str) -> dict[str, str]:
    """Path of a value → its `# --` comment, lines joined.

    Raises:
        ValueError: a value that has no comment, and is no mere group of values.
    """
    found: dict[str, str] = {}
    path: list[tuple[int, str]] = []
    comment: list[str] = []
    below: int | None = None  # indentation of the described value whose own lines are passed over
    for line in values.splitlines():
        if (said := _COMMENT.match(line)) and (below is None or len(said["indent"]) <= below):
            comment = [said["text"]] if said["mark"] else [*comment, said["text"]] if comment else []
        elif key := _KEY.match(line):
            indent = len(key["indent"])
            if below is not None and indent > below:
                continue
            path = [*(part for part in path if part[0] < indent), (indent, key["name"])]
            below = indent if comment else None
            if comment:
                found[".".join(name for _, name in path)] = " ".join(comment)
            comment = []
    return found


def leaves(document: dict[str, Any], documented: dict[str, str], prefix: str = "") -> Iterator[tuple[str, Any]]:
    """The values that a user may set, in the file's order: each that has a comment, else what is below it."""
    for name, value in document.items():
        path = f"{prefix}{name}"
        if path in documented:
            yield path, value
        elif isinstance(value, dict) and value:
            yield from leaves(value, documented, f"{path}.")
        else:
            raise ValueError(f"values.yaml: {path} has no `# --` comment")


def table(values: str) -> str:
    """The Markdown table of all values."""
    documented = described(values)
    rows = ["| Value | Default | Meaning |", "| --- | --- | --- |"]
    for path, default in leaves(yaml.safe_load(values), documented):
        rows.append(f"| `{path}` | `{json.dumps(default, ensure_ascii=False)}` | {documented[path].replace('|', chr(92) + '|')} |")
    return "\n".join(rows)


def wanted() -> dict[Path, str]:
    """File → its text as it should be."""
    texts = {CHART / "files/crds" / path.name: path.read_text("utf-8") for path in sorted((ROOT / "crds").glob("*.yaml"))}
    readme = CHART / "README.md"
    before, _, rest = readme.read_text("utf-8").partition(_BEGIN)
    _, _, after = rest.partition(_END)
    texts[readme] = f"{before}{_BEGIN}\n\n{table((CHART / 'values.yaml').read_text('utf-8'))}\n\n{_END}{after}"
    return texts


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--check", action="store_true", help="write nothing; exit 1 where a file is not up to date")
    check = parser.parse_args().check
    texts = wanted()
    stale = [path for path, text in texts.items() if not path.exists() or path.read_text("utf-8") != text]
    extra = sorted(set((CHART / "files/crds").glob("*.yaml")) - set(texts))
    for path in [*stale, *extra]:
        print(f"{path.relative_to(ROOT)}{': out of date, run `make generate`' if check else ''}", file=sys.stderr if check else sys.stdout)
    if check:
        return 1 if stale or extra else 0
    for path in stale:
        path.write_text(texts[path], "utf-8")
    for path in extra:
        path.unlink()
    return 0


if __name__ == "__main__":
    sys.exit(main())
