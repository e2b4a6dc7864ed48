"""COCO annotations at the scale of train2017, made of the real ones so that nothing of them repeats.

Each is a real annotation drawn at random, shrunk by one factor for its x and another for its y and moved somewhere else
in the picture. A move alone would leave the differences within a polygon the same in all its copies, which a coder of
differences and shared values would profit from. Box and area are made from the polygon as COCO makes them (extremes;
shoelace). Nothing else of a polygon changes: number of points, two decimals, the kinds of values.
"""

import random

SEED = 2017
SIDE = 640
IMAGES = 117_266  # of train2017 that have annotations
_LAST_IMAGE = 581_930
_CROWD_IDS = 900_100_000_000


def annotations(real, count):
    """Generate `count` annotations from the real ones."""
    draw = random.Random(SEED)
    images = draw.sample(range(9, _LAST_IMAGE), max(1, min(IMAGES, count // 7)))
    size, number = len(real), 0
    for _ in range(count):
        record = dict(real[int(draw.random() * size)])
        (_crowd if isinstance(record["segmentation"], dict) else _polygons)(record, draw.random)
        # The ids of train2017 grow within a category and leave gaps; those of crowds say the image.
        number += 1 + int(draw.random() * 4)
        record["image_id"] = images[int(draw.random() * len(images))]
        record["id"] = number if not record["iscrowd"] else _CROWD_IDS + record["image_id"]
        yield record


def _polygons(record, draw):
    polygons = record["segmentation"]
    across = _place(
        min(min(polygon[0::2]) for polygon in polygons), max(max(polygon[0::2]) for polygon in polygons), draw
    )
    down = _place(
        min(min(polygon[1::2]) for polygon in polygons), max(max(polygon[1::2]) for polygon in polygons), draw
    )
    (by_x, to_x), (by_y, to_y) = across, down
    moved, area = [], 0.0
    left = top = float("inf")
    right = bottom = 0.0
    for polygon in polygons:
        # Hundredths, for an int over 100 is the float that two decimals are read as; round(x, 2) takes five times as
        # long.
        xs = [int(x * by_x + to_x) / 100 for x in polygon[0::2]]
        ys = [int(y * by_y + to_y) / 100 for y in polygon[1::2]]
        flat = [0.0] * len(polygon)
        flat[0::2], flat[1::2] = xs, ys
        moved.append(flat)
        area += _shoelace(xs, ys)
        left, right = min(left, *xs), max(right, *xs)
        top, bottom = min(top, *ys), max(bottom, *ys)
    record["segmentation"] = moved
    record["bbox"] = [left, top, round(right - left, 2), round(bottom - top, 2)]
    record["area"] = area


def _place(low, high, draw):
    """`(factor, offset)` to hundredths, that shrink a range by up to 15% and put it anywhere within the picture."""
    factor = 1 - 0.15 * draw()
    return 100 * factor, 100 * (draw() * max(0.0, SIDE - (high - low) * factor) - low * factor)


def _shoelace(xs, ys):
    # From the first point on, so that as few digits are lost, and as many are left over, as in the real areas.
    x, y = xs[0], ys[0]
    xs, ys = [value - x for value in xs], [value - y for value in ys]
    return abs(sum(x * y for x, y in zip(xs, ys[1:] + ys[:1])) - sum(x * y for x, y in zip(xs[1:] + xs[:1], ys))) / 2


def _crowd(record, draw):
    """A run-length mask: every second border a little moved, the sum of the runs as it was."""
    counts = list(record["segmentation"]["counts"])
    for at in range(1, len(counts) - 1, 2):
        by = int(draw() * min(7, counts[at], counts[at + 1]))
        counts[at], counts[at + 1] = counts[at] - by, counts[at + 1] + by
    record["segmentation"] = {**record["segmentation"], "counts": counts}
    x, y, width, height = record["bbox"]
    record["bbox"] = [int(draw() * max(1, SIDE - width)), int(draw() * max(1, SIDE - height)), width, height]
    record["area"] = sum(counts[1::2])
