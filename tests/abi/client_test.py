# SPDX-License-Identifier: Apache-2.0
"""A Python user with nothing but ctypes: attention on the host backend against numbers worked out by hand.

usage: client_test.py LIBRARY
"""
import ctypes
import math
import struct
import sys

F16, BF16, E4M3 = 1, 2, 3
SUCCESS, INVALID_ARGUMENT, SHAPE_UNSUPPORTED = 0, 1, 4


def structure(name, *fields):
    members = [("struct_size", ctypes.c_size_t), *fields]

    def __init__(self, **values):
        ctypes.Structure.__init__(self, struct_size=ctypes.sizeof(type(self)), **values)

    return type(name, (ctypes.Structure,), {"_fields_": members, "__init__": __init__})


def ints(*names):
    return [(name, ctypes.c_int32) for name in names]


def pointers(*names):
    return [(name, ctypes.c_void_p) for name in names]


Strides = ctypes.c_int64 * 3
Key = structure("Key", *ints("head_dim", "group_size", "q_dtype", "kv_dtype", "math_dtype", "backend"))
Shape = structure(
    "Shape",
    *ints("batch", "q_tokens", "num_q_heads", "num_kv_heads", "page_tokens", "max_pages"),
    ("page_table_stride", ctypes.c_int64),
    *((name, Strides) for name in ("q_strides", "out_strides", "k_strides", "v_strides")),
    *ints("out_dtype", "window"),
    ("softmax_scale", ctypes.c_float), ("softcap", ctypes.c_float),
    *ints("q_scale_stride", "k_scale_stride", "v_scale_stride", "reserved"))
Args = structure(
    "Args",
    *pointers("q", "q_offsets", "k_cache", "v_cache", "page_table", "seq_lens", "sinks", "mask",
              "q_scale", "k_scale", "v_scale", "out", "out_scale", "lse", "workspace"),
    ("workspace_bytes", ctypes.c_size_t), ("flags", ctypes.c_uint32), ("reserved", ctypes.c_uint32))
Diagnostic = structure("Diagnostic", *ints("cuda_error", "reserved"), ("message", ctypes.c_char * 240))


class Buffer:
    """Memory aligned to 256 bytes."""

    def __init__(self, data):
        self.size = len(data)
        self.store = (ctypes.c_char * (self.size + 256))()
        self.address = (ctypes.addressof(self.store) + 255) // 256 * 256
        ctypes.memmove(self.address, data, self.size)

    def read(self, letter):
        return [x[0] for x in struct.iter_unpack(letter, ctypes.string_at(self.address, self.size))]


def pack(letter, values):
    return struct.pack(f"{len(values)}{letter}", *values)


def expect_close(found, wanted, tolerance=2e-3):
    assert len(found) == len(wanted), (found, wanted)
    for a, b in zip(found, wanted):
        assert abs(a - b) <= tolerance * max(1.0, abs(b)), (found, wanted)


def row(*values):
    """A head of 8 elements: the given ones, then zeros."""
    return list(values) + [0.0] * (8 - len(values))


def decode(library, shape, args, **key):
    diagnostic = Diagnostic()
    key = Key(head_dim=8, group_size=2, q_dtype=F16, **key)
    status = library.xqaDecodeHost(ctypes.byref(key), ctypes.byref(shape), ctypes.byref(args),
                                   ctypes.byref(diagnostic))
    return status, diagnostic.message.decode()


def attention(library):
    """One request, two query heads on one KV head, three tokens in pages of two, shuffled.

    q0 = 1 and q1 = 0 against k = ln 1, ln 2, ln 5 (softmax_scale 1): weights 1/8, 2/8, 5/8 and 1/3 each.
    v = 8, 16, 32: out0 = 1 + 4 + 20 = 25, lse0 = ln 8; out1 = 56/3, lse1 = ln 3. With a sink of ln 8 on
    head 0 its denominator is 16: out0 = 12.5, lse0 = ln 16.
    """
    logs = [math.log(1), math.log(2), math.log(5)]
    poison = row(*[float("nan")] * 8)
    q = Buffer(pack("e", row(1.0) + row()))
    # Pool of pages [page][token]: page 0 holds token 2 and an unused slot, page 1 tokens 0 and 1.
    k = Buffer(pack("e", row(logs[2]) + poison + row(logs[0]) + row(logs[1])))
    v = Buffer(pack("e", row(32.0, 1.0) + poison + row(8.0, 1.0) + row(16.0, 1.0)))
    out, lse = Buffer(b"\xff" * 32), Buffer(b"\xff" * 8)
    table, lengths = Buffer(pack("i", [1, 0, -1])), Buffer(pack("i", [3]))
    shape = Shape(batch=1, num_q_heads=2, num_kv_heads=1, page_tokens=2, max_pages=3, softmax_scale=1.0)
    args = Args(q=q.address, k_cache=k.address, v_cache=v.address, page_table=table.address,
                seq_lens=lengths.address, out=out.address, lse=lse.address)
    assert decode(library, shape, args) == (SUCCESS, "")
    expect_close(out.read("e"), row(25.0, 1.0) + row(56.0 / 3.0, 1.0))
    expect_close(lse.read("f"), [math.log(8), math.log(3)])

    sinks = Buffer(pack("f", [math.log(8), float("-inf")]))
    args.sinks = sinks.address
    assert decode(library, shape, args) == (SUCCESS, "")
    expect_close(out.read("e"), row(12.5, 0.5) + row(56.0 / 3.0, 1.0))
    expect_close(lse.read("f"), [math.log(16), math.log(3)])

    args.sinks = None
    shape.window = 1  # only the query's own token
    assert decode(library, shape, args) == (SUCCESS, "")
    expect_close(out.read("e"), row(32.0, 1.0) * 2)


def e4m3_cache(library):
    """Two tokens, equal logits, v_scale 3: out = 3 * (1 + 2) / 2. e4m3: 0x38 is 1, 0x40 is 2."""
    q, k = Buffer(pack("e", row() + row())), Buffer(bytes(16))
    v = Buffer(bytes([0x38] * 8 + [0x40] * 8))
    out, lengths, scale = Buffer(b"\xff" * 32), Buffer(pack("i", [2])), Buffer(pack("f", [3.0]))
    shape = Shape(batch=1, num_q_heads=2, num_kv_heads=1, page_tokens=2)
    args = Args(q=q.address, k_cache=k.address, v_cache=v.address, seq_lens=lengths.address,
                v_scale=scale.address, out=out.address)
    assert decode(library, shape, args, kv_dtype=E4M3) == (SUCCESS, "")
    expect_close(out.read("e"), [4.5] * 16)


def refusals(library):
    shape = Shape(batch=1, num_q_heads=3, num_kv_heads=1, page_tokens=2)
    assert decode(library, shape, Args()) == (
        SHAPE_UNSUPPORTED, "num_q_heads is 3: it must be num_kv_heads * group_size = 2")
    shape.num_q_heads = 2
    assert decode(library, shape, Args()) == (INVALID_ARGUMENT, "q is NULL: it is required")


def main():
    library = ctypes.CDLL(sys.argv[1], mode=ctypes.RTLD_LOCAL)
    library.xqaGetBuildInfo.restype = ctypes.c_char_p
    print(library.xqaGetBuildInfo().decode())
    attention(library)
    e4m3_cache(library)
    refusals(library)


if __name__ == "__main__":
    main()
