"""Rows of the bench as `bench/run.py` writes them, made up."""

import json

PLAIN = {
    "run": "monday",
    "time": "2026-01-05T09:00:00+00:00",
    "case": "deep_sets++-50-training",
    "group": "table",
    "network": "deep_sets++",
    "direction": "training",
    "num_sets": 64,
    "num_elements": 64_000,
    "largest_set": 1000,
    "in_features": 2,
    "depth": 50,
    "width": 128,
    "contender": "orderless",
    "code": "orderless",
    "dtype": "bfloat16",
    "graph": True,
    "compiled": False,
    "expects_fused": True,
    "least_bytes": 6_291_456_000,
    "device": "NVIDIA H200",
    "cpus": 16,
    "torch": "2.11.0",
    "triton": "3.6.0",
    "orderless": "0.1.0",
    "git_rev": "abc1234",
    "backend": "triton",
    "used": {"clean_blocks:triton": 1},
    "fused": True,
    "p20_ms": 2.4,
    "p50_ms": 2.5,
    "p80_ms": 2.6,
    "repeats": 100,
    "peak_mib": 700.0,
    "copy_gb_per_s": 4300.0,
    "least_ms": 1.46,
    "of_copy_bandwidth": 0.58,
}
PEER = {"expects_fused": False, "fused": None, "backend": "pytorch", "used": {}, "dtype": "float32", "graph": False}
TIMES = ("p20_ms", "p50_ms", "p80_ms", "repeats", "peak_mib", "of_copy_bandwidth", "used", "backend", "fused")


def make_row(**fields):
    """A row; a peer's where the contender is one, without figures where it failed."""
    contender = fields.get("contender", "orderless")
    row = {**PLAIN, **(PEER if not contender.startswith("orderless") else {}), **fields}
    if "p50_ms" in fields:
        row |= {"p20_ms": 0.95 * fields["p50_ms"], "p80_ms": 1.1 * fields["p50_ms"]}
    return {name: value for name, value in row.items() if "error" not in fields or name not in TIMES}


def write_rows(path, rows):
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return path
