# SPDX-License-Identifier: Apache-2.0
"""The cases of oracle.py: features alone, edges of the specification, random combinations."""

import math
import random

DEFAULTS = {
    "name": "", "seed": 1, "dim": 64, "group": 8, "kv_heads": 1,
    "q": "f16", "kv": None, "out": None,  # None: as q
    "lens": [21, 5], "q_tokens": 1, "rows": None, "mask": None, "strided": False,
    "page": 7, "max_pages": None, "layout": "nhd",
    "window": 0, "softmax_scale": None, "softcap": None,
    "sinks": False,  # True: random; a list: these, repeated over the heads
    "q_scale": None, "k_scale": None, "v_scale": None, "per_head": False, "out_scale": None,
    "lse": True, "edits": [],
}


def set_key(b, t, g, value, dims=None):
    def edit(case):
        row = case.k[b][t][g]
        for d in dims if dims is not None else range(len(row)):
            row[d] = case.kv_format.encode(value)
    return edit


def set_value(b, t, g, value, dims=None):
    def edit(case):
        row = case.v[b][t][g]
        for d in dims if dims is not None else range(len(row)):
            row[d] = case.kv_format.encode(value)
    return edit


def set_query(b, i, h, value, dims=None):
    def edit(case):
        row = case.q[b][i][h]
        for d in dims if dims is not None else range(len(row)):
            row[d] = case.q_format.encode(value)
    return edit


def every_value_code(case):
    """The 256 e4m3 codes over the elements of V."""
    code = 0
    for request in case.v:
        for slot in request:
            for row in slot:
                for d in range(len(row)):
                    row[d] = code % 256
                    code += 1


FEATURES = [
    dict(name="f16_d128", dim=128, lens=[37, 1], page=16),
    dict(name="bf16_d128", dim=128, q="bf16", lens=[15, 17], page=16),
    dict(name="e4m3_d128", dim=128, kv="e4m3", lens=[40, 16], page=16),
    dict(name="e4m3_bf16_d256", dim=256, q="bf16", kv="e4m3", group=5, lens=[19], page=7),
    dict(name="f16_d256", dim=256, group=5, lens=[4, 12]),
    dict(name="d8", dim=8, group=3, kv_heads=2, lens=[70, 3]),
    dict(name="d8_e4m3", dim=8, kv="e4m3", kv_heads=3, lens=[9, 30], layout="hnd", page=5),
    dict(name="d80", dim=80, group=1, kv_heads=2, lens=[17, 8], layout="hnd"),
    dict(name="d1024", dim=1024, group=2, lens=[6], page=3),
    dict(name="g1", group=1, kv_heads=2, lens=[13, 20]),
    dict(name="g5", group=5, kv_heads=2),
    dict(name="g71", group=71, lens=[23]),
    dict(name="page1", page=1, lens=[13, 1]),
    dict(name="page64", page=64, dim=8, lens=[64, 65, 63, 130]),
    dict(name="hnd", layout="hnd", kv_heads=3, group=2),
    dict(name="interleaved", layout="interleaved", kv_heads=2, group=2),
    dict(name="padded", layout="padded", kv_heads=2, group=2),
    dict(name="contiguous", layout="contiguous", kv_heads=2, group=2, lens=[12, 0, 5]),
    dict(name="strided_rows", strided=True, q_tokens=3, group=2, kv_heads=2),
    dict(name="causal_drafts", q_tokens=4, group=2),
    dict(name="drafts_over_32", q_tokens=40, group=1, dim=8, lens=[45, 40]),
    dict(name="mask_full", q_tokens=4, group=2, mask="full"),
    dict(name="mask_tree", q_tokens=9, group=2, dim=8, mask="tree", lens=[30, 9]),
    dict(name="mask_tree_over_32", q_tokens=67, group=1, dim=8, mask="tree", lens=[80]),
    dict(name="mask_random", q_tokens=7, group=2, dim=8, mask="random", lens=[7, 25], page=1),
    dict(name="ragged", q_tokens=5, rows=[2, 0, 5, 1], lens=[9, 14, 20, 1], group=2),
    dict(name="ragged_mask", q_tokens=34, rows=[3, 34, 0], lens=[9, 40, 2], group=1, dim=8,
         mask="tree"),
    dict(name="ragged_no_rows", q_tokens=2, rows=[0, 0], lens=[9, 4]),
    dict(name="window1", window=1),
    dict(name="window_page", window=7, lens=[6, 7, 8, 14, 15, 30]),
    dict(name="window_drafts", window=5, q_tokens=3, group=2, lens=[30, 4, 3]),
    dict(name="sinks", sinks=True),
    dict(name="sinks_none", sinks=[-math.inf, 1.5, -200.0, 200.0]),
    dict(name="softmax_scale", softmax_scale=0.7),
    dict(name="softmax_scale_negative", softmax_scale=-0.25),
    dict(name="softcap", softcap=2.5, softmax_scale=1.0),
    dict(name="q_scale", q_scale=0.37),
    dict(name="k_scale", k_scale=1.9, kv="e4m3"),
    dict(name="v_scale", v_scale=0.11, kv="e4m3"),
    dict(name="out_scale", out_scale=3.25),
    dict(name="scales_per_head", q_scale=0.37, k_scale=1.9, v_scale=0.11, out_scale=2.5,
         per_head=True, kv_heads=3, group=2),
    dict(name="scales_per_tensor", q_scale=0.37, k_scale=1.9, v_scale=0.11, kv_heads=3, group=2),
    dict(name="out_e4m3", out="e4m3", out_scale=8.0),
    dict(name="out_e4m3_saturated", out="e4m3", q="bf16", out_scale=3000.0),
    dict(name="out_f16_overflow", out_scale=1e6),
    dict(name="no_lse", lse=False),
]

