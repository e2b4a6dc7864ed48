"""COCO annotations at the scale of train2017, derived from real ones so that no shapes repeat.

Each is a random real annotation. Polygons are shrunk in x and y by different factors and moved within the image.
Moving alone would keep the differences within a polygon, and a coder of differences could share them between the
copies. Box and area are computed from the polygon as COCO does it (extremes; shoelace formula). The number of points,
the two decimals and the types of values stay.
"""

import random

SEED = 2017
SIDE = 640
IMAGES = 117_266  # images of train2017 with annotations
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
        # Ids grow, with gaps. As in train2017, ids of crowds contain the image id.
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
        # An int divided by 100 is the float that JSON gives for two decimals; round(x, 2) takes five times as long.
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
    """`(factor, offset)`, in hundredths, that shrink a range by up to 15% and move it within the image."""
    factor = 1 - 0.15 * draw()
    return 100 * factor, 100 * (draw() * max(0.0, SIDE - (high - low) * factor) - low * factor)


def _shoelace(xs, ys):
    # Relative to the first point, so that the areas have as many digits as the real ones.
    x, y = xs[0], ys[0]
    xs, ys = [value - x for value in xs], [value - y for value in ys]
    return abs(sum(x * y for x, y in zip(xs, ys[1:] + ys[:1])) - sum(x * y for x, y in zip(xs[1:] + xs[:1], ys))) / 2


def _crowd(record, draw):
    """Moves every second border of a run-length mask a little. The sum of the runs stays."""
    counts = list(record["segmentation"]["counts"])
    for at in range(1, len(counts) - 1, 2):
        by = int(draw() * min(7, counts[at], counts[at + 1]))
        counts[at], counts[at + 1] = counts[at] - by, counts[at + 1] + by
    record["segmentation"] = {**record["segmentation"], "counts": counts}
    x, y, width, height = record["bbox"]
    record["bbox"] = [int(draw() * max(1, SIDE - width)), int(draw() * max(1, SIDE - height)), width, height]
    record["area"] = sum(counts[1::2])
