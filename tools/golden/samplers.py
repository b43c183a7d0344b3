"""Writes tests/golden/samplers.json: what diffusers' schedulers make of a formula in the place of a network.

Runs in the virtual environment that `./dev peers` fetches: python tools/golden/samplers.py [FILE]. That has no scipy and
no torchsde: mpmath computes the quantiles and integrals, and random numbers are replaced by a formula. tests/peers/samplers.py
computes the same again and compares.
"""

import functools
import json
import math
import pathlib
import sys
import types
import warnings

import mpmath


@functools.cache
def beta_quantile(p, a, b):
    """The x with I_x(a, b) = p, by bisection."""
    low, high = 0.0, 1.0
    for _ in range(60):
        middle = (low + high) / 2
        low, high = (middle, high) if mpmath.betainc(a, b, 0, middle, regularized=True) < p else (low, middle)
    return (low + high) / 2


def replace(name, **content):
    module = types.ModuleType(name)
    vars(module).update(content)
    sys.modules[name] = module
    return module


import diffusers.utils.import_utils  # noqa: E402

diffusers.utils.import_utils._scipy_available = True
diffusers.utils.import_utils._torchsde_available = True
stats = replace("scipy.stats", beta=types.SimpleNamespace(ppf=beta_quantile))
integrate = replace("scipy.integrate", quad=lambda f, a, b, **_: (float(mpmath.quad(lambda x: float(f(float(x))), [float(a), float(b)])),))
replace("scipy", stats=stats, integrate=integrate)
replace("torchsde")

from diffusers.schedulers.scheduling_dpmsolver_sde import DPMSolverSDEScheduler  # noqa: E402
from diffusers.schedulers.scheduling_lms_discrete import LMSDiscreteScheduler  # noqa: E402

import diffusers  # noqa: E402
import numpy as np  # noqa: E402
import torch  # noqa: E402

COUNT = 8  # numbers of a sample
TOKENS = 1024
BETAS = {"beta_start": 0.00085, "beta_end": 0.012, "beta_schedule": "scaled_linear"}
SDXL = {**BETAS, "timestep_spacing": "leading", "steps_offset": 1}
FLUX = {"shift": 3.0, "use_dynamic_shifting": True, "base_shift": 0.5, "max_shift": 1.15, "base_image_seq_len": 256,
        "max_image_seq_len": 4096}
WAN = {"prediction_type": "flow_prediction", "use_flow_sigmas": True, "flow_shift": 3.0}
V = {"prediction_type": "v_prediction"}
ZERO = {**V, "rescale_betas_zero_snr": True, "timestep_spacing": "trailing"}
SAMPLE = {"prediction_type": "sample"}
KARRAS, EXPONENTIAL, BETA = ({f"use_{each}_sigmas": True} for each in ("karras", "exponential", "beta"))
END = {"final_sigmas_type": "sigma_min"}
IN_DOUBLE = ("DEISMultistepScheduler", "DPMSolverSinglestepScheduler")  # their coefficients cancel: 3e-4 in float32
THRESHOLD = {"thresholding": True, "sample_max_value": 1.5, "dynamic_thresholding_ratio": 0.8}


def noise(step):
    """In the place of random numbers, the same in tests/sample/samplers_test.cpp."""
    return 1.3 * np.sin(12.9898 * (step + 1) + 78.233 * np.arange(1, COUNT + 1))


def output(x, t):
    """In the place of the network."""
    j = np.arange(1, COUNT + 1)
    return (0.4 + t / 2000.0) * x - 0.5 * np.cos(j) + 0.1 * np.sin(3.0 * x)