EDGES = [
    dict(name="empty", lens=[0, 3, 0]),
    dict(name="empty_sinks", lens=[0, 3], sinks=True),
    dict(name="empty_out_scale", lens=[0, 3], out_scale=-2.0, out="e4m3"),
    dict(name="shorter_than_q_tokens", lens=[2, 1, 0], q_tokens=4, group=2, sinks=True),
    dict(name="shorter_than_q_tokens_mask", lens=[2, 4], q_tokens=4, group=2, mask="full"),
    dict(name="shorter_than_q_tokens_window", lens=[2, 4], q_tokens=4, group=2, window=2),
    dict(name="length_cut_to_capacity", lens=[100, 9], max_pages=2, q_tokens=2, group=2),
    dict(name="length_negative", lens=[-5, 9, -(2**31)], sinks=True),
    dict(name="nan_in_key", lens=[13, 13], q_tokens=3, group=2, kv_heads=2,
         edits=[set_key(0, 11, 1, math.nan, [5]), set_key(1, 4, 0, math.nan)]),
    dict(name="nan_in_value", lens=[13, 13], q_tokens=3, group=2, kv_heads=2,
         edits=[set_value(0, 11, 1, math.nan, [5, 63]), set_value(1, 4, 0, math.nan, [0])]),
    dict(name="nan_before_window", lens=[21, 21], q_tokens=2, group=2, window=4,
         edits=[set_key(0, 16, 0, math.nan), set_value(1, 16, 0, math.nan, [3])]),
    dict(name="nan_hidden_by_mask", q_tokens=5, group=2, lens=[12], mask="tree", seed=4,
         edits=[set_key(0, 9, 0, math.nan), set_value(0, 10, 0, math.nan, [7])]),
    dict(name="nan_at_weight_zero", lens=[12], group=2, softmax_scale=100.0,
         edits=[set_key(0, 3, 0, -8.0), set_value(0, 3, 0, math.nan, [2]),
                set_query(0, 0, 0, 1.0), set_query(0, 0, 1, 1.0)]),
    dict(name="nan_in_e4m3", kv="e4m3", lens=[12, 4],
         edits=[set_key(0, 3, 0, math.nan, [2]), set_value(1, 3, 0, math.nan, [2])]),
    dict(name="nan_in_query", lens=[12], edits=[set_query(0, 0, 3, math.nan, [1])]),
    dict(name="inf_logit", lens=[12], q_tokens=2, group=2,
         edits=[set_key(0, 11, 0, math.inf, [0]), set_query(0, 1, 0, 1.0, [0]),
                set_query(0, 1, 1, -1.0, [0])]),
    dict(name="inf_logit_softcap", lens=[12], group=2, softcap=3.0,
         edits=[set_key(0, 11, 0, math.inf, [0]), set_query(0, 0, 0, 1.0, [0]),
                set_query(0, 0, 1, -1.0, [0])]),
    dict(name="all_logits_minus_inf", lens=[3], group=2,
         edits=[set_key(0, t, 0, math.inf, [t]) for t in range(3)]
         + [set_query(0, 0, h, -1.0) for h in range(2)]),
    dict(name="inf_in_value", lens=[12], group=2,
         edits=[set_value(0, 3, 0, math.inf, [1]), set_value(0, 4, 0, -math.inf, [2])]),
    dict(name="logits_plus_1e4", q="bf16", lens=[12],
         edits=[set_query(0, 0, h, 1e4, [0]) for h in range(8)]
         + [set_key(0, t, 0, 8.0, [0]) for t in range(12)]),
    dict(name="logits_minus_1e4", q="bf16", lens=[12],
         edits=[set_query(0, 0, h, -1e4, [0]) for h in range(8)]
         + [set_key(0, t, 0, 8.0, [0]) for t in range(12)]),
    dict(name="every_e4m3_code", kv="e4m3", lens=[1, 1, 1, 1], group=2, edits=[every_value_code]),
    dict(name="every_e4m3_code_long", kv="e4m3", lens=[9], dim=256, group=2,
         edits=[every_value_code]),
    dict(name="key_outliers", kv="e4m3", lens=[30],
         edits=[set_key(0, t, 0, 100.0 + 10 * t, [17]) for t in range(30)]),
]


