"""Damage to files."""


def damage(data, rng):
    """The bytes with something flipped, cut off, inserted, removed, repeated or overwritten."""
    data, n = bytearray(data), len(data)
    i, j = sorted(int(k) for k in rng.integers(0, n + 1, 2))
    match rng.integers(7):
        case 0:  # bits
            for k in rng.integers(0, n, rng.integers(1, 4)):
                data[k] ^= 1 << int(rng.integers(8))
        case 1:  # bytes
            for k in rng.integers(0, n, rng.integers(1, 20)):
                data[k] = int(rng.integers(256))
        case 2:
            del data[i:]
        case 3:
            data[i:i] = rng.bytes(int(rng.integers(1, 100)))
        case 4:
            del data[i : min(j, i + 50)]
        case 5:
            data[i:i] = data[i:j]
        case 6:
            data[i:j] = bytes(j - i)
    return bytes(data)
