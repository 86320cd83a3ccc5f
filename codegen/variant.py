# SPDX-License-Identifier: Apache-2.0
"""Variants, families and kernels: their names, their keys, and which of them the matrix has.

Names are formatted and parsed here and nowhere else.
"""
import itertools
import re
from dataclasses import dataclass

import matrix

BACKENDS = {"host": 1, "mma_sync": 2, "sm90": 3}  # xqaBackend_t
DTYPES = {"f16": 1, "bf16": 2, "e4m3": 3}  # xqaDtype_t
MAX_SIZE = 65535  # of head_dim and group_size

NAME = re.compile(
    rf"(?P<backend>{'|'.join(BACKENDS)})_d(?P<head_dim>[1-9]\d*)_g(?P<group_size>[1-9]\d*)"
    + "".join(rf"_{letter}(?P<{field}>{'|'.join(DTYPES)})"
              for letter, field in (("q", "q_dtype"), ("kv", "kv_dtype"), ("m", "math_dtype"))))


@dataclass(frozen=True)
class Family:
    """The kernels that serve every group size of a tuple: one for each row tile."""

    backend: str
    head_dim: int
    q_dtype: str
    kv_dtype: str
    math_dtype: str

    def _name(self, rows):
        return (f"{self.backend}_d{self.head_dim}{rows}"
                f"_q{self.q_dtype}_kv{self.kv_dtype}_m{self.math_dtype}")

    @property
    def name(self):
        return self._name("")

    def kernel_name(self, row_tile):
        return self._name(f"_r{row_tile}")


@dataclass(frozen=True)
class Variant:
    """A key, in the matrix or not."""

    backend: str
    head_dim: int
    q_dtype: str
    kv_dtype: str
    math_dtype: str
    group_size: int

    @classmethod
    def from_name(cls, name):
        """The variant of a name; ValueError if it does not follow the grammar."""
        match = NAME.fullmatch(name)
        if not match:
            raise ValueError(f"'{name}' is no variant name; write for example mma_sync_d128_g8_qf16_kve4m3_mf16")
        values = match.groupdict()
        for field in ("head_dim", "group_size"):
            values[field] = int(values[field])
            if values[field] > MAX_SIZE:
                raise ValueError(f"{field} of '{name}' is more than {MAX_SIZE}")
        return cls(**values)

    @property
    def name(self):
        return (f"{self.backend}_d{self.head_dim}_g{self.group_size}"
                f"_q{self.q_dtype}_kv{self.kv_dtype}_m{self.math_dtype}")

    @property
    def packed_key(self):
        return (BACKENDS[self.backend] << 48 | self.head_dim << 32 | DTYPES[self.q_dtype] << 28
                | DTYPES[self.kv_dtype] << 24 | DTYPES[self.math_dtype] << 20 | self.group_size)

    @property
    def family(self):
        """None for a backend that is not made of kernels."""
        if self.backend not in matrix.KERNEL_BACKENDS:
            return None
        return Family(self.backend, self.head_dim, self.q_dtype, self.kv_dtype, self.math_dtype)

    @property
    def code(self):
        """What a GPU finds of the variant: SMs with machine code, then PTX; empty for the host backend."""
        if self.family is None:
            return ""
        sms = " ".join(str(sm) for sm in matrix.SMS[self.kv_dtype])
        return f"{sms} +PTX {matrix.PTX_SM}"


def axis_text(values):
    """The values of an axis in words: every integer of a long run, or a list."""
    if len(values) > 3 and values == tuple(range(values[0], values[-1] + 1)):
        return f"{values[0]} to {values[-1]}"
    return ", ".join(str(value) for value in values)


def reasons(variant):
    """Every reason why the matrix does not have a variant; empty if it has."""
    found = []
    for field in ("head_dim", "group_size", "q_dtype", "kv_dtype", "math_dtype"):
        value, values = getattr(variant, field), matrix.AXES[field]
        if value not in values:
            found.append(f"{field} {value} is not built ({axis_text(values)} are)")
    for excluded, reason in matrix.RULES:
        if all(getattr(variant, field) == value for field, value in excluded.items()):
            found.append(reason)
    return found


def all_variants():
    """The matrix, in the order of the packed keys."""
    tuples = (Variant(*values) for values in itertools.product(*matrix.AXES.values()))
    return sorted((v for v in tuples if not reasons(v)), key=lambda v: v.packed_key)


def nearest(wanted, variants):
    """The variant with the fewest different fields; of these the closest, upwards first."""

    def distance(variant):
        head_dim, group_size = (
            (size < getattr(wanted, field), abs(size - getattr(wanted, field)))
            for field, size in (("head_dim", variant.head_dim), ("group_size", variant.group_size)))
        return (sum(getattr(variant, field) != getattr(wanted, field) for field in matrix.AXES),
                abs(BACKENDS[variant.backend] - BACKENDS[wanted.backend]), head_dim, group_size)

    return min(variants, key=distance)
