"""SipHash-2-4 by its paper (Aumasson and Bernstein, 2012), with Python's integers."""

MASK = (1 << 64) - 1


def rotated(word: int, bits: int) -> int:
    return (word << bits | word >> (64 - bits)) & MASK


def siphash_24(first: int, second: int, data: bytes) -> int:
    """The hash of bytes by the two halves of a key."""
    state = [
        first ^ 0x736F6D6570736575,
        second ^ 0x646F72616E646F6D,
        first ^ 0x6C7967656E657261,
        second ^ 0x7465646279746573,
    ]
    whole = data + bytes(7 - len(data) % 8) + bytes([len(data) % 256])
    for at in range(0, len(whole), 8):
        word = int.from_bytes(whole[at : at + 8], "little")
        state[3] ^= word
        half_rounds(state, 2)
        state[0] ^= word
    state[2] ^= 0xFF
    half_rounds(state, 4)
    return state[0] ^ state[1] ^ state[2] ^ state[3]


def half_rounds(state: list[int], rounds: int) -> None:
    """Each round is two halves that differ in the words they pair and in their rotations."""
    for _ in range(rounds):
        for pairs in (((0, 1, 13), (2, 3, 16)), ((2, 1, 17), (0, 3, 21))):
            for one, other, bits in pairs:
                state[one] = (state[one] + state[other]) & MASK
                state[other] = rotated(state[other], bits) ^ state[one]
            turned = pairs[0][0]
            state[turned] = rotated(state[turned], 32)
