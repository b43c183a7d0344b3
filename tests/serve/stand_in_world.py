"""What the stand-in server holds: models, jobs and a worker that makes pictures, outputs, runs that train.

Everything has the fields of src/kinema/serve/page_api.txt. Pictures are drawn from seed and prompt, so that equal
requests give equal bytes. World.lock guards all of it; World.publish adds an event and wakes the streams.
"""

import base64
import hashlib
import json
import math
import random
import struct
import threading
import time
import zlib
from pathlib import Path

SHAPES = Path(__file__).resolve().parents[2] / "examples" / "shapes"


class Refusal(Exception):
    def __init__(self, status, message, param=None):
        super().__init__(message)
        self.status = status
        self.error = {"message": message, "type": "invalid_request_error", "param": param, "code": None}


def png(width, height, seed, sharpness=1.0, text=None):
    """A PNG of soft coloured waves; `sharpness` below 1 mixes in noise, as a preview has it."""
    generator = random.Random(seed)
    waves = [(generator.uniform(1, 4), generator.uniform(1, 4), generator.uniform(0, 6)) for _ in range(3)]
    noise = random.Random(seed + int(sharpness * 1000))
    rows = []
    for y in range(height):
        row = bytearray(b"\0")
        for x in range(width):
            for across, down, phase in waves:
                wave = 128 + 100 * math.sin(across * x * 2 / width + down * y * 2 / height + phase)
                row.append(int(wave * sharpness + noise.randrange(256) * (1 - sharpness)) & 255)
        rows.append(bytes(row))

    def chunk(kind, data):
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))

    header = struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0)
    settings = chunk(b"tEXt", b"kinema\0" + base64.b64encode(text.encode())) if text else b""
    return (b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", header) + settings +
            chunk(b"IDAT", zlib.compress(b"".join(rows), 6)) + chunk(b"IEND", b""))


def png_text(data):
    """The settings in a PNG of png(), or None."""
    at = data.find(b"tEXtkinema\0")
    if at < 0:
        return None
    length = struct.unpack(">I", data[at - 4:at])[0]
    return json.loads(base64.b64decode(data[at + 11:at + 4 + length]))


def a_model(name, family, kind, what, inputs, sizes, loaded=False, **defaults):
    width, height, frames = sizes[0]
    defaults = {"width": width, "height": height, "num_frames": frames, "num_inference_steps": 28} | defaults
    return {"name": name, "family": family, "kind": kind, "what": what, "bytes": 24 << 30, "loaded": loaded,
            "defaults": defaults, "inputs": inputs, "multiple_of": 16, "min_size": 64, "max_size": 2048,
            "sizes": [{"width": w, "height": h, "frames": f, "compiled": i == 0} for i, (w, h, f) in enumerate(sizes)],
            "frames_step": 4 if kind == "video" else 1, "max_frames": 161 if kind == "video" else 1}


MODELS = [
    a_model("flux-dev", "flux", "image", "Flux.1 dev, 12 billion parameters, bf16", ["image", "mask", "control_image"],
            [(1024, 1024, 1), (1152, 896, 1), (896, 1152, 1), (1344, 768, 1), (768, 1344, 1), (512, 512, 1)],
            loaded=True, guidance_scale=3.5),
    a_model("sdxl", "sdxl", "image", "SDXL base 1.0, 2.6 billion parameters, f16", ["image", "mask"],
            [(1024, 1024, 1), (1216, 832, 1), (832, 1216, 1)], guidance_scale=5.0, negative_prompt=""),
    a_model("wan2.2-t2v", "wan", "video", "Wan 2.2 T2V A14B, two experts", ["video"],
            [(832, 480, 81), (480, 832, 81), (1280, 720, 81), (832, 480, 33)], guidance_scale=4.0, negative_prompt="blurred",
            fps=16),
    a_model("wan2.1-flf2v", "wan", "video", "Wan 2.1 first and last frame to video, 14 billion parameters",
            ["image", "last_image"], [(832, 480, 81), (1280, 720, 81)], guidance_scale=5.0, negative_prompt="", fps=16),
]
LORAS = [
    {"name": "kites", "family": "flux", "what": "LoRA of rank 16", "bytes": 38 << 20, "words": ["kite style"], "switches": True},
    {"name": "ink", "family": "flux", "what": "LoRA of rank 32", "bytes": 76 << 20, "words": [], "switches": True},
    {"name": "film", "family": "sdxl", "what": "LoCon of rank 8, with convolutions", "bytes": 51 << 20, "words": [],
     "switches": False},
    {"name": "slow-motion", "family": "wan", "what": "LoRA of rank 64", "bytes": 307 << 20, "words": [], "switches": True},
]
DISK = [
    {"name": "flux1-dev.safetensors", "folder": "models", "kind": "model", "what": "Flux.1 dev: transformer, bf16",
     "bytes": 23 << 30, "changed": 1795000000, "problem": None},
    {"name": "ae.safetensors", "folder": "models", "kind": "autoencoder", "what": "autoencoder of Flux, 16 channels, f32",
     "bytes": 335 << 20, "changed": 1795000000, "problem": None},
    {"name": "kites.safetensors", "folder": "loras", "kind": "lora", "what": "LoRA of rank 16 for Flux, of kohya's scripts",
     "bytes": 38 << 20, "changed": 1796000000, "problem": None},
    {"name": "old.ckpt", "folder": "models", "kind": "other", "what": "a pickle", "bytes": 4 << 30, "changed": 1694000000,
     "problem": "pickles can run programs and are not read: convert it with `kinema convert`"},
]


