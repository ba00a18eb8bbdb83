#!/usr/bin/env python3
"""Writes RESULTS.md, results.svg and the README's table from the newest results.

`--check` writes nothing, and fails if they are not what it would write.

`results/<processor>/` holds what `ecru-bench --save` has written. A result counts if it was made
from a clean tree, in the profile `release`, with nine rounds. Those of the first edition
(`first-edition/`) have five, and count until a row has a newer result.
"""

import collections, json, math, pathlib, statistics, sys

ROOT = pathlib.Path(__file__).resolve().parent.parent
BEGIN = "<!-- numbers: written by `bench/report.py` -->\n"
END = "<!-- end of numbers -->"

# One metric of one row: ecru's median, the peers' costs as multiples of it, and the goals' outcomes.
Result = collections.namedtuple("Result", "unit own peers goals page old")
Peer = collections.namedtuple("Peer", "median name low high")


def read(path):
    """Returns the results of a file by row and metric, or None if they may not be published."""
    value = json.loads(path.read_text())
    old = "format" not in value
    header = value["machine" if old else "header"]
    if old and header["commit"].endswith("-dirty"):
        return None
    if not old and not header["clean"]:
        sys.exit(f"{path}: measured from a tree with changes; such a result is not kept")
    if not old and (header["profile"] != "release" or header["rounds"] < 9):
        return None
    page = path.relative_to(ROOT / "bench").with_suffix(".md")
    results = {}
    for row in value["rows"]:
        goals = [goal for goal in map(outcome, row.get("goals", [])) if goal]
        for place, metric in enumerate(row["metrics"]):
            own = [said for about, said in goals if about == metric["name"]]
            # A row without goals stands for its first metric.
            if own or (not goals and place == 0):
                ratios = peers(row["contenders"], place)
                if ratios:
                    key = row["row" if old else "name"], metric["name"]
                    results[key] = Result(metric["unit"], *ratios, own, page, old)
    # A run that began later is newer. A file of the first edition without a starting time is older.
    name = header["processor"].replace("(R)", "").replace(" Processor", "")
    return (header.get("began", ""), path.stem), name, header["kernel"], results


def outcome(goal):
    """Returns a goal's metric and outcome, or None if it was not measured."""
    if "says" in goal:
        met = goal.get("met")
        return None if met is None else (goal["says"].split(":")[0], "met" if met else "missed")
    known = goal["verdict"] in ("met", "missed", "undecided")
    return (goal["metric"], goal["verdict"]) if known else None


def peers(contenders, metric):
    """Returns ecru's median and the peers, the cheapest first."""

    def rounds(contender):
        return [one[metric] if one else None for one in contender["rounds"]]

    own = next((rounds(one) for one in contenders if one["name"] == "ecru"), [])
    if not any(value is not None for value in own):
        return None
    found = []
    for peer in contenders:
        summary = peer.get("summary")
        stored = (summary[metric] or {}).get("times_ecru") if summary else None
        if stored:
            ends = stored["low"], stored["median"], stored["high"]
        else:
            pairs = [pair for pair in zip(rounds(peer), own) if None not in pair]
            # A ratio to a cost of zero says nothing.
            ratios = [one / other for one, other in pairs if other]
            ends = ratios and (min(ratios), statistics.median(ratios), max(ratios))
        if ends and None not in ends and not peer["name"].startswith("ecru"):
            found.append(Peer(ends[1], peer["name"], ends[0], ends[2]))
    return statistics.median(v for v in own if v is not None), sorted(found, key=lambda p: p.median)


def newest(folder):
    """Returns a processor's name, its kernel, and the newest result of each row."""
    runs = sorted(filter(None, map(read, folder.rglob("*.json"))), key=lambda run: run[0], reverse=True)
    rows = {}
    for _, _, _, results in runs:
        known = {row for row, _ in rows}
        rows.update({key: result for key, result in results.items() if key[0] not in known})
    return runs[0][1], runs[0][2], rows


