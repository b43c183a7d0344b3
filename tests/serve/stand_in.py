"""A server that answers the page as src/kinema/serve/page_api.txt says, without kinema.

  python3 tests/serve/stand_in.py [--port 0] [--outputs 0] [--pace 1.0]

prints a link with the token. The page is read from the source tree, so that a reload shows what was changed.
"""

import argparse
import http.cookies
import http.server
import json
import random
import re
import secrets
import sys
import threading
import time
import urllib.parse
from pathlib import Path

from stand_in_world import (BASES, DEVICES, DISK, GENERATE_KEYS, LORAS, TRAIN_KEYS, Refusal, Run, World, png_text)

PAGE = Path(__file__).resolve().parents[2] / "src" / "kinema" / "serve" / "page"
TYPES = {".html": "text/html; charset=utf-8", ".css": "text/css; charset=utf-8", ".js": "text/javascript; charset=utf-8",
         ".png": "image/png", ".mp4": "video/mp4", ".svg": "image/svg+xml"}
POLICY = ("default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' blob:; media-src 'self' blob:; "
          "connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'")
ROUTES = []


def route(method, pattern):
    """Answers `method` at a path that matches; `(name)` groups are given as arguments."""
    def add(function):
        ROUTES.append((method, re.compile("/api/" + pattern.replace("NAME", r"([^/]+)") + "$"), function))
        return function
    return add


def find(collection, id, what):
    if id not in collection:
        raise Refusal(404, f"[serve] no {what} `{id}`")
    return collection[id]


# ---- state, models

@route("GET", "state")
def state(world, call):
    jobs = list(world.jobs.values())
    active = sorted((j for j in jobs if not j["ended"]), key=lambda j: (j["state"] != "running", j["place"]))
    ended = sorted((j for j in jobs if j["ended"]), key=lambda j: -j["ended"])[:50]
    return {"version": "stand-in", "event": world.first_event + len(world.events), "paused": world.paused, "engine": world.engine,
            "limits": {"count": 16, "queue": 64, "upload_bytes": 32 << 20, "downloads": True, "training": True},
            "models": world.models, "loras": LORAS, "jobs": active + ended, "runs": [run.json() for run in world.runs.values()]}


@route("GET", "models")
@route("POST", "models/refresh")
def models(world, call):
    return {"models": world.models, "loras": LORAS}


@route("POST", "models/NAME/load")
def load(world, call, name):
    world.model(name)

    def later():
        time.sleep(0.8 * world.pace)
        world.set_engine(state="ready", model=name, bytes=41 << 30)
    world.set_engine(state="loading", model=name)
    threading.Thread(target=later, daemon=True).start()
    return 202, world.engine


@route("POST", "engine/unload")
def unload(world, call):
    world.set_engine(state="none", model=None, bytes=0)
    return 202, world.engine


@route("GET", "disk")
def disk(world, call):
    sizes = {"outputs": 3 << 30, "bin": 1 << 28, "uploads": 1 << 20, "runs": 9 << 30, "models": 60 << 30}
    return {"files": DISK, "space": sizes | {"free": 200 << 30, "total": 500 << 30}}


@route("GET", "downloads")
def downloads(world, call):
    return {"downloads": list(world.downloads.values())}


@route("POST", "downloads")
def download(world, call):
    source = call.body["source"]
    if not re.fullmatch(r"[\w.-]+/[\w.-]+", source):
        raise Refusal(422, f"[hub] source is `{source}`, expected owner/name", "source")
    item = {"id": f"d{len(world.downloads)}", "source": source, "state": "running", "bytes": 0, "total": 1 << 30, "error": None}
    world.downloads[item["id"]] = item

    def later():
        while item["state"] == "running":
            time.sleep(0.2 * world.pace)
            item["bytes"] = min(item["total"], item["bytes"] + (item["total"] >> 4))
            if item["bytes"] == item["total"]:
                item["state"] = "done"
            world.publish("download", item)
    threading.Thread(target=later, daemon=True).start()
    return 201, item


@route("POST", "downloads/NAME/cancel")
def cancel_download(world, call, id):
    find(world.downloads, id, "download")["state"] = "cancelled"
    return world.downloads[id]