def a_key(key, group, help, type, default, **rest):
    return {"key": key, "group": group, "help": help, "type": type, "default": default, "min": None, "max": None,
            "multiple_of": 1, "one_of": None, "prose": False, "with": None} | rest


GENERATE_KEYS = [
    a_key("width", "size", "width in pixels", "int", 1024, min=1, max=65536),
    a_key("height", "size", "height in pixels", "int", 1024, min=1, max=65536),
    a_key("num_frames", "size", "number of frames", "int", 1, min=1, max=65536),
    a_key("fps", "size", "frames per second of the mp4", "int", 16, min=1, max=1000),
    a_key("prompt", "text", "prompt", "text", "", prose=True),
    a_key("negative_prompt", "text", "negative prompt of classifier-free guidance", "text", "", prose=True),
    a_key("prompt_syntax", "text", "how prompts are read", "text", "plain", one_of=["plain", "a1111", "compel"]),
    a_key("num_inference_steps", "sampler", "number of denoising steps", "int", 28, min=1, max=1000),
    a_key("guidance_scale", "sampler", "classifier-free guidance scale; 1: no guidance", "float", 3.5, min=0),
    a_key("seed", "sampler", "seed of the noise", "int", 0, min=0),
    a_key("scheduler", "sampler", "sampler; overrides the class in the model's scheduler_config.json", "text", "euler"),
    a_key("noise_levels", "sampler", "how the sampler's noise levels lie between the largest and the smallest", "text",
          "model", one_of=["model", "karras", "exponential", "beta", "lu", "ays"]),
    a_key("strength", "input", "part of num_inference_steps that changes the given picture or video", "float", 1.0, max=1, min=0),
    a_key("mask_blur", "input", "standard deviation in pixels of the blur of the mask's edge", "float", 0.0, min=0, max=256,
          **{"with": "mask"}),
    a_key("sigmas", "sampler", "noise levels, falling, which replace num_inference_steps", "list", [], min=0),
    a_key("use_magcache", "speed", "skip the blocks while a table of the model predicts a small change (MagCache)", "bool", False),
    a_key("magcache_thresh", "speed", "accumulated error at which a full step is computed", "float", 0.12, min=0,
          **{"with": "use_magcache"}),
]
TRAIN_KEYS = [
    a_key("max_train_steps", "run", "optimizer steps to run", "int", 1500, min=1),
    a_key("seed", "run", "seed of everything random", "int", 0, min=0),
    a_key("per_device_batch_size", "run", "samples of a device and step", "float", 1.0, min=0),
    a_key("checkpoint_every", "run", "steps between checkpoints; -1: none", "int", 500, min=-1),
    a_key("learning_rate", "optimizer", "peak learning rate", "float", 1e-5, min=0),
    a_key("optimizer", "optimizer", "rule that changes the weights", "text", "adamw",
          one_of=["adamw", "adafactor", "lion", "muon", "prodigy"]),
    a_key("warmup_steps_fraction", "optimizer", "part of the steps in which the learning rate rises", "float", 0.1, min=0, max=1),
    a_key("lora_rank", "lora", "rank of the LoRA; 0: all weights are trained", "int", 16, min=0, max=1024),
    a_key("lora_alpha", "lora", "scale of the LoRA, divided by its rank", "float", 16.0, min=0, **{"with": "lora_rank"}),
    a_key("prompt", "samples", "prompt of the samples", "text", "a kite over a city", prose=True),
    a_key("width", "size", "width in pixels", "int", 512, min=1, max=65536, multiple_of=16),
    a_key("height", "size", "height in pixels", "int", 512, min=1, max=65536, multiple_of=16),
    a_key("gradient_checkpointing", "memory", "keep fewer values for the backward pass", "bool", True),
]
BASES = [{"name": "flux_dev_lora", "help": "LoRA of Flux.1 dev"}, {"name": "sdxl_lora", "help": "LoRA of SDXL"},
         {"name": "wan21_t2v_1_3b", "help": "Wan 2.1, 1.3 billion parameters, all weights"}]
