"""Writes coefficients.json beside itself: an independent statement of the
coefficient rules in src/generator.rs. Python's standard library only."""
import json
import pathlib

MASK = 2**64 - 1
GAMMA = 0x9E3779B97F4A7C15


def mix(z):
    z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9 & MASK
    z = (z ^ (z >> 27)) * 0x94D049BB133111EB & MASK
    return z ^ (z >> 31)


def uniform(first, index, count):
    key = mix(mix((first + GAMMA) & MASK) ^ (0 * 2**16 + index))
    words = b"".join(mix((key + (k + 1) * GAMMA) & MASK).to_bytes(8, "little") for k in range(32))
    return words[:count]


def mul(a, b):
    product = 0
    while b:
        if b & 1:
            product ^= a
        a, b = a << 1, b >> 1
        if a & 0x100:
            a ^= 0x11D
    return product


def cauchy(index, count):
    row = []
    for j in range(count):
        u = 255 - j
        inverse = next(x for x in range(256) if mul(x, u ^ index) == 1)
        row.append(mul(u, inverse))
    return bytes(row)


vectors = []
for first in (0, 1, 32, 2**32 + 7, 2**64 - 1):
    for index in (0, 1, 255, 256, 65535):
        vectors.append({"generator": 0, "first": str(first), "index": index,
                        "coefficients": uniform(first, index, 255).hex()})
for index in (0, 1, 2, 100, 223):
    vectors.append({"generator": 1, "first": "0", "index": index,
                    "coefficients": cauchy(index, 255 - index).hex()})
all_zero = next(i for i in range(65536) if uniform(0, i, 1) == b"\0")
out = {"comment": "coefficients j = 0, 1, ... in hex, as long as the generator allows; made by coefficients.py",
       "first_index_of_first_0_count_1_that_is_all_zero": all_zero, "vectors": vectors}
pathlib.Path(__file__).with_name("coefficients.json").write_text(json.dumps(out, indent=1) + "\n")
