"""Manifests in the cache of a machine. One process fetches a manifest for all."""

from __future__ import annotations

import os
import re
from hashlib import blake2b

from recstore.errors import CorruptError
from recstore.remote.cache import cache as caches
from recstore.remote.cache import cache_room, fetch_client
from recstore.remote.places.storage import MOST_READ, Storage, environment
from recstore.remote.set import manifest

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping
    from typing import Any

    from recstore.remote import tokens
    from recstore.remote.places.storage import Listed, Options

_IS_PLACE = re.compile("endpoint|region|account|host|project|profile")
_IS_SECRET = re.compile("key|secret|token|password|credential|sas|signature")


def place_of(options: Options) -> str:
    """A hash (16 hex digits) of the endpoint, region and account of a store, from options and environment without
    secrets. It distinguishes stores with the same bucket name, and therefore the same URLs."""
    text = f"{_place_options(environment())!r}\n{_place_options(options or {})!r}"
    return blake2b(text.encode("utf-8", "backslashreplace"), digest_size=8).hexdigest()


def _place_options(options: Mapping[str, Any]) -> list[tuple[str, str]]:
    """The options that identify a store, sorted, including the nested options of fsspec."""
    out = []
    for name, value in options.items():
        name = str(name).lower()
        if isinstance(value, dict):
            out += [(f"{name}.{inner}", text) for inner, text in _place_options(value)]
        elif isinstance(value, (str, int)) and _IS_PLACE.search(name) and not _IS_SECRET.search(name):
            out.append((name, str(value)))
    return sorted(out)


def set_id(url: str, number: int, place: str) -> str:
    """The id of a manifest in a cache."""
    return blake2b(f"{url}@{number} {place}".encode("utf-8", "surrogateescape"), digest_size=20).hexdigest()


def load(
    reading: tokens.Reading, client: fetch_client.Client, number: int | None, fingerprint: str
) -> tuple[manifest.Manifest, cache_room.Lease]:
    """The manifest, and a lease of its set. One process on the machine fetches it. The newest manifest is looked up
    each time, and fetched again if it was replaced since."""
    remote, into, modified = ClientStorage(client), client.cache, None
    if number is None:
        number, facts = manifest.existing(remote)
        modified = caches.time_of(facts)
    id_ = set_id(remote.url, number, reading.place)
    name = os.path.join("sets", f"{id_}.json")
    lease = cache_room.Lease(into.sets, id_, into.limit, into.group)

    def cached() -> manifest.Manifest | None:
        data = into.read(name, modified=modified)
        try:
            contents = None if data is None else manifest.Manifest.parse(data, remote.of(manifest.name_of(number)))
        except CorruptError:
            into.discard(name)
            return None
        known = contents is not None and contents.number == number and contents.fingerprint.startswith(fingerprint)
        return contents if known else None

    def fetch() -> manifest.Manifest:
        contents = manifest.load(remote, number)
        data = contents.dump()
        with into.new_part(name, len(data), patience=client.storage.patience) as part:
            part.write(data)
            part.publish(modified)
        return contents

    return fetch_client.once(name, cached, fetch, client), lease


class ClientStorage(Storage):
    """Reads manifests through the helper process."""

    def __init__(self, client: fetch_client.Client) -> None:
        super().__init__(client.storage.url)
        self.client = client

    def read(self, name: str, limit: int = MOST_READ) -> bytes:
        return self.client.ask("read", name)  # type: ignore[no-any-return]

    def list(self, prefix: str = "") -> Iterable[Listed]:
        return self.client.ask("list", prefix)  # type: ignore[no-any-return]