@route("GET", "keys")
def keys(world, call):
    return {"keys": TRAIN_KEYS if call.query.get("for") == "train" else GENERATE_KEYS}


# ---- jobs

@route("POST", "check")
def check(world, call):
    try:
        return world.check(call.body)
    except Refusal as refusal:
        return {"ok": False, "error": refusal.error, "notices": [], "seconds": None, "bytes": None, "bytes_limit": None}


@route("POST", "jobs")
def add_job(world, call):
    return world.add_job(call.body)


@route("GET", "jobs/NAME")
def job(world, call, id):
    return find(world.jobs, id, "job")


@route("PATCH", "jobs/NAME")
def edit_job(world, call, id):
    job = waiting(world, id)
    world.check(call.body)
    job["request"] = {"loras": [], "inputs": {}, "count": 1} | call.body
    return published(world, job)


def waiting(world, id):
    job = find(world.jobs, id, "job")
    if job["state"] != "waiting":
        raise Refusal(409, f"[serve] the job is {job['state']}, not waiting")
    return job


def published(world, job):
    world.publish("job", job)
    return job


@route("POST", "jobs/NAME/move")
def move(world, call, id):
    job = waiting(world, id)
    world.move(job, call.body.get("before"))
    return published(world, job)


@route("POST", "jobs/NAME/cancel")
def cancel(world, call, id):
    job = find(world.jobs, id, "job")
    if job["ended"]:
        raise Refusal(409, f"[serve] the job is {job['state']} already")
    job["cancel"] = True
    if job["state"] == "waiting":
        job.update(state="cancelled", ended=time.time())
    return published(world, job)


@route("POST", "jobs/NAME/retry")
def retry(world, call, id):
    request = json.loads(json.dumps(find(world.jobs, id, "job")["request"]))
    request["settings"].pop("seed", None)
    return world.add_job(request)


@route("DELETE", "jobs/NAME")
def remove_job(world, call, id):
    if not find(world.jobs, id, "job")["ended"]:
        raise Refusal(409, "[serve] the job has not ended")
    del world.jobs[id]
    world.publish("removed", {"job": id, "output": None, "run": None})
    return {"removed": True}


@route("POST", "queue")
def pause(world, call):
    world.paused = call.body["paused"]
    world.publish("queue", {"paused": world.paused})
    return {"paused": world.paused}


@route("POST", "uploads")
def upload(world, call):
    return 201, world.add_upload(call.bytes, call.type)


@route("POST", "settings/read")
def read_settings(world, call):
    request = png_text(call.bytes) if call.type == "image/png" else json.loads(call.bytes)
    if request is None:
        raise Refusal(422, "[serve] the picture holds no settings of kinema")
    return {"request": request, "left_out": ["video_folder: clients do not choose folders"]}


# ---- outputs

@route("GET", "outputs")
def outputs(world, call):
    query = call.query
    words = query.get("q", "").lower().split()
    found = [each["output"] for each in reversed(world.outputs.values())
             if bool(each["output"]["deleted"]) == ("deleted" in query)
             and ("starred" not in query or each["output"]["starred"])
             and query.get("model", each["output"]["model"]) == each["output"]["model"]
             and query.get("kind", each["output"]["kind"]) == each["output"]["kind"]
             and all(word in each["output"]["prompt"].lower() for word in words)]
    at = int(query.get("offset", 0))
    return {"total": len(found), "outputs": found[at:at + int(query.get("limit", 200))]}


@route("GET", "outputs/NAME")
def output(world, call, id):
    each = find(world.outputs, id, "output")
    file = {"name": each["output"]["url"].rsplit("/")[-1], "url": each["output"]["url"], "bytes": each["output"]["bytes"]}
    return each["output"] | {"request": each["request"], "index": each["index"], "files": [file]}


def changed(world, id, **changes):
    output = find(world.outputs, id, "output")["output"]
    output.update(changes)
    world.publish("output", output)
    return output


@route("PATCH", "outputs/NAME")
def star(world, call, id):
    return changed(world, id, starred=call.body["starred"])


@route("DELETE", "outputs/NAME")
def remove_output(world, call, id):
    if "forever" not in call.query:
        return changed(world, id, deleted=time.time())
    if not find(world.outputs, id, "output")["output"]["deleted"]:
        raise Refusal(409, "[serve] the output is not in the bin")
    del world.outputs[id]
    world.publish("removed", {"job": None, "output": id, "run": None})
    return {"removed": True}


