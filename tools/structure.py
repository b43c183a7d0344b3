#!/usr/bin/env python3
"""Figures of the source tree's structure, from its own #include lines.

  tools/structure.py rooms              lines of each room, arrows between rooms, arrows that run back up
  tools/structure.py config             which rooms include `config`, and who may change a configuration
  tools/structure.py long [LINES]       functions of more than LINES (80) lines
  tools/structure.py passes NAME...     source files that name a value, under any of these names
  tools/structure.py touched COMMIT..   files that these commits changed, by top folder and room
"""
import pathlib
import re
import subprocess
import sys
from collections import Counter, defaultdict

ROOT = pathlib.Path(__file__).resolve().parent.parent
SOURCE = ROOT / "src/kinema"
INCLUDE = re.compile(r'^\s*#\s*include\s+"kinema/([^"]+)"', re.M)


def sources():
    return sorted(p for p in SOURCE.rglob("*") if p.suffix in (".h", ".cpp"))


def room(path):
    """The room of a source file; files directly in src/kinema are the room `api`."""
    parts = path.relative_to(SOURCE).parts
    return parts[0] if len(parts) > 1 else "api"


def order():
    """The rooms, lowest first, as src/kinema/CMakeLists.txt lists them."""
    text = (SOURCE / "CMakeLists.txt").read_text()
    return re.findall(r"^(?:add_subdirectory|kinema_module)\((\w+)", text, re.M)


def includes():
    """file -> the files of ours that it includes."""
    found = {}
    for path in sources():
        names = INCLUDE.findall(path.read_text())
        found[path] = [SOURCE / name for name in names if (SOURCE / name).exists()]
    return found


def rooms():
    place = {name: i for i, name in enumerate(order())}
    lines, arrows = Counter(), defaultdict(int)
    for path, others in includes().items():
        lines[room(path)] += path.read_text().count("\n")
        for other in others:
            if room(other) != room(path):
                arrows[room(path), room(other)] += 1
    for name in sorted(lines, key=lambda n: place[n]):
        uses = sorted((b for a, b in arrows if a == name), key=lambda n: place[n])
        print(f"{lines[name]:7d}  {name:13} {' '.join(uses)}")
    up = [f"{a} -> {b}" for a, b in arrows if place[b] > place[a]]
    back = module_cycles()
    print(f"\n{sum(lines.values())} lines in {len(lines)} rooms, {len(arrows)} arrows between rooms, "
          f"{len(up)} to a later room{': ' + ', '.join(up) if up else ''}")
    print(f"{len(back)} arrows run back up between files (a .h and its .cpp are one)")
    for a, b in back:
        print(f"  {a} -> {b}")


def module_cycles():
    """Arrows between files, a .h and its .cpp as one, that close a circle: found by depth-first search."""
    graph = defaultdict(set)
    for path, others in includes().items():
        me = path.relative_to(SOURCE).with_suffix("")
        graph[me] |= {o.relative_to(SOURCE).with_suffix("") for o in others} - {me}
    back, state = [], {}

    def visit(node):
        state[node] = "open"
        for other in sorted(graph[node]):
            if state.get(other) == "open":
                back.append((node, other))
            elif other not in state:
                visit(other)
        state[node] = "done"

    sys.setrecursionlimit(10000)
    for node in sorted(graph):
        if node not in state:
            visit(node)
    return back


def config():
    users, mutable, constant = Counter(), [], 0
    for path in sources():
        text = path.read_text()
        name = room(path)
        if name != "config" and '"kinema/config/' in text:
            users[name] += 1
        for i, line in enumerate(text.splitlines(), 1):
            for match in re.finditer(r"(const )?\b(?:config::)(Config|Loaded)&", line):
                if match[1]:
                    constant += 1
                elif name != "config":
                    mutable.append(f"{path.relative_to(ROOT)}:{i}: {line.strip()}")
    print("files that include config, by room: " + ", ".join(f"{n} {c}" for n, c in users.items()))
    print(f"{constant} constant references to all keys, {len(mutable)} mutable ones")
    for line in mutable:
        print("  " + line)


def long(limit=80):
    """A function begins at the margin, or in a class, with a line that ends in `{`, and ends with a `}` below it."""
    found = []
    for path in sources():
        begin = None
        for i, line in enumerate(path.read_text().splitlines(), 1):
            if re.match(r"[A-Za-z].*", line) and not re.match(
                    r"(namespace|struct|class|enum|union|template|using|constexpr|const|static const)\b", line):
                begin = begin or i
            if line.startswith("}"):
                if begin and i - begin + 1 > limit and line == "}":
                    found.append((i - begin + 1, f"{path.relative_to(ROOT)}:{begin}"))
                begin = None
            elif line == "" or line.endswith(";") and not line.startswith(" "):
                if begin and i - begin < 3:
                    begin = None
    for lines, where in sorted(found, reverse=True):
        print(f"{lines:5d}  {where}")
    print(f"{len(found)} functions of more than {limit} lines")


def passes(names):
    word = re.compile(r"\b(" + "|".join(names) + r")\b")
    found = [p for p in sources() if word.search(p.read_text())]
    for path in found:
        print(path.relative_to(ROOT))
    print(f"{len(found)} files in {len({room(p) for p in found})} rooms name {', '.join(names)}")


def touched(ranges):
    files = set()
    for each in ranges:
        what = ["diff", "--name-only", each] if ".." in each else ["show", "--format=", "--name-only", each]
        files |= set(subprocess.check_output(["git", "-C", str(ROOT), *what], text=True).split())
    counts = Counter("/".join(f.split("/")[:3]) if f.startswith("src/") else f.split("/")[0] for f in files)
    for name, count in sorted(counts.items()):
        print(f"{count:4d}  {name}")
    print(f"{len(files)} files")


def main():
    command, *words = sys.argv[1:] or ["help"]
    if command == "rooms":
        rooms()
    elif command == "config":
        config()
    elif command == "long":
        long(*map(int, words[:1]))
    elif command == "passes" and words:
        passes(words)
    elif command == "touched" and words:
        touched(words)
    else:
        sys.exit(__doc__)


main()
