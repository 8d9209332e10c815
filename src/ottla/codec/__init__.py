"""Compressed bytes to bytes, and back: Kafka's framing around the blocks of libraries.

Each codec is a module with four functions. `open_stream` rejects what the constructor of
Kafka's stream rejects, `decompress` what reading the stream to its end rejects, `compress_into`
writes the stream that Kafka would. `decompress_rows` opens many usual ones in one go.

Reading to the end gives Kafka's verdict although Kafka reads lazily: after the last record it
asks for one byte more, so an error in the bytes behind it and a byte too many both reject the
batch. Only a batch of magic 2 with a count of zero is opened and never read.
"""

from ottla.codec.arena import Arena
from ottla.codec.errors import CodecError, OutputTooLarge
from ottla.codec.levels import resolve_level
from ottla.codec.streams import (
    compress,
    compress_into,
    decompress_into,
    open_stream,
    room_to_compress,
)
from ottla.codec.window import DecompressedRows, decompress_window

__all__ = [
    "Arena",
    "CodecError",
    "DecompressedRows",
    "OutputTooLarge",
    "compress",
    "compress_into",
    "decompress_into",
    "decompress_window",
    "open_stream",
    "resolve_level",
    "room_to_compress",
]