def best(result):
    """Returns the cheapest peer. If a peer is ahead over the whole range, only such peers count."""
    return next((peer for peer in result.peers if peer.high < 1), (result.peers or [None])[0])


def standing(result):
    if not result.peers:
        return None
    if min(peer.high for peer in result.peers) < 1:
        return "behind"
    return "ahead" if min(peer.low for peer in result.peers) > 1 else "undecided"


def lines(processors):
    """Returns (name, in the README, a result for each processor), the furthest behind first."""
    names = {}
    for line in (ROOT / "bench/row-names.txt").read_text().splitlines():
        row, _, name = line.partition(" = ")
        if not line.startswith("#"):
            names[row.removesuffix(" *")] = name, row.endswith("*")
    found = {}
    for place, (_, _, rows) in enumerate(processors):
        for (row, metric), result in rows.items():
            whole = names.get(f"{row} {metric}")
            if not whole and row not in names:
                sys.exit(f"bench/row-names.txt: there is no name for `{row}`")
            name, in_readme = whole or names[row]
            if metric != "time" and not whole:
                name = f"{name}, {metric}"
            found.setdefault(name, (name, in_readme, [None] * len(processors)))[2][place] = result

    def worst(line):
        medians = [best(result).median for result in line[2] if result and result.peers]
        return min(medians, default=math.inf), line[0]

    return sorted(found.values(), key=worst)


def short(value):
    """Formats with two significant digits, or with all digits before the point."""
    size = abs(value)
    return f"{value:.{0 if size >= 10 or not size else 1 if size >= 1 else 2 if size >= 0.1 else 3}f}"


def cell(result, links):
    """Returns ecru's cost and the best peer, as two cells."""
    if not result:
        return " | |"
    own, unit = result.own, result.unit
    for of, least, divisor, shown in [
        ("ns", 1e6, 1e6, "ms"), ("ns", 1e3, 1e3, "µs"), ("bytes", 1e6, 1e6, "MB"), ("bytes", 0, 1e3, "kB"),
    ]:
        if unit == of and own >= least:
            own, unit = own / divisor, shown
    if unit == "s" and own < 1:
        own, unit = own * 1e3, "ms"
    value = f"{own:.3f} x" if unit == "x the least" else f"{short(own)} {unit}".strip()
    value = (f"[{value}]({result.page})" if links else value) + ("°" if result.old else "")
    missed = " ✗" if "missed" in result.goals else ""
    peer = best(result)
    if not peer:
        return f" {value} | none{missed} |"
    bold = "**" if standing(result) == "behind" else ""
    low, median, high = map(short, (peer.low, peer.median, peer.high))
    return f" {value} | {bold}{peer.name} {median}{bold} ({low}–{high}){missed} |"


def table(processors, rows, links):
    heads = "".join(f" {name}: ecru | best peer |" for name, _, _ in processors)
    text = f"| row |{heads}\n|---|{'---:|---|' * len(processors)}\n"
    return text + "".join(
        f"| {name} |{''.join(cell(result, links) for result in results)}\n" for name, _, results in rows
    )


def counts(processors):
    text = ""
    for name, kernel, rows in processors:
        stands = [standing(result) for result in rows.values()]
        goals = [goal for result in rows.values() for goal in result.goals]
        text += (
            f"- {name}, {kernel}: ahead of every peer in {stands.count('ahead')} rows, behind a peer "
            f"in {stands.count('behind')}, undecided in {stands.count('undecided')}. Goals: "
            f"{goals.count('met')} met, {goals.count('missed')} missed, {goals.count('undecided')} undecided.\n"
        )
    return text


