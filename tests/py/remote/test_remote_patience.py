"""How long recstore.remote waits for a store that fails, and what it reads again: outages, throttling, hung requests,
answers of a proxy, objects that change, renewed credentials."""

import datetime
import http.server
import io
import json
import os
import ssl
import sys
import threading
from urllib.parse import parse_qs, urlsplit

import pytest
from s3 import BIG, DENIED, EXPIRED
from s3_sets import ALL, PARTS, first_in_helper
from waiting import Clock, together, until

import recstore
from recstore.remote.places import obstore_store, storage
from recstore.remote.places.choose_storage import storage_of
from recstore.remote.set import collecting, manifest
from recstore.remote.set.writer import ShardWriter

WEB_PAGE = "<!doctype html><title>Back soon</title>"


def use_everything(server, folder, options):
    """Writes and reads a set in every way."""
    w = ShardWriter(server.at, options=options, shard_records=60)
    number = w.commit([w.write(part) for part in PARTS])
    for lazy in (False, True):
        with recstore.open(server.at, cache=folder / str(lazy), lazy=lazy, options=options) as x:
            assert x.to_list() == ALL
    w.commit(w.write([{"i": -1}]), append=True)
    assert len(collecting.gc(server.at, days=0, options=options).manifests) == number


# ---- Failures that heal ----


def test_an_outage(server, tmp_path):
    timers = [threading.Timer(0.2 * n, server.fail_for, (0.1,)) for n in range(5)]
    for timer in timers:
        timer.start()
    use_everything(server, tmp_path, server.options)
    for timer in timers:
        timer.join()


def test_more_clients_than_the_store_serves(server, bucket):
    bucket.write("a", b"x")
    server.throttle(10)
    contents = []

    def read():
        contents.append(storage_of(bucket.url, server.options).read("a"))

    together([threading.Thread(target=read) for _ in range(25)])
    assert contents == [b"x"] * 25


def test_requests_that_hang(server, tmp_path):
    server.delay(1.5, times=10**9, every=8)
    limits = {"read_timeout": "300 ms", "timeout": "900 ms", "patience": "5m"}
    use_everything(server, tmp_path, server.options | limits)


def test_a_web_page_of_a_proxy(server, tmp_path):
    server.refuse(10**6, status=200, body=WEB_PAGE, every=4)
    use_everything(server, tmp_path, server.options)


def test_a_long_listing_that_is_cut(server, bucket, monkeypatch):
    """It continues after the last name."""
    import obstore

    for name in "abcd":
        bucket.write(name, b"x")
    offsets, list_ = [], obstore.list

    def cut(client, offset, chunk_size):
        offsets.append(offset)
        yield next(iter(list_(client, offset=offset, chunk_size=2)))
        if offset != "b":
            raise obstore.exceptions.GenericError("Debug source: source: HttpError")

    monkeypatch.setattr(obstore, "list", cut)
    assert [name for name, *_ in bucket.list()] == ["a", "b", "c", "d"] and offsets == [None, "b"]


def test_a_damaged_manifest_is_read_again(made, tmp_path):
    made.flip(2, match="manifest-1.json")
    assert recstore.open(made.at, cache=tmp_path, options=made.options).to_list() == ALL and made.left() == 0
    made.flip(10**6, match="manifest-1.json")
    with pytest.raises(recstore.errors.CorruptError):
        manifest.load(storage_of(made.at, made.options), 1)


def test_an_object_that_changes_while_it_is_read(server, bucket):
    bucket.write("big", BIG)

    class Replacing(io.BytesIO):
        def write(self, data):
            server.put(f"{server.prefix}/big", b"of another version")
            return super().write(data)

    server.cut(1)
    with pytest.raises(recstore.errors.CorruptError):
        bucket.read_into("big", Replacing())
    assert bucket.read("big") == b"of another version"


# ---- Failures that do not heal ----


def test_answers_of_the_store(server, bucket, monkeypatch):
    """A final answer is not asked for again, except with renewed credentials."""
    for module in (obstore_store, storage):
        monkeypatch.setattr(module, "time", Clock())  # only pauses use up the patience, slow requests do not
    place = storage_of(bucket.url, server.options | {"patience": 0.02})
    for status, body, message in (
        (403, DENIED, "do not allow this"), (403, EXPIRED, "have expired"), (401, "", "does not accept"),
        (403, "<Error><Code>RequestTimeTooSkewed</Code></Error>", "clock"),
        (404, "<Error><Code>NoSuchBucket</Code></Error>", "no such bucket"),
        (301, "<Error><Code>PermanentRedirect</Code></Error>", "cannot write"),
        (400, "<Error><Code>AuthorizationHeaderMalformed</Code></Error>", "cannot write"),
        (501, "<Error><Code>NotImplemented</Code></Error>", "the store cannot do this"),
        (500, "<Error/>", "internal error"), (502, "", "internal error"),
    ):  # fmt: skip
        server.refuse(10**6, status=status, body=body)
        pytest.raises(recstore.errors.RemoteError, lambda: place.create("a", b"x")).match(message)
        assert (len(server.log) <= 2) == (status not in (500, 502)), status
        server.heal()
        server.reset_counts()