DEVICES = [{"name": "gpu h100", "what": "one NVIDIA H100, 80 GB", "bytes": 80 << 30, "compiler": True},
           {"name": "tpu v5e-8", "what": "eight TPU v5e, 16 GB each", "bytes": 16 << 30, "compiler": True},
           {"name": "gpu rtx4090", "what": "one NVIDIA RTX 4090, 24 GB", "bytes": 24 << 30, "compiler": False}]
METRICS = ("step", "loss", "low", "high", "learning_rate", "seconds", "gradient_norm")


class World:
    def __init__(self, outputs=0, pace=1.0):
        self.lock = threading.Condition()
        self.pace = pace  # seconds of the stand-in for one of a real server
        self.events = []  # (name, JSON)
        self.first_event = 0
        self.paused = False
        self.engine = {"state": "ready", "model": "flux-dev", "device": "gpu 0: stand-in", "message": None,
                       "bytes": 41 << 30, "bytes_limit": 80 << 30}
        self.models = [dict(m) for m in MODELS]
        self.jobs, self.outputs, self.files, self.uploads = {}, {}, {}, {}
        self.client_keys, self.plans, self.downloads, self.runs = {}, {}, {}, {}
        self.last_place = 0.0
        self.made = 0  # outputs, ever
        self.video = (SHAPES / "videos" / "clip_0001.mp4").read_bytes()
        self.clips = self.read_clips()
        self.files.update({f"/thumbs/{i}.png": png(48, 48, i) for i in range(12)})
        for i in range(outputs):
            self.add_old_output(i, outputs)
        self.runs["kites"] = Run(self, "kites", 900, state="stopped")
        self.runs["kites"].skip_to(420)
        for target in (self.make_jobs, self.train):
            threading.Thread(target=target, daemon=True).start()

    def read_clips(self):
        clips = []
        for i, line in enumerate((SHAPES / "metadata.jsonl").read_text().splitlines()):
            clip = json.loads(line)
            self.files[f"/clips/{i}.mp4"] = (SHAPES / clip["file_name"]).read_bytes()
            clips.append({"id": f"c{i}", "file": clip["file_name"], "kind": "video", "thumb": f"/thumbs/{i % 12}.png",
                          "url": f"/clips/{i}.mp4", "width": 20, "height": 20, "frames": 9, "seconds": 1.1,
                          "caption": clip["text"], "problem": None})
        clips[0]["problem"] = "9 frames, but num_frames is 17: it is left out"
        return clips

    def publish(self, name, value):
        with self.lock:
            self.events.append((name, json.dumps(value)))
            self.lock.notify_all()

    def model(self, name):
        for model in self.models:
            if model["name"] == name:
                return model
        raise Refusal(422, f"[serve] model is `{name}`, expected one of {', '.join(m['name'] for m in self.models)}", "model")

    # ---- requests

    def check(self, request):
        """Refuses what the page may get wrong, as the real server does; returns seconds and bytes."""
        unknown = set(request) - {"model", "settings", "inputs", "loras", "count", "client_key"}
        if unknown:
            raise Refusal(422, f"[serve] unknown field `{unknown.pop()}`")
        model, settings = self.model(request.get("model")), request.get("settings", {})
        keys = {key["key"] for key in GENERATE_KEYS}
        for key in settings:
            if key not in keys:
                raise Refusal(422, f"[serve] no key named `{key}` that clients may set", key)
        value = lambda key: settings.get(key, model["defaults"].get(key))
        if not str(settings.get("prompt", "")).strip():
            raise Refusal(422, "[generate] prompt is empty, expected text", "prompt")
        for key in ("width", "height"):
            step, given = model["multiple_of"], value(key)
            if not isinstance(given, int) or given % step or not model["min_size"] <= given <= model["max_size"]:
                low = int(given) // step * step
                raise Refusal(422, f"[generate] {key} is {given}, expected a multiple of {step} from {model['min_size']} to "
                                   f"{model['max_size']}\n  {low} and {low + step} are the nearest", key)
        if not 1 <= value("num_inference_steps") <= 1000:
            raise Refusal(422, f"[generate] num_inference_steps is {value('num_inference_steps')}, expected 1 to 1000",
                          "num_inference_steps")
        for name, upload in request.get("inputs", {}).items():
            if name not in model["inputs"]:
                raise Refusal(422, f"[serve] {model['name']} takes no {name}", name)
            if upload not in self.uploads:
                raise Refusal(422, f"[serve] {name} is not an upload of this server", name)
        if "mask" in request.get("inputs", {}) and "image" not in request["inputs"]:
            raise Refusal(422, "[generate] mask is given without image", "mask")
        for lora in request.get("loras", []):
            if not any(each["name"] == lora["name"] and each["family"] == model["family"] for each in LORAS):
                raise Refusal(422, f"[serve] no LoRA `{lora['name']}` for {model['name']}", "loras")
        pixels = value("width") * value("height") * value("num_frames") * request.get("count", 1)
        bytes_needed = int((24 << 30) + pixels * 600)
        if bytes_needed > 80 << 30:
            raise Refusal(422, f"[generate] this needs {bytes_needed / 2**30:.0f} of 80 GB\n  fewer frames or a smaller size fit",
                          "num_frames" if model["kind"] == "video" else "width")
        seconds = value("num_inference_steps") * pixels / 2**20 * 0.4
        notices = [] if any(s["width"] == value("width") and s["compiled"] for s in model["sizes"]) else \
            ["this size is compiled first: about 40 s"]
        return {"ok": True, "error": None, "notices": notices, "seconds": seconds, "bytes": bytes_needed, "bytes_limit": 80 << 30}

    def add_job(self, request):
        client_key = request.pop("client_key", None)
        if client_key in self.client_keys:
            return 200, self.client_keys[client_key]
        self.check(request)
        if sum(job["state"] == "waiting" for job in self.jobs.values()) >= 64:
            raise Refusal(429, "[serve] 64 jobs wait already: try again later")
        request = {"loras": [], "inputs": {}, "count": 1} | request
        self.last_place = math.floor(self.last_place) + 1
        job = {"id": f"j{int(self.last_place)}_{random.randrange(1 << 32):08x}", "state": "waiting", "place": self.last_place,
               "request": request, "made": time.time(), "started": None, "ended": None, "attempts": 0, "phase": None, "step": 0,
               "steps": 0, "progress": 0, "seconds_left": None, "preview": None, "outputs": [], "notices": [], "error": None}
        self.jobs[job["id"]] = job
        if client_key:
            self.client_keys[client_key] = job
        self.publish("job", job)
        return 201, job

    def move(self, job, before):
        others = sorted((j for j in self.jobs.values() if j["state"] == "waiting" and j is not job), key=lambda j: j["place"])
        places = [j["place"] for j in others]
        if before is None:
            self.last_place = max(places, default=0) + 1
            job["place"] = self.last_place
            return
        at = next((i for i, j in enumerate(others) if j["id"] == before), None)
        if at is None:
            raise Refusal(409, "[serve] the job to stand before does not wait any more")
        job["place"] = places[0] - 1 if at == 0 else (places[at - 1] + places[at]) / 2

    # ---- the engine

    def make_jobs(self):
        while True:
            time.sleep(0.03)
            waiting = [job for job in self.jobs.values() if job["state"] == "waiting"]
            if self.paused or not waiting:
                continue
            job = min(waiting, key=lambda j: j["place"])
            try:
                self.make(job)
            except Refusal as refusal:
                job.update(state="failed", error=refusal.error)
            job.update(ended=time.time(), phase=None, seconds_left=None)
            self.set_engine(state="ready")
            self.publish("job", job)

    def set_engine(self, **changes):
        self.engine.update(changes)
        for model in self.models:
            model["loaded"] = model["name"] == self.engine["model"]
        self.publish("engine", self.engine)

    def make(self, job):
        request = job["request"]
        settings, model = request["settings"], self.model(request["model"])
        steps = settings.get("num_inference_steps", 28)
        settings.setdefault("seed", random.randrange(1 << 31))
        job.update(state="running", started=time.time(), attempts=job["attempts"] + 1, steps=steps)
        self.set_engine(state="busy")
        if self.engine["model"] != model["name"]:
            job["phase"] = "loading"
            self.set_engine(state="loading", model=model["name"])
            self.publish("job", job)
            time.sleep(0.5 * self.pace)
            self.set_engine(state="busy")
        if "fail" in settings["prompt"]:
            raise Refusal(500, "[pjrt] the device ran out of memory: 91 of 80 GB\n  a smaller size or fewer frames need less")
        for step in range(steps):
            time.sleep(0.06 * self.pace)
            if job.get("cancel"):
                job["state"] = "cancelled"
                return
            url = f"/previews/{job['id']}/{step}.png"
            self.files[url] = png(32, 32, settings["seed"], (step + 1) / steps)
            job.update(phase="sampling", step=step + 1, progress=(step + 1) / steps * 0.95, preview=url,
                       seconds_left=(steps - step) * 0.06 * self.pace)
            self.publish("job", job)
        job["phase"] = "decoding"
        self.publish("job", job)
        for index in range(request["count"]):
            output = self.add_output(job, request, model, index)
            job["outputs"].append(output)
            self.publish("output", output)
        job.update(state="done", progress=1, phase=None)

    def add_output(self, job, request, model, index):
        settings = model["defaults"] | request["settings"]
        self.made += 1
        id, extension = f"o{self.made}", "mp4" if model["kind"] == "video" else "png"
        url, thumb = f"/files/{id}/{id}.{extension}", f"/thumbs/{id}.png"
        text = json.dumps(request)
        small = max(settings["width"], settings["height"]) / 96
        picture = png(int(settings["width"] / small), int(settings["height"] / small), settings["seed"] + index, 1, text)
        self.files[thumb] = picture
        self.files[url] = self.video if extension == "mp4" else picture
        output = {"id": id, "job": job["id"], "kind": model["kind"], "type": "video/mp4" if extension == "mp4" else "image/png",
                  "url": url, "thumb": thumb, "width": settings["width"], "height": settings["height"],
                  "frames": settings["num_frames"], "seconds": settings["num_frames"] / settings.get("fps", 16),
                  "bytes": len(self.files[url]), "model": model["name"], "prompt": settings["prompt"], "seed": settings["seed"],
                  "starred": False, "deleted": None, "made": time.time()}
        self.outputs[id] = {"output": output, "request": json.loads(text), "index": index}
        return output

    def add_old_output(self, i, total):
        model = MODELS[0] if i % 5 else MODELS[2]
        width, height, frames = (1024, 1024, 1) if i % 5 else (832, 480, 81)
        prompt = f"{['a red fox', 'a lighthouse', 'a paper kite', 'an old tram'][i % 4]} in {['snow', 'rain', 'fog'][i % 3]}, {i}"
        url = f"/thumbs/{i % 12}.png"
        output = {"id": f"old{i}", "job": None, "kind": model["kind"], "type": "image/png" if i % 5 else "video/mp4",
                  "url": url if i % 5 else "/clips/1.mp4", "thumb": url, "width": width, "height": height, "frames": frames,
                  "seconds": frames / 16, "bytes": 1 << 20, "model": model["name"], "prompt": prompt, "seed": i,
                  "starred": i % 50 == 0, "deleted": None, "made": time.time() - 60 * (total - i)}
        request = {"model": model["name"], "settings": {"prompt": prompt, "seed": i}, "inputs": {}, "loras": [], "count": 1}
        self.outputs[output["id"]] = {"output": output, "request": request, "index": 0}

    def add_upload(self, data, type):
        if type not in ("image/png", "image/jpeg", "image/webp", "video/mp4"):
            raise Refusal(415, f"[serve] the type is {type}, expected image/png, image/jpeg, image/webp or video/mp4")
        id = hashlib.sha256(data).hexdigest()
        width, height = struct.unpack(">II", data[16:24]) if type == "image/png" else (20, 20)
        self.files[f"/uploads/{id}"] = data
        self.uploads[id] = {"id": id, "url": f"/uploads/{id}", "type": type, "width": width, "height": height,
                            "frames": 9 if type == "video/mp4" else 1}
        return self.uploads[id]

    # ---- training

    def train(self):
        while True:
            time.sleep(0.2)
            for run in list(self.runs.values()):
                if run.state in ("starting", "running", "stopping"):
                    run.advance()


