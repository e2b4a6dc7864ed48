"""recstore.remote.places.obstore_store: a failing S3 server, expired credentials, lost answers."""

import io
import pickle
import sys

import pytest
from s3 import BIG

import recstore
from recstore.remote.places.choose_storage import storage_of
from recstore.remote.set import manifest

SHORT = {"patience": 0.02}
USES = {
    "read": lambda place: place.read("big"), "read_into": lambda place: place.read_into("big", io.BytesIO()),
    "write": lambda place: place.write("big", BIG), "create": lambda place: place.create("new", b"x"),
    "list": lambda place: list(place.list()), "size": lambda place: place.size("big"),
    "delete": lambda place: place.delete(["big"])
}  # fmt: skip


@pytest.mark.parametrize("use", USES)
def test_temporary_faults_are_retried(server, bucket, use):
    for fault, times in (("refuse", 2), ("reset", 2), ("expire", 1)):
        bucket.write("big", BIG)
        getattr(server, fault)(times)
        result = USES[use](bucket)
        assert server.left() == 0
        assert result == {"read": BIG, "read_into": len(BIG), "create": True, "size": len(BIG)}.get(use, result)
        if use == "create":
            assert bucket.read("new") == b"x"
            bucket.delete(["new"])


FAULTS = {
    "refuse": "the store asks to slow down", "reset": "no connection", "expire": "the credentials .*have expired",
    "deny": "the credentials do not allow this", "page": "cannot "
}  # fmt: skip


@pytest.mark.parametrize("use", USES)
def test_the_error_of_a_permanent_fault_names_the_object(server, bucket, use):
    bucket.write("big", BIG)
    place = storage_of(bucket.url, server.options | SHORT)
    for fault, message in FAULTS.items():
        server.reset_counts()
        if fault == "page":  # of a proxy
            server.refuse(10_000, status=200, body="<!doctype html><title>Back soon</title>")
        else:
            getattr(server, fault)(10_000)
        with pytest.raises(recstore.errors.RemoteError, match=message) as caught:
            USES[use](place)
        assert len(server.log) < 60, "retries are limited"
        server.heal()
        name = {"list": "", "delete": "", "create": "/new"}.get(use, "/big")
        assert caught.value.url == bucket.url + name and caught.value.url in str(caught.value)
        assert "test" not in str(caught.value).replace("request", ""), "no credentials"
        assert pickle.loads(pickle.dumps(caught.value)).url == caught.value.url
        assert bucket.size("big") == len(BIG) and bucket.size("new") is None


PAGES = {
    "expired": (
        "<?xml version='1.0'?>\n<Error><Code>ExpiredToken</Code><Message>The token has expired.</Message>"
        "<Token-0>{secret}</Token-0></Error>",
        r"renew them .*403.*: ExpiredToken The token has expired\.\)$",
    ),
    "signature": (
        "<Error><Code>SignatureDoesNotMatch</Code><AWSAccessKeyId>{secret}</AWSAccessKeyId>"
        "<StringToSign>{secret}</StringToSign></Error>",
        r"does not accept the credentials.*: SignatureDoesNotMatch\)$",
    ),
    "html": ("<html>{secret}</html>", "do not allow this"),
    "text": ("denied to {secret}, key {other}!", r"denied to \.\.\., key \.\.\.!\)$"),
}


@pytest.mark.parametrize("page", PAGES)
def test_messages_have_no_secrets(server, bucket, monkeypatch, page):
    """Error pages of S3 repeat the refused token and the signed text."""
    monkeypatch.setenv("AWS_SESSION_TOKEN", "of+the/environment==")
    secret, other = "session/token+secret==", "of+the/environment=="
    place = storage_of(bucket.url, {**server.options, "session_token": secret})
    text, message = PAGES[page]
    server.refuse(100, status=403, body=text.format(secret=secret, other=other))
    for use in USES.keys() - {"size"}:  # the answer to HEAD has no body
        with pytest.raises(recstore.errors.RemoteError, match=message) as caught:
            USES[use](place)
        assert secret not in str(caught.value) and other not in str(caught.value)
        assert caught.value.__cause__ is None