def cases():
    """Name, class, settings and number of steps."""
    out = []

    def add(name, class_name, base, *variants, steps=7, **about):
        for i, settings in enumerate(variants):
            out.append({"name": f"{name}.{i}", "class": class_name, "config": {**base, **settings}, "steps": steps, **about})

    spreads = ({}, KARRAS, EXPONENTIAL, BETA)
    add("euler", "EulerDiscreteScheduler", SDXL, *spreads, V, ZERO, SAMPLE, {**V, "timestep_type": "continuous"}, END,
        {"timestep_spacing": "linspace", "interpolation_type": "log_linear"}, {**KARRAS, "sigma_max": 10.0, "sigma_min": 0.1},
        {"beta_schedule": "squaredcos_cap_v2"}, {"beta_schedule": "linear"}, {**BETA, **END, **V},
        {"trained_betas": [0.001 + 0.01 * i / 1000 for i in range(100)], "num_train_timesteps": 100})
    add("euler.sigmas", "EulerDiscreteScheduler", SDXL, {}, steps=4, sigmas=[14.6, 6.3, 1.2, 0.3])
    add("euler.timesteps", "EulerDiscreteScheduler", SDXL, {}, steps=4, timesteps=[999, 749, 499, 249])
    add("ancestral", "EulerAncestralDiscreteScheduler", SDXL, {}, V, ZERO, {"timestep_spacing": "linspace"})
    add("heun", "HeunDiscreteScheduler", SDXL, *spreads, V, SAMPLE, {"clip_sample": True, "clip_sample_range": 2.0})
    add("lms", "LMSDiscreteScheduler", SDXL, *spreads, V, SAMPLE)
    add("sde", "DPMSolverSDEScheduler", SDXL, *spreads, V)
    add("kdpm2", "KDPM2DiscreteScheduler", SDXL, *spreads, V, {"timestep_spacing": "linspace"}, {"timestep_spacing": "trailing"})
    add("kdpm2.ancestral", "KDPM2AncestralDiscreteScheduler", SDXL, *spreads, V, {"timestep_spacing": "linspace"})
    add("ddim", "DDIMScheduler", {**SDXL, "clip_sample": False}, {}, V, ZERO, SAMPLE, {"set_alpha_to_one": False},
        {"clip_sample": True}, {"clip_sample": True, "clip_sample_range": 2.5}, {"thresholding": True}, THRESHOLD)
    add("ddpm", "DDPMScheduler", {**SDXL, "clip_sample": False}, {}, V, ZERO, SAMPLE, {"variance_type": "fixed_large"},
        {"variance_type": "fixed_small_log"}, {"clip_sample": True}, {"beta_schedule": "sigmoid"}, {"beta_schedule": "laplace"},
        THRESHOLD, steps=9)
    add("pndm", "PNDMScheduler", SDXL, {}, V, {"set_alpha_to_one": True}, {"skip_prk_steps": True},
        {"skip_prk_steps": True, **V, "timestep_spacing": "trailing"}, {"timestep_spacing": "linspace"})
    add("lcm", "LCMScheduler", {**SDXL}, {}, V, SAMPLE, {"original_inference_steps": 100, "timestep_scaling": 5.0},
        {"clip_sample": True}, THRESHOLD, steps=4)
    add("lcm.timesteps", "LCMScheduler", SDXL, {}, steps=3, timesteps=[999, 699, 259])
    add("tcd", "TCDScheduler", SDXL, {}, V, SAMPLE, {"original_inference_steps": 100}, steps=4)
    solvers = ({}, {"solver_order": 1}, {"solver_order": 3}, {"solver_type": "heun"}, {"algorithm_type": "sde-dpmsolver++"},
               {"algorithm_type": "sde-dpmsolver++", "solver_type": "heun"}, {"algorithm_type": "sde-dpmsolver++", "solver_order": 3},
               {"euler_at_final": True}, {"lower_order_final": False})
    noisy = ({"algorithm_type": "dpmsolver", **END}, {"algorithm_type": "dpmsolver", **END, "solver_order": 3},
             {"algorithm_type": "dpmsolver", **END, "solver_type": "heun"}, {"algorithm_type": "sde-dpmsolver", **END},
             {"algorithm_type": "sde-dpmsolver", **END, "solver_type": "heun"})
    dpm = "DPMSolverMultistepScheduler"
    add("dpm", dpm, SDXL, *solvers, *noisy, *spreads[1:], {"use_lu_lambdas": True}, V, ZERO, SAMPLE, END, THRESHOLD,
        {"lambda_min_clipped": -1.0}, {"timestep_spacing": "linspace"}, {"timestep_spacing": "trailing"},
        {"beta_schedule": "squaredcos_cap_v2"})
    add("dpm.long", dpm, SDXL, *solvers, steps=17)
    add("dpm.timesteps", dpm, SDXL, {}, steps=4, timesteps=[999, 749, 499, 249])
    add("dpm.flow", dpm, WAN, *solvers[:-1], END, {"flow_shift": 7.0}, THRESHOLD)
    single = "DPMSolverSinglestepScheduler"
    singles = (*solvers[:-2], {"solver_order": 3, "solver_type": "heun"}, {"algorithm_type": "dpmsolver", **END},
               {"algorithm_type": "dpmsolver", **END, "solver_order": 3}, {"algorithm_type": "dpmsolver", **END, "solver_type": "heun"},
               {"algorithm_type": "sde-dpmsolver++", "solver_order": 3, "solver_type": "heun"}, END,
               {**END, "lower_order_final": True})
    for steps in (7, 8, 9):
        add(f"single.{steps}", single, BETAS, *singles, steps=steps)
    add("single", single, BETAS, *spreads[1:], V, SAMPLE, THRESHOLD, {"lambda_min_clipped": -1.0})
    add("single.timesteps", single, BETAS, {}, steps=4, timesteps=[999, 749, 499, 249])
    add("single.flow", single, WAN, *solvers[:-2], {**END, "solver_order": 3}, {"flow_shift": 7.0}, THRESHOLD)
    orders = ({}, {"solver_order": 1}, {"solver_order": 3})
    add("deis", "DEISMultistepScheduler", SDXL, *orders, *spreads[1:], V, SAMPLE, {"timestep_spacing": "linspace"},
        {"lower_order_final": False, "solver_order": 3}, {"algorithm_type": "dpmsolver++", "solver_type": "heun"})
    add("deis.long", "DEISMultistepScheduler", SDXL, *orders, KARRAS, steps=17)
    add("deis.flow", "DEISMultistepScheduler", WAN, *orders, {"flow_shift": 7.0})
    unipc = "UniPCMultistepScheduler"
    orders = ({}, {"solver_order": 1}, {"solver_order": 3}, {"disable_corrector": [0, 2]})
    add("unipc", unipc, SDXL, *orders, *spreads[1:], {"predict_x0": False, **END}, {**END, "solver_type": "bh1"}, V, ZERO, SAMPLE,
        {**END, "lower_order_final": False}, {**KARRAS, **END}, THRESHOLD, {"sigma_min": 0.1, "sigma_max": 9.0, **KARRAS},
        {"predict_x0": False, **END, "solver_order": 3}, {"timestep_spacing": "trailing"},
        *({"solver_type": "bh1", "solver_order": 3, **END, **more} for more in ({}, {"predict_x0": False}, KARRAS, V)))
    add("unipc.flow", unipc, WAN, *orders, END, KARRAS, {"shift_terminal": 0.1}, {"flow_shift": 12.0},
        {"solver_type": "bh1", **END}, {"solver_type": "bh1", **END, "solver_order": 3}, THRESHOLD)
    add("unipc.flow.sigmas", unipc, WAN, {}, steps=4, sigmas=[1.0, 0.75, 0.5, 0.25])
    flow = "FlowMatchEulerDiscreteScheduler"
    add("flow", flow, FLUX, *spreads, {"invert_sigmas": True}, {"shift_terminal": 0.1}, {"stochastic_sampling": True},
        {"time_shift_type": "linear"}, {"use_dynamic_shifting": False}, {"max_shift": 2.0}, even=True)
    add("flow.table", flow, {"shift": 5.0}, {}, {"shift_terminal": 0.2}, KARRAS)
    add("flow.sigmas", flow, {"shift": 2.0}, {}, steps=4, sigmas=[1.0, 0.75, 0.5, 0.25])
    add("flow.timesteps", flow, {"shift": 1.0}, {}, steps=4, timesteps=[1000, 750, 500, 250])
    add("flow.heun", "FlowMatchHeunDiscreteScheduler", {}, {}, {"shift": 5.0}, {"shift": 3.0, "num_train_timesteps": 500})
    add("edm", "EDMEulerScheduler", {}, {}, V, {"sigma_schedule": "exponential"}, {"sigma_data": 1.0, "sigma_max": 120.0}, END)
    add("edm.dpm", "EDMDPMSolverMultistepScheduler", {}, {}, V, {"solver_order": 3}, {"algorithm_type": "sde-dpmsolver++"},
        {"sigma_schedule": "exponential", "solver_type": "heun"}, THRESHOLD)
    return out