class Run:
    """A run whose loss falls; `rows` has a tuple of METRICS for each step."""

    def __init__(self, world, name, steps, state="created", config=None):
        self.world, self.name, self.steps, self.state = world, name, steps, state
        self.rows, self.evaluations, self.samples, self.checkpoints = [], [], [], []
        self.config = config or f"base: flux_dev_lora\nmax_train_steps: {steps}\nlora_rank: 16\n"
        self.log_text = "training begins: a LoRA of rank 16, 28 clips\n"
        self.started = None
        self.noise = random.Random(name)

    def step_once(self):
        step = len(self.rows)
        loss = 0.05 + math.exp(-step / 300) * (1 + 0.2 * self.noise.gauss(0, 1)) * 0.6
        rate = 1e-4 * min(1, (step + 1) / 50)
        self.rows.append((step, abs(loss), abs(loss), abs(loss), rate, 0.9 + 0.1 * self.noise.random(), 0.4 + self.noise.random() * 0.2))
        if step % 100 == 99:
            self.evaluations.append({"step": step, "loss": loss * 1.1,
                                     "timesteps": [[t, loss * (0.6 + t / 1000)] for t in range(100, 1000, 100)]})
            self.save()
            self.sample()
        if step % 10 == 9:
            self.log_text += f"step {step}: loss {loss:.4f}, 0.95 s\n"

    def skip_to(self, steps):
        while len(self.rows) < steps:
            self.step_once()

    def save(self):
        self.checkpoints.append(len(self.rows))
        self.log_text += f"saved step {len(self.rows)}\n"

    def sample(self):
        for index in range(2):
            number = len(self.samples)
            url = f"/samples/{self.name}/{number}.png"
            self.world.files[url] = png(64, 64, index, min(1, 0.2 + len(self.rows) / 1000))
            self.samples.append({"step": len(self.rows), "index": index, "prompt": ["a kite over a city", "a kite at night"][index],
                                 "kind": "image", "url": url, "thumb": url, "width": 512, "height": 512, "frames": 1})
            self.world.publish("sample", {"run": self.name, "sample": self.samples[-1]})

    def advance(self):
        if self.state == "stopping":
            self.state = "stopped"
            self.save()
        else:
            self.state = "running"
            self.started = self.started or time.time()
            before = len(self.rows)
            for _ in range(min(3, self.steps - before)):
                self.step_once()
            if len(self.rows) == self.steps:
                self.state = "done"
            if len(self.rows) > before:
                self.world.publish("points", {"run": self.name, "metrics": self.metrics(before - 1)})
        self.world.publish("run", self.json())

    def metrics(self, after, buckets=1000):
        rows = [row for row in self.rows if row[0] > after]
        width = max(1, math.ceil(len(rows) / buckets))
        joined = []
        for at in range(0, len(rows), width):
            part = rows[at:at + width]
            mean = [sum(column) / len(part) for column in zip(*part)]
            joined.append((part[-1][0], mean[1], min(r[1] for r in part), max(r[1] for r in part), *mean[4:]))
        columns = zip(*joined) if joined else [[] for _ in METRICS]
        evaluations = [each for each in self.evaluations if each["step"] > after]
        return dict(zip(METRICS, map(list, columns))) | {"evaluations": evaluations}

    def json(self):
        last = self.rows[-1] if self.rows else (0, None, None, None, None, None, None)
        recent = [row[1] for row in self.rows[-100:]]
        return {"name": self.name, "state": self.state, "step": len(self.rows), "steps": self.steps,
                "epoch": len(self.rows) / 28, "loss": last[1], "recent_loss": sum(recent) / len(recent) if recent else None,
                "learning_rate": last[4], "step_seconds": last[5], "planned_step_seconds": 0.88, "bytes": 31 << 30,
                "planned_bytes": 33 << 30, "bytes_limit": 80 << 30, "seconds_left": (self.steps - len(self.rows)) * 0.95 if self.state == "running" else None,
                "started": self.started, "changed": time.time(), "checkpoints": self.checkpoints, "error": None}