def test_an_endpoint_without_tls(server):
    options = server.options | {"endpoint": server.endpoint.replace("http:", "https:")}
    with pytest.raises(recstore.errors.RemoteError, match="TLS"):
        storage_of(server.at, options | {"patience": "1w"}).read("a")


def test_an_untrusted_certificate(server, tls):
    with pytest.raises(recstore.errors.RemoteError, match="certificate"):
        storage_of(server.at, server.options | {"endpoint": tls, "patience": "1w"}).read("a")


class Provider(http.server.BaseHTTPRequestHandler):
    """Answers as the providers of credentials of AWS do. The access key is the token of the request."""

    def do_GET(self):
        token = self.headers.get("Authorization") or parse_qs(urlsplit(self.path).query)["WebIdentityToken"][0]
        entries = {"AccessKeyId": token, "SecretAccessKey": "x", "Expiration": "2100-01-01T00:00:00Z"}
        text = json.dumps({**entries, "Token": "x"})
        if self.command == "POST":
            text = "".join(f"<{name}>{value}</{name}>" for name, value in {**entries, "SessionToken": "x"}.items())
            for tag in ("Credentials", "AssumeRoleWithWebIdentityResult", "AssumeRoleWithWebIdentityResponse"):
                text = f"<{tag}>{text}</{tag}>"
        self.send_response(200)
        self.send_header("Content-Length", str(len(text)))
        self.end_headers()
        self.wfile.write(text.encode())

    do_POST = do_GET

    def log_message(self, *_):
        pass


@pytest.fixture
def tls(tmp_path):
    """The address of a Provider with a certificate that nobody trusts."""
    from cryptography import x509
    from cryptography.hazmat.primitives import hashes, serialization
    from cryptography.hazmat.primitives.asymmetric import ec

    key, now = ec.generate_private_key(ec.SECP256R1()), datetime.datetime.now(datetime.timezone.utc)
    name = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, "localhost")])
    builder = x509.CertificateBuilder(name, name, key.public_key(), x509.random_serial_number())
    builder = builder.not_valid_before(now).not_valid_after(now + datetime.timedelta(days=1))
    certificate = builder.sign(key, hashes.SHA256())
    pem, plain = serialization.Encoding.PEM, serialization.NoEncryption()
    private = key.private_bytes(pem, serialization.PrivateFormat.PKCS8, plain)
    (tmp_path / "pem").write_bytes(private + certificate.public_bytes(pem))
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(tmp_path / "pem")
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Provider) as server:
        server.socket = context.wrap_socket(server.socket, server_side=True)  # an OSError of accept() is ignored
        thread = threading.Thread(target=server.serve_forever, args=(0.05,))
        thread.start()
        yield f"https://localhost:{server.server_port}"
        server.shutdown()
        thread.join()


def test_a_bucket_that_forbids_listing(made, tmp_path):
    made.deny(10**6, match="list-type")
    with pytest.raises(recstore.errors.RemoteError, match="URL@n"):
        recstore.open(made.at, cache=tmp_path, options=made.options)
    assert recstore.open(f"{made.at}@1", cache=tmp_path, options=made.options).to_list() == ALL


# ---- Patience ----


@pytest.mark.parametrize(("option", "variable", "expected"), [
    (None, None, 300), (None, "2m", 120), ("1.5", "2m", 1.5), (0, None, 0), ("3h", None, 10800)
])  # fmt: skip
def test_the_patience(monkeypatch, option, variable, expected):
    monkeypatch.delenv("RECSTORE_PATIENCE", raising=False)
    if variable is not None:
        monkeypatch.setenv("RECSTORE_PATIENCE", variable)
    assert storage_of("s3://b/x", None if option is None else {"patience": option}).patience == expected


@pytest.mark.parametrize("wrong", ["soon", -1, None, True, "", float("nan")])
def test_an_invalid_patience(monkeypatch, wrong):
    pytest.raises(ValueError, lambda: storage_of("s3://b/x", {"patience": wrong})).match("patience.*5m")
    pytest.raises(ValueError, lambda: storage_of("memory://x", {"patience": wrong})).match("patience.*5m")


def test_the_wait_ends_with_the_patience_and_is_logged(server, bucket, monkeypatch, caplog):
    clock = Clock()
    monkeypatch.setattr(obstore_store, "time", clock)
    monkeypatch.setattr(storage, "time", clock)
    server.refuse(10**6)
    place = storage_of(bucket.url, server.options | {"patience": 189})
    pytest.raises(recstore.errors.RemoteError, lambda: place.size("a"))
    assert clock.now == pytest.approx(189) and len(server.log) > 30
    assert len(caplog.records) == 3 and bucket.of("a") in caplog.text  # after 10, 70 and 130 s