def test_a_missing_bucket(server):
    place = storage_of("s3://nonesuch/x", server.options)
    for use in ("write", "create", "list"):
        pytest.raises(recstore.errors.RemoteError, lambda: USES[use](place)).match("no such (object or )?bucket")
    pytest.raises(recstore.errors.SegmentNotFoundError, lambda: place.read("a")).match("no such (object or )?bucket")


def test_no_server(server):
    place = storage_of("s3://bucket/x", server.options | SHORT | {"endpoint": "http://127.0.0.1:1"})
    with pytest.raises(recstore.errors.RemoteError, match="no connection: check the network and the endpoint"):
        place.read("a")


@pytest.mark.parametrize("endpoint", ["localhost:9000", "http:/localhost", ""])
def test_an_endpoint_without_a_scheme(monkeypatch, endpoint):
    place = storage_of("s3://bucket/x", {"endpoint": endpoint})
    pytest.raises(recstore.errors.RemoteError, lambda: place.read("a")).match("write http:// or https://")
    monkeypatch.setenv("AWS_ENDPOINT_URL", endpoint)
    place = storage_of("s3://bucket/x", {})
    pytest.raises(recstore.errors.RemoteError, lambda: place.read("a")).match("AWS_ENDPOINT_URL is")


def test_a_panic_of_obstore(monkeypatch):
    monkeypatch.setenv("AZURE_STORAGE_ENDPOINT", "localhost:1")
    place = storage_of("az://c/x", {"account_name": "a", "account_key": "YWJj"})
    pytest.raises(recstore.errors.RemoteError, lambda: place.size("a")).match("correct the names and the values")


def test_a_truncated_response_is_resumed(server, bucket):
    bucket.write("big", BIG)
    for at in (0.0, 0.1, 0.9):
        server.reset_counts()
        server.cut(3, at=at)
        assert bucket.read("big") == BIG and server.left() == 0
        assert sum(server.sent.values()) < 1.2 * len(BIG), "received bytes are not fetched again"
    server.reset_counts()
    server.cut(10_000, at=0)
    place = storage_of(bucket.url, server.options | SHORT)
    pytest.raises(recstore.errors.RemoteError, lambda: place.read("big")).match("cannot read")
    assert len(server.log) < 60


def test_a_create_whose_answer_is_lost(server, bucket):
    server.reset(1, method="PUT", after=True)
    assert bucket.create("m", b"mine") is True and bucket.read("m") == b"mine"
    bucket.write("n", b"theirs")
    server.reset(1, method="PUT")
    assert bucket.create("n", b"mine") is False and bucket.read("n") == b"theirs"


def test_manifests_are_found_without_a_listing_of_all(server, bucket):
    """A set may have 100,000 shard files, which sort before the manifests."""
    for i in range(30):
        bucket.write(f"{i:040x}.recs", b"x")
    bucket.write("manifest-3.json", b"x")
    names = [name for name, *_ in bucket.list("manifest-")]
    queries = [path for method, path, _ in server.log if method == "GET"]
    assert names == ["manifest-3.json"] and len(queries) == 1


def test_the_newest_manifest_is_found_among_foreign_objects(server, bucket):
    """Names of foreign objects and folders sort between the manifests."""
    ours = {f"manifest-{number}.json" for number in (1, 2, 10)}
    for name in ours:
        bucket.write(name, b"x")
    for name in ("manifest-/x", "manifest-1.json/a", "manifest-10/b", "manifest-0", "n", "manifest-x/y/z", ".DS_Store"):
        server.put(f"{server.prefix}/{name}", b"x")
    assert manifest.newest(bucket) == 10
    assert {name for name, *_ in bucket.list()} == ours | {"manifest-0", "n"}


def test_obstore_is_missing(monkeypatch):
    monkeypatch.setitem(sys.modules, "obstore.store", None)
    with pytest.raises(ImportError, match=r"s3://b/x needs obstore: pip install recstore\[remote\]"):
        storage_of("s3://b/x").read("a")
