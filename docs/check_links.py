"""Check that every relative link and heading anchor in the Markdown files leads somewhere."""

import re
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
LINK = re.compile(r"(?<!!)\[[^\]]*\]\(([^)\s]+)\)|!\[[^\]]*\]\(([^)\s]+)\)")
FENCE = re.compile(r"^```.*?^```", re.MULTILINE | re.DOTALL)
CODE = re.compile(r"`[^`\n]*`")
HEADING = re.compile(r"^#{1,6}\s+(.+?)\s*$", re.MULTILINE)


def anchor(heading: str) -> str:
    """The id that GitHub gives a heading."""
    text = re.sub(r"[^\w\- ]", "", heading.replace("`", "").lower())
    return text.replace(" ", "-")


def anchors(path: Path) -> set[str]:
    return {anchor(heading) for heading in HEADING.findall(FENCE.sub("", path.read_text("utf-8")))}


def broken_links(path: Path) -> list[str]:
    """Links of one file that lead nowhere, as `file: target`."""
    found = []
    for groups in LINK.findall(CODE.sub("", FENCE.sub("", path.read_text("utf-8")))):
        target = groups[0] or groups[1]
        if re.match(r"[a-z]+:", target):
            continue
        name, _, fragment = target.partition("#")
        there = (path.parent / name).resolve() if name else path
        missing = not there.exists() or (fragment and there.suffix == ".md" and fragment not in anchors(there))
        if missing:
            found.append(f"{path.relative_to(ROOT)}: {target}")
    return found


def main() -> int:
    skip = {".venv", ".uv", "out", "node_modules", ".git"}
    files = [path for path in ROOT.rglob("*.md") if not skip & set(path.relative_to(ROOT).parts)]
    broken = [line for path in sorted(files) for line in broken_links(path)]
    for line in broken:
        print(f"broken link in {line}", file=sys.stderr)
    print(f"{len(files)} Markdown files, {len(broken)} broken links")
    return 1 if broken else 0


if __name__ == "__main__":
    sys.exit(main())
