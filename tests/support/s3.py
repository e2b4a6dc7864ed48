"""An S3 server on the loopback that fails on purpose.

`Server()` starts moto's server in this process, and a proxy in front of it that follows the orders of a test: `refuse`,
`expire`, `deny`, `reset`, `cut`, `flip`, `delay`, `fail_for`, `throttle`. It counts requests by method and
object, and bytes by object. moto supports `If-None-Match: *` in a PUT, but checks and writes in two steps; the proxy
passes such requests on one at a time, so that only one of two writers wins, as in S3.

    with s3.Server() as server:
        storage = storage_of(server.url("bucket/prefix"), server.options)
        server.refuse(3)                  # the next three requests get 503 SlowDown
        server.cut(1, method="GET")       # the next GET ends in the middle of its body

Only for tests: it holds all objects in memory, and checks no signatures.
"""

import collections
import http.client
import http.server
import os
import re
import socket
import struct
import threading
import time

SLOW_DOWN = (
    "<?xml version='1.0'?><Error><Code>SlowDown</Code><Message>Please reduce your request rate.</Message></Error>"
)
EXPIRED = (
    "<?xml version='1.0'?><Error><Code>ExpiredToken</Code><Message>The provided token has expired.</Message></Error>"
)
DENIED = "<?xml version='1.0'?><Error><Code>AccessDenied</Code><Message>Access Denied</Message></Error>"


BIG = b"R" + os.urandom(2_000_000)  # an object; a "<" at its beginning would look like a web page


class Fault:
    """A fault: its kind, the requests that it hits, how often it will still happen, and whether it hits only each
    `every`-th of them."""

    def __init__(self, kind, times, method, match, argument, every=1):
        self.kind, self.times, self.method, self.match, self.argument = kind, times, method, match, argument
        self.every, self.requests = every, 0

    def fits(self, method, path):
        if self.times <= 0 or self.method not in (None, method) or not re.search(self.match, path):
            return False
        self.requests += 1
        return self.requests % self.every == 0


