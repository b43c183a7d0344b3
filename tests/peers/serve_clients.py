"""`kinema serve` asked by the clients that people have: openai, webuiapi and mcp, as they come from PyPI.

serve_clients.py KINEMA. Two tiny models, trained for a step: one of images, one of videos.
"""

import asyncio
import base64
import json
import io
import os
import pathlib
import re
import signal
import socket
import subprocess
import sys
import tempfile
import time

import httpx2
import mcp
import openai
import webuiapi
from mcp.client.streamable_http import streamable_http_client
from PIL import Image

PROGRAM = pathlib.Path(sys.argv[1]).resolve()
SOURCE = pathlib.Path(__file__).resolve().parents[2]
PNG = b"\x89PNG"


def say(text):
    print(text, flush=True)


def free_port():
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return listener.getsockname()[1]


def kinema(*words):
    done = subprocess.run([PROGRAM, *map(str, words)], capture_output=True, text=True, timeout=600, check=False)
    assert done.returncode == 0, f"{words}: {done.stderr}"


def refused(error, call):
    try:
        call()
    except error as problem:
        return problem
    raise AssertionError(f"{error} was expected")


def ask_openai(port, token):
    client = openai.OpenAI(base_url=f"http://127.0.0.1:{port}/v1", api_key=token)
    names = [model.id for model in client.models.list()]
    assert names == ["pictures", "clips"], names

    image = client.images.generate(prompt="a red circle", extra_body={"seed": 7, "kinema": {"num_inference_steps": 2}})
    first = base64.b64decode(image.data[0].b64_json)
    assert first.startswith(PNG)
    again = client.images.generate(prompt="a red circle", extra_body={"seed": 7, "kinema": {"num_inference_steps": 2}})
    pixels = [Image.open(io.BytesIO(each)).tobytes() for each in (first, base64.b64decode(again.data[0].b64_json))]
    assert pixels[0] == pixels[1], "the same seed gives other pixels"
    two = client.images.generate(model="pictures", prompt="a red circle", n=2, size="20x20", response_format="url")
    assert len(two.data) == 2 and two.data[0].url.startswith("http://127.0.0.1")
    events = [event.type for event in client.images.generate(prompt="a red circle", stream=True)]
    assert events == ["image_generation.completed"], events
    say("openai: images")

    problem = refused(openai.BadRequestError, lambda: client.images.generate(prompt="a red circle", size="21x20"))
    assert "21" in problem.message, problem.message
    refused(openai.NotFoundError, lambda: client.images.generate(prompt="a", model="unknown"))
    other = openai.OpenAI(base_url=f"http://127.0.0.1:{port}/v1", api_key="wrong")
    refused(openai.AuthenticationError, lambda: other.models.list())
    edited = client.images.edit(image=("a.png", first, "image/png"), prompt="a blue circle")
    assert base64.b64decode(edited.data[0].b64_json).startswith(PNG)
    say("openai: refusals, edits")

    video = client.videos.create_and_poll(prompt="a red circle", model="clips", seconds="4", size="16x16",
                                          poll_interval_ms=200)
    assert video.status == "completed", video
    content = client.videos.download_content(video.id).read()
    assert content[4:8] == b"ftyp", content[:20]
    assert [each.id for each in client.videos.list()] == [video.id]
    assert client.videos.delete(video.id).deleted
    refused(openai.NotFoundError, lambda: client.videos.retrieve(video.id))
    say("openai: videos")


def ask_webui(port, token):
    client = webuiapi.WebUIApi(host="127.0.0.1", port=port)
    client.set_auth("anyone", token)
    client.util_set_model("pictures")
    assert client.util_get_model_names() == ["clips", "pictures"], client.util_get_model_names()
    made = client.txt2img(prompt="a red circle", seed=7, steps=2, width=20, height=20, batch_size=2)
    assert [image.size for image in made.images] == [(20, 20)] * 2
    assert made.info["seed"] == 7, made.info
    changed = client.img2img(prompt="a blue circle", images=[made.images[0]], steps=4, width=20, height=20, seed=1,
                             denoising_strength=0.5)
    assert changed.image.size == (20, 20)
    client.util_wait_for_ready()
    assert client.get_progress()["state"]["job_count"] == 0
    assert "Euler a" in [sampler["name"] for sampler in client.get_samplers()]
    assert client.get_loras() == [] and client.get_options()["sd_model_checkpoint"] == "pictures"
    client.interrupt()
    client.refresh_checkpoints()
    info = client.png_info(made.images[0])
    assert info is not None
    problem = refused(RuntimeError, lambda: client.txt2img(prompt="a", width=20, height=20, enable_hr=True))
    assert "enable_hr" in str(problem), problem
    say("webuiapi: images, options, progress, refusals")


async def ask_mcp(port, token):
    with_token = httpx2.AsyncClient(headers={"Authorization": f"Bearer {token}"}, timeout=120)
    async with (streamable_http_client(f"http://127.0.0.1:{port}/mcp", http_client=with_token) as streams,
                mcp.ClientSession(*streams[:2]) as session):
        hello = await session.initialize()
        assert hello.server_info.name == "kinema", hello
        names = [tool.name for tool in (await session.list_tools()).tools]
        assert names == ["generate_image", "list_models", "get_job"], names
        models = json.loads((await session.call_tool("list_models", {})).content[0].text)
        assert [model["name"] for model in models] == ["pictures", "clips"], models
        made = await session.call_tool("generate_image", {"prompt": "a red circle", "steps": 2, "seed": 7})
        assert not made.is_error and base64.b64decode(made.content[0].data).startswith(PNG), made
        job = json.loads(made.content[-1].text)["id"]
        assert (await session.call_tool("get_job", {"id": job})).content[0].type == "image"
        wrong = await session.call_tool("generate_image", {"prompt": "a", "width": 21})
        assert wrong.is_error and "21" in wrong.content[0].text, wrong
    say("mcp: tools, pictures, refusals")


def main():
    with tempfile.TemporaryDirectory(prefix="kinema-serve-") as folder:
        os.chdir(folder)
        os.symlink(SOURCE / "examples", "examples")
        for name, config in (("pictures", "shapes_flux.yml"), ("clips", "tiny.yml")):
            base = f"base: {SOURCE / 'configs' / config}\nrun_name: {name}\noutput_dir: out\n"
            pathlib.Path(f"{name}.yml").write_text(base)
            kinema("train", f"{name}.yml", "max_train_steps=1")
        port = free_port()
        server = subprocess.Popen([PROGRAM, "serve", "pictures.yml", "serve_models=[clips.yml]", f"serve_port={port}",
                                   "serve_folder=served"], stdout=subprocess.PIPE, text=True)
        try:
            line = server.stdout.readline()
            token = re.search(r"token=(\S+)", line)[1]
            started = time.time()
            ask_openai(port, token)
            ask_webui(port, token)
            asyncio.run(ask_mcp(port, token))
            say(f"asked for {time.time() - started:.0f} s")
        finally:
            server.send_signal(signal.SIGTERM)
            assert server.wait(60) == 0
            os.chdir(SOURCE)


main()