def run(case):
    """Timesteps, sigmas, the factor of the first sample, and the last sample."""
    own = {each.__name__: each for each in (DPMSolverSDEScheduler, LMSDiscreteScheduler)}  # diffusers has dummies without scipy
    scheduler = own.get(case["class"], getattr(diffusers, case["class"]))(**case["config"])
    module = sys.modules[type(scheduler).__module__]
    now = {"step": 0}
    draw = lambda *args, **kwargs: torch.tensor(noise(now["step"]), dtype=torch.float32).reshape(1, 1, 2, 4)  # noqa: E731
    if hasattr(module, "randn_tensor"):
        module.randn_tensor = draw
    if hasattr(module, "BrownianTreeNoiseSampler"):
        module.BrownianTreeNoiseSampler = lambda *args, **kwargs: draw
    given = {}
    if case.get("even"):
        given["sigmas"] = np.linspace(1.0, 1.0 / case["steps"], case["steps"])
        if case["config"].get("use_dynamic_shifting"):
            config = scheduler.config  # mu of pipeline_flux.py
            slope = (config.max_shift - config.base_shift) / (config.max_image_seq_len - config.base_image_seq_len)
            given["mu"] = config.base_shift + slope * (TOKENS - config.base_image_seq_len)
    for key in ("sigmas", "timesteps"):
        if key in case:
            needs_end = key == "sigmas" and case["class"] == "EulerDiscreteScheduler"
            given[key] = np.array(case[key] + [0.0] * needs_end)
    scheduler.set_timesteps(**given) if given else scheduler.set_timesteps(case["steps"])
    scale = float(getattr(scheduler, "init_noise_sigma", 1.0))
    dtype = torch.float32
    if case["class"] in IN_DOUBLE:
        scheduler.sigmas, dtype = scheduler.sigmas.double(), torch.float64
    x = torch.tensor(scale * np.linspace(-1.5, 1.5, COUNT), dtype=dtype).reshape(1, 1, 2, 4)
    scheduler._begin_index = 0 if hasattr(scheduler, "_begin_index") else None
    for step, t in enumerate(scheduler.timesteps):
        now["step"] = step
        scaled = scheduler.scale_model_input(x, t) if hasattr(scheduler, "scale_model_input") else x
        v = output(scaled.double().numpy().reshape(-1), float(t))
        x = scheduler.step(torch.tensor(v, dtype=dtype).reshape(1, 1, 2, 4), t, x, return_dict=False)[0]
    finals = x.double().numpy().reshape(-1).tolist()
    assert all(map(math.isfinite, finals)), case
    short = lambda values: [float(f"{value:.9g}") for value in values]  # noqa: E731
    return {**case, "timesteps_visited": short(map(float, scheduler.timesteps)), "scale": float(f"{scale:.9g}"),
            "finals": short(finals)}


def computed():
    warnings.simplefilter("ignore")
    diffusers.utils.logging.set_verbosity_error()
    return [run(case) for case in cases()]


if __name__ == "__main__":
    target = pathlib.Path(sys.argv[1] if len(sys.argv) > 1 else pathlib.Path(__file__).parents[2] / "tests/golden/samplers.json")
    lines = ",\n".join(json.dumps(each) for each in computed())
    target.write_text(f'{{"what": "diffusers {diffusers.__version__} on a formula, by tools/golden/samplers.py", '
                      f'"tokens": {TOKENS}, "cases": [\n{lines}\n]}}\n')
