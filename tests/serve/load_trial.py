"""Many clients, slow clients and large bodies against a running `kinema serve`; prints figures. Not a test of its own:

    kinema serve tiny.yml serve_queue=2000 serve_upload_megabytes=300 serve_folder=/tmp/served &
    python3 load_trial.py http://127.0.0.1:7865/?token=... [PID of the front]

It needs nothing but Python, and adds 1,000 jobs."""

import asyncio
import json
import os
import struct
import sys
import time
import urllib.parse
import zlib

LINK = urllib.parse.urlsplit(sys.argv[1])
HOST, PORT = LINK.hostname, LINK.port
TOKEN = urllib.parse.parse_qs(LINK.query)["token"][0]
PID = int(sys.argv[2]) if len(sys.argv) > 2 else None


def head(method, target, fields=""):
    return f"{method} {target} HTTP/1.1\r\nHost: {HOST}:{PORT}\r\nAuthorization: Bearer {TOKEN}\r\n{fields}".encode()


async def ask(method, target, body=b"", kind="application/json"):
    """Status and body of a request on a connection of its own."""
    reader, writer = await asyncio.open_connection(HOST, PORT)
    length = f"Content-Type: {kind}\r\nContent-Length: {len(body)}\r\n" if body else ""
    writer.write(head(method, target, length + "Connection: close\r\n\r\n") + body)
    answer = await reader.read()
    writer.close()
    return int(answer[9:12] or 0), answer.partition(b"\r\n\r\n")[2]


def ranks(seconds):
    seconds = sorted(seconds)
    return f"p50 {1e3 * seconds[len(seconds) // 2]:.1f} ms, p99 {1e3 * seconds[int(len(seconds) * 0.99)]:.1f} ms"


def memory():
    if PID is None:
        return "unknown"
    with open(f"/proc/{PID}/status") as status:
        return next(line.split(None, 1)[1].strip() for line in status if line.startswith("VmRSS"))


async def probes(times, stop):
    """Asks for a small thing again and again."""
    while not stop.is_set():
        begin = time.monotonic()
        await ask("GET", "/api/jobs?limit=1")
        times.append(time.monotonic() - begin)
        await asyncio.sleep(0.02)


async def stream(counts, i, stop):
    reader, writer = await asyncio.open_connection(HOST, PORT)
    writer.write(head("GET", "/api/events", "\r\n"))
    while not stop.is_set():
        try:
            data = await asyncio.wait_for(reader.read(65536), 1)
        except asyncio.TimeoutError:
            continue
        if not data:
            counts[i] = -1  # it was closed
            break
        counts[i] += data.count(b"\nevent: ") + data.startswith(b"event: ")
    writer.close()


async def queueing():
    """50 clients that add 20 jobs each, while 200 others follow events."""
    stop = asyncio.Event()
    counts = [0] * 200
    streams = [asyncio.create_task(stream(counts, i, stop)) for i in range(200)]
    await asyncio.sleep(1)
    times, probed, failures = [], [], []
    prober = asyncio.create_task(probes(probed, stop))

    async def client(i):
        for k in range(20):
            body = json.dumps({"settings": {"prompt": f"client {i}, job {k}", "num_inference_steps": 1}})
            begin = time.monotonic()
            status, answer = await ask("POST", "/api/jobs", body.encode())
            times.append(time.monotonic() - begin)
            if status != 201:
                failures.append((status, answer[:200]))
    begin = time.monotonic()
    await asyncio.gather(*[client(i) for i in range(50)])
    took = time.monotonic() - begin
    print(f"1000 jobs of 50 clients: {1000 / took:.0f} a second, {ranks(times)}, {len(failures)} refused {failures[:1]}")
    print(f"  meanwhile another request: {ranks(probed)}; front {memory()}")
    begin = time.monotonic()
    waiting = 1
    while waiting:
        await asyncio.sleep(1)
        text = (await ask("GET", "/metrics"))[1].decode()
        waiting = sum(int(line.split()[1]) for line in text.splitlines()
                      if line.startswith(("kinema_jobs_waiting ", "kinema_jobs_running ")))
    print(f"  all made after {time.monotonic() - begin:.0f} s; while they were: {ranks(probed)}; front {memory()}")
    stop.set()
    await asyncio.gather(*streams, prober)
    closed = sum(count < 0 for count in counts)
    print(f"200 event streams: {min(c for c in counts if c >= 0)} to {max(counts)} events each, {closed} closed by the server")


