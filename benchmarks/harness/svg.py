"""Plots as SVG text, with no library: ratios on a logarithmic axis, so that 2 and 1/2 are equally far from 1."""
import math
from xml.sax.saxutils import escape

COLOURS = ("#2b6cb0", "#c05621", "#2f855a", "#6b46c1")
GREY, TEXT = "#d0d0d0", "#333333"


class Plot:
    """Collects shapes; the axis of ratios is horizontal and reaches from `low` to `high`."""

    def __init__(self, title, low, high, width, height, left=40):
        self.low, self.high, self.width, self.height, self.left = low, high, width, height, left
        self.shapes = [f'<rect width="{width}" height="{height}" fill="white"/>']
        self.text(left, 18, title, size=14)

    def x(self, ratio):
        share = math.log(min(max(ratio, self.low), self.high) / self.low) / math.log(self.high / self.low)
        return self.left + share * (self.width - self.left - 20)

    def text(self, x, y, words, size=11, anchor="start", colour=TEXT):
        self.shapes.append(f'<text x="{x:.1f}" y="{y:.1f}" font-family="sans-serif" font-size="{size}" fill="{colour}" '
                           f'text-anchor="{anchor}">{escape(words)}</text>')

    def line(self, x0, y0, x1, y1, colour=GREY):
        self.shapes.append(f'<line x1="{x0:.1f}" y1="{y0:.1f}" x2="{x1:.1f}" y2="{y1:.1f}" stroke="{colour}"/>')

    def bar(self, ratio, y, height, colour):
        """From 1 to the ratio."""
        begin, end = sorted((self.x(1), self.x(ratio)))
        self.shapes.append(f'<rect x="{begin:.1f}" y="{y:.1f}" width="{max(end - begin, 1):.1f}" height="{height:.1f}" '
                           f'fill="{colour}"/>')

    def dots(self, points, colour):
        path = "".join(f"M{x:.1f} {y:.1f}h0" for x, y in points)
        self.shapes.append(f'<path d="{path}" stroke="{colour}" stroke-width="3.5" stroke-linecap="round" '
                           'fill="none"/>')

    def axis(self, ticks, top, bottom):
        for tick in ticks:
            self.line(self.x(tick), top, self.x(tick), bottom, TEXT if tick == 1 else GREY)
            self.text(self.x(tick), bottom + 14, f"{tick:g}" if tick >= 1 else f"1/{1 / tick:g}", anchor="middle")

    def legend(self, names, y):
        x = self.left
        for name, colour in zip(names, COLOURS):
            self.shapes.append(f'<rect x="{x}" y="{y - 9}" width="10" height="10" fill="{colour}"/>')
            self.text(x + 14, y, name)
            x += 30 + 7 * len(name)

    def __str__(self):
        return (f'<svg xmlns="http://www.w3.org/2000/svg" width="{self.width}" height="{self.height}" '
                f'viewBox="0 0 {self.width} {self.height}">\n' + "\n".join(self.shapes) + "\n</svg>\n")


def sorted_ratios(title, series):
    """Each series of ratios as dots, from the least to the greatest."""
    low, high, top, bottom = 1 / 32, 32, 46, 330
    plot = Plot(title, low, high, 640, bottom + 34)
    plot.legend(list(series), 36)
    plot.axis([2.0 ** n for n in range(-5, 6)], top, bottom)
    for ratios, colour in zip(series.values(), COLOURS):
        count = max(1, len(ratios) - 1)
        plot.dots([(plot.x(r), bottom - (bottom - top) * n / count) for n, r in enumerate(sorted(ratios))], colour)
    return str(plot)


def grouped_bars(title, groups, names):
    """For each group, which is a label and ratios by name, a bar for each name."""
    thickness, top = 7, 46
    row = thickness * len(names) + 8
    plot = Plot(title, 1 / 4, 16, 680, top + row * len(groups) + 34, left=210)
    plot.legend(names, 36)
    plot.axis([2.0 ** n for n in range(-2, 5)], top, top + row * len(groups))
    for n, (label, ratios) in enumerate(groups):
        y = top + n * row + 4
        plot.text(plot.left - 6, y + row / 2, label, anchor="end")
        for place, (name, colour) in enumerate(zip(names, COLOURS)):
            if name in ratios:
                plot.bar(ratios[name], y + place * thickness, thickness - 1, colour)
    return str(plot)
