"""Prompts with weights: what kinema samples is what diffusers samples of the states that compel makes, and of those of the
formulas of AUTOMATIC1111's web UI, written down here."""

import re
import sys

from peer import GOLDEN, kinema, same, safetensors, say

import numpy
import torch
from diffusers import StableDiffusionXLPipeline

try:
    from compel import CompelForSDXL
except ImportError:
    print("skipped: compel is not there; ./dev peers fetches it")
    sys.exit(77)

STEPS = 2
# Of the largest value: float32 roundings of two text encoders and two steps.
LIMIT = 1e-5

sentence = "a red ball rolls over the green field, slowly and without a sound. "
BOTH = ["a red ball", "a cat and a dog", sentence * 4, "a very long line without any comma or point " * 12]
COMPEL = BOTH + [
    "a red++ ball", "a red- ball", "a (red ball)1.3 rolls", "a (red ball)0.6 rolls", "(a red (shiny ball)+ rolls)0.8, blue--",
    '"a red ball"1.2 rolls', "a red ball (rolls)0.0 away", '("a red ball", "a blue box").blend(0.7, 0.3)',
    '("a red ball", "a blue box").blend(1, -0.5, no_normalize)', '("a red ball", "a blue box").and()',
    '("a red++ ball, shiny", "a blue box").and(1, 1)', "a ball \\(red\\) rolls", "an (unclosed ball+ rolls", "a = b, c+ + d - e",
    "well-known ball--, (a,b)1.1,c", sentence * 3 + "(blue box)1.4 " + sentence * 3, sentence * 3 + "(" + "blue box, " * 12 + ")0.5",
    "(ball)-1.5 and (box)2", "(red ball)++ rolls", "((red) ball)+, (blue)-.", "the .5 ball, 1.2 of it+", '"quoted (ball)1.1, box" rolls',
]  # fmt: skip
A1111 = BOTH + [
    "a (red) ball", "a [red] ball", "a (red ball:1.3), [blurry]", "((a red) ball:1.5), [[dark]]", "a \\(red\\) ball, \\[x\\]",
    "a red ball BREAK a blue box", "a red ball BREAK BREAK (box:0.5)", "a (red: 0.4 ) ball:1.2) and ] more", "(unclosed ball", "a [b [c",
    sentence * 3 + "(blue box:1.4) " + sentence * 3, "ball, " * 30 + "field " * 30 + "(box:0.2)", "(a:-1.5) b", "a:b (c:d:1.2)",
    "BREAKER x BREAK\ny", "(a red ball:1.0)", "((((a))))", "a (ball:.5) and (box:2.)", "", "()",
]  # fmt: skip


def attention(text):
    """The web UI's weights: a list of [text, weight], with ["BREAK", -1] between sections."""
    tokens = re.compile(r"\\\(|\\\)|\\\[|\\]|\\\\|\\|\(|\[|:\s*([+-]?[.\d]+)\s*\)|\)|]|[^\\()\[\]:]+|:")
    out, round_brackets, square_brackets = [], [], []

    def multiply(start, weight):
        for part in out[start:]:
            part[1] *= weight

    for match in tokens.finditer(text):
        token, weight = match.group(0), match.group(1)
        if token.startswith("\\"):
            out.append([token[1:], 1.0])
        elif token == "(":
            round_brackets.append(len(out))
        elif token == "[":
            square_brackets.append(len(out))
        elif weight is not None and round_brackets:
            multiply(round_brackets.pop(), float(weight))
        elif token == ")" and round_brackets:
            multiply(round_brackets.pop(), 1.1)
        elif token == "]" and square_brackets:
            multiply(square_brackets.pop(), 1 / 1.1)
        else:
            for i, part in enumerate(re.split(r"\s*\bBREAK\b\s*", token)):
                out += [["BREAK", -1]] * (i > 0) + [[part, 1.0]]
    for start in round_brackets:
        multiply(start, 1.1)
    for start in square_brackets:
        multiply(start, 1 / 1.1)
    joined = []
    for text, weight in out or [["", 1.0]]:
        if joined and joined[-1][1] == weight:
            joined[-1][0] += text
        else:
            joined.append([text, weight])
    return joined