async def slow_clients():
    """300 that send a header line every two seconds, and 40 that read nothing of a large answer."""
    stop = asyncio.Event()
    probed, lived = [], []
    prober = asyncio.create_task(probes(probed, stop))

    async def slow(i):
        begin = time.monotonic()
        try:
            reader, writer = await asyncio.open_connection(HOST, PORT)
            writer.write(b"GET / HTTP/1.1\r\n")
            for k in range(15):
                try:
                    if await asyncio.wait_for(reader.read(1), 2) == b"":
                        break
                except asyncio.TimeoutError:
                    writer.write(f"X-{k}: y\r\n".encode())
            writer.close()
        except OSError:
            pass
        lived.append(time.monotonic() - begin)
    await asyncio.gather(*[slow(i) for i in range(300)])
    stop.set()
    await prober
    print(f"300 slow clients: dropped after {min(lived):.1f} to {max(lived):.1f} s; meanwhile {ranks(probed)}")


async def large_bodies():
    for megabytes in (256, 400):
        begin = time.monotonic()
        reader, writer = await asyncio.open_connection(HOST, PORT)
        writer.write(head("POST", "/api/uploads", f"Content-Type: image/png\r\nContent-Length: {megabytes << 20}\r\n\r\n"))
        piece, sent, peak = b"\x89PNG\r\n\x1a\n" + bytes((1 << 20) - 8), 0, ""
        try:
            for _ in range(megabytes):
                writer.write(piece)
                await writer.drain()
                sent += 1
            peak = memory()
        except OSError:
            pass
        answer = await reader.read(4096)
        writer.close()
        print(f"{megabytes} MiB upload: {answer[9:12].decode() or 'reset'} after {sent} MiB in {time.monotonic() - begin:.1f} s, front {peak or memory()}")


def png(width, height):
    def chunk(kind, data):
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))
    return b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0)) + \
        chunk(b"IDAT", zlib.compress(bytes(1 << 20))) + chunk(b"IEND", b"")


async def hostile():
    async def status(method, target, body=b"", kind="application/json", fields=None):
        if fields is None:
            return (await ask(method, target, body, kind))[0]
        reader, writer = await asyncio.open_connection(HOST, PORT)
        writer.write(f"{method} {target} HTTP/1.1\r\n{fields}Content-Length: {len(body)}\r\nConnection: close\r\n\r\n".encode() + body)
        answer = await reader.read()
        writer.close()
        return int(answer[9:12] or 0)
    bearer = f"Authorization: Bearer {TOKEN}\r\n"
    own = f"Host: {HOST}:{PORT}\r\n"
    checks = {
        "bomb of 100000 x 100000": (await status("POST", "/api/uploads", png(100_000, 100_000), "image/png"), 422),
        "bomb of 2147483647 x 1": (await status("POST", "/api/uploads", png(2**31 - 1, 1), "image/png"), 422),
        "mp4 of garbage": (await status("POST", "/api/uploads", b"\0\0\0\x18ftypmp42" + os.urandom(1 << 16), "video/mp4"), 422),
        "another host": (await status("GET", "/api/state", fields=f"Host: rebind.test:{PORT}\r\n{bearer}"), 421),
        "another origin": (await status("POST", "/api/queue", b"{}", fields=f"{own}{bearer}Origin: http://evil.test\r\nContent-Type: application/json\r\n"), 403),
        "origin null": (await status("POST", "/api/queue", b"{}", fields=f"{own}{bearer}Origin: null\r\nContent-Type: application/json\r\n"), 403),
        "a form": (await status("POST", "/api/queue", b"{}", "text/plain"), 415),
        "no token": (await status("GET", "/api/state", fields=own), 401),
        "wrong token": (await status("GET", "/api/state", fields=own + "Authorization: Bearer x\r\n"), 401),
        "a path": (await status("GET", "/files/..%2f..%2ftoken/token"), 404),
        "a deep JSON": (await status("POST", "/api/jobs", b'{"settings":' + b"[" * 50_000), 400),
        "a key of the machine": (await status("POST", "/api/jobs", b'{"settings":{"pjrt_plugin":"/tmp/x.so"}}'), 422),
    }
    for what, (got, expected) in checks.items():
        print(f"{'ok ' if got == expected else 'BAD'} {what}: {got}")
    markup = '<img src=x onerror=alert(1)>"\';--\u202e'
    job = json.loads((await ask("POST", "/api/jobs", json.dumps({"settings": {"prompt": markup, "num_inference_steps": 1}}).encode()))[1])
    print("ok  a prompt with markup" if job["request"]["settings"]["prompt"] == markup else "BAD a prompt with markup")


async def main():
    for trial in (hostile, slow_clients, large_bodies, queueing):
        await trial()


asyncio.run(main())