@route("POST", "outputs/NAME/restore")
def restore(world, call, id):
    return changed(world, id, deleted=None)


@route("DELETE", "bin")
def empty_bin(world, call):
    ids = [id for id, each in world.outputs.items() if each["output"]["deleted"]]
    for id in ids:
        del world.outputs[id]
    return {"removed": len(ids)}


# ---- training

@route("GET", "bases")
def bases(world, call):
    return {"bases": BASES}


def config_of(request):
    settings = dict(request.get("settings", {}))
    for line in (request.get("yaml") or "").splitlines():
        match = re.fullmatch(r"(\w+):\s*(.*?)\s*(#.*)?", line.strip())
        if line.strip() and not line.strip().startswith("#") and not match:
            raise Refusal(422, f"[config] line `{line.strip()}` is no `key: value`", "yaml")
        if match:
            settings.setdefault(match[1], json.loads(match[2]) if re.fullmatch(r"[-\d.]+", match[2]) else match[2])
    known = {key["key"]: key for key in TRAIN_KEYS}
    for key, value in settings.items():
        if key not in known:
            raise Refusal(422, f"[config] no key named `{key}` that clients may set", key)
        low = known[key]["min"]
        if low is not None and not (isinstance(value, (int, float)) and value >= low):
            raise Refusal(422, f"[config] {key} is {value}, expected a number of at least {low}", key)
    if not any(base["name"] == request.get("base") for base in BASES):
        raise Refusal(422, f"[serve] no base `{request.get('base')}`", "base")
    lines = [f"base: {request['base']}"] + [f"{key}: {json.dumps(value)}" for key, value in settings.items()]
    return "\n".join(lines) + "\n", settings


@route("POST", "runs/check")
def check_run(world, call):
    try:
        return {"ok": True, "error": None, "notices": [], "config": config_of(call.body)[0]}
    except Refusal as refusal:
        return {"ok": False, "error": refusal.error, "notices": [], "config": ""}


@route("GET", "runs")
def runs(world, call):
    return {"runs": [run.json() for run in world.runs.values()]}


@route("POST", "runs")
def add_run(world, call):
    name = call.body.get("name", "")
    if not re.fullmatch(r"[A-Za-z0-9._-]{1,64}", name):
        raise Refusal(422, f"[serve] name is `{name}`, expected up to 64 of A-Z a-z 0-9 . _ -", "name")
    if name in world.runs:
        raise Refusal(409, f"[serve] there is a run `{name}` already", "name")
    config, settings = config_of(call.body)
    world.runs[name] = run = Run(world, name, settings.get("max_train_steps", 1500),
                                 "starting" if call.body.get("start") else "created", config)
    world.publish("run", run.json())
    return 201, run.json()


@route("GET", "runs/NAME")
def run(world, call, name):
    run = find(world.runs, name, "run")
    return run.json() | {"config": run.config, "plan": None}


@route("POST", "runs/NAME/(start|stop|save|sample)")
def control(world, call, name, what):
    run = find(world.runs, name, "run")
    is_running = run.state in ("running", "starting")
    if is_running == (what == "start") or run.state == "done":
        raise Refusal(409, f"[serve] the run is {run.state}")
    if what in ("start", "stop"):
        run.state = "starting" if what == "start" else "stopping"
    else:
        getattr(run, what)()
    world.publish("run", run.json())
    return 202, run.json()


@route("DELETE", "runs/NAME")
def remove_run(world, call, name):
    if call.body.get("name") != name or find(world.runs, name, "run").state in ("running", "starting", "stopping"):
        raise Refusal(409, "[serve] the run is not stopped, or the name is not repeated")
    del world.runs[name]
    world.publish("removed", {"job": None, "output": None, "run": name})
    return {"removed": True}


@route("GET", "runs/NAME/metrics")
def metrics(world, call, name):
    return find(world.runs, name, "run").metrics(int(call.query.get("after", -1)), int(call.query.get("buckets", 1000)))


@route("GET", "runs/NAME/samples")
def samples(world, call, name):
    return {"samples": find(world.runs, name, "run").samples}


