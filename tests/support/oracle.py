#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Decode attention computed a second time, from the text of the specification, in plain Python.

It shares nothing with the library: number formats are tables of values, attention is dense over
all slots of a request with a visibility test for each element, sums are exact (math.fsum), and the
results come from the data itself, not from its image in pages.

    oracle.py          writes fixtures/oracle.txt (an index) and fixtures/oracle.bin
    oracle.py --check  computes them again and compares with the files
"""

import bisect
import math
import operator
import pathlib
import random
import struct
import sys

import oracle_cases

FIXTURES = pathlib.Path(__file__).resolve().parent / "fixtures"
NAN = math.nan
INF = math.inf


class Format:
    """A number format, as the table of its values by code."""

    def __init__(self, name, bits, decode, nan_code, saturates):
        self.name = name
        self.bytes = bits // 8
        self.sign = 1 << (bits - 1)
        self.nan_code = nan_code
        self.values = [decode(code) for code in range(1 << bits)]
        finite = [v for v in self.values[: self.sign] if math.isfinite(v)]
        assert finite == sorted(finite)
        self.finite = finite  # positive, by code
        self.overflow = len(finite) - 1 if saturates else len(finite)

    def encode(self, value):
        """Nearest, ties to the even code: by search in the table of values."""
        if math.isnan(value):
            return self.nan_code
        sign = self.sign if math.copysign(1.0, value) < 0 else 0
        size = abs(value)
        above = bisect.bisect_left(self.finite, size)
        if above < len(self.finite) and self.finite[above] == size:
            return sign | above
        below = above - 1
        # Midpoints are exact: values have few bits. Beyond the last value its step goes on.
        if above < len(self.finite):
            upper = self.finite[above]
        else:
            upper = 2 * self.finite[-1] - self.finite[-2]
        middle = (self.finite[below] + upper) / 2
        code = above if size > middle or (size == middle and above % 2 == 0) else below
        return sign | (code if code < len(self.finite) else self.overflow)

    def pack(self, codes):
        return struct.pack("<%d%s" % (len(codes), "B" if self.bytes == 1 else "H"), *codes)


def decode_f16(code):
    return struct.unpack("<e", struct.pack("<H", code))[0]


def decode_bf16(code):
    return struct.unpack("<f", struct.pack("<I", code << 16))[0]


def decode_e4m3(code):
    exponent, mantissa = code >> 3 & 15, code & 7
    sign = -1.0 if code & 0x80 else 1.0
    if exponent == 15 and mantissa == 7:
        return NAN
    if exponent == 0:
        return sign * mantissa * 2.0**-9
    return sign * (8 + mantissa) * 2.0 ** (exponent - 10)


FORMATS = {
    "f16": Format("f16", 16, decode_f16, 0x7E00, False),
    "bf16": Format("bf16", 16, decode_bf16, 0x7FC0, False),
    "e4m3": Format("e4m3", 8, decode_e4m3, 0x7F, True),
}


def f32(value):
    return struct.unpack("<f", struct.pack("<f", value))[0]


def total(terms):
    """The exact sum, rounded once; plain addition where a term is not finite."""
    terms = list(terms)
    if all(map(math.isfinite, terms)):
        return math.fsum(terms)
    return sum(terms)


class Rng:
    def __init__(self, seed):
        self.random = random.Random(seed)

    def normal(self):
        # A sum of uniform numbers: exact arithmetic, so the same on every platform.
        return (sum(self.random.random() for _ in range(4)) - 2.0) * math.sqrt(3.0)

    def below(self, count):
        # random() alone is promised to stay the same in later versions of Python.
        return int(self.random.random() * count)

    def shuffled(self, count):
        return sorted(range(count), key=lambda _: self.random.random())

    def codes(self, fmt, count, deviation):
        return [fmt.encode(deviation * self.normal()) for _ in range(count)]


class Case:
    """A problem and its data: q[request][token][head], k and v[request][slot][kv head]."""

    def __init__(self, options):
        self.o = dict(oracle_cases.DEFAULTS)
        unknown = set(options) - set(self.o)
        assert not unknown, unknown
        self.o.update(options)
        o = self.o
        self.name = o["name"]
        self.q_format = FORMATS[o["q"]]
        self.kv_format = FORMATS[o["kv"] or o["q"]]
        self.out_format = FORMATS[o["out"] or o["q"]]
        self.kv_heads = o["kv_heads"]
        self.heads = o["group"] * o["kv_heads"]
        self.rows = o["rows"] or [o["q_tokens"]] * len(o["lens"])
        longest = max(max(o["lens"]), 0)
        if o["layout"] == "contiguous":
            self.page_tokens, self.max_pages = longest + 3, 1
        else:
            self.page_tokens = o["page"]
            self.max_pages = o["max_pages"] or -(-longest // o["page"]) + 1
        capacity = self.page_tokens * self.max_pages
        self.lens = [min(max(length, 0), capacity) for length in o["lens"]]
        rng = Rng(o["seed"])
        dim = o["dim"]
        self.q = [[[rng.codes(self.q_format, dim, 1.0) for _ in range(self.heads)]
                   for _ in range(n)] for n in self.rows]
        self.k = self.cache(rng, dim)
        self.v = self.cache(rng, dim)
        self.sinks = [f32(2.0 + rng.normal()) for _ in range(self.heads)] if o["sinks"] else None
        if isinstance(o["sinks"], list):
            self.sinks = [o["sinks"][h % len(o["sinks"])] for h in range(self.heads)]
        self.mask = [self.request_mask(rng, n) for n in self.rows] if o["mask"] else None
        names = ("q_scale", "k_scale", "v_scale", "out_scale")
        self.scales = {name: self.scale(name) for name in names}
        for edit in o["edits"]:
            edit(self)

    def cache(self, rng, dim):
        return [[[rng.codes(self.kv_format, dim, 0.5) for _ in range(self.kv_heads)]
                 for _ in range(length)] for length in self.lens]

    def request_mask(self, rng, n):
        rows = []
        for i in range(n):
            if self.o["mask"] == "full":
                rows.append(set(range(n)))
            elif self.o["mask"] == "tree":
                parent = rows[rng.below(i)] if i else set()
                rows.append(parent | {i})
            else:  # random: some rows see no draft token, some draft tokens are not seen
                rows.append({j for j in range(n) if rng.below(2)})
        return rows

    def scale(self, name):
        value = self.o[name]
        if value is None:
            return None
        count = self.kv_heads if self.o["per_head"] and name != "out_scale" else 1
        return [f32(value * (1 + 0.3 * h)) for h in range(count)]

    def scale_of(self, name, kv_head):
        scale = self.scales[name]
        return 1.0 if scale is None else scale[kv_head if len(scale) > 1 else 0]

    # The specification.

    def visible(self, b, i, t):
        n, length, window = self.rows[b], self.lens[b], self.o["window"]
        position = length - n + i
        if position < 0:
            return False
        if t < length - n:
            seen = True
        else:
            draft = t - (length - n)
            seen = draft in self.mask[b][i] if self.mask else draft <= i
        return seen and (window == 0 or t > position - window)

    def attend(self, b, i, h, keys, values):
        """(out before rounding, lse) of one row; keys and values: [slot][dim] of its KV head."""
        o = self.o
        dim = o["dim"]
        g = h // o["group"]
        slots = [t for t in range(self.lens[b]) if self.visible(b, i, t)]
        sink = self.sinks[h] if self.sinks else -INF
        if not slots:
            return [0.0] * dim, sink
        scale = f32(o["softmax_scale"] or 1.0 / math.sqrt(dim))
        scale *= self.scale_of("q_scale", g) * self.scale_of("k_scale", g)
        query = [self.q_format.values[c] for c in self.q[b][i][h]]
        logits = [scale * total(map(operator.mul, query, keys[t])) for t in slots]
        if o["softcap"]:
            cap = f32(o["softcap"])
            logits = [cap * math.tanh(s / cap) for s in logits]
        m = max([s for s in logits + [sink] if not math.isnan(s)], default=-INF)
        weights = [0.0 if s == -INF else math.exp(s - m) for s in logits]
        denominator = total(weights + [0.0 if sink == -INF else math.exp(sink - m)])
        out_scale = self.scale_of("out_scale", 0) * self.scale_of("v_scale", g)
        out = []
        for d in range(dim):
            numerator = total(w * values[t][d] for w, t in zip(weights, slots))
            out.append(out_scale * (numerator / denominator if denominator else numerator))
        return out, m + math.log(denominator) if denominator else -INF

    def results(self):
        """Packed out codes and lse values of all rows."""
        codes, lse = [], []
        for b, n in enumerate(self.rows):
            decoded = [[[[self.kv_format.values[c] for c in slot[g]] for slot in cache[b]]
                        for g in range(self.kv_heads)] for cache in (self.k, self.v)]
            for i in range(n):
                for h in range(self.heads):
                    g = h // self.o["group"]
                    row, row_lse = self.attend(b, i, h, decoded[0][g], decoded[1][g])
                    codes += [self.out_format.encode(value) for value in row]
                    lse.append(row_lse)
        return codes, lse

    # The memory image.

    def cache_strides(self, extra):
        """(page, token, head) strides; `extra` sizes the gaps of the padded layout."""
        dim, heads, page_tokens = self.o["dim"], self.kv_heads, self.page_tokens
        layout = self.o["layout"]
        if layout == "hnd":
            return (heads * page_tokens * dim, dim, page_tokens * dim)
        if layout == "padded":
            head = dim + 16 * extra
            token = heads * head + 32
            return (page_tokens * token + 16, token, head)
        page = page_tokens * heads * dim
        return (page * (2 if layout == "interleaved" else 1), heads * dim, dim)

    def place(self, rng):
        """Page of every (request, page index) with a visible slot; number of pages in the pool."""
        if self.o["layout"] == "contiguous":
            return {(b, 0): b for b in range(len(self.lens))}, len(self.lens)
        used = []
        for b, length in enumerate(self.lens):
            seen = {t // self.page_tokens for t in range(length) for i in range(self.rows[b])
                    if self.visible(b, i, t)}
            used += [(b, page) for page in sorted(seen)]
        ids = rng.shuffled(len(used) + 1)
        return dict(zip(used, ids)), len(ids)

    def fill_pool(self, pool, base, cache, pages, strides):
        for (b, page), page_id in pages.items():
            for slot in range(self.page_tokens):
                t = page * self.page_tokens + slot
                if t >= self.lens[b] or not any(self.visible(b, i, t) for i in range(self.rows[b])):
                    continue  # the pool stays NaN here
                for g in range(self.kv_heads):
                    at = base + page_id * strides[0] + slot * strides[1] + g * strides[2]
                    pool[at : at + self.o["dim"]] = cache[b][t][g]

    def emit(self, blobs):
        """The index lines of the case; its buffers go to blobs."""
        o = self.o
        rng = Rng(o["seed"] + 1)
        batch, dim = len(self.lens), o["dim"]
        pages, page_count = self.place(rng)
        k_strides, v_strides = self.cache_strides(1), self.cache_strides(2)
        interleaved = o["layout"] == "interleaved"
        v_base = k_strides[0] // 2 if interleaved else 0
        nan = self.kv_format.nan_code | (self.kv_format.sign if o["seed"] % 2 else 0)
        k_pool = [nan] * (page_count * k_strides[0])
        v_pool = k_pool if interleaved else [nan] * (page_count * v_strides[0])
        self.fill_pool(k_pool, 0, self.k, pages, k_strides)
        self.fill_pool(v_pool, v_base, self.v, pages, v_strides)

        table_stride = self.max_pages + 1
        table = []
        if o["layout"] != "contiguous":
            table = [(-1, 0x7FFFFFFF)[i % 2] for i in range(batch * table_stride)]
            for (b, page), page_id in pages.items():
                table[b * table_stride + page] = page_id

        q_head, q_token = dim, self.heads * dim
        out_head, out_token = dim, self.heads * dim
        if o["strided"]:  # q is a slice of packed QKV, rows of out have gaps
            q_token = (self.heads + 2 * self.kv_heads) * dim
            out_head, out_token = dim + 8, self.heads * (dim + 8) + 16
        total_rows = sum(self.rows)
        q = [self.q_format.nan_code] * (max(total_rows, 1) * q_token)
        row = 0
        for request in self.q:
            for token in request:
                for h, codes in enumerate(token):
                    at = row * q_token + h * q_head
                    q[at : at + dim] = codes
                row += 1

        words = (o["q_tokens"] + 31) // 32
        mask = []
        for sets in self.mask or []:
            for seen in sets:
                bits = sum(1 << j for j in seen)
                mask += [bits >> (32 * w) & 0xFFFFFFFF for w in range(words)]
        offsets = [sum(self.rows[:b]) for b in range(batch + 1)] if o["rows"] else []
        out_codes, lse = self.results()

        fields = {
            "head_dim": dim, "group_size": o["group"], "q_dtype": o["q"],
            "kv_dtype": self.kv_format.name, "out_dtype": self.out_format.name,
            "batch": batch, "q_tokens": o["q_tokens"], "num_kv_heads": self.kv_heads,
            "page_tokens": self.page_tokens, "max_pages": self.max_pages,
            "page_table_stride": table_stride, "total_rows": total_rows,
            "q_strides": (o["q_tokens"] * q_token, q_token, q_head),
            "out_strides": (o["q_tokens"] * out_token, out_token, out_head),
            "k_strides": k_strides, "v_strides": v_strides, "v_offset": v_base,
            "window": o["window"], "softmax_scale": f32(o["softmax_scale"] or 0.0),
            "softcap": f32(o["softcap"] or 0.0), "per_head_scales": int(o["per_head"]),
        }
        buffers = {
            "q": self.q_format.pack(q),
            "k_pool": self.kv_format.pack(k_pool),
            "v_pool": b"" if interleaved else self.kv_format.pack(v_pool),
            "page_table": struct.pack("<%di" % len(table), *table),
            "seq_lens": struct.pack("<%di" % batch, *o["lens"]),
            "q_offsets": struct.pack("<%di" % len(offsets), *offsets),
            "mask": struct.pack("<%dI" % len(mask), *mask),
            "sinks": struct.pack("<%df" % self.heads, *self.sinks) if self.sinks else b"",
            "out": self.out_format.pack(out_codes),
            "lse": struct.pack("<%df" % len(lse), *lse) if o["lse"] else b"",
        }
        for name, scale in self.scales.items():
            buffers[name] = struct.pack("<%df" % len(scale), *scale) if scale else b""

        lines = ["case %s" % self.name]
        for name, value in fields.items():
            text = " ".join(map(str, value)) if isinstance(value, tuple) else str(value)
            lines.append("  %s %s" % (name, text))
        for name, data in buffers.items():
            if data:
                lines.append("  buffer %s %d %d" % (name, len(blobs), len(data)))
                blobs += data
        return lines


def main():
    blobs = bytearray()
    lines = ["# SPDX-License-Identifier: Apache-2.0",
             "# Written by oracle.py. Strides: batch or page, token, head.",
             "# Buffers: offset and bytes in oracle.bin."]
    for options in oracle_cases.all_cases():
        lines += Case(options).emit(blobs)
    files = {"oracle.txt": ("\n".join(lines) + "\n").encode(), "oracle.bin": bytes(blobs)}
    if sys.argv[1:] == ["--check"]:
        stale = [name for name, data in files.items() if (FIXTURES / name).read_bytes() != data]
        if stale:
            sys.exit("differs from what oracle.py computes: %s" % ", ".join(stale))
        return
    if sys.argv[1:]:
        sys.exit(__doc__)
    FIXTURES.mkdir(exist_ok=True)
    for name, data in files.items():
        (FIXTURES / name).write_bytes(data)
        print("%s: %d bytes" % (name, len(data)))


if __name__ == "__main__":
    main()
