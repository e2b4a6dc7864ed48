"""Plots of where the bytes of a store go, as ``x.info().plot()`` gives them."""

from recstore import html, node_sizes
from recstore.text import counted, size_text

_VALUES, _TABLES = "#4c78a8", "#e39a4a"


def figure(info):
    """The Figure of a StoreInfo, MappingInfo or ViewInfo."""
    graph = _plotly()
    rows = _rows(info)
    whole = info.nbytes
    rows = [row for row in rows if row[1]][::-1]  # plotly has the first bar at the bottom
    # Names may repeat, as keys and values of a mapping have fields: the axis has numbers, with names as their labels.
    places = list(range(len(rows)))
    bars = []
    for label, color, part in (
        ("values", _VALUES, lambda row: row[1] - row[2]),
        ("in tables", _TABLES, lambda row: row[2]),
    ):
        sizes = [part(row) for row in rows]
        if label == "values" or any(sizes):
            bars.append(
                graph.Bar(
                    x=sizes,
                    y=places,
                    orientation="h",
                    name=label,
                    marker={"color": color},
                    customdata=[_hover(row, whole, info.records) for row in rows],
                    hovertemplate="%{customdata}<extra></extra>",
                )
            )
    out = graph.Figure(bars)
    out.update_layout(
        barmode="stack",
        title=f"{counted(info.records, 'record')}, {size_text(whole)}",
        xaxis={"title": "bytes", "tickformat": "~s"},
        yaxis={
            "tickmode": "array",
            "tickvals": places,
            "ticktext": [_html(row[0]) for row in rows],
            "automargin": True,
        },
        height=max(260, 110 + 24 * len(rows)),
        showlegend=len(bars) > 1,
        bargap=0.25,
        margin={"l": 10, "r": 20, "t": 50, "b": 40},
    )
    return out


def _plotly():
    try:
        from plotly import graph_objects
    except ImportError:
        raise ImportError('plot() needs plotly: pip install "recstore[monitor]"') from None
    return graph_objects


def _rows(info):
    """`(name, bytes, bytes of these in tables, remark)` of the bars of an info."""
    if hasattr(info, "index_bytes"):
        return _of_mapping(info)
    parts = [part.measured() for part in getattr(info, "stores", (info,))]
    fields = _together(parts)
    if fields:
        return [*_within(fields, None), _rest(info.nbytes, fields[0][1])]
    sections = {}
    for part in parts:
        for name, size in part.sections.items():
            sections[name] = sections.get(name, 0) + size
    return _of_sections(sections, info.nbytes)


def _of_mapping(info):
    """The rows of the fields of keys and of values, of the key index and of the rest."""
    keys, values = (_together([part.measured() for part in parts]) for parts in (info.keys, info.segments))
    if not keys and not values:
        return _of_sections(info.sections, info.nbytes)
    counted = info.index_bytes + sum(fields[0][1] for fields in (keys, values) if fields)
    index = "key index", info.index_bytes, 0, ""
    return [*_within(keys, "keys"), *_within(values, "values"), index, _rest(info.nbytes, counted)]


def _within(fields, label):
    """The rows without that of the whole record, which the fields in it make up. With a `label`, that row stays and
    goes by it."""
    if label is None:
        return fields[1:] or fields
    return [(label, *fields[0][1:]), *((f"{label}: {row[0]}", *row[1:]) for row in fields[1:])] if fields else []


def _together(infos):
    """The rows of the fields of several StoreInfos; a field of several stores is one row."""
    found = {}
    for info in infos:
        for one in info.fields:
            row = found.setdefault(one.field, [one.field or "record", 0, 0, {}])
            row[1] += one.nbytes
            row[2] += one.table_nbytes
            row[3].update(dict.fromkeys(one.forms))
    return [(name, size, in_tables, " ".join(forms)) for name, size, in_tables, forms in found.values()]


def _of_sections(sections, nbytes):
    rows = [(name, size, 0, "") for name, size in sections.items()]
    return [*rows, _rest(nbytes, sum(sections.values()))]


def _rest(nbytes, counted):
    return "besides", max(0, nbytes - counted), 0, node_sizes.BESIDES


def _hover(row, whole, records):
    name, size, in_tables, remark = row
    lines = [
        f"<b>{_html(name)}</b>",
        f"{size:,} bytes, {size / max(1, whole):.1%} of all",
        f"{size / max(1, records):.2f} bytes a record",
    ]
    if in_tables:
        lines.append(f"{in_tables:,} of them in tables")
    return "<br>".join([*lines, _html(remark)] if remark else lines)


def _html(text):
    """Text as plotly shows it, which takes some tags for markup."""
    return html.escape(text if len(text) <= 60 else f"{text[:28]}...{text[-29:]}")