class Server:
    """moto's S3 server behind the proxy. `endpoint` is the endpoint of the proxy; `options` are for `storage_of`.

    `accepted_key` is the only access key that it accepts; None for all.

    `requests` counts by (method, path). `sent` and `received` count the bytes of bodies by path, from the view of the
    server. `log` has (method, path, status) of each request; the status of a reset connection is 0.
    """

    def __init__(self, buckets=("bucket",)):
        from moto.server import ThreadedMotoServer

        self._moto = ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
        self._moto.start()
        self._quiet()
        self.inner = self._moto.get_host_and_port()
        self._faults, self._lock, self._conditional = [], threading.Lock(), threading.Lock()
        self.accepted_key, self.healed = None, threading.Event()
        self._fails_until, self._per_second, self._served = 0.0, None, 0.0
        self.reset_counts()
        self._proxies = []
        self.endpoint = self._listen("127.0.0.1")
        self.options = {
            "endpoint": self.endpoint,
            "region": "us-east-1",
            "access_key_id": "test",
            "secret_access_key": "test",
            "patience": 30,
        }
        for bucket in buckets:
            self.make_bucket(bucket)

    @staticmethod
    def _quiet():
        import logging

        logging.getLogger("werkzeug").setLevel(logging.ERROR)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()

    def close(self):
        for proxy, thread in self._proxies:
            proxy.shutdown()
            proxy.server_close()
            thread.join()
        self._moto.stop()

    def _listen(self, address):
        """Starts a proxy at an address of this machine, and returns its endpoint."""
        proxy = http.server.ThreadingHTTPServer((address, 0), type("Handler", (_Handler,), {"server_": self}))
        proxy.daemon_threads = True
        thread = threading.Thread(target=proxy.serve_forever, kwargs={"poll_interval": 0.05}, daemon=True)
        thread.start()
        self._proxies.append((proxy, thread))
        return f"http://{address}:{proxy.server_port}"

    def options_at(self, address):
        """Starts a proxy for clients that reach this machine at `address`, such as nodes. Returns their options."""
        return {**self.options, "endpoint": self._listen(address)}

    def url(self, path):
        """The URL of a bucket, or of a prefix in it: ``server.url("bucket/train")``."""
        return f"s3://{path}"

    def make_bucket(self, name):
        self._ask("PUT", f"/{name}")

    # ---- Faults. `match` is a pattern for the path and query; `method` is GET, PUT, ..., or None for all. ----

    def refuse(self, times=1, method=None, match="", status=503, body=SLOW_DOWN, every=1):
        """The next requests, or each `every`-th, get a server error."""
        self._add("refuse", times, method, match, (status, body), every)

    def expire(self, times, match=""):
        """The next requests get 403, as with an expired token."""
        self.refuse(times, None, match, 403, EXPIRED)

    def deny(self, times=1, method=None, match=""):
        """The next requests get 403, as without permission."""
        self.refuse(times, method, match, 403, DENIED)

    def reset(self, times=1, method=None, match="", after=False):
        """The next connections are reset before moto gets the request; with `after`, once it has answered."""
        self._add("reset after" if after else "reset", times, method, match, None)

    def cut(self, times=1, method="GET", match="", at=0.5):
        """The next answers are truncated, and their connections closed."""
        self._add("cut", times, method, match, at)

    def flip(self, times=1, method="GET", match="", at=0.5):
        """The next answers have a flipped bit."""
        self._add("flip", times, method, match, at)

    def delay(self, seconds, times=1, method=None, match="", every=1):
        """The next requests, or each `every`-th, are passed on after a delay."""
        self._add("delay", times, method, match, seconds, every)

    def fail_for(self, seconds):
        """All connections are reset for a time, as in an outage."""
        self._fails_until = time.monotonic() + seconds

    def throttle(self, per_second):
        """Requests beyond a rate get 503 SlowDown."""
        self._per_second = per_second

    def heal(self):
        """Cancels all faults, and passes on the delayed requests."""
        with self._lock:
            self._faults.clear()
            self.healed.set()
            self.accepted_key, self._fails_until, self._per_second = None, 0.0, None

    def left(self):
        """The number of faults that have not happened yet."""
        with self._lock:
            return sum(fault.times for fault in self._faults)

    def _add(self, kind, times, method, match, argument, every=1):
        with self._lock:
            self.healed.clear()
            self._faults.append(Fault(kind, times, method, match, argument, every))

    def take(self, method, path, key):
        """{kind: argument} of the faults that hit a request with this access key; counts them as done."""
        with self._lock:
            hits, now = {}, time.monotonic()
            if now < self._fails_until:
                hits["reset"] = None
            if self.accepted_key not in (None, key):
                hits["refuse"] = 403, EXPIRED
            elif self._per_second is not None:
                self._served = max(self._served, now - 1)
                if self._served < now:
                    self._served += 1 / self._per_second
                else:
                    hits["refuse"] = 503, SLOW_DOWN
            for fault in self._faults:
                if fault.kind not in hits and fault.fits(method, path):
                    fault.times -= 1
                    hits[fault.kind] = fault.argument
            self._faults = [fault for fault in self._faults if fault.times > 0]
            return hits

    # ---- Requests and objects ----

    def reset_counts(self):
        """Requests that are in progress will not be counted."""
        self.era = object()
        self.requests, self.sent, self.received = (collections.Counter() for _ in range(3))
        self.log = []

    def note(self, era, method, path, status, received, sent):
        with self._lock:
            if era is not self.era:
                return
            self.requests[method, path] += 1
            self.received[path] += received
            self.sent[path] += sent
            self.log.append((method, path, status))

    def objects(self, prefix="", bucket="bucket"):
        """`{key: bytes}` of the objects whose keys begin with `prefix`, not through the proxy."""
        from urllib.parse import quote

        contents, token = {}, ""
        while token is not None:
            _, body = self._ask("GET", f"/{bucket}?list-type=2&prefix={quote(prefix)}{token}")
            keys = re.findall(r"<Key>(.*?)</Key>", body.decode())
            contents.update({key: self._ask("GET", f"/{bucket}/{quote(key)}")[1] for key in keys})
            more = re.search(r"<NextContinuationToken>(.*?)<", body.decode())
            token = f"&continuation-token={quote(more[1])}" if more else None
        return contents

    def put(self, key, data, bucket="bucket"):
        """Writes an object, not through the proxy."""
        self._ask("PUT", f"/{bucket}/{key}", data)

    def delete(self, key, bucket="bucket"):
        self._ask("DELETE", f"/{bucket}/{key}")

    def clear(self):
        """Removes all buckets, and makes an empty one."""
        from moto.s3.models import s3_backends

        for account in s3_backends.values():
            account["aws"].reset()
        self.make_bucket("bucket")

    def age(self, key, seconds, bucket="bucket"):
        """Makes an object `seconds` older."""
        import datetime

        from moto.s3.models import s3_backends

        for account in s3_backends.values():
            buckets = account["aws"].buckets
            if bucket in buckets and key in buckets[bucket].keys:
                buckets[bucket].keys[key].last_modified -= datetime.timedelta(seconds=seconds)
                return
        raise KeyError(key)

    def _ask(self, method, path, body=None, headers=()):
        """Sends a request to moto, not through the proxy, and returns `(status, body)`."""
        default = {"Authorization": "AWS4-HMAC-SHA256 Credential=test/20260101/us-east-1/s3/aws4_request"}
        connection = http.client.HTTPConnection(*self.inner, timeout=60)
        try:
            connection.request(method, path, body, default | dict(headers))
            answer = connection.getresponse()
            content = answer.read()
        finally:
            connection.close()
        if answer.status >= 400:
            raise RuntimeError(f"{method} {path}: {answer.status} {content[:300]}")
        return answer.status, content


