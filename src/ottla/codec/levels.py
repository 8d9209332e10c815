"""The compression levels that Kafka's CompressionType allows."""

from typing import Final, NamedTuple

from ottla.errors import OptionError
from ottla.format.attributes import CODEC_NAMES, Codec


class Levels(NamedTuple):
    """The range of a codec's levels, and the one it has unless told."""

    minimum: int
    maximum: int
    default: int


LEVELS: Final[dict[int, Levels]] = {
    Codec.GZIP: Levels(1, 9, -1),
    Codec.LZ4: Levels(1, 17, 9),
    Codec.ZSTD: Levels(-131072, 22, 3),
}


def resolve_level(codec: int, level: int | None) -> int:
    """Return the level to use, the codec's default for None.

    >>> resolve_level(Codec.ZSTD, None), resolve_level(Codec.LZ4, 17)
    (3, 17)
    """
    levels = LEVELS.get(codec)
    if levels is None:
        if level is not None:
            raise OptionError(f"codec {CODEC_NAMES[codec]} has no levels: leave the level out")
        return 0
    if level is None or level == levels.default:
        return levels.default
    if not levels.minimum <= level <= levels.maximum:
        raise OptionError(
            f"level {level} of codec {CODEC_NAMES[codec]} is not in"
            f" {levels.minimum}..{levels.maximum} (default {levels.default})"
        )
    return level