def chunks(tokenizer, text):
    """Lists of 75 (token, weight): what follows the last of 20 tokens' comma moves to the next list."""
    comma = tokenizer(",", add_special_tokens=False).input_ids
    done, now, last_comma = [], [], -1

    def end():
        nonlocal now, last_comma
        done.append(now)
        now, last_comma = [], -1

    for part, weight in attention(text):
        if (part, weight) == ("BREAK", -1):
            end()
            continue
        for token in tokenizer(part, add_special_tokens=False).input_ids:
            if [token] == comma:
                last_comma = len(now)
            elif len(now) == 75 and last_comma != -1 and 75 - last_comma <= 20:
                moved = now[last_comma + 1:]
                now = now[:last_comma + 1]
                end()
                now = moved
            if len(now) == 75:
                end()
            now.append((token, weight))
    if now or not done:
        done.append(now)
    return done


def web_ui(tokenizer, encoder, text):
    """States [n * 77, d] and the pooled row of the first 77."""
    states, pooled = [], None
    for chunk in chunks(tokenizer, text):
        ids = [tokenizer.bos_token_id] + [token for token, _ in chunk] + [tokenizer.eos_token_id]
        weights = numpy.array([1.0] + [weight for _, weight in chunk] + [1.0] * (76 - len(chunk)), dtype=numpy.float32)
        ids += [tokenizer.pad_token_id] * (77 - len(ids))
        with torch.no_grad():
            made = encoder(torch.tensor([ids]), output_hidden_states=True)
        z = made.hidden_states[-2][0].numpy()
        weighted = z * weights[:, None]
        states.append(weighted * (z.mean() / weighted.mean()))
        pooled = made.get("text_embeds") if pooled is None else pooled
    return torch.from_numpy(numpy.concatenate(states)), pooled


def padded(states, empty, rows):
    return torch.cat([states] + [empty] * ((rows - states.shape[0]) // 77))


def sdxl_of_web_ui(pipe, prompts):
    made = []
    for tokenizer, encoder in ((pipe.tokenizer, pipe.text_encoder), (pipe.tokenizer_2, pipe.text_encoder_2)):
        made.append(([web_ui(tokenizer, encoder, prompt) for prompt in prompts], web_ui(tokenizer, encoder, "")[0]))
    rows = max(states.shape[0] for all_states, _ in made for states, _ in all_states)
    embeds = torch.stack([torch.cat([padded(all_states[i][0], empty, rows) for all_states, empty in made], dim=-1)
                          for i in range(len(prompts))])
    return embeds, torch.cat([pooled for _, pooled in made[1][0]])


def sdxl_of_compel(pipe, prompts):
    made = CompelForSDXL(pipe)(prompts)
    return made.embeds, made.pooled_embeds


def sampled(syntax, prompts, states):
    """The latents of both programs for all prompts, the last of which is the negative prompt."""
    with open("prompts.txt", "w") as file:
        file.write("\n".join(prompts[:-1]))
    noise = torch.randn(1, 4, 8, 8, generator=torch.Generator().manual_seed(3))
    safetensors.torch.save_file({"latents": noise[:, :, None].contiguous()}, "noise.safetensors")
    kinema("generate", GOLDEN / "sdxl", f"prompt_syntax={syntax}", "prompt_file=prompts.txt", f"negative_prompt={prompts[-1]}",
           "guidance_scale=5", f"num_inference_steps={STEPS}", "height=64", "width=64", "weights_dtype=float32",
           "activations_dtype=float32", "initial_latents=noise.safetensors", f"save_latents={syntax}.safetensors", "video_folder=out",
           "contact_sheet=false")
    found = safetensors.torch.load_file(f"{syntax}.safetensors")["latents"][:, :, 0]
    embeds, pooled = states(sdxl, prompts)
    count = len(prompts) - 1
    with torch.no_grad():
        wanted = sdxl(prompt_embeds=embeds[:count], pooled_prompt_embeds=pooled[:count], height=64, width=64,
                      negative_prompt_embeds=embeds[count:].expand(count, -1, -1), negative_pooled_prompt_embeds=pooled[count:].expand(count, -1),
                      guidance_scale=5.0, num_inference_steps=STEPS, latents=noise.expand(count, -1, -1, -1), output_type="latent").images
    for prompt, one, other in zip(prompts, found, wanted):
        same(f"{syntax}: {prompt[:60]}", one, other, absolute=LIMIT * wanted.abs().max().item())
    say(f"{count} prompts with prompt_syntax={syntax}", (found - wanted).abs().max().item())


sdxl = StableDiffusionXLPipeline.from_pretrained(GOLDEN / "sdxl")
sdxl.set_progress_bar_config(disable=True)
written = [prompt for prompt in A1111 if prompt.strip() and "\n" not in prompt]
sampled("a1111", written + ["(blurry:1.2), [dark]"], sdxl_of_web_ui)
sampled("compel", COMPEL + ["blurry++, (dark)0.7"], sdxl_of_compel)
