"""The fixture `decoder` simulates each set of JSON libraries that may be installed."""

import pytest

from recstore.sources import json_values


@pytest.fixture(params=["orjson", "orjson alone", "msgspec", "json"])
def decoder(request, monkeypatch):
    decode = long = json_values.exact
    errors = (ValueError, RecursionError)
    if "orjson" in request.param:
        decode = pytest.importorskip("orjson").loads
    if request.param in ("orjson", "msgspec"):
        msgspec = pytest.importorskip("msgspec")
        long, errors = msgspec.json.Decoder().decode, (*errors, msgspec.MsgspecError)
    monkeypatch.setattr(json_values, "DECODE", long if request.param == "msgspec" else decode)
    monkeypatch.setattr(json_values, "DECODE_LONG", long)
    monkeypatch.setattr(json_values, "NOT_JSON", errors)
