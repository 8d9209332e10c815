"""Functions of C libraries by their address: all that are asked for, or none."""

import ctypes
import gc
import os

import pytest

from ottla.codec.library import Workspace, find_functions


def test_of_a_library_that_hides_one_function_none_is_found() -> None:
    assert find_functions("zlib", "inflate", "inflate_by_magic") == (0, 0)
    assert find_functions("no_such_module", "inflate", "inflateReset") == (0, 0)


def test_functions_of_a_module_that_is_built_in_are_those_of_the_process() -> None:
    (address,) = find_functions("posix", "getpid")  # as zlib is in Debian's Python
    assert address
    assert ctypes.CFUNCTYPE(ctypes.c_int)(address)() == os.getpid()


def test_a_workspace_is_freed_once_when_nobody_has_it() -> None:
    freed: list[int] = []
    workspace = Workspace(1, lambda: freed.append(1))
    assert not freed
    del workspace
    gc.collect()
    assert freed == [1]


def test_a_workspace_without_memory_is_refused() -> None:
    with pytest.raises(MemoryError):
        Workspace(0, list)
