"""A proxy on 127.0.0.1 to another server, which makes some of the requests fail.

A request comes to one of these ends, drawn with a seeded generator: `503` or `403` (not passed on), `close` (the
connection ends without an answer), `lost` (passed on, but the answer is not given back), `cut` (the answer
ends in the middle), `stall` (no byte for a while, then the connection ends), `flip` (a bit of an object's last byte is
another one).

`POST /_faults?rate=R&kinds=A,B` changes what is done from then on, and answers with how often each came.
"""
import http.client
import http.server
import json
import random
import socketserver
import threading
import time
import urllib.parse

KINDS = ('503', 'close', 'lost', 'cut', 'stall')  # faults that a retry may fix


class Faults:
    def __init__(self, seed):
        self.random = random.Random(seed)
        self.lock = threading.Lock()
        self.rate, self.kinds, self.stall_s = 0.0, KINDS, 20.0
        self.counts = dict.fromkeys((*KINDS, '403', 'flip'), 0)
        self.passed = 0

    def draw(self):
        with self.lock:
            if self.random.random() >= self.rate:
                self.passed += 1
                return None
            kind = self.random.choice(self.kinds)
            self.counts[kind] += 1
            return kind

    def change(self, query):
        with self.lock:
            if 'rate' in query:
                self.rate = float(query['rate'][0])
            if 'kinds' in query:
                self.kinds = tuple(query['kinds'][0].split(','))
            if 'stall' in query:
                self.stall_s = float(query['stall'][0])
            return dict(self.counts, passed=self.passed)


class Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = 'HTTP/1.1'
    faults = None
    target = None

    def log_message(self, *args):
        pass

    def body(self):
        if 'chunked' in self.headers.get('Transfer-Encoding', ''):
            parts = []
            while True:
                size = int(self.rfile.readline().split(b';')[0], 16)
                parts.append(self.rfile.read(size))
                self.rfile.readline()
                if size == 0:
                    return b''.join(parts)
        return self.rfile.read(int(self.headers.get('Content-Length') or 0))

    def hang_up(self):
        self.close_connection = True

    def answer(self, status, headers, body, sent=None):
        self.send_response_only(status)
        for name, value in headers:
            self.send_header(name, value)
        if not any(name.lower() == 'content-length' for name, _ in headers):
            self.send_header('Content-Length', str(len(body)))
        self.end_headers()
        if self.command != 'HEAD':
            self.wfile.write(body if sent is None else body[:sent])
        self.wfile.flush()

    def serve(self):
        body = self.body()
        url = urllib.parse.urlsplit(self.path)
        if url.path == '/_faults':
            counts = self.faults.change(urllib.parse.parse_qs(url.query))
            return self.answer(200, [], json.dumps(counts).encode())
        fault = self.faults.draw()
        if fault in ('503', '403'):
            return self.answer(int(fault), [], b'spoiled')
        if fault == 'close':
            return self.hang_up()
        if fault == 'stall':
            time.sleep(self.faults.stall_s)
            return self.hang_up()
        connection = http.client.HTTPConnection('127.0.0.1', self.target, timeout=60)
        # The name that the client knows stays in the request: it is part of signatures and answers.
        connection.putrequest(self.command, self.path, skip_host=True, skip_accept_encoding=True)
        for name, value in self.headers.items():
            if name.lower() not in ('connection', 'transfer-encoding', 'content-length', 'expect'):
                connection.putheader(name, value)
        connection.putheader('Content-Length', str(len(body)))
        connection.endheaders(body)
        reply = connection.getresponse()
        content = reply.read()
        connection.close()
        if fault == 'lost':
            return self.hang_up()
        hidden = ('connection', 'transfer-encoding', 'keep-alive', 'date', 'server')
        headers = [(n, v) for n, v in reply.getheaders() if n.lower() not in hidden]
        if fault == 'cut' and len(content) > 1 and self.command != 'HEAD':
            self.answer(reply.status, headers, content, sent=len(content) // 2)
            return self.hang_up()
        if fault == 'flip' and content and 'Range' in self.headers:
            content = content[:-1] + bytes([content[-1] ^ 1])
        self.answer(reply.status, headers, content)

    def handle_one_request(self):
        try:
            super().handle_one_request()
        except OSError:
            self.close_connection = True

    do_GET = do_PUT = do_POST = do_DELETE = do_HEAD = do_PATCH = serve


class Server(socketserver.ThreadingTCPServer):
    allow_reuse_address = True
    daemon_threads = True
    request_queue_size = 128


def start(target, seed=0):
    """A proxy to a port in threads of this process: (its port, its faults)."""
    faults = Faults(seed)
    handler = type('Spoiling', (Handler,), {'faults': faults, 'target': target})
    server = Server(('127.0.0.1', 0), handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    return server.server_address[1], faults