def combinations(count):
    """Random choices over all axes. A mask comes without a window: the two together are refused."""
    rng = random.Random(20250101)

    def choose(options):
        # random() alone is promised to stay the same in later versions of Python.
        return options[int(rng.random() * len(options))]

    cases = []
    for index in range(count):
        q_tokens = choose([1, 1, 2, 5])
        batch = choose([1, 2, 3])
        lens = [choose([0, 1, q_tokens, 6, 7, 8, 15, 24]) for _ in range(batch)]
        options = dict(
            name="mix%02d" % index, seed=100 + index,
            dim=choose([8, 16, 64, 80]), group=choose([1, 2, 5, 8]), kv_heads=choose([1, 2]),
            q=choose(["f16", "bf16"]), kv=choose([None, "e4m3"]),
            out=choose([None, None, "e4m3"]), lens=lens, q_tokens=q_tokens,
            rows=choose([None, [choose(range(q_tokens + 1)) for _ in lens]]),
            mask=choose([None, "full", "tree", "random"]), strided=choose([False, True]),
            page=choose([1, 7, 16]),
            layout=choose(["nhd", "hnd", "interleaved", "padded", "contiguous"]),
            window=choose([0, 1, 3, 7, 16]), softmax_scale=choose([None, 0.5]),
            softcap=choose([None, None, 1.5]), sinks=choose([False, True]),
            q_scale=choose([None, 0.37]), k_scale=choose([None, 1.9]), v_scale=choose([None, 0.11]),
            per_head=choose([False, True]), out_scale=choose([None, 4.0]),
            lse=choose([True, True, False]))
        if options["mask"]:
            options["window"] = 0
        if options["dim"] == 8:
            options["kv"] = None  # interleaved values must begin at a multiple of 16 bytes
        cases.append(options)
    return cases


def all_cases():
    cases = FEATURES + EDGES + combinations(40)
    names = [case["name"] for case in cases]
    assert len(set(names)) == len(names)
    return [dict(case, seed=case.get("seed", 1000 + index)) for index, case in enumerate(cases)]
