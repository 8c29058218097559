"""Charts as SVG files, drawn with the standard library alone."""

from html import escape

from benchmarks.cost import Comparison
from benchmarks.report import Curve, Row

_WIDTH, _HEIGHT = 720, 360
_LEFT, _RIGHT, _TOP, _BOTTOM = 70, 20, 40, 50
_COLOURS = ("#4477aa", "#ee6677", "#228833", "#ccbb44", "#66ccee")
_TICKS = 5
_STYLE = "text { font: 12px sans-serif; fill: #333 } .title { font-size: 14px; font-weight: bold }"


def curves(title: str, across: str, up: str, lines: dict[str, Curve]) -> str:
    """Return a chart of curves.

    Args:
        across: The name of the horizontal axis.
        up: The name of the vertical axis.
        lines: The curves by name.
    """
    points = [point for line in lines.values() for point in line]
    most_x = max((x for x, _ in points), default=1.0) or 1.0
    most_y = max((y for _, y in points), default=1.0) or 1.0

    def place(x: float, y: float) -> tuple[float, float]:
        wide, high = _WIDTH - _LEFT - _RIGHT, _HEIGHT - _TOP - _BOTTOM
        return _LEFT + wide * x / most_x, _TOP + high * (1 - y / most_y)

    parts = [_text(_WIDTH / 2, 20, title, anchor="middle", kind="title")]
    for tick in range(_TICKS + 1):
        x, y = most_x * tick / _TICKS, most_y * tick / _TICKS
        left, level = place(0, y)
        column, bottom = place(x, 0)
        parts.append(f'<line x1="{left}" y1="{level:.1f}" x2="{_WIDTH - _RIGHT}" y2="{level:.1f}" stroke="#ddd"/>')
        parts.append(_text(left - 6, level + 4, f"{y:.3g}", anchor="end"))
        parts.append(_text(column, bottom + 16, f"{x:.3g}", anchor="middle"))
    parts.append(_text(_WIDTH / 2, _HEIGHT - 12, across, anchor="middle"))
    parts.append(_text(_LEFT, _TOP - 8, up, anchor="end"))
    for number, (name, line) in enumerate(lines.items()):
        colour = _COLOURS[number % len(_COLOURS)]
        path = " ".join(f"{x:.1f},{y:.1f}" for x, y in (place(*point) for point in line))
        parts.append(f'<polyline points="{path}" fill="none" stroke="{colour}" stroke-width="2"/>')
        parts.append(_text(_LEFT + 12, _TOP + 16 + 16 * number, name, colour=colour))
    return _svg(parts, _HEIGHT)


def goals(rows: list[Row]) -> str:
    """Return a chart of all rows: each figure as a share of its goal."""
    high, wide = 22, 320
    left = 330
    parts = [_text(_WIDTH / 2, 20, "Measured, as a share of the goal", anchor="middle", kind="title")]
    for number, row in enumerate(rows):
        share = min(row.value / row.goal, 1.2) if row.goal else float(row.value > 0) * 1.2
        top = _TOP + number * high
        colour = "#228833" if row.reached else "#ee6677"
        parts.append(_text(left - 8, top + 13, row.name, anchor="end"))
        parts.append(
            f'<rect x="{left}" y="{top + 2}" width="{max(1.0, wide * share / 1.2):.1f}" height="14" fill="{colour}"/>'
        )
    goal, bottom = left + wide / 1.2, _TOP + len(rows) * high
    parts.append(
        f'<line x1="{goal:.1f}" y1="{_TOP - 4}" x2="{goal:.1f}" y2="{bottom}" stroke="#333" stroke-dasharray="4 3"/>'
    )
    parts.append(_text(goal, bottom + 16, "goal", anchor="middle"))
    return _svg(parts, bottom + 30)


def ratios(comparisons: list[Comparison]) -> str:
    """Return a chart of comparisons: the seconds of each one who did the work, by those of the first one."""
    high, wide, left = 22, 320, 330
    bars = [(each.work, name, each.ratio(name)) for each in comparisons for name in each.costs]
    most = max(ratio for _, _, ratio in bars)
    parts = [_text(_WIDTH / 2, 20, "Seconds, by those of the unordered loader", anchor="middle", kind="title")]
    for number, (work, name, ratio) in enumerate(bars):
        top, long = _TOP + number * high, wide * ratio / most
        colour = _COLOURS[list(comparisons[0].costs).index(name)]
        parts.append(_text(left - 8, top + 13, f"{work}: {name}", anchor="end"))
        parts.append(f'<rect x="{left}" y="{top + 2}" width="{long:.1f}" height="14" fill="{colour}"/>')
        parts.append(_text(left + long + 6, top + 13, f"{ratio:.2f}"))
    return _svg(parts, _TOP + len(bars) * high + 10)


def _svg(parts: list[str], height: float) -> str:
    head = f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {_WIDTH} {height:.0f}" width="{_WIDTH}">'
    return "\n".join(
        [head, f"<style>{_STYLE}</style>", '<rect width="100%" height="100%" fill="white"/>', *parts, "</svg>\n"]
    )


def _text(x: float, y: float, words: str, *, anchor: str = "start", kind: str = "", colour: str = "") -> str:
    fill = f' style="fill: {colour}"' if colour else ""
    return f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}" class="{kind}"{fill}>{escape(words)}</text>'
