"""What a codec stream can be accused of."""


class CodecError(Exception):
    """Kafka's stream reader rejects these compressed bytes."""

    def __init__(self, detail: str) -> None:
        super().__init__(detail)
        self.detail = detail


class OutputTooLarge(CodecError):  # noqa: N818
    """More bytes come out than the caller is willing to hold."""

    def __init__(self, limit: int) -> None:
        super().__init__(f"decompresses to more than {limit} bytes")
        self.limit = limit

    def __reduce__(self) -> tuple[type["OutputTooLarge"], tuple[int]]:
        return OutputTooLarge, (self.limit,)