def plot(processors, rows):
    """Returns all rows that have a peer as SVG, on a logarithmic axis."""
    rows = [line for line in rows if any(result and result.peers for result in line[2])]
    # The axis is between `left` and `right`, the names of the rows are left of it, and the legend
    # is above `top`. The colours differ in brightness, too.
    width, left, right, top, row = 900, 292, 880, 76, 17
    colours = ["#d55e00", "#0072b2", "#009e73", "#444444"]
    style = (
        "text{font:12px 'DejaVu Sans',Verdana,sans-serif;fill:#24292f}.name{text-anchor:end}"
        ".tick{text-anchor:middle}.grid{stroke:#d8dee4}.one{stroke:#24292f;stroke-width:1.5}"
    )
    bottom = top + row * len(rows)
    height = bottom + 26
    steps = [digit * 10.0**power for power in range(-4, 5) for digit in (1, 2, 5)]
    medians = [1.0] + [best(r).median for line in rows for r in line[2] if r and r.peers]
    # The shortest axis that has every median. Longer ranges are cut at its ends.
    low = max(step for step in steps if step <= min(medians))
    high = min(step for step in steps if step >= max(medians))

    def at(value):
        share = math.log(value / low) / math.log(high / low)
        return left + (right - left) * min(max(share, 0), 1)

    svg = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" width="{width}" height="{height}">',
        f"<style>{style}</style>",
        f'<rect width="{width}" height="{height}" fill="#fff"/>',
    ]
    for band in range(1, len(rows), 2):
        svg.append(f'<rect y="{top + row * band}" width="{width}" height="{row}" fill="#f4f6f8"/>')
    for tick in (step for step in steps if low <= step <= high):
        kind = "one" if tick == 1 else "grid"
        svg.append(f'<path class="{kind}" d="M{at(tick):.1f} {top}V{bottom}"/>')
        for y in (top - 6, bottom + 16):
            svg.append(f'<text class="tick" x="{at(tick):.1f}" y="{y}">{tick:.12g}</text>')
    svg.append(
        '<text x="12" y="20">Best peer\'s cost as a multiple of ecru\'s: right of 1, ecru is cheaper. '
        "A line is the range; a hollow dot is undecided.</text>"
    )
    for place, (name, _, _) in enumerate(processors):
        x = left + 190 * place
        svg.append(f'<circle cx="{x}" cy="40" r="4" fill="{colours[place % 4]}"/>')
        svg.append(f'<text x="{x + 10}" y="44">{name}</text>')
    for index, (name, _, results) in enumerate(rows):
        middle = top + row * (index + 0.5)
        svg.append(f'<text class="name" x="{left - 12}" y="{middle + 4:g}">{name}</text>')
        for place, result in enumerate(results):
            peer = best(result) if result else None
            if not peer:
                continue
            # Dots of one row are below each other, so that none hides another.
            y = f"{middle + 13 * ((place + 0.5) / len(processors) - 0.5):g}"
            colour = colours[place % 4]
            fill = "#fff" if standing(result) == "undecided" else colour
            svg.append(
                f'<path stroke="{colour}" d="M{at(peer.low):.1f} {y}H{at(peer.high):.1f}"/>'
                f'<circle cx="{at(peer.median):.1f}" cy="{y}" r="3" stroke="{colour}" fill="{fill}"/>'
            )
    return "\n".join(svg) + "\n</svg>\n"


def main():
    folders = sorted(path for path in (ROOT / "bench/results").iterdir() if path.is_dir())
    processors = [newest(folder) for folder in folders]
    rows = lines(processors)
    # The README begins with wins, and the page of results with losses.
    few = table(processors, [line for line in reversed(rows) if line[1]], False)
    all_rows = counts(processors) + "\n" + table(processors, rows, True)
    stale = []
    for file, text in [("README.md", few), ("bench/RESULTS.md", all_rows), ("bench/results.svg", None)]:
        now = (ROOT / file).read_text()
        if text:
            before, rest = now.split(BEGIN)
            right = before + BEGIN + text + END + rest.split(END)[1]
        else:
            right = plot(processors, rows)
        if right != now:
            stale.append(file)
            if "--check" not in sys.argv:
                (ROOT / file).write_text(right)
    print(f"{len(rows)} rows of {len(processors)} processors")
    if stale and "--check" in sys.argv:
        sys.exit(f"{', '.join(stale)}: not the numbers of the newest results; run bench/report.py")


main()