@route("GET", "runs/NAME/log")
def log(world, call, name):
    text = find(world.runs, name, "run").log_text
    after = int(call.query.get("after", max(0, len(text) - 65536)))
    return {"text": text[after:after + 65536], "next": min(len(text), after + 65536)}


@route("GET", "datasets")
def datasets(world, call):
    return {"datasets": [{"name": "shapes", "what": "clips with captions in metadata.jsonl", "clips": len(world.clips),
                          "bytes": 1 << 20, "editable": True}]}


@route("GET", "datasets/NAME")
def dataset(world, call, name):
    find({"shapes": world.clips}, name, "data set")
    at = int(call.query.get("offset", 0))
    problems = [f"{clip['file']}: {clip['problem']}" for clip in world.clips if clip["problem"]]
    return {"total": len(world.clips), "problems": problems, "clips": world.clips[at:at + int(call.query.get("limit", 50))]}


@route("PATCH", "datasets/NAME/NAME")
def caption(world, call, name, id):
    clip = next((clip for clip in world.clips if clip["id"] == id), None)
    if clip is None:
        raise Refusal(404, f"[serve] no clip `{id}`")
    if clip["caption"] != call.body["was"]:
        raise Refusal(409, f"[serve] the caption is `{clip['caption']}` by now")
    clip["caption"] = call.body["caption"]
    return clip


# ---- plans

@route("GET", "devices")
def devices(world, call):
    return {"devices": DEVICES, "here": []}


@route("POST", "plans")
def add_plan(world, call):
    device = next((each for each in DEVICES if each["name"] == call.body.get("device")), None)
    if device is None:
        raise Refusal(422, f"[plan] no device `{call.body.get('device')}`", "device")
    if not device["compiler"]:
        raise Refusal(422, "[plan] the compiler is not installed\n  `kinema doctor --install cuda` installs it", "device")
    config_of(call.body["run"])
    plan = {"id": f"p{len(world.plans)}", "device": device["name"], "state": "running", "fits": None, "bytes": None,
            "bytes_limit": device["bytes"], "step_seconds": None, "bound_by": None, "remedy": None, "lines": [], "error": None}
    world.plans[plan["id"]] = plan

    def later():
        time.sleep(1.0 * world.pace)
        if plan["state"] == "cancelled":
            return
        fits = device["bytes"] > 30 << 30
        plan.update(state="done", fits=fits, bytes=31 << 30, step_seconds=0.88, bound_by="matrix products",
                    remedy=None if fits else "per_device_batch_size=0.5 fits, with 14.2 GB",
                    lines=["weights 22.2 GB", "optimizer 0.4 GB", "activations 8.1 GB"])
        world.publish("plan", plan)
    threading.Thread(target=later, daemon=True).start()
    return 202, plan


@route("POST", "plans/NAME/cancel")
def cancel_plan(world, call, id):
    plan = find(world.plans, id, "plan")
    plan["state"] = "cancelled"
    world.publish("plan", plan)
    return plan


@route("GET", "plans/NAME")
def plan(world, call, id):
    return find(world.plans, id, "plan")


class Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    world = None
    token = None

    def log_message(self, *arguments):
        pass

    def send(self, status, data, type="application/json", **headers):
        self.send_response(status)
        headers = {"Content-Type": type, "Content-Length": str(len(data)), "Content-Security-Policy": POLICY,
                   "X-Content-Type-Options": "nosniff", "Cache-Control": "no-cache", "Referrer-Policy": "no-referrer"} | headers
        for name, value in headers.items():
            self.send_header(name.replace("_", "-"), value)
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(data)

    def handle_one(self):
        url = urllib.parse.urlsplit(self.path)
        self.query = dict(urllib.parse.parse_qsl(url.query, keep_blank_values=True))
        self.type = self.headers.get("Content-Type", "").split(";")[0]
        self.bytes = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        path = urllib.parse.unquote(url.path)
        if secrets.compare_digest(self.query.get("token", ""), self.token):
            cookie = f"kinema={self.token}; HttpOnly; SameSite=Strict; Path=/"
            return self.send(303, b"", Location=path, Set_Cookie=cookie)
        file = PAGE / ("index.html" if path == "/" else path[1:])
        if file.parent == PAGE and file.suffix in TYPES and file.exists():  # they tell nothing, and need no token
            return self.send(200, file.read_bytes(), TYPES[file.suffix])
        cookie = http.cookies.SimpleCookie(self.headers.get("Cookie", "")).get("kinema")
        if cookie is None or not secrets.compare_digest(cookie.value, self.token):
            raise Refusal(401, "[serve] a token is needed: open the link that `kinema serve` printed")
        if url.path == "/api/events":
            return self.stream()
        if url.path.startswith("/api/"):
            return self.answer(url.path)
        if path in self.world.files:
            extra = {"Content_Disposition": "attachment"} if "download" in self.query else {}
            return self.send_bytes(self.world.files[path], TYPES.get(Path(path).suffix) or self.upload_type(path), extra)
        raise Refusal(404, f"[serve] nothing at {path}")

    def upload_type(self, path):
        return self.world.uploads[path.rsplit("/")[-1]]["type"]

    def send_bytes(self, data, type, extra):
        ranges = re.fullmatch(r"bytes=(\d+)-(\d*)", self.headers.get("Range", ""))
        if not ranges:
            return self.send(200, data, type, Accept_Ranges="bytes", **extra)
        first, last = int(ranges[1]), min(int(ranges[2] or len(data) - 1), len(data) - 1)
        self.send(206, data[first:last + 1], type, Content_Range=f"bytes {first}-{last}/{len(data)}", **extra)

    def answer(self, path):
        self.body = json.loads(self.bytes) if self.type == "application/json" and self.bytes else {}
        for method, pattern, function in ROUTES:
            match = pattern.match(path)
            if match and method == self.command:
                with self.world.lock:
                    result = function(self.world, self, *map(urllib.parse.unquote, match.groups()))
                status, value = result if isinstance(result, tuple) else (200, result)
                return self.send(status, json.dumps(value).encode())
        raise Refusal(404, f"[serve] nothing at {self.command} {path}")

    def stream(self):
        world = self.world
        at = int(self.headers.get("Last-Event-ID") or self.query.get("after", 0)) - world.first_event
        self.send_response(200)
        self.send_header("Content-Type", "text/event-stream")
        self.send_header("Connection", "close")
        self.end_headers()
        self.close_connection = True
        if not 0 <= at <= len(world.events):
            self.wfile.write(b"event: reset\ndata: {}\n\n")
            return
        while True:
            with world.lock:
                world.lock.wait_for(lambda: len(world.events) > at, 5)
                new = world.events[at:]
            text = "".join(f"id: {world.first_event + at + i + 1}\nevent: {name}\ndata: {data}\n\n" for i, (name, data) in enumerate(new))
            self.wfile.write(text.encode() or b": keep\n\n")
            self.wfile.flush()
            at += len(new)

    def do_GET(self):
        try:
            self.handle_one()
        except Refusal as refusal:
            self.send(refusal.status, json.dumps({"error": refusal.error}).encode())
        except (BrokenPipeError, ConnectionResetError):
            self.close_connection = True

    do_POST = do_PATCH = do_DELETE = do_GET


class Server(http.server.ThreadingHTTPServer):
    daemon_threads = True
    request_queue_size = 128

    def handle_error(self, request, client_address):
        """A browser that closes a connection is no error; others are shown."""
        if not isinstance(sys.exc_info()[1], ConnectionError):
            super().handle_error(request, client_address)


def serve(port=0, outputs=0, pace=1.0, token=None):
    """Starts the server in a thread; returns it and its link."""
    world = World(outputs, pace)
    world.first_event = random.randrange(1, 1000) * 1000  # a page of an earlier server asks for a number out of range
    handler = type("Bound", (Handler,), {"world": world, "token": token or secrets.token_urlsafe(32)})
    server = Server(("127.0.0.1", port), handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    return server, f"http://127.0.0.1:{server.server_address[1]}/?token={handler.token}"


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--port", type=int, default=0)
    parser.add_argument("--outputs", type=int, default=0)
    parser.add_argument("--pace", type=float, default=1.0)
    parser.add_argument("--token")
    print(serve(**vars(parser.parse_args()))[1], flush=True)
    try:
        threading.Event().wait()
    except KeyboardInterrupt:
        sys.exit(0)