def test_an_interrupted_write_does_not_wait(server):
    w = ShardWriter(server.at, options=server.options | {"patience": "1w"}, shard_records=10)

    def records():
        server.refuse(10**6, method="PUT")
        yield from range(15)
        until(lambda: server.log)
        raise KeyboardInterrupt

    pytest.raises(KeyboardInterrupt, lambda: w.write(records()))
    server.heal()
    assert w.write([1]).records == 1 and w.storage.patience > 0


def test_an_unknown_host_is_only_waited_for_after_an_answer(server, bucket):
    import obstore

    left = [1]

    def unknown(*_):
        if left and left.pop():
            reason = 'kind: Connect, inner: Http, error: "Name or service not known"'
            raise obstore.exceptions.GenericError(f"HTTP error\n\nDebug source: {reason}")
        return "answer"

    pytest.raises(recstore.errors.RemoteError, lambda: bucket._do("read", "a", unknown)).match("no such host")
    bucket.write("a", b"x")
    left.append(1)
    assert bucket._do("read", "a", unknown) == "answer"


def test_the_fetching_process_logs_in_its_parent(made, tmp_path, monkeypatch, caplog):
    first_in_helper(monkeypatch, "s.FIRST_LOG = 0.0")
    made.refuse(3, match="list-type")
    assert recstore.open(made.at, cache=tmp_path, options=made.options).to_list() == ALL
    (record,) = caplog.records
    assert made.at in record.getMessage()


# ---- Renewed credentials ----


@pytest.fixture
def without_keys(made, tmp_path, monkeypatch):
    """Options without credentials, and an environment in which only the files of this test have some."""
    for name in [name for name in os.environ if name.startswith("AWS_")]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("AWS_SHARED_CREDENTIALS_FILE", str(tmp_path / "credentials"))
    monkeypatch.setenv("AWS_CONFIG_FILE", str(tmp_path / "config"))
    return {name: value for name, value in made.options.items() if not name.endswith("key") and name != "access_key_id"}


def in_environment(monkeypatch, folder, tls, key):
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", key)
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "test")


def section(name, key):
    return f"[{name}]\naws_access_key_id = {key}\naws_secret_access_key = test\n"


def in_file(monkeypatch, folder, tls, key):
    (folder / "credentials").write_text(section("default", key))


def in_profile(monkeypatch, folder, tls, key):
    monkeypatch.setenv("AWS_PROFILE", "mine")
    (folder / "config").write_text(section("default", "wrong") + section("profile mine", key))


def by_web_identity(monkeypatch, folder, tls, key):
    """IRSA of EKS."""
    monkeypatch.setenv("AWS_ENDPOINT_URL_STS", tls)
    monkeypatch.setenv("AWS_ROLE_ARN", "arn:aws:iam::1:role/x")
    monkeypatch.setenv("AWS_WEB_IDENTITY_TOKEN_FILE", str(folder / "token"))
    (folder / "token").write_text(key)


def by_pod_identity(monkeypatch, folder, tls, key):
    monkeypatch.setenv("AWS_CONTAINER_CREDENTIALS_FULL_URI", tls)
    monkeypatch.setenv("AWS_CONTAINER_AUTHORIZATION_TOKEN_FILE", str(folder / "token"))
    (folder / "token").write_text(key)


@pytest.mark.parametrize("source", [in_environment, in_file, in_profile, by_web_identity, by_pod_identity])
def test_renewed_credentials_reach_the_fetching_process(made, tmp_path, monkeypatch, without_keys, tls, source):
    made.accepted_key = "first"
    source(monkeypatch, tmp_path, tls, "first")
    options = without_keys | {"allow_invalid_certificates": True}
    x = recstore.open(made.at, cache=tmp_path / "cache", lazy=True, options=options)
    assert x[0] == ALL[0]
    made.accepted_key = "second"
    pytest.raises(recstore.errors.RemoteError, lambda: x[70]).match("expired")
    source(monkeypatch, tmp_path, tls, "second")
    assert x[70] == ALL[70]
    x.close()


def test_a_provider_that_fails_for_a_while(made, monkeypatch, without_keys):
    made.accepted_key = "first"
    answers = [{"access_key_id": "first", "secret_access_key": "test", "token": None}] * 2

    def provider():
        expires = datetime.datetime.now(datetime.timezone.utc)  # at once
        return {**answers.pop(), "expires_at": expires}

    place = storage_of(made.at, without_keys | {"credential_provider": provider})
    assert place.size("manifest-1.json")
    answers[:] = [answers[0], {}]
    assert place.size("manifest-1.json") and not answers
    pytest.raises(recstore.errors.RemoteError, lambda: storage_of(made.at, place.options).size("a"))


def test_a_profile_without_botocore(made, monkeypatch, without_keys):
    monkeypatch.setenv("AWS_PROFILE", "mine")
    monkeypatch.setitem(sys.modules, "botocore.session", None)
    with pytest.raises(recstore.errors.RemoteError, match="pip install boto3"):
        storage_of(made.at, without_keys).size("a")