class _Handler(http.server.BaseHTTPRequestHandler):
    """Passes a request on to moto, or causes a fault, or both."""

    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True  # headers and body are two writes; the second would wait for the client
    wbufsize = 1 << 16
    server_ = None

    def log_message(self, *_):
        return None

    def handle(self):
        try:
            super().handle()
        except (ConnectionError, BrokenPipeError):
            self.close_connection = True  # the client has gone

    def _serve(self):
        server, path = self.server_, self.path.partition("?")[0]
        self.era, body = server.era, self._body()
        key = re.search("Credential=([^/]*)", self.headers.get("Authorization", ""))
        faults = server.take(self.command, self.path, key and key[1])
        if "delay" in faults:
            server.healed.wait(faults["delay"])
        if "reset" in faults:
            return self._reset(path, len(body))
        if "refuse" in faults:
            status, text = faults["refuse"]
            return self._answer(path, status, [("Content-Type", "application/xml")], text.encode(), len(body))
        status, headers, content = self._forward(body)
        if "reset after" in faults:
            return self._reset(path, len(body))
        if "flip" in faults and content:
            at = min(len(content) - 1, int(len(content) * faults["flip"]))
            content = content[:at] + bytes([content[at] ^ 1]) + content[at + 1 :]
        self._answer(path, status, headers, content, len(body), faults.get("cut"))

    do_GET = do_PUT = do_POST = do_DELETE = do_HEAD = _serve

    def _body(self):
        if "chunked" in self.headers.get("Transfer-Encoding", ""):
            parts = []
            while size := int(self.rfile.readline().split(b";")[0], 16):
                parts.append(self.rfile.read(size))
                self.rfile.readline()
            self.rfile.readline()
            return b"".join(parts)
        body = self.rfile.read(size := int(self.headers.get("Content-Length", 0)))
        if len(body) < size:  # no store writes an object whose client was killed in the middle
            raise ConnectionError("the request ends too early")
        return body

    def _forward(self, body):
        headers = {
            k: v for k, v in self.headers.items() if k.lower() not in ("connection", "transfer-encoding", "expect")
        }
        headers["Content-Length"] = str(len(body))
        conditional = self.command == "PUT" and "If-None-Match" in self.headers
        with self.server_._conditional if conditional else threading.Lock():
            connection = http.client.HTTPConnection(*self.server_.inner, timeout=60)
            try:
                connection.request(self.command, self.path, body, headers)
                answer = connection.getresponse()
                return answer.status, answer.getheaders(), answer.read()
            finally:
                connection.close()

    def _answer(self, path, status, headers, body, received, cut=None):
        whole = len(body)
        self.send_response_only(status)
        dropped = ("connection", "transfer-encoding", "content-length", "keep-alive")
        for name, value in headers:
            if name.lower() not in dropped:
                self.send_header(name, value)
        if self.command == "HEAD":
            whole = next((value for name, value in headers if name.lower() == "content-length"), 0)
        self.send_header("Content-Length", str(whole))
        self.end_headers()
        if cut is not None:
            body, self.close_connection = body[: int(len(body) * cut)], True
        # Counts before sending, because a test reads the counts as soon as its client has the answer.
        sent = 0 if self.command == "HEAD" else len(body)
        self.server_.note(self.era, self.command, path, status, received, sent)
        if self.command != "HEAD":
            self.wfile.write(body)
            self.wfile.flush()

    def _reset(self, path, received):
        """Closes the connection with a RST, like a network or a server that breaks down."""
        self.server_.note(self.era, self.command, path, 0, received, 0)
        self.connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        self.close_connection = True
        self.connection.shutdown(socket.SHUT_RD)
        self.connection.close()
